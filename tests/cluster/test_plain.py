"""Plain Kubernetes on the real control plane: work moves off a node onto its seats, and nothing of ours is left."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.cluster import objects
from tests.cluster.client import wait_for
from tests.cluster.plain_hall import Hall, went
from tests.cluster.plane import Plane
from tests.cluster.space import Space

from trimtab.errors import SchedulerRefused
from trimtab.model.command import CommandState, Move, MoveKind, RecommendationKind, Seat
from trimtab.schedulers.marks import annotation

DECLARED = {"trimtab/replaceable-pods": "true"}


@pytest.fixture
def hall(plane: Plane, space: Space) -> Iterator[Hall]:
    made = Hall(plane, space)
    yield made
    made.close()


def test_a_job_stops_whole_and_starts_on_its_seats_and_nowhere_else(hall: Hall) -> None:
    """Six nodes are free; its two pods land on the two that were planned, and no failure is counted."""
    space = hall.space
    nodes = space.add_racks(racks=2, nodes_per_rack=4)
    space.gang("train", queue=None, pods=2, gpus=8)
    held = space.wait_running("train", 2)
    targets = [node for node in nodes if node not in held][-2:]
    command = hall.command(hall.move("job", "train", dict(zip(held, targets, strict=True))), cordons=held[:1])
    hall.hold(command)
    hall.submit(command)
    assert space.seats("train") == sorted(targets)
    hall.release(command)
    job = space.client.get("jobs", "train", space.namespace)
    assert job["status"].get("failed", 0) == 0
    assert job["spec"]["suspend"] is False
    assert f"resume job {space.namespace}/train with a way to its seats" in hall.desk.said


def test_seats_hold_against_a_stream_of_small_pods(hall: Hall) -> None:
    """Whatever is free is taken at once by pods that wait; the two seats are not."""
    space = hall.space
    nodes = space.add_racks(racks=1, nodes_per_rack=4)
    space.gang("train", queue=None, pods=2, gpus=8)
    held = space.wait_running("train", 2)
    targets = [node for node in nodes if node not in held]
    command = hall.command(hall.move("job", "train", dict(zip(held, targets, strict=True))), cordons=held)
    hall.hold(command)
    stream = _Stream(space)
    for _ in range(20):
        stream.one_more()
    hall.submit(command, stream.one_more)
    assert space.seats("train") == sorted(targets)
    assert space.seats("small") == []
    hall.release(command)


class _Stream:
    """Pods of one GPU that come one after the other and take what they can get."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._numbers = itertools.count()

    def one_more(self) -> None:
        spec = {"nodeSelector": {objects.POOL: self._space.namespace}}
        name = f"small-{next(self._numbers)}"
        self._space.add("pods", objects.pod(name, self._space.namespace, gpus=1, spec=spec))


def test_a_job_whose_template_may_not_be_written_is_let_onto_its_seats_pod_by_pod(hall: Hall) -> None:
    space = hall.space
    nodes = space.add_racks(racks=1, nodes_per_rack=2)
    space.gang("train", queue=None, pods=1, gpus=8)
    (held,) = space.wait_running("train", 1)
    target = next(node for node in nodes if node != held)
    command = hall.command(hall.move("job", "train", {held: target}), cordons=[held])
    hall.hold(command)

    def no_status(path: str) -> None:
        if path.endswith("jobs/train/status"):
            raise SchedulerRefused("403 cannot patch resource jobs/status")

    _refuse_patches(hall, no_status)
    hall.submit(command)
    assert space.seats("train") == [target]
    assert any(what.startswith("tolerate trimtab/seat") for what in hall.desk.said)
    hall.release(command)


def _refuse_patches(hall: Hall, refuse: Callable[[str], None]) -> None:
    """An account that lacks a right, without making one: the door refuses before it sends."""
    send = hall.desk.api.patch

    def patch(path: str, *rest: Any) -> Any:
        refuse(path)
        return send(path, *rest)

    hall.desk.api.patch = patch  # type: ignore[method-assign]


@pytest.mark.parametrize("kind", ["deployment", "statefulset"])
def test_pods_of_a_set_move_one_after_the_other(hall: Hall, kind: str) -> None:
    space = hall.space
    nodes = space.add_racks(racks=1, nodes_per_rack=4)
    make = space.deployment if kind == "deployment" else space.stateful_set
    make("web", replicas=2, gpus=8)
    held = space.wait_running("web", 2)
    targets = [node for node in nodes if node not in held]
    command = hall.command(hall.move(kind, "web", dict(zip(held, targets, strict=True))), cordons=held)
    hall.hold(command)
    counts = []
    hall.submit(command, lambda: counts.append(len(space.seats("web"))))
    assert min(counts) >= 1
    assert space.seats("web") == sorted(targets)
    hall.release(command)


def test_one_pod_of_a_job_is_replaced_and_its_peer_never_stops(hall: Hall) -> None:
    space = hall.space
    nodes = space.add_racks(racks=1, nodes_per_rack=3)
    space.gang("train", queue=None, pods=2, gpus=8, can_replace_pods=True, annotations=DECLARED)
    held = space.wait_running("train", 2)
    (target,) = [node for node in nodes if node not in held]
    kept = next(pod["metadata"]["uid"] for pod in space.pods("train") if pod["spec"]["nodeName"] == held[1])
    move = hall.move("job", "train", {held[0]: target}, alone=True)
    assert hall.plain.refusal(move, hall.snapshot()) is None
    command = hall.command(move, cordons=[held[0]])
    hall.hold(command)
    hall.submit(command)
    assert space.seats("train") == sorted([held[1], target])
    assert kept in {pod["metadata"]["uid"] for pod in space.pods("train")}
    assert space.client.get("jobs", "train", space.namespace)["status"].get("failed", 0) == 0
    hall.release(command)


def test_room_is_made_and_kept_for_a_job_that_waits(hall: Hall) -> None:
    """Two nodes half full: the small job of one goes to the other, and the job that waits gets the emptied node."""
    space = hall.space
    nodes = space.add_racks(racks=1, nodes_per_rack=2)
    for name, node in (("a", nodes[0]), ("b", nodes[1])):
        # Held on their node by a cordon of the other while they start: nothing of it stays in their spec.
        other = next(one for one in nodes if one != node)
        space.cordon(other)
        space.gang(name, queue=None, pods=1, gpus=2)
        space.wait_running(name, 1)
        space.uncordon(other)
    space.gang("wide", queue=None, pods=1, gpus=8)
    victim = hall.move("job", "a", {nodes[0]: nodes[1]}, move_kind=MoveKind.CONSOLIDATE)
    command = hall.command(victim, hall.waiting("job", "wide", nodes[0]), kind=RecommendationKind.CONSOLIDATE)
    hall.hold(command)
    stream = _Stream(space)
    for _ in range(8):
        stream.one_more()
    hall.submit(command, stream.one_more)
    assert (space.seats("wide"), space.seats("a"), space.seats("small")) == ([nodes[0]], [nodes[1]], [])
    hall.release(command)


def test_a_given_up_move_starts_what_it_stopped(hall: Hall) -> None:
    space = hall.space
    space.add_racks(racks=1, nodes_per_rack=2)
    space.gang("train", queue=None, pods=1, gpus=8)
    (held,) = space.wait_running("train", 1)
    target = next(node for node in space.nodes if node != held)
    command = hall.command(hall.move("job", "train", {held: target}), cordons=[held])
    hall.hold(command)
    hall.plain.submit(command)
    wait_for(lambda: not space.pods("train"), "train stopped")
    hall.release(command, CommandState.ABANDONED)
    space.wait_running("train", 1)


def test_what_a_person_resumed_or_suspended_is_theirs(hall: Hall) -> None:
    space = hall.space
    space.add_racks(racks=1, nodes_per_rack=2)
    space.gang("train", queue=None, pods=1, gpus=8)
    (held,) = space.wait_running("train", 1)
    target = next(node for node in space.nodes if node != held)
    command = hall.command(hall.move("job", "train", {held: target}))
    hall.hold(command)
    hall.plain.submit(command)
    space.client.patch("jobs", "train", {"spec": {"suspend": False}}, space.namespace)
    with pytest.raises(SchedulerRefused, match="Somebody resumed job/train since R11 suspended it: a veto"):
        hall.plain.submit(command)
    hall.release(command, CommandState.REFUSED)
    space.client.patch("jobs", "train", {"spec": {"suspend": True}}, space.namespace)
    second = hall.command(*command.recommendation.moves, number=12)
    wait_for(lambda: went(lambda: hall.plain.hold(second)), "the room held")
    with pytest.raises(SchedulerRefused, match="Somebody suspended job/train"):
        wait_for(lambda: went(lambda: hall.plain.submit(second)), "the veto seen")
    hall.release(second, CommandState.REFUSED)
    job = space.client.get("jobs", "train", space.namespace)
    assert job["spec"]["suspend"] is True
    assert annotation("trimtab") not in job["metadata"].get("annotations", {})


def test_a_job_that_a_person_suspended_anew_after_our_stop_stays_so(hall: Hall) -> None:
    """Our mark is still on it: who suspended it last is in the server's managedFields alone."""
    space = hall.space
    space.add_racks(racks=1, nodes_per_rack=2)
    space.gang("train", queue=None, pods=1, gpus=8)
    (held,) = space.wait_running("train", 1)
    target = next(node for node in space.nodes if node != held)
    command = hall.command(hall.move("job", "train", {held: target}))
    hall.hold(command)
    hall.plain.submit(command)
    for suspend in (False, True):
        space.client.patch("jobs", "train", {"spec": {"suspend": suspend}}, space.namespace, fieldManager="kubectl")
    with pytest.raises(SchedulerRefused, match="Somebody suspended job/train since R11 suspended it: a veto"):
        wait_for(lambda: went(lambda: hall.plain.submit(command)), "the veto seen")
    hall.release(command, CommandState.REFUSED)
    assert space.client.get("jobs", "train", space.namespace)["spec"]["suspend"] is True


def test_orphans_static_pods_and_failures_too_many_are_refused(hall: Hall) -> None:
    space = hall.space
    nodes = space.add_racks(racks=1, nodes_per_rack=2)
    space.add("pods", objects.pod("alone", space.namespace, spec={"nodeName": nodes[0]}))
    mirror = objects.pod(
        "etcd", space.namespace, annotations={"kubernetes.io/config.mirror": "x"}, spec={"nodeName": nodes[0]}
    )
    space.add("pods", mirror)
    space.gang("fragile", queue=None, pods=1, gpus=1, backoff_limit=0)
    space.wait_running("fragile", 1)
    sentences = {}
    for kind, name in (("pod", "alone"), ("pod", "etcd"), ("job", "fragile")):
        snapshot = hall.seen(kind, name, 1)
        (place,) = snapshot.workload_by_id[hall.id(kind, name)].placements
        before = Seat(pod=place.pod, node=place.node, gpus=1)
        after = replace(before, node=next(node for node in nodes if node != place.node))
        move = Move(
            kind=MoveKind.DRAIN,
            workload=hall.id(kind, name),
            controller="kubernetes",
            before=(before,),
            after=(after,),
            replaced=(before.pod,) if kind == "job" else (),
        )
        refusal = hall.plain.refusal(move, snapshot)
        assert refusal is not None
        sentences[name] = (refusal.rule, refusal.sentence)
    assert sentences["alone"] == (
        "orphan",
        "Not moved: no controller brings alone back: it is a pod of its own, and evicted it would be lost.",
    )
    assert sentences["etcd"][0] == "static_pod"
    assert sentences["fragile"][0] == "backoff_limit"
    assert "it would have 1 of 0 and fail for good" in sentences["fragile"][1]
