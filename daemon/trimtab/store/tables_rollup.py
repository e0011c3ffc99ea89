"""Tables and views of the roll-ups (docs/decisions/0007-roll-ups.md).

Tables hold whole numbers and dictionary ids, so that 100,000 GPUs fit; the views that migration 0003 makes beside them
(`gpu_1m`, `usage_15m`, `fleet_1h` …) have names and base units, for people, SQL clients and Grafana.
"""

from __future__ import annotations

from collections.abc import Iterator

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    Index,
    Integer,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
)

from trimtab.model.rollup import ROLLED, STATES, STATISTICS, TIERS, Tier, state_column
from trimtab.store.tables import metadata

# GPUs by number: a row a minute cannot carry names.
rollup_gpus = Table(
    "rollup_gpus",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("gpu", Text, nullable=False),
    Column("gpu_index", Integer),
    Column("model", Text),
    Column("memory_total_mebibytes", Integer),
    Column("heard_ms", BigInteger),
    UniqueConstraint("cluster", "node", "gpu"),
)

# Who has a GPU and under which finding, by number. Nobody and nothing wrong is a tenure too: four empty texts.
rollup_tenures = Table(
    "rollup_tenures",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("workload", Text, nullable=False),
    Column("queue", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("cause", Text, nullable=False),
    UniqueConstraint("cluster", "workload", "queue", "owner", "cause"),
)

# From when to when a GPU had a tenure and a standing (model/rollup.py); `until_ms` NULL = it still has.
rollup_spans = Table(
    "rollup_spans",
    metadata,
    Column("gpu_id", Integer, primary_key=True, autoincrement=False),
    Column("since_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("until_ms", BigInteger),
    Column("tenure_id", Integer, nullable=False),
    Column("standing", SmallInteger, nullable=False),
    Column("cluster", Text, nullable=False),
    Index(None, "cluster", "until_ms"),
)

# What else a board of the past needs, from when to when it was so: nodes, jobs, queues, mode, losses.
rollup_facts = Table(
    "rollup_facts",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("since_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("until_ms", BigInteger),
    Column("body", Text, nullable=False),
    Index(None, "cluster", "until_ms"),
)

# How far the roll-ups are: what a restart goes on from.
rollup_state = Table(
    "rollup_state",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", BigInteger, nullable=False),
)


def _states(kind: type[Integer]) -> Iterator[Column[int]]:
    return (Column(state_column(state), kind, nullable=False) for state in STATES)


def _gpu_table(tier: Tier) -> Table:
    """One row a GPU, tenure and step. Wide numbers first: PostgreSQL pads what is out of step."""
    values = [
        Column(metric.stored(statistic), SmallInteger if metric.is_small else Integer)
        for is_small in (False, True)
        for metric in ROLLED
        if metric.is_small is is_small
        for statistic in STATISTICS
    ]
    return Table(
        f"rollup_gpu_{tier.name}",
        metadata,
        Column("at_ms", BigInteger, primary_key=True, autoincrement=False),
        Column("gpu_id", Integer, primary_key=True, autoincrement=False),
        Column("tenure_id", Integer, primary_key=True, autoincrement=False),
        *_states(Integer),
        *values,
        *(Column(metric.samples, SmallInteger, nullable=False) for metric in ROLLED),
        sqlite_with_rowid=False,
    )


GPU_TABLES = {tier.name: _gpu_table(tier) for tier in TIERS}


def _sums() -> Iterator[Column[int]]:
    """What is summed over GPUs: milliseconds by state, and products with milliseconds, from which means are made."""
    yield from _states(BigInteger)
    yield Column("lost_ms", BigInteger, nullable=False)
    yield Column("active_ms", BigInteger, nullable=False)
    yield Column("activity_known_ms", BigInteger, nullable=False)
    yield Column("energy_millijoules", BigInteger, nullable=False)
    yield Column("power_known_ms", BigInteger, nullable=False)


# GPU-milliseconds by tenure: few rows whatever the fleet's size; GPU-hours by cause, queue and workload come from here.
rollup_usage = Table(
    "rollup_usage",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("tier_seconds", Integer, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("tenure_id", Integer, primary_key=True, autoincrement=False),
    *_sums(),
    sqlite_with_rowid=False,
)

# The same by queue ("" = nobody's), for sparklines.
rollup_fleet = Table(
    "rollup_fleet",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("tier_seconds", Integer, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("queue", Text, primary_key=True),
    *_sums(),
    sqlite_with_rowid=False,
)

# What only a board knows, as means over the boards of a step.
rollup_boards = Table(
    "rollup_boards",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("tier_seconds", Integer, primary_key=True, autoincrement=False),
    Column("at_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("boards", Integer, nullable=False),
    Column("goodput_ratio", Float),
    *(Column(f"stranded_{size}", Float) for size in (1, 2, 4, 8)),
    sqlite_with_rowid=False,
)

SUMS: tuple[str, ...] = tuple(column.name for column in _sums())
