"""The dashboards of the past, put to a real PostgreSQL: on a fresh database, and on one that was upgraded."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import psycopg
import pytest
import sqlalchemy as sa
from alembic import command
from alembic.script import ScriptDirectory
from sqlalchemy.engine import make_url
from tests.builders import CLUSTER
from tests.dashboards.past import write_past
from tests.dashboards.reading import DASHBOARDS, charts_of, read
from tests.postgres import PostgresServer

from trimtab.setup.history import Postgres
from trimtab.store import database as opening
from trimtab.store import schema
from trimtab.store.database import Database, open_database
from trimtab.store.every_table import metadata

FILES = sorted(path.name for path in DASHBOARDS.glob("*-history*.json"))
PANELS = [
    (name, panel["title"], target) for name in FILES for panel in charts_of(read(name)) for target in panel["targets"]
]
MARKS = [(name, one["name"], one["rawQuery"]) for name in FILES for one in read(name)["annotations"]["list"]]


def step_back() -> str:
    """The revision before the newest: what a database has that the last release made."""
    script = ScriptDirectory.from_config(schema._config())
    newest = script.get_revision("head")
    assert newest is not None
    assert isinstance(newest.down_revision, str)
    return newest.down_revision


def migrate_to(database: Database, revision: str) -> None:
    config = schema._config()
    with database.write() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


class Past:
    """A database with a past, as Grafana sees it: through a role that may only read."""

    def __init__(self, url: str, since: datetime, until: datetime) -> None:
        parts = make_url(url)
        self._since, self._until = since, until
        reader = Postgres(address="", database=str(parts.database), user=f"reader_{uuid.uuid4().hex[:12]}")
        owner = parts.set(drivername="postgresql").render_as_string(hide_password=False)
        with psycopg.connect(owner, autocommit=True) as connection:
            for grant in reader.grants:
                connection.execute(grant.partition("--")[0].encode())
        as_reader = parts.set(drivername="postgresql", username=reader.user).render_as_string(hide_password=False)
        self._connection = psycopg.connect(as_reader, autocommit=True)

    def ask(self, text: str) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of a query with Grafana's macros and choices filled in."""
        filled = text.replace("$__unixEpochFrom()", str(int(self._since.timestamp())))
        filled = filled.replace("$__unixEpochTo()", str(int(self._until.timestamp()) + 1))
        filled = filled.replace("$cluster", f"'{CLUSTER}'")
        assert "$" not in filled, filled
        found = self._connection.execute(filled.encode())
        return [column.name for column in found.description or ()], found.fetchall()

    def close(self) -> None:
        self._connection.close()


@pytest.fixture(scope="module", params=["fresh", "upgraded"])
def past(
    request: pytest.FixtureRequest, postgresql: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Past]:
    """A past that this version wrote, and one that was written before the last migration and upgraded."""
    url, directory = postgresql.new_database(), tmp_path_factory.mktemp("past")
    if request.param == "fresh":
        database = open_database(url, state_directory=directory)
        times = write_past(database)
    else:
        old = unmigrated(url)
        migrate_to(old, step_back())
        # This version writes the rows, and names columns that came with the last migration.
        with old.write() as connection:
            missing = missing_columns(connection)
            for table, column, kind in missing:
                connection.execute(sa.text(f"ALTER TABLE {table} ADD COLUMN {column} {kind}"))
        times = write_past(old)
        with old.write() as connection:
            for table, column, _ in missing:
                connection.execute(sa.text(f"ALTER TABLE {table} DROP COLUMN {column}"))
        old.close()
        database = open_database(url, state_directory=directory)
    with database.read() as connection:
        assert schema.current_revision(connection) == newest()
    database.close()
    seen = Past(url, *times)
    yield seen
    seen.close()


def missing_columns(connection: sa.Connection) -> list[tuple[str, str, str]]:
    """Table, column and type of each column that a table lacks."""
    there = sa.inspect(connection)
    return [
        (table.name, column.name, column.type.compile(connection.dialect))
        for table in metadata.sorted_tables
        if there.has_table(table.name)
        for column in table.columns
        if column.name not in {one["name"] for one in there.get_columns(table.name)}
    ]


def newest() -> str | None:
    return ScriptDirectory.from_config(schema._config()).get_current_head()


def unmigrated(url: str) -> Database:
    """The database as it is, whatever tables it has."""
    make, place = opening._postgresql(opening._parsed(url), session="")
    return Database(make(), place=place)


@pytest.mark.parametrize(("name", "title", "target"), PANELS, ids=[f"{one[0]}-{one[1]}" for one in PANELS])
def test_a_panel_is_answered(name: str, title: str, target: dict[str, Any], past: Past) -> None:
    columns, rows = past.ask(target["rawSql"])
    assert rows, f"{name}: {title} has no rows"
    assert any(value is not None for row in rows for value in row[1 if columns[0] == "time" else 0 :])
    if target["format"] == "time_series":
        assert columns[0] == "time"
        assert all(isinstance(row[0], datetime) for row in rows)
        assert [row[0] for row in rows] == sorted(row[0] for row in rows)


@pytest.mark.parametrize(("name", "mark", "text"), MARKS, ids=[f"{one[0]}-{one[1]}" for one in MARKS])
def test_a_mark_on_the_time_axis_is_answered(name: str, mark: str, text: str, past: Past) -> None:
    columns, rows = past.ask(text)
    assert {"time", "text", "tags"} <= set(columns)
    assert rows


@pytest.mark.parametrize("name", FILES)
def test_its_variables_are_answered(name: str, past: Past) -> None:
    for variable in read(name)["templating"]["list"]:
        if variable["type"] == "query":
            _, rows = past.ask(variable["query"])
            assert (CLUSTER,) in rows


def test_a_query_for_another_time_finds_nothing(past: Past) -> None:
    text = next(target["rawSql"] for _, title, target in PANELS if title == "Findings, one by one")
    assert past.ask(text)[1]
    later = re.sub(r"\$__unixEpoch(From|To)\(\)", "4102444800", text)
    assert past.ask(later)[1] == []


def test_what_is_shown_is_what_was_written(past: Past) -> None:
    texts = {title: target["rawSql"] for _, title, target in PANELS}
    assert past.ask(texts["Findings"])[1] == [(2,)]
    assert past.ask(texts["Still open"])[1] == [(1,)]
    assert float(past.ask(texts["Right"])[1][0][0]) == pytest.approx(2 / 3)
    assert past.ask(texts["Expected gain"])[1] == [(pytest.approx(57.8),)]
    by_state = dict(zip(*_first(past.ask(texts["GPU-hours by state"])), strict=True))
    # The first whole hour: two of four GPUs worked, two were free.
    assert by_state["working"] == pytest.approx(2.0, rel=0.02)
    assert by_state["free"] == pytest.approx(2.0, rel=0.02)


def _first(answer: tuple[list[str], list[tuple[Any, ...]]]) -> tuple[list[str], tuple[Any, ...]]:
    return answer[0], answer[1][0]


def test_the_reader_may_do_nothing_but_read(past: Past) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        past.ask("DELETE FROM findings")
