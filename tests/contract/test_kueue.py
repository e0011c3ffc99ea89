"""One contract for Kueue's stand-in and the real Kueue: the same calls, the same order and reasons as recorded."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.cluster import objects
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.contract.kueue_stage import IN_A_RACK, Real, Stage, StandIn, recorded, same_order, without

from trimtab.schedulers.connect import connect
from trimtab.settings import KubernetesSettings

Make = Callable[..., Stage]
INADMISSIBLE = "QuotaReserved=False/Inadmissible"
"""Kueue does not always come to say so of one who waits in a stopped queue."""
ROOM = {"gpus": 96, "racks": 3, "per_rack": 4}


@pytest.fixture(params=["stand-in", "real"])
def make(request: pytest.FixtureRequest) -> Iterator[Make]:
    """Makes a stage: racks of nodes and a queue `q` by topology."""
    if request.param == "stand-in":
        yield lambda **options: Stage(StandIn(**{**ROOM, **options}))
        return
    plane: Plane = request.getfixturevalue("plane")
    space: Space = request.getfixturevalue("space")
    api = connect(KubernetesSettings(kubeconfig=str(plane.admin_kubeconfig)))

    def real(**options: Any) -> Stage:
        return Stage(Real(api, plane.client, space, **{**ROOM, **options}))

    yield real
    api.close()


def check(stage: Stage, recording: str, *jobs: str) -> None:
    for job in jobs:
        wrong = same_order(recorded(recording, job), stage.lines(job))
        assert wrong is None, f"{recording}, {job}: {wrong}"


def stop(stage: Stage, job: str) -> None:
    """Deactivate and wait until it has stopped fully."""
    stage.active(job, is_active=False)
    stage.plane.until(
        stage.says(job, "Evicted=True/Deactivated", "QuotaReserved=False/Pending", "Requeued=False/Deactivated"),
        f"{job} stopped",
    )
    stage.plane.until(lambda: not stage.pods(job), f"no pod of {job} left")


def test_a_gang_that_is_deactivated_and_reactivated_comes_back_off_the_node(make: Make) -> None:
    stage = make()
    stage.run("train", topology=IN_A_RACK)
    stage.cordon(0)
    stop(stage, "train")
    stage.active("train", is_active=True)
    stage.plane.until(stage.runs("train", 2), "running again")
    check(stage, "A-deactivate-reactivate", "train")
    assert stage.plane.nodes[0] not in {pod["spec"]["nodeName"] for pod in stage.pods("train")}


def test_flipped_back_at_once_nothing_moves_and_nothing_says_so(make: Make) -> None:
    stage = make()
    stage.run("train", topology=IN_A_RACK)
    before = {pod["metadata"]["uid"] for pod in stage.pods("train")}
    stage.active("train", is_active=False)
    stage.active("train", is_active=True)
    stage.plane.rest()
    told = stage.lines("train")
    if isinstance(stage.plane, StandIn) or same_order(recorded("A2-flip-too-early-0ms", "train"), told) is None:
        check(stage, "A2-flip-too-early-0ms", "train")
        assert {pod["metadata"]["uid"] for pod in stage.pods("train")} == before
    else:  # the real one was quicker than we: then it moves, whole
        stage.plane.until(stage.runs("train", 2), "running again")
        quick, slow = recorded("A2-flip-too-early-50ms", "train"), recorded("A2-flip-too-early-500ms", "train")
        told = stage.lines("train")
        assert same_order(quick, told) is None or same_order(slow, told) is None, told


def test_an_evicted_pod_is_replaced_and_the_other_runs_on(make: Make) -> None:
    stage = make()
    stage.run("train", topology=IN_A_RACK, can_replace_pods=True)
    stays = {pod["metadata"]["uid"] for pod in stage.pods("train") if pod["spec"]["nodeName"] == stage.plane.nodes[1]}
    stage.cordon(0)
    stage.plane.rest()
    stage.evict("train", 0)
    stage.plane.until(lambda: stage.plane.nodes[0] not in _hosts(stage, "train", 2), "replaced")
    check(stage, "C1-hot-swap", "train")
    assert stays <= {pod["metadata"]["uid"] for pod in stage.pods("train")}


def test_two_nodes_cordoned_under_a_gang_cost_the_whole_gang(make: Make) -> None:
    stage = make()
    stage.run("train", topology=IN_A_RACK, can_replace_pods=True)
    stage.cordon(0, 1)
    stage.plane.rest()
    stage.evict("train", 0)
    stage.plane.until(stage.says("train", "Evicted=False/QuotaReserved"), "placed anew")
    stage.plane.until(stage.runs("train", 2), "running again")
    check(stage, "C2-two-nodes-cordoned", "train")


def test_without_room_the_whole_gang_waits(make: Make) -> None:
    stage = make(racks=1)
    stage.run("train", topology=IN_A_RACK, can_replace_pods=True)
    stage.cordon(0, 2, 3)
    stage.plane.rest()
    stage.evict("train", 0)
    stage.plane.until(stage.says("train", "Requeued=True/NodeFailures"), "thrown out")
    stage.plane.until(lambda: "allows to fit only 1 out of 2" in str(stage.workload("train")), "says why it waits")
    stage.cordon(0, 2, 3, is_open=True)
    stage.plane.until(stage.runs("train", 2), "running again")
    check(stage, "C3-no-room-node-failures", "train")


def test_freed_quota_goes_to_whoever_waits(make: Make) -> None:
    stage = make(gpus=8)
    stage.run("v0b", pods=1, gpus=2)
    stage.run("other", pods=1, gpus=6)
    stage.gang("thief", pods=1, gpus=2)
    stage.plane.until(stage.says("thief", "QuotaReserved=False/Pending"), "the thief waits")
    stop(stage, "v0b")
    stage.plane.until(stage.says("thief", "Admitted=True/Admitted"), "the thief has it")
    stage.active("v0b", is_active=True)
    stage.plane.until(stage.says("v0b", "Requeued=True/Reactivated"), "the victim is back in line")
    stage.plane.rest()
    assert "QuotaReserved=False/Pending" in str(stage.lines("v0b"))
    assert not stage.pods("v0b")


def test_a_held_queue_keeps_the_seat_for_the_older_one(make: Make) -> None:
    stage = make(gpus=8)
    stage.run("v0b", pods=1, gpus=2)
    stage.run("other", pods=1, gpus=6)
    stage.gang("thief", pods=1, gpus=2)
    stage.plane.until(stage.says("thief", "QuotaReserved=False/Pending"), "the thief waits")
    stage.hold()
    stage.plane.until(stage.is_shut, "the queue is stopped")
    stage.active("v0b", is_active=False)
    stage.plane.until(stage.says("v0b", "Evicted=True/Deactivated", "Requeued=False/Deactivated"), "stopped")
    stage.plane.until(lambda: not stage.pods("v0b"), "no pod left")
    stage.active("v0b", is_active=True)
    stage.plane.until(stage.says("v0b", "Requeued=True/Reactivated"), "back in line")
    stage.plane.rest()
    stage.hold(is_open=True)
    stage.plane.until(stage.runs("v0b", 1), "the victim has its seat")
    stage.plane.rest()
    assert not stage.pods("thief")
    if isinstance(stage.plane, StandIn):
        check(stage, "D3b-hold-keeps-seat", "thief")
    begun = recorded("A-deactivate-reactivate", "train")[:2]
    wanted, told = [*begun, *recorded("D3b-hold-keeps-seat", "v0b")], stage.lines("v0b")
    wrong = same_order(without(wanted, INADMISSIBLE), without(told, INADMISSIBLE))
    assert wrong is None, wrong


def test_a_ready_check_given_while_inactive_steers_onto_labelled_nodes(make: Make) -> None:
    stage = make(checks=["seats"])
    stage.open_check("seats")
    stage.gang("train", topology=IN_A_RACK)
    stage.plane.until(stage.says("train", "QuotaReserved=True/QuotaReserved", "check=Pending"), "asked")
    stage.answer("train", "seats")
    stage.plane.until(stage.runs("train", 2), "running")
    stage.label(5, "trimtab/seat-x")
    stage.label(7, "trimtab/seat-x")
    stage.active("train", is_active=False)
    stage.plane.until(stage.says("train", "Requeued=False/Deactivated", "check=Pending"), "stopped")
    stage.plane.until(lambda: not stage.pods("train"), "no pod left")
    stage.answer("train", "seats", selector={"trimtab/seat-x": "kept"})
    stage.plane.rest()
    stage.active("train", is_active=True)
    stage.plane.until(stage.runs("train", 2), "running again")
    assert _hosts(stage, "train", 2) == {stage.plane.nodes[5], stage.plane.nodes[7]}
    check(stage, "B5b-tas-seat-label", "train")


def test_a_hold_drops_a_reservation_that_waits_for_a_check(make: Make) -> None:
    stage = make(checks=["seats"])
    stage.open_check("seats")
    stage.gang("train", pods=1)
    stage.plane.until(stage.says("train", "QuotaReserved=True/QuotaReserved"), "reserved")
    stage.hold()
    stage.plane.until(stage.says("train", "QuotaReserved=False/Inadmissible"), "dropped")
    stage.plane.rest()
    stage.hold(is_open=True)
    stage.plane.until(stage.says("train", "QuotaReserved=True/QuotaReserved"), "reserved again")
    check(stage, "L1-hold-drops-reservation", "train")


def test_a_pending_workload_that_is_deactivated_says_nothing_of_requeueing(make: Make) -> None:
    stage = make(gpus=96)
    stage.gang("huge", pods=13)
    stage.plane.until(stage.says("huge", "QuotaReserved=False/Pending"), "waits")
    stage.active("huge", is_active=False)
    stage.plane.until(stage.says("huge", "Evicted=True/Deactivated"), "evicted")
    stage.plane.rest()
    stage.active("huge", is_active=True)
    stage.plane.rest()
    check(stage, "L4-deactivate-pending", "huge")


def test_a_preempted_workload_changes_no_condition_when_it_is_deactivated(make: Make) -> None:
    stage = make(gpus=16, spec={"preemption": {"withinClusterQueue": "LowerPriority"}})
    plane = stage.plane
    high = plane.name("high")
    body = {
        "apiVersion": "kueue.x-k8s.io/v1beta2",
        "kind": "WorkloadPriorityClass",
        "metadata": {"name": high},
        "value": 1000,
    }
    if isinstance(plane, StandIn):
        plane.kube.add(body)
    else:
        plane.space.add("kueue.x-k8s.io/v1beta2/workloadpriorityclasses", body)
    stage.run("lo", topology=IN_A_RACK)
    stage.gang("hi", pods=1, labels={objects.PRIORITY_CLASS: high})
    plane.until(stage.runs("hi", 1), "the other runs")
    plane.until(stage.says("lo", "Requeued=True/Preempted"), "preempted")
    plane.until(lambda: not stage.pods("lo"), "no pod left")
    plane.rest()
    stage.active("lo", is_active=False)
    plane.rest()
    stage.active("lo", is_active=True)
    plane.rest()
    check(stage, "L3-preemption", "lo")


def _hosts(stage: Stage, job: str, pods: int) -> set[str]:
    """Nodes of its running pods; the bad one stands for those that are missing."""
    running = [pod for pod in stage.pods(job) if pod["status"].get("phase") == "Running"]
    found = {pod["spec"]["nodeName"] for pod in running if "deletionTimestamp" not in pod["metadata"]}
    return found if len(found) == pods else {stage.plane.nodes[0]}
