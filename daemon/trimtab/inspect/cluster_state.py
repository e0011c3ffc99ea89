"""Kubernetes nodes and pods of a file -> one snapshot, as the detectors and the planner want it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from trimtab.collect.documents import Document, list_of, tables_of, text_at, whole
from trimtab.collect.kubectl import GPU, KubeNode, KubePod
from trimtab.model.cluster import ClusterSnapshot, Gpu, Node, Placement, Workload, WorkloadState

_GANG_OWNERS = frozenset(
    {"Job", "JobSet", "PodGroup", "PyTorchJob", "MPIJob", "TFJob", "RayCluster", "RayJob", "TrainJob"}
)
_WAITED_SECONDS = 3600.0
"""How long a pod counts as waiting where the file does not say since when."""


def snapshot_of(nodes: Sequence[KubeNode], pods: Sequence[KubePod], *, now: datetime) -> ClusterSnapshot:
    """Whole GPUs only: split and shared cards are no seats, and pods that ask shares are not placed."""
    made = {node.name: _node(node) for node in nodes}
    free = {name: [gpu.uuid for gpu in node.gpus] for name, node in made.items()}
    groups: dict[str, list[KubePod]] = {}
    for pod in pods:
        if pod.gpus and pod.phase not in ("Failed", "Succeeded") and (pod.node is None or pod.node in made):
            groups.setdefault(_group(pod), []).append(pod)
    return ClusterSnapshot(
        cluster="",
        taken_at=now,
        nodes=tuple(made.values()),
        workloads=tuple(_workload(key, own, free, now) for key, own in groups.items()),
    )


def _node(node: KubeNode) -> Node:
    total = max(node.allocatable_gpus, (node.capacity or {}).get(GPU, 0) if not node.slices and not node.slots else 0)
    return Node(
        name=node.name,
        gpus=tuple(
            Gpu(uuid=f"{node.name}/{index}", index=index, is_usable=index < node.allocatable_gpus)
            for index in range(total)
        ),
        rack=node.labels.get("topology.kubernetes.io/zone"),
        is_ready=node.is_ready,
        is_cordoned=not node.is_schedulable,
        labels=node.labels,
    )


def _group(pod: KubePod) -> str:
    """Pods of one gang go together; any other pod is a workload of its own."""
    kind, _, _ = (pod.owner or "").partition("/")
    return f"{pod.namespace}/{pod.owner}" if kind in _GANG_OWNERS else pod.key


def _workload(key: str, pods: Sequence[KubePod], free: Mapping[str, list[str]], now: datetime) -> Workload:
    placements = []
    for rank, pod in enumerate(pods):
        own = free.get(pod.node or "", [])
        if pod.holds_gpus and len(own) >= pod.gpus:
            gpus = tuple(own[: pod.gpus])
            del own[: pod.gpus]
            placements.append(Placement(pod=pod.name, rank=rank, node=pod.node or "", gpus=gpus))
    first = pods[0]
    waits = any(not pod.holds_gpus for pod in pods)
    return Workload(
        id=key,
        name=key.rpartition("/")[2],
        controller=(first.owner or "Pod").partition("/")[0],
        pods=len(pods),
        gpus_per_pod=max(pod.gpus for pod in pods),
        state=_state(pods, waits=waits),
        is_gang=len(pods) > 1,
        queue=first.queue,
        tenant=first.namespace,
        priority=first.priority,
        placements=tuple(placements),
        started_at=min((pod.started_at for pod in pods if pod.started_at), default=None),
        waiting_since=_since(pods, now) if waits else None,
        waiting_reason=_reason(pods) if waits else None,
    )


def _state(pods: Sequence[KubePod], *, waits: bool) -> WorkloadState:
    if waits:
        return WorkloadState.WAITING
    return WorkloadState.STOPPING if all(pod.is_terminating for pod in pods) else WorkloadState.RUNNING


def _since(pods: Iterable[KubePod], now: datetime) -> datetime:
    created = min((pod.created_at for pod in pods if pod.created_at), default=None)
    return created or now - timedelta(seconds=_WAITED_SECONDS)


def _reason(pods: Sequence[KubePod]) -> str:
    if any(pod.is_gated for pod in pods):
        return "quota"
    return "placement"


def sketch_of(document: Mapping[str, Document]) -> tuple[list[KubeNode], list[KubePod]] | None:
    """A sketch of a cluster (`nodes` with their `pods`, and `pending`), as people write one; None for any other."""
    nodes = tables_of(document.get("nodes"))
    if not nodes or not all(text_at(one, "node") and whole(one.get("gpus")) is not None for one in nodes):
        return None
    found = [
        KubeNode(name=text_at(one, "node") or "", capacity=None, allocatable={GPU: whole(one.get("gpus")) or 0},
                 gpus=whole(one.get("gpus")))
        for one in nodes
    ]  # fmt: skip
    pods = [_sketched_pod(pod, text_at(one, "node")) for one in nodes for pod in tables_of(one.get("pods"))]
    pods += [_sketched_pod(pod, None) for pod in list_of(document.get("pending")) if isinstance(pod, Mapping)]
    return found, pods


def _sketched_pod(pod: Mapping[str, Document], node: str | None) -> KubePod:
    gpus = whole(pod.get("gpu")) or whole(pod.get("gpus")) or 0
    return KubePod(
        namespace=text_at(pod, "namespace") or "default",
        name=text_at(pod, "name") or "?",
        node=node,
        phase=text_at(pod, "state") or ("Running" if node else "Pending"),
        priority=whole(pod.get("priority")) or 0,
        gpus=gpus,
        gpus_used=gpus,
    )
