"""Fragmentation of a file's cluster, and what the planner would do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from trimtab.detect.fragmentation import Fragmentation
from trimtab.model.advice import Finding, OpenFinding
from trimtab.model.cluster import Checkpoint, ClusterSnapshot, Workload
from trimtab.model.command import Budget, Plan, Recommendation
from trimtab.model.window import Window
from trimtab.plan.displace import Displacement, displacement
from trimtab.plan.planner import Planner
from trimtab.settings import DetectSettings, PlanSettings

_SETTINGS = PlanSettings(is_finding_needed_to_make_room=False)
_SAVED_SECONDS = 1800.0
_ASSUMPTION = "If the jobs that move have saved their work within the last 30 min (the file does not say):"


@dataclass(frozen=True, slots=True, kw_only=True)
class Planned:
    """Findings, the plan in steps, why not more, and its numbers."""

    findings: tuple[Finding, ...] = ()
    steps: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    reading: dict[str, object] = field(default_factory=dict)


def planned(snapshot: ClusterSnapshot, *, now: datetime) -> Planned:
    """Nothing where nobody waits or no node is known."""
    if not snapshot.nodes or not snapshot.waiting:
        return Planned()
    # A file has no spares to keep and no budget to count down: what could be done is the question.
    settings = DetectSettings()
    window = Window(cluster="", at=now, span_seconds=0.0, gpus={}, nodes={}, snapshot=snapshot)
    findings = tuple(Fragmentation(settings).detect(window))
    held = [
        OpenFinding(id=number, finding=finding, opened_at=now, changed_at=now, last_seen_at=now)
        for number, finding in enumerate(findings, start=1)
    ]
    plan = Planner(_SETTINGS).propose(snapshot, held, Budget())
    steps = _steps(plan)
    if not steps and any(_is_unsaved(one) for one in snapshot.workloads):
        # A file says nothing of checkpoints, and the planner then counts all work since the start as lost.
        assumed = Planner(_SETTINGS).propose(_saved(snapshot), held, Budget())
        plan = assumed if assumed.recommendations else plan
        steps = (_ASSUMPTION, *_steps(assumed)) if assumed.recommendations else ()
    forced = [found for one in snapshot.waiting if (found := displacement(snapshot, one)) is not None]
    return Planned(
        findings=findings,
        steps=steps,
        notes=tuple(refusal.sentence for refusal in plan.refusals),
        reading=_reading(plan, forced),
    )


def _is_unsaved(one: Workload) -> bool:
    return one.is_running and one.checkpoint.last_at is None


def _saved(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    saved = Checkpoint(last_at=snapshot.taken_at - timedelta(seconds=_SAVED_SECONDS), interval_seconds=_SAVED_SECONDS)
    workloads = tuple(replace(one, checkpoint=saved) if _is_unsaved(one) else one for one in snapshot.workloads)
    return replace(snapshot, workloads=workloads)


def _steps(plan: Plan) -> tuple[str, ...]:
    return tuple(line for one in plan.recommendations for line in _lines(one))


def _lines(one: Recommendation) -> Iterator[str]:
    yield f"{one.sentence} (gain {one.gain.gpu_hours:.1f} GPU-h, cost {one.cost.gpu_hours:.1f} GPU-h)"
    yield from (f"  {write.text}" for write in one.writes)


def _reading(plan: Plan, forced: list[Displacement]) -> dict[str, object]:
    """What is proposed; where nothing is, what force would take: evictions and moves, which are not proposed."""
    if plan.recommendations:
        return {
            "moves": sum(move.workload != one.for_workload for one in plan.recommendations for move in one.moves),
            "evictions": 0,
            "steps": [write.text for one in plan.recommendations for write in one.writes],
        }
    if not forced:
        return {}
    least = min(forced, key=lambda one: (len(one.evictions), len(one.moves)))
    return {
        "is_proposed": False,
        "evictions": len(least.evictions),
        "moves": len(least.moves),
        "freed_on_one_node": least.gpus_freed,
    }
