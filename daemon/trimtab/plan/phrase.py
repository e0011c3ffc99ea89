"""How numbers and names read in the planner's sentences."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime


def gpu_hours_text(gpu_hours: float) -> str:
    """`8.5 GPU-h`; small amounts keep two digits."""
    return f"{gpu_hours:.2f} GPU-h" if gpu_hours < 1 else f"{gpu_hours:.1f} GPU-h"


def span_text(seconds: float) -> str:
    """A span for people: `40 s`, `14 min`, `3.5 h`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"


def moment_text(moment: datetime) -> str:
    """A moment for people: `14:31 UTC`."""
    return moment.astimezone(UTC).strftime("%H:%M UTC")


def count_text(count: int, noun: str) -> str:
    """`1 job`, `2 jobs`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def list_text(names: Iterable[str], *, shown: int = 4) -> str:
    """`a, b and c`; beyond `shown` names the rest is counted."""
    known = list(names)
    if len(known) > shown:
        known = [*known[:shown], f"{len(known) - shown} more"]
    if len(known) < 2:
        return "".join(known)
    return f"{', '.join(known[:-1])} and {known[-1]}"
