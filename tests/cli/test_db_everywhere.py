"""`trimtab db` in both directions: addresses with options, newer databases, daemons that run, counts that differ."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sa
from click.testing import CliRunner
from tests.postgres import PostgresServer

from trimtab.cli.db import db
from trimtab.clock import SystemClock
from trimtab.errors import StoreError
from trimtab.store import care
from trimtab.store.database import Database, open_database
from trimtab.store.election import Election, Me
from trimtab.store.tables import VERSION_TABLE, audit

CLUSTER = "hall-a"
LINE = {"cluster": CLUSTER, "at_ms": 1, "who": "anna", "what": "pause", "why": '占用, "so"\nlong'}


def run(*words: str | Path) -> str:
    result = CliRunner().invoke(db, [str(word) for word in words])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.output


def settings_of(home: Path, url: str, *, name: str = "daemon.toml") -> Path:
    path = home / name
    path.write_text(f'cluster = "{CLUSTER}"\nstate_directory = "{home}"\n[store]\nurl = "{url}"\n')
    return path


@contextmanager
def opened(url: str, home: Path) -> Iterator[Database]:
    database = open_database(url, state_directory=home)
    try:
        yield database
    finally:
        database.close()


def fill(url: str, home: Path, *, lines: int = 3) -> None:
    with opened(url, home) as database, database.write() as connection:
        connection.execute(sa.insert(audit), [LINE] * lines)


def make_newer(url: str, home: Path) -> None:
    with opened(url, home) as database, database.write() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))


def lines(url: str, home: Path) -> list[tuple[str, str]]:
    with opened(url, home) as database, database.read() as connection:
        return [(row.what, row.why) for row in connection.execute(sa.select(audit).order_by(audit.c.id))]


def test_an_address_with_options_is_backed_up_and_restored_in_its_own_place(tmp_path: Path) -> None:
    url = "sqlite:///kept/trimtab.db?timeout=20"
    settings = settings_of(tmp_path, url)
    fill(url, tmp_path)
    run("backup", "--settings", settings, "--to", tmp_path / "one.db")
    fill(url, tmp_path)
    assert "The database that was there is now" in run("restore", tmp_path / "one.db", "--settings", settings)
    assert len(lines(url, tmp_path)) == 3
    assert not list(tmp_path.glob("trimtab*")), "nothing beside the database's own folder"


def test_a_backup_of_a_newer_trimtab_is_not_put_back(tmp_path: Path) -> None:
    settings = settings_of(tmp_path, "sqlite:///trimtab.db")
    fill("sqlite:///trimtab.db", tmp_path)
    run("backup", "--settings", settings, "--to", tmp_path / "one.db")
    make_newer("sqlite:///one.db", tmp_path)
    with pytest.raises(StoreError, match=r"written by a newer trimtab \(schema 9999\).*Nothing was changed"):
        run("restore", tmp_path / "one.db", "--settings", settings)
    assert len(lines("sqlite:///trimtab.db", tmp_path)) == 3


@pytest.mark.parametrize("there", ["sqlite", "postgresql"])
def test_moved_there_and_back_every_row_is_the_same(there: str, tmp_path: Path, postgresql: PostgresServer) -> None:
    first, last = "sqlite:///first.db", "sqlite:///last.db"
    between = postgresql.new_database() if there == "postgresql" else "sqlite:///between.db"
    fill(first, tmp_path)
    said = run("move", "--to", between, "--settings", settings_of(tmp_path, first))
    assert "the same in both databases" in said
    run("move", "--to", last, "--settings", settings_of(tmp_path, between))
    assert lines(last, tmp_path) == lines(first, tmp_path) == [(LINE["what"], LINE["why"])] * 3
    fill(last, tmp_path, lines=1)
    assert len(lines(last, tmp_path)) == 4, "ids go on after the last"


def test_a_target_that_is_not_empty_or_newer_is_refused_and_left_alone(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    settings = settings_of(tmp_path, "sqlite:///first.db")
    fill("sqlite:///first.db", tmp_path)
    for target in ("sqlite:///second.db", postgresql.new_database()):
        fill(target, tmp_path, lines=1)
        with pytest.raises(StoreError, match="audit has rows already"):
            run("move", "--to", target, "--settings", settings)
        assert len(lines(target, tmp_path)) == 1
        make_newer(target, tmp_path)
        with pytest.raises(StoreError, match="written by a newer trimtab"):
            run("move", "--to", target, "--settings", settings)


def test_a_newer_postgresql_database_is_refused_by_each_verb(tmp_path: Path, postgresql: PostgresServer) -> None:
    url = postgresql.new_database()
    settings = settings_of(tmp_path, url)
    fill(url, tmp_path)
    make_newer(url, tmp_path)
    backup = ("backup", "--to", str(tmp_path / "one.db"))
    for verb in (("check",), backup, ("export", "audit"), ("move", "--to", "sqlite:///other.db")):
        with pytest.raises(StoreError, match="written by a newer trimtab"):
            run(*verb, "--settings", settings)
    with pytest.raises(StoreError, match="restore it by pg_restore"):
        run("restore", tmp_path / "one.db", "--settings", settings)


def test_nothing_is_moved_under_a_daemon_that_is_active_on_another_host(
    tmp_path: Path, postgresql: PostgresServer
) -> None:
    url = postgresql.new_database()
    fill(url, tmp_path)
    me = Me(cluster=CLUSTER, name="elsewhere", url="", version="1")
    election = Election(url, me, clock=SystemClock(), trust_seconds=3.0, silent_seconds=8.0)
    election.tick()
    try:
        with pytest.raises(StoreError, match="a daemon of cluster hall-a is active on it, here or on another host"):
            run("move", "--to", "sqlite:///other.db", "--settings", settings_of(tmp_path, url))
    finally:
        election.close()


def test_counts_that_differ_keep_nothing(tmp_path: Path, postgresql: PostgresServer) -> None:
    fill("sqlite:///first.db", tmp_path)
    target = postgresql.new_database()
    with opened(target, tmp_path) as database, database.write() as connection:
        # As a broken target would: it takes a row and does not keep it.
        connection.execute(sa.text("CREATE RULE loses AS ON INSERT TO audit DO INSTEAD NOTHING"))
    with opened("sqlite:///first.db", tmp_path) as source, pytest.raises(StoreError, match="audit: 3 here, 0 there"):
        care.move(source, target, state_directory=tmp_path, progress=lambda _: None)
    with opened(target, tmp_path) as database:
        assert set(care.look(database, progress=lambda _: None).rows.values()) <= {0, 1}, "no row but the version's"


def test_export_gives_every_table_while_rows_come_in(tmp_path: Path, database_url: str) -> None:
    settings = settings_of(tmp_path, database_url)
    fill(database_url, tmp_path)
    with opened(database_url, tmp_path) as database:
        tables = list(care.look(database, progress=lambda _: None).rows)
        is_over = threading.Event()

        def write() -> None:
            while not is_over.is_set():
                with database.write() as connection:
                    connection.execute(sa.insert(audit), [LINE])

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for table in tables:
                out = tmp_path / f"{table}.csv"
                run("export", table, "--settings", settings, "--out", out)
                assert out.read_text().splitlines()[0].count(",") >= 1, table
        finally:
            is_over.set()
            writer.join()
