"""The daemon's beats together: what they do when one of them cannot."""

from __future__ import annotations

from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.builders import CLUSTER, a_delivery
from tests.fakes.clock import FakeClock
from tests.fakes.scheduler import FakeScheduler
from tests.issue.scenes import evacuation
from tests.store.values import Judged

from trimtab.central import JUDGED_AGE_SECONDS_MAX, Central, Parts
from trimtab.errors import StoreError
from trimtab.issue.issuer import Issuer
from trimtab.link import Link
from trimtab.model.command import CommandState, Mode
from trimtab.plan.planner import Planner
from trimtab.settings import DaemonSettings, IssueSettings
from trimtab.ship.inbox import Inbox
from trimtab.show.board import BoardBox
from trimtab.store.database import open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.ring import Ring


class Sees:
    """A detector that finds what it is given, or fails."""

    name = "device_fault"
    span_seconds = 60.0

    def __init__(self) -> None:
        self.findings: tuple = ()
        self.error: Exception | None = None

    def detect(self, _window):
        if self.error is not None:
            raise self.error
        return self.findings


class Bench:
    """A Central over a real history and a fake scheduler, in mode act."""

    def __init__(self, directory: Path) -> None:
        scene = evacuation()
        self.settings = DaemonSettings(cluster=CLUSTER, issue=IssueSettings(mode=Mode.ACT))
        self.clock = FakeClock()
        self.scheduler = FakeScheduler(scene.snapshot, self.clock)
        self.finding = scene.findings[0]
        self.database = open_database("sqlite:///trimtab.db", state_directory=directory)
        self.history = History(self.database, cluster=CLUSTER)
        self.sees = Sees()
        self.sees.findings = (self.finding.finding,)

    def start(self) -> Central:
        schedulers = {"simulated": self.scheduler}
        issuer = Issuer(ledger=self.history, schedulers=schedulers, settings=self.settings.issue, clock=self.clock)
        return Central(
            Parts(
                settings=self.settings,
                clock=self.clock,
                inbox=Inbox(100),
                journal=Journal(self.database),
                ring=Ring(cluster=CLUSTER, span_seconds=60.0, interval_seconds=10.0),
                history=self.history,
                detectors=(self.sees,),
                planner=Planner(self.settings.plan),
                issuer=issuer,
                link=Link(reader=self.scheduler),
                box=BoardBox(),
            )
        )

    def states(self) -> list[CommandState]:
        return [command.state for command in self.history.commands(live_only=False)]


@pytest.fixture
def bench(tmp_path: Path):
    made = Bench(tmp_path)
    yield made
    made.database.close()


def test_what_an_earlier_daemon_found_is_no_ground_for_a_move_until_it_is_judged_anew(bench: Bench):
    bench.history.record_findings(Judged(at=bench.clock.now(), opened=(bench.finding,)))
    bench.clock.advance(3 * 86400)
    central = bench.start()
    sentence = central.rebalance()
    assert bench.states() == []
    assert [refusal.rule for refusal in central._parts.box.latest().board.refusals] == ["not_judged"]
    assert sentence.startswith("0 recommendations, 1 refusals")
    central.judge()
    central.rebalance()
    assert bench.states() == [CommandState.PROPOSED]


def test_while_judging_fails_nothing_new_is_proposed(bench: Bench):
    central = bench.start()
    central.judge()
    bench.clock.advance(JUDGED_AGE_SECONDS_MAX + 1)
    central.rebalance()
    assert bench.states() == []
    central.judge()
    central.rebalance()
    assert bench.states() == [CommandState.PROPOSED]


def test_a_detector_that_goes_on_failing_is_no_ground_for_a_move_even_while_others_judge(bench: Bench):
    central = bench.start()
    central.judge()
    bench.sees.error = ValueError("odd value")
    for _ in range(2):
        bench.clock.advance(JUDGED_AGE_SECONDS_MAX / 2 + 1)
        central.judge()
    central.rebalance()
    assert [one.finding.rule for one in central.tracker.open_findings] == ["device_fault"]
    assert bench.states() == []
    central.judge()
    (refusal,) = central._parts.box.latest().board.refusals
    assert refusal.sentence.startswith("Nothing proposed: device_fault has not judged since ")
    bench.sees.error = None
    central.judge()
    central.rebalance()
    assert bench.states() == [CommandState.PROPOSED]


def test_a_board_is_made_anew_by_rebalance_only_when_a_command_has_changed(bench: Bench):
    central = bench.start()
    central.judge()
    central.rebalance()
    proposed = central._parts.box.latest()
    assert [row.command.state for row in proposed.board.commands] == [CommandState.PROPOSED]
    central.rebalance()  # mode act: approved by policy
    approved = central._parts.box.latest()
    assert approved.sequence == proposed.sequence + 1
    assert approved.board.commands[0].command.state is CommandState.APPROVED


def test_a_failing_detector_is_named_in_the_log_once(bench: Bench):
    central = bench.start()
    bench.sees.error = ValueError("odd value")
    with capture_logs() as logged:
        central.judge()
        central.judge()
    failures = [line for line in logged if line["log_level"] == "warning"]
    assert [(line["detector"], line["error"]) for line in failures] == [("device_fault", "ValueError: odd value")]


def test_reports_that_could_not_be_kept_are_not_acknowledged(bench: Bench):
    central = bench.start()

    class Broken:
        def append(self, _deliveries):
            raise StoreError("disk full")

    central._parts.journal = Broken()
    heard: list[object] = []
    central._parts.inbox.put([a_delivery()], settle=heard.append)
    with pytest.raises(StoreError):
        central.remember()
    assert [str(error) for error in heard] == ["disk full"]
