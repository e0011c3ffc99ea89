"""The last check before a command begins: budgets once more, and nobody in its way. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from trimtab.issue.look import why_off
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Budget, Command, Verb


class Edge:
    """What has begun, and what this beat may still begin."""

    def __init__(self, budget: Budget | None, begun: Sequence[Command]) -> None:
        """`budget` was made with `begun` counted in; what begins from here on is counted down."""
        self._budget = budget or Budget()
        self._in_hand = {workload: command.name for command in begun for workload in _workloads(command)}
        self._nodes = {node: command.name for command in begun for node in _cordons(command)}
        self._moves = 0
        self._cordons = 0
        self._by_workload: Counter[str] = Counter()

    def begin(self, command: Command) -> None:
        """Count a command as begun."""
        self._in_hand |= dict.fromkeys(_workloads(command), command.name)
        self._nodes |= dict.fromkeys(_cordons(command), command.name)
        self._moves += len(_victims(command))
        self._cordons += len(_cordons(command))
        self._by_workload.update(_victims(command))

    def why_not(self, command: Command) -> str | None:
        """The sentence of whatever stands in the way of beginning it now, or None."""
        return self._in_the_way(command) or self._over_budget(command)

    def _in_the_way(self, command: Command) -> str | None:
        for workload in _workloads(command):
            if workload in self._in_hand:
                return f"{command.name} waits: {self._in_hand[workload]} has {workload} in hand."
        for node in _cordons(command):
            if node in self._nodes:
                return f"{command.name} waits: {self._nodes[node]} has {node} in hand."
        return None

    def _over_budget(self, command: Command) -> str | None:
        moves, cordons = _victims(command), _cordons(command)
        left = self._budget.moves_left
        if left is not None and self._moves + len(moves) > left:
            return (
                f"{command.name} waits: {len(moves)} moves needed, {max(left - self._moves, 0)} left of those at once."
            )
        nodes_left = self._budget.nodes_cordonable
        if nodes_left is not None and self._cordons + len(cordons) > nodes_left:
            return (
                f"{command.name} waits: {len(cordons)} cordons needed, "
                f"{max(nodes_left - self._cordons, 0)} left of the nodes that may stand cordoned by trimtab."
            )
        for workload in moves:
            if self._budget.moves_left_by_workload.get(workload, 1) - self._by_workload[workload] < 1:
                return f"{command.name} waits: {workload} has been moved as often as allowed in one day."
        tired = next((node for node in cordons if self._budget.node_attempts_left.get(node, 1) < 1), None)
        return f"{command.name} waits: {tired} has been tried as often as allowed in one day." if tired else None


def why_not_begin(command: Command, snapshot: ClusterSnapshot, edge: Edge) -> str | None:
    """Whatever stands in the way, in this snapshot or in what has begun, as a sentence; or None."""
    off = why_off(command, snapshot)
    return off[1] if off is not None else edge.why_not(command)


def _victims(command: Command) -> list[str]:
    return [move.workload for move in command.recommendation.moves if move.workload and move.before]


def _workloads(command: Command) -> list[str]:
    return [move.workload for move in command.recommendation.moves if move.workload]


def _cordons(command: Command) -> list[str]:
    return [write.node for write in command.recommendation.writes if write.verb is Verb.CORDON and write.node]
