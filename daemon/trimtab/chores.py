"""Minute-and-slower work of the daemon: one literal list, a runner that times nothing and lets nobody's error out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC

import structlog
from apscheduler.schedulers.background import BackgroundScheduler

from trimtab.errors import TrimtabError

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chore:
    """One piece of slow work. `run` returns its sentence; one that fails is said and tried again at its next turn."""

    name: str
    minutes: float
    run: Callable[[], str]


def slow_work(chores: Iterable[Chore]) -> BackgroundScheduler:
    """A scheduler for these chores, not started. A turn that is missed is made up for once, never twice."""
    scheduler = BackgroundScheduler(timezone=UTC)
    for chore in chores:
        scheduler.add_job(
            _do,
            "interval",
            args=(chore,),
            minutes=chore.minutes,
            id=chore.name,
            coalesce=True,
            max_instances=1,
            misfire_grace_time=None,
        )
    return scheduler


def _do(chore: Chore) -> None:
    try:
        log.info("a chore is done", chore=chore.name, said=chore.run())
    except TrimtabError as error:
        log.warning("a chore could not be done; it is tried again", chore=chore.name, said=str(error))
