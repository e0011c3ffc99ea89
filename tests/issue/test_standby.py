"""Who may not write decides nothing, and who cannot see the cluster leaves nobody's work stopped for ever."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.issue.scenes import Scene, evacuation, to

from trimtab.issue import decisions
from trimtab.model.command import CommandState, Mode
from trimtab.settings import IssueSettings

HELD_BY = "the lease is held by hall-b-1f3a"


def test_a_daemon_without_the_lease_proposes_and_goes_no_further():
    scene = evacuation(settings=IssueSettings(mode=Mode.ACT), why_not_write=HELD_BY)
    scene.beats(5)
    assert scene.command().state is CommandState.PROPOSED
    assert scene.scheduler.calls == []
    assert scene.told == []


def test_what_was_agreed_waits_for_the_lease_and_says_so():
    scene = evacuation()
    scene.beat()
    scene.approve()
    scene.why_not_write = HELD_BY
    advance = scene.beat()
    assert [one.sentence for one in advance.refusals if one.rule == "standby"] == [f"R1 waits: {HELD_BY}."]
    assert scene.command().attempts == 0
    scene.why_not_write = None
    scene.beats(8)
    assert scene.command().state is CommandState.SETTLED


@pytest.mark.parametrize("state", [CommandState.HELD, CommandState.SUBMITTED])
def test_a_begun_command_stands_still_while_the_lease_is_lost_and_is_finished_after(state: CommandState):
    scene = evacuation()
    to(scene, state)
    scene.why_not_write = HELD_BY
    calls = list(scene.scheduler.calls)
    scene.beats(3)
    assert (scene.command().state, scene.scheduler.calls) == (state, calls)
    scene.why_not_write = None
    scene.beats(8)
    assert scene.command().state is CommandState.SETTLED


def submitted() -> Scene:
    scene = evacuation()
    to(scene, CommandState.SUBMITTED)
    return scene


def test_blind_for_longer_than_a_command_may_take_it_is_given_back():
    scene = submitted()
    last = scene.scheduler.snapshot()
    assert scene.issuer.give_up(last) == ""  # its time is not over
    scene.clock.advance(scene.settings.settle_seconds_max + 1)
    assert "submitted → abandoned" in scene.issuer.give_up(last)
    assert scene.command().reason == "the cluster cannot be seen whole: given back"
    assert scene.scheduler.held() == []


def test_blind_a_person_can_still_have_it_undone():
    scene = submitted()
    last = scene.scheduler.snapshot()
    decisions.undo(scene.ledger, 1, reason="now", who="mei", now=scene.clock.now() + timedelta(seconds=1))
    assert "submitted → undone" in scene.issuer.give_up(last)
    assert scene.scheduler.held() == []


def test_blind_and_without_the_lease_nothing_is_done():
    scene = submitted()
    scene.clock.advance(scene.settings.settle_seconds_max + 1)
    scene.why_not_write = HELD_BY
    assert scene.issuer.give_up(scene.scheduler.snapshot()) == ""
    assert scene.command().state is CommandState.SUBMITTED
