"""Runs reads that a sick driver may never return from: with a deadline on threads, or directly."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Generic, Protocol, TypeVar

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
        """`deadline_seconds` is real time, whatever the clock's speed."""
        self._deadline_seconds = deadline_seconds
        self._clock = clock
        self._late: dict[Hashable, tuple[Future[object], float]] = {}
        self._worker = _Worker()

    def answers(self, reads: Mapping[K, Callable[[], T]]) -> dict[K, Answer[T]]:
        """Run the reads in order and say what came of each."""
        found: dict[K, Answer[T]] = {}
        for key in reads:
            if (silent_seconds := self._silent_seconds(key)) is not None:
                found[key] = Answer(silent_seconds=silent_seconds)
        ready = [(key, read) for key, read in reads.items() if key not in found]
        while ready:
            key, read = ready.pop(0)
            found[key] = self._finished(key, self._worker.submit(read), self._deadline_seconds)
            if found[key].silent_seconds is not None:
                self._worker.leave()
                self._worker = _Worker()
                found |= self._side_by_side(ready)
                break
        return {key: found[key] for key in reads}

    def is_waiting(self) -> bool:
        """Whether a read of an earlier time is still inside the driver."""
        return any(not future.done() for future, _ in self._late.values())

    def _side_by_side(self, reads: list[tuple[K, Callable[[], T]]]) -> dict[K, Answer[T]]:
        workers = [(key, _Worker(), read) for key, read in reads]
        pending = [(key, worker.submit(read)) for key, worker, read in workers]
        for _, worker, _ in workers:
            worker.leave()
        ends_at = self._clock.monotonic_seconds() + self._deadline_seconds
        return {
            key: self._finished(key, future, max(ends_at - self._clock.monotonic_seconds(), 0.0))
            for key, future in pending
        }

    def _silent_seconds(self, key: Hashable) -> float | None:
        late = self._late.get(key)
        if late is None:
            return None
        future, since_seconds = late
        if future.done():  # back again: what it says is old, so it is asked anew
            del self._late[key]
            return None
        return self._clock.monotonic_seconds() - since_seconds

    def _finished(self, key: K, future: Future[T], patience_seconds: float) -> Answer[T]:
        started = self._clock.monotonic_seconds()
        try:
            return Answer(value=future.result(timeout=patience_seconds))
        except CollectError as error:
            return Answer(error=error)
        except TimeoutError:
            self._late[key] = (future, started)  # type: ignore[assignment]
            return Answer(silent_seconds=self._clock.monotonic_seconds() - started)


class _Worker:
    """One thread that runs what it is given until it is left; a daemon, so that a hung call cannot keep us alive."""

    def __init__(self) -> None:
        self._work: SimpleQueue[tuple[Future[object], Callable[[], object]] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def submit(self, read: Callable[[], T]) -> Future[T]:
        """Queue one read."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, name="nvml", daemon=True)
            self._thread.start()
        future: Future[T] = Future()
        self._work.put((future, read))  # type: ignore[arg-type]
        return future

    def leave(self) -> None:
        """Let the thread end when it has done what it was given."""
        self._work.put(None)

    def _run(self) -> None:
        while (item := self._work.get()) is not None:
            future, read = item
            try:
                future.set_result(read())
            except CollectError as error:
                future.set_exception(error)
            except BaseException as error:
                self._thread = None  # before whoever waits goes on: the next read needs a new thread
                future.set_exception(error)
                raise
