"""Runs many small parts (collectors, detectors): times each, catches its error, counts it, goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from trimtab.clock import Clock
from trimtab.errors import NoData
from trimtab.loop import moving

T = TypeVar("T")


@dataclass(slots=True)
class Ran(Generic[T]):
    """What came of one part: its result, or why there is none."""

    name: str
    result: T | None = None
    error: str | None = None
    seconds: float = 0.0


@dataclass(slots=True)
class Tally:
    """Counts per part over the life of a process; the exposition reads it."""

    runs_total: dict[str, int] = field(default_factory=dict)
    errors_total: dict[str, int] = field(default_factory=dict)
    last_seconds: dict[str, float] = field(default_factory=dict)


def run_all(parts: Iterable[tuple[str, Callable[[], T]]], *, clock: Clock, tally: Tally) -> list[Ran[T]]:
    """Run each part; one that fails costs only itself. The one place where a blind except is allowed."""
    return [_run_one(name, part, clock, tally) for name, part in parts]


def _run_one(name: str, part: Callable[[], T], clock: Clock, tally: Tally) -> Ran[T]:
    moving(name)
    started = clock.monotonic_seconds()
    ran: Ran[T] = Ran(name=name)
    try:
        ran.result = part()
    except NoData as reason:
        ran.error = str(reason)
    except Exception as error:  # noqa: BLE001 - the runner's duty: counted here, shown as a metric
        ran.error = f"{type(error).__name__}: {error}"
        tally.errors_total[name] = tally.errors_total.get(name, 0) + 1
    ran.seconds = clock.monotonic_seconds() - started
    tally.runs_total[name] = tally.runs_total.get(name, 0) + 1
    tally.last_seconds[name] = ran.seconds
    return ran
