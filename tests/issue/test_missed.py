"""Somebody else took the seat: when a command has missed, what stays, and how its rule backs off."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import a_workload, gpu_uuid
from tests.issue.scenes import evacuation, relocation, room_making, to

from trimtab.issue import decisions
from trimtab.issue.arrival import is_settled, seats_hit, why_missed
from trimtab.issue.policy import backs_off_until
from trimtab.model.cluster import Placement, WorkloadState
from trimtab.model.command import CommandState, Mode, Verb, Write
from trimtab.settings import IssueSettings

ACT = IssueSettings(mode=Mode.ACT)
SUBMITTED = CommandState.SUBMITTED
MISSED = CommandState.MISSED


def sit(scene, name, node, gpus, **changes):
    """A job of ours that the scheduler has put elsewhere than planned, anew."""
    job = scene.scheduler.jobs[f"research/{name}"]
    place = Placement(pod=f"{name}-0", rank=0, node=node, gpus=tuple(gpu_uuid(node, gpu) for gpu in gpus))
    job = replace(job, state=WorkloadState.RUNNING, placements=(place,), started_at=scene.clock.now(), **changes)
    scene.scheduler.put(replace(job, suspended_by=None))
    scene.scheduler.given.pop(job.id, None)


def thief(scene, node, gpus):
    """Somebody's job that takes a seat."""
    scene.scheduler.put(a_workload("thief", on={node: gpus}, is_preemptible=False))


def test_a_stolen_seat_of_what_waits_is_a_miss_at_once_and_the_jobs_go_on():
    scene = room_making()
    to(scene, SUBMITTED)
    scene.scheduler.is_stuck = True
    scene.scheduler.tick()  # a and b stop
    thief(scene, "gpu-03", range(8))
    scene.beat()
    command = scene.command()
    assert (command.state, command.reason) == (
        MISSED,
        "a and b and eval-9 wait: 8 GPUs are needed on gpu-03 and 0 are left: somebody else took the seat.",
    )
    scene.scheduler.is_stuck = False
    scene.scheduler.tick()
    assert scene.scheduler.held() == []
    assert all(scene.scheduler.jobs[f"research/{one}"].state is WorkloadState.RUNNING for one in "ab")
    outcome = scene.ledger.results[1]
    assert (outcome.is_good, outcome.gpus_unlocked, outcome.seats_planned) == (False, 0, 3)
    assert outcome.gpu_hours_saved < 0


def test_a_victim_that_comes_back_where_it_was_is_a_miss():
    scene = room_making()
    to(scene, SUBMITTED)
    sit(scene, "a", "gpu-03", [0])
    assert why_missed(scene.command(), scene.scheduler.snapshot()) == ("a runs again on a node that it was to leave.")


def test_at_rest_elsewhere_is_a_miss_even_if_room_was_made_and_its_gain_is_kept():
    scene = room_making()
    command = to(scene, SUBMITTED)
    planned = {move.workload: move.after[0].node for move in command.recommendation.moves}
    other = {"gpu-04": "gpu-05", "gpu-05": "gpu-04"}[planned["research/a"]]
    sit(scene, "a", other, [7])
    sit(scene, "b", "gpu-05", [6])
    scene.scheduler.jobs["research/eval-9"] = replace(
        scene.scheduler.jobs["research/eval-9"], state=WorkloadState.WAITING
    )
    scene.beats(3)
    done = scene.command()
    assert done.state is MISSED
    assert "elsewhere than planned" in done.reason
    outcome = scene.ledger.results[1]
    assert (outcome.is_good, outcome.gpus_unlocked) == (False, 8)
    assert outcome.gpu_hours_saved > 0
    assert outcome.seats_hit < outcome.seats_planned
    assert "was reached all the same" in outcome.sentence


def test_a_drain_that_landed_elsewhere_and_runs_has_settled():
    scene = evacuation()
    to(scene, SUBMITTED)
    gang = scene.scheduler.jobs["research/llama-70b"]
    places = tuple(
        replace(one, node="gpu-30", gpus=tuple(gpu_uuid("gpu-30", n) for n in range(8)))
        if one.node == "gpu-02"
        else one
        for one in gang.placements or scene.snapshot.workloads[0].placements
    )
    scene.scheduler.nodes["gpu-30"] = replace(scene.scheduler.nodes["gpu-00"], name="gpu-30")
    scene.scheduler.put(replace(gang, state=WorkloadState.RUNNING, placements=places, started_at=scene.clock.now()))
    assert is_settled(scene.command(), scene.scheduler.snapshot())
    scene.beat()
    outcome = scene.ledger.results[1]
    assert scene.command().state is CommandState.SETTLED
    assert (outcome.is_good, outcome.seats_planned, outcome.seats_hit) == (True, 4, 3)
    assert "llama-70b runs elsewhere than planned" in outcome.sentence


def test_a_drain_whose_seat_was_stolen_keeps_the_bad_node_out_and_gives_all_else_back():
    scene = evacuation()
    to(scene, SUBMITTED)
    scene.scheduler.is_stuck = True
    scene.scheduler.tick(20)
    thief(scene, "gpu-22", range(8))
    scene.beat()
    command = scene.command()
    assert (command.state, command.is_holding) == (MISSED, True)
    assert scene.scheduler.held() == [f"{scene.mark} cordons gpu-02"]
    scene.beats(2)
    assert scene.scheduler.nodes["gpu-02"].is_cordoned, "the fault is still there"
    decisions.undo(scene.ledger, 1, reason="repaired", who="mei", now=scene.clock.now())
    scene.beat()
    assert scene.command().state is CommandState.UNDONE
    assert scene.scheduler.held() == []


def test_a_relocation_that_landed_elsewhere_has_missed_and_keeps_the_bad_node_out():
    scene = relocation()
    to(scene, SUBMITTED)
    gang = scene.scheduler.jobs["research/vision-3"]
    scene.scheduler.nodes["gpu-30"] = replace(scene.scheduler.nodes["gpu-00"], name="gpu-30")
    places = tuple(
        replace(one, node="gpu-30") if one.node == "gpu-02" else one for one in scene.snapshot.workloads[0].placements
    )
    scene.scheduler.put(replace(gang, state=WorkloadState.RUNNING, placements=places, started_at=scene.clock.now()))
    scene.beat()
    assert (scene.command().state, scene.command().reason) == (MISSED, "vision-3 runs elsewhere than planned.")
    assert scene.scheduler.held() == [f"{scene.mark} cordons gpu-02"]


def test_what_room_was_made_for_and_never_started_is_a_miss_in_the_end():
    scene = room_making(settings=IssueSettings(mode=Mode.APPROVE, settle_seconds_max=60))
    command = to(scene, SUBMITTED)
    for move in command.recommendation.moves:
        if move.before:
            name = (move.workload or "").split("/")[1]
            sit(scene, name, move.after[0].node, [7] if name == "a" else [6])
    scene.scheduler.is_stuck = True
    scene.beats(8)
    done = scene.command()
    assert (done.state, done.reason) == (MISSED, "eval-9 did not start in the room that was made.")


def test_one_replaced_pod_has_arrived_when_the_gang_is_whole_off_the_node():
    scene = evacuation()
    command = to(scene, SUBMITTED)
    move = replace(command.recommendation.moves[0], replaced=("llama-70b-2",))
    command = replace(command, recommendation=replace(command.recommendation, moves=(move,)))
    gang = scene.snapshot.workloads[0]
    before = replace(scene.scheduler.snapshot(), workloads=(gang,))
    assert not is_settled(command, before)
    places = tuple(
        replace(one, pod="llama-70b-2-x7", node="gpu-22") if one.pod == "llama-70b-2" else one
        for one in gang.placements
    )
    assert is_settled(command, replace(before, workloads=(replace(gang, placements=places),)))
    assert seats_hit(move, replace(before, workloads=(replace(gang, placements=places),))) == 4
    short = tuple(one for one in places if one.node != "gpu-22")
    assert not is_settled(command, replace(before, workloads=(replace(gang, placements=short),)))


# --- back-off


def miss(scene):
    """Let the next command of the scene miss before its stop, as often as it is asked."""
    number = max(scene.ledger.stored, default=0) + 1
    for _ in range(2000):
        if scene.ledger.command(number) is not None:
            break
        scene.beat(seconds=5)
    scene.beats(2)
    assert scene.command(number).state is CommandState.HELD
    node = scene.scheduler.nodes["gpu-22"]
    scene.scheduler.nodes["gpu-22"] = replace(node, is_ready=False)
    scene.beat(seconds=1)
    assert scene.command(number).state is MISSED
    scene.scheduler.nodes["gpu-22"] = node
    return scene.command(number)


def test_a_rules_pause_doubles_with_each_miss_in_a_row_and_is_said():
    scene = evacuation(settings=IssueSettings(mode=Mode.ACT, missed_quiet_seconds_max=200))
    first = miss(scene)
    ends, pauses = first.changed_at, []
    for _ in range(4):
        advance = scene.beat(seconds=1)
        assert [one.rule for one in advance.refusals] == ["missed"]
        following = miss(scene)
        began = next(line.at for line in scene.ledger.lines if line.what == f"{following.name} proposed")
        pauses.append((began - ends).total_seconds())
        ends = following.changed_at
    assert [seconds // 30 * 30 for seconds in pauses] == [30, 60, 120, 180]


def test_a_command_that_settles_ends_the_row():
    scene = evacuation(settings=ACT)
    for _ in range(3):
        miss(scene)
    number = len(scene.ledger.stored) + 1
    scene.beat(seconds=200)
    scene.beats(8)
    assert scene.command(number).state is CommandState.SETTLED
    over = tuple(scene.ledger.stored.values())
    advice = scene.command(number).recommendation
    assert backs_off_until(advice, over, ACT, scene.clock.now()) is None


def test_a_cordon_alone_is_never_kept_back():
    scene = evacuation(settings=ACT)
    missed = miss(scene)
    alone = replace(missed.recommendation, moves=())
    assert backs_off_until(missed.recommendation, [missed], ACT, scene.clock.now()) is not None
    assert backs_off_until(alone, [missed], ACT, scene.clock.now()) is None


# --- the node that it closed is deleted


def test_a_drain_whose_node_is_deleted_after_the_stop_settles():
    scene = evacuation(settings=ACT)
    to(scene, SUBMITTED)
    del scene.scheduler.nodes["gpu-02"]
    scene.beats(6)
    assert scene.command().state is CommandState.SETTLED, scene.command().reason
    assert "gpu-22" in scene.scheduler.jobs["research/llama-70b"].nodes
    assert scene.ledger.holding() == (), "given back with its node"


@pytest.mark.parametrize("verb", [Verb.CORDON, Verb.TAINT_DEVICE])
def test_what_is_to_stay_on_a_node_counts_as_done_once_the_node_is_gone(verb):
    scene = evacuation(settings=ACT)
    command = to(scene, SUBMITTED)
    write = Write(verb=verb, node="gpu-00", gpu=gpu_uuid("gpu-00", 0), lasts=True)
    command = replace(command, recommendation=replace(command.recommendation, writes=(write,), moves=()))
    snapshot = scene.scheduler.snapshot()
    assert not is_settled(command, snapshot), "the node is there and open"
    gone = replace(snapshot, nodes=tuple(node for node in snapshot.nodes if node.name != "gpu-00"))
    assert is_settled(command, gone)
