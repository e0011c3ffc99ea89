"""The tables of people: their tokens and sessions, of which only hashes are kept."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Table, Text

from trimtab.store.tables import RowId, metadata

people_tokens = Table(
    "people_tokens",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("sha256", Text, nullable=False, unique=True),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("expires_at_ms", BigInteger),
    Column("revoked_at_ms", BigInteger),
    Column("last_used_at_ms", BigInteger),
    Index(None, "cluster", "name"),
)

people_sessions = Table(
    "people_sessions",
    metadata,
    Column("id", RowId, primary_key=True),
    Column("cluster", Text, nullable=False),
    Column("who", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("sha256", Text, nullable=False, unique=True),
    Column("signed_in_by", Text, nullable=False),
    Column("token_id", BigInteger),
    Column("peer", Text, nullable=False),
    Column("created_at_ms", BigInteger, nullable=False),
    Column("expires_at_ms", BigInteger, nullable=False),
    Column("last_used_at_ms", BigInteger, nullable=False),
    Index(None, "cluster", "expires_at_ms"),
    Index(None, "cluster", "token_id"),
)
