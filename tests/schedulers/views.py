"""A view and a snapshot of any API, as plain as adapters need them: tests of adapters do not wait for the reader."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from tests.builders import a_snapshot
from tests.fakes.clock import START

from trimtab.errors import SchedulerGone
from trimtab.model.cluster import ClusterSnapshot, Gpu, Node, Placement, Workload, WorkloadState
from trimtab.schedulers.kubernetes import Api
from trimtab.schedulers.objects import Loose, NodeObject, Pod
from trimtab.schedulers.view import View

GPU = "nvidia.com/gpu"
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
KINDS: Mapping[str, tuple[str, str]] = {
    "jobs.batch": ("/apis/batch/v1/jobs", "Job"),
    "deployments.apps": ("/apis/apps/v1/deployments", "Deployment"),
    "replicasets.apps": ("/apis/apps/v1/replicasets", "ReplicaSet"),
    "statefulsets.apps": ("/apis/apps/v1/statefulsets", "StatefulSet"),
    "daemonsets.apps": ("/apis/apps/v1/daemonsets", "DaemonSet"),
    "jobsets.jobset.x-k8s.io": ("/apis/jobset.x-k8s.io/v1alpha2/jobsets", "JobSet"),
    "poddisruptionbudgets.policy": ("/apis/policy/v1/poddisruptionbudgets", "PodDisruptionBudget"),
    "resourceslices.resource.k8s.io": ("/apis/resource.k8s.io/v1/resourceslices", "ResourceSlice"),
    "devicetaintrules.resource.k8s.io": ("/apis/resource.k8s.io/v1alpha3/devicetaintrules", "DeviceTaintRule"),
}


def view_of(api: Api) -> View:
    """Everything as it is now."""
    others = {name: _listed(api, path, Loose) for name, (path, _) in KINDS.items()}
    pods = _listed(api, PODS, Pod)
    owners = {
        _id(one.metadata.namespace, KINDS[name][1], one.metadata.name): one
        for name, kind in others.items()
        for one in kind.values()
    }
    pods_of: dict[str, tuple[Pod, ...]] = {}
    for pod in pods.values():
        if not pod.is_over:
            top = _top(pod, others)
            pods_of[top] = (*pods_of.get(top, ()), pod)
    return View(
        nodes=_listed(api, NODES, NodeObject),
        pods=pods,
        others=others,
        served={name: path.split("/")[-2] for name, (path, _) in KINDS.items()},
        pods_of=pods_of,
        owner_of={name: one for name, one in owners.items() if name in pods_of or one.spec.get("suspend")},
    )


def snapshot_of(api: Api, **wishes: Mapping[str, Any]) -> ClusterSnapshot:
    """Nodes with their GPUs and the workloads of the view; `wishes` by plain name change a workload."""
    view = view_of(api)
    free = {name: list(range(int(node.status.allocatable.get(GPU, "0")))) for name, node in view.nodes.items()}
    workloads = []
    for name, pods in sorted(view.pods_of.items()):
        plain = name.split("/")[2]
        placements = tuple(_placement(pod, rank, free) for rank, pod in enumerate(pods) if pod.spec.node_name)
        fields: dict[str, Any] = {
            "is_gang": "/job" in name,
            "state": WorkloadState.RUNNING if len(placements) == len(pods) else WorkloadState.WAITING,
            "pods": len(pods),
            "gpus_per_pod": _gpus(pods[0]),
            "placements": placements,
            **wishes.get(plain, {}),
        }
        workloads.append(Workload(id=name, name=plain, controller=fields.pop("controller", "kubernetes"), **fields))
    nodes = [
        Node(
            name=name,
            gpus=tuple(Gpu(uuid=f"{name}#{i}", index=i) for i in range(int(node.status.allocatable.get(GPU, "0")))),
            is_cordoned=node.spec.unschedulable,
        )
        for name, node in view.nodes.items()
    ]
    return a_snapshot(nodes, workloads, taken_at=START)


def _listed(api: Api, path: str, kind: type[Any]) -> dict[str, Any]:
    try:
        items = api.get(path).get("items") or ()
    except SchedulerGone:
        return {}
    found = msgspec.convert(items, tuple[kind, ...])  # type: ignore[valid-type]
    return {one.metadata.key: one for one in found}


def _id(namespace: str, kind: str, name: str) -> str:
    return f"{namespace}/{kind.lower()}/{name}"


def _top(pod: Pod, others: Mapping[str, Mapping[str, Loose]]) -> str:
    owner, namespace = pod.metadata.owner, pod.metadata.namespace
    if owner is None or owner.kind == "Node":
        return _id(namespace, "pod", pod.metadata.name)
    while True:
        plural = next((name for name, (_, kind) in KINDS.items() if kind == owner.kind), "")
        item = others.get(plural, {}).get(f"{namespace}/{owner.name}")
        if item is None or item.metadata.owner is None:
            return _id(namespace, owner.kind, owner.name)
        owner = item.metadata.owner


def _gpus(pod: Pod) -> int:
    return sum(int(one.resources.limits.get(GPU, "0")) for one in pod.spec.containers)


def _placement(pod: Pod, rank: int, free: dict[str, list[int]]) -> Placement:
    node = pod.spec.node_name
    taken = [free[node].pop(0) for _ in range(min(_gpus(pod), len(free.get(node, ()))))]
    return Placement(pod=pod.metadata.name, rank=rank, node=node, gpus=tuple(f"{node}#{index}" for index in taken))
