"""A test's own corner of the plane: a namespace, a pool of nodes in racks, and queues; cleaned and removed whole."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

from tests.cluster import objects
from tests.cluster.client import ApiError, Client, Json, wait_for
from tests.cluster.kubelet import set_ready

TAS, FLAT = "tas", "flat"
"""Names of the two LocalQueues of a space: one places by topology, the other leaves it to kube-scheduler."""
OURS = "trimtab"
_OWNERS = ("jobsets", "jobs", "deployments", "statefulsets", "poddisruptionbudgets")
_TERMINAL = ("Succeeded", "Failed")


class Space:
    """One namespace with its nodes and queues; all names on it are its own, so spaces do not meet."""

    def __init__(self, client: Client, *, prefix: str = "s", has_kueue: bool = True) -> None:
        self.client, self._has_kueue = client, has_kueue
        self.namespace = f"{prefix}-{secrets.token_hex(3)}"
        self.nodes: list[str] = []
        self._added: list[tuple[str, str]] = []
        client.create("namespaces", {"metadata": {"name": self.namespace}})
        if has_kueue:
            self._make_queues()

    # Nodes

    def add_racks(self, racks: int = 2, nodes_per_rack: int = 5, *, gpus: int = 8, **options: Any) -> list[str]:
        """Nodes NAMESPACE-r1-n1 … labelled with rack, pool and hostname; options as `add_node` has them."""
        names = [
            self._create_node(f"r{rack}-n{number}", rack=f"r{rack}", gpus=gpus, **options)
            for rack in range(1, racks + 1)
            for number in range(1, nodes_per_rack + 1)
        ]
        self._wait_untainted(names)
        return names

    def add_node(self, short_name: str, **options: Any) -> str:
        """One ready node; options: rack, gpus, labels, annotations, taints, capacity. Returns its full name."""
        name = self._create_node(short_name, **options)
        self._wait_untainted([name])
        return name

    def _create_node(
        self,
        short_name: str,
        *,
        rack: str = "r1",
        gpus: int = 8,
        labels: dict[str, str] | None = None,
        annotations: dict[str, str] | None = None,
        taints: Sequence[Json] = (),
        capacity: dict[str, str] | None = None,
    ) -> str:
        name = f"{self.namespace}-{short_name}"
        own = {objects.POOL: self.namespace, objects.RACK: f"{self.namespace}-{rack}"}
        made = objects.node(name, labels={**own, **(labels or {})}, annotations=annotations, taints=taints)
        self.client.create("nodes", made)
        status = objects.node_status(gpus=gpus, capacity=capacity)
        self.client.patch("nodes", name, status, kind="strategic", subresource="status")
        self.nodes.append(name)
        return name

    def rack_of(self, node: str) -> str:
        """The value of a node's rack label."""
        return self.client.get("nodes", node)["metadata"]["labels"][objects.RACK]

    def cordon(self, *nodes: str) -> None:
        """As `kubectl cordon`: by a person, not by trimtab."""
        for node in nodes:
            self.client.patch("nodes", node, {"spec": {"unschedulable": True}}, fieldManager="kubectl-cordon")

    def uncordon(self, *nodes: str) -> None:
        """As `kubectl uncordon`."""
        for node in nodes:
            self.client.patch("nodes", node, {"spec": {"unschedulable": None}}, fieldManager="kubectl-cordon")

    # Workloads

    def add(self, resource: str, body: Json) -> Json:
        """Create anything; what is outside the namespace is removed with the space."""
        made = self.client.create(resource, body)
        if "namespace" not in made["metadata"]:
            self._added.append((resource, made["metadata"]["name"]))
        return made

    def run_gang(self, name: str, *, queue: str | None = TAS, **options: Any) -> Json:
        """Create a gang (options as `objects.gang` has them) and wait until all its pods run."""
        made = self.gang(name, queue=queue, **options)
        self.wait_running(name, made["spec"]["parallelism"])
        return made

    def gang(self, name: str, *, queue: str | None = TAS, **options: Any) -> Json:
        """Create a gang on this space's nodes and return at once."""
        return self.client.create("jobs", objects.gang(name, self.namespace, queue=queue, **self._here(queue, options)))

    def deployment(self, name: str, **options: Any) -> Json:
        """Create a Deployment on this space's nodes."""
        here = self._here(options.get("queue"), options)
        return self.client.create("deployments", objects.deployment(name, self.namespace, **here))

    def stateful_set(self, name: str, **options: Any) -> Json:
        """Create a StatefulSet on this space's nodes."""
        here = self._here(options.get("queue"), options)
        return self.client.create("statefulsets", objects.stateful_set(name, self.namespace, **here))

    def pods(self, name: str = "") -> list[Json]:
        """Pods that have not ended: of a Job, Deployment or StatefulSet by its name, or all."""
        return [
            pod
            for pod in self.client.list("pods", self.namespace)
            if pod["status"].get("phase") not in _TERMINAL and (not name or _belongs(pod, name))
        ]

    def seats(self, name: str = "") -> list[str]:
        """Nodes of the running pods, sorted, one entry a pod."""
        return sorted(pod["spec"]["nodeName"] for pod in self.pods(name) if _is_running(pod))

    def wait_running(self, name: str, pods: int, *, deadline_seconds: float = 60.0) -> list[str]:
        """Until so many pods run and none other is left; their nodes."""

        def are_running() -> list[str]:
            return self.seats(name) if len(self.pods(name)) == pods == len(self.seats(name)) else []

        return wait_for(are_running, f"{pods} pods of {name} running", deadline_seconds=deadline_seconds)

    def workload(self, job: str) -> Json | None:
        """Kueue's Workload of a Job, or None when there is none yet."""
        found = self.client.list("workloads", self.namespace)
        return next((item for item in found if _is_owned_by(item, job)), None)

    def wait_condition(self, job: str, condition: str, *, deadline_seconds: float = 60.0) -> Json:
        """Until the Job's Workload has a condition, written as `Admitted=True` or `Evicted=True/Deactivated`."""

        def has_it() -> Json | None:
            workload = self.workload(job)
            return workload if workload and condition in conditions(workload) else None

        return wait_for(has_it, f"{condition} on {job}", deadline_seconds=deadline_seconds)

    def set_active(self, job: str, *, is_active: bool) -> None:
        """Deactivate or reactivate the Job's Workload, as a person does."""
        workload = wait_for(lambda: self.workload(job), f"a Workload of {job}")
        self.client.patch("workloads", workload["metadata"]["name"], {"spec": {"active": is_active}}, self.namespace)

    # The end

    def reset(self) -> None:
        """As new: no workloads, nodes ready, uncordoned and without our taints and annotations, queues open."""
        for resource in _OWNERS:
            for name in _names(self.client, resource, self.namespace):
                self._remove(resource, name, self.namespace)
        self._drop_pods()
        for node in self.client.list("nodes", labels=f"{objects.POOL}={self.namespace}"):
            self._reset_node(node)
        if self._has_kueue:
            self._open_queues()

    def remove(self) -> None:
        """Everything gone, nodes and queues too."""
        self.reset()
        self.client.delete("namespaces", self.namespace)
        for node in self.client.list("nodes", labels=f"{objects.POOL}={self.namespace}"):
            self._remove("nodes", node["metadata"]["name"])
        for resource, name in reversed(self._added):
            self._remove(resource, name)

    def _make_queues(self) -> None:
        """Create the Topology, both flavors, both ClusterQueues and their LocalQueues `tas` and `flat`."""
        labels = {objects.POOL: self.namespace}
        tas, flat = f"{self.namespace}-{TAS}", f"{self.namespace}-{FLAT}"
        self.add("topologies", objects.topology(self.namespace))
        self.add("resourceflavors", objects.flavor(tas, node_labels=labels, topology_name=self.namespace))
        self.add("resourceflavors", objects.flavor(flat, node_labels=labels))
        for local, name in ((TAS, tas), (FLAT, flat)):
            self.add("clusterqueues", objects.cluster_queue(name, flavors=[name]))
            self.add("localqueues", objects.local_queue(local, self.namespace, cluster_queue=name))
        for name in (tas, flat):
            wait_for(lambda name=name: _is_active(self.client.get("clusterqueues", name)), f"{name} active")

    def _here(self, queue: object, options: dict[str, Any]) -> dict[str, Any]:
        """Without a queue nothing sends pods to this space's nodes: a node selector does."""
        if queue is not None:
            return options
        spec = dict(options.get("pod_spec") or {})
        selector = {objects.POOL: self.namespace, **spec.get("nodeSelector", {})}
        return {**options, "pod_spec": {**spec, "nodeSelector": selector}}

    def _wait_untainted(self, names: list[str]) -> None:
        """The API server taints a new node not-ready, and node-lifecycle takes that away."""

        def are_untainted() -> bool:
            nodes = self.client.list("nodes", labels=f"{objects.POOL}={self.namespace}")
            return not any(_is_tainted_not_ready(node) for node in nodes if node["metadata"]["name"] in names)

        wait_for(are_untainted, f"{', '.join(names)} without the taint not-ready")

    def _drop_pods(self) -> None:
        def is_empty() -> bool:
            for pod in self.client.list("pods", self.namespace):
                # Without grace: a reset need not wait for what the fake kubelet would play.
                self._remove("pods", pod["metadata"]["name"], self.namespace, grace_seconds=0)
            left = ["pods", "jobs", *(["workloads"] if self._has_kueue else [])]
            return not any(self.client.list(resource, self.namespace) for resource in left)

        wait_for(is_empty, f"{self.namespace} without pods, jobs and workloads")

    def _reset_node(self, node: Json) -> None:
        metadata, spec = node["metadata"], node["spec"]
        annotations = {key: None for key in metadata.get("annotations", {}) if key.startswith(OURS)}
        labels = {key: None for key in metadata.get("labels", {}) if key.startswith(OURS)}
        taints = [taint for taint in spec.get("taints", []) if not taint["key"].startswith(OURS)]
        body: Json = {"metadata": {"annotations": annotations, "labels": labels}, "spec": {"unschedulable": None}}
        if len(taints) < len(spec.get("taints", [])):
            body["spec"]["taints"] = taints
        self.client.patch("nodes", metadata["name"], body)
        ready = next(found for found in node["status"]["conditions"] if found["type"] == "Ready")
        if ready["status"] != "True":
            set_ready(self.client, metadata["name"])

    def _open_queues(self) -> None:
        for queue in self.client.list("localqueues", self.namespace):
            self._open("localqueues", queue, self.namespace)
        for resource, name in self._added:
            if resource == "clusterqueues":
                self._open(resource, self.client.get(resource, name), None)

    def _open(self, resource: str, queue: Json, namespace: str | None) -> None:
        if queue["spec"].get("stopPolicy", "None") != "None":
            self.client.patch(resource, queue["metadata"]["name"], {"spec": {"stopPolicy": "None"}}, namespace)

    def _remove(
        self, resource: str, name: str, namespace: str | None = None, *, grace_seconds: int | None = None
    ) -> None:
        def is_gone() -> bool:
            try:
                propagation = "Background" if resource in _OWNERS else None
                self.client.delete(resource, name, namespace, grace_seconds=grace_seconds, propagation=propagation)
            except ApiError as error:
                if error.status != 404:
                    raise
            return True

        wait_for(is_gone, f"{resource}/{name} deleted")


def conditions(workload: Json) -> set[str]:
    """Its conditions, each as `Type=Status` and as `Type=Status/Reason`."""
    found = workload.get("status", {}).get("conditions", [])
    plain = {f"{item['type']}={item['status']}" for item in found}
    return plain | {f"{item['type']}={item['status']}/{item.get('reason', '')}" for item in found}


def _names(client: Client, resource: str, namespace: str) -> list[str]:
    try:
        return [item["metadata"]["name"] for item in client.list(resource, namespace)]
    except ApiError as error:
        if error.status == 404:  # that kind is not installed
            return []
        raise


def _belongs(pod: Json, name: str) -> bool:
    return pod["metadata"]["name"].startswith(f"{name}-")


def _is_owned_by(item: Json, job: str) -> bool:
    return any(owner["name"] == job for owner in item["metadata"].get("ownerReferences", []))


def _is_running(pod: Json) -> bool:
    return pod["status"].get("phase") == "Running" and not pod["metadata"].get("deletionTimestamp")


def _is_tainted_not_ready(node: Json) -> bool:
    return any(taint["key"] == "node.kubernetes.io/not-ready" for taint in node["spec"].get("taints", []))


def _is_active(queue: Json) -> bool:
    return any(
        found["type"] == "Active" and found["status"] == "True"
        for found in queue.get("status", {}).get("conditions", [])
    )
