"""A budget being counted down: by the planner for one plan, and at the edge for what begins. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Budget, Move, Verb, Write


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was taken from a budget since it was made."""

    moves: int = 0
    gpus: int = 0
    cordons: int = 0
    by_queue: Mapping[str, int] = field(default_factory=dict)
    by_workload: Mapping[str, int] = field(default_factory=dict)
    by_pool: Mapping[str, int] = field(default_factory=dict)
    by_rack: Mapping[str, int] = field(default_factory=dict)

    def plus(self, moves: Iterable[Move], cordons: Iterable[str], snapshot: ClusterSnapshot) -> Spent:
        """With these moves and cordons taken too."""
        need = need_of(moves, cordons, snapshot)
        return Spent(
            moves=self.moves + need.moves,
            gpus=self.gpus + need.gpus,
            cordons=self.cordons + need.cordons,
            by_queue=_sum(self.by_queue, need.by_queue),
            by_workload=_sum(self.by_workload, need.by_workload),
            by_pool=_sum(self.by_pool, need.by_pool),
            by_rack=_sum(self.by_rack, need.by_rack),
        )


def victims_of(moves: Iterable[Move]) -> tuple[str, ...]:
    """Workloads that the moves stop."""
    return tuple(move.workload for move in moves if move.before and move.workload)


def cordons_of(writes: Iterable[Write]) -> tuple[str, ...]:
    """Nodes that the writes cordon."""
    return tuple(write.node for write in writes if write.verb is Verb.CORDON and write.node)


def gpus_of(moves: Iterable[Move]) -> int:
    """GPUs whose work the moves stop: of the whole workload, or of the pods that alone are replaced."""
    return sum(
        seat.gpus for move in moves for seat in move.before if move.workload and seat.pod in (move.replaced or seat.pod)
    )


def need_of(moves: Iterable[Move], cordons: Iterable[str], snapshot: ClusterSnapshot) -> Spent:
    """What these moves and cordons alone would take."""
    moves, cordons = tuple(moves), tuple(cordons)
    victims = victims_of(moves)
    queues = (snapshot.workload_by_id[one].queue for one in victims if one in snapshot.workload_by_id)
    nodes = [snapshot.node_by_name[name] for name in cordons if name in snapshot.node_by_name]
    return Spent(
        moves=len(victims),
        gpus=gpus_of(moves),
        cordons=len(cordons),
        by_queue=Counter(queue for queue in queues if queue),
        by_workload=Counter(victims),
        by_pool=Counter(node.pool for node in nodes if node.pool),
        by_rack=Counter(node.rack for node in nodes if node.rack),
    )


def over_budget(
    budget: Budget, spent: Spent, moves: Sequence[Move], cordons: Sequence[str], snapshot: ClusterSnapshot
) -> str | None:
    """The sentence of the first limit that these moves and cordons would break, with its number; or None."""
    need = need_of(moves, cordons, snapshot)
    return (
        _beyond("move", need.moves, _left(budget.moves_left, spent.moves), "of those allowed at once")
        or _beyond("GPU", need.gpus, _left(budget.gpus_movable, spent.gpus), "of those whose work may stop at once")
        or _beyond("move", need.moves, _left(budget.moves_left_this_hour, spent.moves), "of those allowed in one hour")
        or _beyond(
            "cordon",
            need.cordons,
            _left(budget.nodes_cordonable, spent.cordons),
            "of the nodes that may stand cordoned by trimtab",
        )
        or _beyond(
            "cordon", need.cordons, _left(budget.cordons_left_this_hour, spent.cordons), "of those allowed in one hour"
        )
        or _places("pool", need.by_pool, budget.nodes_cordonable_by_pool, spent.by_pool)
        or _places("rack", need.by_rack, budget.nodes_cordonable_by_rack, spent.by_rack)
        or _moved_too_often(budget, spent, need, snapshot)
        or _tried_too_often(budget, cordons)
        or _queue_too_busy(budget, spent, need)
    )


def _left(limit: int | None, spent: int) -> int | None:
    return None if limit is None else max(limit - spent, 0)


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _beyond(noun: str, needed: int, left: int | None, of: str) -> str | None:
    if left is None or needed <= left:
        return None
    return f"{_count(needed, noun)} needed, {left} left {of}."


def _places(what: str, needed: Mapping[str, int], limits: Mapping[str, int], spent: Mapping[str, int]) -> str | None:
    for name, count in needed.items():
        left = _left(limits.get(name), spent.get(name, 0))
        said = _beyond("cordon", count, left, f"of the nodes of {what} {name} that may stand cordoned by trimtab")
        if said is not None:
            return said
    return None


def _moved_too_often(budget: Budget, spent: Spent, need: Spent, snapshot: ClusterSnapshot) -> str | None:
    for workload, count in need.by_workload.items():
        allowed = budget.moves_left_by_workload.get(workload)
        if allowed is not None and spent.by_workload.get(workload, 0) + count > allowed:
            known = snapshot.workload_by_id.get(workload)
            return f"{known.name if known else workload} has been moved as often as allowed in one day."
    return None


def _tried_too_often(budget: Budget, cordons: Iterable[str]) -> str | None:
    tired = next((node for node in cordons if budget.node_attempts_left.get(node, 1) < 1), None)
    return f"{tired} has been tried as often as allowed in one day; a person must look." if tired else None


def _queue_too_busy(budget: Budget, spent: Spent, need: Spent) -> str | None:
    for queue, count in need.by_queue.items():
        left = _left(budget.moves_left_by_queue.get(queue), spent.by_queue.get(queue, 0))
        if left is not None and count > left:
            return f"{_count(count, 'move')} needed in queue {queue}, {left} left."
    return None


def _sum(one: Mapping[str, int], other: Mapping[str, int]) -> Mapping[str, int]:
    return Counter(one) + Counter(other)
