"""The last check before a command begins: budgets once more, and nobody in its way. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from trimtab.issue.look import why_off
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Budget, Command
from trimtab.model.spending import Spent, cordons_of, over_budget


class Edge:
    """What has begun, and what this beat may still begin."""

    def __init__(self, budget: Budget | None, begun: Sequence[Command], snapshot: ClusterSnapshot) -> None:
        """`budget` was made with `begun` counted in; what begins from here on is counted down."""
        self._budget = budget or Budget()
        self._snapshot = snapshot
        self._in_hand = {workload: command.name for command in begun for workload in _workloads(command)}
        self._nodes = {node: command.name for command in begun for node in _nodes(command)}
        self._spent = Spent()

    def begin(self, command: Command) -> None:
        """Count a command as begun."""
        self._in_hand |= dict.fromkeys(_workloads(command), command.name)
        self._nodes |= dict.fromkeys(_nodes(command), command.name)
        advice = command.recommendation
        self._spent = self._spent.plus(advice.moves, cordons_of(advice.writes), self._snapshot)

    def why_not(self, command: Command) -> str | None:
        """The sentence of whatever stands in the way of beginning it now, or None."""
        return self._in_the_way(command) or self._over_budget(command)

    def _in_the_way(self, command: Command) -> str | None:
        for workload in _workloads(command):
            if workload in self._in_hand:
                return f"{command.name} waits: {self._in_hand[workload]} has {workload} in hand."
        for node in _nodes(command):
            if node in self._nodes:
                return f"{command.name} waits: {self._nodes[node]} has {node} in hand."
        return None

    def _over_budget(self, command: Command) -> str | None:
        advice = command.recommendation
        said = over_budget(self._budget, self._spent, advice.moves, cordons_of(advice.writes), self._snapshot)
        return f"{command.name} waits: {said}" if said else None


def why_not_begin(command: Command, snapshot: ClusterSnapshot, edge: Edge) -> str | None:
    """Whatever stands in the way, in this snapshot or in what has begun, as a sentence; or None."""
    off = why_off(command, snapshot)
    return off[1] if off is not None else edge.why_not(command)


def _workloads(command: Command) -> list[str]:
    return [move.workload for move in command.recommendation.moves if move.workload]


def _nodes(command: Command) -> list[str]:
    """Nodes that it cordons or opens."""
    return [write.node for write in command.recommendation.writes if write.node]
