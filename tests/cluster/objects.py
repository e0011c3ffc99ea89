"""Manifests for tests: nodes in racks, Kueue's queues, gangs and other owners of pods. Plain dicts, nothing is sent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests.cluster.client import Json

RACK, HOSTNAME, POOL = "topology.trimtab/rack", "kubernetes.io/hostname", "pool"
GPU = "nvidia.com/gpu"
QUEUE_NAME, PRIORITY_CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
UNLIMITED = 1_000_000
_KUEUE = "kueue.x-k8s.io/v1beta2"


def node(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Json] = (),
) -> Json:
    """A node before its kubelet wrote a status: see `node_status`."""
    own = {HOSTNAME: name, "nvidia.com/gpu.present": "true"}
    metadata = {"name": name, "labels": {**own, **(labels or {})}, "annotations": dict(annotations or {})}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {"taints": list(taints)}}


def node_status(*, gpus: int = 8, capacity: Mapping[str, str] | None = None, version: str = "v1.35.4") -> Json:
    """What a kubelet writes once; it goes as a patch into the subresource `status`."""
    resources = {"cpu": "128", "memory": "2Ti", "pods": "110", GPU: str(gpus), **(capacity or {})}
    info = dict.fromkeys(("machineID", "systemUUID", "bootID", "kernelVersion", "osImage"), "test")
    programs = {"containerRuntimeVersion": "test", "kubeletVersion": version, "kubeProxyVersion": version}
    return {
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "ok"}],
            "nodeInfo": {**info, **programs, "operatingSystem": "linux", "architecture": "amd64"},
        }
    }


def topology(name: str, levels: Sequence[str] = (RACK, HOSTNAME)) -> Json:
    """Kueue's Topology: racks of nodes unless told otherwise."""
    return _kueue("Topology", name, {"levels": [{"nodeLabel": label} for label in levels]})


def flavor(
    name: str, *, node_labels: Mapping[str, str], topology_name: str | None = None, tolerations: Sequence[Json] = ()
) -> Json:
    """A ResourceFlavor, topology-aware when a Topology is named."""
    spec: Json = {"nodeLabels": dict(node_labels), "tolerations": list(tolerations)}
    return _kueue("ResourceFlavor", name, spec | ({"topologyName": topology_name} if topology_name else {}))


def cluster_queue(
    name: str,
    *,
    flavors: Sequence[str],
    gpus: int = UNLIMITED,
    cohort: str | None = None,
    checks: Sequence[str] = (),
    spec: Json | None = None,
) -> Json:
    """A ClusterQueue with a quota of GPUs in each flavor; `spec` replaces top-level keys (preemption, stopPolicy …)."""
    quotas = [{"name": found, "resources": [{"name": GPU, "nominalQuota": gpus}]} for found in flavors]
    own: Json = {
        "namespaceSelector": {},
        "queueingStrategy": "BestEffortFIFO",
        "resourceGroups": [{"coveredResources": [GPU], "flavors": quotas}],
        **({"cohortName": cohort} if cohort else {}),
        **({"admissionChecksStrategy": {"admissionChecks": [{"name": check} for check in checks]}} if checks else {}),
    }
    return _kueue("ClusterQueue", name, own | (spec or {}))


def local_queue(name: str, namespace: str, *, cluster_queue: str) -> Json:
    """A LocalQueue."""
    made = _kueue("LocalQueue", name, {"clusterQueue": cluster_queue})
    made["metadata"]["namespace"] = namespace
    return made


def admission_check(name: str, *, controller: str) -> Json:
    """An AdmissionCheck; whoever is the controller makes it Active."""
    return _kueue("AdmissionCheck", name, {"controllerName": controller})


def gang(
    name: str,
    namespace: str,
    *,
    queue: str | None = None,
    pods: int = 4,
    gpus: int = 8,
    topology: Mapping[str, str] | None = None,
    can_replace_pods: bool = False,
    backoff_limit: int = 6,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    pod_annotations: Mapping[str, str] | None = None,
    pod_labels: Mapping[str, str] | None = None,
    pod_spec: Json | None = None,
) -> Json:
    """An Indexed Job whose pods all run at once. `topology` is {REQUIRED_TOPOLOGY: RACK} or the like.

    `can_replace_pods` gives it the podFailurePolicy that ignores DisruptionTarget; the annotation by which an owner
    declares so to trimtab is the test's to add.
    """
    template = pod_template(
        gpus=gpus,
        annotations={**(topology or {}), **(pod_annotations or {})},
        labels=pod_labels,
        spec={"restartPolicy": "Never", **(pod_spec or {})},
    )
    spec: Json = {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "backoffLimit": backoff_limit,
        "template": template,
    }
    if queue:
        spec["suspend"] = True
    if can_replace_pods:
        ignored = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
        spec["podFailurePolicy"] = {"rules": [ignored]}
    return _owner("batch/v1", "Job", name, namespace, spec, labels=_queued(queue, labels), annotations=annotations)


def deployment(name: str, namespace: str, **options: Any) -> Json:
    """A Deployment; options as `_replicated` has them: replicas, gpus, queue, labels, pod_annotations, pod_spec …"""
    return _replicated("Deployment", name, namespace, {}, **options)


def stateful_set(name: str, namespace: str, **options: Any) -> Json:
    """A StatefulSet whose pods start together; options as for `deployment`."""
    own = {"serviceName": name, "podManagementPolicy": "Parallel"}
    return _replicated("StatefulSet", name, namespace, own, **options)


def pod(
    name: str,
    namespace: str,
    *,
    gpus: int = 1,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Json | None = None,
) -> Json:
    """A pod that nobody owns."""
    made = pod_template(
        gpus=gpus, labels=labels, annotations=annotations, spec={"restartPolicy": "Never", **(spec or {})}
    )
    made["metadata"] |= {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", **made}


def disruption_budget(name: str, namespace: str, *, labels: Mapping[str, str], **spec: int | str) -> Json:
    """A PodDisruptionBudget: give minAvailable or maxUnavailable."""
    selector = {"selector": {"matchLabels": dict(labels)}}
    return _owner("policy/v1", "PodDisruptionBudget", name, namespace, {**selector, **spec})


def job_set(name: str, namespace: str, *, labels: Mapping[str, str] | None = None) -> Json:
    """A JobSet: an owner that no controller here carries out."""
    return _owner("jobset.x-k8s.io/v1alpha2", "JobSet", name, namespace, {"replicatedJobs": []}, labels=labels)


def owner_reference(owner: Json) -> Json:
    """The controller reference to an object that the API server returned; goes into metadata.ownerReferences."""
    metadata = owner["metadata"]
    identity = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": metadata["name"]}
    return {**identity, "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}


def pod_template(
    *,
    gpus: int = 1,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    spec: Json | None = None,
) -> Json:
    """One container that asks for GPUs and nothing else; `spec` replaces top-level keys of the pod's."""
    resources = {"requests": {GPU: str(gpus)}, "limits": {GPU: str(gpus)}} if gpus else {}
    container = {"name": "main", "image": "test/none:1", "resources": resources}
    return {
        "metadata": {"labels": dict(labels or {}), "annotations": dict(annotations or {})},
        "spec": {"containers": [container], **(spec or {})},
    }


def _replicated(
    kind: str,
    name: str,
    namespace: str,
    own: Json,
    *,
    replicas: int = 2,
    gpus: int = 1,
    queue: str | None = None,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    pod_annotations: Mapping[str, str] | None = None,
    pod_spec: Json | None = None,
) -> Json:
    selected = {"app": name}
    template = pod_template(gpus=gpus, labels=selected, annotations=pod_annotations, spec=pod_spec)
    spec = {"replicas": replicas, "selector": {"matchLabels": selected}, "template": template, **own}
    return _owner("apps/v1", kind, name, namespace, spec, labels=_queued(queue, labels), annotations=annotations)


def _queued(queue: str | None, labels: Mapping[str, str] | None) -> dict[str, str]:
    return {**({QUEUE_NAME: queue} if queue else {}), **(labels or {})}


def _owner(
    version: str,
    kind: str,
    name: str,
    namespace: str,
    spec: Json,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> Json:
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": dict(labels or {}),
        "annotations": dict(annotations or {}),
    }
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


def _kueue(kind: str, name: str, spec: Json) -> Json:
    return {"apiVersion": _KUEUE, "kind": kind, "metadata": {"name": name}, "spec": spec}
