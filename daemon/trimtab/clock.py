"""The only module that reads time. Everything else is handed a Clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """Gives moments for people and monotonic seconds for deadlines."""

    def now(self) -> datetime:
        """The present moment, aware, UTC."""
        ...

    def monotonic_seconds(self) -> float:
        """Seconds that never run backwards; only differences mean something."""
        ...

    def wall_seconds(self, seconds: float) -> float:
        """How long a real wait must be for `seconds` of this clock to pass."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now(self) -> datetime:
        """The present moment, aware, UTC."""
        return datetime.now(UTC)

    def monotonic_seconds(self) -> float:
        """Seconds that never run backwards."""
        return time.monotonic()

    def wall_seconds(self, seconds: float) -> float:
        """The same number: this clock runs at the speed of the wall."""
        return seconds


class ScaledClock:
    """A clock that runs `speed` times as fast as the wall from `anchor` on.

    Two processes given the same anchor and speed agree, also after a restart; the simulated cluster and the
    daemon that watches it use this.
    """

    def __init__(self, *, anchor: datetime, speed: float) -> None:
        """Start at `anchor` (aware); `speed` is simulated seconds per wall second."""
        self.anchor = anchor
        self.speed = speed

    def now(self) -> datetime:
        """The simulated moment."""
        return self.anchor + timedelta(seconds=self._since_anchor_seconds())

    def monotonic_seconds(self) -> float:
        """Simulated seconds that never run backwards."""
        return time.monotonic() * self.speed

    def wall_seconds(self, seconds: float) -> float:
        """Real seconds in which `seconds` of simulated time pass."""
        return seconds / self.speed

    def _since_anchor_seconds(self) -> float:
        return (datetime.now(UTC) - self.anchor).total_seconds() * self.speed


def unix_seconds(moment: datetime) -> float:
    """Unix time of an aware moment."""
    return moment.timestamp()


def unix_ms(moment: datetime) -> int:
    """Whole milliseconds since 1970 of an aware moment, as SQL keeps them."""
    return round(moment.timestamp() * 1000)


def from_unix_ms(at_ms: int) -> datetime:
    """The aware moment of whole milliseconds since 1970."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC with `Z`, to the second."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def count_text(count: int, noun: str) -> str:
    """`1 GPU`, `32 GPUs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def age_text(seconds: float) -> str:
    """An age for people: `41 s`, `12 min`, `3 h`, `2 d`."""
    if seconds < 120:
        return f"{max(seconds, 0):.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172800:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} d"
