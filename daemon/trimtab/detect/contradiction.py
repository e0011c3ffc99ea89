"""contradiction: what an agent sees held and what the cluster's API says is held do not agree.

A person is told; nothing is ever moved for it. It must stand for two minutes: pods come and go between two reports.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.detect.closing import NODES
from trimtab.detect.fleet import Fleet, count_text
from trimtab.detect.incident import MEMBERS, members_text
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.cluster import ClusterSnapshot, Placement, Workload, WorkloadState
from trimtab.model.reading import GpuReading
from trimtab.model.window import Window

RULE = "contradiction"
CONTROLLERS = frozenset({"kueue", "volcano", "kubernetes"})
"""Workloads whose placements are pods by the names that agents use too."""
_FEW, _MOST = 3, 0.5
"""From so many nodes and this share of those that name holders on, it is not the nodes but what is read beside them."""


@dataclass(slots=True)
class _Seen:
    """What the agents say: node -> pod -> its GPUs there; nodes whose agents name holders at all."""

    held: dict[str, dict[str, list[str]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    sources: set[str] = field(default_factory=set)


class Contradiction:
    """Finds pods that hold GPUs to one side alone."""

    name = RULE
    span_seconds = 60.0

    def detect(self, window: Window) -> Iterable[Finding]:
        """One finding a pod and node, or one for the cluster where most nodes disagree."""
        snapshot = window.snapshot
        if snapshot is None or not any(one.controller in CONTROLLERS for one in snapshot.workloads):
            return
        fleet = Fleet(window)
        seen = _seen(fleet)
        if not seen.sources:
            return
        expected = _expected(snapshot)
        told = {node: _strangers(node, pods, expected, snapshot) for node, pods in seen.held.items()}
        strangers = {node: pods for node, pods in told.items() if pods}
        if len(strangers) >= _FEW and len(strangers) >= _MOST * len(seen.held):
            yield _cluster(strangers, len(seen.held), fleet)
        else:
            for node, pods in strangers.items():
                yield from (_stranger(node, pod, gpus, fleet) for pod, gpus in pods.items())
        for workload, placement in _unseen(snapshot, seen, fleet):
            yield _missing(workload, placement, fleet)


def _seen(fleet: Fleet) -> _Seen:
    seen = _Seen()
    nodes = fleet.window.nodes
    for key, now in fleet.window.gpus.items():
        pods = _holders(now.reading)
        if pods and key.node in nodes and fleet.is_fresh(now):
            seen.sources.add(nodes[key.node].source)
            for pod in pods:
                seen.held[key.node][pod].append(key.uuid)
    return seen


def _holders(reading: GpuReading) -> list[str]:
    """Pods that hold a GPU or a part of it; a job id of another scheduler is none."""
    if not (reading.holder or reading.shared_by or reading.instances):
        return []
    names = [*(reading.holder or "").split(", "), *reading.shared_by]
    for instance in reading.instances:
        names += (instance.holder or "").split(", ")
    return [name for name in dict.fromkeys(names) if name.count("/") == 1]


def _expected(snapshot: ClusterSnapshot) -> Mapping[str, frozenset[str]]:
    """Node -> pods that hold GPUs there, as the API says."""
    found: dict[str, set[str]] = defaultdict(set)
    for workload in snapshot.workloads:
        for placement in workload.placements:
            found[placement.node].add(_pod(workload, placement))
    return {node: frozenset(pods) for node, pods in found.items()}


def _pod(workload: Workload, placement: Placement) -> str:
    return f"{workload.tenant}/{placement.pod}"


def _strangers(
    node: str, pods: Mapping[str, list[str]], expected: Mapping[str, frozenset[str]], snapshot: ClusterSnapshot
) -> dict[str, list[str]]:
    """Pods that the agent of a node names and the API does not have there. One that is over is let go of in time."""
    if node not in snapshot.node_by_name:
        return {}
    known = expected.get(node, frozenset()) | snapshot.ended_pods
    return {pod: gpus for pod, gpus in pods.items() if pod not in known}


def _unseen(snapshot: ClusterSnapshot, seen: _Seen, fleet: Fleet) -> Iterator[tuple[Workload, Placement]]:
    """Running pods with GPUs of which their node's agent, of a kind that names holders, names none."""
    for workload in snapshot.workloads:
        if workload.state is not WorkloadState.RUNNING or workload.controller not in CONTROLLERS:
            continue
        for placement in workload.placements:
            node = fleet.window.nodes.get(placement.node)
            if not placement.gpus or node is None or node.source not in seen.sources:
                continue
            if fleet.is_node_fresh(node.name) and _pod(workload, placement) not in seen.held.get(node.name, {}):
                yield workload, placement


def _stranger(node: str, pod: str, gpus: list[str], fleet: Fleet) -> Finding:
    place = fleet.place(node, gpus)
    return _finding(
        fleet,
        incident=f"{RULE}:{node}:{pod}",
        subject=Subject(cluster=fleet.cluster, node=node, gpu=gpus[0] if len(gpus) == 1 else None),
        action=Action.CONFIG_PROBLEM,
        sentence=f"{place}: held by {pod} to its agent, and the API has no such pod with GPUs there",
        impact=f"Whether {count_text(len(gpus), 'GPU')} may be given to others is not certain",
        advice="Look for the pod's processes on the node, at its kubelet, and at where the agent has the name from.",
        evidence=(
            Evidence(source="reports", text=f"{place}: held by {pod}", at=fleet.window.nodes[node].received_at),
            Evidence(source="scheduler", text=f"no pod {pod} that asks for GPUs on {node}", at=_taken_at(fleet)),
        ),
        gpus=len(gpus),
        nodes=[node],
    )


def _missing(workload: Workload, placement: Placement, fleet: Fleet) -> Finding:
    pod, node = _pod(workload, placement), placement.node
    held = count_text(len(placement.gpus), "GPU")
    return _finding(
        fleet,
        incident=f"{RULE}:{node}:{pod}",
        subject=Subject(cluster=fleet.cluster, node=node, workload=workload.id),
        action=Action.WATCH,
        sentence=f"{pod} runs on {node} with {held} to the API, and the node's agent sees it hold none",
        impact="Faults of those GPUs are not told to their owner by name",
        advice="Look at the kubelet's pod resources on the node and at what the agent may read of them.",
        evidence=(
            Evidence(source="scheduler", text=f"{pod} runs on {node} and asks for {held}", at=_taken_at(fleet)),
            Evidence(source="reports", text=f"no GPU of {node} held by {pod}", at=fleet.window.nodes[node].received_at),
        ),
        gpus=len(placement.gpus),
        nodes=[node],
        workloads=(workload.id,),
    )


def _cluster(strangers: Mapping[str, Mapping[str, list[str]]], nodes: int, fleet: Fleet) -> Finding:
    names = sorted(strangers)
    few = ", ".join(f"{next(iter(strangers[name]))} on {name}" for name in names[:3])
    return _finding(
        fleet,
        incident=f"{RULE}:cluster",
        subject=Subject(cluster=fleet.cluster),
        action=Action.CONFIG_PROBLEM,
        sentence=f"{fleet.cluster}: agents of {len(names)} of {count_text(nodes, 'node')} name pods that the API lacks",
        impact="Who holds which GPU is not certain there",
        advice="Is this the cluster that the agents are in? Look at [kubernetes] kubeconfig and context.",
        evidence=(Evidence(source="reports", text=few, at=fleet.window.at),),
        gpus=sum(len(gpus) for pods in strangers.values() for gpus in pods.values()),
        nodes=names,
    )


def _finding(
    fleet: Fleet,
    *,
    incident: str,
    subject: Subject,
    action: Action,
    sentence: str,
    impact: str,
    advice: str,
    evidence: tuple[Evidence, ...],
    gpus: int,
    nodes: list[str],
    workloads: tuple[str, ...] = (),
) -> Finding:
    return Finding(
        rule=RULE,
        incident=incident,
        subject=subject,
        action=action,
        severity=Severity.WARNING,
        sentence=sentence,
        impact=impact,
        advice=advice,
        evidence=evidence,
        workloads_hit=workloads,
        gpus_hit=gpus,
        is_corroborated=False,
        began_at=fleet.window.at,
        facts={NODES: " ".join(nodes[:256]), MEMBERS: members_text([incident])},
    )


def _taken_at(fleet: Fleet) -> datetime | None:
    snapshot = fleet.window.snapshot
    return snapshot.taken_at if snapshot is not None else None
