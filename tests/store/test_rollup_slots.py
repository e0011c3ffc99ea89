"""GPUs by number in clusters whose nodes come and go: which rows stay, which go, and that nothing else goes."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from tests.builders import CLUSTER
from tests.fakes.clock import START, FakeClock
from tests.store import roller
from tests.store.test_rollup_shift import Daemon, assert_counted_once

from trimtab.clock import unix_ms
from trimtab.errors import StoreError
from trimtab.store.database import Database
from trimtab.store.rollup import Rollup, RollupCounts
from trimtab.store.rollup_slots import GPUS_PER_NODE_MAX, MORE_PER_DAY_MAX, Slots
from trimtab.store.tables_rollup import GPU_TABLES, rollup_boards, rollup_gpus, rollup_spans

DAY = 86400.0


def opened(database: Database, clock: FakeClock) -> Slots:
    return Slots(database, cluster=CLUSTER, clock=clock)


def told(slots: Slots, *gpus: str, node: str = "gpu-00") -> list[int | None]:
    """Somebody tells of these; their slots."""
    found = [slots.slot(node, gpu, index=0) for gpu in gpus]
    slots.write()
    return found


def names(database: Database) -> set[str]:
    with database.read() as connection:
        return set(connection.execute(sa.select(rollup_gpus.c.gpu)).scalars())


def test_the_row_of_a_gpu_goes_with_the_last_step_that_is_kept_of_it(database: Database) -> None:
    clock = FakeClock()
    slots = opened(database, clock)
    told(slots, "GPU-gone", "GPU-stays", "GPU-last")
    slots.note_heard()
    clock.advance(400 * DAY)
    told(slots, "GPU-stays")
    slots.note_heard()
    assert slots.forget() == 0  # where no step is kept, nothing is known of what may go
    step(database, at_ms=unix_ms(START))
    assert slots.forget() == 0
    with database.write() as connection:
        connection.execute(sa.delete(GPU_TABLES["1h"]))
    step(database, at_ms=unix_ms(START + timedelta(days=2)))
    assert not slots.is_stale
    assert slots.forget() == 1
    assert names(database) == {"GPU-stays", "GPU-last"}, "the highest number is never free for another GPU"
    assert slots.is_stale
    assert told(opened(database, clock), "GPU-gone") != [None]


def test_a_gpu_that_is_on_a_board_or_was_just_told_of_keeps_its_row(database: Database) -> None:
    clock = FakeClock()
    slots = opened(database, clock)
    told(slots, "GPU-board", "GPU-told", "GPU-other")
    slots.note_heard()
    clock.advance(400 * DAY)
    told(slots, "GPU-told")
    step(database, at_ms=unix_ms(clock.now()))
    span = {"gpu_id": 1, "since_ms": 0, "until_ms": None, "tenure_id": 1, "standing": 0, "cluster": CLUSTER}
    with database.write() as connection:
        connection.execute(sa.insert(rollup_spans), [span])
    assert slots.forget() == 0
    assert not slots.is_stale


def test_no_clock_that_is_behind_makes_a_gpu_look_gone(database: Database) -> None:
    clock = FakeClock()
    slots = opened(database, clock)
    told(slots, "GPU-a", "GPU-b")
    step(database, at_ms=unix_ms(START))
    clock.jump(-20 * 365 * DAY)
    for _ in range(3):
        told(slots, "GPU-a", "GPU-b")
        slots.note_heard()
        clock.advance(DAY)
    clock.jump(20 * 365 * DAY)
    again = opened(database, clock)
    again.note_heard()
    assert again.forget() == 0
    assert names(database) == {"GPU-a", "GPU-b"}


def test_a_node_name_that_is_used_again_and_again_has_numbers_for_its_next_gpus(database: Database) -> None:
    clock = FakeClock()
    slots = opened(database, clock)
    told(slots, *(f"GPU-{number}" for number in range(GPUS_PER_NODE_MAX)))
    more = told(slots, *(f"GPU-today-{number}" for number in range(MORE_PER_DAY_MAX + 1)))
    assert [slot for slot in more if slot is None] == [None]  # a node that invents GPUs
    assert more[-1] is None
    slots.forget()  # another day
    assert told(slots, "GPU-tomorrow") != [None]


def step(database: Database, *, at_ms: int) -> None:
    """One row of an hour."""
    table = GPU_TABLES["1h"]
    row = {column.name: 0 for column in table.c} | {"at_ms": at_ms, "gpu_id": 1, "tenure_id": 1}
    with database.write() as connection:
        connection.execute(sa.insert(table), [row])


def test_roll_ups_that_are_opened_anew_count_every_second_once(database: Database) -> None:
    clock = FakeClock()
    daemon = Daemon(database, clock, is_standby=False)
    boards, heard = [], []
    for at in range(0, 600, 10):
        boards.append(roller.board_at(at))
        daemon.beat(boards[-1])
        heard += [roller.report_at(node, at) for node in roller.NODES]
        daemon.hear(*heard[-len(roller.NODES) :])
        if at in (290, 350, 410):  # and with the next board a job begins
            daemon.shift.rollup._slots.is_stale = True
        clock.advance(10)
    clock.advance(90)
    daemon.said += [daemon.shift.roll(), daemon.shift.roll()]
    assert sum(said.startswith("taken over") for said in daemon.said) == 3
    assert_counted_once(database, heard, boards)
    with database.read() as connection:
        boards_kept = connection.execute(sa.select(rollup_boards.c.boards).where(rollup_boards.c.tier_seconds == 60))
        assert [row.boards for row in boards_kept][:10] == [6] * 10


def test_after_days_without_a_daemon_no_second_is_counted_twice_and_the_steps_of_before_are_built(
    database: Database,
) -> None:
    clock = FakeClock()
    first = Daemon(database, clock, is_standby=False)
    lived(first, clock, range(0, 600, 10))
    del first
    clock.advance(4 * DAY)
    for start in range(2):  # the second time minutes are counted anew from spans in the database
        begun = int((clock.now() - START).total_seconds())
        lived(Daemon(database, clock, is_standby=False), clock, range(begun, begun + 300, 10))
        if start == 0:
            clock.advance(5.0)
    with database.read() as connection:
        standing = rollup_spans.c.until_ms.is_(None)
        counted = sa.select(rollup_spans.c.gpu_id, sa.func.count()).where(standing).group_by(rollup_spans.c.gpu_id)
        assert {row[1] for row in connection.execute(counted)} == {1}
        minute = GPU_TABLES["1m"].c
        parts = sum(minute[column.name] for column in minute if column.name.endswith("_ms") and column.name != "at_ms")
        longest = sa.select(sa.func.sum(parts)).group_by(minute.at_ms, minute.gpu_id)
        assert max(connection.execute(longest).scalars()) == 60_000
        for tier in ("15m", "1h"):
            table = GPU_TABLES[tier].c
            old = sa.select(sa.func.count()).where(table.at_ms <= unix_ms(START))
            assert connection.execute(old).scalar_one() > 0, tier


def test_what_waited_for_its_commit_while_roll_ups_were_opened_anew_is_counted(database: Database) -> None:
    clock = FakeClock()
    daemon = Daemon(database, clock, is_standby=False)
    daemon.beat(roller.board_at(0))
    clock.advance(300)
    late = [replace(roller.report_at("gpu-00", at), is_replay=True) for at in range(0, 60, 10)]
    late = [replace(one, received_at=clock.now() - timedelta(seconds=5)) for one in late]
    made = daemon.shift._make

    def opened_slowly(counts: RollupCounts) -> Rollup:
        rollup = made(counts)
        daemon.hear(*late)  # another thread's: told to the one that is given up
        return rollup

    daemon.shift._make = opened_slowly
    daemon.shift.rollup._slots.is_stale = True
    for _ in range(3):
        daemon.shift.roll()
        clock.advance(60)
    with database.read() as connection:
        rows = connection.exec_driver_sql("SELECT node, at_ms, power_samples FROM gpu_1m").all()
    assert {row.power_samples for row in rows if (row.node, row.at_ms) == ("gpu-00", unix_ms(START))} == {6}


def test_a_deletion_that_fails_midway_has_all_opened_anew_all_the_same(database: Database) -> None:
    clock = FakeClock()
    slots = opened(database, clock)
    told(slots, "GPU-gone", "GPU-last")
    slots.note_heard()
    clock.advance(3 * DAY)
    step(database, at_ms=unix_ms(clock.now()))
    slots._database = FailsToWrite(database)
    with pytest.raises(StoreError):
        slots.forget()
    assert slots.is_stale


class FailsToWrite:
    """A database that is gone by the end of a transaction."""

    def __init__(self, database: Database) -> None:
        self.read = database.read
        self._database = database

    @contextmanager
    def write(self):
        with self._database.write() as connection:
            yield connection
        raise StoreError("gone at COMMIT")


def lived(daemon: Daemon, clock: FakeClock, seconds: range) -> None:
    for at in seconds:
        daemon.beat(roller.board_at(at))
        daemon.hear(*(roller.report_at(node, at) for node in roller.NODES))
        clock.advance(10)
    clock.advance(90)
    daemon.shift.roll()
