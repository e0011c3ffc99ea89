"""Addresses of an API server: which kind, namespace, name and subresource a path means, and which kinds there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Served:
    """A kind that the server knows."""

    kind: str
    versions: tuple[str, ...]
    is_namespaced: bool = True


KINDS: dict[str, Served] = {
    "nodes": Served("Node", ("v1",), False),
    "namespaces": Served("Namespace", ("v1",), False),
    "pods": Served("Pod", ("v1",)),
    "configmaps": Served("ConfigMap", ("v1",)),
    "serviceaccounts": Served("ServiceAccount", ("v1",)),
    "jobs.batch": Served("Job", ("v1",)),
    "deployments.apps": Served("Deployment", ("v1",)),
    "replicasets.apps": Served("ReplicaSet", ("v1",)),
    "statefulsets.apps": Served("StatefulSet", ("v1",)),
    "daemonsets.apps": Served("DaemonSet", ("v1",)),
    "poddisruptionbudgets.policy": Served("PodDisruptionBudget", ("v1",)),
    "leases.coordination.k8s.io": Served("Lease", ("v1",)),
    "events.events.k8s.io": Served("Event", ("v1",)),
    "selfsubjectaccessreviews.authorization.k8s.io": Served("SelfSubjectAccessReview", ("v1",), False),
    "resourceslices.resource.k8s.io": Served("ResourceSlice", ("v1",), False),
    "resourceclaims.resource.k8s.io": Served("ResourceClaim", ("v1",)),
    "devicetaintrules.resource.k8s.io": Served("DeviceTaintRule", ("v1beta2", "v1alpha3"), False),
    "jobsets.jobset.x-k8s.io": Served("JobSet", ("v1alpha2",)),
    "workloads.kueue.x-k8s.io": Served("Workload", ("v1beta2", "v1beta1")),
    "clusterqueues.kueue.x-k8s.io": Served("ClusterQueue", ("v1beta2", "v1beta1"), False),
    "localqueues.kueue.x-k8s.io": Served("LocalQueue", ("v1beta2", "v1beta1")),
    "cohorts.kueue.x-k8s.io": Served("Cohort", ("v1beta2", "v1beta1"), False),
    "resourceflavors.kueue.x-k8s.io": Served("ResourceFlavor", ("v1beta2", "v1beta1"), False),
    "topologies.kueue.x-k8s.io": Served("Topology", ("v1beta2", "v1beta1"), False),
    "admissionchecks.kueue.x-k8s.io": Served("AdmissionCheck", ("v1beta2", "v1beta1"), False),
    "workloadpriorityclasses.kueue.x-k8s.io": Served("WorkloadPriorityClass", ("v1beta2", "v1beta1"), False),
    "jobs.batch.volcano.sh": Served("Job", ("v1alpha1",)),
    "podgroups.scheduling.volcano.sh": Served("PodGroup", ("v1beta1",)),
    "queues.scheduling.volcano.sh": Served("Queue", ("v1beta1",), False),
    "hypernodes.topology.volcano.sh": Served("HyperNode", ("v1alpha1",), False),
    "commands.bus.volcano.sh": Served("Command", ("v1alpha1",)),
}
"""`plural.group` -> kind; add or take away entries of `FakeKube.kinds` for other clusters."""


@dataclass(frozen=True, slots=True)
class Address:
    """What a path means. Objects of one kind are the same objects under every version of it."""

    group: str
    version: str
    plural: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    @property
    def kind_key(self) -> str:
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.kind_key, self.namespace, self.name)


def address_of(path: str) -> Address | None:
    """`/apis/batch/v1/namespaces/a/jobs/x/status`; None where it is no address of objects."""
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) >= 3:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) >= 4:
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    namespace = ""
    if rest[0] == "namespaces" and len(rest) >= 3 and rest[2] not in ("status", "finalize"):
        namespace, rest = rest[1], rest[2:]
    plural, name, subresource = (*rest, "", "")[:3]
    return Address(group, version, plural, namespace, name, subresource)


def address_of_object(body: Json, kinds: dict[str, Served]) -> Address:
    """Where an object lives, by its kind and apiVersion."""
    group, _, version = str(body.get("apiVersion") or "v1").rpartition("/")
    for key, served in kinds.items():
        plural, _, of = key.partition(".")
        if served.kind == body["kind"] and of == group:
            meta = body["metadata"]
            return Address(group, version, plural, meta.get("namespace", ""), meta["name"])
    raise KeyError(f"no kind {body['kind']} of {body.get('apiVersion')}: add it to FakeKube.kinds")


def discovery(kinds: dict[str, Served], *, of_core: bool) -> Json:
    """Aggregated discovery (`GET /apis` or `/api`) of these kinds."""
    groups: dict[str, dict[str, list[Json]]] = {}
    for key, served in kinds.items():
        plural, _, group = key.partition(".")
        if (group == "") is not of_core:
            continue
        for version in served.versions:
            scope = "Namespaced" if served.is_namespaced else "Cluster"
            entry = {"resource": plural, "scope": scope, "responseKind": {"kind": served.kind, "version": version}}
            entry["verbs"] = ["create", "delete", "get", "list", "patch", "update", "watch"]
            groups.setdefault(group, {}).setdefault(version, []).append(entry)
    return {
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": [
            {
                "metadata": {"name": group},
                "versions": [
                    {"version": version, "resources": entries, "freshness": "Current"}
                    for version, entries in versions.items()
                ],
            }
            for group, versions in groups.items()
        ],
    }


def group_version(kinds: dict[str, Served], group: str, version: str) -> Json | None:
    """Unaggregated discovery of one version; None where it is not served."""
    found = [
        {"name": key.partition(".")[0], "kind": served.kind, "namespaced": served.is_namespaced, "verbs": ["list"]}
        for key, served in kinds.items()
        if key.partition(".")[2] == group and version in served.versions
    ]
    return {"kind": "APIResourceList", "apiVersion": "v1", "resources": found} if found else None
