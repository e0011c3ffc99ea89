"""Queues and workloads of Kueue, Volcano, Ray and plain Kubernetes, as `kubectl get` gives them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from trimtab.collect.documents import Document, at, labels_of, quantity, tables_of, text_at, whole
from trimtab.collect.kubectl import GPU, Asked, containers_ask, key_of, name_of

KUEUE_QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
REQUIRED_TOPOLOGY = "kueue.x-k8s.io/podset-required-topology"
_NO_QUOTA = re.compile(r"insufficient quota for (\S+) in flavor (\S+?),.*maximum capacity \((\S+) > (\S+)\)", re.DOTALL)
_NO_DOMAIN = re.compile(r"no topology domains at level: (\S+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class FlavorQuota:
    """One resource of one flavor; a quota of None was left empty, which is neither 0 nor unlimited."""

    flavor: str
    resource: str
    nominal: float | None
    is_empty: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeQueue:
    """A Volcano Queue or a Kueue ClusterQueue. `caps` adds the flavors up."""

    name: str
    kind: str
    caps: Mapping[str, float] = field(default_factory=dict)
    quotas: tuple[FlavorQuota, ...] = ()
    used: Mapping[str, float] = field(default_factory=dict)

    @property
    def flavors(self) -> tuple[str, ...]:
        """Flavors that it refers to, each once."""
        return tuple(dict.fromkeys(quota.flavor for quota in self.quotas))


@dataclass(frozen=True, slots=True, kw_only=True)
class KubeWorkload:
    """Something with pods: what it asks in all, and why it waits where it says so."""

    key: str
    kind: str
    queue: str | None = None
    pods: int = 0
    gang: int | None = None
    gpus: int = 0
    gpus_min: int | None = None
    gpus_max: int | None = None
    resource: str | None = None
    amounts: Mapping[str, float] = field(default_factory=dict)
    on_evict: str | None = None
    cluster_queue: str | None = None
    admitted_gpus: int | None = None
    reclaimable_pods: int | None = None
    in_use_gpus: int | None = None
    topology_level: str | None = None
    message: str | None = None
    """What its controller says while it waits."""

    @property
    def quota_lacking(self) -> tuple[str, float] | None:
        """The resource whose quota it can never fit, with that quota."""
        found = _NO_QUOTA.search(self.message or "")
        limit = quantity(found[4]) if found else None
        return (found[1], limit) if found and limit is not None else None

    @property
    def topology_lacking(self) -> str | None:
        """The node label that no node has."""
        found = _NO_DOMAIN.search(self.message or "")
        return found[1] if found else None


def read_queue(item: Mapping[str, Document]) -> KubeQueue:
    """A Volcano Queue or a Kueue ClusterQueue."""
    if item.get("kind") == "Queue":
        return KubeQueue(name=name_of(item), kind="Queue", caps=_amounts(at(item, "spec", "capability")))
    quotas = tuple(
        FlavorQuota(
            flavor=text_at(flavor, "name") or "?",
            resource=text_at(resource, "name") or "?",
            nominal=quantity(resource.get("nominalQuota")),
            is_empty=quantity(resource.get("nominalQuota")) is None,
        )
        for group in tables_of(at(item, "spec", "resourceGroups"))
        for flavor in tables_of(group.get("flavors"))
        for resource in tables_of(flavor.get("resources"))
    )
    caps: dict[str, float] = {}
    for quota in quotas:
        if quota.nominal is not None:
            caps[quota.resource] = caps.get(quota.resource, 0.0) + quota.nominal
    used: dict[str, float] = {}
    for flavor in tables_of(at(item, "status", "flavorsUsage")):
        for resource in tables_of(flavor.get("resources")):
            name, total = text_at(resource, "name"), quantity(resource.get("total"))
            if name is not None and total is not None:
                used[name] = used.get(name, 0.0) + total
    return KubeQueue(name=name_of(item), kind="ClusterQueue", caps=caps, quotas=quotas, used=used)


def _amounts(table: Document) -> dict[str, float]:
    found = {str(key): quantity(value) for key, value in table.items()} if isinstance(table, Mapping) else {}
    return {key: value for key, value in found.items() if value is not None}


def read_workload(item: Mapping[str, Document]) -> KubeWorkload | None:
    """A workload of a kind that is known; None for any other object."""
    api, kind = str(item.get("apiVersion", "")), str(item.get("kind", ""))
    reader = _READERS.get((api.split("/", maxsplit=1)[0], kind))
    return reader(item) if reader else None


def _times(asked: Asked, pods: int, amounts: dict[str, float]) -> None:
    for key, value in asked.amounts.items():
        amounts[key] = amounts.get(key, 0.0) + value * pods


def _queue_of(item: Mapping[str, Document]) -> str | None:
    labels = labels_of(item, "metadata", "labels")
    return labels.get(KUEUE_QUEUE_LABEL) or labels.get("volcano.sh/queue-name")


def _read_volcano_job(item: Mapping[str, Document]) -> KubeWorkload:
    amounts: dict[str, float] = {}
    pods = gpus = 0
    for task in tables_of(at(item, "spec", "tasks")):
        replicas, asked = whole(task.get("replicas")) or 1, containers_ask(at(task, "template", "spec"))
        _times(asked, replicas, amounts)
        pods, gpus = pods + replicas, gpus + asked.gpus * replicas
    evicted = [
        one
        for one in tables_of(at(item, "spec", "policies"))
        if "PodEvicted" in (one.get("event"), *(one.get("events") or ()))
    ]
    return KubeWorkload(
        key=key_of(item),
        kind="Job",
        queue=text_at(item, "spec", "queue"),
        pods=pods,
        gang=whole(at(item, "spec", "minAvailable")),
        gpus=gpus,
        amounts=amounts,
        on_evict=text_at(evicted[0], "action") if evicted else None,
    )


def _read_kueue_workload(item: Mapping[str, Document]) -> KubeWorkload:
    sets = tables_of(at(item, "spec", "podSets"))
    asks = {
        text_at(one, "name") or "main": (whole(one.get("count")) or 1, containers_ask(at(one, "template", "spec")))
        for one in sets
    }
    amounts: dict[str, float] = {}
    for pods, asked in asks.values():
        _times(asked, pods, amounts)
    freed = {
        text_at(one, "name") or "": whole(one.get("count")) or 0
        for one in tables_of(at(item, "status", "reclaimablePods"))
    }
    admission = at(item, "status", "admission")
    assigned = [whole(at(one, "resourceUsage", GPU)) or 0 for one in tables_of(at(admission, "podSetAssignments"))]
    admitted = sum(assigned) if admission is not None else None
    freed_gpus = sum(min(freed.get(name, 0), pods) * asked.gpus for name, (pods, asked) in asks.items())
    return KubeWorkload(
        key=key_of(item),
        kind="Workload",
        queue=text_at(item, "spec", "queueName"),
        pods=sum(pods for pods, _ in asks.values()),
        gpus=sum(pods * asked.gpus for pods, asked in asks.values()),
        amounts=amounts,
        cluster_queue=text_at(admission, "clusterQueue"),
        admitted_gpus=admitted,
        reclaimable_pods=sum(freed.values()) if freed else None,
        in_use_gpus=None if admitted is None else admitted - freed_gpus,
        topology_level=next(
            (
                found
                for one in sets
                if (found := labels_of(one, "template", "metadata", "annotations").get(REQUIRED_TOPOLOGY))
            ),
            None,
        ),
        message=_waiting_message(item),
    )


def _waiting_message(item: Mapping[str, Document]) -> str | None:
    for one in tables_of(at(item, "status", "conditions")):
        if one.get("type") in ("QuotaReserved", "Admitted") and text_at(one, "status") in ("False", "false"):
            return text_at(one, "message")
    return None


def _read_ray(item: Mapping[str, Document]) -> KubeWorkload:
    """Groups of workers; `num-gpus` of rayStartParams tells Ray of the same GPUs and is not added."""
    spec = at(item, "spec", "rayClusterSpec") or at(item, "spec")
    groups: list[tuple[Mapping[str, Document], Asked]] = [
        ({}, containers_ask(at(spec, "headGroupSpec", "template", "spec")))
    ]
    groups += [(one, containers_ask(at(one, "template", "spec"))) for one in tables_of(at(spec, "workerGroupSpecs"))]

    def sum_of(word: str, missing: str | None = None) -> int:
        return sum(asked.gpus * _replicas(group, word, missing) for group, asked in groups)

    return KubeWorkload(
        key=key_of(item),
        kind=str(item.get("kind")),
        queue=_queue_of(item),
        pods=sum(_replicas(group, "replicas") for group, _ in groups),
        gpus=sum_of("replicas"),
        gpus_min=sum_of("minReplicas", "replicas"),
        gpus_max=sum_of("maxReplicas", "replicas"),
    )


def _replicas(group: Mapping[str, Document], word: str, missing: str | None = None) -> int:
    found = whole(group.get(word))
    if found is None and missing is not None:
        found = whole(group.get(missing))
    return 1 if found is None else found


def _read_replicated(item: Mapping[str, Document]) -> KubeWorkload:
    """Deployment, StatefulSet, Job: one template, so many pods."""
    spec = at(item, "spec")
    pods = next((found for word in ("replicas", "parallelism") if (found := whole(at(spec, word))) is not None), 1)
    asked = containers_ask(at(spec, "template", "spec"))
    amounts: dict[str, float] = {}
    _times(asked, pods, amounts)
    return KubeWorkload(
        key=key_of(item),
        kind=str(item.get("kind")),
        queue=_queue_of(item),
        pods=pods,
        gpus=(asked.vgpus or asked.gpus) * pods,
        resource=asked.resource,
        amounts=_vgpu_totals(asked, pods) or amounts,
    )


def _vgpu_totals(asked: Asked, pods: int) -> dict[str, float]:
    """What a queue counts for shared cards: a pod's keys are per card, the queue's are totals."""
    if not asked.vgpus:
        return {}
    found = {GPU: float(asked.vgpus * pods)}
    if asked.cores is not None:
        found["nvidia.com/total-gpucores"] = float(asked.cores * asked.vgpus * pods)
    if asked.memory_mib is not None:
        found["nvidia.com/total-gpumem"] = float(asked.memory_mib * pods)
    return found


_READERS: Mapping[tuple[str, str], Callable[[Mapping[str, Document]], KubeWorkload]] = {
    ("batch.volcano.sh", "Job"): _read_volcano_job,
    ("kueue.x-k8s.io", "Workload"): _read_kueue_workload,
    ("ray.io", "RayCluster"): _read_ray,
    ("ray.io", "RayJob"): _read_ray,
    ("apps", "Deployment"): _read_replicated,
    ("apps", "StatefulSet"): _read_replicated,
    ("batch", "Job"): _read_replicated,
}
