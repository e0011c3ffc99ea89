"""How much may still be done now: made from what is under way, counted down while planning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from trimtab.model.advice import Subject
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Budget, Command, Move, Refusal, read_mark
from trimtab.model.spending import Spent, cordons_of, gpus_of, over_budget, victims_of
from trimtab.settings import PlanSettings

__all__ = ["BUDGET_RULE", "Purse", "budget_of", "cordons_of", "victims_of"]

BUDGET_RULE = "budget"
DAY = timedelta(days=1)
HOUR = timedelta(hours=1)


def budget_of(
    snapshot: ClusterSnapshot,
    commands: Sequence[Command],
    settings: PlanSettings,
    now: datetime,
    *,
    ledger: str | None = None,
) -> Budget:
    """What the commands of the last day leave. `commands`: all live ones and those over since `now` - 24 h.

    `ledger`: whose cordons count as ours; another ledger's are somebody else's. None = any mark counts.
    """
    begun = [command for command in commands if command.state.is_begun]
    tried = [command for command in commands if command.attempts > 0 and command.changed_at > now - DAY]
    lately = [command for command in tried if (command.submitted_at or command.changed_at) > now - HOUR]
    moves = Counter(victim for command in tried for victim in victims_of(command.recommendation.moves))
    attempts = Counter(
        node for command in tried for node in cordons_of(command.recommendation.writes) for _ in range(command.attempts)
    )
    out = _cordoned_by_us(snapshot, begun, ledger)
    return Budget(
        moves_left=max(settings.moves_max - _victims(begun), 0),
        gpus_movable=_gpus_movable(snapshot, begun, settings),
        moves_left_this_hour=_left(settings.moves_per_hour_max, _victims(lately)),
        nodes_cordonable=max(nodes_cordoned_max(snapshot, settings) - len(out), 0),
        cordons_left_this_hour=_left(settings.cordons_per_hour_max, _cordons(lately)),
        nodes_cordonable_by_pool=_places(
            {node.name: node.pool for node in snapshot.nodes},
            out,
            settings.cordoned_ratio_max_per_pool,
            settings.cordoned_max_per_pool,
        ),
        nodes_cordonable_by_rack=_places(
            {node.name: node.rack for node in snapshot.nodes},
            out,
            settings.cordoned_ratio_max_per_rack,
            settings.cordoned_max_per_rack,
        ),
        moves_left_by_queue=_queues(snapshot, begun, settings),
        moves_left_by_workload={
            workload: max(settings.moves_per_workload_per_day - done, 0) for workload, done in moves.items()
        },
        node_attempts_left={node: max(settings.node_attempts_per_day - done, 0) for node, done in attempts.items()},
        spares_kept=settings.spares_kept,
    )


def nodes_cordoned_max(snapshot: ClusterSnapshot, settings: PlanSettings) -> int:
    """How many nodes may stand cordoned by us; one at least, or a small cluster could never lose a node."""
    return _limit(len(snapshot.nodes), settings.cordoned_ratio_max, settings.cordoned_max)


def _limit(count: int, ratio: float, most: int | None) -> int:
    by_ratio = max(int(count * ratio), 1)
    return by_ratio if most is None else min(by_ratio, most)


def _left(limit: int | None, done: int) -> int | None:
    return None if limit is None else max(limit - done, 0)


def _victims(commands: Iterable[Command]) -> int:
    return sum(len(victims_of(command.recommendation.moves)) for command in commands)


def _cordons(commands: Iterable[Command]) -> int:
    return sum(len(cordons_of(command.recommendation.writes)) for command in commands)


def _cordoned_by_us(snapshot: ClusterSnapshot, begun: Iterable[Command], ledger: str | None) -> set[str]:
    stand = {node.name for node in snapshot.nodes if node.is_cordoned and _is_ours(node.cordoned_by, ledger)}
    return stand | {node for command in begun for node in cordons_of(command.recommendation.writes)}


def _is_ours(mark: str | None, ledger: str | None) -> bool:
    """Marks without a ledger are of a time before ledgers had ids: counted, to be on the safe side."""
    read = read_mark(mark or "")
    return read is not None and (ledger is None or read[0] in ("", ledger))


def _gpus_movable(snapshot: ClusterSnapshot, begun: Iterable[Command], settings: PlanSettings) -> int | None:
    if settings.moved_gpus_ratio_max is None:
        return None
    limit = int(len(snapshot.holders) * settings.moved_gpus_ratio_max)
    return max(limit - sum(gpus_of(command.recommendation.moves) for command in begun), 0)


def _places(
    place_of: Mapping[str, str | None], out: Iterable[str], ratio: float, most: int | None
) -> Mapping[str, int]:
    """Place (pool or rack) -> how many of its nodes may still be cordoned."""
    nodes = Counter(place for place in place_of.values() if place)
    stand = Counter(place_of.get(node) for node in out)
    return {place: max(_limit(count, ratio, most) - stand[place], 0) for place, count in nodes.items()}


def _queues(snapshot: ClusterSnapshot, begun: Iterable[Command], settings: PlanSettings) -> Mapping[str, int]:
    """Queue -> moves that may still begin, where queues are limited."""
    if settings.moves_max_per_queue is None and settings.moves_ratio_max_per_queue is None:
        return {}
    running = Counter(one.queue for one in snapshot.workloads if one.queue and one.is_running)
    victims = [victim for command in begun for victim in victims_of(command.recommendation.moves)]
    known = (snapshot.workload_by_id.get(victim) for victim in victims)
    busy = Counter(one.queue for one in known if one is not None)
    names = {*running, *(queue for queue in busy if queue)}
    ratio = 1.0 if settings.moves_ratio_max_per_queue is None else settings.moves_ratio_max_per_queue
    return {name: max(_limit(running[name], ratio, settings.moves_max_per_queue) - busy[name], 0) for name in names}


class Purse:
    """A budget being spent by one plan."""

    def __init__(self, budget: Budget) -> None:
        """Start with all that is left."""
        self._budget = budget
        self._spent = Spent()

    @property
    def moves_left(self) -> int | None:
        """Moves that may still be proposed; None = no limit."""
        return _left(self._budget.moves_left, self._spent.moves)

    def refusal(
        self, moves: Sequence[Move], cordons: Sequence[str], snapshot: ClusterSnapshot, purpose: str
    ) -> Refusal | None:
        """The budget that these moves and cordons would break, or None."""
        sentence = over_budget(self._budget, self._spent, moves, cordons, snapshot)
        if sentence is None:
            return None
        subject = Subject(cluster=snapshot.cluster, node=cordons[0] if cordons else None)
        return Refusal(rule=BUDGET_RULE, sentence=f"Not moved: {sentence}", subject=subject, purpose=purpose)

    def spend(self, moves: Sequence[Move], cordons: Sequence[str], snapshot: ClusterSnapshot) -> None:
        """Count these as done."""
        self._spent = self._spent.plus(moves, cordons, snapshot)
