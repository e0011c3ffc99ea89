"""What may be done with a workload, out of its objects: replaced pod by pod, resized, or nothing at all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trimtab.model.cluster import Elastic
from trimtab.schedulers import volcano_read
from trimtab.schedulers.drafts import Draft
from trimtab.schedulers.kueue_read import ELASTIC_JOB, QUEUE_LABEL, WORKLOAD_ANNOTATION
from trimtab.schedulers.objects import Loose, PodSpec
from trimtab.schedulers.owners import DEPLOYMENTS, JOB_SETS, JOBS, REPLICA_SETS, STATEFUL_SETS, VOLCANO_JOBS
from trimtab.schedulers.places import HOSTNAME
from trimtab.schedulers.shapes import Shape
from trimtab.schedulers.volcano_policies import sizes_of
from trimtab.schedulers.wishes import REPLACE, REPLACEABLE, Source, is_true, seconds_of

SCALED = (DEPLOYMENTS, REPLICA_SETS, STATEFUL_SETS)
"""Kinds whose pods stand for themselves: their controller replaces each alone."""
JOB_BACKOFF_SECONDS = 10.0
"""A Job's controller waits this long before it makes a pod anew, at the first time already."""
FOREIGN_SCHEDULERS = ("kai-scheduler", "runai-scheduler")
Json = Mapping[str, Any]


def is_gang(draft: Draft) -> bool:
    """Whether its pods stop and start as one."""
    if draft.top.plural in SCALED:
        return False
    job = draft.top.object if draft.top.plural == VOLCANO_JOBS else None
    if job is not None:
        sizes = sizes_of(job.spec)
        return sizes.pods_min != 1 or sizes.pods_max <= 1
    return True


def can_replace_pod(draft: Draft, sources: Iterable[Source], prefix: str) -> bool:
    """Whether one pod may go while the others run on: by the kind's nature, or because it is declared and survived."""
    plural, item = draft.top.plural, draft.top.object
    if plural in SCALED:
        return True
    if item is None or not is_true(sources, f"{prefix}/{REPLACEABLE}"):
        return False
    if plural == JOBS:
        return _survives(item.spec)
    if plural == JOB_SETS:
        jobs = [(one.get("template") or {}).get("spec") or {} for one in item.spec.get("replicatedJobs") or ()]
        return bool(jobs) and all(_survives(spec) for spec in jobs)
    return plural == VOLCANO_JOBS and volcano_read.can_replace(item, draft.pods)


def _survives(spec: Json) -> bool:
    """Whether the Job's failure policy leaves a disrupted pod out of its count before anything else judges it."""
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        conditions = rule.get("onPodConditions") or ()
        meant = [one for one in conditions if one.get("type") == "DisruptionTarget"]
        if meant:
            return rule.get("action") == "Ignore" and all(one.get("status", "True") == "True" for one in meant)
        if rule.get("action") != "Ignore":
            return False
    return False


def replace_seconds(
    draft: Draft, sources: Iterable[Source], prefix: str, *, stop: float, restart: float | None
) -> float:
    """Until one replaced pod runs again: its end and its controller's wait, and its start as far as that is known."""
    said = seconds_of(sources, f"{prefix}/{REPLACE}")
    if said is not None:
        return said
    start = restart or 0.0
    if draft.top.plural in (DEPLOYMENTS, REPLICA_SETS):
        return start  # the new pod is made before the old one is gone
    return stop + start + (JOB_BACKOFF_SECONDS if draft.top.plural in (JOBS, JOB_SETS) else 0.0)


def elastic_of(draft: Draft, shape: Shape) -> Elastic | None:
    """Between how many pods it can run, where its program or its scheduler lets it."""
    spans = [one.elastic for one in shape.templates] + [one.elastic for one in draft.facts]
    span = next((one for one in spans if one is not None), None)
    if span is not None:
        return Elastic(pods_min=span[0], pods_max=span[1], by="torchrun")
    item = draft.top.object
    if item is None:
        return None
    if draft.top.plural == VOLCANO_JOBS:
        sizes = sizes_of(item.spec)
        return Elastic(pods_min=sizes.pods_min, pods_max=sizes.pods_max, by="volcano") if sizes.is_elastic else None
    is_marked = item.metadata.annotations.get(ELASTIC_JOB) == "true"
    return Elastic(pods_min=1, pods_max=shape.pods, by="kueue") if is_marked and shape.pods > 1 else None


def why_fixed(
    draft: Draft, shape: Shape, budgets: Iterable[Loose], *, is_parted: bool, is_orphan: bool, gpus_of_node: int
) -> str | None:
    """Why it cannot be moved at all, as the end of a sentence about it. `gpus_of_node`: of the largest node."""
    by_owner = _fixed_by_owner(draft)
    if by_owner is not None or is_orphan:
        return by_owner or "is Kueue's, and its Workload is not known"
    if is_parted or shape.uses_parts or any(one.need.parts for one in draft.facts):
        return "runs on MIG instances or shared GPUs, which are not planned for"
    if any(_depends_on_pods(spec, gpus_of_node=gpus_of_node, gpus=gpus) for spec, gpus in _specs(draft, shape)):
        return "must be near or far from other pods (affinity, spread), which is not planned for"
    foreign = next((name for name in _schedulers(draft) if name in FOREIGN_SCHEDULERS), None)
    if foreign is not None:
        return f"is placed by {foreign}, which moves its own"
    if draft.top.plural == VOLCANO_JOBS:
        budget = volcano_read.dead_budget(draft.pods, budgets)
        if budget is not None:
            return f"cannot be evicted: the disruption budget {budget.metadata.name} by maxUnavailable never allows it"
    return None


def _fixed_by_owner(draft: Draft) -> str | None:
    if any(one.is_static for one in draft.facts):
        return "is a static pod of its node"
    if draft.top.kind in ("pod", "podgroup"):
        return "is made of bare pods, and no controller brings them back"
    if draft.top.kind == "daemonset":
        return "belongs to a DaemonSet, whose pods stay on their nodes"
    return None


def _specs(draft: Draft, shape: Shape) -> Iterable[tuple[PodSpec, int]]:
    """What its pods with GPUs are made from, and their GPUs; without a template one pod stands for all."""
    if shape.templates:
        return [(one.template.spec, one.need.gpus) for one in shape.templates]
    return [(one.pod.spec, one.need.gpus) for one in draft.facts if one.need][:1]


def _depends_on_pods(spec: PodSpec, *, gpus_of_node: int, gpus: int) -> bool:
    """Whether where other pods are decides where it may be. One pod a node is no wish where two do not fit on one."""
    if not spec.affinity and not spec.topology_spread_constraints:
        return False
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    apart = (spec.affinity.get("podAntiAffinity") or {}).get(required) or ()
    is_alone_anyway = 2 * gpus > gpus_of_node and all(one.get("topologyKey") == HOSTNAME for one in apart)
    spread = [one for one in spec.topology_spread_constraints if one.get("whenUnsatisfiable") != "ScheduleAnyway"]
    is_near = bool((spec.affinity.get("podAffinity") or {}).get(required))
    return is_near or bool(spread) or (bool(apart) and not is_alone_anyway)


def _schedulers(draft: Draft) -> Sequence[str]:
    return tuple({one.pod.spec.scheduler_name for one in draft.facts})


def lacks_workload(draft: Draft) -> bool:
    """Whether it is Kueue's by its marks and no Workload stands for it: not seen yet, or run in another cluster."""
    if draft.kueues:
        return False
    item = draft.top.object
    if item is not None and QUEUE_LABEL in item.metadata.labels:
        return True
    return any(WORKLOAD_ANNOTATION in one.pod.metadata.annotations for one in draft.facts)


def controller_of(draft: Draft, *, group: Loose | None, is_orphan: bool) -> str:
    """Whose adapter moves it."""
    if draft.kueue is not None or is_orphan:
        return "kueue"
    if draft.top.plural == VOLCANO_JOBS:
        return "volcano"
    is_volcano = group is not None and any(name in volcano_read.SCHEDULERS for name in _schedulers(draft))
    return "volcano" if is_volcano else "kubernetes"
