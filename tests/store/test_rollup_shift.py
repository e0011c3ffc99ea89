"""Two daemons on one database: one rolls up, the other takes over, and nothing is doubled or left out."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from datetime import timedelta

from tests.builders import CLUSTER
from tests.fakes.clock import START, FakeClock
from tests.store import roller
from tests.store.rolled import MINUTE_MS, STATES, Oracle

from trimtab.clock import unix_ms
from trimtab.model.board import Board
from trimtab.model.reading import Delivery
from trimtab.settings.rollup import RollupSettings
from trimtab.store.database import Database
from trimtab.store.journal import Journal
from trimtab.store.rollup import Rollup, RollupCounts
from trimtab.store.rollup_shift import STANDING_BY, Shift

HOLD_SECONDS = 45.0


@dataclass
class Daemon:
    """One of the two: its own journal writer and its own look at the boards."""

    database: Database
    clock: FakeClock
    is_standby: bool
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal = Journal(self.database)
        self.shift = Shift(self._make, clock=self.clock, is_standby=lambda: self.is_standby)

    def _make(self, counts: RollupCounts) -> Rollup:
        return Rollup(
            self.database,
            cluster=CLUSTER,
            clock=self.clock,
            settings=RollupSettings(),
            hold_seconds=HOLD_SECONDS,
            counts=counts,
        )

    def beat(self, board: Board) -> None:
        self.shift.see(board, None)
        self.said.append(self.shift.roll())

    def hear(self, *found: Delivery) -> None:
        self.shift.add(self.journal.append(found).new)


def assert_counted_once(database: Database, heard: list[Delivery], boards: list[Board]) -> None:
    """The first ten minutes are what an oracle makes of all that was heard."""
    begin = unix_ms(START)
    wanted = Oracle(heard, boards, hold_ms=round(HOLD_SECONDS * 1000)).rows(begin, begin + 10 * MINUTE_MS)
    with database.read() as connection:
        rows = connection.exec_driver_sql("SELECT * FROM gpu_1m").all()
    found = {(row.at_ms, row.gpu, row.workload): row for row in rows if row.at_ms < begin + 10 * MINUTE_MS}
    assert sorted(found) == sorted(wanted)
    for key, counted in wanted.items():
        assert {state: getattr(found[key], f"{state}_seconds") * 1000 for state in STATES} == counted.state_ms, key


def test_the_standby_takes_over_and_every_second_is_counted_once(database: Database) -> None:
    clock = FakeClock()
    first, second = Daemon(database, clock, is_standby=False), Daemon(database, clock, is_standby=True)
    boards: list[Board] = []
    heard: list[Delivery] = []
    for at in range(0, 600, 10):
        if at == 210:  # the first loses the Lease, the second has it a little later
            first.is_standby = True
        if at == 230:
            second.is_standby = False
        board = roller.board_at(at)
        boards.append(board)
        for daemon in (first, second):
            daemon.beat(board)
        # Agents go over in their own time: some reports go to one, some to the other.
        taker = first if at < 200 else second
        found = [roller.report_at(node, at) for node in roller.NODES]
        heard += found
        taker.hear(*found)
        clock.advance(10)
    clock.advance(90)
    for daemon in (first, second, second):
        daemon.said.append(daemon.shift.roll())
    assert set(second.said[:23]) == {STANDING_BY}
    assert second.said[23].startswith("taken over; ")
    assert first.said[-1] == STANDING_BY
    assert_counted_once(database, heard, boards)
    assert second.shift.rollup is not None
    assert second.shift.rollup.waiting_minutes == 0


def test_what_was_stored_while_the_roll_ups_were_opened_is_counted(database: Database) -> None:
    clock = FakeClock()
    daemon = Daemon(database, clock, is_standby=True)
    daemon.hear(*(roller.report_at("gpu-00", at) for at in range(0, 60, 10)))
    clock.advance(60)
    daemon.is_standby = False
    daemon.beat(roller.board_at(60))
    clock.advance(90)
    daemon.shift.roll()
    with database.read() as connection:
        rows = connection.exec_driver_sql("SELECT at_ms, power_samples FROM gpu_1m ORDER BY at_ms").all()
    assert (rows[0].at_ms, rows[0].power_samples) == (unix_ms(START), 6)
    assert daemon.shift.rollup is not None
    assert START + timedelta(minutes=1) <= clock.now()


def test_reports_come_in_while_minutes_are_rolled_up(database: Database) -> None:
    """Two threads, as in the daemon: new GPUs turn up all the time, and every sample is counted once."""
    clock = FakeClock()
    daemon = Daemon(database, clock, is_standby=False)
    failed: list[BaseException] = []
    is_over = threading.Event()

    def remember() -> None:
        try:
            for number in range(150):
                found = [roller.report_at(f"node-{number % 50}-{part}", number % 60) for part in range(4)]
                daemon.hear(*(replace(one, report=replace(one.report, sequence=number)) for one in found))
        except BaseException as error:  # noqa: BLE001 - whatever it is, the test is to fail by it
            failed.append(error)
        is_over.set()

    thread = threading.Thread(target=remember)
    thread.start()
    while not is_over.is_set():
        daemon.beat(roller.board_at(0))
    thread.join()
    assert failed == []
    clock.advance(150)
    for _ in range(2):
        daemon.shift.roll()
    with database.read() as connection:
        samples = connection.exec_driver_sql("SELECT SUM(power_samples) FROM gpu_1m").scalar_one()
    assert samples == 600
