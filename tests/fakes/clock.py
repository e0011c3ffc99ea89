"""A clock that stands still until it is moved."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

START = datetime(2026, 11, 2, 9, 0, 0, tzinfo=UTC)


class FakeClock:
    def __init__(self, start: datetime = START) -> None:
        self._now = start
        self._monotonic_seconds = 1000.0

    def now(self) -> datetime:
        return self._now

    def monotonic_seconds(self) -> float:
        return self._monotonic_seconds

    def wall_seconds(self, seconds: float) -> float:
        return 0.0

    def advance(self, seconds: float) -> datetime:
        self._now += timedelta(seconds=seconds)
        self._monotonic_seconds += seconds
        return self._now

    def jump(self, seconds: float) -> datetime:
        """A step of the wall clock alone, as NTP or an operator makes it."""
        self._now += timedelta(seconds=seconds)
        return self._now
