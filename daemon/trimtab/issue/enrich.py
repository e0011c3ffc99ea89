"""The plan as it can be carried out: causes, vetoes, and the schedulers' own steps, before anything is compared."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from trimtab.errors import SchedulerError, SchedulerRefused
from trimtab.issue.hands import Hands
from trimtab.issue.vetoes import vetoed
from trimtab.model.advice import OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Plan, Recommendation, Refusal
from trimtab.model.standing import Standing

OUT_OF_REACH = "scheduler"
"""Refusal of a recommendation whose scheduler could not say how: it passes, and what stands waits."""


def enriched(
    plan: Plan,
    snapshot: ClusterSnapshot,
    hands: Hands,
    *,
    findings: Mapping[int, OpenFinding] | None,
    vetoes: Mapping[str, Standing],
    questions: Collection[str] = (),
) -> Plan:
    """The same advice with causes and with the steps that an approval binds to; what cannot be done is refused."""
    kept: list[Recommendation] = []
    refusals = list(plan.refusals)
    for one in plan.recommendations:
        caused = replace(one, causes=_causes(one, findings or {}))
        refusal = vetoed(caused, vetoes, questions)
        made = _with_way(caused, snapshot, hands) if refusal is None else refusal
        if isinstance(made, Refusal):
            refusals.append(made)
        else:
            kept.append(made)
    return replace(plan, recommendations=tuple(kept), refusals=tuple(refusals))


def _causes(recommendation: Recommendation, findings: Mapping[int, OpenFinding]) -> tuple[str, ...]:
    rules = {findings[one].finding.rule for one in recommendation.findings if one in findings}
    return tuple(sorted(rules)) or recommendation.causes


def _with_way(recommendation: Recommendation, snapshot: ClusterSnapshot, hands: Hands) -> Recommendation | Refusal:
    if recommendation.kind.is_advice_only:
        return recommendation
    try:
        way = hands.way(recommendation, snapshot)
    except SchedulerError as error:
        is_no = isinstance(error, SchedulerRefused)
        return Refusal(
            rule="way" if is_no else OUT_OF_REACH,
            sentence=str(error),
            subject=recommendation.subject,
            purpose=recommendation.purpose,
        )
    return replace(
        recommendation,
        steps=way.steps,
        way=way.sentence,
        way_seconds=way.seconds,
        against=tuple(dict.fromkeys((*recommendation.against, *way.against))),
    )
