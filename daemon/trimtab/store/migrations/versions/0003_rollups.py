"""Roll-ups of 1 min, 15 min and 1 h: their tables, and views with names and base units for any SQL client."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

TIERS = (("1m", 60), ("15m", 900), ("1h", 3600))
STATES = ("working", "held_idle", "free", "stranded", "spare", "out_of_service", "unknown")
STATISTICS = ("min", "mean", "max", "p95")
# stem, unit, stored unit, how many of these make one unit, whether 16 bits suffice
METRICS = (
    ("activity", "ratio", "permille", 1000.0, True),
    ("dram_active", "ratio", "permille", 1000.0, True),
    ("power", "watts", "deciwatts", 10.0, False),
    ("temperature", "celsius", "decicelsius", 10.0, True),
    ("sm_clock", "hertz", "megahertz", 1e-06, False),
    ("memory_used", "bytes", "mebibytes", 9.5367431640625e-07, False),
    ("nvlink", "bytes_per_second", "megabytes_per_second", 1e-06, False),
    ("pcie", "bytes_per_second", "kilobytes_per_second", 0.001, False),
)
SUMS = ("lost_ms", "active_ms", "activity_known_ms", "energy_millijoules", "power_known_ms")


def upgrade() -> None:
    _dictionaries()
    _spans()
    for tier, _ in TIERS:
        _gpu_table(tier)
    _sums_table("rollup_usage", sa.Column("tenure_id", sa.Integer(), nullable=False))
    _sums_table("rollup_fleet", sa.Column("queue", sa.Text(), nullable=False))
    op.create_table(
        "rollup_boards",
        *_place(),
        sa.Column("boards", sa.Integer(), nullable=False),
        sa.Column("goodput_ratio", sa.Float()),
        *(sa.Column(f"stranded_{size}", sa.Float()) for size in (1, 2, 4, 8)),
        sa.PrimaryKeyConstraint("cluster", "tier_seconds", "at_ms", name="pk_rollup_boards"),
        sqlite_with_rowid=False,
    )
    for name, statement in _views(is_sqlite=op.get_bind().dialect.name == "sqlite").items():
        op.execute(f"CREATE VIEW {name} AS {statement}")


def _dictionaries() -> None:
    op.create_table(
        "rollup_gpus",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("node", sa.Text(), nullable=False),
        sa.Column("gpu", sa.Text(), nullable=False),
        sa.Column("gpu_index", sa.Integer()),
        sa.Column("model", sa.Text()),
        sa.Column("memory_total_mebibytes", sa.Integer()),
        sa.PrimaryKeyConstraint("id", name="pk_rollup_gpus"),
        sa.UniqueConstraint("cluster", "node", "gpu", name="uq_rollup_gpus_cluster_node_gpu"),
    )
    op.create_table(
        "rollup_tenures",
        sa.Column("id", sa.Integer(), nullable=False),
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("cluster", "workload", "queue", "owner", "cause")),
        sa.PrimaryKeyConstraint("id", name="pk_rollup_tenures"),
        sa.UniqueConstraint(
            "cluster",
            "workload",
            "queue",
            "owner",
            "cause",
            name="uq_rollup_tenures_cluster_workload_queue_owner_cause",
        ),
    )


def _spans() -> None:
    op.create_table(
        "rollup_spans",
        sa.Column("gpu_id", sa.Integer(), nullable=False),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger()),
        sa.Column("tenure_id", sa.Integer(), nullable=False),
        sa.Column("standing", sa.SmallInteger(), nullable=False),
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("gpu_id", "since_ms", name="pk_rollup_spans"),
    )
    op.create_index("ix_rollup_spans_cluster_until_ms", "rollup_spans", ["cluster", "until_ms"])
    op.create_table(
        "rollup_facts",
        *(sa.Column(name, sa.Text(), nullable=False) for name in ("cluster", "kind", "name")),
        sa.Column("since_ms", sa.BigInteger(), nullable=False),
        sa.Column("until_ms", sa.BigInteger()),
        sa.Column("body", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "kind", "name", "since_ms", name="pk_rollup_facts"),
    )
    op.create_index("ix_rollup_facts_cluster_until_ms", "rollup_facts", ["cluster", "until_ms"])
    op.create_table(
        "rollup_state",
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("value", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("cluster", "name", name="pk_rollup_state"),
    )


def _gpu_table(tier: str) -> None:
    name = f"rollup_gpu_{tier}"
    op.create_table(
        name,
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
        sa.Column("gpu_id", sa.Integer(), nullable=False),
        sa.Column("tenure_id", sa.Integer(), nullable=False),
        *(sa.Column(f"{state}_ms", sa.Integer(), nullable=False) for state in STATES),
        *(
            sa.Column(f"{stem}_{statistic}_{stored}", sa.SmallInteger() if small else sa.Integer())
            for wanted in (False, True)
            for stem, _, stored, _, small in METRICS
            if small is wanted
            for statistic in STATISTICS
        ),
        *(sa.Column(f"{stem}_samples", sa.SmallInteger(), nullable=False) for stem, *_ in METRICS),
        sa.PrimaryKeyConstraint("at_ms", "gpu_id", "tenure_id", name=f"pk_{name}"),
        sqlite_with_rowid=False,
    )


def _place() -> tuple[sa.Column[object], ...]:
    return (
        sa.Column("cluster", sa.Text(), nullable=False),
        sa.Column("tier_seconds", sa.Integer(), nullable=False),
        sa.Column("at_ms", sa.BigInteger(), nullable=False),
    )


def _sums_table(name: str, by: sa.Column[object]) -> None:
    op.create_table(
        name,
        *_place(),
        by,
        *(sa.Column(f"{state}_ms", sa.BigInteger(), nullable=False) for state in STATES),
        *(sa.Column(column, sa.BigInteger(), nullable=False) for column in SUMS),
        sa.PrimaryKeyConstraint("cluster", "tier_seconds", "at_ms", by.name, name=f"pk_{name}"),
        sqlite_with_rowid=False,
    )


def _views(*, is_sqlite: bool) -> dict[str, str]:
    moment = "datetime(r.at_ms / 1000, 'unixepoch')" if is_sqlite else "to_timestamp(r.at_ms / 1000.0)"
    made = {}
    for tier, seconds in TIERS:
        made[f"gpu_{tier}"] = _gpu_view(tier, moment)
        made[f"usage_{tier}"] = _sums_view(seconds, moment, is_by_tenure=True)
        made[f"fleet_{tier}"] = _sums_view(seconds, moment, is_by_tenure=False)
    return made


def _real(number: float) -> str:
    return f"CAST({number!r} AS DOUBLE PRECISION)"


def _gpu_view(tier: str, moment: str) -> str:
    columns = ["r.at_ms", f"{moment} AS at", "g.cluster", "g.node", "g.gpu", "g.gpu_index", "g.model"]
    columns += ["t.workload", "t.queue", "t.owner", "t.cause"]
    columns += [f"r.{state}_ms / {_real(1000)} AS {state}_seconds" for state in STATES]
    for stem, unit, stored, per_unit, _ in METRICS:
        columns.append(f"r.{stem}_samples")
        columns += [f"r.{stem}_{one}_{stored} / {_real(per_unit)} AS {stem}_{one}_{unit}" for one in STATISTICS]
    joins = "JOIN rollup_gpus g ON g.id = r.gpu_id JOIN rollup_tenures t ON t.id = r.tenure_id"
    return f"SELECT {', '.join(columns)} FROM rollup_gpu_{tier} r {joins}"


def _sums_view(seconds: int, moment: str, *, is_by_tenure: bool) -> str:
    table = "rollup_usage" if is_by_tenure else "rollup_fleet"
    step = _real(1000 * seconds)
    columns = ["r.at_ms", f"{moment} AS at", "r.cluster"]
    columns += ["t.workload", "t.queue", "t.owner", "t.cause"] if is_by_tenure else ["r.queue"]
    columns += [f"r.{state}_ms / {_real(1000)} AS {state}_gpu_seconds" for state in STATES]
    columns += [
        f"r.lost_ms / {_real(1000)} AS lost_gpu_seconds",
        f"({' + '.join(f'r.{state}_ms' for state in STATES)}) / {step} AS gpus",
        f"r.active_ms / ({_real(1)} * NULLIF(r.activity_known_ms, 0)) AS activity_mean_ratio",
        f"r.energy_millijoules / {step} AS power_watts",
        f"r.energy_millijoules / {_real(1000)} AS energy_joules",
    ]
    join = " JOIN rollup_tenures t ON t.id = r.tenure_id" if is_by_tenure else ""
    return f"SELECT {', '.join(columns)} FROM {table} r{join} WHERE r.tier_seconds = {seconds}"
