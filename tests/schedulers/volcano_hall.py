"""A Volcano cluster in memory with our adapter beside it: jobs, moves, and beats as the daemon makes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from tests.cluster.volcano.webhook import denials
from tests.cluster.volcano.world import World
from tests.fakes.kube import FakeKube
from tests.schedulers.hands import Desk, a_command

from trimtab.errors import SchedulerError
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, CommandState, Move, MoveKind, Recommendation, Seat, Verb, Write
from trimtab.schedulers.objects import Loose, NodeObject, Pod
from trimtab.schedulers.view import View
from trimtab.schedulers.volcano import VolcanoScheduler

Json = dict[str, Any]
SPACE = "team-a"
GPU = "nvidia.com/gpu"
BEAT_SECONDS = 5.0
EVICTED_RESTARTS = {"event": "PodEvicted", "action": "RestartJob"}
HARD = {"mode": "hard", "highestTierAllowed": 1}
RACK_1 = ["n01", "n02", "n03", "n04", "n05"]
RACK_2 = ["n06", "n07", "n08", "n09", "n10"]
KINDS = (
    "jobs.batch",
    "poddisruptionbudgets.policy",
    "jobs.batch.volcano.sh",
    "podgroups.scheduling.volcano.sh",
    "queues.scheduling.volcano.sh",
    "hypernodes.topology.volcano.sh",
    "commands.bus.volcano.sh",
)


def vcjob(
    name: str,
    *,
    pods: int = 4,
    gpus: int = 8,
    policies: Sequence[Json] = (),
    tasks: Sequence[Json] = (),
    at_least: int | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Json:
    """A Volcano Job of one task `worker`, or of the tasks given, in the shape that Volcano's webhook leaves."""
    made = list(tasks) or [a_task("worker", pods, gpus=gpus, at_least=at_least, annotations=annotations)]
    wanted = sum(task["replicas"] for task in made)
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": SPACE},
        "spec": {
            "schedulerName": "volcano",
            "queue": "default",
            "maxRetry": 3,
            "minAvailable": wanted if at_least is None else at_least,
            "policies": list(policies),
            "tasks": made,
            **spec,
        },
    }


def a_task(
    name: str,
    pods: int,
    *,
    gpus: int = 8,
    at_least: int | None = None,
    policies: Sequence[Json] = (),
    annotations: dict[str, str] | None = None,
) -> Json:
    container = {"name": "c", "image": "x", "resources": {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}}}
    template = {
        "metadata": {"annotations": annotations or {}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    return {
        "name": name,
        "replicas": pods,
        "minAvailable": pods if at_least is None else at_least,
        "policies": list(policies),
        "template": template,
    }


def rack_node(name: str, rack: int, first: int, per_rack: int) -> Json:
    """A HyperNode of tier 1 for the nodes of one rack, by pattern."""
    members = [f"n{number:02}" for number in range(first, first + per_rack)]
    return {
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "kind": "HyperNode",
        "metadata": {"name": name},
        "spec": {
            "tier": 1,
            "members": [{"type": "Node", "selector": {"exactMatch": {"name": one}}} for one in members],
        },
    }


class Hall:
    """Racks of 5 nodes × 8 GPUs, Volcano's stand-in, and the adapter on one fake API server."""

    def __init__(self, *, racks: int = 3, per_rack: int = 5, has_racks: bool = True) -> None:
        self.world = World()
        self.kube: FakeKube = self.world.kube
        self.kube.refuses = denials(self.kube)  # Volcano's webhook
        self.world.add_nodes(racks, per_rack)
        if has_racks:
            for rack in range(1, racks + 1):
                self.kube.add(rack_node(f"rack-{rack}", rack, 1 + (rack - 1) * per_rack, per_rack))
        self.desk = Desk(self.kube, clock=self.world.clock)
        self.adapter = VolcanoScheduler(self.desk.pen, self.view, self.desk.settings, self.world.clock)
        self.most_retries = 0
        self.said: list[str] = []
        self.is_ours = False
        """Whether it is the adapter that writes now."""

    # --- what there is

    def view(self) -> View:
        nodes = {one["metadata"]["name"]: msgspec.convert(one, NodeObject) for one in self.kube.all("nodes")}
        pods = {_key(one): msgspec.convert(one, Pod) for one in self.kube.all("pods")}
        others = {kind: {_key(one): msgspec.convert(one, Loose) for one in self.kube.all(kind)} for kind in KINDS}
        pods_of: dict[str, tuple[Pod, ...]] = {}
        groups: dict[str, Loose] = {}
        by_name = {group.metadata.key: group for group in others["podgroups.scheduling.volcano.sh"].values()}
        for pod in pods.values():
            workload = workload_of(pod)
            if not pod.is_over:
                pods_of[workload] = (*pods_of.get(workload, ()), pod)
            key = f"{pod.metadata.namespace}/{pod.metadata.annotations.get('scheduling.k8s.io/group-name', '')}"
            if key in by_name:
                groups[workload] = by_name[key]
        for group in by_name.values():
            owner = group.metadata.owner
            if owner is not None and "volcano" in owner.api_version:
                groups[f"{group.metadata.namespace}/vcjob/{owner.name}"] = group
        return View(nodes=nodes, pods=pods, others=others, pods_of=pods_of, pod_group_of=groups)

    def job(self, name: str = "train") -> Json:
        found = self.kube.see(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{SPACE}/jobs/{name}")
        assert found is not None
        return found

    def status(self, name: str = "train") -> tuple[str, int]:
        """Phase and retryCount."""
        status = self.job(name)["status"]
        return status["state"]["phase"], int(status.get("retryCount", 0))

    def pods(self, name: str = "train") -> dict[str, Json]:
        """The job's pods by name."""
        found = [one for one in self.kube.all("pods") if one["metadata"]["labels"].get("volcano.sh/job-name") == name]
        return {one["metadata"]["name"]: one for one in found}

    def nodes_of(self, name: str = "train") -> dict[str, str]:
        """Pod -> node, of the pods that run."""
        return {
            pod: one["spec"]["nodeName"]
            for pod, one in self.pods(name).items()
            if one["status"].get("phase") == "Running" and "deletionTimestamp" not in one["metadata"]
        }

    def uids(self, name: str = "train") -> dict[str, str]:
        return {pod: one["metadata"]["uid"] for pod, one in self.pods(name).items()}

    def ours(self) -> list[str]:
        """Everything of ours that any object bears, but for what cannot be taken off a pod again."""
        found = []
        for kind in ("nodes", "jobs.batch.volcano.sh", "commands.bus.volcano.sh"):
            for one in self.kube.all(kind):
                metadata, spec = one["metadata"], one.get("spec") or {}
                marks = [key for key in metadata.get("annotations") or {} if key.startswith("trimtab/")]
                marks += [taint["key"] for taint in spec.get("taints") or [] if taint["key"].startswith("trimtab/")]
                found += [f"{metadata['name']}: {mark}" for mark in marks]
        return found

    # --- what happens

    def run(self, body: Json, *, seconds: float = 6.0) -> str:
        """Create a job and give it time; its workload id."""
        self.kube.post(f"/apis/batch.volcano.sh/v1alpha1/namespaces/{SPACE}/jobs", body)
        self.advance(seconds)
        return f"{SPACE}/vcjob/{body['metadata']['name']}"

    def run_on(self, body: Json, *nodes: str) -> str:
        """Create a job while all other nodes are closed."""
        others = [name for name in self.view().nodes if name not in nodes]
        was_closed = {name for name in others if self.view().nodes[name].spec.unschedulable}
        self.close(*others)
        workload = self.run(body)
        for name in others:
            if name not in was_closed:
                self.kube.edit(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}}, by="kubectl-uncordon")
        return workload

    def close(self, *nodes: str) -> None:
        """As `kubectl cordon`."""
        for name in nodes:
            self.kube.edit(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, by="kubectl-cordon")

    def advance(self, seconds: float) -> None:
        """Time passes, second by second, and the highest retryCount is remembered."""
        for _ in range(int(seconds)):
            self.world.advance(1.0)
            counts = [
                int((one.get("status") or {}).get("retryCount", 0)) for one in self.kube.all("jobs.batch.volcano.sh")
            ]
            self.most_retries = max([self.most_retries, *counts])

    def carry_out(
        self, command: Command, until: Callable[[], bool], *, beats: int = 30, beat_seconds: float = BEAT_SECONDS
    ) -> None:
        """Hold, then submit every beat, as the issuer does, until it has come true."""
        self.adapter.hold(command)
        self.advance(beat_seconds)
        for _ in range(beats):
            if until():
                return
            self.beat(command, beat_seconds)
        raise AssertionError(f"not in {beats} beats; said: {self.said[-3:]}, {self.nodes_of()}, {self.status()}")

    def do(self, act: Callable[[], None], killed: type[BaseException]) -> None:
        """One call of the adapter; one that is killed is made again, as by a daemon that was started anew."""
        for _ in range(2):
            self.is_ours = True
            try:
                act()
            except killed:
                continue
            except SchedulerError as error:
                self.said.append(str(error))
            finally:
                self.is_ours = False
            return

    def beat(self, command: Command, beat_seconds: float = BEAT_SECONDS) -> None:
        try:
            self.adapter.submit(command)
        except SchedulerError as error:
            self.said.append(str(error))
        self.advance(beat_seconds)

    def snapshot(self) -> ClusterSnapshot:
        return ClusterSnapshot(cluster="hall-a", taken_at=self.world.clock.now(), nodes=(), workloads=())


def workload_of(pod: Pod) -> str:
    owner = pod.metadata.owner
    if owner is None:
        return f"{pod.metadata.namespace}/pod/{pod.metadata.name}"
    kind = "vcjob" if "volcano" in owner.api_version else owner.kind.lower()
    return f"{pod.metadata.namespace}/{kind}/{owner.name}"


def _key(one: Json) -> str:
    metadata = one["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else metadata["name"]


def a_move(
    workload: str,
    before: dict[str, str],
    after: dict[str, str],
    *,
    replaced: Sequence[str] = (),
    gpus: int = 8,
    kind: MoveKind = MoveKind.DRAIN,
) -> Move:
    """A workload's move from pods' nodes to pods' nodes."""
    return Move(
        kind=kind,
        workload=workload,
        controller="volcano",
        before=tuple(Seat(pod=pod, node=node, gpus=gpus) for pod, node in before.items()),
        after=tuple(Seat(pod=pod, node=node, gpus=gpus) for pod, node in after.items()),
        replaced=tuple(replaced),
    )


def writes_of(moves: Sequence[Move], *, cordons: Sequence[str] = ()) -> list[Write]:
    """The writes that the planner makes of moves."""
    held = [Write(verb=Verb.CORDON, node=node, lasts=True) for node in cordons]
    done: list[Write] = []
    for move in moves:
        seats = tuple(seat for seat in move.after if not move.replaced or seat.pod in move.replaced)
        held.append(Write(verb=Verb.RESERVE, workload=move.workload, seats=seats))
        if move.replaced:
            done.append(Write(verb=Verb.REPLACE, workload=move.workload, seats=seats))
        elif move.before:
            done.append(Write(verb=Verb.SUSPEND, workload=move.workload))
            done.append(Write(verb=Verb.RESUME, workload=move.workload, seats=move.after))
    return [*held, *done]


def command_of(moves: Sequence[Move], *, cordons: Sequence[str] = (), number: int = 11) -> Command:
    return a_command(number, moves=moves, writes=writes_of(moves, cordons=cordons))


def recommendation_of(moves: Sequence[Move], *, cordons: Sequence[str] = ()) -> Recommendation:
    return replace(command_of(moves, cordons=cordons).recommendation)


def settled(command: Command) -> Command:
    return replace(command, state=CommandState.SETTLED)


def abandoned(command: Command) -> Command:
    return replace(command, state=CommandState.ABANDONED)


def one_pod_away(hall: Hall, workload: str, pod: str = "train-worker-1") -> tuple[Command, dict[str, str], str]:
    """The command that moves one pod alone to the free node of its rack, what is planned, and the node it leaves."""
    before = hall.nodes_of()
    left = before[pod]
    rack = RACK_1 if left in RACK_1 else RACK_2
    spare = next(node for node in rack if node not in before.values())
    after = {**before, pod: spare}
    return command_of([a_move(workload, before, after, replaced=[pod])], cordons=[left]), after, left


def whole_away(hall: Hall, workload: str, *, cordons: list[str]) -> tuple[Command, dict[str, str]]:
    """The command that moves the whole gang to the other rack, and what is planned."""
    before = hall.nodes_of()
    rack = RACK_2 if set(before.values()) <= set(RACK_1) else RACK_1
    after = dict(zip(sorted(before), rack[:4], strict=True))
    return command_of([a_move(workload, before, after)], cordons=cordons), after


def refusal_of(hall: Hall, move: Move) -> str:
    refusal = hall.adapter.refusal(move, hall.snapshot())
    return "" if refusal is None else refusal.sentence
