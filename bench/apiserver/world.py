"""A large cluster of recorded objects: nodes in racks, gangs under Jobs and Kueue Workloads, and their changes."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Json = dict[str, Any]

OBJECTS = Path(__file__).parent / "objects"
RACK_NODES = 16
GANG_PODS = 4
GPUS_PER_POD = 2
LISTS = {
    "/api/v1/nodes": ("Node", "v1"),
    "/api/v1/pods": ("Pod", "v1"),
    "/apis/batch/v1/jobs": ("Job", "batch/v1"),
    "/apis/kueue.x-k8s.io/v1beta2/workloads": ("Workload", "kueue.x-k8s.io/v1beta2"),
    "/apis/kueue.x-k8s.io/v1beta2/clusterqueues": ("ClusterQueue", "kueue.x-k8s.io/v1beta2"),
    "/apis/kueue.x-k8s.io/v1beta2/localqueues": ("LocalQueue", "kueue.x-k8s.io/v1beta2"),
    "/apis/kueue.x-k8s.io/v1beta2/resourceflavors": ("ResourceFlavor", "kueue.x-k8s.io/v1beta2"),
    "/apis/kueue.x-k8s.io/v1beta2/topologies": ("Topology", "kueue.x-k8s.io/v1beta2"),
    "/apis/kueue.x-k8s.io/v1beta2/cohorts": ("Cohort", "kueue.x-k8s.io/v1beta2"),
    "/apis/kueue.x-k8s.io/v1beta2/admissionchecks": ("AdmissionCheck", "kueue.x-k8s.io/v1beta2"),
    "/apis/kueue.x-k8s.io/v1beta2/workloadpriorityclasses": ("WorkloadPriorityClass", "kueue.x-k8s.io/v1beta2"),
    "/apis/policy/v1/poddisruptionbudgets": ("PodDisruptionBudget", "policy/v1"),
    "/apis/apps/v1/deployments": ("Deployment", "apps/v1"),
    "/apis/apps/v1/replicasets": ("ReplicaSet", "apps/v1"),
    "/apis/apps/v1/statefulsets": ("StatefulSet", "apps/v1"),
    "/apis/apps/v1/daemonsets": ("DaemonSet", "apps/v1"),
    "/api/v1/namespaces": ("Namespace", "v1"),
    "/api/v1/namespaces/trimtab/configmaps": ("ConfigMap", "v1"),
}


class World:
    """Nodes of 8 GPUs, and pods of 2 in gangs of 4; each gang has its Job and its Workload."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._random = random.Random(7)
        self._templates = {path.stem: json.loads(path.read_text()) for path in OBJECTS.glob("*.json")}
        self.version = 10_000
        self.nodes = nodes
        self.pods: dict[str, Json] = {}
        self.lists: dict[str, list[Json]] = {path: [] for path in LISTS}
        self.lists["/api/v1/nodes"] = [self._node(number) for number in range(nodes)]
        for gang in range(pods // GANG_PODS):
            self._gang(gang)
        self.lists["/api/v1/pods"] = list(self.pods.values())
        self._queues()

    def changes(self) -> Iterator[tuple[str, Json]]:
        """Endless: most are a pod's status, some a pod that is gone and the one made in its place."""
        while True:
            pod = self._random.choice(list(self.pods.values()))
            if self._random.random() < 0.8:
                ready = pod["status"]["conditions"][1]
                ready["status"] = "False" if ready["status"] == "True" else "True"
                yield "MODIFIED", self._touched(pod)
            else:
                meta = pod["metadata"]
                del self.pods[meta["name"]]
                yield "DELETED", self._touched(pod)
                successor = _copy(pod)
                name = f"{meta['generateName']}{self.version:x}"
                successor["metadata"].update(name=name, uid=f"uid-{name}")
                self.pods[name] = successor
                yield "ADDED", self._touched(successor)

    def _touched(self, one: Json) -> Json:
        self.version += 1
        one["metadata"]["resourceVersion"] = str(self.version)
        return one

    def _node(self, number: int) -> Json:
        node = _copy(self._templates["node"])
        name, rack = f"gpu-{number:04d}", f"rack-{number // RACK_NODES:03d}"
        labels = {**node["metadata"]["labels"], "kubernetes.io/hostname": name, "topology.trimtab/rack": rack}
        node["metadata"].update(
            name=name, uid=f"uid-{name}", labels={**labels, "nvidia.com/gpu.product": "NVIDIA-H200"}
        )
        return node

    def _gang(self, gang: int) -> None:
        name, namespace = f"train-{gang:04d}", f"team-{gang % 20}"
        job, workload = _copy(self._templates["job"]), _copy(self._templates["workload"])
        job["metadata"].update(name=name, namespace=namespace, uid=f"uid-{name}")
        job["spec"].update(parallelism=GANG_PODS, completions=GANG_PODS)
        meta = workload["metadata"]
        meta.update(name=f"job-{name}", namespace=namespace, uid=f"uid-w-{name}")
        meta["labels"]["kueue.x-k8s.io/job-uid"] = job["metadata"]["uid"]
        meta["ownerReferences"][0].update(name=name, uid=job["metadata"]["uid"])
        workload["spec"]["podSets"][0]["count"] = GANG_PODS
        for body in (job["spec"]["template"], workload["spec"]["podSets"][0]["template"]):
            _ask(body["spec"])
        self.lists["/apis/batch/v1/jobs"].append(job)
        self.lists["/apis/kueue.x-k8s.io/v1beta2/workloads"].append(workload)
        for rank in range(GANG_PODS):
            self._pod(job, rank, node=(gang * GANG_PODS + rank) // (8 // GPUS_PER_POD) % self.nodes)

    def _pod(self, job: Json, rank: int, *, node: int) -> None:
        pod = _copy(self._templates["pod"])
        name, owner = f"{job['metadata']['name']}-{rank}", job["metadata"]
        meta = pod["metadata"]
        meta.update(name=f"{name}-x", generateName=f"{name}-", namespace=owner["namespace"], uid=f"uid-{name}")
        meta["labels"].update(
            {
                "batch.kubernetes.io/job-name": owner["name"],
                "job-name": owner["name"],
                "batch.kubernetes.io/job-completion-index": str(rank),
            }
        )
        meta["annotations"].update(
            {"kueue.x-k8s.io/workload": f"job-{owner['name']}", "batch.kubernetes.io/job-completion-index": str(rank)}
        )
        meta["ownerReferences"][0].update(name=owner["name"], uid=owner["uid"])
        pod["spec"]["nodeName"] = pod["spec"]["nodeSelector"]["kubernetes.io/hostname"] = f"gpu-{node:04d}"
        _ask(pod["spec"])
        self.pods[meta["name"]] = pod

    def _queues(self) -> None:
        queue = _copy(self._templates["clusterqueue"])
        queue["spec"]["resourceGroups"][0]["flavors"][0]["resources"][1]["nominalQuota"] = str(self.nodes * 8)
        self.lists["/apis/kueue.x-k8s.io/v1beta2/clusterqueues"].append(queue)
        for number in range(20):
            local = _copy(self._templates["localqueue"])
            local["metadata"].update(namespace=f"team-{number}", uid=f"uid-lq-{number}")
            self.lists["/apis/kueue.x-k8s.io/v1beta2/localqueues"].append(local)
            meta = {"name": f"team-{number}", "uid": f"uid-ns-{number}", "resourceVersion": "1"}
            self.lists["/api/v1/namespaces"].append({"metadata": meta, "spec": {}, "status": {"phase": "Active"}})
        for kind, plural in (("resourceflavor", "resourceflavors"), ("topology", "topologies")):
            self.lists[f"/apis/kueue.x-k8s.io/v1beta2/{plural}"].append(self._templates[kind])


def discovery() -> Json:
    """Aggregated discovery of what the lists hold."""
    groups: dict[str, dict[str, list[Json]]] = {}
    for path, (kind, api_version) in LISTS.items():
        group, _, version = api_version.rpartition("/")
        if group:
            entry = {"resource": path.rsplit("/", 1)[1], "responseKind": {"kind": kind}, "verbs": ["list", "watch"]}
            groups.setdefault(group, {}).setdefault(version, []).append(entry)
    items = [
        {"metadata": {"name": group}, "versions": [{"version": v, "resources": r} for v, r in versions.items()]}
        for group, versions in groups.items()
    ]
    return {"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "items": items}


def _ask(spec: Json) -> None:
    for amounts in spec["containers"][0]["resources"].values():
        amounts["nvidia.com/gpu"] = str(GPUS_PER_POD)


def _copy(one: Json) -> Json:
    found: Json = json.loads(json.dumps(one))
    return found
