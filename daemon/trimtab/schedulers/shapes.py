"""How many pods of how many GPUs a workload wants, out of the templates in its objects. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from trimtab.schedulers.objects import Loose, PodTemplate
from trimtab.schedulers.owners import JOB_SETS, JOBS, VOLCANO_JOBS
from trimtab.schedulers.pods import Resources, TemplateFacts, template_facts

Json = Mapping[str, Any]
Counted = tuple[int, Any]
KUEUE_WORKLOADS = "workloads.kueue.x-k8s.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Pods with GPUs that a workload wants when it runs, and the templates that they are made from."""

    pods: int = 0
    gpus_per_pod: int = 0
    uses_parts: bool = False
    """Whether it asks for MIG instances or shares of GPUs."""
    templates: tuple[TemplateFacts, ...] = ()
    """Of the pods with GPUs."""
    all_pods: int = 0
    """Pods with and without GPUs."""

    @property
    def uses_gpus(self) -> bool:
        """Whether any of its pods asks for GPUs or parts of them."""
        return bool(self.templates)


NO_SHAPE = Shape()


def shape_of(plural: str, item: Loose, resources: Resources) -> Shape | None:
    """The shape of an object of a kind that carries templates; None where the kind carries none that we read."""
    reader = _READERS.get(plural)
    return None if reader is None else _shape(reader(item), resources)


def _shape(found: Iterator[Counted], resources: Resources) -> Shape:
    counted: list[tuple[int, TemplateFacts]] = []
    total = 0
    for count, raw in found:
        facts = _facts(raw, resources)
        total += count
        if facts is not None and facts.need:
            counted.append((count, facts))
    if not counted:
        return NO_SHAPE if not total else Shape(all_pods=total)
    return Shape(
        pods=sum(count for count, _ in counted),
        gpus_per_pod=max(facts.need.gpus for _, facts in counted),
        uses_parts=any(facts.need.parts for _, facts in counted),
        templates=tuple(facts for _, facts in counted),
        all_pods=total,
    )


def _facts(raw: object, resources: Resources) -> TemplateFacts | None:
    try:
        return template_facts(msgspec.convert(raw or {}, PodTemplate), resources)
    except msgspec.ValidationError:
        return None


def _of_job(item: Loose) -> Iterator[Counted]:
    yield _job_pods(item.spec, item.status), item.spec.get("template")


def _job_pods(spec: Json, status: Json) -> int:
    parallelism = _number(spec.get("parallelism"), 1)
    completions = spec.get("completions")
    if completions is None:
        return parallelism
    return min(parallelism, max(_number(completions, 1) - _number(status.get("succeeded"), 0), 0))


def _of_job_set(item: Loose) -> Iterator[Counted]:
    for replicated in item.spec.get("replicatedJobs") or ():
        job = (replicated.get("template") or {}).get("spec") or {}
        yield _number(replicated.get("replicas"), 1) * _job_pods(job, {}), job.get("template")


def _of_volcano_job(item: Loose) -> Iterator[Counted]:
    for task in item.spec.get("tasks") or ():
        yield _number(task.get("replicas"), 0), task.get("template")


def _of_kueue(item: Loose) -> Iterator[Counted]:
    admitted = (item.status.get("admission") or {}).get("podSetAssignments") or ()
    counts = {one.get("name"): one.get("count") for one in admitted}
    for pod_set in item.spec.get("podSets") or ():
        count = counts.get(pod_set.get("name"))
        yield _number(pod_set.get("count") if count is None else count, 1), pod_set.get("template")


def _of_groups(item: Loose) -> Iterator[Counted]:
    replicas = _number(item.spec.get("replicas"), 1)
    template = item.spec.get("leaderWorkerTemplate") or {}
    size = _number(template.get("size"), 1)
    leader = template.get("leaderTemplate")
    if leader:
        yield replicas, leader
    yield replicas * (size - (1 if leader else 0)), template.get("workerTemplate")


def _of_roles(field: str) -> Callable[[Loose], Iterator[Counted]]:
    def roles(item: Loose) -> Iterator[Counted]:
        for role in (item.spec.get(field) or {}).values():
            yield _number(role.get("replicas"), 1), role.get("template")

    return roles


def _number(value: object, default: int) -> int:
    return value if isinstance(value, int) else default


_READERS: Mapping[str, Callable[[Loose], Iterator[Counted]]] = {
    JOBS: _of_job,
    JOB_SETS: _of_job_set,
    VOLCANO_JOBS: _of_volcano_job,
    KUEUE_WORKLOADS: _of_kueue,
    "leaderworkersets.leaderworkerset.x-k8s.io": _of_groups,
    "pytorchjobs.kubeflow.org": _of_roles("pytorchReplicaSpecs"),
    "mpijobs.kubeflow.org": _of_roles("mpiReplicaSpecs"),
}
SHAPED = tuple(_READERS)
"""Kinds whose objects say what they want before there are pods."""
