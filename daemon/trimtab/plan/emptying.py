"""Which jobs would have to leave a node to give a pod room there, and what that costs; cheapest first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from trimtab.model.cluster import Workload
from trimtab.model.command import Recommendation
from trimtab.plan.cost import Disturbed, gpu_hours, next_checkpoint
from trimtab.plan.draft import Draft
from trimtab.plan.room import Room, Search

NODES_TRIED_MAX = 64
"""So many ways are compared, on the nodes that need fewest GPUs emptied; more would cost time and hardly be chosen."""
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


def emptyings(
    draft: Draft, waiting: Workload, room: Room, standing: Recommendation | None, search: Search
) -> list[Emptying]:
    """One option a node, cheapest first; the node that the standing advice empties has a head start."""
    found: list[Emptying] = []
    for node in _nodes_to_try(draft, waiting, room, standing, search):
        if len(found) == NODES_TRIED_MAX:
            break
        option = _cheapest(draft, waiting, node=node, free=room.free[node], standing=standing)
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


def _nodes_to_try(
    draft: Draft, waiting: Workload, room: Room, standing: Recommendation | None, search: Search
) -> list[str]:
    """The standing advice's nodes first, then those that need fewest GPUs emptied."""
    kept = _nodes_of(standing)
    able = [
        node
        for node, usable in room.usable.items()
        if usable >= waiting.gpus_per_pod
        and node in room.free
        and search.allows(node, room)
        and node in draft.running_by_node
    ]
    return sorted(able, key=lambda node: (node not in kept, -room.free[node], node))


def _held_on(workload: Workload, node: str) -> int:
    return sum(len(one.gpus) for one in workload.placements if one.node == node)


def _cheapest(
    draft: Draft, waiting: Workload, *, node: str, free: int, standing: Recommendation | None
) -> Emptying | None:
    deficit = waiting.gpus_per_pod - free
    residents = [one for one in draft.running_by_node[node] if one.id != waiting.id and draft.may_make_room(one)]
    if deficit <= 0 or sum(_held_on(one, node) for one in residents) < deficit:
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
