"""What the daemon may conclude from time: not who is silent right after its clock was set or it stood still itself, and
not that history is old because a clock says so.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import structlog

from trimtab.clock import Clock, age_text

log = structlog.get_logger()

JUMP_SECONDS = 30.0
"""A clock that moved so much more, or less, than time passed was set; NTP's own corrections are far smaller."""
STILL_SECONDS = 30.0
"""A beat that came so late did not run: the process was stopped, or the host was asleep."""
SET_SECONDS = 3600.0
"""Clocks that drift and are put right are moved by less."""
EARLIEST = datetime(2024, 1, 1, tzinfo=UTC)
"""No report was ever taken in before: a clock that says so was never set."""
HOLD_SECONDS = 45.0
"""By then every agent has sent again: they wait for 30 s and a quarter at most, and report each 10 s."""


class Hold:
    """Holds judgement until what is known of the nodes is of one time again. Use it from one thread."""

    def __init__(self, clock: Clock, *, interval_seconds: Callable[[], float]) -> None:
        """`interval_seconds`: how often it is asked, which a reload may change."""
        self._clock = clock
        self._interval_seconds = interval_seconds
        self._last_interval_seconds = interval_seconds()
        self._looked: tuple[datetime, float] | None = None
        self._ended_seconds = 0.0
        self._until_seconds: float | None = None
        self._why = ""

    def run(self, judge: Callable[[], str]) -> str:
        """One beat: what `judge` says, or why it is not asked."""
        why = self._look()
        said = why or judge()
        # A judgement that took long is no standing still: that counts from here. A clock that was set then is seen.
        self._ended_seconds = self._clock.monotonic_seconds()
        self._last_interval_seconds = self._interval_seconds()
        return said

    def _look(self) -> str:
        now, seconds = self._clock.now(), self._clock.monotonic_seconds()
        looked, self._looked = self._looked, (now, seconds)
        if looked is not None:
            passed_seconds = seconds - self._ended_seconds
            set_by_seconds = (now - looked[0]).total_seconds() - (seconds - looked[1])
            if why := self._what_happened(passed_seconds, set_by_seconds):
                self._why, self._until_seconds = why, seconds + HOLD_SECONDS
                log.warning(
                    "judging waits until the nodes have reported again",
                    why=why,
                    clock_set_by_seconds=round(set_by_seconds),
                    stood_still_seconds=round(passed_seconds),
                    wait_seconds=HOLD_SECONDS,
                )
        if self._until_seconds is None:
            return ""
        left_seconds = self._until_seconds - seconds
        if left_seconds <= 0:
            self._until_seconds = None
            log.info("judging goes on", why=self._why)
            return ""
        return f"not judged for {left_seconds:.0f} s more, until the nodes have reported again: {self._why}"

    def _what_happened(self, passed_seconds: float, set_by_seconds: float) -> str:
        if abs(set_by_seconds) > JUMP_SECONDS:
            way = "forward" if set_by_seconds > 0 else "back"
            return f"this host's clock was set {way} by {age_text(abs(set_by_seconds))}"
        # Of real time: a demo's clock runs fast, and its daemon is not held up for a busy machine.
        interval_seconds = max(self._interval_seconds(), self._last_interval_seconds)
        if self._clock.wall_seconds(passed_seconds) > max(
            STILL_SECONDS, self._clock.wall_seconds(10 * interval_seconds)
        ):
            return f"this daemon stood still for {age_text(passed_seconds)}"
        return ""


class HistoryClock:
    """The moment that the age of history is counted from: it moves only while the daemon runs.

    A clock that was set forward by days would otherwise delete everything that is kept for fewer, and nothing brings it
    back. History is kept a little longer where the daemon was down: by as much as it was. A start under a clock of
    before `EARLIEST` (a host whose own clock is empty, until NTP answers) counts from when the clock is right.
    """

    def __init__(self, clock: Clock, *, lived_until: datetime | None) -> None:
        """`lived_until`: `Journal.lived_until`: a clock that was set before a restart counts for no more after it."""
        now = clock.now()
        self._clock = clock
        self._from = now if lived_until is None else min(lived_until, now)
        self._from_seconds = clock.monotonic_seconds()
        self._begun = now, self._from_seconds

    def look(self, lived_until: datetime | None) -> None:
        """`lived_until` as it is now: once nothing of before a gap is kept, the gap is no matter any more. Where the
        clock was set while this process ran, that waits for a restart.
        """
        now, seconds = self._clock.now(), self._clock.monotonic_seconds()
        set_by_seconds = (now - self._begun[0]).total_seconds() - (seconds - self._begun[1])
        if lived_until is not None and abs(set_by_seconds) < SET_SECONDS and self.now() < lived_until <= now:
            self._from, self._from_seconds = lived_until, seconds

    def now(self) -> datetime:
        """Never later than the clock says, and never further on than time that was lived through."""
        now = self._clock.now()
        if self._from < EARLIEST <= now:
            self._from, self._from_seconds = now, self._clock.monotonic_seconds()
        lived_seconds = self._clock.monotonic_seconds() - self._from_seconds
        return min(now, self._from + timedelta(seconds=lived_seconds))
