"""Who is the active daemon of a cluster, in which term, and which daemons there are (see election.py)."""

from __future__ import annotations

from sqlalchemy import BigInteger, Boolean, Column, Table, Text

from trimtab.store.tables import metadata

# One row a cluster. Every write of the active daemon shares this row's lock and reads its term; whoever takes over
# raises the term, and so waits for the writes of the term before and refuses all that come later.
leadership = Table(
    "leadership",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("term", BigInteger, nullable=False),
    Column("instance", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("since_ms", BigInteger, nullable=False),
    Column("ended_at_ms", BigInteger),
    Column("takeovers", BigInteger, nullable=False),
)

# One row a daemon process, with a beat that moves while it lives. A table of its own: its updates must not wait for
# whoever holds the row above.
daemons = Table(
    "daemons",
    metadata,
    Column("cluster", Text, primary_key=True),
    Column("instance", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("url", Text, nullable=False),
    Column("version", Text, nullable=False),
    Column("is_active", Boolean, nullable=False),
    Column("backend_pid", BigInteger, nullable=False),
    Column("beat", BigInteger, nullable=False),
    Column("seen_at_ms", BigInteger, nullable=False),
)
