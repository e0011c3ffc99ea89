from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import a_workload
from tests.issue.scenes import evacuation, room_making, to

from trimtab.errors import SchedulerRefused, SchedulerUnavailable
from trimtab.issue import decisions
from trimtab.model.cluster import Reservation, WorkloadState
from trimtab.model.command import CommandState, Mode
from trimtab.settings import IssueSettings

HELD = CommandState.HELD
SUBMITTED = CommandState.SUBMITTED
SETTLED = CommandState.SETTLED


# --- what goes wrong on the way


def test_a_seat_taken_by_somebody_else_is_a_miss_and_everything_is_given_back():
    scene = evacuation()
    to(scene, HELD)
    scene.scheduler.nodes["gpu-22"] = replace(scene.scheduler.nodes["gpu-22"], is_ready=False)
    scene.beat()
    assert scene.command().state is CommandState.MISSED
    assert scene.command().reason == "gpu-22 takes no new work any more."
    assert scene.scheduler.held() == []
    assert scene.scheduler.jobs["research/llama-70b"].state is WorkloadState.RUNNING


def test_a_job_that_ended_by_itself_ends_the_command():
    scene = room_making()
    to(scene, HELD)
    del scene.scheduler.jobs["research/a"]
    scene.beat()
    assert (scene.command().state, scene.command().reason) == (CommandState.ABANDONED, "research/a is gone.")
    assert scene.scheduler.held() == []


def test_a_scheduler_out_of_reach_is_tried_again_and_said():
    scene = evacuation()
    scene.beat()
    scene.approve()
    scene.scheduler.next_hold_error = SchedulerUnavailable("no answer in 10 s")
    advance = scene.beat()
    assert scene.command().state is HELD
    assert [one.sentence for one in advance.refusals] == ["R1 waits to hold: no answer in 10 s"]
    scene.beats(2)
    assert scene.command().state is CommandState.CONFIRMED
    scene.scheduler.next_submit_error = SchedulerUnavailable("no answer in 10 s")
    scene.beats(5)
    assert scene.command().state is SETTLED


def test_a_scheduler_that_refuses_to_hold_ends_the_command_and_keeps_nothing():
    scene = evacuation()
    scene.beat()
    scene.approve()
    scene.scheduler.next_hold_error = SchedulerRefused("not on a Sunday")
    scene.beat()
    assert (scene.command().state, scene.command().reason) == (CommandState.REFUSED, "not on a Sunday")
    assert scene.scheduler.held() == []
    scene.beat()
    assert len(scene.ledger.stored) == 1, "not tried again at once"
    scene.beat(seconds=301)
    assert scene.command(2).state is CommandState.PROPOSED


def test_a_scheduler_that_refuses_half_way_restarts_what_it_had_stopped():
    scene = room_making()
    to(scene, CommandState.CONFIRMED)
    scene.scheduler.put(replace(scene.scheduler.jobs["research/b"], state=WorkloadState.STOPPING))
    scene.scheduler.jobs["research/b"] = replace(scene.scheduler.jobs["research/b"], state=WorkloadState.RUNNING)
    scene.scheduler.next_submit_error = SchedulerRefused("no more stops today")
    scene.beat()
    assert scene.command().state is CommandState.REFUSED
    scene.beats(3)
    assert scene.scheduler.held() == []
    assert all(scene.scheduler.jobs[f"research/{name}"].state is WorkloadState.RUNNING for name in "ab")


def test_an_adapters_refusal_ends_an_approved_command():
    scene = evacuation()
    scene.beat()
    scene.approve()
    scene.scheduler.refuses = "it would be the second excluded node"
    scene.beat()
    assert scene.command().state is CommandState.REFUSED
    assert scene.scheduler.calls == []


def test_what_never_settles_is_given_back_and_its_jobs_start_again():
    scene = evacuation(settings=IssueSettings(mode=Mode.APPROVE, settle_seconds_max=60))
    to(scene, SUBMITTED)
    scene.scheduler.is_stuck = True
    scene.beats(7)
    assert scene.command().state is CommandState.ABANDONED
    assert scene.scheduler.held() == []
    assert not scene.ledger.results[1].is_good
    scene.scheduler.is_stuck = False
    scene.scheduler.tick()
    assert scene.scheduler.jobs["research/llama-70b"].state is WorkloadState.RUNNING


def test_a_hold_that_nobody_sees_is_given_back_in_time():
    scene = evacuation(settings=IssueSettings(mode=Mode.APPROVE, hold_seconds_max=60))
    to(scene, HELD)
    for _ in range(8):
        scene.scheduler.next_hold_error = SchedulerUnavailable("no answer")
        scene.scheduler.reservations.clear()
        scene.beat()
    assert scene.command().state is CommandState.ABANDONED
    assert scene.scheduler.held() == []


def test_a_release_that_fails_is_made_up_for_in_the_next_beat():
    scene = room_making()
    to(scene, SUBMITTED)
    scene.ledger.stored[1] = replace(scene.command(), undo_requested_by="mei")
    scene.scheduler.next_release_error = SchedulerUnavailable("no answer")
    scene.scheduler.is_stuck = True
    scene.beat()
    assert scene.command().state is CommandState.UNDONE
    assert scene.scheduler.held() != []
    scene.beat()
    assert scene.scheduler.held() == []
    assert any(line.what == "released" and line.command_id == 1 for line in scene.ledger.lines)


# --- undo and what is left behind


def test_undo_of_a_begun_command_starts_the_jobs_again_and_opens_the_node():
    scene = evacuation()
    to(scene, SUBMITTED)
    decisions.undo(scene.ledger, 1, reason="wrong node", who="mei", now=scene.clock.now())
    scene.beat()
    command = scene.command()
    assert (command.state, command.reason) == (CommandState.UNDONE, "undone for mei: wrong node")
    assert scene.scheduler.held() == []
    scene.scheduler.tick()
    assert scene.scheduler.jobs["research/llama-70b"].state is WorkloadState.RUNNING


def test_undo_of_a_settled_command_opens_the_node_that_we_cordoned():
    scene = evacuation()
    to(scene, SETTLED)
    decisions.undo(scene.ledger, 1, reason="repaired", who="mei", now=scene.clock.now())
    scene.beat()
    assert scene.command().state is CommandState.UNDONE
    assert scene.scheduler.held() == []
    assert not scene.scheduler.nodes["gpu-02"].is_cordoned


def test_undo_never_opens_a_persons_cordon():
    scene = evacuation()
    to(scene, SETTLED)
    scene.scheduler.cordon("gpu-02", by="sofia")
    decisions.undo(scene.ledger, 1, reason="", who="mei", now=scene.clock.now())
    scene.beats(2)
    assert scene.scheduler.nodes["gpu-02"].cordoned_by == "sofia"


def test_a_persons_uncordon_is_a_veto_counted_against_the_rule():
    scene = evacuation()
    to(scene, SETTLED)
    scene.scheduler.uncordon("gpu-02")
    scene.beats(3)
    assert scene.command().state is CommandState.UNDONE
    assert "somebody uncordoned gpu-02" in scene.command().reason
    assert not scene.ledger.results[1].is_good
    assert list(scene.ledger.stored) == [1], "nobody cordons it again at once"
    assert not scene.scheduler.nodes["gpu-02"].is_cordoned


def test_marks_of_a_command_that_nobody_knows_are_given_back():
    scene = room_making()
    scene.scheduler.reservations.append(
        Reservation(node="gpu-04", gpus=1, workload="research/x", command=f"trimtab:{scene.ledger.ledger}:R77")
    )
    scene.scheduler.cordon("gpu-05", by=f"trimtab:{scene.ledger.ledger}:R78")
    scene.scheduler.put(
        replace(
            a_workload("z", state=WorkloadState.SUSPENDED),
            suspended_by=f"trimtab:{scene.ledger.ledger}:R79",
            waiting_reason=None,
        )
    )
    advance = scene.beat()
    assert scene.scheduler.held() == []
    assert scene.scheduler.jobs["research/z"].state is WorkloadState.WAITING
    assert f"trimtab:{scene.ledger.ledger}:R77 is unknown to this ledger" in advance.sentence


def test_a_mark_that_cannot_be_given_back_yet_is_audited_once():
    scene = room_making()
    scene.scheduler.cordon("gpu-05", by=f"trimtab:{scene.ledger.ledger}:R78")
    for _ in range(3):
        scene.scheduler.next_release_error = SchedulerUnavailable("no answer in 10 s")
        scene.beat()
    assert [line.what for line in scene.ledger.lines].count("released") == 1
    scene.beat()
    assert scene.scheduler.held() == []


def test_a_dry_run_gives_nothing_back_and_does_not_say_so():
    scene = room_making(settings=IssueSettings(mode=Mode.APPROVE, is_dry_run=True))
    scene.scheduler.cordon("gpu-05", by=f"trimtab:{scene.ledger.ledger}:R78")
    advance = scene.beat()
    assert scene.scheduler.nodes["gpu-05"].is_cordoned
    assert "given back" not in advance.sentence
    assert "released" not in [line.what for line in scene.ledger.lines]


def test_marks_of_others_are_left_alone():
    scene = room_making()
    scene.scheduler.cordon("gpu-05", by="sofia")
    scene.scheduler.reservations.append(Reservation(node="gpu-04", gpus=1, workload="x", command="karpenter"))
    scene.beat()
    assert scene.scheduler.nodes["gpu-05"].cordoned_by == "sofia"
    assert len(scene.scheduler.reservations) == 1


@pytest.mark.parametrize("error", [KeyError("uid"), ValueError("not a number"), TypeError("None"), IndexError("0")])
def test_an_adapter_that_stumbles_over_an_object_ends_its_command_and_not_the_beat(error: Exception):
    scene = evacuation()
    to(scene, HELD)
    scene.beat()
    scene.scheduler.next_submit_error = error
    scene.beat()
    assert scene.command().state is CommandState.REFUSED
    assert type(error).__name__ in scene.command().reason
    assert scene.scheduler.held() == []


def test_a_release_that_stumbles_is_tried_again():
    scene = evacuation()
    to(scene, HELD)
    scene.scheduler.next_submit_error = SchedulerRefused("no")
    scene.scheduler.next_release_error = KeyError("uid")
    scene.beats(5)
    assert scene.command().state is CommandState.REFUSED
    assert scene.scheduler.held() == []
