"""The beats and the roll-ups together: what was remembered and judged is the past that is read."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.builders import CLUSTER, a_delivery, a_report
from tests.fakes.clock import START
from tests.test_central import Bench

from trimtab.central import Central
from trimtab.chores import Chore
from trimtab.keeping import Keeping, keeping_of
from trimtab.settings import DaemonSettings, RollupSettings, StoreSettings
from trimtab.settings.disk import DiskSettings
from trimtab.store.tables import journal


@pytest.fixture
def bench(tmp_path: Path):
    made = Bench(tmp_path)
    made.sees.findings = ()
    yield made
    made.database.close()


def keep(bench: Bench, **changes: object) -> tuple[Central, Keeping]:
    settings = DaemonSettings(cluster=CLUSTER, rollup=RollupSettings(**changes))
    keeping = keeping_of(settings, database=bench.database, history=bench.history, clock=bench.clock)
    central = bench.start()
    central._parts.rollup = keeping.rollup
    return central, keeping


def live(bench: Bench, central: Central, keeping: Keeping, *, seconds: int, first: int = 0) -> None:
    for second in range(first, first + seconds, 10):
        nodes = sorted(node.name for node in bench.scheduler.snapshot().nodes)
        found = [a_delivery(a_report(node, sequence=second + 1, at=bench.clock.now())) for node in nodes]
        central._parts.inbox.put(found)
        central.remember()
        central.rebalance()
        central.judge()
        for beat in keeping.beats:
            beat.run_once()
        bench.clock.advance(10)


def test_what_was_remembered_and_judged_can_be_read_back(bench: Bench):
    central, keeping = keep(bench)
    live(bench, central, keeping, seconds=300)
    fleet = keeping.past.fleet_at(START + timedelta(seconds=90))
    board = central._parts.box.latest().board
    now = [(row.name, cell.uuid, cell.state, cell.workload) for row in board.nodes for cell in row.cells]
    then = [(row.name, cell.uuid, cell.state, cell.workload) for row in fleet.nodes for cell in row.cells]
    assert {one[:2] for one in then} == {one[:2] for one in now}
    assert {workload for *_, workload in then} == {workload for *_, workload in now}
    times = keeping.past.gpu_times(START, START + timedelta(seconds=180))
    assert times.total_seconds == pytest.approx(len(now) * 180)
    facts = keeping.facts()
    assert facts.rows_total["1m"] >= len(now) * 3
    assert (facts.failures_total, facts.waiting_minutes) == (0, 0)
    assert facts.lag_seconds < 120


def test_turned_off_nothing_is_written_and_nothing_breaks(bench: Bench):
    central, keeping = keep(bench, is_on=False)
    live(bench, central, keeping, seconds=180)
    assert (keeping.rollup, keeping.facts()) == (None, None)
    assert [beat.name for beat in keeping.beats] == ["disk"]
    assert [chore.name for chore in keeping.chores] == ["prune"]
    assert keeping.past.kept().since is None


def test_a_database_that_refuses_costs_no_minute(bench: Bench):
    central, keeping = keep(bench)
    refuse = "CREATE TRIGGER full BEFORE INSERT ON rollup_gpu_1m BEGIN SELECT RAISE(ABORT, 'disk full'); END"
    with bench.database.write() as connection:
        connection.execute(sa.text(refuse))
    live(bench, central, keeping, seconds=120)
    beat = keeping.beats[0]
    assert beat.is_failing
    assert keeping.past.kept().since is None
    with bench.database.write() as connection:
        connection.execute(sa.text("DROP TRIGGER full"))
    live(bench, central, keeping, seconds=180, first=120)
    times = keeping.past.gpu_times(START, START + timedelta(seconds=240))
    assert times.total_seconds == pytest.approx(240 * 8 * len(bench.scheduler.snapshot().nodes))
    assert sum(row.seconds["unknown"] for row in times.rows) == 0
    assert keeping.facts().failures_total == beat.failures_total > 0


def test_retention_is_a_chore(bench: Bench):
    central, keeping = keep(bench, minute_days=0.25)
    live(bench, central, keeping, seconds=240)
    chore = next(one for one in keeping.chores if one.name == "prune_rollups")
    assert isinstance(chore, Chore)
    bench.clock.advance(86400)
    assert keeping.past.fleet_at(START + timedelta(seconds=90)) is not None
    assert "rows of roll-ups were older" in chore.run()
    assert keeping.past.fleet_at(START + timedelta(seconds=90)) is None


def test_other_days_are_in_force_without_a_restart(bench: Bench):
    settings = [DaemonSettings(cluster=CLUSTER, store=StoreSettings(journal_days=2.0))]
    keeping = keeping_of(
        settings[0], database=bench.database, history=bench.history, clock=bench.clock, in_force=lambda: settings[-1]
    )
    prune = next(one for one in keeping.chores if one.name == "prune")
    assert "older than 2 days" in prune.run()
    settings.append(DaemonSettings(cluster=CLUSTER, store=StoreSettings(journal_days=0.5)))
    assert "older than 0.5 days" in prune.run()


def test_after_days_of_downtime_the_quota_can_still_let_go_of_what_came_since(bench: Bench):
    central, keeping = keep(bench)
    live(bench, central, keeping, seconds=60)
    bench.clock.advance(3 * 86400.0)  # it was down
    settings = DaemonSettings(
        cluster=CLUSTER, disk=DiskSettings(database_bytes_max=1, free_bytes_min=0, ballast_bytes=0)
    )
    again = keeping_of(settings, database=bench.database, history=bench.history, clock=bench.clock)
    live(bench, central, again, seconds=20, first=60)
    bench.clock.advance(3600.0)
    again.disk.tick()
    with bench.database.read() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(journal)).scalar_one() == 0


def test_a_clock_that_was_set_days_ahead_is_an_absence_and_not_days_of_rows(bench: Bench):
    central, keeping = keep(bench)
    live(bench, central, keeping, seconds=300)
    rows = keeping.facts().rows_total["1m"]
    bench.clock.jump(3 * 86400.0)
    said = keeping.rollup.roll()
    assert said.startswith("taken over"), said
    nodes = len(bench.scheduler.snapshot().nodes)
    assert keeping.facts().rows_total["1m"] - rows <= 90 * nodes * 8  # an hour as unknown at most
