"""Care for the database: looked at, copied while it is written, put back, exported, moved to the other engine."""

from __future__ import annotations

import csv
import io
import sqlite3
import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.fakes.people import a_recommendation
from tests.postgres import PostgresServer

from trimtab.errors import StoreError
from trimtab.store import care
from trimtab.store.database import Database, open_database
from trimtab.store.history import History
from trimtab.store.tables import audit, commands, journal, journal_dictionaries, meta, metadata

AT = datetime(2026, 11, 30, 12, tzinfo=UTC)


def nothing_said(_: str) -> None:
    """Progress that nobody watches."""


def a_database(folder: Path) -> Database:
    return open_database("sqlite:///trimtab.db", state_directory=folder)


def fill(database: Database, *, rows: int = 12_000) -> None:
    """Rows of every awkward type: bytes, booleans, nulls, ids that the engine gave, text in two scripts."""
    with database.write() as connection:
        body = {"id": 1, "sha256": "00", "body": bytes(range(256))}
        connection.execute(sa.insert(journal_dictionaries), [body])
        connection.execute(
            sa.insert(journal),
            [
                {
                    "cluster": "hall-a",
                    "node": f"gpu-{number % 7}",
                    "spool_id": "s",
                    "sequence": number,
                    "boot_id": "b",
                    "at_ms": number,
                    "sampled_at_ms": number,
                    "received_at_ms": number,
                    "is_replay": number % 2 == 0,
                    "is_clock_believed": True,
                    "dictionary_id": 1,
                    "body": number.to_bytes(4, "big") + b"\x00\xff",
                }
                for number in range(rows)
            ],
        )
        connection.execute(
            sa.insert(audit),
            [{"cluster": "hall-a", "at_ms": 1, "who": "anna", "what": "approve", "why": '占用但空闲, "so"\nlong'}],
        )


def add_audit(database: Database) -> int:
    with database.write() as connection:
        line = {"cluster": "hall-a", "at_ms": 2, "who": "anna", "what": "pause", "why": ""}
        return int(connection.execute(sa.insert(audit).values(line)).inserted_primary_key[0])


@pytest.fixture
def filled(tmp_path: Path) -> Database:
    database = a_database(tmp_path)
    fill(database)
    yield database
    database.close()


def test_a_look_counts_and_finds_nothing_wrong(filled: Database):
    found = care.look(filled, progress=nothing_said)
    assert (found.rows["journal"], found.rows["audit"], found.problems) == (12_000, 1, ())
    assert set(found.rows) == {table.name for table in metadata.sorted_tables}
    assert found.commands_holding == 0


def test_a_look_names_damage(tmp_path: Path):
    database = a_database(tmp_path)
    fill(database)
    database.close()
    path = tmp_path / "trimtab.db"
    raw = bytearray(path.read_bytes())
    middle = len(raw) // 2 // 4096 * 4096
    raw[middle : middle + 4096] = b"\xa5" * 4096
    path.write_bytes(raw)
    damaged = open_database("sqlite:///trimtab.db", state_directory=tmp_path, is_left_as_it_is=True)
    try:
        try:
            problems = care.look(damaged, progress=nothing_said).problems
        except StoreError as error:
            problems = (str(error),)
    finally:
        damaged.close()
    assert problems


def test_a_look_upgrades_nothing_and_makes_nothing(tmp_path: Path):
    with pytest.raises(StoreError, match="there is no database yet"):
        open_database("sqlite:///trimtab.db", state_directory=tmp_path, is_left_as_it_is=True)
    assert not (tmp_path / "trimtab.db").exists()


def test_a_backup_taken_while_rows_come_in_is_whole_as_of_one_moment(filled: Database, tmp_path: Path):
    is_over = threading.Event()
    written: list[int] = []

    def write() -> None:
        while not is_over.is_set():
            written.append(add_audit(filled))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        size_bytes = care.back_up(filled, tmp_path / "backups" / "one.db", progress=nothing_said)
    finally:
        is_over.set()
        writer.join()
    copy = sqlite3.connect(tmp_path / "backups" / "one.db")
    try:
        lines = [row[0] for row in copy.execute("SELECT id FROM audit ORDER BY id")]
        assert copy.execute("SELECT count(*) FROM journal").fetchone()[0] == 12_000
    finally:
        copy.close()
    assert lines == list(range(1, len(lines) + 1)), "no line is missing before one that is there"
    assert size_bytes == (tmp_path / "backups" / "one.db").stat().st_size
    assert (tmp_path / "backups" / "one.db").stat().st_mode & 0o077 == 0
    assert [path.name for path in (tmp_path / "backups").iterdir()] == ["one.db"]


def test_a_backup_that_cannot_be_written_leaves_nothing(filled: Database, tmp_path: Path):
    (tmp_path / "taken").write_text("a file where a folder should be")
    with pytest.raises(StoreError, match="nothing is left of it"):
        care.back_up(filled, tmp_path / "taken" / "one.db", progress=nothing_said)


def test_a_backup_is_put_back_and_the_old_database_is_kept(tmp_path: Path):
    database = a_database(tmp_path)
    fill(database)
    care.back_up(database, tmp_path / "one.db", progress=nothing_said)
    add_audit(database)
    database.close()

    aside = care.restore(tmp_path / "one.db", tmp_path / "trimtab.db", at=AT)

    assert aside == tmp_path / "trimtab.db.before-20261130T120000Z"
    again, old = a_database(tmp_path), open_database(f"sqlite:///{aside}", state_directory=tmp_path)
    try:
        assert care.look(again, progress=nothing_said).rows["audit"] == 1
        assert care.look(old, progress=nothing_said).rows["audit"] == 2
    finally:
        again.close()
        old.close()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (None, "there is no such backup"),
        (b"no database at all, but long enough to look like one" * 100, "is no backup of trimtab"),
        (b"", "has no journal or no commands"),
    ],
)
def test_what_is_no_backup_is_not_put_back(body: bytes | None, said: str, tmp_path: Path):
    database = a_database(tmp_path)
    database.close()
    before = (tmp_path / "trimtab.db").read_bytes()
    if body is not None:
        (tmp_path / "one.db").write_bytes(body)
    with pytest.raises(StoreError, match=said):
        care.restore(tmp_path / "one.db", tmp_path / "trimtab.db", at=AT)
    assert (tmp_path / "trimtab.db").read_bytes() == before


def test_a_table_is_written_as_csv_that_reads_back(filled: Database):
    into = io.StringIO()
    assert care.export(filled, "audit", into) == 1
    rows = list(csv.DictReader(io.StringIO(into.getvalue())))
    assert (rows[0]["who"], rows[0]["why"], rows[0]["command_id"]) == ("anna", '占用但空闲, "so"\nlong', "")
    with pytest.raises(StoreError, match=r"There are: .*findings"):
        care.export(filled, "no-such-table", io.StringIO())


def test_moved_to_postgresql_nothing_is_lost_and_ids_go_on(
    filled: Database, postgresql: PostgresServer, tmp_path: Path
):
    url = postgresql.new_database()
    counted = care.move(filled, url, state_directory=tmp_path, progress=nothing_said)
    assert all(here == there for here, there in counted.values())
    assert counted["journal"] == (12_000, 12_000)
    moved = open_database(url, state_directory=tmp_path)
    try:
        with filled.read() as here, moved.read() as there:
            for table in (journal, journal_dictionaries, audit, commands):
                ordered = sa.select(table).order_by(*table.primary_key.columns)
                assert here.execute(ordered).all() == there.execute(ordered).all()
            assert there.execute(sa.select(meta.c.value).where(meta.c.key == "version")).scalar_one()
        assert add_audit(moved) == 2
        with pytest.raises(StoreError, match="has rows already"):
            care.move(filled, url, state_directory=tmp_path, progress=nothing_said)
    finally:
        moved.close()


def test_after_a_restore_numbers_go_on_far_above_what_may_be_known_outside(tmp_path: Path):
    database = a_database(tmp_path)
    history = History(database, cluster="hall-a")
    first = history.add(a_recommendation(), AT)
    care.back_up(database, tmp_path / "one.db", progress=nothing_said)
    assert history.add(a_recommendation(), AT).id == first.id + 1, "a mark of R2 may stand on the cluster now"
    database.close()
    care.restore(tmp_path / "one.db", tmp_path / "trimtab.db", at=AT)
    again = a_database(tmp_path)
    try:
        assert History(again, cluster="hall-a").add(a_recommendation(), AT).id == first.id + care.NUMBERS_JUMP + 1
    finally:
        again.close()


def test_a_backup_that_could_fill_the_disk_is_refused(tmp_path: Path):
    with pytest.raises(StoreError, match="could fill the disk"):
        care.check_room(tmp_path / "backups" / "one.db", size_bytes=10**18)
    care.check_room(tmp_path / "backups" / "one.db", size_bytes=1000)
    assert not (tmp_path / "backups").exists()


def test_old_backups_go_and_the_newest_stay(tmp_path: Path):
    for day in range(5):
        (tmp_path / f"trimtab-2026110{day}.db").write_text("x")
    gone = care.forget_old(tmp_path.glob("trimtab-*.db"), keep=2)
    assert [path.name[-4] for path in gone] == ["0", "1", "2"]
    assert len(list(tmp_path.iterdir())) == 2
