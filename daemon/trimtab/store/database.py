"""The one door to SQLAlchemy's engine: opens SQLite or PostgreSQL, hands out transactions, translates errors."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from trimtab.errors import StoreError
from trimtab.store import schema
from trimtab.store.faults import sentence_of

BUSY_TIMEOUT_SECONDS = 10.0
_WRITES = "trimtab_writes"
TOLD = "trimtab_told"
"""In a connection's info: what is to be said once its transaction is durable, and never if it is not."""
TERM = "trimtab_term"
"""Execution option of connections that write: in whose term (election.py)."""

# A PostgreSQL that vanished without a word must not hold the beat that remembers: give up on a dead peer in 15 s.
_POSTGRESQL_ARGUMENTS = {
    "connect_timeout": "5",
    "tcp_user_timeout": "15000",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "2",
    "application_name": "trimtab",
}


class Database:
    """An open database with the tables of this version."""

    def __init__(self, engine: Engine, *, place: str, writer: Engine | None = None) -> None:
        """Wrap an engine; `place` is the file or the URL without password, as people are told.

        `writer` has connections of its own for what writes: however many read at once, writing waits for none of them.
        """
        self.place = place
        self.is_sqlite = engine.dialect.name == "sqlite"
        self._engine = engine
        self._writer = writer or engine
        self._writing = self._writer.execution_options(**{_WRITES: True})
        self._check: Callable[[Connection], None] | None = None
        # SQLite has one writer at a time: beats and API threads queue here, and the busy time-out is for strangers.
        self._one_writer: AbstractContextManager[Any] = threading.Lock() if self.is_sqlite else nullcontext()

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """One transaction that writes: durable when it returns, nothing happened when it raises StoreError."""
        told: list[Callable[[], None]] = []
        with self._one_writer, self._translated(), self._writing.begin() as connection:
            connection.info[TOLD] = told
            if self._check is not None:
                self._check(connection)
            yield connection
        for tell in told:
            tell()

    def fence(self, check: Callable[[Connection], None], *, term: int) -> None:
        """From now on each transaction that writes begins with this check, and nothing is written where it raises."""
        self._writing = self._writer.execution_options(**{_WRITES: True, TERM: term})
        self._check = check

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """One consistent look at the database. Raises StoreError."""
        with self._translated(), self._engine.connect() as connection:
            yield connection

    def insert(self, table: sa.Table) -> Any:  # noqa: ANN401 - two dialects' Insert, alike in what is used of them
        """An INSERT that knows ON CONFLICT, in this engine's dialect."""
        return sqlite.insert(table) if self.is_sqlite else postgresql.insert(table)

    def size_bytes(self) -> int:
        """What the database takes on disk."""
        statement = (
            "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
            if self.is_sqlite
            else "SELECT pg_database_size(current_database())"
        )
        with self.read() as connection:
            return int(connection.execute(sa.text(statement)).scalar_one())

    def shrink_log(self) -> None:
        """Give the room of SQLite's write-ahead log back to the disk, as far as nobody reads from it."""
        if self.is_sqlite:
            with self._one_writer, self._translated(), self._writer.connect() as connection:
                driver: Any = connection.connection.driver_connection
                driver.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    def close(self) -> None:
        """Give all connections back."""
        self._engine.dispose()
        self._writer.dispose()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, psycopg.Error) as error:
            raise StoreError(sentence_of(error, place=self.place, password=self._engine.url.password)) from error


def open_database(url: str, *, state_directory: Path, is_left_as_it_is: bool = False, session: str = "") -> Database:
    """Open and bring up to date. Raises StoreError that says what is wrong, where, and what to do.

    `is_left_as_it_is`: only look at what is there; an older schema is not upgraded and nothing is made.
    `session`: what its connections are called on a PostgreSQL server.
    """
    parsed = _parsed(url)
    if is_left_as_it_is:
        _check_is_there(parsed, state_directory)
    if parsed.get_backend_name() == "sqlite":
        make, place = _sqlite(parsed, state_directory)
    else:
        make, place = _postgresql(parsed, session=session)
    database = Database(make(), place=place, writer=make())
    try:
        if is_left_as_it_is:
            schema.check(database)
        else:
            schema.migrate(database)
    except BaseException:
        database.close()
        raise
    return database


def sqlite_path(url: str, *, state_directory: Path) -> Path | None:
    """The file of a SQLite database, whatever options its URL has; None = PostgreSQL. Raises StoreError."""
    return _sqlite_path(_parsed(url), state_directory)


def _sqlite_path(url: URL, state_directory: Path) -> Path | None:
    if url.get_backend_name() != "sqlite":
        return None
    if not url.database or url.database == ":memory:":
        raise StoreError("store.url names no file, so nothing would outlive the daemon. Write sqlite:///trimtab.db.")
    # A `file:` URI is SQLite's own to read: its options are no part of the file's name.
    return state_directory / url.database.removeprefix("file:").partition("?")[0]


def _check_is_there(url: URL, state_directory: Path) -> None:
    path = _sqlite_path(url, state_directory)
    if path is not None and not path.is_file():
        raise StoreError(f"{path}: there is no database yet. The daemon makes it at its first start.")


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(
            "store.url is not a database URL. Write sqlite:///trimtab.db or postgresql://user@host/name."
        ) from error
    if parsed.drivername not in ("sqlite", "sqlite+pysqlite", "postgresql", "postgresql+psycopg"):
        raise StoreError(
            f"store.url begins with {parsed.drivername}://, which trimtab does not speak. "
            "Write sqlite:///trimtab.db or postgresql://user@host/name."
        )
    return parsed


def _sqlite(url: URL, state_directory: Path) -> tuple[Callable[[], Engine], str]:
    path = _sqlite_path(url, state_directory)
    assert path is not None
    _make_directory(path.parent)
    # A `file:` URI is made whole too: one that is relative would depend on where the daemon was started.
    database = str(url.database)
    options = database.partition("?")[2] if database.startswith("file:") else ""
    database = str(path) if not database.startswith("file:") else f"file:{path}" + (f"?{options}" if options else "")
    return partial(_sqlite_engine, url.set(database=database)), str(path)


def _sqlite_engine(url: URL) -> Engine:
    engine = sa.create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_SECONDS})
    sa.event.listen(engine, "connect", _prepare_sqlite)
    sa.event.listen(engine, "begin", _begin_sqlite)
    return engine


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o750, parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            f"{directory}: cannot keep the database here: {error.strerror}. "
            "Set state_directory to a directory that the daemon's user may write."
        ) from error


def _prepare_sqlite(connection: sqlite3.Connection, _record: object) -> None:
    # Python's sqlite3 would begin transactions late and commit before DDL; `_begin_sqlite` begins them instead.
    connection.isolation_level = None
    # Of an empty file only: what roll-ups let go of can be given back to the disk bit by bit.
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise StoreError(
            f"SQLite cannot keep its write-ahead log here (journal mode {mode}). Put state_directory on a local disk "
            "that the daemon's user may write, or set store.url to PostgreSQL."
        )
    # FULL: a commit is on the disk before an agent is told so, and outlives a power cut.
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    connection.execute("PRAGMA journal_size_limit=67108864")


def _begin_sqlite(connection: Connection) -> None:
    # IMMEDIATE: a transaction that will write waits at its begin, where it can; one that read first could not.
    writes = connection.get_execution_options().get(_WRITES)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _postgresql(url: URL, *, session: str) -> tuple[Callable[[], Engine], str]:
    url = url.set(drivername="postgresql+psycopg")
    arguments = {key: value for key, value in _POSTGRESQL_ARGUMENTS.items() if key not in url.query}
    arguments |= {"application_name": session} if session else {}
    # pre_ping: a server that was restarted costs nothing but the transaction that it cut.
    make = partial(sa.create_engine, url, connect_args=arguments, pool_pre_ping=True, pool_size=4, max_overflow=8)
    return make, url.set(drivername="postgresql").render_as_string(hide_password=True)
