"""What the demo needs of a database: room of its own on a shared server, and which reports are really there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from trimtab.errors import StoreError
from trimtab.store.database import open_database
from trimtab.store.tables import journal

ReportKey = tuple[str, str, int]
"""Node, spool id, sequence."""


@contextmanager
def own_schema(url: str, *, name: str, is_kept: bool) -> Iterator[str]:
    """The URL of an empty schema on a PostgreSQL server, dropped at the end; other URLs pass as they are.

    Raises StoreError that says what is missing.
    """
    try:
        parsed = make_url(url)
    except ArgumentError as error:
        raise StoreError(f"{url!r} is no database URL. Write postgresql://user@host/name.") from error
    backend = parsed.get_backend_name()
    if backend not in ("postgresql", "sqlite"):
        raise StoreError(f"trimtab does not speak {backend}. Write postgresql://user@host/name.")
    if backend == "sqlite":
        yield url
        return
    parsed = parsed.set(drivername="postgresql+psycopg")
    engine = sa.create_engine(parsed, isolation_level="AUTOCOMMIT", connect_args={"connect_timeout": 5})
    place = parsed.set(drivername="postgresql").render_as_string(hide_password=True)
    schema = engine.dialect.identifier_preparer.quote(name)
    try:
        _execute(engine, f"CREATE SCHEMA {schema}", place)
        try:
            made = parsed.set(drivername="postgresql").update_query_dict({"options": f"-csearch_path={name}"})
            yield made.render_as_string(hide_password=False)
        finally:
            if not is_kept:
                _execute(engine, f"DROP SCHEMA {schema} CASCADE", place)
    finally:
        engine.dispose()


def stored_reports(url: str, *, state_directory: Path) -> set[ReportKey]:
    """The keys of all reports that are in the database. Raises StoreError."""
    statement = sa.select(journal.c.node, journal.c.spool_id, journal.c.sequence)
    database = open_database(url, state_directory=state_directory)
    try:
        with database.read() as connection:
            return {(row.node, row.spool_id, row.sequence) for row in connection.execute(statement)}
    finally:
        database.close()


def _execute(engine: sa.Engine, statement: str, place: str) -> None:
    try:
        with engine.connect() as connection:
            connection.execute(sa.text(statement))
    except SQLAlchemyError as error:
        reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
        raise StoreError(
            f"{place}: {reason} ({statement}). Is the server up, and may this user create schemas?"
        ) from error
