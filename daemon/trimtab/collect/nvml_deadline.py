"""Runs reads that a sick driver may never return from: with a deadline on threads, or directly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Generic, Protocol, TypeVar

from trimtab.clock import Clock
from trimtab.errors import CollectError

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer(Generic[T]):
    """What came of one read: a value, an error, or silence for so long."""

    value: T | None = None
    error: CollectError | None = None
    silent_seconds: float | None = None


class Reader(Protocol):
    """Runs reads by key; a key is one thing that can hang by itself."""

    def answers(self, reads: Mapping[K, Callable[[], T]]) -> dict[K, Answer[T]]:
        """Run the reads in order and say what came of each."""
        ...

    def is_waiting(self) -> bool:
        """Whether a read of an earlier time is still inside the driver."""
        ...


class DirectReader:
    """Runs reads on the caller's thread: for a driver that cannot hang."""

    def answers(self, reads: Mapping[K, Callable[[], T]]) -> dict[K, Answer[T]]:
        """Run the reads in order and say what came of each."""
        return {key: _direct(read) for key, read in reads.items()}

    def is_waiting(self) -> bool:
        """Never."""
        return False


def _direct(read: Callable[[], T]) -> Answer[T]:
    try:
        return Answer(value=read())
    except CollectError as error:
        return Answer(error=error)


class ThreadReader:
    """Runs reads one after the other on one thread, since drivers serialise them anyway, and waits only so long.

    A read that is late keeps its thread, and its key is silent until it returns. The reads behind it in that
    round then run side by side, so that one round takes two deadlines at most however many GPUs hang.
    """

    def __init__(self, *, deadline_seconds: float, clock: Clock) -> None:
        """`deadline_seconds` are the clock's: give it one that runs with the wall."""
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._late: dict[Hashable, tuple[threading.Event, float]] = {}
        self._worker = _Worker(clock)

    def answers(self, reads: Mapping[K, Callable[[], T]]) -> dict[K, Answer[T]]:
        """Run the reads in order and say what came of each."""
        found: dict[K, Answer[T]] = {}
        for key in reads:
            if (silent_seconds := self._silent_seconds(key)) is not None:
                found[key] = Answer(silent_seconds=silent_seconds)
        ready = {key: read for key, read in reads.items() if key not in found}
        first = self._worker.start(ready)
        left = self._waited(first)
        found |= first.answers
        if left:
            self._worker.leave()
            self._worker = _Worker(self._clock)
            found |= self._side_by_side({key: reads[key] for key in left})
        return {key: found[key] for key in reads}

    def is_waiting(self) -> bool:
        """Whether a read of an earlier time is still inside the driver."""
        return any(not returned.is_set() for returned, _ in self._late.values())

    def _waited(self, round_: _Round[K, T]) -> list[K]:
        """Wait until the round is over or one read is late; returns the keys that it did not come to."""
        while not round_.is_over.wait(max(self._deadline_seconds - round_.current_seconds(), 0.001)):
            if round_.current_seconds() < self._deadline_seconds:
                continue
            late = round_.abandon()
            if late is not None:
                seconds = round_.current_seconds()
                self._late[late] = (round_.is_over, self._clock.monotonic_seconds() - seconds)
                round_.answers[late] = Answer(silent_seconds=seconds)
                return [key for key in round_.reads if key not in round_.answers]
        if round_.failure is not None:
            raise round_.failure
        return []

    def _side_by_side(self, reads: Mapping[K, Callable[[], T]]) -> dict[K, Answer[T]]:
        rounds = []
        for key, read in reads.items():
            worker = _Worker(self._clock)
            rounds.append(worker.start({key: read}))
            worker.leave()
        found: dict[K, Answer[T]] = {}
        for round_ in rounds:
            self._waited(round_)
            found |= round_.answers
        return found

    def _silent_seconds(self, key: Hashable) -> float | None:
        late = self._late.get(key)
        if late is None:
            return None
        returned, since_seconds = late
        if returned.is_set():  # back again: what it said is old, so it is asked anew
            del self._late[key]
            return None
        return self._clock.monotonic_seconds() - since_seconds


class _Round(Generic[K, T]):
    """Reads that one thread runs in order, until the one who waits abandons it."""

    def __init__(self, reads: Mapping[K, Callable[[], T]], clock: Clock) -> None:
        self.reads = dict(reads)
        self.answers: dict[K, Answer[T]] = {}
        self.failure: BaseException | None = None
        self.is_over = threading.Event()
        self._clock = clock
        self._lock = threading.Lock()
        self._current: K | None = None
        self._started_seconds = clock.monotonic_seconds()
        self._is_abandoned = False

    def run(self) -> None:
        """Run the reads; called on the worker's thread."""
        for key, read in self.reads.items():
            if not self._begin(key):
                return
            answer = _direct(read)
            with self._lock:
                if self._is_abandoned:
                    return
                self.answers[key] = answer
                self._current = None

    def abandon(self) -> K | None:
        """Stop after the read under way, and name it; None when there is none and the round goes on."""
        with self._lock:
            self._is_abandoned = self._current is not None
            return self._current

    def current_seconds(self) -> float:
        """How long the read under way has taken."""
        return self._clock.monotonic_seconds() - self._started_seconds

    def _begin(self, key: K) -> bool:
        with self._lock:
            self._current, self._started_seconds = key, self._clock.monotonic_seconds()
            return not self._is_abandoned


class _Worker:
    """One thread that runs rounds until it is left; a daemon, so that a hung call cannot keep us alive."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._rounds: SimpleQueue[_Round[Any, Any] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def start(self, reads: Mapping[K, Callable[[], T]]) -> _Round[K, T]:
        """Begin a round."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
            self._thread.start()
        round_ = _Round(reads, self._clock)
        self._rounds.put(round_)
        return round_

    def leave(self) -> None:
        """Let the thread end when it has done what it was given."""
        self._rounds.put(None)

    def _run(self) -> None:
        while (round_ := self._rounds.get()) is not None:
            try:
                round_.run()
            except BaseException as error:
                self._thread = None  # before whoever waits goes on: the next round needs a new thread
                round_.failure = error
                raise
            finally:
                round_.is_over.set()
