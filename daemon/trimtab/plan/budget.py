"""How much may still be done now: made from what is under way, counted down while planning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from trimtab.model.advice import Subject
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Budget, Command, Move, Refusal, Verb, Write
from trimtab.plan.phrase import count_text, moment_text
from trimtab.plan.rules import is_victim
from trimtab.settings import PlanSettings

BUDGET_RULE = "budget"
DAY = timedelta(days=1)


def budget_of(snapshot: ClusterSnapshot, commands: Sequence[Command], settings: PlanSettings, now: datetime) -> Budget:
    """What the commands of the last day leave. `commands`: all live ones and those over since `now` - 24 h."""
    begun = [command for command in commands if command.state.is_begun]
    tried = [command for command in commands if command.attempts > 0 and command.changed_at > now - DAY]
    moves = Counter(victim for command in tried for victim in victims_of(command.recommendation.moves))
    attempts = Counter(
        node for command in tried for node in cordons_of(command.recommendation.writes) for _ in range(command.attempts)
    )
    return Budget(
        moves_left=max(settings.moves_max - _victims_under_way(begun), 0),
        nodes_cordonable=max(nodes_cordoned_max(snapshot, settings) - len(_cordoned_by_us(snapshot, begun)), 0),
        moves_left_by_workload={
            workload: max(settings.moves_per_workload_per_day - done, 0) for workload, done in moves.items()
        },
        node_attempts_left={node: max(settings.node_attempts_per_day - done, 0) for node, done in attempts.items()},
        next_free_at=None,
        spares_kept=settings.spares_kept,
    )


def nodes_cordoned_max(snapshot: ClusterSnapshot, settings: PlanSettings) -> int:
    """How many nodes may stand cordoned by us; one at least, or a small cluster could never lose a node."""
    return max(int(len(snapshot.nodes) * settings.cordoned_ratio_max), 1)


def victims_of(moves: Iterable[Move]) -> tuple[str, ...]:
    """Workloads that the moves stop."""
    return tuple(move.workload for move in moves if is_victim(move) and move.workload)


def cordons_of(writes: Iterable[Write]) -> tuple[str, ...]:
    """Nodes that the writes cordon."""
    return tuple(write.node for write in writes if write.verb is Verb.CORDON and write.node)


def _victims_under_way(commands: Iterable[Command]) -> int:
    return sum(len(victims_of(command.recommendation.moves)) for command in commands)


def _cordoned_by_us(snapshot: ClusterSnapshot, begun: Iterable[Command]) -> set[str]:
    stand = {
        node.name for node in snapshot.nodes if node.is_cordoned and (node.cordoned_by or "").startswith("trimtab:")
    }
    return stand | {node for command in begun for node in cordons_of(command.recommendation.writes)}


class Purse:
    """A budget being spent by one plan."""

    def __init__(self, budget: Budget) -> None:
        """Start with all that is left."""
        self._budget = budget
        self._moves = 0
        self._cordons = 0
        self._by_queue: Counter[str] = Counter()

    @property
    def moves_left(self) -> int | None:
        """Moves that may still be proposed; None = no limit."""
        return None if self._budget.moves_left is None else max(self._budget.moves_left - self._moves, 0)

    def refusal(
        self, moves: Sequence[Move], cordons: Sequence[str], snapshot: ClusterSnapshot, purpose: str
    ) -> Refusal | None:
        """The budget that these moves and cordons would break, or None."""
        sentence = (
            self._too_many_moves(len(victims_of(moves)))
            or self._too_many_cordons(len(cordons))
            or self._moved_too_often(moves, snapshot)
            or self._tried_too_often(cordons)
            or self._queue_too_busy(moves, snapshot)
        )
        if sentence is None:
            return None
        subject = Subject(cluster=snapshot.cluster, node=cordons[0] if cordons else None)
        return Refusal(rule=BUDGET_RULE, sentence=f"Not moved: {sentence}", subject=subject, purpose=purpose)

    def spend(self, moves: Sequence[Move], cordons: Sequence[str], snapshot: ClusterSnapshot) -> None:
        """Count these as done."""
        victims = victims_of(moves)
        self._moves += len(victims)
        self._cordons += len(cordons)
        self._by_queue.update(_queues(victims, snapshot))

    def _too_many_moves(self, needed: int) -> str | None:
        left = self.moves_left
        if left is None or needed <= left:
            return None
        after = f"; next at {moment_text(self._budget.next_free_at)}" if self._budget.next_free_at else ""
        return f"{count_text(needed, 'move')} needed, {left} left of those allowed at once{after}."

    def _too_many_cordons(self, needed: int) -> str | None:
        if self._budget.nodes_cordonable is None:
            return None
        left = max(self._budget.nodes_cordonable - self._cordons, 0)
        if needed <= left:
            return None
        return f"{count_text(needed, 'cordon')} needed, {left} left of the nodes that may stand cordoned by trimtab."

    def _moved_too_often(self, moves: Sequence[Move], snapshot: ClusterSnapshot) -> str | None:
        for workload in victims_of(moves):
            if self._budget.moves_left_by_workload.get(workload, 1) < 1:
                known = snapshot.workload_by_id.get(workload)
                return f"{known.name if known else workload} has been moved as often as allowed in one day."
        return None

    def _tried_too_often(self, cordons: Sequence[str]) -> str | None:
        for node in cordons:
            if self._budget.node_attempts_left.get(node, 1) < 1:
                return f"{node} has been tried as often as allowed in one day; a person must look."
        return None

    def _queue_too_busy(self, moves: Sequence[Move], snapshot: ClusterSnapshot) -> str | None:
        needed = Counter(_queues(victims_of(moves), snapshot))
        for queue, count in needed.items():
            allowed = self._budget.moves_left_by_queue.get(queue)
            if allowed is not None and self._by_queue[queue] + count > allowed:
                left = max(allowed - self._by_queue[queue], 0)
                return f"{count_text(count, 'move')} needed in queue {queue}, {left} left."
        return None


def _queues(victims: Iterable[str], snapshot: ClusterSnapshot) -> list[str]:
    found = (snapshot.workload_by_id.get(victim) for victim in victims)
    return [workload.queue for workload in found if workload is not None and workload.queue]
