"""GPUs by number in clusters whose nodes come and go: what is remembered, what is looked up, and what is let go of."""

from __future__ import annotations

from datetime import timedelta

import sqlalchemy as sa
from tests.builders import CLUSTER
from tests.fakes.clock import START, FakeClock
from tests.store import roller
from tests.store.test_rollup_shift import Daemon, assert_counted_once

from trimtab.clock import unix_ms
from trimtab.store.database import Database
from trimtab.store.rollup_slots import GPUS_PER_NODE_MAX, MARGIN_MS, QUIET_MAX, Slots
from trimtab.store.tables_rollup import GPU_TABLES, rollup_gpus

DAY_MS = 86_400_000
REMEMBERED_SECONDS = (DAY_MS + MARGIN_MS) / 1000
HOUR = 3600.0


def opened(database: Database, clock: FakeClock) -> Slots:
    return Slots(database, cluster=CLUSTER, clock=clock, counted_ms=DAY_MS)


def told(slots: Slots, *gpus: str, node: str = "gpu-00") -> list[int | None]:
    """Somebody tells of these; their slots."""
    found = [slots.slot(node, gpu, index=0) for gpu in gpus]
    slots.write()
    return found


def numbers(database: Database) -> dict[str, int]:
    with database.read() as connection:
        return {row.gpu: row.id for row in connection.execute(sa.select(rollup_gpus))}


def test_a_gpu_that_nobody_told_of_for_long_is_looked_up_when_it_comes_back(database: Database) -> None:
    clock = FakeClock()
    first = opened(database, clock)
    told(first, "GPU-a", "GPU-b")
    before = numbers(database)
    first.tidy()
    clock.advance(REMEMBERED_SECONDS + HOUR)
    told(first, "GPU-a")
    first.tidy()
    again = opened(database, clock)
    assert list(again.of_node("gpu-00")) == ["GPU-a"]
    (slot,) = told(again, "GPU-b")
    assert slot is not None
    assert again.known(slot).id == before["GPU-b"]
    assert again.known(slot).index == 0
    assert again.slot_of_id(before["GPU-b"]) == slot
    assert numbers(database) == before


def test_many_gpus_that_are_gone_make_it_stale_and_those_that_stay_do_not(database: Database) -> None:
    clock = FakeClock()
    slots = opened(database, clock)
    told(slots, "GPU-stays")
    for node in range(2):
        told(slots, *(f"GPU-{node}-{number}" for number in range(QUIET_MAX)), node=f"gone-{node}")
    for _ in range(int(REMEMBERED_SECONDS / HOUR)):
        clock.advance(HOUR)
        told(slots, "GPU-stays")
        slots.tidy()
        assert not slots.is_stale
    clock.advance(2 * HOUR)
    slots.tidy()
    assert slots.is_stale
    anew = opened(database, clock)
    assert len(anew) == 1
    anew.tidy()
    assert not anew.is_stale


def test_a_node_whose_gpus_were_replaced_many_times_has_room_for_the_next(database: Database) -> None:
    clock = FakeClock()
    slots = opened(database, clock)
    told(slots, *(f"GPU-{number}" for number in range(GPUS_PER_NODE_MAX)))
    assert told(slots, "GPU-new") == [None]
    slots.tidy()
    assert not slots.is_stale  # all of them were there just now: a node that invents GPUs
    clock.advance(REMEMBERED_SECONDS + HOUR)
    slots.tidy()
    assert slots.is_stale
    assert told(opened(database, clock), "GPU-new") == [0]


def test_the_row_of_a_gpu_goes_when_nothing_is_kept_of_it_any_more(database: Database) -> None:
    clock = FakeClock()
    told(opened(database, clock), "GPU-a")
    clock.advance(400 * 86400.0)
    slots = opened(database, clock)
    slots.tidy()
    assert set(numbers(database)) == {"GPU-a"}  # of no row at all nothing can be told
    step(database, at_ms=unix_ms(START))
    slots.tidy()
    assert set(numbers(database)) == {"GPU-a"}
    with database.write() as connection:
        connection.execute(sa.delete(GPU_TABLES["1h"]))
    step(database, at_ms=unix_ms(START + timedelta(days=2)))
    told(slots, "GPU-b")
    slots.tidy()
    assert set(numbers(database)) == {"GPU-b"}


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
        if at in (290, 410):
            daemon.shift.rollup._slots.is_stale = True
        clock.advance(10)
    clock.advance(90)
    daemon.said += [daemon.shift.roll(), daemon.shift.roll()]
    assert sum(said.startswith("taken over") for said in daemon.said) == 2
    assert_counted_once(database, heard, boards)
