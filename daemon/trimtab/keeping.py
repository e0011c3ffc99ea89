"""Puts the memory of the past together for the daemon: roll-ups with their beat, their reader, and what prunes them."""

from __future__ import annotations

import threading
from dataclasses import dataclass

from trimtab.chores import Chore
from trimtab.clock import Clock
from trimtab.loop import Beat
from trimtab.settings import DaemonSettings
from trimtab.show.metrics_facts import RollupFacts
from trimtab.store.database import Database
from trimtab.store.history import History
from trimtab.store.past import Past
from trimtab.store.retention import Retention
from trimtab.store.rollup import Rollup

PRUNE_MINUTES = 30


@dataclass(slots=True, kw_only=True)
class Keeping:
    """The past of one daemon's cluster. `rollup` None = it is turned off; what was kept before can still be read."""

    past: Past
    rollup: Rollup | None
    beats: tuple[Beat, ...]
    chores: tuple[Chore, ...]
    ended: threading.Event

    def facts(self) -> RollupFacts | None:
        """How the roll-ups are, for /metrics."""
        if self.rollup is None:
            return None
        counts = self.rollup.counts
        return RollupFacts(
            rows_total=dict(counts.rows_total),
            failures_total=counts.failures_total,
            mended_minutes_total=counts.mended_minutes_total,
            too_late_total=self.rollup.too_late_total,
            waiting_minutes=self.rollup.waiting_minutes,
            lag_seconds=self.rollup.lag_seconds,
        )


def keeping_of(settings: DaemonSettings, *, database: Database, history: History, clock: Clock) -> Keeping:
    """Open the roll-ups where the last daemon left them. Raises StoreError."""
    past, wanted, ended = Past(database, history), settings.rollup, threading.Event()
    if not wanted.is_on:
        return Keeping(past=past, rollup=None, beats=(), chores=(), ended=ended)
    rollup = Rollup(
        database,
        cluster=settings.cluster,
        clock=clock,
        settings=wanted,
        # A node is silent on the page from here on: its time is unknown from the same moment.
        hold_seconds=settings.detect.silent_after_seconds,
    )
    retention = Retention(database, cluster=settings.cluster, settings=wanted)
    return Keeping(
        past=past,
        rollup=rollup,
        beats=(Beat("roll", rollup.roll, interval_seconds=wanted.interval_seconds, clock=clock),),
        chores=(
            Chore(
                name="prune_rollups",  # each tier has its days
                minutes=PRUNE_MINUTES,
                run=lambda: retention.prune(clock.now(), is_stopped=ended.is_set),
            ),
        ),
        ended=ended,
    )
