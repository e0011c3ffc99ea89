"""What a recommendation gives: a loss that ends, or a wait that ends, over a stated time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from trimtab.model.advice import OpenFinding
from trimtab.model.cluster import Workload
from trimtab.model.command import Gain
from trimtab.plan.phrase import gpu_hours_text, span_text

EXPECTED_WAIT_SECONDS_MIN = 3600.0
"""Whoever holds whole nodes rarely leaves sooner; a wait is otherwise expected to last as long again as it has."""


def gain_of_ending(findings: Sequence[OpenFinding], *, horizon_hours: float) -> Gain:
    """The loss of these findings, ended. Findings of one node overlap, so the largest counts, not the sum."""
    loss_gpus = max((one.finding.loss_gpus for one in findings), default=0.0)
    gpu_hours = loss_gpus * horizon_hours
    return Gain(
        gpu_hours=gpu_hours,
        horizon_hours=horizon_hours,
        formula=f"{loss_gpus:.1f} GPUs' work lost × {horizon_hours:g} h = {gpu_hours_text(gpu_hours)}"
        if loss_gpus
        else "no work is lost yet; what is gained is that nobody new lands on it",
    )


def gain_of_starting(waiting: Workload, *, now: datetime, horizon_hours: float) -> Gain:
    """The rest of a wait, ended: as long again as it has lasted, within bounds."""
    waited_seconds = (now - waiting.waiting_since).total_seconds() if waiting.waiting_since else 0.0
    hours = min(max(waited_seconds, EXPECTED_WAIT_SECONDS_MIN) / 3600, horizon_hours)
    gpu_hours = waiting.gpus * hours
    return Gain(
        gpu_hours=gpu_hours,
        horizon_hours=hours,
        gpus_unlocked=waiting.gpus,
        formula=f"{waiting.gpus} GPUs × {span_text(hours * 3600)} of further wait (it has waited "
        f"{span_text(waited_seconds)}; expected: as long again, at least 1 h) = {gpu_hours_text(gpu_hours)}",
    )
