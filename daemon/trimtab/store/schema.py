"""Brings a database to this version's tables by Alembic's migrations; refuses one that is newer."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy.engine import Connection

from trimtab import __version__
from trimtab.errors import DatabaseNewer, StoreError
from trimtab.loop import moving
from trimtab.store.tables import VERSION_TABLE, meta

if TYPE_CHECKING:
    from trimtab.store.database import Database

_STEPS = 10_000_000
"""Of SQLite's virtual machine, between two words of progress: about a second."""
_LOCK_KEY = 0x7472696D746162  # "trimtab": one migration at a time among all daemons on one PostgreSQL database


def migrate(database: Database) -> None:
    """Make or upgrade the tables, in one transaction. Raises StoreError for a database of a newer trimtab."""
    config = _config()
    with _locked(database) as connection:
        _refuse_newer(database.place, connection, ScriptDirectory.from_config(config))
        config.attributes["connection"] = connection
        with _told(connection):
            command.upgrade(config, "head")
        _note_version(database, connection)


def check(database: Database) -> None:
    """Only look. Raises StoreError for a database of a newer trimtab, or of none."""
    with database.read() as connection:
        _refuse_newer(database.place, connection, ScriptDirectory.from_config(_config()))
        if current_revision(connection) is None:
            raise StoreError(f"{database.place}: there are no tables of trimtab. The daemon makes them at its start.")


def refuse_newer(place: str, connection: Connection) -> None:
    """Raises StoreError where a newer trimtab has upgraded the database."""
    _refuse_newer(place, connection, _script())


def known_revisions() -> frozenset[str]:
    """The schemas that this version can use or upgrade."""
    return frozenset(revision.revision for revision in _script().walk_revisions())


@cache
def _script() -> ScriptDirectory:
    """The migrations that this version knows; a standby asks twice a second."""
    return ScriptDirectory.from_config(_config())


def current_revision(connection: Connection) -> str | None:
    """The schema that the database has; None when it is empty."""
    return MigrationContext.configure(connection, opts={"version_table": VERSION_TABLE}).get_current_revision()


def _config() -> Config:
    config = Config()
    # Alembic reads its options through configparser, to which a percent sign is special.
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations").replace("%", "%%"))
    return config


@contextmanager
def _told(connection: Connection) -> Iterator[None]:
    """While tables are upgraded, say that it gets on: SQLite counts its own steps, however long a statement takes."""
    moving("the database's migrations")
    raw = connection.connection.driver_connection
    if not isinstance(raw, sqlite3.Connection):
        yield
        return
    raw.set_progress_handler(lambda: moving("the database's migrations"), _STEPS)
    try:
        yield
    finally:
        raw.set_progress_handler(None, 0)


@contextmanager
def _locked(database: Database) -> Iterator[Connection]:
    with database.write() as connection:  # on SQLite this is the lock
        if not database.is_sqlite:
            connection.execute(sa.text("SELECT pg_advisory_xact_lock(:key)"), {"key": _LOCK_KEY})
        yield connection


def _refuse_newer(place: str, connection: Connection, script: ScriptDirectory) -> None:
    current = current_revision(connection)
    if current is not None and current not in {revision.revision for revision in script.walk_revisions()}:
        raise DatabaseNewer(_newer(place, current, connection, script))


def _newer(place: str, current: str, connection: Connection, script: ScriptDirectory) -> str:
    writer = connection.execute(sa.select(meta.c.value).where(meta.c.key == "version")).scalar_one_or_none()
    return (
        f"{place}: written by a newer trimtab ({writer or 'version unknown'}, schema {current}); this is trimtab "
        f"{__version__} with schema {script.get_current_head()}. Install that version or a later one, or point "
        "store.url at another database. Nothing was changed."
    )


def _note_version(database: Database, connection: Connection) -> None:
    statement = database.insert(meta).values(key="version", value=__version__)
    connection.execute(
        statement.on_conflict_do_update(index_elements=[meta.c.key], set_={"value": statement.excluded.value})
    )
