"""Which jobs would have to leave a node to give a pod room there, and what that costs; cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from trimtab.model.cluster import Workload
from trimtab.model.command import MoveKind, Recommendation
from trimtab.plan.cost import Disturbed, gpu_hours, next_checkpoint
from trimtab.plan.draft import Draft, move_of
from trimtab.plan.room import Room

NODES_TRIED_MAX = 64
"""Nodes that need fewest GPUs emptied are looked at in depth; more would cost time and never be chosen."""
RESIDENTS_COMBINED_MAX = 10
"""Up to this many jobs on a node all choices are compared; beyond it the cheapest per GPU go first."""
STANDING_DISCOUNT_RATIO = 0.75
STANDING_DISCOUNT_GPU_HOURS = 0.1
"""Advice that stands is kept until another is clearly cheaper, so that it does not flip from beat to beat."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emptying:
    """One way to make room for one pod on one node."""

    node: str
    victims: tuple[Workload, ...]
    gpus_free: int
    gpus_freed: int
    gpu_hours: float
    """What it costs at the best moment, the wait for that moment included."""


def emptyings(draft: Draft, waiting: Workload, room: Room, standing: Recommendation | None) -> list[Emptying]:
    """One option a node, cheapest first; the node that the standing advice empties has a head start."""
    residents = _movable_by_node(draft, waiting)
    found = []
    for node in _nodes_to_try(waiting, room, residents, standing):
        option = _cheapest(
            draft,
            waiting,
            node=node,
            free=room.free[node],
            residents=residents.get(node, []),
            standing=standing,
        )
        if option is not None:
            found.append(option)
    kept = _nodes_of(standing)
    return sorted(found, key=lambda one: (_ranked(one, is_standing=one.node in kept), len(one.victims), one.node))


def _ranked(option: Emptying, *, is_standing: bool) -> float:
    if not is_standing:
        return option.gpu_hours
    return option.gpu_hours * STANDING_DISCOUNT_RATIO - STANDING_DISCOUNT_GPU_HOURS


def _nodes_of(standing: Recommendation | None) -> frozenset[str]:
    if standing is None:
        return frozenset()
    return frozenset(
        seat.node for move in standing.moves if move.workload == standing.for_workload for seat in move.after
    )


def _movable_by_node(draft: Draft, waiting: Workload) -> dict[str, list[Workload]]:
    """Node -> jobs that may be moved off it; each whom a rule protects is left out, silently: it is no failure."""
    found: dict[str, list[Workload]] = {}
    for workload in sorted(draft.snapshot.workloads, key=lambda one: one.id):
        if not workload.is_running or draft.is_in_hand(workload) or workload.id == waiting.id:
            continue
        if draft.refusal(move_of(workload, MoveKind.CONSOLIDATE, None, ())) is None:
            for node in workload.nodes:
                found.setdefault(node, []).append(workload)
    return found


def _nodes_to_try(
    waiting: Workload, room: Room, residents: dict[str, list[Workload]], standing: Recommendation | None
) -> list[str]:
    kept = _nodes_of(standing)
    able = [
        node
        for node, usable in room.usable.items()
        if usable >= waiting.gpus_per_pod and node in room.free and node not in room.spares and node in residents
    ]
    return sorted(able, key=lambda node: (node not in kept, -room.free[node], node))[:NODES_TRIED_MAX]


def _held_on(workload: Workload, node: str) -> int:
    return sum(len(one.gpus) for one in workload.placements if one.node == node)


def _cheapest(
    draft: Draft,
    waiting: Workload,
    *,
    node: str,
    free: int,
    residents: Sequence[Workload],
    standing: Recommendation | None,
) -> Emptying | None:
    deficit = waiting.gpus_per_pod - free
    if deficit <= 0:
        return None
    prices = {one.id: _price(draft, waiting, one) for one in residents}
    stood = {move.workload for move in standing.moves} if standing is not None else set()

    def rank(chosen: Sequence[Workload]) -> tuple[float, int, int, list[str]]:
        price = sum(prices[one.id] for one in chosen)
        if stood and {one.id for one in chosen} <= stood:
            price = price * STANDING_DISCOUNT_RATIO - STANDING_DISCOUNT_GPU_HOURS
        return price, len(chosen), max(one.priority for one in chosen), [one.id for one in chosen]

    able = [chosen for chosen in _choices(residents, prices) if sum(_held_on(one, node) for one in chosen) >= deficit]
    if not able:
        return None
    best = min(able, key=rank)
    return Emptying(
        node=node,
        victims=tuple(best),
        gpus_free=free,
        gpus_freed=sum(_held_on(one, node) for one in best),
        gpu_hours=sum(prices[one.id] for one in best),
    )


def _choices(residents: Sequence[Workload], prices: dict[str, float]) -> Iterator[tuple[Workload, ...]]:
    if len(residents) <= RESIDENTS_COMBINED_MAX:
        for count in range(1, len(residents) + 1):
            yield from combinations(residents, count)
        return
    ordered = sorted(residents, key=lambda one: (prices[one.id] / max(one.gpus, 1), one.id))
    for count in range(1, len(ordered) + 1):
        yield tuple(ordered[:count])


def _price(draft: Draft, waiting: Workload, victim: Workload) -> float:
    """What moving one job costs at its own best moment; waiting for it keeps the other one waiting."""
    one, default = Disturbed(workload=victim), draft.settings.restart_seconds_default
    now = draft.now
    at_once = gpu_hours(one, now=now, at=now, restart_default=default)
    moment = next_checkpoint(victim, now)
    if moment is None or (moment - now).total_seconds() > draft.settings.checkpoint_wait_seconds_max:
        return at_once
    waited = waiting.gpus * (moment - now).total_seconds() / 3600
    return min(at_once, gpu_hours(one, now=now, at=moment, restart_default=default) + waited)
