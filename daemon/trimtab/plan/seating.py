"""Seats for one workload that has to leave a node: its pods there alone where that suffices, else the whole gang."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trimtab.model.cluster import Placement, Workload
from trimtab.model.command import Move, MoveKind, Recommendation, Seat
from trimtab.plan.cost import Disturbed, gpu_hours
from trimtab.plan.draft import Draft, leaving, move_of, seats_of
from trimtab.plan.phrase import count_text
from trimtab.plan.room import Room, Search, find_seats_together, search_for


@dataclass(frozen=True, slots=True, kw_only=True)
class _Seated:
    """Pods that leave, pods that stay, and the seats of those that leave."""

    go: Sequence[Placement]
    stay: Sequence[Placement]
    seats: Sequence[Seat]


def seat_off_node(
    draft: Draft, disturbed: Disturbed, node: str, room: Room, *, kind: MoveKind, purpose: str, search: Search
) -> Move | None:
    """The workload's move off a node, with the rest of a gang staying where it can; else its refusal is kept."""
    workload = disturbed.workload
    refusal = draft.refusal(move_of(workload, kind, node, ()))
    if refusal is not None:
        draft.refuse(refusal)
        return None
    wanted = replace(
        search, without=search.without | {node}, preferred=standing_nodes(draft.standing.get(purpose), workload.id)
    )
    seated = _seat(draft, workload, node, room, wanted)
    if seated is None:
        _refuse_for_want_of_room(draft, workload, node, room, wanted, purpose=purpose)
        return None
    move = _move(draft, disturbed, node, kind, seated)
    refusal = draft.refusal(move)
    if refusal is not None:
        draft.refuse(refusal)
        return None
    return move


def _pods(workload: Workload, go: Sequence[Placement]) -> list[tuple[str, int]]:
    if workload.placements:
        return [(one.pod, len(one.gpus)) for one in go]
    return [(f"{workload.name}-{rank}", workload.gpus_per_pod) for rank in range(workload.pods)]


def _seat(draft: Draft, workload: Workload, node: str, room: Room, search: Search) -> _Seated | None:
    """Seats beside the pods that stay; where its rack has none and all must be together, seats for all elsewhere."""
    go, stay = leaving(workload, without=draft.out | {node}, snapshot=draft.snapshot)
    nodes = draft.snapshot.node_by_name
    home = frozenset({nodes[node].rack}) if node in nodes else frozenset()
    near = frozenset(nodes[one.node].rack for one in (stay or go) if one.node in draft.room.racks) or home
    for leave, kept in ((go, stay), (list(workload.placements), [])) if stay and workload.together else ((go, stay),):
        wanted = search_for(
            workload, replace(search, near=near), stay=[nodes[one.node].rack for one in kept if one.node in nodes]
        )
        seats = find_seats_together(_pods(workload, leave), room, wanted, together=workload.together)
        if seats is not None:
            return _Seated(go=leave, stay=kept, seats=seats)
    return None


def _move(draft: Draft, disturbed: Disturbed, node: str, kind: MoveKind, seated: _Seated) -> Move:
    workload = disturbed.workload
    by_pod = {seat.pod: seat for seat in (*seated.seats, *seats_of(seated.stay))}
    order = [one.pod for one in workload.placements] or [seat.pod for seat in seated.seats]
    move = move_of(workload, kind, node, [by_pod[pod] for pod in order])
    if not workload.can_replace_pod or not seated.stay or {one.node for one in seated.go} != {node}:
        return move
    alone = tuple(one.pod for one in seated.go)
    default = draft.settings.restart_seconds_default
    whole = gpu_hours(disturbed, now=draft.now, at=draft.now, restart_default=default)
    part = gpu_hours(replace(disturbed, replaced=alone), now=draft.now, at=draft.now, restart_default=default)
    return replace(move, replaced=alone) if part < whole else move


def _refuse_for_want_of_room(
    draft: Draft, workload: Workload, node: str, room: Room, search: Search, *, purpose: str
) -> None:
    go, _ = leaving(workload, without=draft.out | {node}, snapshot=draft.snapshot)
    pods = _pods(workload, go)
    needed = max(gpus for _, gpus in pods)
    best, free = room.largest_free(with_spares=True)
    largest = f"the most free together are {free} on {best}" if free else "nothing is free"
    bound = " in one rack" if workload.together else ""
    bound += f" of pool {workload.pool}" if workload.pool else ""
    draft.refuse_because(
        "no_room",
        f"Not moved: {workload.name} needs {count_text(len(pods), 'seat')} of {count_text(needed, 'GPU')} "
        f"elsewhere{bound}; {largest}{spares_text(room, search)}.",
        purpose=purpose,
        workload=workload.id,
    )


def spares_text(room: Room, search: Search) -> str:
    """What is kept back, for the sentence of a refusal."""
    if not search.keeps_spares or not room.whole:
        return ""
    return f" ({count_text(room.whole, 'whole free node')}, {room.spares_kept} kept for faults)"


def standing_nodes(standing: Recommendation | None, workload: str) -> frozenset[str]:
    """Nodes that the standing advice seats a workload on."""
    if standing is None:
        return frozenset()
    return frozenset(seat.node for move in standing.moves if move.workload == workload for seat in move.after)
