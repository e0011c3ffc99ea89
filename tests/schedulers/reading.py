"""A cluster as the mirror would hold it, put together object by object, and the reader's snapshot of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from tests.fakes.clock import FakeClock

from trimtab.model.cluster import ClusterSnapshot, Node, Workload
from trimtab.model.devices import Device, NodeDevices
from trimtab.schedulers.mirror import Mirrored
from trimtab.schedulers.objects import Loose, NodeObject, Pod
from trimtab.schedulers.owners import PLURALS
from trimtab.schedulers.reader import KubernetesReader
from trimtab.settings import KubernetesSettings

RECORDED = Path(__file__).parent.parent / "fixtures" / "kubernetes"
GPU = "nvidia.com/gpu"
Json = dict[str, Any]
PLURAL_OF = {
    "Workload": "workloads.kueue.x-k8s.io",
    "ClusterQueue": "clusterqueues.kueue.x-k8s.io",
    "LocalQueue": "localqueues.kueue.x-k8s.io",
    "ResourceFlavor": "resourceflavors.kueue.x-k8s.io",
    "Topology": "topologies.kueue.x-k8s.io",
    "PodGroup": "podgroups.scheduling.volcano.sh",
    "Queue": "queues.scheduling.volcano.sh",
    "HyperNode": "hypernodes.topology.volcano.sh",
    "Command": "commands.bus.volcano.sh",
    "PodDisruptionBudget": "poddisruptionbudgets.policy",
    "ResourceClaim": "resourceclaims.resource.k8s.io",
    "ResourceSlice": "resourceslices.resource.k8s.io",
    "DeviceTaintRule": "devicetaintrules.resource.k8s.io",
    "NodeClaim": "nodeclaims.karpenter.sh",
    "Namespace": "namespaces",
    "ConfigMap": "configmaps",
}


def recorded(name: str) -> Json:
    """An object as the real API served it."""
    found: Json = json.loads((RECORDED / f"{name}.json").read_text())
    kind = {"pod": "Pod", "node": "Node"}.get(name.partition("-")[0])
    return found if kind is None else {**found, "kind": kind}  # a watch on pods does not say that they are pods


def moment(seconds: float = 0.0) -> str:
    return f"2026-11-02T09:00:{seconds:02.0f}Z"


def a_metadata(name: str, namespace: str = "team-a", **more: Any) -> Json:
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": moment(),
        **more,
    }


def owned_by(kind: str, name: str, version: str = "batch/v1", *, uid: str = "") -> list[Json]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": uid or f"uid-team-a-{name}", "controller": True}]


def node(
    name: str, *, gpus: int = 8, offered: int | None = None, taints: list[Json] | None = None, **more: Any
) -> Json:
    """A ready node; `offered` of its GPUs are given out."""
    metadata = {"labels": {"kubernetes.io/hostname": name, **more.pop("labels", {})}, **more.pop("metadata", {})}
    return {
        "kind": "Node",
        "metadata": a_metadata(name, "", **metadata),
        "spec": {"taints": taints or [], **more.pop("spec", {})},
        "status": {
            "capacity": {GPU: str(gpus), **more.pop("capacity", {})},
            "allocatable": {GPU: str(gpus if offered is None else offered)},
            "conditions": [{"type": "Ready", "status": more.pop("ready", "True")}],
        },
    }


def containers(gpus: int) -> list[Json]:
    return [{"name": "main", "resources": {"limits": {GPU: str(gpus)}} if gpus else {}}]


def pod(name: str, on: str = "", *, gpus: int = 8, owners: list[Json] | None = None, **more: Any) -> Json:
    """A pod that runs on a node, or waits where it has none."""
    phase = more.pop("phase", "Running" if on else "Pending")
    conditions = [{"type": "Ready", "status": "True"}] if phase == "Running" else []
    return {
        "kind": "Pod",
        "metadata": a_metadata(
            name, more.pop("namespace", "team-a"), ownerReferences=owners or [], **more.pop("metadata", {})
        ),
        "spec": {"nodeName": on, "containers": containers(gpus), **more.pop("spec", {})},
        "status": {"phase": phase, "startTime": moment(5), "conditions": conditions, **more.pop("status", {})},
    }


def unschedulable(message: str = f"0/6 nodes are available: 6 Insufficient {GPU}.", at: float = 7) -> Json:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return {"conditions": [{**condition, "lastTransitionTime": moment(at)}]}


def job(name: str, *, pods: int = 1, gpus: int = 8, **more: Any) -> Json:
    return {
        "kind": "Job",
        "apiVersion": "batch/v1",
        "metadata": a_metadata(name, **more.pop("metadata", {})),
        "spec": {
            "parallelism": pods,
            "completions": pods,
            "template": {"spec": {"containers": containers(gpus), **more.pop("pod_spec", {})}},
            **more.pop("spec", {}),
        },
        "status": more.pop("status", {}),
    }


def job_pods(name: str, *on: str, gpus: int = 8, **more: Any) -> list[Json]:
    """Pods of a Job, by completion index."""
    return [
        pod(
            f"{name}-{index}-x",
            where,
            gpus=gpus,
            owners=owned_by("Job", name),
            metadata={"labels": {"batch.kubernetes.io/job-completion-index": str(index)}, **more.get("metadata", {})},
            **{key: value for key, value in more.items() if key != "metadata"},
        )
        for index, where in enumerate(on)
    ]


def gone_soon(body: Json) -> Json:
    """The same pod once somebody has deleted it."""
    return {**body, "metadata": {**body["metadata"], "deletionTimestamp": moment(30)}}


def marked(body: Json, *, labels: Mapping[str, str] | None = None, **annotations: str) -> Json:
    """The same object with annotations; `do_not_move` stands for `trimtab/do-not-move`."""
    metadata = body["metadata"]
    own = {f"trimtab/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        **body,
        "metadata": {
            **metadata,
            "annotations": {**metadata.get("annotations", {}), **own},
            "labels": {**metadata.get("labels", {}), **(labels or {})},
        },
    }


def annotated(body: Json, **annotations: str) -> Json:
    return {
        **body,
        "metadata": {**body["metadata"], "annotations": {**body["metadata"].get("annotations", {}), **annotations}},
    }


def devices(
    name: str, held: Mapping[int, str] | None = None, *, gpus: int = 8, lost: tuple[int, ...] = ()
) -> NodeDevices:
    """What an agent says of a node; `held` maps index -> pod."""
    held = held or {}
    return NodeDevices(
        devices=tuple(
            Device(
                uuid=f"GPU-{name}-{index}",
                index=index,
                model="H200",
                holders=(held[index],) if index in held else (),
                is_ok=index not in lost,
            )
            for index in range(gpus)
        ),
    )


class Asked:
    """The API as far as the reader asks it by itself."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.error: Exception | None = None

    def get(self, path: str, params: Mapping[str, str] | None = None) -> Json:
        self.paths.append(path)
        if self.error is not None:
            raise self.error
        return {}


@dataclass
class Cluster:
    """Objects by kind, and a reader of them that lives on between changes."""

    settings: KubernetesSettings = field(default_factory=KubernetesSettings)
    clock: FakeClock = field(default_factory=FakeClock)
    says: dict[str, NodeDevices] = field(default_factory=dict)
    now: Mirrored = field(default_factory=Mirrored)
    api: Asked = field(default_factory=Asked)

    def __post_init__(self) -> None:
        self._version = 0
        self.reader = KubernetesReader(
            self,
            api=self.api,
            settings=self.settings,
            cluster="hall-a",
            clock=self.clock,
            devices=lambda: dict(self.says),
        )

    def doubt(self) -> None:
        """What it has is always of now."""

    def objects(self) -> Mirrored:
        return self.now

    def put(self, *bodies: Json) -> Cluster:
        """Objects, or new versions of them."""
        for body in bodies:
            self._version += 1
            self._put({**body, "metadata": {**body["metadata"], "resourceVersion": str(self._version)}})
        return self

    def _put(self, body: Json) -> None:
        kind = body.get("kind", "")
        if kind == "Node":
            one = msgspec.convert(body, NodeObject)
            self.now = replace(self.now, nodes={**self.now.nodes, one.metadata.key: one})
        elif kind == "Pod":
            found = msgspec.convert(body, Pod)
            self.now = replace(self.now, pods={**self.now.pods, found.metadata.key: found})
        else:
            group = body.get("apiVersion", "").rpartition("/")[0]
            plural = PLURALS.get((group, kind)) or PLURAL_OF[kind]
            loose = msgspec.convert(body, Loose)
            items = {**self.now.others.get(plural, {}), loose.metadata.key: loose}
            self.now = replace(self.now, others={**self.now.others, plural: items})

    def drop(self, kind: str, key: str) -> Cluster:
        """An object is gone: `nodes`, `pods`, or a kind by its plural."""
        if kind in ("nodes", "pods"):
            kept = {name: one for name, one in getattr(self.now, kind).items() if name != key}
            self.now = replace(self.now, **{kind: kept})
        else:
            kept = {name: one for name, one in self.now.others[kind].items() if name != key}
            self.now = replace(self.now, others={**self.now.others, kind: kept})
        return self

    def snapshot(self) -> ClusterSnapshot:
        return self.reader.snapshot()

    def node(self, name: str) -> Node:
        return self.snapshot().node_by_name[name]

    def workload(self, id_: str) -> Workload:
        found = self.snapshot().workload_by_id
        assert id_ in found, f"{id_} is not among {sorted(found)}"
        return found[id_]


def a_cluster(*bodies: Json, says: Mapping[str, NodeDevices] | None = None, **settings: Any) -> Cluster:
    return Cluster(settings=KubernetesSettings(**settings), says=dict(says or {})).put(*bodies)
