"""The bell within the daemon's beats: told with the findings, told of what is done, and no danger to either."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import a_delivery, a_report
from tests.oncall.hall import CHAT, PAGER, Hall
from tests.test_central import Bench

from trimtab.central import Central
from trimtab.errors import DecisionRefused
from trimtab.model.command import CommandState
from trimtab.rehearsal import Rehearsal
from trimtab.store.history import History


class Ward(Bench):
    """The daemon's beats in mode act, with two targets."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self.hall = Hall(directory, PAGER, CHAT)
        self.hall.clock = self.clock
        self.hall.start_over()

    def start(self) -> Central:
        central = super().start()
        central._parts.bell = self.hall.bell
        return central


@pytest.fixture
def ward(tmp_path: Path) -> Iterator[Ward]:
    made = Ward(tmp_path)
    yield made
    made.hall.stop()
    made.database.close()


def test_what_is_found_proposed_and_done_is_one_story_in_one_thread(ward: Ward):
    central = ward.start()
    for _ in range(8):
        central.judge()
        central.rebalance()
        ward.hall.deliver()
        ward.clock.advance(5)
    states = [command.state for command in ward.history.commands(live_only=False)]
    assert CommandState.PROPOSED not in states
    story = ward.hall.chat.story()
    assert story[0] == "open I1"
    assert set(story[1:]) == {"update I1"}
    said = [line for message in ward.hall.chat.taken for line in message.lines]
    assert any(line.startswith("Proposed R1: ") for line in said)
    assert any(line.startswith("R1 under way: ") for line in said)
    assert ward.hall.chat.threads[-1] == ward.hall.chat.threads[1]
    # A second look at the same commands tells nobody anything.
    told = len(ward.hall.chat.taken)
    central.rebalance()
    ward.hall.deliver()
    assert len(ward.hall.chat.taken) == told


def test_a_bell_that_fails_costs_no_finding_and_is_told_at_the_next_beat(ward: Ward):
    central = ward.start()
    bell = ward.hall.bell
    hear = bell.hear

    def broken(*_args):
        raise ValueError("odd finding")

    bell.hear = broken
    assert "bell failed: ValueError: odd finding" in central.judge()
    assert len(ward.history.open_findings()) == 1
    assert ward.hall.history.open_incidents() == ()
    bell.hear = hear
    central.judge()
    ward.hall.deliver()
    assert ward.hall.pd.story() == ["open I1"]


def test_commands_that_nobody_can_be_told_of_go_on_and_are_no_sign_of_life(ward: Ward):
    central = ward.start()
    central.judge()
    hear = ward.hall.bell.hear_commands

    def broken(*_args):
        raise ValueError("odd command")

    ward.hall.bell.hear_commands = broken
    central.rebalance()
    assert ward.history.commands(live_only=False)
    assert central.is_bell_failing
    ward.hall.bell.hear_commands = hear
    central.rebalance()
    assert not central.is_bell_failing


def test_a_restart_between_judgement_and_delivery_tells_it_once(ward: Ward):
    ward.start().judge()
    central = ward.start()  # the next daemon, on the same database
    central.judge()
    ward.hall.deliver()
    assert ward.hall.pd.story() == ["open I1"]
    assert isinstance(ward.hall.history, History)


def test_a_drill_shows_what_would_be_done_and_begins_nothing(ward: Ward):
    central = ward.start()
    ward.sees.findings = ()
    (node, *_others) = [one.name for one in ward.scheduler.snapshot().nodes]
    central._parts.inbox.put([a_delivery(a_report(node, at=ward.clock.now()))])
    central.remember()
    central.judge()
    central.rebalance()
    rehearsal = Rehearsal(central=central, parts=central._parts, bell=ward.hall.bell)
    before = ward.history.commands(live_only=False)
    drill = rehearsal.drill("xid79", node, "3", "ann", 30.0)
    assert drill.sentence.startswith(f"{node} GPU 3 fell off the bus (XID 79)")
    assert any(line.startswith(f"dry run: cordon {node}") for line in drill.dry_run)
    for _ in range(3):
        central.judge()
        central.rebalance()
        ward.hall.deliver()
        ward.clock.advance(5)
    assert ward.history.commands(live_only=False) == before
    assert ward.history.findings() == ()
    assert not any(one.is_cordoned for one in ward.scheduler.snapshot().nodes)
    assert ward.hall.pd.story() == ["open I1"]
    for wrong in (("xid79", "nowhere", None), ("xid79", node, "99")):
        with pytest.raises(DecisionRefused):
            rehearsal.drill(*wrong, "ann", 30.0)
    assert rehearsal.drill("silent", node, None, "ann", 30.0).sentence.startswith(f"{node} is silent")
