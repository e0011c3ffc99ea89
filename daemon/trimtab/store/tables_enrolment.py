"""The tables of enrolment: join tokens and nodes' credentials, of which only hashes are kept."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Index, Integer, Table, Text

from trimtab.store.tables import RowId, metadata

enrolment_versions = Table(
    "enrolment_versions",
    metadata,
    Column("cluster", Text, primary_key=True),
    # Raised first in each change: changes of a cluster come one after the other, and readers ask for what is newer.
    Column("version", BigInteger, nullable=False),
)

join_tokens = Table(
    "join_tokens",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("sha256", Text, nullable=False, unique=True),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
    Column("is_again", Boolean, nullable=False),
    Column("why", Text, nullable=False),
    Column("used_at_ms", BigInteger),
    Column("used_by", Text, nullable=False),
    Column("used_from", Text, nullable=False),
    Column("withdrawn_at_ms", BigInteger),
    Column("withdrawn_by", Text, nullable=False),
    Index(None, "cluster", "node"),
)

node_credentials = Table(
    "node_credentials",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("node", Text, nullable=False),
    Column("sha256", Text, nullable=False, unique=True),
    Column("join_id", BigInteger, nullable=False),
    Column("enrolled_by", Text, nullable=False),
    Column("given_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
    Column("renewals", Integer, nullable=False),
    Column("first_used_at_ms", BigInteger),
    Column("last_used_at_ms", BigInteger),
    Column("ended_at_ms", BigInteger),
    Column("ended_how", Text),
    Column("ended_by", Text, nullable=False),
    Column("ended_why", Text, nullable=False),
    Column("rotate_at_ms", BigInteger),
    Column("certificate_pem", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Index(None, "cluster", "node"),
    Index(None, "cluster", "version"),
)
