"""What every scheduler adapter promises; the same tests on the fake, on a dry run and on each real one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.contract.rigs import JOB, SEAT, Rig, a_command, dry_rig, fake_rig, simulated_rig

from trimtab.errors import SchedulerRefused
from trimtab.model.cluster import ClusterSnapshot, WorkloadState
from trimtab.model.command import CommandState, Move, MoveKind, Verb, Write

RIGS = {"fake": fake_rig, "simulated": simulated_rig}


@pytest.fixture(params=RIGS)
def rig(request: pytest.FixtureRequest) -> Iterator[Rig]:
    with RIGS[request.param]() as made:
        yield made


@pytest.fixture
def dry() -> Iterator[Rig]:
    with dry_rig() as made:
        yield made


def marks(snapshot: ClusterSnapshot) -> set[str]:
    """What bears a mark of ours, in words that all adapters share."""
    found = {f"{node.cordoned_by} cordons {node.name}" for node in snapshot.nodes if node.is_cordoned}
    found |= {f"{one.suspended_by} stops {one.id}" for one in snapshot.workloads if one.suspended_by}
    return found | {f"{one.command} keeps {one.gpus} of {one.node} for {one.workload}" for one in snapshot.reservations}


def state_of(rig: Rig) -> tuple[WorkloadState, tuple[str, ...]]:
    job = rig.snapshot().workload_by_id[JOB]
    return job.state, job.nodes


def test_the_snapshot_is_whole(rig):
    snapshot = rig.snapshot()
    assert (snapshot.cluster, len(snapshot.nodes)) == ("hall-a", 4)
    assert state_of(rig) == (WorkloadState.RUNNING, ("gpu-00",))
    assert sum(len(gpus) for gpus in snapshot.free_gpus.values()) == 28


def test_hold_keeps_the_room_and_stops_nothing(rig):
    rig.scheduler.hold(a_command())
    assert marks(rig.snapshot()) == {"trimtab:R11 cordons gpu-00", f"trimtab:R11 keeps 4 of gpu-01 for {JOB}"}
    assert state_of(rig) == (WorkloadState.RUNNING, ("gpu-00",))


def test_hold_twice_is_hold_once(rig):
    rig.scheduler.hold(a_command())
    once = rig.snapshot()
    rig.scheduler.hold(a_command())
    assert rig.snapshot().reservations == once.reservations
    assert marks(rig.snapshot()) == marks(once)


def test_submit_brings_the_job_to_its_seat_and_uses_the_reservation_up(rig):
    rig.scheduler.hold(a_command())
    rig.scheduler.submit(a_command(state=CommandState.SUBMITTED))
    assert state_of(rig)[0] is not WorkloadState.RUNNING
    rig.pass_time()
    assert state_of(rig) == (WorkloadState.RUNNING, ("gpu-01",))
    assert marks(rig.snapshot()) == {"trimtab:R11 cordons gpu-00"}


def test_submit_again_at_any_moment_stops_nothing_anew(rig):
    command = a_command(state=CommandState.SUBMITTED)
    rig.scheduler.hold(command)
    rig.scheduler.submit(command)
    rig.scheduler.submit(command)
    rig.pass_time()
    started_at = rig.snapshot().workload_by_id[JOB].started_at
    rig.scheduler.submit(command)
    rig.pass_time()
    assert state_of(rig) == (WorkloadState.RUNNING, ("gpu-01",))
    assert rig.snapshot().workload_by_id[JOB].started_at == started_at


def test_release_of_a_settled_command_keeps_what_lasts(rig):
    rig.scheduler.hold(a_command())
    rig.scheduler.release(a_command(state=CommandState.SETTLED))
    assert marks(rig.snapshot()) == {"trimtab:R11 cordons gpu-00"}


def test_release_in_any_other_state_gives_everything_back(rig):
    rig.scheduler.hold(a_command())
    rig.scheduler.release(a_command(state=CommandState.MISSED))
    assert marks(rig.snapshot()) == set()
    assert state_of(rig) == (WorkloadState.RUNNING, ("gpu-00",))


def test_release_half_way_starts_again_what_was_stopped(rig):
    half = a_command(Write(verb=Verb.SUSPEND, workload=JOB))
    rig.scheduler.submit(half)
    rig.pass_time()
    assert state_of(rig)[0] is WorkloadState.SUSPENDED
    assert marks(rig.snapshot()) == {f"trimtab:R11 stops {JOB}"}
    rig.scheduler.release(replace(half, state=CommandState.ABANDONED))
    rig.pass_time()
    assert state_of(rig)[0] is WorkloadState.RUNNING
    assert marks(rig.snapshot()) == set()


def test_release_while_a_job_still_stops_lets_it_start_again(rig):
    half = a_command(Write(verb=Verb.SUSPEND, workload=JOB))
    rig.scheduler.submit(half)
    rig.scheduler.release(replace(half, state=CommandState.UNDONE))
    rig.pass_time()
    assert state_of(rig)[0] is WorkloadState.RUNNING


def test_release_is_safe_where_nothing_is_held_and_twice(rig):
    before = rig.snapshot()
    for _ in range(2):
        rig.scheduler.release(a_command(state=CommandState.UNDONE))
    assert marks(rig.snapshot()) == set()
    assert rig.snapshot().workloads == before.workloads


def test_release_leaves_the_marks_of_other_commands(rig):
    rig.scheduler.hold(a_command())
    rig.scheduler.release(a_command(state=CommandState.UNDONE, id=12))
    assert len(marks(rig.snapshot())) == 2


def test_the_first_who_cordons_keeps_the_cordon(rig):
    rig.scheduler.hold(a_command(Write(verb=Verb.CORDON, node="gpu-02"), id=12))
    rig.scheduler.hold(a_command(Write(verb=Verb.CORDON, node="gpu-02"), id=11))
    rig.scheduler.release(a_command(state=CommandState.UNDONE, id=11))
    assert marks(rig.snapshot()) == {"trimtab:R12 cordons gpu-02"}


def test_after_undo_the_same_command_can_be_done_anew(rig):
    rig.scheduler.hold(a_command())
    rig.scheduler.release(a_command(state=CommandState.UNDONE))
    rig.scheduler.hold(a_command())
    assert len(marks(rig.snapshot())) == 2


def test_room_that_does_not_exist_is_refused_with_a_sentence(rig):
    too_much = a_command(Write(verb=Verb.RESERVE, workload=JOB, seats=(replace(SEAT, gpus=9),)))
    with pytest.raises(SchedulerRefused, match="gpu-01"):
        rig.scheduler.hold(too_much)
    assert marks(rig.snapshot()) == set()


def test_a_workload_that_is_gone_is_refused(rig):
    with pytest.raises(SchedulerRefused, match="research/zzz"):
        rig.scheduler.submit(a_command(Write(verb=Verb.SUSPEND, workload="research/zzz")))


def test_a_move_it_can_carry_out_is_not_refused(rig):
    (move,) = a_command().recommendation.moves
    assert rig.scheduler.refusal(move, rig.snapshot()) is None


def test_the_simulated_scheduler_refuses_what_it_does_not_know():
    with simulated_rig() as rig:
        unknown = Move(kind=MoveKind.MIGRATE, workload="research/zzz", controller="simulated")
        refusal = rig.scheduler.refusal(unknown, rig.snapshot())
        assert refusal is not None
        assert refusal.sentence == "The simulated scheduler does not know research/zzz."
        (move,) = a_command().recommendation.moves
        astray = replace(move, after=(replace(SEAT, node="gpu-99"),))
        refusal = rig.scheduler.refusal(astray, rig.snapshot())
        assert refusal is not None
        assert refusal.sentence == "The simulated scheduler has no node gpu-99."


def test_a_dry_run_writes_nothing_and_notes_what_it_would(dry):
    before = dry.snapshot()
    for _ in range(2):
        dry.scheduler.hold(a_command())
        dry.scheduler.submit(a_command())
        dry.scheduler.release(a_command(state=CommandState.SETTLED))
    assert dry.snapshot() == before
    assert [(one.what, one.mark) for one in dry.scheduler.noted] == [
        ("hold", "trimtab:R11"),
        ("submit", "trimtab:R11"),
        ("release", "trimtab:R11"),
    ]
    assert dry.scheduler.noted[0].writes == (
        "cordon gpu-00",
        f"reserve {JOB}: 4 GPUs on gpu-01 for a-0",
    )
