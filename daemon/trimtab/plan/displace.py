"""What room for a waiting job would take by force: evictions of lower priority, and moves into their seats.

trimtab proposes no eviction without a seat; this says in numbers what that costs, and `inspect` shows it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from trimtab.model.cluster import ClusterSnapshot, Node, Workload
from trimtab.plan.phrase import count_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Displacement:
    """The least that frees one seat on one node by priority alone."""

    node: str
    evictions: tuple[str, ...]
    """Workloads of lower priority that would lose their place, those on the node first."""
    evictions_here: int
    moves: tuple[tuple[str, str], ...]
    """(workload, node): who leaves the node for a seat that an eviction made or that was free."""
    gpus_freed: int
    lower_priority: int
    """All workloads of lower priority that run."""
    gpus_freed_in_place: int
    """The most GPUs that evicting all of those would free on one node, without any move."""


NODES_TRIED_MAX = 8
"""Nodes where fewest jobs would have to leave are worked out in full; a refusal needs no exact minimum."""


def displacement(snapshot: ClusterSnapshot, waiting: Workload) -> Displacement | None:
    """The cheapest way to seat one pod of `waiting` on one node by evicting lower priorities, or None."""
    running = [one for one in snapshot.workloads if one.is_running and one.pods == 1 and one.placements]
    lower = [one for one in running if one.priority < waiting.priority and one.is_preemptible]
    if not lower:
        return None
    here: dict[str, list[Workload]] = {}
    for one in sorted(running, key=lambda each: (each.priority, each.id)):
        here.setdefault(one.nodes[0], []).append(one)
    able = []
    for node in snapshot.nodes:
        leaving = _who_leaves(node, snapshot, waiting, here.get(node.name, []))
        if leaving:
            able.append((len(leaving), node.name, leaving))
    tried = [
        _on_node(name, snapshot, leaving, lower)
        for _, name, leaving in sorted(able, key=lambda each: each[:2])[:NODES_TRIED_MAX]
    ]
    found = [one for one in tried if one is not None]
    return min(found, key=lambda one: (len(one.evictions), len(one.moves), one.node), default=None)


def _who_leaves(node: Node, snapshot: ClusterSnapshot, waiting: Workload, here: list[Workload]) -> list[Workload]:
    """Lowest priority first, until there is room; empty where that cannot be."""
    usable = sum(1 for gpu in node.gpus if gpu.is_usable)
    if not node.is_schedulable or usable < waiting.gpus_per_pod:
        return []
    deficit = waiting.gpus_per_pod - len(snapshot.free_gpus[node.name])
    leaving: list[Workload] = []
    for one in here:
        if deficit > 0:
            leaving.append(one)
            deficit -= one.gpus
    return leaving if deficit <= 0 else []


def _on_node(
    node: str, snapshot: ClusterSnapshot, leaving: list[Workload], lower: list[Workload]
) -> Displacement | None:
    lower_ids = {one.id for one in lower}
    evicted = [one for one in leaving if one.id in lower_ids]
    seated = _seat_the_others(node, snapshot, [one for one in leaving if one.id not in lower_ids], lower)
    if seated is None:
        return None
    elsewhere, moves = seated
    return Displacement(
        node=node,
        evictions=tuple(one.id for one in (*evicted, *elsewhere)),
        evictions_here=len(evicted),
        moves=tuple(moves),
        gpus_freed=sum(one.gpus for one in leaving) + len(snapshot.free_gpus[node]),
        lower_priority=len(lower),
        gpus_freed_in_place=_freed_in_place(snapshot, lower),
    )


def _seat_the_others(
    node: str, snapshot: ClusterSnapshot, others: list[Workload], lower: list[Workload]
) -> tuple[list[Workload], list[tuple[str, str]]] | None:
    free = Counter({name: len(gpus) for name, gpus in snapshot.free_gpus.items() if name != node})
    pool = sorted((one for one in lower if one.nodes != (node,)), key=lambda one: (one.priority, one.gpus, one.id))
    pool = [one for one in pool if one.nodes[0] in free]
    evicted: list[Workload] = []
    moves: list[tuple[str, str]] = []
    for one in sorted(others, key=lambda other: (-other.gpus, other.id)):
        if not one.is_preemptible or one.wishes.is_opted_out:
            return None
        while not any(gpus >= one.gpus for gpus in free.values()):
            if not pool:
                return None
            gone = pool.pop(0)
            evicted.append(gone)
            free[gone.nodes[0]] += gone.gpus
        target = min((name for name, gpus in free.items() if gpus >= one.gpus), key=lambda name: (free[name], name))
        free[target] -= one.gpus
        moves.append((one.id, target))
    return evicted, moves


def _freed_in_place(snapshot: ClusterSnapshot, lower: list[Workload]) -> int:
    freed = Counter({name: len(gpus) for name, gpus in snapshot.free_gpus.items()})
    for one in lower:
        freed[one.nodes[0]] += one.gpus
    return max(freed.values(), default=0)


def displacement_text(forced: Displacement, waiting: Workload) -> str:
    """The sentence of a refusal: what force would take, and that trimtab does not use it."""
    elsewhere = len(forced.evictions) - forced.evictions_here
    place = f"{forced.evictions_here} on {forced.node}, {elsewhere} elsewhere" if elsewhere else f"on {forced.node}"
    moves = f" and {count_text(len(forced.moves), 'move')}" if forced.moves else ""
    in_place = (
        f"Evicting all {forced.lower_priority} of lower priority where they are would free no more than "
        f"{forced.gpus_freed_in_place} together. "
        if forced.gpus_freed_in_place < waiting.gpus_per_pod
        else ""
    )
    return (
        f"{in_place}{forced.gpus_freed} on one node would take {count_text(len(forced.evictions), 'eviction')} "
        f"without a seat ({place}){moves}: trimtab evicts nobody without a seat."
    )
