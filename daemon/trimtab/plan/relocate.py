"""A node that works badly: move what suffers there to a healthy one, and keep others from landing on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from trimtab.model.advice import OpenFinding, Subject
from trimtab.model.cluster import Node, Workload
from trimtab.model.command import Move, MoveKind, Recommendation, RecommendationKind
from trimtab.plan import evacuate
from trimtab.plan.cost import Disturbed, best_moment, cost_of
from trimtab.plan.draft import Draft, writes_of
from trimtab.plan.gain import gain_of_ending
from trimtab.plan.phrase import gpu_hours_text, list_text
from trimtab.plan.room import Search
from trimtab.plan.seating import seat_off_node

RULE = "relocate"


def propose(draft: Draft) -> None:
    """One recommendation for each node whose hotspot or straggler hits a workload, largest loss first."""
    by_node = evacuate.usable_by_node(
        draft, [one for one in draft.findings if one.finding.rule in evacuate.NOT_A_FAULT], RULE
    )
    for node in sorted(by_node, key=lambda name: (-_loss_gpus(by_node[name]), name)):
        _propose_for(draft, draft.snapshot.node_by_name[node], by_node[node])


def _loss_gpus(findings: Sequence[OpenFinding]) -> float:
    return max(one.finding.loss_gpus for one in findings)


def _propose_for(draft: Draft, node: Node, findings: Sequence[OpenFinding]) -> None:
    purpose = f"{RULE}:{node.name}"
    moved = _move_off(draft, node.name, _sufferers(draft, node.name, findings), purpose)
    if not moved:
        return
    cordons = () if node.is_cordoned else (node.name,)
    moves = tuple(move for move, _ in moved)
    disturbed = [one for _, one in moved]
    settings = draft.settings
    not_before = best_moment(
        disturbed,
        now=draft.now,
        loss_gpus=_loss_gpus(findings),
        wait_seconds_max=settings.checkpoint_wait_seconds_max,
        restart_default=settings.restart_seconds_default,
    )
    at = not_before or draft.now
    gain = gain_of_ending(findings, horizon_hours=settings.horizon_hours)
    cost = cost_of(disturbed, now=draft.now, at=at, restart_default=settings.restart_seconds_default)
    names = list_text(one.workload.name for one in disturbed)
    if cost.gpu_hours >= gain.gpu_hours:
        draft.refuse_because(
            "not_worth_it",
            f"Not moved: moving {names} off {node.name} costs {gpu_hours_text(cost.gpu_hours)} and gives "
            f"{gpu_hours_text(gain.gpu_hours)} in {gain.horizon_hours:g} h.",
            purpose=purpose,
            node=node.name,
        )
        return
    draft.accept(
        Recommendation(
            kind=RecommendationKind.MIGRATE,
            rule=RULE,
            purpose=purpose,
            subject=Subject(cluster=draft.snapshot.cluster, node=node.name),
            sentence=_sentence(draft, node.name, moved, has_cordon=bool(cordons)),
            reason=_reason(findings, node.name, has_cordon=bool(cordons)),
            findings=tuple(one.id for one in findings),
            moves=moves,
            writes=writes_of(moves, cordons=cordons),
            gain=gain,
            cost=cost,
            created_at=draft.now,
            expires_at=at + timedelta(seconds=settings.expiry_seconds),
            not_before=not_before,
            against=evacuate.against(findings, [one.workload for one in disturbed], (), node.name),
            gates={node.name: evacuate.gate_of(findings)} if cordons else {},
            if_nothing_is_done=f"{names} goes on losing the work of {_loss_gpus(findings):.1f} GPUs.",
        )
    )


def _sufferers(draft: Draft, node: str, findings: Sequence[OpenFinding]) -> list[Workload]:
    found = [
        one
        for one in draft.running_by_node.get(node, ())
        if not draft.is_in_hand(one) and evacuate.is_hit(one, findings)
    ]
    return sorted(found, key=lambda one: (-one.priority, one.id))


def _move_off(draft: Draft, node: str, sufferers: Sequence[Workload], purpose: str) -> list[tuple[Move, Disturbed]]:
    room = draft.room.copy()
    room.close(node)
    search = Search(may_use_spares=True, keeps_spares=True)
    found: list[tuple[Move, Disturbed]] = []
    for workload in sufferers:
        disturbed = Disturbed(workload=workload)
        move = seat_off_node(draft, disturbed, node, room, kind=MoveKind.MIGRATE, purpose=purpose, search=search)
        if move is not None:
            found.append((move, replace(disturbed, replaced=move.replaced)))
    return found


def _sentence(draft: Draft, node: str, moved: Sequence[tuple[Move, Disturbed]], *, has_cordon: bool) -> str:
    parts = [f"move {one.workload.name} off {node} {evacuate.seats_text(draft, move)}" for move, one in moved]
    if has_cordon:
        parts.append(f"cordon {node}")
    text = ", ".join(parts)
    return text[:1].upper() + text[1:]


def _reason(findings: Sequence[OpenFinding], node: str, *, has_cordon: bool) -> str:
    named = list_text(one.name for one in findings)
    cause = " ".join(dict.fromkeys(f"{one.finding.sentence.rstrip('.')}." for one in findings))
    kept = f" {node} stays cordoned, so that nobody else lands on it before it is repaired." if has_cordon else ""
    return f"{named}: {cause}{kept}"
