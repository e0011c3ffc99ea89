"""Says what would be better: faults evacuated, sufferers relocated, room made, in that order, within the budget."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import timedelta

from trimtab.model.advice import OpenFinding, Subject
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Budget, Plan, Recommendation, Refusal
from trimtab.plan import consolidate, evacuate, relocate, restore
from trimtab.plan.draft import Draft
from trimtab.plan.phrase import span_text
from trimtab.plan.restore import TakenOut
from trimtab.plan.rules import RULES, Rule
from trimtab.settings import PlanSettings

SNAPSHOT_AGE_SECONDS_MAX = 60.0
"""A snapshot older than the findings by this much describes another cluster."""

RULE_NAMES = (evacuate.RULE, relocate.RULE, consolidate.RULE, restore.RULE)
"""What a recommendation's `rule` can be; modes are set by these names."""
PARTS: tuple[Callable[[Draft], None], ...] = (
    evacuate.propose,  # what is lost comes first, and may take the spares
    relocate.propose,  # then what goes on badly
    consolidate.propose,  # then who waits, with the room that is left
    restore.propose,  # last: what comes back is room for the next plan, once it is there
)


class Planner:
    """Makes a plan of one snapshot and the open findings; the same input gives the same plan."""

    def __init__(self, settings: PlanSettings, *, adapter_rule: Rule | None = None) -> None:
        """`adapter_rule`: the scheduler's own opinion, one more rule of the same shape."""
        self._settings = settings
        self._rules = (*RULES, adapter_rule) if adapter_rule is not None else RULES

    def propose(
        self,
        snapshot: ClusterSnapshot,
        open_findings: Sequence[OpenFinding],
        budget: Budget,
        standing: Sequence[Recommendation] = (),
        taken_out: Sequence[TakenOut] = (),
        *,
        quiet: Collection[str] = (),
    ) -> Plan:
        """Recommendations and refusals. `standing`: advice not begun yet, kept where it is still about as good.

        `taken_out`: nodes that commands of ours have cordoned to stay, to be given back when their gate is met.
        `quiet`: purposes that are not proposed for now (a person's no is fresh): they take no seat and no budget.
        """
        doubt = _why_not_whole(snapshot, open_findings)
        if doubt is not None:
            return Plan(made_at=snapshot.taken_at, refusals=(doubt,), is_whole=False)
        draft = Draft(
            snapshot=snapshot,
            findings=open_findings,
            settings=self._settings,
            budget=budget,
            rules=self._rules,
            standing=standing,
            taken_out=taken_out,
            quiet=quiet,
        )
        for part in PARTS:
            part(draft)
        return draft.plan()


def _why_not_whole(snapshot: ClusterSnapshot, open_findings: Sequence[OpenFinding]) -> Refusal | None:
    """Why this snapshot proves nothing: then nothing is proposed."""
    subject = Subject(cluster=snapshot.cluster)
    if not snapshot.nodes:
        return Refusal(rule="snapshot", sentence="Nothing proposed: the snapshot has no node.", subject=subject)
    unknown = sorted(
        {one.node for workload in snapshot.workloads for one in workload.placements} - set(snapshot.node_by_name)
    )
    if unknown:
        sentence = f"Nothing proposed: the snapshot has pods on {len(unknown)} nodes that it lacks ({unknown[0]} …)."
        return Refusal(rule="snapshot", sentence=sentence, subject=subject)
    seen_at = max((one.last_seen_at for one in open_findings), default=snapshot.taken_at)
    age_seconds = (seen_at - snapshot.taken_at) / timedelta(seconds=1)
    if age_seconds > SNAPSHOT_AGE_SECONDS_MAX:
        sentence = f"Nothing proposed: the snapshot is {span_text(age_seconds)} older than the findings."
        return Refusal(rule="snapshot_stale", sentence=sentence, subject=subject)
    return None
