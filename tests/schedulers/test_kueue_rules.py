"""Every reason of Kueue's adapter not to move, with its sentence; and the way it says that it would go."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.cluster import objects
from tests.schedulers.hands import a_command
from tests.schedulers.kueue_world import IN_A_RACK, KUEUE, REPLACEABLE, SPACE, World

from trimtab.errors import SchedulerBusy, SchedulerRefused
from trimtab.model.cluster import ClusterSnapshot, Workload
from trimtab.model.command import Move, MoveKind, Refusal, Seat, Verb, Write


def move_of(world: World, name: str, *after: str, replaced: Sequence[str] = (), **changes: Any) -> Move:
    """The move of a job from where it sits; `after` are nodes, the ones it has now where there are none."""
    workload = found(world.reader.snapshot(), name)
    before = tuple(Seat(pod=one.pod, node=one.node, gpus=len(one.gpus)) for one in workload.placements)
    to = after or tuple(seat.node for seat in before)
    seats = [replace(seat, node=node) for seat, node in zip(before, to, strict=bool(before))]
    if not before:
        seats = [Seat(pod=f"{name}-0", node=node, gpus=workload.gpus_per_pod) for node in after]
    return Move(
        kind=changes.pop("kind", MoveKind.MIGRATE),
        workload=workload.id,
        controller="kueue",
        before=before,
        after=tuple(seats),
        replaced=tuple(replaced),
        **changes,
    )


def found(snapshot: ClusterSnapshot, name: str) -> Workload:
    return next(one for one in snapshot.workloads if one.name == name)


def why_not(world: World, move: Move) -> str | None:
    refusal: Refusal | None = world.adapter.refusal(move, world.reader.snapshot())
    return refusal.sentence if refusal is not None else None


def edit(world: World, kind: str, name: str, change: dict[str, Any]) -> None:
    world.kube.edit(f"{KUEUE}/{kind}/{name}", change, by="kubectl-edit")


def status(world: World, name: str, **change: Any) -> None:
    world.kube.edit(world.path(name), {"status": change}, by="kueue")


def condition(world: World, name: str, kind: str, value: str, reason: str) -> None:
    there = world.workload(name)["status"]["conditions"]
    made = {"type": kind, "status": value, "reason": reason, "message": ""}
    status(world, name, conditions=[*(one for one in there if one["type"] != kind), made])


@pytest.fixture
def world() -> World:
    made = World(nodes=10, per_rack=5)
    made.run_gang("train", pods=2, topology=IN_A_RACK)
    return made


@pytest.fixture
def swap() -> World:
    made = World(nodes=10, per_rack=5)
    made.run_gang("train", pods=2, topology=IN_A_RACK, can_replace_pods=True, annotations=REPLACEABLE)
    return made


def a_swap(world: World, **changes: Any) -> Move:
    pod = next(one for one in world.pods("train") if one["spec"]["nodeName"] == "n1")
    return move_of(world, "train", "n3", "n2", replaced=[pod["metadata"]["name"]], **changes)


def test_a_running_gang_may_move(world: World):
    assert why_not(world, move_of(world, "train", "n3", "n4")) is None


def test_a_swap_that_is_declared_may_go(swap: World):
    assert why_not(swap, a_swap(swap)) is None


def test_what_kueue_does_not_know_is_refused(world: World):
    move = replace(move_of(world, "train"), workload="team-a/job/ghost")
    assert why_not(world, move) == "Not moved: Kueue has no Workload for team-a/job/ghost."


def evicting(world: World) -> None:
    condition(world, "train", "Evicted", "True", "Preempted")


def recovering(world: World) -> None:
    condition(world, "train", "PodsReady", "False", "WaitForRecovery")


def unadmitted(world: World) -> None:
    condition(world, "train", "Admitted", "False", "NoReservation")


def held_by_a_person(world: World) -> None:
    edit(world, "clusterqueues", "tas", {"spec": {"stopPolicy": "HoldAndDrain"}})


def local_held_by_a_person(world: World) -> None:
    edit(world, f"namespaces/{SPACE}/localqueues", "tas", {"spec": {"stopPolicy": "Hold"}})


def inactive_queue(world: World) -> None:
    said = {"type": "Active", "status": "False", "reason": "FlavorNotFound", "message": ""}
    edit(world, "clusterqueues", "tas", {"status": {"conditions": [said]}})


def deactivated(world: World) -> None:
    world.kube.edit(world.path("train"), {"spec": {"active": False}}, by="kubectl-edit")


def replacing(world: World) -> None:
    status(world, "train", unhealthyNodes=[{"name": "n1"}])


def sliced(world: World) -> None:
    name = {"kueue.x-k8s.io/workload-slice-name": "train"}
    world.kube.edit(world.path("train"), {"metadata": {"annotations": name}})


def budgeted(world: World) -> None:
    world.kube.add(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "both", "namespace": SPACE},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"batch.kubernetes.io/job-name": "train"}}},
        }
    )


CASES: list[tuple[Callable[[World], None], str]] = [
    (deactivated, "train is deactivated by somebody"),
    (sliced, "train is an elastic job in slices; it is better made smaller than moved"),
    (unadmitted, "Kueue has not admitted train; only what runs is stopped"),
    (evicting, "Kueue is evicting train itself (Preempted)"),
    (replacing, "Kueue is replacing n1 under train itself"),
    (recovering, "Kueue waits for the pods of train to recover, and evicts it itself if they do not"),
    (held_by_a_person, "queue tas is on HoldAndDrain by somebody; train would not come back"),
    (local_held_by_a_person, "queue team-a/tas is on Hold by somebody; train would not come back"),
    (inactive_queue, "queue tas admits nothing (FlavorNotFound); train would not come back"),
    (
        budgeted,
        "the disruption budget both lets 0 pods go now and 2 pods would (2 healthy, 2 must be)",
    ),
]


@pytest.mark.parametrize(("spoil", "sentence"), CASES)
def test_a_whole_move_is_refused(world: World, spoil: Callable[[World], None], sentence: str):
    move = move_of(world, "train", "n3", "n4")
    spoil(world)
    assert why_not(world, move) == f"Not moved: {sentence}."


def second_cordon(world: World) -> None:
    world.kube.edit("/api/v1/nodes/n2", {"spec": {"unschedulable": True}})


def not_ready(world: World) -> None:
    world.kube.edit("/api/v1/nodes/n2", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})


def not_bound(world: World) -> None:
    pod = next(one for one in world.pods("train") if one["spec"]["nodeName"] == "n2")
    path = f"/api/v1/namespaces/{SPACE}/pods/{pod['metadata']['name']}"
    world.kube.edit(path, {"spec": {"nodeName": None}, "status": {"phase": "Pending"}})


def undeclared(world: World) -> None:
    path = f"/apis/batch/v1/namespaces/{SPACE}/jobs/train"
    world.kube.edit(path, {"metadata": {"annotations": {"trimtab/replaceable-pods": None}}})


def waits_for_ready(world: World) -> None:
    condition(world, "train", "PodsReady", "True", "Started")


def by_rack_only(world: World) -> None:
    admission = world.workload("train")["status"]["admission"]
    admission["podSetAssignments"][0]["topologyAssignment"]["levels"] = [objects.RACK]
    status(world, "train", admission=admission)


SWAPS: list[tuple[Callable[[World], None], str]] = [
    (second_cordon, "n2 under train is excluded too; Kueue would evict the whole gang"),
    (not_ready, "n2 under train is excluded too; Kueue would evict the whole gang"),
    (undeclared, "train does not declare that it can lose one pod"),
    (by_rack_only, "Kueue does not choose the nodes of train one by one, so it cannot replace one pod"),
    (
        waits_for_ready,
        "Kueue evicts train whole after a time that is not known here without a pod; one takes 11 s at best",
    ),
]


@pytest.mark.parametrize(("spoil", "sentence"), SWAPS)
def test_a_hot_swap_is_refused(swap: World, spoil: Callable[[World], None], sentence: str):
    move = a_swap(swap)
    spoil(swap)
    assert why_not(swap, move) == f"Not moved: {sentence}."


def test_a_pod_that_is_not_bound_yet_forbids_a_swap(swap: World):
    move = a_swap(swap)
    not_bound(swap)
    assert "is not bound to its node yet" in str(why_not(swap, move))


def test_two_nodes_at_once_are_no_swap(swap: World):
    names = [pod["metadata"]["name"] for pod in swap.pods("train")]
    move = move_of(swap, "train", "n3", "n4", replaced=names)
    assert why_not(swap, move) == "Not moved: 2 nodes would be replaced under train at once; Kueue replaces one."


def test_a_job_without_a_policy_and_failures_left_loses_no_pod():
    world = World()
    world.run_gang("train", pods=2, topology=IN_A_RACK, backoff_limit=1)
    pod = next(one for one in world.pods("train") if one["spec"]["nodeName"] == "n1")
    move = move_of(world, "train", "n3", "n2", replaced=[pod["metadata"]["name"]])
    snapshot = world.reader.snapshot()
    said = [replace(one, can_replace_pod=True) for one in snapshot.workloads]
    refusal = world.adapter.refusal(move, replace(snapshot, workloads=tuple(said)))
    assert refusal is not None
    assert refusal.sentence == "Not moved: train has no podFailurePolicy for disruptions and 1 failures left."


def test_a_known_recovery_timeout_lets_a_swap_go(swap: World):
    waits_for_ready(swap)
    swap.settings = replace_settings(swap, kueue_recovery_seconds=60.0)
    swap.start()
    assert why_not(swap, a_swap(swap)) is None


def replace_settings(world: World, **changes: Any) -> Any:
    fields = {name: getattr(world.settings, name) for name in world.settings.__struct_fields__}
    return type(world.settings)(**{**fields, **changes})


# --- holding


def cordon(node: str) -> Write:
    return Write(verb=Verb.CORDON, node=node, lasts=True)


def test_a_cordon_that_would_be_the_second_under_a_gang_is_refused(world: World):
    second_cordon(world)
    world.reader.snapshot()
    with pytest.raises(SchedulerRefused, match="n1 is not cordoned: n2 under team-a/job/train is excluded already"):
        world.adapter.hold(a_command(writes=[cordon("n1")]))
    assert "unschedulable" not in world.kube.see("/api/v1/nodes/n1")["spec"]


def test_a_cordon_waits_for_a_pod_that_is_pinned_and_not_bound(world: World):
    not_bound(world)
    world.reader.snapshot()
    with pytest.raises(SchedulerBusy, match="is pinned to n2 and not bound yet: a cordon would fail it"):
        world.adapter.hold(a_command(writes=[cordon("n2")]))
