"""Puts the memory of the past together for the daemon: roll-ups with their beat, their reader, and what prunes them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from trimtab.chores import Chore
from trimtab.clock import Clock
from trimtab.disk import DiskWatch, disk_beat
from trimtab.link import Link
from trimtab.loop import Beat
from trimtab.settings import DaemonSettings
from trimtab.show.metrics_facts import RollupFacts
from trimtab.store.database import Database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.past import Past
from trimtab.store.quota import Quota
from trimtab.store.retention import Retention
from trimtab.store.rollup import Rollup, RollupCounts
from trimtab.store.rollup_shift import Shift
from trimtab.timekeeping import HistoryClock

PRUNE_MINUTES = 30
LEASE_SECONDS_MAX = 30.0
"""So long after its start a daemon waits to learn who holds the Lease before it rolls up all the same."""


@dataclass(slots=True, kw_only=True)
class Keeping:
    """The past of one daemon's cluster. `rollup` None = it is turned off; what was kept before can still be read."""

    past: Past
    rollup: Shift | None
    beats: tuple[Beat, ...]
    chores: tuple[Chore, ...]
    ended: threading.Event
    disk: DiskWatch

    def facts(self) -> RollupFacts | None:
        """How the roll-ups are, for /metrics."""
        if self.rollup is None:
            return None
        counts, rollup = self.rollup.counts, self.rollup.rollup
        return RollupFacts(
            rows_total=dict(counts.rows_total),
            failures_total=counts.failures_total,
            mended_minutes_total=counts.mended_minutes_total,
            too_late_total=rollup.too_late_total if rollup is not None else 0,
            waiting_minutes=rollup.waiting_minutes if rollup is not None else None,
            lag_seconds=rollup.lag_seconds if rollup is not None else None,
        )


def keeping_of(
    settings: DaemonSettings,
    *,
    database: Database,
    history: History,
    clock: Clock,
    link: Link | None = None,
    journal: Journal | None = None,
    in_force: Callable[[], DaemonSettings] | None = None,
) -> Keeping:
    """Open the roll-ups where the last daemon left them. Raises StoreError.

    `in_force`: the settings as a reload leaves them.
    """
    in_force = in_force or (lambda: settings)
    journal = journal or Journal(database)
    ages = HistoryClock(clock, lived_until=journal.lived_until())
    past, wanted, ended = Past(database, history), settings.rollup, threading.Event()
    watch = DiskWatch(in_force, quota=Quota(database, settings.disk), clock=clock, ended=ended)
    disk, prune = disk_beat(watch, settings, clock), _prune_of(in_force, journal, ages)
    if not wanted.is_on:
        return Keeping(past=past, rollup=None, beats=(disk,), chores=(prune,), ended=ended, disk=watch)

    def make(counts: RollupCounts) -> Rollup:
        return Rollup(
            database,
            cluster=settings.cluster,
            clock=clock,
            settings=wanted,
            # A node is silent on the page from here on: its time is unknown from the same moment.
            hold_seconds=settings.detect.silent_after_seconds,
            counts=counts,
        )

    shift = Shift(make, clock=clock, is_standby=_is_standby(database, link, clock))
    retention = Retention(database, cluster=settings.cluster, settings=wanted)
    return Keeping(
        past=past,
        rollup=shift,
        beats=(Beat("roll", shift.roll, interval_seconds=wanted.interval_seconds, clock=clock), disk),
        chores=(
            prune,
            Chore(
                name="prune_rollups",  # each tier has its days
                minutes=PRUNE_MINUTES,
                run=lambda: retention.prune(ages.now(), is_stopped=ended.is_set),
            ),
        ),
        ended=ended,
        disk=watch,
    )


def _prune_of(in_force: Callable[[], DaemonSettings], journal: Journal, ages: HistoryClock) -> Chore:
    def prune() -> str:
        days = in_force().store.journal_days
        gone = journal.prune(ages.now() - timedelta(days=days))
        ages.look(journal.lived_until())
        return f"{gone} reports older than {days:g} days left the journal"

    return Chore(name="prune", minutes=PRUNE_MINUTES, run=prune)  # raw reports are kept for days, not for ever


def _is_standby(database: Database, link: Link | None, clock: Clock) -> Callable[[], bool]:
    """Whether another daemon rolls up here: it holds the Lease, and the database is one that two can share."""
    lease = link.lease if link is not None and not database.is_sqlite else None
    if lease is None:
        return lambda: False
    started = clock.monotonic_seconds()

    def is_standby() -> bool:
        # Until the Lease was read once, or cannot be, nobody knows whose turn it is.
        is_early = clock.monotonic_seconds() - started < LEASE_SECONDS_MAX
        return lease.epoch is None and (lease.is_elsewhere or is_early)

    return is_standby
