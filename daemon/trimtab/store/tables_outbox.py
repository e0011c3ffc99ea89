"""Tables of on-call: incidents, the outbox with its letters, and what was done at the other end."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table, Text, UniqueConstraint, text

from trimtab.store.tables import RowId, metadata

# `incident` is the finding's own name for it. One open row a name: a second daemon on the same database, or a beat
# that is repeated after a crash, opens nothing twice. `sequence` counts its letters, `version` its changes.
incidents = Table(
    "incidents",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("incident", Text, nullable=False),
    Column("finding_id", BigInteger),
    Column("is_open", Boolean, nullable=False),
    Column("is_drill", Boolean, nullable=False),
    Column("pager", Text, nullable=False),
    Column("rule", Text, nullable=False),
    Column("severity", Text, nullable=False),
    Column("node", Text),
    Column("workload", Text),
    Column("queue", Text),
    Column("first_line", Text, nullable=False),
    Column("quiet", Text, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("version", Integer, nullable=False),
    Column("opened_at_ms", BigInteger, nullable=False),
    Column("paged_at_ms", BigInteger),
    Column("acknowledged_at_ms", BigInteger),
    Column("acknowledged_by", Text),
    Column("closed_at_ms", BigInteger),
    Column("body", Text, nullable=False),
    Index(None, "cluster", "opened_at_ms"),
    Index(None, "cluster", "is_open"),
    Index(None, "cluster", "is_drill"),
)
Index(
    "uq_incidents_open",
    incidents.c.cluster,
    incidents.c.incident,
    unique=True,
    sqlite_where=text("is_open"),
    postgresql_where=text("is_open"),
)

# One row a message and target. Claimed only when no lower sequence of the same target and incident is ready or leased.
outbox = Table(
    "outbox",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("target", Text, nullable=False),
    Column("incident", BigInteger, nullable=False),
    Column("sequence", Integer, nullable=False),
    Column("idem", Text, nullable=False),
    Column("verb", Text, nullable=False),
    Column("rank", Integer, nullable=False),
    Column("state", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("is_unsure", Boolean, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("not_before_ms", BigInteger, nullable=False),
    Column("lease_until_ms", BigInteger),
    Column("owner", Text),
    Column("error", Text, nullable=False),
    Column("remark", Text, nullable=False),
    Column("remote_id", Text, nullable=False),
    Column("thread", Text),
    Column("handed_on_at_ms", BigInteger),
    Column("done_at_ms", BigInteger),
    Column("body", Text, nullable=False),
    UniqueConstraint("cluster", "idem"),
    UniqueConstraint("cluster", "target", "incident", "sequence"),
    Index(None, "cluster", "state", "target"),
    Index(None, "cluster", "incident"),
    Index(None, "cluster", "created_at_ms"),
)

# What somebody did at a pager, by the pager's own id: a call-back that comes twice is one act.
inbound_acts = Table(
    "inbound_acts",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("id", Text, primary_key=True),
    Column("at_ms", BigInteger, nullable=False),
)
