"""Faults first: take the bad node out of service and bring what ran on it back on whole seats elsewhere."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from trimtab.model.advice import Action, OpenFinding, Subject, worst
from trimtab.model.cluster import Node, Workload
from trimtab.model.command import Move, MoveKind, Recommendation, RecommendationKind, Verb, Write
from trimtab.plan import resize
from trimtab.plan.cost import Disturbed, best_moment, cost_of, gpu_hours
from trimtab.plan.draft import Draft, writes_of
from trimtab.plan.gain import gain_of_ending
from trimtab.plan.phrase import count_text, gpu_hours_text, list_text
from trimtab.plan.room import Search
from trimtab.plan.seating import seat_off_node

RULE = "evacuate"
RESET_SUFFICES = (Action.CORDON_RESET, Action.RESET_AFTER_DRAIN)
"""What is cured by a reset of the one GPU; a reboot or a swap takes its node."""
WAIT_RATIO_OF_RMA = 0.25
NOT_A_FAULT = ("hotspot", "straggler")
"""Their nodes work, badly: `relocate` moves what suffers."""


def propose(draft: Draft) -> None:
    """One recommendation for each node that findings take out of service, worst first."""
    by_node = usable_by_node(draft, [one for one in draft.findings if one.finding.rule not in NOT_A_FAULT], RULE)
    for node in sorted(by_node, key=lambda name: _urgency(name, by_node[name])):
        _propose_for(draft, draft.snapshot.node_by_name[node], by_node[node])


def usable_by_node(draft: Draft, findings: Sequence[OpenFinding], rule: str) -> Mapping[str, list[OpenFinding]]:
    """Findings that a move may rest on, by node; each that may not is refused with its reason."""
    found: dict[str, list[OpenFinding]] = {}
    for one in findings:
        node = one.finding.subject.node
        if node is None or one.finding.action.rank < Action.RESET_AFTER_DRAIN.rank:
            continue
        doubt = _doubt(draft, one)
        if doubt is None:
            found.setdefault(node, []).append(one)
        else:
            name, sentence = doubt
            draft.refuse_because(name, f"Not moved: {sentence}", purpose=f"{rule}:{node}", node=node)
    return found


def _doubt(draft: Draft, one: OpenFinding) -> tuple[str, str] | None:
    node = draft.snapshot.node_by_name.get(one.finding.subject.node or "")
    if node is None:
        return "unknown_node", f"the scheduler has no node {one.finding.subject.node} ({one.name})."
    if node.other_mover:
        return "other_mover", f"{node.other_mover} is at work on {node.name} ({one.name})."
    if one.finding.is_history_only:
        return "history_only", f"{one.name} on {node.name} rests on old or foreign reports, which inform and never act."
    if not one.finding.is_corroborated:
        sources = {fact.source for fact in one.finding.evidence}
        return (
            "uncorroborated",
            f"{one.name} on {node.name} rests on {count_text(len(sources), 'source')} "
            f"({list_text(sorted(sources)) or 'none named'}); two are needed.",
        )
    return None


def _moment(draft: Draft, disturbed: Sequence[Disturbed], findings: Sequence[OpenFinding]) -> datetime | None:
    """When what still works is stopped at least cost: after its next checkpoint; None = now.

    The worse the fault, the shorter the wait: hardware that must be replaced is left within a quarter of it.
    """
    gravest = worst([one.finding.action for one in findings])
    share = WAIT_RATIO_OF_RMA if gravest is Action.HARDWARE_RMA else 1.0
    return best_moment(
        disturbed,
        now=draft.now,
        loss_gpus=max((one.finding.loss_gpus for one in findings), default=0.0),
        wait_seconds_max=draft.settings.checkpoint_wait_seconds_max * share,
        restart_default=draft.settings.restart_seconds_default,
    )


def gate_of(findings: Sequence[OpenFinding]) -> str:
    """What must be proved before the node returns to service."""
    return "; ".join(dict.fromkeys(f"{one.name}: {one.gate}" for one in findings if one.gate))


def _urgency(name: str, findings: Sequence[OpenFinding]) -> tuple[float, int, str]:
    loss_gpus = max(one.finding.loss_gpus for one in findings)
    return (-loss_gpus, -worst([one.finding.action for one in findings]).rank, name)


def _propose_for(draft: Draft, node: Node, findings: Sequence[OpenFinding]) -> None:
    purpose = f"{RULE}:{node.name}"
    takes_out = any(one.finding.action.takes_node_out for one in findings)
    alone = gpus_alone(node, findings)
    residents = _residents(draft, node.name, findings, only_on=alone)
    moved = _bring_back(draft, node.name, residents, findings, purpose) if takes_out else []
    moves = tuple(move for move, _ in moved)
    cordons = () if node.is_cordoned or alone else (node.name,)
    tainted = tuple(gpu.uuid for gpu in node.gpus if gpu.uuid in alone and gpu.tainted_by is None)
    if not moves and not cordons and not tainted:
        return
    disturbed = [one for _, one in moved]
    not_before = _moment(draft, disturbed, findings)
    named = list_text(one.name for one in findings)
    stay = [one.name for one in residents if one.id not in {move.workload for move in moves}]
    draft.accept(
        Recommendation(
            kind=RecommendationKind.DRAIN if moves else RecommendationKind.CORDON,
            rule=RULE,
            purpose=purpose,
            subject=_subject(draft, node.name, findings),
            sentence=_sentence(draft, node, moved, has_cordon=bool(cordons), tainted=tainted),
            reason=f"{named}: " + " ".join(dict.fromkeys(one.finding.sentence for one in findings)),
            findings=tuple(one.id for one in findings),
            moves=moves,
            writes=(
                *(Write(verb=Verb.TAINT_DEVICE, node=node.name, gpu=one, lasts=True) for one in tainted),
                *writes_of(moves, cordons=cordons),
            ),
            gain=gain_of_ending(findings, horizon_hours=draft.settings.horizon_hours),
            cost=cost_of(
                disturbed,
                now=draft.now,
                at=not_before or draft.now,
                restart_default=draft.settings.restart_seconds_default,
            ),
            created_at=draft.now,
            expires_at=(not_before or draft.now) + timedelta(seconds=draft.settings.expiry_seconds),
            not_before=not_before,
            against=against(findings, [one.workload for one in disturbed], stay, node.name),
            if_nothing_is_done=_if_nothing(findings, node.name),
            gates={node.name: gate_of(findings)},
        )
    )


def gpus_alone(node: Node, findings: Sequence[OpenFinding]) -> frozenset[str]:
    """UUIDs of the GPUs to take out in place of their node: where a reset suffices and the cluster can do it."""
    named = frozenset(one.finding.subject.gpu for one in findings if one.finding.subject.gpu)
    separable = {gpu.uuid for gpu in node.gpus if gpu.is_separable}
    suffices = all(one.finding.subject.gpu and one.finding.action in RESET_SUFFICES for one in findings)
    return named if suffices and named and named <= separable else frozenset()


def _residents(draft: Draft, node: str, findings: Sequence[OpenFinding], *, only_on: frozenset[str]) -> list[Workload]:
    """What runs on the node, or was thrown back into the queue by its fault, and nobody has in hand; hit ones first.

    `only_on`: GPUs that alone go out of service; empty = the whole node.
    """
    here = [
        one
        for one in draft.running_by_node.get(node, ())
        if not only_on or any(place.node == node and not only_on.isdisjoint(place.gpus) for place in one.placements)
    ]
    back = tuple(one for one in draft.snapshot.waiting if _is_thrown_back(one, findings))
    found = [one for one in (*here, *back) if not draft.is_in_hand(one)]
    return sorted(found, key=lambda one: (not is_hit(one, findings), -one.priority, one.id))


def _is_thrown_back(workload: Workload, findings: Sequence[OpenFinding]) -> bool:
    return "quota" not in (workload.waiting_reason or "").lower() and is_hit(workload, findings)


def is_hit(workload: Workload, findings: Sequence[OpenFinding]) -> bool:
    """Whether a finding names the workload as hit."""
    return any(
        name in (workload.id, workload.name)
        for one in findings
        for name in (*one.finding.workloads_hit, one.finding.subject.workload)
    )


def stands_still(workload: Workload, findings: Sequence[OpenFinding]) -> bool:
    """Whether the findings say that the whole workload does no work."""
    return is_hit(workload, findings) and any(one.finding.loss_gpus >= workload.gpus for one in findings)


def _bring_back(
    draft: Draft, node: str, residents: Sequence[Workload], findings: Sequence[OpenFinding], purpose: str
) -> list[tuple[Move, Disturbed]]:
    room = draft.room.copy()
    room.close(node)
    moved: list[tuple[Move, Disturbed]] = []
    for workload in residents:
        kind = MoveKind.DRAIN if is_hit(workload, findings) else MoveKind.MIGRATE
        disturbed = Disturbed(workload=workload, is_down=not workload.is_running or stands_still(workload, findings))
        move = seat_off_node(
            draft,
            disturbed,
            node,
            room,
            kind=kind,
            purpose=purpose,
            search=Search(may_use_spares=True, keeps_spares=False),
        )
        _advise_shrinking(draft, disturbed, node, move, findings)
        if move is not None:
            moved.append((move, replace(disturbed, replaced=move.replaced)))
    return moved


def _advise_shrinking(
    draft: Draft, disturbed: Disturbed, node: str, move: Move | None, findings: Sequence[OpenFinding]
) -> None:
    """An elastic job may run on smaller: said where there is no seat for it, or where a move costs more."""
    shrink = resize.shrink_of(draft, disturbed, node)
    if shrink is None:
        return
    where = draft.snapshot.node_by_name[node]
    if move is None:
        resize.advise(draft, shrink, where, findings, why=f"there is no seat for what it has on {node}.")
        return
    default = draft.settings.restart_seconds_default
    one = replace(disturbed, replaced=move.replaced)
    price = gpu_hours(one, now=draft.now, at=draft.now, restart_default=default)
    if shrink.gpu_hours < price:
        resize.advise(draft, shrink, where, findings, why=f"to move it costs {gpu_hours_text(price)}.")


def _subject(draft: Draft, node: str, findings: Sequence[OpenFinding]) -> Subject:
    gpus = {one.finding.subject.gpu for one in findings}
    return Subject(cluster=draft.snapshot.cluster, node=node, gpu=gpus.pop() if len(gpus) == 1 else None)


def _sentence(
    draft: Draft,
    node: Node,
    moved: Sequence[tuple[Move, Disturbed]],
    *,
    has_cordon: bool,
    tainted: Sequence[str] = (),
) -> str:
    parts = [f"cordon {node.name}"] if has_cordon else []
    indexes = [str(gpu.index) for gpu in node.gpus if gpu.uuid in tainted]
    if indexes:
        parts.append(f"take GPU {list_text(indexes)} of {node.name} out of service alone")
    parts += [_where_to(draft, move, one) for move, one in moved[:3]]
    if len(moved) > 3:
        parts.append(f"move {len(moved) - 3} more")
    text = ", ".join(parts)
    return text[:1].upper() + text[1:]


def _where_to(draft: Draft, move: Move, one: Disturbed) -> str:
    verb, back = ("bring", " back") if one.is_down else ("move", "")
    return f"{verb} {one.workload.name}{back} {seats_text(draft, move)}"


def seats_text(draft: Draft, move: Move) -> str:
    """`with spare gpu-22`, `to gpu-04 and gpu-05`: the nodes that a move adds."""
    before = {seat.node for seat in move.before}
    new = list(dict.fromkeys(seat.node for seat in move.after if seat.node not in before))
    nodes = draft.snapshot.node_by_name
    if new and all(nodes[name].is_spare for name in new):
        return f"with {'spare' if len(new) == 1 else 'spares'} {list_text(new)}"
    return f"to {list_text(new)}" if new else "to its other nodes"


def against(
    findings: Sequence[OpenFinding], moved: Sequence[Workload], stay: Sequence[str], node: str
) -> tuple[str, ...]:
    """What speaks against it, and who must be asked."""
    said = [fact.text for one in findings for fact in one.finding.against]
    said += [f"The owner of {one.name} wants to be asked first." for one in moved if one.wishes.is_ask_first]
    if stay:
        said.append(f"{list_text(stay)} stays on {node} until it ends; repair waits for it.")
    return tuple(dict.fromkeys(said))


def _if_nothing(findings: Sequence[OpenFinding], node: str) -> str:
    loss_gpus = max(one.finding.loss_gpus for one in findings)
    impact = next((one.finding.impact for one in findings if one.finding.impact), "")
    lost = f"{loss_gpus:.0f} GPU-h are lost each hour" if loss_gpus else f"the next job on {node} may fail there"
    return f"{lost[:1].upper() + lost[1:]}." + (f" {impact}" if impact else "")
