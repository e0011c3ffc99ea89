"""Advice for elastic jobs: run on with fewer pods around a bad node, where that costs less than a restart elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from trimtab.model.advice import OpenFinding, Subject
from trimtab.model.cluster import Node
from trimtab.model.command import Cost, Recommendation, RecommendationKind
from trimtab.plan.cost import Disturbed, gpu_hours
from trimtab.plan.draft import Draft
from trimtab.plan.gain import gain_of_ending
from trimtab.plan.phrase import count_text, gpu_hours_text

REDUCED_HOURS = 1.0
"""How long a job is expected to run with fewer pods before it gets them back; its missing GPUs count that long."""
RESTARTS_ALL = ("torchrun",)
"""Whoever changes the size by restarting every worker: torchrun's rendezvous does on any change of membership."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """An elastic job around a bad node: how many pods stay, and what that costs in GPU-hours."""

    disturbed: Disturbed
    pods_left: int
    gpu_hours: float
    formula: str

    @property
    def sentence(self) -> str:
        """What to do."""
        return f"Shrink {self.disturbed.workload.name} to {count_text(self.pods_left, 'pod')}"


def shrink_of(draft: Draft, disturbed: Disturbed, node: str) -> Shrink | None:
    """How the job could run on without its pods on the node; None where it cannot."""
    workload = disturbed.workload
    gone = [one for one in workload.placements if one.node == node]
    if workload.elastic is None or not gone or not workload.is_running:
        return None
    left = workload.pods - len(gone)
    if left < max(workload.elastic.pods_min, 1):
        return None
    gpus_gone = sum(len(one.gpus) for one in gone)
    default = draft.settings.restart_seconds_default
    if workload.elastic.by in RESTARTS_ALL:
        change = gpu_hours(disturbed, now=draft.now, at=draft.now, restart_default=default)
        how = f"{gpu_hours_text(change)}, as every worker starts again from its checkpoint"
    else:
        change, how = 0.0, "0 GPU-h, as the other pods run on"
    missing = gpus_gone * REDUCED_HOURS
    return Shrink(
        disturbed=disturbed,
        pods_left=left,
        gpu_hours=change + missing,
        formula=f"{how} + {gpus_gone} GPUs missing × {REDUCED_HOURS:g} h = {gpu_hours_text(change + missing)}",
    )


def advise(draft: Draft, shrink: Shrink, node: Node, findings: Sequence[OpenFinding], *, why: str) -> None:
    """Recommend it; carrying it out is its owner's or its scheduler's business."""
    workload = shrink.disturbed.workload
    by = workload.elastic.by if workload.elastic is not None else ""
    draft.accept(
        Recommendation(
            kind=RecommendationKind.RESIZE,
            rule="evacuate",
            purpose=f"resize:{workload.id}:{node.name}",
            subject=Subject(cluster=draft.snapshot.cluster, node=node.name, workload=workload.id),
            sentence=f"{shrink.sentence}, so that it runs on without {node.name}",
            reason=f"{workload.name} is elastic ({by}, at least {_least(shrink)}); {why}",
            findings=tuple(one.id for one in findings),
            moves=(),
            writes=(),
            gain=gain_of_ending(findings, horizon_hours=draft.settings.horizon_hours),
            cost=Cost(
                gpu_hours=shrink.gpu_hours,
                pods_disturbed=workload.pods - shrink.pods_left,
                workloads_disturbed=(workload.id,),
                formula=f"{workload.name}: {shrink.formula}",
            ),
            created_at=draft.now,
            expires_at=draft.now + timedelta(seconds=draft.settings.expiry_seconds),
            if_nothing_is_done=f"{workload.name} goes on with pods on {node.name}.",
        )
    )


def _least(shrink: Shrink) -> str:
    elastic = shrink.disturbed.workload.elastic
    return count_text(elastic.pods_min, "pod") if elastic is not None else ""
