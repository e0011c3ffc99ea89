from __future__ import annotations

import sqlite3
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.builders import a_delivery, a_report
from tests.postgres import PostgresServer

from trimtab.errors import StoreError
from trimtab.store.database import Database, open_database
from trimtab.store.journal import Journal
from trimtab.store.tables import meta


def said_when_opening(url: str, directory: Path) -> str:
    with pytest.raises(StoreError) as caught:
        open_database(url, state_directory=directory)
    return str(caught.value)


def test_a_relative_file_lies_in_the_state_directory_which_is_made(tmp_path: Path) -> None:
    directory = tmp_path / "état" / "100%"
    database = open_database("sqlite:///trimtab.db", state_directory=directory)
    assert database.place == str(directory / "trimtab.db")
    assert database.size_bytes() > 0
    database.close()


def test_however_many_read_at_once_writing_waits_for_none_of_them(database: Database) -> None:
    written = threading.Event()

    def write() -> None:
        with database.write() as connection:
            connection.execute(sa.insert(meta).values(key="written", value="meanwhile"))
        written.set()

    with ExitStack() as readers:
        for _ in range(12):  # as many as there are connections to PostgreSQL; SQLite has a few more
            connection = readers.enter_context(database.read())
            connection.execute(sa.select(meta)).all()
        if database.is_sqlite:
            for _ in range(3):
                readers.enter_context(database.read())
        writer = threading.Thread(target=write)
        writer.start()
        assert written.wait(20), "before: 30 s, and then a StoreError"
    writer.join()


def test_sqlite_is_safe_against_power_loss_and_waits_for_strangers(tmp_path: Path) -> None:
    database = open_database("sqlite:///trimtab.db", state_directory=tmp_path)
    with database.write() as connection:
        found = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar_one()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    database.close()
    assert found == {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 10_000}


def test_postgresql_reports_its_size(database: Database) -> None:
    assert database.size_bytes() > 100_000


def test_a_failed_transaction_leaves_nothing(database: Database) -> None:
    with pytest.raises(ZeroDivisionError), database.write() as connection:
        connection.execute(sa.insert(meta), {"key": "half", "value": "done"})
        raise ZeroDivisionError
    with database.read() as connection:
        assert connection.execute(sa.select(meta.c.value).where(meta.c.key == "half")).all() == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("trimtab.db", "not a database URL. Write sqlite:///trimtab.db"),
        ("", "not a database URL"),
        ("mysql://root:hush@host/db", "begins with mysql://, which trimtab does not speak"),
        ("postgres://root:hush@host/db", "begins with postgres://"),
        ("sqlite://", "names no file"),
        ("sqlite:///:memory:", "names no file"),
    ],
)
def test_a_wrong_url_is_told_with_its_fix_and_without_password(url: str, says: str, tmp_path: Path) -> None:
    said = said_when_opening(url, tmp_path)
    assert says in said
    assert "hush" not in said


def test_a_state_directory_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_bytes(b"")
    said = said_when_opening("sqlite:///trimtab.db", tmp_path / "state")
    assert said.startswith(f"{tmp_path}/state: cannot keep the database here: ")
    assert "Set state_directory" in said


def test_a_state_directory_that_cannot_be_made_is_told() -> None:
    assert "cannot keep the database here" in said_when_opening("sqlite:///trimtab.db", Path("/proc/trimtab"))


def test_a_database_file_that_is_a_directory_is_told(tmp_path: Path) -> None:
    (tmp_path / "trimtab.db").mkdir()
    assert f"{tmp_path}/trimtab.db: it cannot be opened" in said_when_opening("sqlite:///trimtab.db", tmp_path)


def test_an_empty_file_becomes_a_database(tmp_path: Path) -> None:
    (tmp_path / "trimtab.db").write_bytes(b"")
    open_database("sqlite:///trimtab.db", state_directory=tmp_path).close()
    assert (tmp_path / "trimtab.db").stat().st_size > 0


def test_a_database_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    open_database("sqlite:///trimtab.db", state_directory=tmp_path).close()
    said = said_when_opening(f"sqlite:///file:{tmp_path}/trimtab.db?mode=ro&uri=true", tmp_path)
    assert "it cannot be written. Give the daemon's user the right" in said


def test_a_file_that_is_no_database_is_told(tmp_path: Path) -> None:
    (tmp_path / "trimtab.db").write_text("not a database at all" * 300)
    said = said_when_opening("sqlite:///trimtab.db", tmp_path)
    assert said.startswith(f"{tmp_path}/trimtab.db: the file is damaged, or no SQLite database. Stop the daemon, move")


def test_a_damaged_database_is_told(tmp_path: Path) -> None:
    database = open_database("sqlite:///trimtab.db", state_directory=tmp_path)
    Journal(database).append([a_delivery(a_report(sequence=number)) for number in range(200)])
    database.close()
    path = tmp_path / "trimtab.db"
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xa5" * (path.stat().st_size - 4096))
    with pytest.raises(StoreError) as caught:
        open_and_append(tmp_path)
    assert str(path) in str(caught.value)
    assert "the file is damaged" in str(caught.value)
    assert "restore a backup" in str(caught.value)


def open_and_append(directory: Path) -> None:
    database = open_database("sqlite:///trimtab.db", state_directory=directory)
    try:
        Journal(database).append([a_delivery()])
    finally:
        database.close()


def test_a_full_disk_is_told_and_what_was_acknowledged_stays(tmp_path: Path) -> None:
    url = "sqlite:///trimtab.db"
    database = open_database(url, state_directory=tmp_path)
    journal = Journal(database)
    journal.append([a_delivery(a_report(sequence=1))])
    with database.write() as connection:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        connection.exec_driver_sql(f"PRAGMA max_page_count = {pages + 4}")
    with pytest.raises(StoreError, match=r"the disk is full\. Make room"):
        journal.append([a_delivery(a_report(sequence=number)) for number in range(2, 200)])
    database.close()
    again = open_database(url, state_directory=tmp_path)
    assert [found.report.sequence for found in Journal(again).tail(a_report().sampled_at)] == [1]
    again.close()


def test_a_database_that_another_process_holds_is_told(tmp_path: Path) -> None:
    database = open_database("sqlite:///trimtab.db", state_directory=tmp_path)
    holder = sqlite3.connect(tmp_path / "trimtab.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="Is a second trimtab daemon running on it"), database.read() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 50")
        connection.exec_driver_sql("UPDATE meta SET value = 'x'")
    holder.execute("ROLLBACK")
    holder.close()
    database.close()


def test_a_postgresql_out_of_reach_is_told_without_password(tmp_path: Path) -> None:
    said = said_when_opening("postgresql://trim:hush@127.0.0.1:1/trimtab", tmp_path)
    assert said.startswith(
        "postgresql://trim:***@127.0.0.1:1/trimtab: the database is out of reach. Check that it runs"
    )
    assert "hush" not in said


def test_a_postgresql_without_the_database_is_told(postgresql: PostgresServer, tmp_path: Path) -> None:
    url = postgresql.url.set(database="nowhere").render_as_string(hide_password=False)
    assert "there is no such database. Create it: createdb" in said_when_opening(url, tmp_path)


def test_a_restart_of_postgresql_costs_one_transaction_at_most(postgresql: PostgresServer, tmp_path: Path) -> None:
    url = postgresql.new_database()
    database = open_database(url, state_directory=tmp_path)
    journal = Journal(database)
    journal.append([a_delivery(a_report(sequence=1))])
    assert postgresql.cut_connections(url) > 0
    assert journal.append([a_delivery(a_report(sequence=2))]).stored == 1  # between transactions nothing is felt
    with pytest.raises(StoreError, match=r"the server is stopping or starting\. It is tried again|connection broke"):
        cut_in_a_transaction(database, postgresql, url)
    assert journal.append([a_delivery(a_report(sequence=3))]).stored == 1
    assert [found.report.sequence for found in journal.tail(a_report().sampled_at)] == [1, 2, 3]
    database.close()


def cut_in_a_transaction(database: Database, server: PostgresServer, url: str) -> None:
    with database.write() as connection:
        connection.execute(sa.insert(meta), {"key": "half", "value": "done"})
        server.cut_connections(url)
        connection.execute(sa.select(meta))
