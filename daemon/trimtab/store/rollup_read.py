"""Reading roll-ups: which tier fits, names by number, rows as plain tuples. Used by everything that shows the past."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import from_unix_ms
from trimtab.model.past import Kept
from trimtab.model.rollup import MINUTE, TIERS, Tenure, Tier
from trimtab.store.database import Database
from trimtab.store.tables_rollup import GPU_TABLES, rollup_gpus, rollup_tenures, rollup_usage

FRESH_MS = 4 * MINUTE.ms
"""A moment so short after the newest row is shown by that row: it is not written yet."""
IDS_MAX = 4000
"""Numbers in one IN list."""


@dataclass(frozen=True, slots=True)
class GpuName:
    """A GPU by name."""

    id: int
    node: str
    gpu: str
    index: int | None
    memory_total_mebibytes: int | None


class RollupReader:
    """Rows of one cluster's roll-ups. Any thread; methods raise StoreError."""

    def __init__(self, database: Database, *, cluster: str) -> None:
        """Use an open database."""
        self.database = database
        self.cluster = cluster
        self._lock = threading.Lock()
        self._names: Mapping[int, GpuName] = {}
        self._stamp: tuple[int, int] = (-1, -1)

    def names(self, connection: Connection) -> Mapping[int, GpuName]:
        """GPU by number; read anew when there are more, or more is known of one."""
        gpus = rollup_gpus.c
        counted = sa.select(sa.func.max(gpus.id), sa.func.count(gpus.memory_total_mebibytes))
        highest, known = connection.execute(counted.where(gpus.cluster == self.cluster)).one()
        stamp = (highest or 0, known)
        with self._lock:
            if stamp != self._stamp:
                rows = connection.execute(sa.select(rollup_gpus).where(gpus.cluster == self.cluster))
                self._names = {
                    row.id: GpuName(row.id, row.node, row.gpu, row.gpu_index, row.memory_total_mebibytes)
                    for row in rows
                }
                self._stamp = stamp
            return self._names

    def tenures(self, connection: Connection, ids: Iterable[int]) -> Mapping[int, Tenure]:
        """Tenures of this cluster by number, of those that are asked for: there are a year's jobs of them."""
        wanted, found = sorted(set(ids)), {}
        for first in range(0, len(wanted), IDS_MAX):
            some = rollup_tenures.c.id.in_(wanted[first : first + IDS_MAX])
            for row in connection.execute(
                sa.select(rollup_tenures).where(rollup_tenures.c.cluster == self.cluster, some)
            ):
                found[row.id] = Tenure(workload=row.workload, queue=row.queue, owner=row.owner, cause=row.cause)
        return found

    def kept(self) -> Kept:
        """From when to when there are rows."""
        with self.database.read() as connection:
            bounds = [self.bounds(connection, tier) for tier in TIERS]
        known = [one for one in bounds if one is not None]
        if not known:
            return Kept()
        return Kept(
            since=from_unix_ms(min(first for first, _ in known)),
            until=from_unix_ms(max(last for _, last in known)),
        )

    def bounds(self, connection: Connection, tier: Tier) -> tuple[int, int] | None:
        """Begin of the oldest row of a tier and end of the newest; None without any."""
        usage = rollup_usage.c
        # Two look-ups at the ends of the key, in place of a walk over all of it.
        wanted = sa.select(usage.at_ms).where(usage.cluster == self.cluster, usage.tier_seconds == tier.seconds)
        first = connection.execute(wanted.order_by(usage.at_ms).limit(1)).scalar_one_or_none()
        last = connection.execute(wanted.order_by(usage.at_ms.desc()).limit(1)).scalar_one_or_none()
        return None if first is None or last is None else (first, last + tier.ms)

    def bucket(self, connection: Connection, at_ms: int) -> tuple[Tier, int] | None:
        """The finest step that holds a moment, or the newest where the moment is too fresh; None = nothing kept."""
        for tier in TIERS:
            if self._has(connection, tier, tier.floor_ms(at_ms)):
                return tier, tier.floor_ms(at_ms)
        bounds = self.bounds(connection, MINUTE)
        if bounds is not None and 0 <= at_ms - bounds[1] < FRESH_MS:
            return MINUTE, bounds[1] - MINUTE.ms
        return None

    def tier_for(self, connection: Connection, since_ms: int, until_ms: int, *, points_max: int) -> Tier:
        """The finest tier that reaches back so far and needs no more points than these; else what comes nearest."""
        fits = [tier for tier in TIERS if (until_ms - since_ms) / tier.ms <= points_max] or [TIERS[-1]]
        firsts = {tier: found[0] for tier in TIERS if (found := self.bounds(connection, tier)) is not None}
        reaches = []
        for tier, first in firsts.items():
            # A coarse step begins before what it is made of: where it holds no more, the finer tier reaches as far.
            holds_all = all(first < other + coarse.ms for coarse, other in firsts.items() if coarse.ms > tier.ms)
            reaches.append((holds_all or first <= since_ms + tier.ms, -first, tier))
        far = [tier for is_far, _, tier in reaches if is_far]
        if not far:
            oldest = [tier for _, _, tier in sorted(reaches, key=lambda one: -one[1])]
            return next((tier for tier in oldest if tier in fits), fits[0])
        return next((tier for tier in far if tier in fits), far[-1])

    def gpu_rows(
        self,
        connection: Connection,
        tier: Tier,
        at_ms: Iterable[int],
        columns: Sequence[str],
        ids: Iterable[int] | None,
    ) -> list[tuple[Any, ...]]:
        """Rows of steps, as tuples of these columns, of some GPUs or of all GPUs of the database."""
        table = GPU_TABLES[tier.name].name
        picked = f"SELECT {', '.join(columns)} FROM {table} WHERE at_ms"
        found: list[tuple[Any, ...]] = []
        driver: Any = connection.connection.driver_connection
        cursor = driver.cursor()
        try:
            for moment in at_ms:
                for some in _chunks(ids):
                    cursor.execute(*self._statement(picked, moment, some))
                    found += cursor.fetchall()
        finally:
            cursor.close()
        return found

    def _statement(self, picked: str, at_ms: int, ids: Sequence[int] | None) -> tuple[str, tuple[Any, ...]]:
        mark = "?" if self.database.is_sqlite else "%s"
        if ids is None:
            return f"{picked} = {mark}", (at_ms,)
        if self.database.is_sqlite:
            return f"{picked} = ? AND gpu_id IN ({', '.join('?' * len(ids))})", (at_ms, *ids)
        return f"{picked} = %s AND gpu_id = ANY(%s)", (at_ms, list(ids))

    def _has(self, connection: Connection, tier: Tier, at_ms: int) -> bool:
        usage = rollup_usage.c
        wanted = (usage.cluster == self.cluster, usage.tier_seconds == tier.seconds, usage.at_ms == at_ms)
        return connection.execute(sa.select(sa.literal(1)).where(*wanted).limit(1)).scalar_one_or_none() is not None


def _chunks(ids: Iterable[int] | None) -> Iterable[Sequence[int] | None]:
    if ids is None:
        return (None,)
    wanted = list(ids)
    return (wanted[first : first + IDS_MAX] for first in range(0, len(wanted), IDS_MAX))


def steps(tier: Tier, since_ms: int, until_ms: int) -> range:
    """Begins of the steps that touch a stretch."""
    return range(tier.floor_ms(since_ms), until_ms, tier.ms)
