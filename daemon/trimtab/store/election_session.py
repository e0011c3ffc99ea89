"""The election's own connection to PostgreSQL: the advisory lock lives and dies with it, so nothing else may use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import Connection, make_url
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from trimtab.errors import DatabaseAway, StoreError
from trimtab.store.database import Database
from trimtab.store.faults import is_away, sentence_of

LOCK = "trimtab election"

# Of this side: a server that vanished without a word is given up in 5 s.
_CLIENT = {
    "connect_timeout": "3",
    "tcp_user_timeout": "5000",
    "keepalives_idle": "2",
    "keepalives_interval": "1",
    "keepalives_count": "3",
}
# Of the server's side: it finds a peer that vanished within 8 s, and lets go of the lock then.
_SERVER = {
    "tcp_keepalives_idle": "2",
    "tcp_keepalives_interval": "2",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "8000",
    "statement_timeout": "3000",
    "lock_timeout": "2000",
    "idle_session_timeout": "0",
}


def session_name(instance: str) -> str:
    """What connections of a process are called in pg_stat_activity."""
    return f"trimtab {instance}"


class Session:
    """One connection, made anew where it broke; whatever happens to it, the lock is not ours without it."""

    def __init__(self, url: str, *, cluster: str, instance: str) -> None:
        """Nothing is asked yet."""
        self._cluster = cluster
        parsed = make_url(url).set(drivername="postgresql+psycopg")
        self._password = parsed.password
        self.place = parsed.set(drivername="postgresql").render_as_string(hide_password=True)
        self._application = f"{session_name(instance)} election"
        arguments = {**_CLIENT, "application_name": self._application}
        self._engine = sa.create_engine(
            parsed, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=arguments
        )
        self._connection: Connection | None = None
        self._key = 0
        self.pid = 0
        """Of the server's process for this connection."""
        self.has_lock = False

    @contextmanager
    def open(self) -> Iterator[Connection]:
        """The connection; broken by any error, and made anew at the next call. Raises StoreError."""
        try:
            if self._connection is None:
                self._connect()
            connection = self._connection
            assert connection is not None
            self._check_pid(connection)
            yield connection
        except (SQLAlchemyError, psycopg.Error) as error:
            self.close()
            kind = DatabaseAway if is_away(error) else StoreError
            raise kind(sentence_of(error, place=self.place, password=self._password)) from error

    def _connect(self) -> None:
        connection = self._engine.connect()
        names = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SERVER.items())
        connection.execute(sa.text(f"SELECT {names}"))
        self.pid = int(connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one())
        # Locks are the whole database's: one for each schema and cluster in it.
        key = sa.text("SELECT hashtextextended(:lock || coalesce(current_schema(), '') || '/' || :cluster, 0)")
        self._key = int(connection.execute(key, {"lock": LOCK, "cluster": self._cluster}).scalar_one())
        self._connection = connection

    def _check_pid(self, connection: Connection) -> None:
        """A pooler that gives each statement another session would give the lock to whoever comes next."""
        if connection.execute(sa.text("SELECT pg_backend_pid()")).scalar_one() != self.pid:
            self.close()
            raise StoreError(
                f"{self.place}: a pooler stands between that changes sessions under us (transaction pooling), so that "
                "no lock can be held. Point store.url at PostgreSQL itself, or at a pool in session mode."
            )

    def close(self) -> None:
        """Hang up: the lock is free then."""
        connection, self._connection, self.has_lock = self._connection, None, False
        if connection is not None:
            with suppress(SQLAlchemyError, psycopg.Error):
                connection.invalidate()
            with suppress(SQLAlchemyError, psycopg.Error):
                connection.close()

    # --- the lock

    def try_lock(self, connection: Connection) -> bool:
        """Take the lock if it is free."""
        taken = sa.select(sa.func.pg_try_advisory_lock(self._bigint))
        self.has_lock = self.has_lock or bool(connection.execute(taken).scalar_one())
        return self.has_lock

    def holder_pid(self, connection: Connection) -> int | None:
        """The server's process that has the lock."""
        found = connection.execute(sa.text(f"SELECT pid FROM pg_locks WHERE {_IS_LOCK}"), self._halves).scalars().all()
        return int(found[0]) if found else None

    def is_held_by_us(self, connection: Connection) -> bool:
        """Whether the server says, on whatever connection, that this session has the lock."""
        return self.has_lock and self.holder_pid(connection) == self.pid

    def end_own_holder(self, connection: Connection) -> bool:
        """End an earlier connection of this very process that still has the lock; whether there was one."""
        ended = sa.text(
            "SELECT pg_terminate_backend(a.pid) FROM pg_stat_activity a JOIN pg_locks l ON l.pid = a.pid "
            f"WHERE {_IS_LOCK} AND a.application_name = :name"
        )
        return bool(connection.execute(ended, {**self._halves, "name": self._application}).all())

    def end_sessions_of(self, database: Database, name: str) -> None:
        """End every connection of a process that was the active daemon, and with them what it had under way."""
        ended = sa.text(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND application_name IN (:name, :name || ' election')"
        )
        with database.read() as connection:
            connection.execute(ended, {"name": name}).all()

    def has_tables(self, connection: Connection) -> bool:
        """Whether the election's tables are there; a daemon that is elected makes them."""
        return connection.execute(sa.text("SELECT to_regclass('daemons')")).scalar_one() is not None

    @property
    def _bigint(self) -> sa.ColumnElement[int]:
        return sa.cast(self._key, sa.BigInteger)

    @property
    def _halves(self) -> dict[str, int]:
        """The key as pg_locks shows it."""
        return {"high": (self._key >> 32) & 0xFFFFFFFF, "low": self._key & 0xFFFFFFFF}


@contextmanager
def vacant(url: str, *, cluster: str) -> Iterator[None]:
    """Hold the office of every cluster in a PostgreSQL database, so that no daemon is active nor becomes it meanwhile.

    SQLite has no other daemon but the one on this host. Raises StoreError where one is active.
    """
    if not url.startswith("postgresql"):
        yield
        return
    first = Session(url, cluster=cluster, instance="by hand")
    sessions = [first]
    try:
        with first.open() as connection:
            has_tables = connection.execute(sa.text("SELECT to_regclass('leadership')")).scalar_one() is not None
            known = "SELECT cluster FROM leadership WHERE cluster <> :cluster"
            others = connection.execute(sa.text(known), {"cluster": cluster}).scalars().all() if has_tables else ()
        sessions += [Session(url, cluster=one, instance="by hand") for one in others]
        for name, session in zip((cluster, *others), sessions, strict=True):
            with session.open() as connection:
                if not session.try_lock(connection):
                    raise StoreError(
                        f"{session.place}: a daemon of cluster {name} is active on it, here or on another host. Stop "
                        "each of them first (systemctl stop trimtab-daemon.socket trimtab-daemon). Nothing was changed."
                    )
        yield
    finally:
        for session in sessions:
            session.close()


_IS_LOCK = (
    "locktype = 'advisory' AND granted AND objsubid = 1 "
    "AND database = (SELECT oid FROM pg_database WHERE datname = current_database()) "
    "AND classid = CAST(CAST(:high AS bigint) AS oid) AND objid = CAST(CAST(:low AS bigint) AS oid)"
)
