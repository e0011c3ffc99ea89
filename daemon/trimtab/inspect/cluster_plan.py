"""Fragmentation of a file's cluster, and what the planner would do about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.detect.fragmentation import Fragmentation
from trimtab.model.advice import Finding, OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Budget, Plan, Recommendation
from trimtab.model.window import Window
from trimtab.plan.displace import Displacement, displacement
from trimtab.plan.planner import Planner
from trimtab.settings import DetectSettings, PlanSettings


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
    settings = DetectSettings(spares_kept=0)
    window = Window(cluster="", at=now, span_seconds=0.0, gpus={}, nodes={}, snapshot=snapshot)
    findings = tuple(Fragmentation(settings).detect(window))
    held = [
        OpenFinding(id=number, finding=finding, opened_at=now, changed_at=now, last_seen_at=now)
        for number, finding in enumerate(findings, start=1)
    ]
    plan = Planner(PlanSettings()).propose(snapshot, held, Budget())
    forced = [found for one in snapshot.waiting if (found := displacement(snapshot, one)) is not None]
    return Planned(
        findings=findings,
        steps=tuple(line for one in plan.recommendations for line in _lines(one)),
        notes=tuple(refusal.sentence for refusal in plan.refusals),
        reading=_reading(plan, forced),
    )


def _lines(one: Recommendation) -> Iterator[str]:
    yield f"{one.sentence} (gain {one.gain.gpu_hours:.1f} GPU-h, cost {one.cost.gpu_hours:.1f} GPU-h)"
    yield from (f"  {write.text}" for write in one.writes)


def _reading(plan: Plan, forced: list[Displacement]) -> dict[str, object]:
    """What is proposed; where nothing is, what force would take: evictions and moves, which are not proposed."""
    if plan.recommendations:
        return {
            "moves": sum(len(one.moves) for one in plan.recommendations),
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
