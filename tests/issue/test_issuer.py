from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import a_node
from tests.fakes.clock import START
from tests.issue.scenes import evacuation, relocation, room_making, to

from trimtab.issue import decisions
from trimtab.model.cluster import Checkpoint, OwnerWishes, WorkloadState
from trimtab.model.command import CommandState, Mode, Plan
from trimtab.settings import IssueSettings

HELD = CommandState.HELD
SUBMITTED = CommandState.SUBMITTED
SETTLED = CommandState.SETTLED
LIFE = [
    "proposed",
    "proposed → approved",
    "approved → held",
    "held → confirmed",
    "confirmed → submitted",
    "submitted → settled",
]


# --- the straight way


def test_an_evacuation_goes_one_step_a_beat_from_proposed_to_settled():
    scene = evacuation()
    settled = to(scene, SETTLED)
    assert scene.states() == LIFE
    gang = scene.scheduler.jobs["research/llama-70b"]
    assert (gang.state, gang.nodes) == (WorkloadState.RUNNING, ("gpu-00", "gpu-01", "gpu-22", "gpu-03"))
    assert scene.scheduler.held() == [f"{scene.mark} cordons gpu-02"]
    assert (settled.approved_by, settled.attempts) == ("mei", 1)
    outcome = scene.ledger.results[1]
    assert outcome.is_good
    assert outcome.seconds_to_settle == (settled.settled_at - settled.submitted_at).total_seconds()
    assert scene.beat().sentence == "0 commands live, nothing to do"


def test_room_is_made_the_waiting_job_runs_and_nothing_stays_held():
    scene = room_making()
    to(scene, SETTLED)
    assert scene.states() == LIFE
    assert scene.scheduler.jobs["research/eval-9"].nodes == ("gpu-03",)
    assert {scene.scheduler.jobs[f"research/{name}"].nodes for name in "ab"} == {("gpu-04",), ("gpu-05",)}
    assert scene.scheduler.held() == []
    assert scene.ledger.results[1].gpus_unlocked == 8


def test_a_relocation_leaves_the_bad_node_cordoned():
    scene = relocation()
    to(scene, SETTLED)
    assert scene.scheduler.jobs["research/vision-3"].nodes == ("gpu-00", "gpu-01", "gpu-03")
    assert scene.scheduler.held() == [f"{scene.mark} cordons gpu-02"]


def test_each_write_is_done_once():
    scene = evacuation()
    to(scene, SETTLED)
    assert len(scene.scheduler.written) == len(set(scene.scheduler.written)) == 4


# --- who says yes


def test_in_mode_recommend_nothing_is_ever_written():
    scene = evacuation(settings=IssueSettings(mode=Mode.RECOMMEND))
    scene.beats(5)
    assert scene.command().state is CommandState.PROPOSED
    assert scene.scheduler.calls == []


def test_in_mode_observe_nothing_is_proposed():
    scene = evacuation(settings=IssueSettings(mode=Mode.ACT, rules={"evacuate": Mode.OBSERVE}))
    scene.beats(2)
    assert scene.ledger.stored == {}


def test_in_mode_act_a_policy_says_yes():
    scene = evacuation(settings=IssueSettings(mode=Mode.ACT))
    scene.beats(8)
    assert scene.command().state is SETTLED
    assert scene.command().approved_by == "policy"


def test_a_rules_own_mode_is_capped_by_the_daemons():
    scene = evacuation(settings=IssueSettings(mode=Mode.RECOMMEND, rules={"evacuate": Mode.ACT}))
    scene.beats(5)
    assert scene.command().state is CommandState.PROPOSED


def test_an_owner_who_asks_first_is_asked_even_in_mode_act():
    scene = evacuation(settings=IssueSettings(mode=Mode.ACT))
    gang = scene.scheduler.jobs["research/llama-70b"]
    scene.scheduler.put(replace(gang, wishes=OwnerWishes(is_ask_first=True)))
    scene.beats(3)
    assert scene.command().state is CommandState.PROPOSED
    scene.approve()
    scene.beats(8)
    assert scene.command().state is SETTLED


def test_pause_stops_what_has_not_begun_and_finishes_what_has():
    scene = evacuation()
    scene.beat()
    scene.approve()
    decisions.pause(scene.ledger, reason="a demo is on", who="mei", now=scene.clock.now())
    advance = scene.beat()
    assert scene.command().state is CommandState.APPROVED
    assert [one.sentence for one in advance.refusals] == ["R1 waits: paused."]
    decisions.resume(scene.ledger, who="mei", now=scene.clock.now())
    scene.beat()
    decisions.pause(scene.ledger, reason="", who="mei", now=scene.clock.now())
    scene.beats(6)
    assert scene.command().state is SETTLED


def test_a_lowered_mode_takes_an_approval_back_before_anything_began():
    scene = evacuation()
    scene.beat()
    scene.approve()
    scene.restart(IssueSettings(mode=Mode.RECOMMEND))
    scene.beat()
    command = scene.command()
    assert (command.state, command.approved_by) == (CommandState.PROPOSED, None)
    assert command.reason == "mode of evacuate is recommend now"


def test_a_lowered_mode_does_not_leave_a_begun_command_half_done():
    scene = evacuation()
    to(scene, SUBMITTED)
    scene.restart(IssueSettings(mode=Mode.OBSERVE))
    scene.beats(4)
    assert scene.command().state is SETTLED


# --- the fresh look


def test_other_writes_than_those_approved_go_back_to_the_person():
    scene = evacuation()
    scene.beat()
    approved = scene.approve()
    scene.scheduler.nodes["gpu-22"] = replace(scene.scheduler.nodes["gpu-22"], is_ready=False)
    scene.scheduler.nodes["gpu-23"] = a_node("gpu-23", is_spare=True)
    scene.beat()
    command = scene.command()
    assert command.state is CommandState.PROPOSED
    assert "other steps than those approved" in command.reason
    assert command.recommendation.fingerprint != approved.approved_fingerprint
    assert scene.scheduler.calls == []


def test_a_plan_that_does_not_ask_any_more_ends_the_command_with_the_reason():
    scene = room_making()
    scene.beat()
    scene.approve()
    eval9 = scene.scheduler.jobs["research/eval-9"]
    scene.scheduler.put(replace(eval9, state=WorkloadState.FINISHED))
    scene.beat()
    assert scene.command().state is CommandState.ABANDONED
    assert scene.command().reason == "no longer needed: the plan does not ask for it any more"


def test_a_blind_planner_changes_no_proposal():
    scene = evacuation()
    scene.beats(2)
    blind = Plan(made_at=scene.clock.now(), is_whole=False)
    scene.beat(plan=blind)
    assert scene.command().state is CommandState.PROPOSED
    scene.approve()
    advance = scene.beat(plan=blind)
    assert scene.command().state is CommandState.APPROVED
    assert advance.refusals[0].rule == "snapshot"


def test_an_approved_move_waits_for_its_checkpoint_and_goes_right_after_it():
    due = START + timedelta(minutes=5)
    scene = room_making(checkpoint=Checkpoint(last_at=due - timedelta(hours=2), interval_seconds=7200.0))
    scene.beat()
    assert scene.command().recommendation.not_before == due
    scene.approve()
    advance = scene.beat()
    assert [one.sentence for one in advance.refusals] == ["R1 waits for a checkpoint until 09:05 UTC."]
    scene.clock.advance(120)
    scene.beat()
    assert scene.command().state is CommandState.APPROVED
    for name in "ab":  # it comes a little early
        job = scene.scheduler.jobs[f"research/{name}"]
        scene.scheduler.put(replace(job, checkpoint=Checkpoint(last_at=scene.clock.now(), interval_seconds=7200.0)))
    scene.beat()
    assert scene.command().state is HELD


def test_a_checkpoint_that_never_comes_is_not_waited_for_for_ever():
    due = START + timedelta(minutes=5)
    scene = room_making(checkpoint=Checkpoint(last_at=due - timedelta(hours=2), interval_seconds=7200.0))
    scene.beat()
    scene.approve()
    scene.beat(seconds=300)
    assert scene.command().state is CommandState.APPROVED
    scene.beat(seconds=310)
    assert scene.command().state is HELD


# --- dry run


def test_a_dry_run_goes_all_the_way_writes_nothing_and_claims_nothing():
    scene = evacuation(settings=IssueSettings(mode=Mode.ACT, is_dry_run=True))
    before = scene.scheduler.snapshot()
    scene.beats(8)
    assert (scene.command().state, scene.command().reason) == (SETTLED, "dry run: nothing was written")
    assert scene.ledger.results == {}
    assert scene.scheduler.calls == []
    assert scene.scheduler.snapshot().nodes == before.nodes
    assert list(scene.ledger.stored) == [1]


def test_a_plan_made_before_the_cluster_changed_begins_nothing():
    scene = evacuation()
    scene.beat()
    scene.approve()
    old = scene.planner.propose(scene.scheduler.snapshot(), scene.findings, scene.budget)
    scene.scheduler.nodes["gpu-22"] = replace(scene.scheduler.nodes["gpu-22"], is_ready=False)
    advance = scene.issuer.advance(old, scene.scheduler.snapshot())
    assert scene.command().state is CommandState.APPROVED
    assert [one.sentence for one in advance.refusals] == ["gpu-22 takes no new work any more."]
    assert scene.scheduler.calls == []


@pytest.mark.parametrize("beats", range(1, 6))
def test_a_dry_run_switched_on_in_the_middle_leaves_nothing_half_done(beats):
    scene = evacuation()
    scene.beat()
    scene.approve()
    scene.beats(beats)
    assert scene.scheduler.calls != []
    scene.restart(IssueSettings(mode=Mode.APPROVE, is_dry_run=True))
    scene.beats(12)
    assert scene.command().state is SETTLED
    assert scene.ledger.results[1].is_good
    assert scene.scheduler.snapshot().workloads[0].is_running
    assert scene.scheduler.held() == [f"{scene.mark} cordons gpu-02"]


def test_what_began_dry_is_never_written_after_the_dry_run_is_switched_off():
    scene = evacuation(settings=IssueSettings(mode=Mode.ACT, is_dry_run=True))
    scene.beats(3)
    assert scene.command().state.is_begun
    scene.restart(IssueSettings(mode=Mode.APPROVE))
    scene.beats(8)
    assert (scene.command().state, scene.command().reason) == (SETTLED, "dry run: nothing was written")
    assert scene.scheduler.calls == []
