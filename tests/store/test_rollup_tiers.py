"""The coarser tiers, the sums by job and queue, restarts after a while, retention: against a count of their own."""

from __future__ import annotations

import math
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.builders import CLUSTER, a_delivery, a_finding, a_reading, a_report, gpu_uuid
from tests.fakes.clock import START, FakeClock
from tests.store import roller
from tests.store.rolled import MINUTE_MS, STATES, Oracle, a_cell_board
from tests.store.test_rollup import HOLD_SECONDS, JOBS, QUANTUM, UNIT, Hall, live_through

from trimtab.clock import unix_ms
from trimtab.model.advice import Subject
from trimtab.model.board import CellState
from trimtab.model.past import GpuTimeState
from trimtab.model.reading import MigReading
from trimtab.settings.rollup import RollupSettings
from trimtab.store.database import Database, open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.past import Past
from trimtab.store.retention import Retention
from trimtab.store.rollup import TIDY_AFTER_MS, Rollup
from trimtab.store.tables_rollup import GPU_TABLES, rollup_usage

ROOT = Path(__file__).parent.parent.parent
BEGIN_MS = unix_ms(START)


@pytest.fixture
def hall(database: Database) -> Iterator[Hall]:
    return Hall(database)


def past_of(hall: Hall) -> Past:
    return Past(hall.database, History(hall.database, cluster=CLUSTER))


def report(node: str, second: float, activity: float | None = 0.5, **values: float) -> object:
    said = {**({} if activity is None else {"sm_active_ratio": activity}), **values}
    made = a_report(node, sequence=round(second * 10) + 1, at=START + timedelta(seconds=second))
    return a_delivery(replace(made, gpus=(a_reading(node, 0, values=said),)))


def held_by(workload: str | None, second: float, *, nodes: tuple[str, ...] = ("gpu-00",)) -> object:
    state = CellState.WORKING if workload else CellState.FREE
    return a_cell_board(second, [(node, gpu_uuid(node, 0), state, workload) for node in nodes], jobs=JOBS)


def live(hall: Hall, first: int, until: int, *, workload: str | None = "research/job-0", every: int = 20) -> None:
    """Reports of one node of one GPU, and boards, over some seconds; the clock ends at `until`."""
    for second in range(first, until, every):
        hall.clock.advance((START + timedelta(seconds=second) - hall.clock.now()).total_seconds())
        hall.deliver(report("gpu-00", second, activity=round((second % 900) / 1000 + 0.05, 3), power_watts=500.0))
        hall.show(held_by(workload, second))
    hall.clock.advance((START + timedelta(seconds=until) - hall.clock.now()).total_seconds())
    hall.rollup.roll()


def test_quarters_and_hours_equal_their_minutes_counted_by_hand(hall: Hall) -> None:
    live(hall, 0, 1800)
    live(hall, 1800, 3600, workload="research/job-1")
    hall.settle()
    minutes = hall.oracle().rows(BEGIN_MS, BEGIN_MS + 60 * MINUTE_MS)
    for tier, count in (("15m", 15), ("1h", 60)):
        width = count * MINUTE_MS
        wanted = defaultdict(list)
        for (minute, uuid, workload), counted in sorted(minutes.items()):
            wanted[minute - minute % width, uuid, workload].append(counted)
        found = {(row.at_ms, row.gpu, row.workload): row for row in hall.rows(tier)}
        assert sorted(found) == sorted(wanted)
        for key, counted in wanted.items():
            row = found[key]
            for state in STATES:
                assert getattr(row, f"{state}_seconds") == sum(one.state_ms[state] for one in counted) / 1000
            values = [value for one in counted for value in one.values["activity"]]
            means = sorted(one.statistics("activity")[2] for one in counted if one.values["activity"])
            p95 = means[math.ceil(0.95 * len(means) - 1e-9) - 1]
            assert row.activity_samples == len(values)
            said = [row.activity_min_ratio, row.activity_mean_ratio, row.activity_max_ratio, row.activity_p95_ratio]
            expected = [min(values), math.fsum(values) / len(values), max(values), p95]
            assert said == pytest.approx(expected, abs=1.01 * QUANTUM["activity"])


def test_sums_by_job_and_queue_equal_the_rows_that_they_are_of(hall: Hall) -> None:
    live_through(hall, 77, minutes=16)
    with hall.database.read() as connection:
        for tier in ("1m", "15m"):
            columns = ", ".join(f"ROUND(CAST(SUM({state}_seconds) * 1000 AS NUMERIC))" for state in STATES)
            of_gpus = f"SELECT at_ms, workload, queue, {columns} FROM gpu_{tier} GROUP BY at_ms, workload, queue"
            columns = ", ".join(f"ROUND(CAST(SUM({state}_gpu_seconds) * 1000 AS NUMERIC))" for state in STATES)
            usage = f"SELECT at_ms, workload, queue, {columns} FROM usage_{tier} GROUP BY at_ms, workload, queue"
            fleet = f"SELECT at_ms, queue, {columns} FROM fleet_{tier} GROUP BY at_ms, queue"
            by_gpu = {
                tuple(map(str, row[:3])): [int(x) for x in row[3:]] for row in connection.execute(sa.text(of_gpus))
            }
            by_job = {tuple(map(str, row[:3])): [int(x) for x in row[3:]] for row in connection.execute(sa.text(usage))}
            assert by_gpu
            assert by_job == by_gpu
            by_queue: dict[tuple[str, str], list[int]] = {}
            for (at_ms, _, queue), sums in by_job.items():
                total = by_queue.setdefault((at_ms, queue), [0] * len(STATES))
                by_queue[at_ms, queue] = [a + b for a, b in zip(total, sums, strict=True)]
            told = {tuple(map(str, row[:2])): [int(x) for x in row[2:]] for row in connection.execute(sa.text(fleet))}
            assert told == by_queue


def test_energy_and_activity_of_a_job_are_their_means_over_time(hall: Hall) -> None:
    hall.show(held_by("research/job-0", 0))
    for second in range(0, 60, 10):
        hall.deliver(report("gpu-00", second, activity=0.2, power_watts=300.0))
    hall.clock.advance(60)
    hall.settle()
    with hall.database.read() as connection:
        statement = "SELECT * FROM usage_1m WHERE workload = 'research/job-0' AND at_ms = :at"
        row = connection.execute(sa.text(statement), {"at": BEGIN_MS}).one()
    assert (row.gpus, row.activity_mean_ratio, row.power_watts, row.energy_joules) == pytest.approx(
        (1.0, 0.2, 300.0, 18_000.0)
    )


@pytest.mark.parametrize(
    ("since", "until"), [(0, 3600), (300, 3000), (1000, 1061), (840, 4500), (60, 7200), (3600, 7200), (7100, 7300)]
)
def test_gpu_time_between_any_two_minutes_is_exact(hall: Hall, since: int, until: int) -> None:
    live(hall, 0, 2000)
    live(hall, 2000, 7300, workload="research/job-1", every=40)
    hall.settle()
    times = past_of(hall).gpu_times(START + timedelta(seconds=since), START + timedelta(seconds=until))
    first, last = BEGIN_MS + since // 60 * MINUTE_MS, BEGIN_MS + until // 60 * MINUTE_MS
    assert (unix_ms(times.since), unix_ms(times.until), times.edge_seconds) == (
        first,
        last,
        pytest.approx(times.edge_seconds),
    )
    wanted: dict[tuple[str, str], int] = defaultdict(int)
    for (_, _, workload), counted in hall.oracle().rows(first, last).items():
        for state, ms in counted.state_ms.items():
            wanted[workload, state] += ms
    found = {
        (row.workload, state.value): round(row.seconds[state] * 1000) for row in times.rows for state in GpuTimeState
    }
    assert {key: ms for key, ms in found.items() if ms} == {key: ms for key, ms in wanted.items() if ms}
    queues = {row.workload: row.queue for row in times.rows}
    assert queues == {job: {"research/job-0": "queue-0", "research/job-1": "queue-1", "": ""}[job] for job in queues}


def test_a_report_that_comes_hours_late_puts_every_tier_right(hall: Hall) -> None:
    live(hall, 0, 600)
    hall.clock.advance(3000)  # silence: the agent cannot reach the daemon
    for _ in range(3):
        hall.rollup.roll()
    hall.settle()
    assert [row.unknown_seconds for row in hall.rows("15m")][-1] == 900.0
    late = [report("gpu-00", second, activity=0.9) for second in range(600, 3600, 20)]
    hall.deliver(*(replace(one, received_at=hall.clock.now(), is_replay=True) for one in late))
    hall.settle()
    hall.settle()
    (hour,) = hall.rows("1h")
    assert hour.activity_samples == 30 + len(late)
    assert (hour.working_seconds, hour.unknown_seconds) == (3600.0, 0.0)
    assert [row.working_seconds for row in hall.rows("15m")] == [900.0] * 4
    (times,) = past_of(hall).gpu_times(START, START + timedelta(hours=1)).rows
    assert times.seconds[GpuTimeState.WORKING] == 3600.0
    assert hall.rollup.waiting_minutes == 0


def test_a_report_later_than_the_minutes_are_kept_is_counted_and_left_out(hall: Hall) -> None:
    hall.clock.advance(3 * 86400)
    old = replace(report("gpu-00", 0), received_at=hall.clock.now(), is_replay=True)
    hall.deliver(old)
    hall.settle()
    assert (hall.rollup.too_late_total, hall.rows()) == (1, [])


def test_time_in_which_no_daemon_ran_is_unknown_and_never_idle(hall: Hall) -> None:
    live(hall, 0, 600)
    hall.clock.advance(1200)
    hall.restart()
    live(hall, 1800, 2400)
    hall.settle()
    rows = {(row.at_ms - BEGIN_MS) // MINUTE_MS: row for row in hall.rows()}
    assert [rows[minute].unknown_seconds for minute in range(12, 29)] == [60.0] * 17
    assert {rows[minute].workload for minute in rows} == {"research/job-0"}
    assert rows[15].activity_mean_ratio is None


def test_after_a_long_absence_what_had_begun_is_built_and_the_rest_has_no_rows(hall: Hall) -> None:
    live(hall, 0, 1200)
    hall.clock.advance(8 * 3600)
    hall.restart()
    hall.show(held_by("research/job-0", 1200 + 8 * 3600))
    hall.settle()
    hours = [(row.at_ms - BEGIN_MS) // 3_600_000 for row in hall.rows("1h")]
    assert hours[0] == 0
    assert hall.rows("1h")[0].activity_samples == 60
    assert 3 not in hours
    assert past_of(hall).fleet_at(START + timedelta(hours=3)) is None


def test_who_held_a_gpu_while_nobody_looked_is_not_made_up(hall: Hall) -> None:
    live(hall, 0, 60)
    hall.clock.advance(240)
    hall.restart()
    late = [report("gpu-00", second, activity=0.9) for second in range(60, 300, 20)]
    hall.deliver(*(replace(one, received_at=hall.clock.now()) for one in late))
    live(hall, 300, 420, workload="research/job-1")
    hall.settle()
    rows = [row for row in hall.rows() if BEGIN_MS + 120_000 <= row.at_ms < BEGIN_MS + 300_000]
    assert {(row.workload, row.working_seconds) for row in rows} == {("", 60.0)}
    assert {row.workload for row in hall.rows() if row.at_ms >= BEGIN_MS + 300_000} == {"research/job-1"}


def test_the_rule_of_a_finding_is_the_cause_of_its_gpus_time(hall: Hall) -> None:
    board = held_by("research/job-0", 0, nodes=("gpu-00", "gpu-01"))
    subject = Subject(cluster=CLUSTER, node="gpu-01", gpu=gpu_uuid("gpu-01", 0))
    slow = a_finding(rule="straggler", subject=subject, workloads_hit=("research/job-0",), loss_gpus=0.5)
    hall.show(replace(board, findings=(slow,)))
    for second in range(0, 60, 10):
        hall.deliver(report("gpu-00", second), report("gpu-01", second))
    hall.clock.advance(60)
    hall.show(replace(board, at=START + timedelta(seconds=60)))
    hall.settle()
    with hall.database.read() as connection:
        statement = "SELECT cause, queue, working_gpu_seconds, lost_gpu_seconds FROM usage_1m WHERE at_ms = :at"
        rows = [tuple(row) for row in connection.execute(sa.text(statement), {"at": BEGIN_MS})]
    assert rows == [("straggler", "queue-0", 120.0, 30.0)]


def test_a_split_gpu_is_counted_by_its_instances_alone(hall: Hall) -> None:
    uuid = gpu_uuid("gpu-00", 0)
    cells = [
        ("gpu-00", f"{uuid}/1", CellState.WORKING, "research/job-0"),
        ("gpu-00", f"{uuid}/2", CellState.FREE, None),
    ]
    hall.show(a_cell_board(0, cells, jobs=JOBS))
    for second in range(0, 60, 10):
        instances = (
            MigReading(gi=1, ci=0, values={"sm_active_ratio": 0.7}),
            MigReading(gi=2, ci=0, values={"sm_active_ratio": 0.0}),
        )
        made = a_report("gpu-00", sequence=second + 1, at=START + timedelta(seconds=second))
        reading = a_reading("gpu-00", 0, values={"power_watts": 400.0}, instances=instances)
        hall.deliver(a_delivery(replace(made, gpus=(reading,))))
    hall.clock.advance(60)
    hall.settle()
    found = [
        (row.gpu, row.workload, row.working_seconds, row.free_seconds) for row in hall.rows() if row.at_ms == BEGIN_MS
    ]
    assert found == [(f"{uuid}/1", "research/job-0", 60.0, 0.0), (f"{uuid}/2", "", 0.0, 60.0)]


def test_two_clusters_in_one_database_do_not_mix(hall: Hall) -> None:
    other = Rollup(
        hall.database, cluster="hall-b", clock=hall.clock, settings=RollupSettings(), hold_seconds=HOLD_SECONDS
    )
    board = held_by("research/job-0", 0)
    other.see(replace(board, cluster="hall-b"), None)
    other.roll()
    live(hall, 0, 900)
    other.roll()
    hall.settle()
    other.roll()
    times = {
        name: Past(hall.database, History(hall.database, cluster=name)).gpu_times(START, START + timedelta(minutes=15))
        for name in (CLUSTER, "hall-b")
    }
    assert [row.seconds[GpuTimeState.WORKING] for row in times[CLUSTER].rows] == [900.0]
    assert [row.seconds[GpuTimeState.UNKNOWN] for row in times["hall-b"].rows] == [900.0]


def test_each_tier_is_kept_for_its_days_and_no_longer(hall: Hall) -> None:
    live(hall, 0, 3600, every=60)
    hall.settle()
    settings = RollupSettings(minute_days=1, quarter_days=2, hour_days=3)
    retention = Retention(hall.database, cluster=CLUSTER, settings=settings)
    stranger = Retention(hall.database, cluster="hall-b", settings=settings)

    def left() -> list[int]:
        with hall.database.read() as connection:
            tables = [GPU_TABLES[tier] for tier in ("1m", "15m", "1h")]
            return [connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one() for table in tables]

    whole = left()
    assert all(whole)
    stranger.prune(START + timedelta(days=30))
    assert left() == whole
    for days, wanted in ((1.5, [0, 4, 1]), (2.5, [0, 0, 1]), (3.5, [0, 0, 0])):
        said = retention.prune(START + timedelta(days=days))
        assert left() == wanted
        assert "rows of roll-ups were older than their days" in said
    with hall.database.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(rollup_usage)).scalar_one() == 0


def run_and_kill(url: str, directory: Path, first: int, *, lines: int, seconds: float) -> int:
    """The last second that the process had committed when it was killed."""
    command = [sys.executable, "-m", "tests.store.roller", url, str(directory), str(first)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'daemon'}{os.pathsep}{ROOT}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(lines)]
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        said += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return max(int(line) for line in said if line.endswith("\n"))


def test_kill_9_at_any_point_loses_nothing_and_counts_nothing_twice(database_url: str, tmp_path: Path) -> None:
    chance, last = random.Random(3), -roller.STEP_SECONDS
    for _ in range(5):
        first = last + roller.STEP_SECONDS
        last = run_and_kill(database_url, tmp_path, first, lines=chance.randint(5, 30), seconds=chance.uniform(0, 0.05))
    database = open_database(database_url, state_directory=tmp_path)
    last = max(one.report.sequence for one in Journal(database).tail(START))  # committed, and perhaps not printed
    hall = Hall(database, clock=FakeClock(START + timedelta(seconds=last + roller.STEP_SECONDS)))
    hall.deliveries = list(Journal(database).tail(START))
    hall.boards = [roller.board_at(second) for second in range(0, last + 2 * roller.STEP_SECONDS, roller.STEP_SECONDS)]
    hall.rollup.see(hall.boards[-1], None)
    hall.rollup.roll()
    hall.settle()
    minutes = last // 60
    wanted = Oracle(hall.deliveries, hall.boards, hold_ms=round(HOLD_SECONDS * 1000)).rows(
        BEGIN_MS, BEGIN_MS + minutes * MINUTE_MS
    )
    found = {
        (row.at_ms, row.gpu, row.workload): row for row in hall.rows() if row.at_ms < BEGIN_MS + minutes * MINUTE_MS
    }
    assert sorted(found) == sorted(wanted)
    assert minutes >= 3
    for key, counted in wanted.items():
        row, statistics = found[key], counted.statistics("power")
        assert {state: getattr(row, f"{state}_seconds") * 1000 for state in STATES} == counted.state_ms, key
        assert row.power_samples == (statistics[0] if statistics else 0)
        if statistics:
            assert getattr(row, f"power_mean_{UNIT['power']}") == pytest.approx(statistics[2], abs=QUANTUM["power"])
    database.close()


def test_who_is_told_of_nowhere_any_more_is_forgotten(hall: Hall) -> None:
    live(hall, 0, 300, every=60)
    live(hall, 300, 600, workload="research/job-1", every=60)
    hall.settle()

    def workloads() -> set[str]:
        with hall.database.read() as connection:
            return set(connection.execute(sa.text("SELECT workload FROM rollup_tenures")).scalars())

    assert workloads() == {"", "research/job-0", "research/job-1"}
    settings = RollupSettings(minute_days=0.25, quarter_days=0.25, hour_days=0.25)
    retention = Retention(hall.database, cluster=CLUSTER, settings=settings)
    retention.prune(hall.clock.now())
    hall.restart()
    hall.clock.advance(TIDY_AFTER_MS / 1000)
    hall.rollup.roll()  # their rows are still there
    assert workloads() == {"", "research/job-0", "research/job-1"}
    hall.clock.advance(2 * 86400)
    retention.prune(hall.clock.now())
    hall.restart()
    hall.clock.advance(TIDY_AFTER_MS / 1000)
    hall.rollup.roll()
    assert workloads() == {"", "research/job-1"}  # the last one known still holds the GPU
    second = 600 + 90 + 2 * 86400 + 2 * TIDY_AFTER_MS // 1000
    hall.show(held_by("research/job-0", second))
    hall.clock.advance(90)
    hall.rollup.roll()
    assert hall.rows()[-1].workload == "research/job-0"  # who comes back has a number again
