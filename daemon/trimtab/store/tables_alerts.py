"""Tables of what Alertmanager and we tell each other: others' alerts, maintenance windows, alerts that we pushed."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Table, Text

from trimtab.store.tables import metadata

# Other people's alerts, as the webhook brought them; one row a fingerprint and start.
foreign_alerts = Table(
    "foreign_alerts",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("fingerprint", Text, primary_key=True),
    Column("starts_at_ms", BigInteger, primary_key=True, autoincrement=False),
    Column("state", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("node", Text),
    Column("gpu", Text),
    Column("pod", Text),
    Column("workload", Text),
    Column("source", Text, nullable=False),
    Column("heard_at_ms", BigInteger, nullable=False),
    Column("ends_at_ms", BigInteger),
    Column("body", Text, nullable=False),
    Index(None, "cluster", "state", "heard_at_ms"),
    Index(None, "cluster", "node", "heard_at_ms"),
)

maintenance = Table(
    "maintenance",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("scope", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("starts_at_ms", BigInteger, nullable=False),
    Column("until_ms", BigInteger, nullable=False),
    Column("ended_at_ms", BigInteger),
    Column("who", Text, nullable=False),
    Column("why", Text, nullable=False),
    Column("silence_id", Text, nullable=False),
    Column("body", Text, nullable=False),
    Index(None, "cluster", "until_ms"),
)

# What we gave to Alertmanager, by the hash of its labels: what is open there is ended by us, after any crash.
pushed_alerts = Table(
    "pushed_alerts",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("labels_sha256", Text, primary_key=True),
    Column("incident", BigInteger, nullable=False),
    Column("starts_at_ms", BigInteger, nullable=False),
    Column("resolved_at_ms", BigInteger),
    Column("body", Text, nullable=False),
)
