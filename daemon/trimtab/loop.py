"""A beat: calls one function at a steady interval on its own thread; a late beat is dropped and counted."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import structlog

from trimtab.clock import Clock
from trimtab.errors import TrimtabError

log = structlog.get_logger()


class _Here(threading.local):
    """What this thread is about."""

    beat: Beat | None = None
    start: Callable[[str], None] | None = None


_here = _Here()


def moving(at: str) -> None:
    """Long work says where it is: that is progress, and should it come no further, the name of what hangs."""
    if _here.beat is not None:
        _here.beat.move(at)
    elif _here.start is not None:
        _here.start(at)


@contextlib.contextmanager
def starting(told: Callable[[str], None]) -> Iterator[None]:
    """While this thread puts the process together, `told` hears of its progress: migrations, what is read back."""
    _here.start = told
    try:
        yield
    finally:
        _here.start = None


class Beat:
    """Runs `tick` every `interval_seconds` of `clock` until stopped, and says its sentence once a beat."""

    def __init__(self, name: str, tick: Callable[[], str], *, interval_seconds: float, clock: Clock) -> None:
        """Prepare the beat; `start` runs it on a thread, `run_once` runs it here."""
        self.name = name
        self.interval_seconds = interval_seconds
        self.beats_total = 0
        self.failures_total = 0
        self.dropped_total = 0
        self.last_sentence = ""
        self.last_beat_at_seconds: float | None = None
        self.last_duration_seconds = 0.0
        self.is_failing = False
        """Whether the last beat failed; its sentence says why."""
        self.at = ""
        """Where the running beat has got to, as what it runs says by `moving`; empty between beats."""
        self._moved_at_seconds: float | None = None
        self._tick = tick
        self._clock = clock
        self._stop = threading.Event()
        self._woken = threading.Event()
        self._thread: threading.Thread | None = None
        self._started_at_seconds: float | None = None
        self._failing_since_seconds: float | None = None

    def run_once(self) -> str:
        """One beat now; a TrimtabError becomes the beat's sentence and the others go on."""
        started = self._clock.monotonic_seconds()
        _here.beat = self
        try:
            self._say(self._tick())
        except TrimtabError as error:
            self.failures_total += 1
            self._say_failure(str(error))
        finally:
            _here.beat = None
        self.at = ""
        self.beats_total += 1
        self.last_beat_at_seconds = self._clock.monotonic_seconds()
        self.last_duration_seconds = self.last_beat_at_seconds - started
        return self.last_sentence

    @property
    def quiet_seconds(self) -> float | None:
        """Since the last beat ended, began, or got on within it; None = not started."""
        moments = (self._started_at_seconds, self.last_beat_at_seconds, self._moved_at_seconds)
        since = max((one for one in moments if one is not None), default=None)
        return None if since is None else self._clock.monotonic_seconds() - since

    def pace(self, interval_seconds: float) -> None:
        """Another interval from now on: a beat that waits out the old one is woken, and is quiet by the new one."""
        if interval_seconds == self.interval_seconds:
            return
        self.interval_seconds = interval_seconds
        if self._started_at_seconds is not None:
            self._moved_at_seconds = self._clock.monotonic_seconds()
        self._woken.set()

    def move(self, at: str) -> None:
        """The running beat gets on: it is at this now. Slow work that says so is no hang."""
        self.at, self._moved_at_seconds = at, self._clock.monotonic_seconds()

    @property
    def failing_seconds(self) -> float | None:
        """Since the first of the failures that have not ended; None = it does not fail."""
        since = self._failing_since_seconds
        return None if since is None else self._clock.monotonic_seconds() - since

    def _say(self, sentence: str) -> None:
        if self.is_failing:
            log.info("beat goes on", beat=self.name, said=sentence)
        else:
            log.debug("beat", beat=self.name, said=sentence)
        self.last_sentence, self.is_failing = sentence, False
        self._failing_since_seconds = None

    def _say_failure(self, sentence: str) -> None:
        if not self.is_failing or sentence != self.last_sentence:
            log.warning("beat failed", beat=self.name, said=sentence)
        self.last_sentence, self.is_failing = sentence, True
        if self._failing_since_seconds is None:
            self._failing_since_seconds = self._clock.monotonic_seconds()

    def start(self) -> None:
        """Run on a thread of its own."""
        self._started_at_seconds = self._clock.monotonic_seconds()
        self._thread = threading.Thread(target=self._run, name=f"beat-{self.name}", daemon=True)
        self._thread.start()

    def end_soon(self) -> None:
        """Ask the beat to end; `stop` waits for it. Of many, ask all before you wait for one."""
        self._stop.set()
        self._woken.set()

    def stop(self, *, timeout_seconds: float = 10.0) -> None:
        """Ask the beat to end and wait for the running one to finish."""
        self.end_soon()
        if self._thread is not None:
            self._thread.join(timeout_seconds)

    @property
    def is_alive(self) -> bool:
        """Whether the thread is running; false after a failure that is no TrimtabError."""
        return self._thread is not None and self._thread.is_alive()

    def _run(self) -> None:
        _name_this_thread(f"beat-{self.name}")
        due = self._clock.monotonic_seconds()
        while not self._stop.is_set():
            self.run_once()
            was_due = due
            due += self.interval_seconds
            late = self._clock.monotonic_seconds() - due
            if late > 0:
                missed = int(late // self.interval_seconds) + 1
                self.dropped_total += missed
                due += missed * self.interval_seconds
            while self._woken.wait(self._clock.wall_seconds(due - self._clock.monotonic_seconds())):
                self._woken.clear()
                if self._stop.is_set():
                    return
                due = max(was_due + self.interval_seconds, self._clock.monotonic_seconds())


def _name_this_thread(name: str) -> None:
    """So that `ps -L` and `top -H` show which beat takes the time, or hangs; the kernel keeps 15 letters."""
    with contextlib.suppress(OSError):
        Path("/proc/thread-self/comm").write_text(name[:15], encoding="utf-8")
