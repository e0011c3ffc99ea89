"""A database within its bytes: what goes first, what never goes, and that it ends."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.builders import CLUSTER, a_delivery, a_report
from tests.fakes.clock import START
from tests.limits.disk import Disk

from trimtab.clock import unix_ms
from trimtab.model.command import AuditLine
from trimtab.settings.disk import MEBIBYTE, DiskSettings
from trimtab.store.database import Database, open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.quota import LEVELS, Quota
from trimtab.store.tables import audit, journal
from trimtab.store.tables_rollup import GPU_TABLES

HOUR = timedelta(hours=1)
NOW = START + 48 * HOUR
NO_FLOOR = {"free_bytes_min": 0, "ballast_bytes": 0}


def fill(database: Database, *, hours: int = 40, per_hour: int = 60, bytes_each: int = 4000) -> None:
    """Raw reports whose text does not compress, and rows of each tier, evenly over the hours before NOW."""
    Journal(database)
    chance = random.Random(7)
    number = 0
    with database.write() as connection:
        for hour in range(hours):
            at_ms = unix_ms(NOW - (hours - hour) * HOUR)
            rows = []
            for _ in range(per_hour):
                number += 1
                rows.append({
                    "cluster": CLUSTER, "node": "gpu-00", "spool_id": "s", "sequence": number, "boot_id": "b",
                    "at_ms": at_ms, "sampled_at_ms": at_ms, "received_at_ms": at_ms, "is_replay": False,
                    "is_clock_believed": True, "dictionary_id": 1, "body": chance.randbytes(bytes_each),
                })  # fmt: skip
            connection.execute(sa.insert(journal), rows)
            for table in GPU_TABLES.values():
                needed = {
                    column.name: 0
                    for column in table.columns
                    if not column.nullable and column.name not in ("at_ms", "gpu_id", "tenure_id")
                }
                rows = [{"at_ms": at_ms, "gpu_id": gpu, "tenure_id": 1, **needed} for gpu in range(200)]
                connection.execute(sa.insert(table), rows)
    if not database.is_sqlite:
        analyse(database)


def analyse(database: Database) -> None:
    """As autovacuum does before long."""
    with database._writer.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(sa.text("VACUUM ANALYZE"))


def counts(database: Database) -> dict[str, int]:
    with database.read() as connection:
        return {
            level.name: connection.execute(sa.select(sa.func.count()).select_from(level.table)).scalar_one()
            for level in LEVELS
        }


def test_raw_reports_go_first_the_oldest_of_them_and_no_more_than_must(database: Database) -> None:
    fill(database)
    quota = Quota(database, DiskSettings(**NO_FLOOR))
    held, before = quota.look().held_bytes, counts(database)
    bounded = Quota(database, DiskSettings(database_bytes_max=held - 3_000_000, **NO_FLOOR))
    assert bounded.look().over_bytes == 3_000_000
    trimmed = bounded.trim(NOW)
    assert trimmed.is_enough
    assert set(trimmed.rows) == {"raw"}
    after = counts(database)
    assert after["raw"] < before["raw"]
    assert {name: after[name] for name in ("1m", "15m", "1h")} == {name: before[name] for name in ("1m", "15m", "1h")}
    with database.read() as connection:
        kept = connection.execute(sa.select(journal.c.sequence).order_by(journal.c.sequence)).scalars().all()
    assert list(kept) == list(range(before["raw"] - after["raw"] + 1, before["raw"] + 1))  # the newest stay
    if not database.is_sqlite:
        analyse(database)
    assert bounded.look().over_bytes == 0


def test_a_quota_of_next_to_nothing_keeps_what_is_needed_and_says_that_it_is_not_enough(database: Database) -> None:
    fill(database)
    History(database, cluster=CLUSTER).audit([an_audit_line()])
    trimmed = Quota(database, DiskSettings(database_bytes_max=1, **NO_FLOOR)).trim(NOW)
    assert not trimmed.is_enough
    left = counts(database)
    assert left["raw"] == 0  # all of it was older than the half hour that stays
    assert left["1m"] == 6 * 200
    assert left["15m"] == 24 * 200
    assert left["1h"] == 40 * 200  # a week stays
    with database.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(audit)).scalar_one() == 1


def test_the_newest_half_hour_of_raw_reports_stays(database: Database) -> None:
    recent = a_delivery(a_report("gpu-00", at=NOW - timedelta(minutes=10)), received_at=NOW - timedelta(minutes=10))
    Journal(database).append([recent])
    fill(database, hours=3)
    Quota(database, DiskSettings(database_bytes_max=1, **NO_FLOOR)).trim(NOW)
    assert counts(database)["raw"] == 1


def test_without_a_quota_nothing_goes(database: Database) -> None:
    fill(database, hours=3)
    before = counts(database)
    quota = Quota(database, DiskSettings(**NO_FLOOR))
    assert quota.look().over_bytes == 0
    assert quota.trim(NOW).rows == {}
    assert counts(database) == before


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Disk]:
    made = Disk(tmp_path / "disk", megabytes=64)
    yield made
    made.close()


def test_a_disk_that_others_fill_gets_room_back_from_history(disk: Disk) -> None:
    database = open_database("sqlite:///trimtab.db", state_directory=disk.path)
    settings = DiskSettings(free_bytes_min=12 * MEBIBYTE, ballast_bytes=4 * MEBIBYTE)
    quota = Quota(database, settings)
    fill(database, hours=40, per_hour=150)
    database.shrink_log()
    quota.hold_ballast()
    assert (disk.path / "ballast").stat().st_size == 4 * MEBIBYTE
    disk.fill()
    assert quota.is_disk_full()
    assert quota.give_up_ballast()
    trimmed = quota.trim(NOW)
    assert trimmed.rows["raw"] > 0
    room = quota.look()
    assert room.short_bytes == 0, room
    database.close()


def test_a_ballast_that_finds_no_room_is_none(disk: Disk) -> None:
    database = open_database("sqlite:///trimtab.db", state_directory=disk.path)
    disk.fill(but_bytes=MEBIBYTE)
    quota = Quota(database, DiskSettings(ballast_bytes=32 * MEBIBYTE))
    quota.hold_ballast()
    assert not (disk.path / "ballast").exists()
    assert not quota.give_up_ballast()
    database.close()


def an_audit_line() -> AuditLine:
    return AuditLine(at=NOW, who="a test", what="looks", why="it must stay")
