"""Lets go of what is older than its tier's days, a few thousand rows a transaction, so that nobody waits for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from trimtab.clock import unix_ms
from trimtab.model.rollup import HOUR, MINUTE, QUARTER, TIERS, Tier
from trimtab.settings.rollup import RollupSettings
from trimtab.store.database import Database
from trimtab.store.tables_rollup import (
    GPU_TABLES,
    rollup_boards,
    rollup_facts,
    rollup_fleet,
    rollup_spans,
    rollup_tenures,
    rollup_usage,
)

BATCH_ROWS = 5000
"""Rows a transaction: about 50 ms on SQLite."""
FREED_PAGES = 2000
"""Free pages given back to the file system at once (8 MB): a vacuum in one go would stop all writes."""


class Retention:
    """Deletes of one cluster what its settings no longer keep. Safe to stop and to repeat; raises StoreError."""

    def __init__(self, database: Database, *, cluster: str, settings: RollupSettings) -> None:
        """Use an open database."""
        self._database = database
        self._cluster = cluster
        self._days = {
            MINUTE: settings.minute_days,
            QUARTER: settings.quarter_days,
            HOUR: settings.hour_days,
        }

    def prune(self, now: datetime, *, is_stopped: Callable[[], bool] = lambda: False) -> str:
        """Delete what is too old; a sentence with how much."""
        gone = 0
        for tier in TIERS:
            before_ms = unix_ms(now - timedelta(days=self._days[tier]))
            for statement in self._statements(tier, before_ms):
                gone += self._batches(statement, is_stopped)
        spans_ms = unix_ms(now - timedelta(days=self._days[MINUTE] + 1))
        gone += self._batches(
            self._old(rollup_spans, rollup_spans.c.until_ms < spans_ms, "gpu_id", "since_ms"), is_stopped
        )
        facts_ms = unix_ms(now - timedelta(days=self._days[HOUR]))
        key = ("cluster", "kind", "name", "since_ms")
        gone += self._batches(self._old(rollup_facts, rollup_facts.c.until_ms < facts_ms, *key), is_stopped)
        freed = self._give_back()
        return f"{gone} rows of roll-ups were older than their days{freed}"

    def _statements(self, tier: Tier, before_ms: int) -> Iterator[sa.Delete]:
        table = GPU_TABLES[tier.name]
        ours = sa.select(rollup_tenures.c.id).where(rollup_tenures.c.cluster == self._cluster)
        # Oldest step first: in the order of the key, so that a batch is one stretch of the table.
        old = sa.and_(table.c.at_ms < before_ms, table.c.tenure_id.in_(ours))
        yield self._old(table, old, "at_ms", "gpu_id", "tenure_id")
        for one, key in ((rollup_usage, "tenure_id"), (rollup_fleet, "queue"), (rollup_boards, None)):
            wanted = sa.and_(one.c.tier_seconds == tier.seconds, one.c.at_ms < before_ms)
            names = ("cluster", "tier_seconds", "at_ms", *((key,) if key else ()))
            yield self._old(one, sa.and_(one.c.cluster == self._cluster, wanted), *names)

    def _old(self, table: sa.Table, wanted: sa.ColumnElement[bool], *key: str) -> sa.Delete:
        """A batch of rows to go, found by their key."""
        if "cluster" in table.c:
            wanted = sa.and_(table.c.cluster == self._cluster, wanted)
        columns = [table.c[name] for name in key]
        batch = sa.select(*columns).where(wanted).order_by(*columns).limit(BATCH_ROWS)
        return sa.delete(table).where(sa.tuple_(*columns).in_(batch))

    def _batches(self, statement: sa.Delete, is_stopped: Callable[[], bool]) -> int:
        gone = 0
        while not is_stopped():
            with self._database.write() as connection:
                count = connection.execute(statement).rowcount
            gone += count
            if count < BATCH_ROWS:
                break
        return gone

    def _give_back(self) -> str:
        """On SQLite, free pages are used again by new rows, so the file stays as large as it was at its largest; where
        it was made to give them back (auto_vacuum = incremental), they go to the file system bit by bit.
        """
        if not self._database.is_sqlite:
            return ""  # autovacuum does it
        with self._database.read() as connection:
            free, mode = (
                int(connection.execute(sa.text(f"PRAGMA {name}")).scalar_one())
                for name in ("freelist_count", "auto_vacuum")
            )
        if mode != 2 or free < 2 * FREED_PAGES:
            return f"; {free} pages are free for new ones"
        with self._database.write() as connection:
            driver: Any = connection.connection.driver_connection
            driver.execute(f"PRAGMA incremental_vacuum({FREED_PAGES})").fetchall()
        return f"; {FREED_PAGES} of {free} free pages went back to the disk"
