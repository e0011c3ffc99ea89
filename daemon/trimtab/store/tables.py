"""Every table, as SQLAlchemy knows it. Migrations make them; a test proves that the two agree on both engines.

Rows are kept for reading by any SQL client: columns for what people filter by, `body` for the whole value.
Every row carries its `cluster`; every moment is whole milliseconds UTC (`_at_ms`).
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

VERSION_TABLE = "trimtab_schema_version"
"""Alembic's own table, under a name that no other program in the same PostgreSQL database uses."""

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s_%(referred_table_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# SQLite gives a row its id by itself only where the column is an INTEGER.
RowId = BigInteger().with_variant(Integer(), "sqlite")

journal_dictionaries = Table(
    "journal_dictionaries",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("sha256", Text, nullable=False, unique=True),
    Column("body", LargeBinary, nullable=False),
)

# The hot table: one row a report, body packed (docs/decisions/0001-journal-row.md). `at_ms` is the moment that
# windows use: the node's own where its clock is believed, else the receipt.
# Roll-ups are made from it (tables_rollup.py).
journal = Table(
    "journal",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("spool_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("boot_id", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("sampled_at_ms", BigInteger, nullable=False),
    Column("received_at_ms", BigInteger, nullable=False),
    Column("is_replay", Boolean, nullable=False),
    Column("is_clock_believed", Boolean, nullable=False),
    Column("dictionary_id", RowId, ForeignKey("journal_dictionaries.id"), nullable=False),
    Column("body", LargeBinary, nullable=False),
    UniqueConstraint("cluster", "node", "spool_id", "sequence"),
    Index(None, "received_at_ms"),
    Index(None, "cluster", "node", "at_ms"),
)

events = Table(
    "events",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("spool_id", Text, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("ordinal", Integer, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("received_at_ms", BigInteger, nullable=False),
    Column("is_history_only", Boolean, nullable=False),
    Column("kind", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("code", BigInteger),
    Column("gpu", Text),
    Column("pci", Text),
    Column("text", Text, nullable=False),
    Column("body", Text, nullable=False),
    UniqueConstraint("cluster", "node", "spool_id", "sequence", "ordinal"),
    Index(None, "cluster", "at_ms"),
    Index(None, "cluster", "node", "at_ms"),
)

findings = Table(
    "findings",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("rule", Text, nullable=False),
    Column("incident", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("node", Text),
    Column("gpu", Text),
    Column("workload", Text),
    Column("queue", Text),
    Column("sentence", Text, nullable=False),
    Column("gpus_hit", Integer, nullable=False),
    Column("is_history_only", Boolean, nullable=False),
    Column("opened_at_ms", BigInteger, nullable=False),
    Column("changed_at_ms", BigInteger, nullable=False),
    Column("last_seen_at_ms", BigInteger, nullable=False),
    Column("closed_at_ms", BigInteger),
    Column("close_reason", Text),
    Column("body", Text, nullable=False),
    Index(None, "cluster", "state"),
    Index(None, "cluster", "node", "opened_at_ms"),
)

finding_changes = Table(
    "finding_changes",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("finding_id", BigInteger, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("change", Text, nullable=False),
    Column("action", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("sentence", Text, nullable=False),
    UniqueConstraint("cluster", "finding_id", "at_ms", "change"),
    Index(None, "cluster", "at_ms"),
)

# A recommendation and the command that carries it out are one row: the id is allocated when it is proposed.
commands = Table(
    "commands",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("rule", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("purpose", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("is_live", Boolean, nullable=False),
    Column("node", Text),
    Column("workload", Text),
    Column("sentence", Text, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
    Column("changed_at_ms", BigInteger, nullable=False),
    Column("snoozed_until_ms", BigInteger),
    Column("approved_by", Text),
    Column("undo_requested_by", Text),
    Column("reason", Text, nullable=False),
    Column("body", Text, nullable=False),
    Column("is_holding", Boolean),
    Index(None, "cluster", "is_live"),
    Index(None, "cluster", "is_holding"),
    Index(None, "cluster", "changed_at_ms"),
)

outcomes = Table(
    "outcomes",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("command_id", BigInteger, primary_key=True, autoincrement=False),
    Column("rule", Text, nullable=False),
    Column("measured_at_ms", BigInteger, nullable=False),
    Column("is_good", Boolean, nullable=False),
    Column("gpu_hours_lost", Float, nullable=False),
    Column("gpu_hours_saved", Float, nullable=False),
    Column("gpus_unlocked", Integer, nullable=False),
    Column("seconds_to_settle", Float, nullable=False),
    Column("sentence", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index(None, "cluster", "rule", "measured_at_ms"),
)

# Append-only: triggers of the first migration refuse UPDATE and DELETE, whoever tries.
audit = Table(
    "audit",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("at_ms", BigInteger, nullable=False),
    Column("who", Text, nullable=False),
    Column("what", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("command_id", BigInteger),
    Column("finding_id", BigInteger),
    Column("term", BigInteger),  # of the daemon that wrote it (tables_pair.py); null on SQLite and by verbs
    Index(None, "cluster", "at_ms"),
)

switches = Table(
    "switches",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("is_on", Boolean, nullable=False),
    Column("changed_at_ms", BigInteger, nullable=False),
)

# What stands until it is lifted or its time is over: vetoes, breakers, a release of everything.
standing = Table(
    "standing",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("kind", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("since_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger),
    Column("command_id", BigInteger),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("body", Text, nullable=False),
)

meta = Table(
    "meta",
    metadata,
    Column("key", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
