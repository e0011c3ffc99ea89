"""Back to service: a node that we took out, once everything that it was taken out for has ended by its own rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from trimtab.model.advice import UNPROVED, FindingState, OpenFinding, Subject
from trimtab.model.cluster import Node
from trimtab.model.command import Cost, Gain, Recommendation, RecommendationKind, Verb, Write
from trimtab.plan.draft import Draft, nodes_in_doubt
from trimtab.plan.phrase import count_text, gpu_hours_text, list_text

RULE = "restore"


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenOut:
    """A node that stands cordoned by a command of ours that has settled, and what that command rested on."""

    node: str
    gpu: str | None = None
    """The one GPU that is out, where its node goes on."""
    mark: str
    command: str
    """For people: `R11`."""
    findings: Sequence[OpenFinding]


def propose(draft: Draft) -> None:
    """One recommendation for each node whose gate is met; of the others, what is still missing."""
    in_doubt = nodes_in_doubt(draft.findings)
    for one in sorted(draft.taken_out, key=lambda each: (each.node, each.gpu or "")):
        purpose = f"{RULE}:{one.node}" + (f"/{one.gpu}" if one.gpu else "")
        missing = _missing(one, in_doubt)
        if missing is not None:
            draft.refuse_because("gate", f"{one.node} stays out: {missing}", purpose=purpose, node=one.node)
        else:
            _recommend(draft, one, purpose)


def _missing(one: TakenOut, in_doubt: frozenset[str]) -> str | None:
    """What must still be proved before the node may come back, as the end of a sentence; None = nothing."""
    if not one.findings:
        return f"nobody knows what {one.command} rested on."
    still = [found for found in one.findings if found.state is FindingState.OPEN]
    if still:
        return f"{still[0].name} is open; its gate is: {still[0].gate or 'not known'}."
    if one.node in in_doubt:
        return "another finding about it is open."
    return next((_doubt(found, one.command) for found in one.findings if UNPROVED in found.finding.facts), None)


def _doubt(found: OpenFinding, command: str) -> str:
    """What ended only since the node was emptied comes back with the next job: a person answers for the repair."""
    return (
        f"{found.name} ended while {found.finding.facts[UNPROVED]}, which proves nothing. "
        f"Once it is repaired, or tried under load, give it back: trimtab undo {command}."
    )


def _recommend(draft: Draft, one: TakenOut, purpose: str) -> None:
    node = draft.snapshot.node_by_name[one.node]
    named = list_text(found.name for found in one.findings)
    ended = list_text(dict.fromkeys(found.close_reason or found.gate for found in one.findings))
    gpus = 1 if one.gpu else sum(1 for gpu in node.gpus if gpu.is_usable)
    what = f"GPU {next((gpu.index for gpu in node.gpus if gpu.uuid == one.gpu), '?')} of {one.node}"
    verb = Verb.UNTAINT_DEVICE if one.gpu else Verb.UNCORDON
    draft.accept(
        Recommendation(
            kind=RecommendationKind.UNCORDON,
            rule=RULE,
            purpose=purpose,
            subject=Subject(cluster=draft.snapshot.cluster, node=one.node, gpu=one.gpu),
            sentence=f"Return {what} to service" if one.gpu else f"Uncordon {one.node}",
            reason=f"{one.command} took it out for {named}, which has ended: {ended}.",
            findings=(),
            moves=(),
            writes=(Write(verb=verb, node=one.node, gpu=one.gpu, lifts=one.mark),),
            gain=_gain(draft, node, gpus),
            cost=Cost(gpu_hours=0.0, formula="nothing is stopped: 0 GPU-h"),
            created_at=draft.now,
            expires_at=draft.now + timedelta(seconds=draft.settings.expiry_seconds),
            if_nothing_is_done=f"{count_text(gpus, 'GPU')} of {one.node} left out of service.",
        )
    )


def _gain(draft: Draft, node: Node, gpus: int) -> Gain:
    """What would use the GPUs: no more than what waits for room and may run there."""
    hours = draft.settings.horizon_hours
    waiting = [one for one in draft.snapshot.waiting if one.waiting_reason != "quota" and one.may_use(node)]
    used = min(gpus, sum(one.gpus for one in waiting))
    who = f"{list_text(one.name for one in waiting)} would use {used}" if used else "nothing waits for room there now"
    return Gain(
        gpu_hours=used * hours,
        horizon_hours=hours,
        gpus_unlocked=gpus,
        formula=f"{count_text(gpus, 'GPU')} back; {who}: "
        f"{count_text(used, 'GPU')} × {hours:g} h = {gpu_hours_text(used * hours)}",
    )
