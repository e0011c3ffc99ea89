"""One agent and one daemon as real processes, on both engines: faults, outages and kill -9 of either."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from tests import postgres
from tests.builders import a_report
from tests.standin.driver import Driver
from tests.system.processes import CLUSTER, Agent, Daemon, eventually
from tests.system.records import Records, is_whole, records_of

from trimtab.clock import SystemClock
from trimtab.model.advice import OpenFinding
from trimtab.model.board import CellState, NodeRow
from trimtab.model.reading import GpuState
from trimtab.outbound import OutboundError, session
from trimtab.ship.wire import MSGPACK, ZSTD, encode_reports

NODE, COURIER = "gpu-00", "gpu-01"
UUID_3, UUID_5 = (f"GPU-00000000-0000-4000-8000-{index:012d}" for index in (3, 5))


@dataclass
class Pair:
    """A daemon, an agent that reports to it, its driver, and the database between them."""

    daemon: Daemon
    agent: Agent
    driver: Driver
    records: Records

    def catches_up(self) -> None:
        """Wait until the agent runs and has nothing left to send but what it has just read."""
        eventually(lambda: self.agent.metric("trimtab_agent_ticks_total") >= 2, said=self.agent.tail)
        eventually(lambda: self.agent.metric("trimtab_agent_spool_reports") <= 1, said=self.agent.tail)

    def assert_nothing_lost_or_doubled(self) -> None:
        # The newest goes first: while reports flow, one before it may be a moment behind.
        eventually(
            lambda: is_whole(self.records.rows(NODE)),
            said=lambda: [row.sequence for row in self.records.rows(NODE)],
        )
        assert self.agent.metric("trimtab_agent_spool_dropped_total") == 0


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    home = tmp_path_factory.mktemp("pair")
    url = "sqlite:///trimtab.db"
    if request.param == "postgresql":
        server: postgres.PostgresServer = request.getfixturevalue("postgresql")
        url = server.new_database()
    with ExitStack() as stack:
        daemon = Daemon(home, database_url=url)
        stack.callback(daemon.close)
        daemon.up()
        driver = Driver(home)
        agent = Agent(home, driver, node=NODE, daemon=daemon, token=daemon.token_of(NODE))
        stack.callback(agent.close)
        agent.start()
        made = Pair(daemon, agent, driver, stack.enter_context(records_of(daemon)))
        made.catches_up()
        yield made
        daemon.assert_had_no_trouble()
        agent.assert_had_no_trouble()


def test_reports_arrive_and_the_board_shows_eight_gpus_at_work(pair: Pair) -> None:
    row = eventually(lambda: _at_work(pair.daemon, gpus=8), said=pair.daemon.tail)
    assert [cell.index for cell in row.cells] == list(range(8))
    assert pair.daemon.board().strip.gpus_reporting == 8
    pair.assert_nothing_lost_or_doubled()


def test_a_gpu_lost_live_is_found_and_the_other_seven_go_on(pair: Pair) -> None:
    lost_at = datetime.now(UTC)
    pair.driver["3.lost"] = 1
    try:
        found = pair.daemon.finding("device_fault").finding
        assert (found.subject.node, found.subject.gpu) == (NODE, UUID_3)
        assert "GPU 3" in found.sentence

        def seen_since() -> list[list[GpuState]]:
            reports = pair.records.reports(NODE, since=lost_at)
            return [states for report in reports if (states := [gpu.state for gpu in report.gpus])[3] is GpuState.LOST]

        eventually(lambda: len(seen_since()) >= 3, said=pair.agent.tail)
        assert all(states.count(GpuState.OK) == 7 and len(states) == 8 for states in seen_since())
        row = eventually(lambda: _at_work(pair.daemon, gpus=7), said=pair.daemon.tail)
        assert [cell.index for cell in row.cells if cell.state is CellState.LOST] == [3]
        assert len(pair.daemon.findings("device_fault")) == 1
    finally:
        del pair.driver["3.lost"]


def _at_work(daemon: Daemon, *, gpus: int) -> NodeRow | None:
    """The node's row once so many of its GPUs show the stand-in's activity (the first report holds none)."""
    row = daemon.node(NODE)
    return row if row and [cell.activity_ratio for cell in row.cells].count(0.825) == gpus else None


def _assert_replayed(pair: Pair, *, after: int) -> None:
    """After row `after` the newest came first, then what had waited, in order; then all is up to date."""
    pair.catches_up()
    rows = pair.records.rows(NODE)
    there = {row.sequence for row in rows if row.id <= after}
    came = [row.sequence for row in rows if row.id > after]
    newest = came[0]
    waited = [sequence for sequence in came if sequence < newest]
    assert waited == [sequence for sequence in range(1, newest) if sequence not in there]
    assert len(waited) >= 5, f"came in this order: {came[:12]}; there before: {sorted(there)[-3:]}"
    pair.assert_nothing_lost_or_doubled()


def test_after_an_outage_of_the_daemon_the_newest_comes_first_and_the_backlog_in_order(pair: Pair) -> None:
    assert pair.daemon.stop() == 0
    after = pair.records.last_id()
    pair.agent.waits_with(8)
    pair.daemon.up()
    _assert_replayed(pair, after=after)


def test_an_agent_killed_in_an_outage_replays_its_spool_in_order_and_goes_on_counting(pair: Pair) -> None:
    assert pair.daemon.stop() == 0
    after = pair.records.last_id()
    pair.agent.waits_with(5)
    pair.agent.kill()
    pair.agent.start()
    pair.agent.waits_with(8)
    pair.daemon.up()
    _assert_replayed(pair, after=after)


def test_kill_nine_of_the_agent_while_reports_flow_loses_and_doubles_none(pair: Pair) -> None:
    before = len(pair.records.rows(NODE))
    for round_number in range(1, 4):
        wanted = before + 3 * round_number
        eventually(lambda wanted=wanted: len(pair.records.rows(NODE)) >= wanted, said=pair.agent.tail)
        pair.agent.kill()
        pair.agent.start()
    pair.catches_up()
    pair.assert_nothing_lost_or_doubled()


class Courier:
    """A second node's sender without a spool, as fast as it goes; writes down what it was told is safe."""

    def __init__(self, daemon: Daemon) -> None:
        self.acknowledged: set[int] = set()
        self.refused: list[str] = []
        self._url, self._token = f"{daemon.ingest_url}/v1/reports", daemon.token_of(COURIER)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._sequence = 0

    def __enter__(self) -> Courier:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._stop.set()
        self._thread.join(30.0)

    def _run(self) -> None:
        with session(timeout_seconds=20.0, token=self._token) as peer:
            while not self._stop.is_set():
                try:
                    self._send(peer)
                except OutboundError:
                    self._stop.wait(0.05)  # it was killed, or is starting

    def _send(self, peer) -> None:
        batch = [self._report() for _ in range(4)]
        headers = {"Content-Type": MSGPACK, "Content-Encoding": ZSTD}
        answer = peer.post(self._url, data=encode_reports(batch), headers=headers)
        if answer.status_code == 200:
            self.acknowledged |= set(answer.json()["acknowledged"])
        elif answer.status_code == 503 and "Retry-After" in answer.headers:
            self._stop.wait(0.05)  # a PostgreSQL server may take a moment to see that the killed one is gone
        else:
            self.refused.append(answer.text)

    def _report(self):
        self._sequence += 1
        return a_report(COURIER, cluster=CLUSTER, sequence=self._sequence, sampled_at=SystemClock().now())


def test_kill_nine_of_the_daemon_keeps_every_report_that_it_acknowledged(pair: Pair) -> None:
    with Courier(pair.daemon) as courier:
        for _ in range(3):
            told = len(courier.acknowledged)
            eventually(lambda told=told: len(courier.acknowledged) >= told + 40, said=pair.daemon.tail)
            pair.daemon.kill()
            stored = {row.sequence for row in pair.records.rows(NODE)}
            assert pair.agent.settled() <= stored
            assert courier.acknowledged <= {row.sequence for row in pair.records.rows(COURIER)}
            pair.daemon.up()
    assert courier.refused == []
    assert courier.acknowledged <= {row.sequence for row in pair.records.rows(COURIER)}
    pair.catches_up()
    pair.assert_nothing_lost_or_doubled()


def test_a_finding_outlives_the_daemon_under_its_own_number(pair: Pair) -> None:
    pair.driver["5.lost"] = 1
    try:

        def lost() -> list[OpenFinding]:
            return [one for one in pair.daemon.findings("device_fault") if one.finding.subject.gpu == UUID_5]

        before = eventually(lost, said=pair.daemon.tail)
        pair.daemon.kill()
        pair.daemon.up()
        after = eventually(lost, said=pair.daemon.tail)
        assert [(one.id, one.opened_at) for one in after] == [(one.id, one.opened_at) for one in before]
    finally:
        del pair.driver["5.lost"]
