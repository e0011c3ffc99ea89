"""Roll-ups equal an independent count over the same raw samples, whatever happens on the way."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from tests.builders import CLUSTER, a_delivery, a_reading, a_report, gpu_uuid
from tests.fakes.clock import START, FakeClock
from tests.store.rolled import KEYS, MINUTE_MS, STATES, Oracle, a_cell_board

from trimtab.clock import unix_ms
from trimtab.model.board import Board, CellState, JobRow
from trimtab.model.reading import Delivery, GpuState
from trimtab.settings.rollup import RollupSettings
from trimtab.store.database import Database
from trimtab.store.journal import Journal
from trimtab.store.rollup import FLUSH_SECONDS_MAX, Rollup

HOLD_SECONDS = 45.0
QUANTUM = {"activity": 1e-3, "power": 0.1, "temperature": 0.1, "sm_clock": 1e6, "memory_used": 1048576.0}
UNIT = {"activity": "ratio", "power": "watts", "temperature": "celsius", "sm_clock": "hertz", "memory_used": "bytes"}
JOBS = tuple(
    JobRow(id=f"research/job-{n}", name=f"job-{n}", state="running", pods=1, gpus_per_pod=2, queue=f"queue-{n % 2}")
    for n in range(3)
)


@dataclass
class Hall:
    """A journal and its roll-ups under a clock that the test moves; what went in is kept for the count."""

    database: Database
    clock: FakeClock = field(default_factory=FakeClock)
    deliveries: list[Delivery] = field(default_factory=list)
    boards: list[Board] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal = Journal(self.database)
        self.restart()

    def restart(self) -> None:
        """As after kill -9: nothing of the old one is asked for anything."""
        self.rollup = Rollup(
            self.database,
            cluster=CLUSTER,
            clock=self.clock,
            settings=RollupSettings(),
            hold_seconds=HOLD_SECONDS,
        )

    def deliver(self, *found: Delivery) -> None:
        appended = self.journal.append(found)
        self.deliveries += appended.new
        self.rollup.add(appended.new)

    def show(self, board: Board) -> None:
        self.boards.append(board)
        self.rollup.see(board, None)
        self.rollup.roll()

    def settle(self) -> None:
        """Two beats a minute later: everything that can be written is."""
        self.clock.advance(90.0)
        self.rollup.roll()
        self.rollup.roll()

    def rows(self, tier: str = "1m") -> list[sa.Row[tuple[object, ...]]]:
        with self.database.read() as connection:
            return list(connection.execute(sa.text(f"SELECT * FROM gpu_{tier} ORDER BY at_ms, gpu, workload")))

    def oracle(self) -> Oracle:
        return Oracle(self.deliveries, self.boards, hold_ms=round(HOLD_SECONDS * 1000))


@pytest.fixture
def hall(database: Database) -> Iterator[Hall]:
    return Hall(database)


NODES = ("gpu-00", "gpu-01", "gpu-02")


class Chance:
    """Random reports and boards of a small hall: silence, lost GPUs, late reports, jobs that come and go."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._sequence = 0
        self._cells = {(node, gpu_uuid(node, index)): (CellState.FREE, None) for node in NODES for index in range(2)}

    def report(self, node: str, at_seconds: float) -> Delivery:
        self._sequence += 1
        chance = self._random
        readings = []
        for index in range(2):
            values = {
                "sm_active_ratio": chance.choice([0.0, 0.004, chance.random()]),
                "power_watts": round(chance.uniform(70, 700), 1),
                "temperature_celsius": float(chance.randrange(30, 90)),
                "sm_clock_hertz": chance.randrange(300, 2000) * 1e6,
                "memory_used_bytes": float(chance.randrange(0, 80 * 2**30)),
            }
            for key in tuple(values):
                if chance.random() < 0.1:
                    del values[key]
            state = chance.choices([GpuState.OK, GpuState.LOST, GpuState.UNREADABLE], [20, 1, 1])[0]
            readings.append(a_reading(node, index, values=values, state=state))
        at = START + timedelta(seconds=at_seconds, milliseconds=chance.randrange(0, 1000))
        return a_delivery(replace(a_report(node, sequence=self._sequence, at=at), gpus=tuple(readings)))

    def board(self, at_seconds: float) -> Board:
        chance = self._random
        for key in self._cells:
            if chance.random() < 0.1:
                self._cells[key] = chance.choice(
                    [
                        (CellState.WORKING, "research/job-0"),
                        (CellState.HELD_IDLE, "research/job-1"),
                        (CellState.SILENT, "research/job-2"),
                        (CellState.FREE, None),
                        (CellState.STRANDED, "research/job-2"),
                        (CellState.SPARE, None),
                        (CellState.UNUSABLE, None),
                        (CellState.SILENT, None),
                        (CellState.LOST, None),
                    ]
                )
        cells = [(node, uuid, state, workload) for (node, uuid), (state, workload) in self._cells.items()]
        return a_cell_board(at_seconds, cells, jobs=JOBS)


def close_to(row: sa.Row[tuple[object, ...]], metric: str, wanted: Sequence[float], *, quanta: float = 0.51) -> None:
    found = [getattr(row, f"{metric}_{one}_{UNIT[metric]}") for one in ("min", "mean", "max", "p95")]
    assert found == pytest.approx(list(wanted), abs=quanta * QUANTUM[metric] + 1e-6 * max(wanted)), metric


def compare(hall: Hall, first: int, minutes: int) -> None:
    """Every row of these minutes is as the independent count has it, and there is no other."""
    begin = unix_ms(START) + first * MINUTE_MS
    wanted = hall.oracle().rows(begin, begin + minutes * MINUTE_MS)
    found = {(row.at_ms, row.gpu, row.workload): row for row in hall.rows() if row.at_ms >= begin}
    found = {key: row for key, row in found.items() if key[0] < begin + minutes * MINUTE_MS}
    assert sorted(found) == sorted(wanted)
    for key, counted in wanted.items():
        row = found[key]
        seconds = {state: getattr(row, f"{state}_seconds") for state in STATES}
        assert seconds == {state: ms / 1000 for state, ms in counted.state_ms.items()}, key
        for metric in KEYS:
            statistics = counted.statistics(metric)
            samples = getattr(row, f"{metric}_samples")
            if statistics is None:
                assert (samples, getattr(row, f"{metric}_mean_{UNIT[metric]}")) == (0, None)
            else:
                assert samples == statistics[0]
                close_to(row, metric, statistics[1:])


def live_through(hall: Hall, seed: int, *, minutes: int) -> None:
    """Some minutes of a small hall: late reports, doubled ones, silence, restarts in the middle."""
    chance, dice = Chance(seed), random.Random(1000 + seed)
    late: list[Delivery] = []
    silent_until = dict.fromkeys(NODES, 0.0)
    for second in range(5, minutes * 60, 5):
        hall.clock.advance(5.0)
        for node in NODES:
            if dice.random() < 0.02:
                silent_until[node] = second + dice.uniform(20, 150)
            if second % 10 == 0 and second >= silent_until[node]:
                # Some the agent keeps and sends later.
                report = chance.report(node, second - 1)
                (late.append if dice.random() < 0.15 else hall.deliver)(report)
        if dice.random() < 0.05:
            hall.deliver(*late)
            late.clear()
        hall.show(chance.board(second))
        if dice.random() < 0.03:
            hall.deliver(*hall.deliveries[-4:])  # sent twice
        if dice.random() < 0.03:
            hall.restart()
            hall.show(hall.boards[-1])
    hall.deliver(*late)
    hall.settle()


@pytest.mark.parametrize("seed", range(5))
def test_minutes_equal_an_independent_count(hall: Hall, seed: int) -> None:
    live_through(hall, seed, minutes=8)
    compare(hall, 0, 8)


class SlowClock(FakeClock):
    """A clock by which each look at it costs a second."""

    def monotonic_seconds(self) -> float:
        self.advance(1.0)
        return super().monotonic_seconds()


def test_after_a_day_of_standing_still_no_beat_writes_all_of_it_and_none_is_left_out(database: Database) -> None:
    hall = Hall(database, clock=SlowClock())
    uuid = gpu_uuid("gpu-00", 0)
    hall.show(a_cell_board(0.0, [("gpu-00", uuid, CellState.FREE, None)]))  # whose span goes on
    hall.clock.advance(86400.0)  # as after SIGSTOP, or when the clock jumps
    beats = [int(hall.rollup.roll().split()[0]) for _ in range(2)]
    assert all(0 < minutes <= FLUSH_SECONDS_MAX + 1 for minutes in beats)
    assert hall.rollup.lag_seconds > 86400 - 60 * sum(beats) - 120
    for _ in range(1440):
        if hall.rollup.lag_seconds < 180:
            break
        hall.rollup.roll()
    assert hall.rollup.lag_seconds < 180
    with database.read() as connection:
        found = list(connection.execute(sa.text("SELECT DISTINCT at_ms FROM rollup_gpu_1m ORDER BY at_ms")).scalars())
    assert found == list(range(found[0], found[-1] + 1, MINUTE_MS))
    assert len(found) >= 1440
