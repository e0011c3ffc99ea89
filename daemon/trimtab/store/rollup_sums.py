"""GPU-milliseconds by tenure and by queue, summed from the GPUs' rows by the database itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.model.rollup import MINUTE, STATES, Tenure, Tier, state_column
from trimtab.store.database import Database
from trimtab.store.rollup_claims import LossFact
from trimtab.store.rollup_facts import LOSS
from trimtab.store.rollup_spans import TenureBook
from trimtab.store.tables_rollup import (
    GPU_TABLES,
    SUMS,
    rollup_boards,
    rollup_facts,
    rollup_fleet,
    rollup_tenures,
    rollup_usage,
)

_MINUTES = GPU_TABLES[MINUTE.name].c


class Sums:
    """Usage and fleet rows of one cluster. Each method is one transaction, safe to repeat, and raises StoreError."""

    def __init__(self, database: Database, tenures: TenureBook, *, cluster: str) -> None:
        """Use an open database."""
        self._database = database
        self._tenures = tenures
        self._cluster = cluster

    def minute(self, at_ms: int) -> None:
        """Sum the GPUs' rows of a minute."""
        lost = self._lost(at_ms)
        ids = self._tenures.ids(lost)
        with self._database.write() as connection:
            self._clear(connection, MINUTE, at_ms)
            names = ["cluster", "tier_seconds", "at_ms", "tenure_id", *SUMS]
            connection.execute(sa.insert(rollup_usage).from_select(names, self._of_gpus(at_ms)))
            self._add_lost(connection, at_ms, {ids[tenure]: lost_ms for tenure, lost_ms in lost.items()})
            self._by_queue(connection, MINUTE, at_ms)

    def minutes(self, since_ms: int, until_ms: int) -> Sequence[int]:
        """Minutes of a stretch that are summed."""
        usage = rollup_usage.c
        wanted = (
            usage.cluster == self._cluster,
            usage.tier_seconds == MINUTE.seconds,
            usage.at_ms >= since_ms,
            usage.at_ms < until_ms,
        )
        with self._database.read() as connection:
            return connection.execute(sa.select(usage.at_ms).where(*wanted).distinct()).scalars().all()

    def step(self, tier: Tier, at_ms: int) -> None:
        """Sum the minutes of a coarser step; the boards' own figures as well."""
        minutes = (
            rollup_usage.c.cluster == self._cluster,
            rollup_usage.c.tier_seconds == MINUTE.seconds,
            rollup_usage.c.at_ms >= at_ms,
            rollup_usage.c.at_ms < at_ms + tier.ms,
        )
        sums = (_whole(sa.func.sum(rollup_usage.c[name])) for name in SUMS)
        summed = sa.select(*self._place(tier, at_ms), rollup_usage.c.tenure_id, *sums).where(*minutes)
        names = ["cluster", "tier_seconds", "at_ms", "tenure_id", *SUMS]
        with self._database.write() as connection:
            self._clear(connection, tier, at_ms)
            grouped = summed.group_by(rollup_usage.c.tenure_id)
            connection.execute(sa.insert(rollup_usage).from_select(names, grouped))
            self._by_queue(connection, tier, at_ms)
            self._boards(connection, tier, at_ms)

    def boards(self, at_ms: int, seen: BoardSums) -> None:
        """Keep what the boards of a minute said; boards of the same minute before a restart count with them."""
        if not seen.boards:
            return
        row: dict[str, Any] = {"cluster": self._cluster, "tier_seconds": MINUTE.seconds, "at_ms": at_ms, **seen.means()}
        upsert = self._database.insert(rollup_boards)
        key = [rollup_boards.c[name] for name in ("cluster", "tier_seconds", "at_ms")]
        replaced = {name: upsert.excluded[name] for name in seen.means()}
        with self._database.write() as connection:
            connection.execute(upsert.on_conflict_do_update(index_elements=key, set_=replaced), row)

    def _of_gpus(self, at_ms: int) -> sa.Select[Any]:
        # GPU × ms × deciwatts is more than 32 bits hold.
        known_ms = sa.cast(sum((_MINUTES[state_column(state)] for state in STATES[:-1]), sa.literal(0)), sa.BigInteger)
        has_activity, has_power = _MINUTES.activity_samples > 0, _MINUTES.power_samples > 0

        def total(value: Any, wanted: Any = None) -> Any:  # noqa: ANN401 - SQL expressions
            return _whole(sa.func.sum(value if wanted is None else sa.case((wanted, value), else_=0)))

        sums = (
            *(total(_MINUTES[state_column(state)]) for state in STATES),
            sa.literal(0),
            _whole(total(known_ms * _MINUTES.activity_mean_permille, has_activity) / 1000),
            total(known_ms, has_activity),
            _whole(total(known_ms * _MINUTES.power_mean_deciwatts, has_power) / 10),
            total(known_ms, has_power),
        )
        # Tenures are few and each is of one cluster: a join by them costs nothing.
        ours = sa.and_(rollup_tenures.c.id == _MINUTES.tenure_id, rollup_tenures.c.cluster == self._cluster)
        return (
            sa.select(*self._place(MINUTE, at_ms), _MINUTES.tenure_id, *sums)
            .join_from(GPU_TABLES[MINUTE.name], rollup_tenures, ours)
            .where(_MINUTES.at_ms == at_ms)
            .group_by(_MINUTES.tenure_id)
        )

    def _lost(self, at_ms: int) -> Mapping[Tenure, int]:
        """GPU-milliseconds that findings say were lost within a minute, by workload and cause."""
        facts, jobs = rollup_facts.c, self._jobs
        wanted = (
            facts.cluster == self._cluster,
            facts.kind == LOSS,
            facts.since_ms < at_ms + MINUTE.ms,
            sa.or_(facts.until_ms.is_(None), facts.until_ms > at_ms),
        )
        columns = sa.select(facts.name, facts.since_ms, facts.until_ms, facts.body).where(*wanted)
        with self._database.read() as connection:
            rows = connection.execute(columns).all()
            tenures = jobs(connection, {row.name for row in rows})
        lost: dict[Tenure, int] = {}
        for row in rows:
            loss = msgspec.json.decode(row.body, type=LossFact)
            until_ms = at_ms + MINUTE.ms if row.until_ms is None else min(row.until_ms, at_ms + MINUTE.ms)
            lasted_ms = max(until_ms - max(row.since_ms, at_ms), 0)
            queue, owner = tenures.get(row.name, ("", ""))
            tenure = Tenure(workload=row.name, queue=queue, owner=owner, cause=loss.cause)
            lost[tenure] = lost.get(tenure, 0) + round(loss.loss_gpus * lasted_ms)
        return lost

    def _jobs(self, connection: Connection, workloads: set[str]) -> Mapping[str, tuple[str, str]]:
        """Workload -> queue and owner, as its newest tenure has them."""
        if not workloads:
            return {}
        tenures = rollup_tenures.c
        wanted = (tenures.cluster == self._cluster, tenures.workload.in_(sorted(workloads)))
        statement = sa.select(tenures.workload, tenures.queue, tenures.owner).where(*wanted).order_by(tenures.id)
        return {row.workload: (row.queue, row.owner) for row in connection.execute(statement)}

    def _add_lost(self, connection: Connection, at_ms: int, lost: Mapping[int, int]) -> None:
        rows = [
            {"cluster": self._cluster, "tier_seconds": MINUTE.seconds, "at_ms": at_ms, "tenure_id": tenure}
            | dict.fromkeys(SUMS, 0)
            | {"lost_ms": lost_ms}
            for tenure, lost_ms in lost.items()
        ]
        if rows:
            upsert = self._database.insert(rollup_usage)
            key = [rollup_usage.c[name] for name in ("cluster", "tier_seconds", "at_ms", "tenure_id")]
            set_ = {"lost_ms": upsert.excluded.lost_ms}
            connection.execute(upsert.on_conflict_do_update(index_elements=key, set_=set_), rows)

    def _by_queue(self, connection: Connection, tier: Tier, at_ms: int) -> None:
        sums = (_whole(sa.func.sum(rollup_usage.c[name])) for name in SUMS)
        usage = (
            rollup_usage.c.cluster == self._cluster,
            rollup_usage.c.tier_seconds == tier.seconds,
            rollup_usage.c.at_ms == at_ms,
        )
        summed = (
            sa.select(*self._place(tier, at_ms), rollup_tenures.c.queue, *sums)
            .join_from(rollup_usage, rollup_tenures, rollup_tenures.c.id == rollup_usage.c.tenure_id)
            .where(*usage)
            .group_by(rollup_tenures.c.queue)
        )
        names = ["cluster", "tier_seconds", "at_ms", "queue", *SUMS]
        connection.execute(sa.insert(rollup_fleet).from_select(names, summed))

    def _boards(self, connection: Connection, tier: Tier, at_ms: int) -> None:
        boards = rollup_boards.c
        minutes = (
            boards.cluster == self._cluster,
            boards.tier_seconds == MINUTE.seconds,
            boards.at_ms >= at_ms,
            boards.at_ms < at_ms + tier.ms,
        )
        names = [column.name for column in rollup_boards.columns if column.name not in _PLACE]
        means = (_mean(boards[name], boards.boards) for name in names if name != "boards")
        statement = sa.select(sa.func.sum(boards.boards), *means).where(*minutes)
        found = connection.execute(statement).one()
        self._delete(connection, rollup_boards, tier, at_ms)
        if found[0]:
            place = {"cluster": self._cluster, "tier_seconds": tier.seconds, "at_ms": at_ms}
            connection.execute(sa.insert(rollup_boards), {**place, **dict(zip(names, found, strict=True))})

    def _place(self, tier: Tier, at_ms: int) -> Iterable[sa.ColumnElement[Any]]:
        return (
            sa.literal(self._cluster).label("cluster"),
            sa.literal(tier.seconds).label("tier_seconds"),
            sa.literal(at_ms, sa.BigInteger).label("at_ms"),
        )

    def _clear(self, connection: Connection, tier: Tier, at_ms: int) -> None:
        for table in (rollup_usage, rollup_fleet):
            self._delete(connection, table, tier, at_ms)

    def _delete(self, connection: Connection, table: sa.Table, tier: Tier, at_ms: int) -> None:
        which = (table.c.cluster == self._cluster, table.c.tier_seconds == tier.seconds, table.c.at_ms == at_ms)
        connection.execute(sa.delete(table).where(*which))


_PLACE = ("cluster", "tier_seconds", "at_ms")


@dataclass(slots=True)
class BoardSums:
    """What the boards of one minute said, summed; goodput by how many said one."""

    boards: int = 0
    goodput_boards: int = 0
    goodput: float = 0.0
    stranded: dict[int, float] | None = None

    def add(self, goodput_ratio: float | None, stranded: Mapping[int, int]) -> None:
        """One more board."""
        self.boards += 1
        if goodput_ratio is not None:
            self.goodput_boards += 1
            self.goodput += goodput_ratio
        sums = self.stranded = self.stranded or {}
        for size, gpus in stranded.items():
            sums[size] = sums.get(size, 0.0) + gpus

    def means(self) -> dict[str, Any]:
        """The row's columns."""
        sums = self.stranded or {}
        return {
            "boards": self.boards,
            "goodput_ratio": self.goodput / self.goodput_boards if self.goodput_boards else None,
            **{f"stranded_{size}": sums[size] / self.boards if size in sums else None for size in (1, 2, 4, 8)},
        }


def _whole(value: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    return sa.cast(value, sa.BigInteger)


def _mean(value: sa.ColumnElement[Any], weight: sa.ColumnElement[Any]) -> sa.ColumnElement[Any]:
    weighed = sa.case((value.is_not(None), weight), else_=0)
    return sa.func.sum(value * weight) / sa.func.nullif(sa.func.sum(weighed), 0)
