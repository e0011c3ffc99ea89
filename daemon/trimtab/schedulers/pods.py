"""What a pod, or a template of pods, asks for and may bear: GPUs, tolerations, grace, its place in its job. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from trimtab.schedulers.objects import Amount, Container, Pod, PodSpec, PodTemplate, Toleration
from trimtab.schedulers.wishes import Source, source_of

RANK_LABELS = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "volcano.sh/task-index",
    "apps.kubernetes.io/pod-index",
    "ray.io/replica-index",
)
GROUP_LABELS = (
    "jobset.sigs.k8s.io/replicatedjob-name",
    "jobset.sigs.k8s.io/job-index",
    "training.kubeflow.org/replica-type",
    "leaderworkerset.sigs.k8s.io/group-index",
    "volcano.sh/task-spec",
    "ray.io/group",
)
"""Parts of a job, in which the ranks above count from 0 each."""
_UNITS = {"n": 1e-9, "u": 1e-6, "m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18}
_UNITS |= {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60}
_QUANTITY = re.compile(r"^([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)([numkMGTPE]|[KMGTPE]i)?$")
_NUMBER_AT_END = re.compile(r"(\d+)$")
_NNODES = re.compile(r"--?nnodes(?:=|\s+)[\"']?(\d+):(\d+)")
_SPAN = re.compile(r"^(\d+):(\d+)$")


def quantity(text: Amount) -> float:
    """`8`, `500m`, `2Ti`, `1e3` as a number; what is none counts as 0."""
    if not isinstance(text, str):
        return float(text)
    if text.isdecimal():
        return float(text)
    found = _QUANTITY.match(text.strip())
    return float(found[1]) * _UNITS[found[2] or ""] if found else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The names under which a cluster hands out GPUs."""

    gpu: str

    @property
    def vendor(self) -> str:
        """`nvidia.com`."""
        return self.gpu.partition("/")[0]

    def is_slice(self, name: str) -> bool:
        """Whether it counts MIG instances: `nvidia.com/mig-1g.10gb`."""
        return name.startswith(f"{self.vendor}/mig-")

    def is_shared(self, name: str) -> bool:
        """Whether it counts shares of GPUs: `nvidia.com/gpu.shared`."""
        return name == f"{self.gpu}.shared"

    def is_ours(self, name: str) -> bool:
        """Whether it counts GPUs or parts of them."""
        return name == self.gpu or self.is_slice(name) or self.is_shared(name)

    @property
    def driver(self) -> str:
        """The DRA driver of the same vendor: `gpu.nvidia.com`."""
        return f"{self.gpu.rpartition('/')[2]}.{self.vendor}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """GPUs that one pod takes: whole ones, and parts of GPUs by the resource that counts them."""

    gpus: int = 0
    parts: tuple[tuple[str, int], ...] = ()

    def __bool__(self) -> bool:
        """Whether it takes any."""
        return self.gpus > 0 or bool(self.parts)


NOTHING = Need()


def need_of(spec: PodSpec, resources: Resources) -> Need:
    """The effective request: the containers and sidecars together, or the largest init container, if that is more."""
    total: Counter[str] = Counter()
    for container in spec.containers:
        total.update(_asked(container, resources))
    if spec.init_containers:
        total = _with_init(total, spec.init_containers, resources)
    if not total:
        return NOTHING
    parts = tuple(sorted((name, count) for name, count in total.items() if name != resources.gpu and count))
    return Need(gpus=total[resources.gpu], parts=parts)


def _with_init(total: Counter[str], inits: Iterable[Container], resources: Resources) -> Counter[str]:
    """Sidecars run on beside the containers; an init container runs beside the sidecars that came before it."""
    sidecars: Counter[str] = Counter()
    peak: Counter[str] = Counter()
    for container in inits:
        asked = _asked(container, resources)
        if container.restart_policy == "Always":
            sidecars.update(asked)
        else:
            peak |= asked + sidecars
    return (total + sidecars) | peak


def _asked(container: Container, resources: Resources) -> Counter[str]:
    """What one container asks for; an extended resource with a limit alone asks for its limit."""
    found = container.resources
    if not found.requests and not found.limits:
        return Counter()
    asked = {**found.limits, **found.requests}
    return Counter({name: int(quantity(text)) for name, text in asked.items() if resources.is_ours(name)})


def elastic_of(spec: PodSpec) -> tuple[int, int] | None:
    """Between how many nodes torchrun lets the job be: `--nnodes=MIN:MAX`, or PET_NNODES in its environment."""
    for container in spec.containers:
        found = _NNODES.search(" ".join((*container.command, *container.args)))
        span = next((_SPAN.match(one.value) for one in container.env if one.name == "PET_NNODES"), None)
        for match in (found, span):
            if match is not None and 0 < int(match[1]) < int(match[2]):
                return int(match[1]), int(match[2])
    return None


def rank_key(pod: Pod) -> tuple[tuple[str, ...], int, str]:
    """Orders the pods of a job: by part, then by index, then by name."""
    return _part(pod), _index(pod), pod.metadata.name


def _part(pod: Pod) -> tuple[str, ...]:
    labels = pod.metadata.labels
    return tuple(_sortable(labels[name]) for name in GROUP_LABELS if name in labels)


def _sortable(text: str) -> str:
    return text.zfill(8) if text.isdecimal() else text


def _index(pod: Pod) -> int:
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    for name in RANK_LABELS:
        text = labels.get(name) or annotations.get(name)
        if text is not None and text.isdecimal():
            return int(text)
    found = _NUMBER_AT_END.search(pod.metadata.name)
    return int(found[1]) if found and len(found[1]) < 6 else 0


def started_at(pod: Pod) -> datetime | None:
    """When it began to work, as far as its kubelet says."""
    ready = next((one for one in pod.status.conditions if one.type == "Ready" and one.status == "True"), None)
    return pod.status.start_time or (ready.last_transition_time if ready else None) or pod.metadata.creation_timestamp


def is_working(pod: Pod) -> bool:
    """Whether it runs, and nothing says that it is not ready."""
    if pod.status.phase != "Running" or pod.is_terminating:
        return False
    return all(one.status != "False" for one in pod.status.conditions if one.type == "Ready")


def unplaced(pod: Pod) -> tuple[str, str, datetime | None] | None:
    """Reason, message and moment of a pod that no node was found for; None where nothing says so."""
    if pod.spec.node_name or pod.is_over:
        return None
    found = next((one for one in pod.status.conditions if one.type == "PodScheduled" and one.status == "False"), None)
    return None if found is None else (found.reason, found.message, found.last_transition_time)


def tolerated(tolerations: Iterable[Toleration], taints: Iterable[Any]) -> bool:
    """Whether all these taints are tolerated."""
    return all(any(one.covers(taint) for one in tolerations) for taint in taints)


@dataclass(frozen=True, slots=True, kw_only=True)
class PodFacts:
    """What the snapshot needs of one pod; made once per version of it."""

    pod: Pod
    need: Need
    rank: tuple[tuple[str, ...], int, str]
    """Its place among the pods of its job."""
    claims: tuple[str, ...]
    """`namespace/name` of its ResourceClaims."""
    is_static: bool
    is_evicted_by_others: bool
    elastic: tuple[int, int] | None
    source: Source | None
    """The marks of its owner on it; None where it bears none."""

    @property
    def uses_gpus(self) -> bool:
        """Whether it asks for GPUs by a resource; claims are looked up elsewhere."""
        return bool(self.need)


def facts_of(pod: Pod, resources: Resources, prefix: str) -> PodFacts:
    """The facts of a pod."""
    annotations = pod.metadata.annotations
    need = need_of(pod.spec, resources)
    return PodFacts(
        pod=pod,
        need=need,
        rank=rank_key(pod),
        claims=claims_of(pod),
        is_static="kubernetes.io/config.mirror" in annotations or _is_of_node(pod),
        is_evicted_by_others="descheduler.alpha.kubernetes.io/eviction-in-progress" in annotations,
        elastic=elastic_of(pod.spec) if need else None,
        source=source_of(f"pod {pod.metadata.name}", pod.metadata, prefix),
    )


def _is_of_node(pod: Pod) -> bool:
    owner = pod.metadata.owner
    return owner is not None and owner.kind == "Node"


def claims_of(pod: Pod) -> tuple[str, ...]:
    """The pod's resource claims, those made from templates by the names that the status gives."""
    if not pod.spec.resource_claims:
        return ()
    made: Mapping[str, str] = {
        str(one.get("name")): str(one["resourceClaimName"])
        for one in pod.status.resource_claim_statuses
        if one.get("resourceClaimName")
    }
    names = [one.get("resourceClaimName") or made.get(str(one.get("name"))) for one in pod.spec.resource_claims]
    return tuple(f"{pod.metadata.namespace}/{name}" for name in names if name)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemplateFacts:
    """What a template says of each of its pods."""

    template: PodTemplate
    need: Need
    elastic: tuple[int, int] | None


def template_facts(template: PodTemplate, resources: Resources) -> TemplateFacts:
    """The facts of a template."""
    return TemplateFacts(template=template, need=need_of(template.spec, resources), elastic=elastic_of(template.spec))
