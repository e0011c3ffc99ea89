"""A small hall on the fake API: controllers of Jobs, Deployments and StatefulSets, a scheduler and kubelets, in steps.

Just enough of each for moves in plain Kubernetes: suspended Jobs lose their pods, evicted pods are made anew, and
pods that wait are placed by room, cordons, taints, nominations and preferences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster import objects
from tests.fakes.kube import FakeKube

from trimtab.clock import iso

Json = dict[str, Any]
NAMESPACE = "team"
GPU = "nvidia.com/gpu"
READY = [{"type": "Ready", "status": "True"}]
KINDS = {"job": ("batch/v1", "Job", "jobs"), "deployment": ("apps/v1", "Deployment", "deployments")}
KINDS["statefulset"] = ("apps/v1", "StatefulSet", "statefulsets")


class PlainHall:
    """Nodes of eight GPUs; `step` lets everybody but us act once."""

    def __init__(self, nodes: Sequence[str], kube: FakeKube | None = None) -> None:
        self.kube = kube or FakeKube()
        for node in nodes:
            made = objects.node(node)
            made["spec"] = {}
            self.kube.add({**made, **objects.node_status()})

    def add(self, kind: str, name: str, *, pods: int, gpus: int, on: Sequence[str] = (), **spec: Any) -> None:
        """An owner with its pods running on these nodes, one each; without nodes they wait."""
        version, word, _ = KINDS[kind]
        labels = _labels(kind, name)
        size = {"parallelism": pods, "completions": pods} if kind == "job" else {"replicas": pods}
        template = {"metadata": {"labels": labels}, "spec": {"gpus": gpus}}
        body = {"selector": {"matchLabels": labels}, "template": template, **size, **spec}
        metadata = {"name": name, "namespace": NAMESPACE}
        status = {"startTime": "2026-11-02T08:00:00Z"} if kind == "job" else {}
        made = self.kube.add(
            {"apiVersion": version, "kind": word, "metadata": metadata, "spec": body, "status": status}
        )
        if kind == "deployment":
            between = {**metadata, "ownerReferences": [_reference(made, word)]}
            self.kube.add({"apiVersion": version, "kind": "ReplicaSet", "metadata": between, "spec": {}, "status": {}})
        self._make_pods(kind)
        for pod, node in zip(self.pods(name), on, strict=False):
            self._bind(pod, node)

    def add_small_pod(self, name: str, gpus: int = 1) -> None:
        """A pod of its own that waits."""
        self._pod(name, {"app": name}, None, {"gpus": gpus})

    def owner(self, kind: str, name: str) -> Json:
        found = self.kube.see(f"{_path(kind)}/{name}")
        assert found is not None
        return found

    def pods(self, name: str) -> list[Json]:
        """The pods of an owner, by name."""
        return [pod for pod in self.kube.all("pods") if pod["metadata"]["name"].startswith(f"{name}-")]

    def seats(self, name: str) -> list[str]:
        """Nodes of its running pods."""
        return sorted(
            pod["spec"]["nodeName"]
            for pod in self.pods(name)
            if pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]
        )

    def step(self) -> None:
        """Kubelets end what is terminating; controllers make what is missing; the scheduler places what waits."""
        for pod in self.kube.all("pods"):
            if "deletionTimestamp" in pod["metadata"]:
                self.kube.finish_pod(NAMESPACE, pod["metadata"]["name"])
        for kind in KINDS:
            self._make_pods(kind)
        for pod in self.kube.all("pods"):
            if not pod["spec"].get("nodeName"):
                self._place(pod)

    def settle(self) -> None:
        """Steps until nothing moves any more."""
        for _ in range(20):
            before = self.kube.state_key()
            self.step()
            if self.kube.state_key() == before:
                return

    def _now(self) -> str:
        clock = self.kube.clock
        return iso(clock.now()) if clock is not None else "2026-11-02T08:00:00Z"

    # --- controllers

    def _make_pods(self, kind: str) -> None:
        for owner in self.kube.all({"job": "jobs.batch"}.get(kind, f"{KINDS[kind][2]}.apps")):
            name, spec = owner["metadata"]["name"], owner["spec"]
            mine = self.pods(name)
            if spec.get("suspend"):
                for pod in mine:
                    if pod["spec"].get("nodeName"):
                        mark = {"metadata": {"deletionTimestamp": self._now()}}
                        self.kube.edit(_pod_path(pod["metadata"]["name"]), mark)
                    else:
                        self.kube.remove(_pod_path(pod["metadata"]["name"]))
                continue
            self._fill(kind, owner, mine)

    def _fill(self, kind: str, owner: Json, mine: Sequence[Json]) -> None:
        name, spec = owner["metadata"]["name"], owner["spec"]
        # A Deployment does not wait for the old pod to be gone.
        counted = [pod for pod in mine if kind != "deployment" or "deletionTimestamp" not in pod["metadata"]]
        taken = {pod["metadata"]["name"] for pod in mine}
        for _ in range(spec.get("parallelism", spec.get("replicas", 1)) - len(counted)):
            if kind == "statefulset":
                new = next(f"{name}-{i}" for i in range(100) if f"{name}-{i}" not in taken)
                taken.add(new)
            else:
                new = f"{name}-0-{len(self.kube.all('pods')):02d}{self.kube.snapshot().serial:03d}"
            self._pod(new, _labels(kind, name), owner, spec["template"]["spec"])

    def _pod(self, name: str, labels: Mapping[str, str], owner: Json | None, template: Json) -> None:
        metadata: Json = {"name": name, "namespace": NAMESPACE, "labels": dict(labels)}
        if owner is not None:
            kind = "ReplicaSet" if owner["kind"] == "Deployment" else owner["kind"]
            metadata["ownerReferences"] = [_reference(owner, kind)]
        limits = {GPU: str(template["gpus"])}
        spec: Json = {"containers": [{"name": "main", "resources": {"limits": limits, "requests": limits}}]}
        spec.update({key: template[key] for key in ("tolerations", "affinity") if key in template})
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}
        self.kube.add(body)

    # --- the scheduler

    def _place(self, pod: Json) -> None:
        fitting = [node for node in self.kube.all("nodes") if self._fits(pod, node)]
        told = pod["status"].get("nominatedNodeName")
        fitting.sort(key=lambda node: (node["metadata"]["name"] != told, not _prefers(pod, node)))
        if fitting:
            self._bind(pod, fitting[0]["metadata"]["name"])
        elif not pod["status"].get("conditions"):
            count = len(self.kube.all("nodes"))
            why = f"0/{count} nodes are available: {count} Insufficient {GPU}."
            waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
            self.kube.edit(_pod_path(pod["metadata"]["name"]), {"status": {"conditions": [waits]}}, by="scheduler")

    def _fits(self, pod: Json, node: Json) -> bool:
        if node["spec"].get("unschedulable"):
            return False
        passes = [(one["key"], one.get("value")) for one in pod["spec"].get("tolerations") or ()]
        if any((one["key"], one.get("value")) not in passes for one in node["spec"].get("taints") or ()):
            return False
        name = node["metadata"]["name"]
        used = sum(_gpus(one) for one in self.kube.all("pods") if one["spec"].get("nodeName") == name)
        return used + _gpus(pod) <= 8

    def _bind(self, pod: Json, node: str) -> None:
        status = {"phase": "Running", "conditions": READY, "startTime": self._now()}
        change = {"spec": {"nodeName": node}, "status": status}
        self.kube.edit(_pod_path(pod["metadata"]["name"]), change, by="scheduler")


def _reference(owner: Json, kind: str) -> Json:
    metadata = owner["metadata"]
    identity = {"apiVersion": owner["apiVersion"], "kind": kind, "name": metadata["name"], "uid": metadata["uid"]}
    return {**identity, "controller": True}


def _labels(kind: str, name: str) -> dict[str, str]:
    return {"batch.kubernetes.io/job-name": name} if kind == "job" else {"app": name}


def _path(kind: str) -> str:
    version, _, plural = KINDS[kind]
    return f"/apis/{version}/namespaces/{NAMESPACE}/{plural}"


def _pod_path(name: str) -> str:
    return f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"


def _gpus(pod: Json) -> int:
    return int(pod["spec"]["containers"][0]["resources"]["limits"][GPU])


def _prefers(pod: Json, node: Json) -> bool:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
    labels = node["metadata"].get("labels") or {}
    return any(
        labels.get(wish["key"]) in wish["values"] for term in terms for wish in term["preference"]["matchExpressions"]
    )
