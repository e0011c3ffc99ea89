"""Commands that nobody takes, crashes at every write, and what is given back from the middle of a move."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.schedulers.volcano_hall import (
    EVICTED_RESTARTS,
    Hall,
    abandoned,
    one_pod_away,
    refusal_of,
    settled,
    vcjob,
    whole_away,
)

from trimtab.errors import SchedulerBusy, SchedulerRefused, SchedulerUnavailable
from trimtab.model.command import Command

# --- Commands


def test_a_command_that_nobody_takes_is_withdrawn_and_never_fires_later() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    hall.world.stop("controller")
    hall.adapter.submit(command)
    assert len(hall.kube.all("commands.bus.volcano.sh")) == 1
    hall.advance(5)
    hall.adapter.submit(command)
    hall.advance(6)
    with pytest.raises(SchedulerRefused, match="did not take RestartJob for team-a/train within 10 s: withdrawn"):
        hall.adapter.submit(command)
    hall.adapter.release(abandoned(command))
    assert hall.ours() == []
    hall.world.start("controller")
    hall.advance(20)
    assert hall.status() == ("Running", 0)


def test_a_command_whose_answer_is_lost_is_not_posted_again() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, after = whole_away(hall, workload, cordons=[])
    hall.kube.fail(SchedulerUnavailable("gone"), "POST /apis/bus.volcano.sh", is_after=True)
    hall.carry_out(command, lambda: hall.nodes_of() == after)
    assert hall.said == ["gone"]
    assert hall.status() == ("Running", 1)


def test_a_command_that_never_arrived_is_posted_again_after_a_while() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, after = whole_away(hall, workload, cordons=[])
    hall.kube.fail(SchedulerUnavailable("gone"), "POST /apis/bus.volcano.sh")
    hall.carry_out(command, lambda: hall.nodes_of() == after)
    assert hall.status() == ("Running", 1)


def test_a_restart_by_somebody_else_meanwhile_takes_the_place_of_ours() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    hall.world.stop("controller")
    hall.adapter.submit(command)
    ours = hall.kube.all("commands.bus.volcano.sh")[0]["metadata"]["name"]
    path = "/apis/batch.volcano.sh/v1alpha1/namespaces/team-a/jobs/train"
    hall.kube.edit(path, {"status": {"retryCount": 1, "state": {"phase": "Restarting"}}})
    hall.adapter.submit(command)
    assert ours not in [one["metadata"]["name"] for one in hall.kube.all("commands.bus.volcano.sh")]


def test_dead_parts_are_noticed_and_said() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.run(vcjob("waits", pods=1, gpus=1), seconds=0)
    hall.world.stop("scheduler")
    hall.advance(1)
    hall.kube.add(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "late",
                "namespace": "team-a",
                "labels": {},
                "annotations": {"scheduling.k8s.io/group-name": "g"},
                "creationTimestamp": hall.world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            "spec": {"schedulerName": "volcano", "containers": []},
            "status": {"phase": "Pending"},
        }
    )
    hall.advance(20)
    sentence = refusal_of(hall, command.recommendation.moves[0])
    assert "Volcano's scheduler seems to be down: it has said nothing of pod team-a/" in sentence


def test_an_old_lease_of_volcanos_keeps_everything_running() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    renewed = hall.world.clock.now().strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    hall.kube.add(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "vc-controller-manager", "namespace": "volcano-system"},
            "spec": {"holderIdentity": "a", "renewTime": renewed, "leaseDurationSeconds": 15},
        }
    )
    hall.advance(70)
    with pytest.raises(SchedulerBusy, match="controller-manager seems to be down: its Lease was renewed 7"):
        hall.adapter.submit(command)
    assert hall.job()["spec"]["minAvailable"] == 4


# --- crash anywhere


def test_a_crash_before_or_after_any_write_restarts_once_and_loses_nothing() -> None:
    """Every write of a gang's move by one Command, killed before it and after it, then begun anew."""
    assert _crash_everywhere([EVICTED_RESTARTS], retries=1) >= 30


def test_a_crash_before_or_after_any_write_brings_a_job_at_zero_back() -> None:
    assert _crash_everywhere([], retries=0) >= 30


def test_a_crash_before_or_after_any_write_replaces_a_pod_once() -> None:
    assert _crash_everywhere([], retries=0, racks=1) >= 12


class _Killed(BaseException):
    pass


def _crash_everywhere(policies: list[dict[str, Any]], *, retries: int, racks: int = 2) -> int:
    """In how many points it was killed; with one rack a single pod moves, with two the whole gang."""
    points = 0
    while True:
        hall = Hall(racks=racks)
        workload = hall.run(vcjob("train", policies=policies))
        if racks == 1:
            command, after, _ = one_pod_away(hall, workload)
        else:
            command, after = whole_away(hall, workload, cordons=[hall.nodes_of()["train-worker-0"]])
        if not _carry_out_killed_at(hall, command, after, points):
            return points
        assert (points, hall.status(), hall.most_retries) == (points, ("Running", retries), retries)
        assert len(hall.ours()) == 1
        points += 1


def _carry_out_killed_at(hall: Hall, command: Command, after: dict[str, str], kill_at: int) -> bool:
    """Whether there was such a point. What is killed is called again, as the daemon does after its start."""
    seen = 0

    def at_point(text: str) -> None:
        nonlocal seen
        if hall.is_ours:
            seen += 1
            if seen - 1 == kill_at:
                raise _Killed(text)

    hall.kube.at_point = at_point
    hall.do(lambda: hall.adapter.hold(command), _Killed)
    for _ in range(30):
        if hall.nodes_of() == after:
            break
        hall.do(lambda: hall.adapter.submit(command), _Killed)
        hall.advance(5)
    assert hall.nodes_of() == after
    hall.do(lambda: hall.adapter.release(settled(command)), _Killed)
    return seen > kill_at


# --- give back


@pytest.mark.parametrize("policies", [[], [EVICTED_RESTARTS]])
@pytest.mark.parametrize("beats", [0, 1, 2, 3])
def test_released_in_the_middle_the_job_runs_again_and_nothing_of_ours_is_left(policies: list[Any], beats: int) -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=policies))
    spec = hall.job()["spec"]
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    for _ in range(beats):
        hall.beat(command, 1.0)
    hall.adapter.release(abandoned(command))
    hall.advance(20)
    hall.adapter.release(abandoned(command))
    assert hall.ours() == []
    assert hall.job()["spec"] == spec
    assert hall.status()[0] == "Running"
    assert len(hall.nodes_of()) == 4


@pytest.mark.parametrize("policies", [[], [EVICTED_RESTARTS]])
def test_whoever_knows_only_the_mark_gives_everything_back(policies: list[Any]) -> None:
    """As for a command that the ledger does not know: no writes, no moves, the mark alone."""
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=policies))
    spec = hall.job()["spec"]
    command, _ = whole_away(hall, workload, cordons=[hall.nodes_of()["train-worker-0"]])
    hall.adapter.hold(command)
    hall.beat(command, 1.0)
    stray = replace(abandoned(command), recommendation=replace(command.recommendation, moves=(), writes=()))
    hall.adapter.release(stray)
    hall.advance(20)
    assert hall.ours() == []
    assert (hall.job()["spec"], hall.status()[0], len(hall.nodes_of())) == (spec, "Running", 4)


def test_what_a_person_scaled_meanwhile_is_left_as_it_is() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    hall.beat(command, 1.0)
    path = "/apis/batch.volcano.sh/v1alpha1/namespaces/team-a/jobs/train"
    tasks = hall.job()["spec"]["tasks"]
    hall.kube.edit(path, {"spec": {"minAvailable": 2, "tasks": [{**tasks[0], "replicas": 2, "minAvailable": 2}]}})
    with pytest.raises(SchedulerRefused, match="Somebody scaled team-a/train while it was stopped"):
        hall.adapter.submit(command)
    hall.adapter.release(abandoned(command))
    assert hall.job()["spec"]["tasks"][0]["replicas"] == 2
    assert hall.ours() == []


def test_a_job_that_was_only_stopped_by_abort_is_resumed_on_release() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, _ = whole_away(hall, workload, cordons=[])
    stop = [write for write in command.recommendation.writes if write.verb.value != "resume"]
    command = replace(command, recommendation=replace(command.recommendation, writes=tuple(stop)))
    hall.adapter.hold(command)
    hall.beat(command)
    assert hall.status() == ("Aborted", 0)
    for _ in range(5):
        hall.adapter.release(abandoned(command))
        hall.advance(5)
    assert hall.status() == ("Running", 1)
    assert hall.ours() == []


def test_a_taint_that_a_person_took_off_is_a_veto() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, after = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    hall.kube.edit(f"/api/v1/nodes/{after['train-worker-0']}", {"spec": {"taints": None}}, by="kubectl")
    with pytest.raises(SchedulerRefused, match="a veto"):
        hall.adapter.submit(command)
    assert hall.status() == ("Running", 0)


def test_a_node_keeps_seats_for_one_command_at_a_time() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    with pytest.raises(SchedulerBusy, match="is kept by 3fa9c1-R11 already"):
        hall.adapter.hold(replace(command, id=12))
