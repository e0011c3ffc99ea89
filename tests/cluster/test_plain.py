"""Plain Kubernetes on the real control plane: work moves off a node onto its seats, and nothing of ours is left."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tests.cluster import objects
from tests.cluster.client import Json, wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.schedulers.hands import Desk, a_command, over
from tests.schedulers.views import snapshot_of, view_of

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerRefused
from trimtab.model.command import Command, CommandState, Move, MoveKind, Seat, Verb, Write
from trimtab.schedulers.connect import connect
from trimtab.schedulers.marks import annotation, read_holds
from trimtab.schedulers.plain import Plain
from trimtab.settings import KubernetesSettings


class Hall:
    """A space, the adapter, and what drives it as the issuer does: hold until it is seen, then submit every beat."""

    def __init__(self, space: Space, desk: Desk) -> None:
        self.space, self.desk = space, desk
        self.plain = Plain(desk.pen, lambda: view_of(desk.api), desk.settings, desk.clock)

    def move(self, kind: str, name: str, to: dict[str, str], **changes: Any) -> Move:
        """The move of a workload whose pods on a node of `to` go to that node's value; the others stay."""
        pods = sorted(self.space.pods(name), key=lambda pod: pod["metadata"]["name"])
        seats = [
            Seat(pod=pod["metadata"]["name"], node=pod["spec"].get("nodeName", ""), gpus=_gpus(pod)) for pod in pods
        ]
        after = tuple(replace(seat, node=to.get(seat.node, seat.node)) for seat in seats)
        return Move(
            kind=changes.pop("move_kind", MoveKind.DRAIN),
            workload=f"{self.space.namespace}/{kind}/{name}",
            controller="kubernetes",
            before=tuple(seats),
            after=after,
            **changes,
        )

    def command(self, *moves: Move, cordons: Sequence[str] = (), number: int = 11) -> Command:
        """The writes as the planner makes them."""
        writes = [Write(verb=Verb.CORDON, node=node, lasts=True) for node in cordons]
        for move in moves:
            seats = tuple(seat for seat in move.after if not move.replaced or seat.pod in move.replaced)
            writes.append(Write(verb=Verb.RESERVE, workload=move.workload, seats=seats))
        for move in moves:
            if move.replaced:
                writes.append(Write(verb=Verb.REPLACE, workload=move.workload, seats=move.after))
            elif move.before:
                writes.append(Write(verb=Verb.SUSPEND, workload=move.workload))
                writes.append(Write(verb=Verb.RESUME, workload=move.workload, seats=move.after))
        return a_command(number, writes=writes, moves=moves, state=CommandState.SUBMITTED)

    def hold(self, command: Command) -> None:
        """As the issuer does, until it went through."""
        wait_for(lambda: _went(lambda: self.plain.hold(command)), "the room held")

    def submit_until(self, command: Command, is_done: Callable[[], bool], what: str, *, deadline: float = 60.0) -> None:
        """One step a beat, until it is seen to have come true."""

        def beat() -> bool:
            if is_done():
                return True
            _went(lambda: self.plain.submit(command))
            return False

        wait_for(beat, what, deadline_seconds=deadline)

    def settle(self, command: Command) -> None:
        """Settled: all goes back but what lasts."""
        wait_for(lambda: _went(lambda: self.plain.release(over(command, CommandState.SETTLED))), "all given back")

    def left(self) -> list[str]:
        """Everything of ours that the cluster still bears, in words."""
        found = []
        for kind in ("nodes", "pods", "jobs", "deployments", "statefulsets"):
            for one in self.space.client.list(kind, None if kind == "nodes" else self.space.namespace):
                holds = read_holds(one["metadata"].get("annotations", {}), "trimtab")
                found += [
                    f"{kind} {one['metadata']['name']}: {' '.join(hold.what)}" for hold in holds if _is_of(one, self)
                ]
                taints = one["spec"].get("taints", []) if kind == "nodes" and _is_of(one, self) else []
                found += [f"taint {taint['key']}" for taint in taints if taint["key"].startswith("trimtab/")]
                label = one["metadata"].get("labels", {}).get("trimtab/seat")
                found += [f"label on {one['metadata']['name']}"] if label and kind == "nodes" else []
        return found


def _is_of(one: Json, hall: Hall) -> bool:
    return one["metadata"].get("namespace") == hall.space.namespace or one["metadata"]["name"] in hall.space.nodes


def _went(write: Callable[[], None]) -> bool:
    try:
        write()
    except (SchedulerBusy, SchedulerConflict):
        return False
    return True


def _gpus(pod: Json) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"])


@pytest.fixture
def hall(plane: Plane, space: Space) -> Iterator[Hall]:
    api = connect(KubernetesSettings(kubeconfig=str(plane.admin_kubeconfig)))
    yield Hall(space, Desk(api, clock=SystemClock()))
    api.close()


def test_a_job_stops_whole_and_starts_on_its_seats_and_nowhere_else(hall: Hall) -> None:
    """Six nodes are free; its two pods land on the two that were planned, and no failure is counted."""
    space = hall.space
    nodes = space.add_racks(racks=2, nodes_per_rack=4)
    space.gang("train", queue=None, pods=2, gpus=8, pod_spec={"nodeSelector": {objects.POOL: space.namespace}})
    held = space.wait_running("train", 2)
    targets = [node for node in nodes if node not in held][-2:]
    command = hall.command(hall.move("job", "train", dict(zip(held, targets, strict=True))), cordons=held[:1])
    hall.hold(command)
    hall.submit_until(command, lambda: space.seats("train") == sorted(targets), "train on its seats")
    hall.settle(command)
    job = space.client.get("jobs", "train", space.namespace)
    assert job["status"].get("failed", 0) == 0
    assert job["spec"]["suspend"] is False
    assert hall.left() == [f"nodes {held[0]}: cordon"]
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
    spec = {"nodeSelector": {objects.POOL: space.namespace}}
    made = iter(range(1000))

    def small_pod_comes() -> bool:
        space.add("pods", objects.pod(f"small-{next(made)}", space.namespace, gpus=1, spec=spec))
        return space.seats("train") == sorted(targets)

    for _ in range(20):
        small_pod_comes()
    hall.submit_until(command, small_pod_comes, "train on its seats")
    assert space.seats("small") == []
    hall.settle(command)


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
    hall.submit_until(command, lambda: space.seats("train") == [target], "train on its seat")
    (pod,) = space.pods("train")
    assert pod["metadata"]["annotations"]["trimtab/by"] == command.mark
    hall.settle(command)


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
    fewest = 2

    def is_done() -> bool:
        nonlocal fewest
        fewest = min(fewest, len(space.seats("web")))
        return space.seats("web") == sorted(targets)

    hall.submit_until(command, is_done, "web on its seats", deadline=90)
    assert fewest >= 1
    hall.settle(command)
    assert sorted(hall.left()) == sorted(f"nodes {node}: cordon" for node in held)


def test_one_pod_of_a_job_is_replaced_and_its_peer_never_stops(hall: Hall) -> None:
    space = hall.space
    nodes = space.add_racks(racks=1, nodes_per_rack=3)
    space.gang("train", queue=None, pods=2, gpus=8, can_replace_pods=True)
    held = space.wait_running("train", 2)
    (target,) = [node for node in nodes if node not in held]
    move = hall.move("job", "train", {held[0]: target})
    gone = next(seat.pod for seat in move.before if seat.node == held[0])
    kept = next(pod["metadata"]["uid"] for pod in space.pods("train") if pod["spec"]["nodeName"] == held[1])
    command = hall.command(replace(move, replaced=(gone,)), cordons=[held[0]])
    hall.hold(command)
    hall.submit_until(
        command, lambda: space.seats("train") == sorted([held[1], target]), "the pod replaced", deadline=90
    )
    assert kept in {pod["metadata"]["uid"] for pod in space.pods("train")}
    assert space.client.get("jobs", "train", space.namespace)["status"].get("failed", 0) == 0
    hall.settle(command)
    assert hall.left() == [f"nodes {held[0]}: cordon"]


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
    wait_for(lambda: len(space.pods("wide")) == 1, "wide waiting")
    victim = hall.move("job", "a", {nodes[0]: nodes[1]}, move_kind=MoveKind.CONSOLIDATE)
    seat = Seat(pod=space.pods("wide")[0]["metadata"]["name"], node=nodes[0], gpus=8)
    waits = Move(
        kind=MoveKind.CONSOLIDATE, workload=f"{space.namespace}/job/wide", controller="kubernetes", after=(seat,)
    )
    command = hall.command(victim, waits)
    hall.hold(command)
    spec = {"nodeSelector": {objects.POOL: space.namespace}}
    for number in range(8):
        space.add("pods", objects.pod(f"small-{number}", space.namespace, gpus=1, spec=spec))
    hall.submit_until(
        command,
        lambda: space.seats("wide") == [nodes[0]] and space.seats("a") == [nodes[1]],
        "wide on the emptied node",
    )
    hall.settle(command)
    assert hall.left() == []


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
    wait_for(lambda: _went(lambda: hall.plain.release(over(command))), "all given back")
    space.wait_running("train", 1)
    assert hall.left() == []
    assert not any(space.client.get("nodes", node)["spec"].get("unschedulable") for node in space.nodes)


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
    wait_for(lambda: _went(lambda: hall.plain.release(over(command))), "all given back")
    space.client.patch("jobs", "train", {"spec": {"suspend": True}}, space.namespace)
    with pytest.raises(SchedulerRefused, match="Somebody suspended job/train"):
        hall.plain.submit(hall.command(*command.recommendation.moves, number=12))
    hall.plain.release(over(command))
    job = space.client.get("jobs", "train", space.namespace)
    assert job["spec"]["suspend"] is True
    assert annotation("trimtab") not in job["metadata"].get("annotations", {})


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
    wait_for(lambda: len(space.seats()) == 3, "all running")
    snapshot = snapshot_of(hall.desk.api)
    sentences = {}
    for kind, name in (("pod", "alone"), ("pod", "etcd"), ("job", "fragile")):
        pod = next(one for one in space.pods() if one["metadata"]["name"].startswith(name))
        target = next(node for node in nodes if node != pod["spec"]["nodeName"])
        before = Seat(pod=pod["metadata"]["name"], node=pod["spec"]["nodeName"], gpus=1)
        move = Move(
            kind=MoveKind.DRAIN,
            workload=f"{space.namespace}/{kind}/{name}",
            controller="kubernetes",
            before=(before,),
            after=(replace(before, node=target),),
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
