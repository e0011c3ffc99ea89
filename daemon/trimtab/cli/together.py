"""Runs many checks at once, each with a deadline: what hangs costs its own line, never the others' or the terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from trimtab.clock import SystemClock
from trimtab.runner import Tally, run_all
from trimtab.show.api_types import Check

OTHER_USER = "Look as root (sudo trimtab doctor), or as the user that it belongs to."
SECONDS_MAX = 12.0
"""For all of them together, since they run beside each other; the longest time-out of one is shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One thing to look at. `fix` is for when it does not come back."""

    name: str
    look: Callable[[], Iterable[Check]]
    fix: str = "Look what it waits for: a driver, a disk or a network that does not answer."


@dataclass(slots=True)
class _Running:
    job: Job
    found: tuple[Check, ...] | None = None
    error: str = ""
    thread: threading.Thread = field(default_factory=threading.Thread)


def together(jobs: Sequence[Job], *, seconds_max: float = SECONDS_MAX) -> Iterator[Check]:
    """What each job finds, in the order of the jobs; one that fails or hangs is a failed check of its name."""
    clock = SystemClock()
    ends_at = clock.monotonic_seconds() + seconds_max
    running = [_begun(job, clock) for job in jobs]
    for one in running:
        one.thread.join(max(ends_at - clock.monotonic_seconds(), 0.0))
        if one.found is not None:
            yield from one.found
        elif one.error:
            fix = OTHER_USER if one.error.startswith(PermissionError.__name__) else one.job.fix
            yield Check(name=one.job.name, is_ok=False, sentence=f"Could not be looked at: {one.error}", fix=fix)
        else:
            said = f"Did not answer within {seconds_max:g} s."
            yield Check(name=one.job.name, is_ok=False, sentence=said, fix=one.job.fix)


def _begun(job: Job, clock: SystemClock) -> _Running:
    one = _Running(job)

    def work() -> None:
        ran = run_all([(job.name, lambda: tuple(job.look()))], clock=clock, tally=Tally())[0]
        one.found, one.error = ran.result, ran.error or ""

    # A daemon thread: the process ends although a driver never comes back.
    one.thread = threading.Thread(target=work, name=f"doctor-{job.name}", daemon=True)
    one.thread.start()
    return one
