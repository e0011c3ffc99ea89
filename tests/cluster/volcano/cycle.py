"""The actions of a scheduling cycle on its picture: enqueue, allocate, backfill, reclaim. Decides; writes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.cluster.volcano.objects import missing
from tests.cluster.volcano.placement import HyperNodes, Weights, fit_text, score, unfit
from tests.cluster.volcano.quota import Quota, quotas
from tests.cluster.volcano.session import ALLOCATED, BINDING, PENDING, PIPELINED, RUNNING, Gang, Seat, Session, Task

Choose = Callable[[list[str]], str]
"""Picks one of several nodes that are equally good."""


@dataclass
class Outcome:
    """What a cycle decided."""

    bindings: list[tuple[Task, str]] = field(default_factory=list)
    evictions: list[Task] = field(default_factory=list)
    over_quota: list[tuple[Gang, str]] = field(default_factory=list)


class Cycle:
    """Runs the actions in Volcano's order."""

    def __init__(self, session: Session, *, hyper_nodes: HyperNodes, weights: Weights, choose: Choose) -> None:
        self._session = session
        self._topology = hyper_nodes
        self._weights = weights
        self._choose = choose
        self._books = quotas(session)
        self.outcome = Outcome()

    def run(self) -> Outcome:
        """All actions; the session shows the result too."""
        self._enqueue()
        self._allocate()
        self._backfill()
        self._reclaim()
        return self.outcome

    # --- order

    def _turn(self, gang: Gang) -> tuple[object, ...]:
        """Priority, gangs that are not ready, small share, age."""
        return -gang.priority, gang.is_ready, self._share(gang), gang.age

    def _share(self, gang: Gang) -> float:
        total, allocated = self._session.total, gang.allocated
        return max((value / total[name] for name, value in allocated.items() if total.get(name)), default=0.0)

    def _by_queue(self, gangs: Iterable[Gang]) -> list[tuple[Quota, list[Gang]]]:
        waiting: dict[str, list[Gang]] = {}
        for gang in gangs:
            if gang.queue in self._books:
                waiting.setdefault(gang.queue, []).append(gang)
        return [(self._books[name], waiting[name]) for name in sorted(waiting)]

    def _next(self, lanes: list[tuple[Quota, list[Gang]]]) -> tuple[Quota, Gang] | None:
        """The next gang of the queue whose turn it is; it leaves its lane."""
        busy = [lane for lane in lanes if lane[1]]
        if not busy:
            return None
        quota, gangs = min(busy, key=lambda lane: lane[0].share)
        gang = min(gangs, key=self._turn)
        gangs.remove(gang)
        return quota, gang

    # --- enqueue

    def _enqueue(self) -> None:
        lanes = self._by_queue(gang for gang in self._session.gangs if gang.phase in ("", "Pending"))
        while (turn := self._next(lanes)) is not None:
            quota, gang = turn
            if gang.min_resources and not self._may_enter(quota, gang):
                continue
            gang.phase = "Inqueue"
            for name, value in gang.min_resources.items():
                quota.inqueue[name] = quota.inqueue.get(name, 0.0) + value

    def _may_enter(self, quota: Quota, gang: Gang) -> bool:
        if not quota.is_open:
            return False
        lacking = quota.lacking_for(gang)
        if lacking:
            names = ", ".join(f"insufficient {name}" for name in lacking)
            self.outcome.over_quota.append((gang, f"queue resource quota insufficient: {names}"))
        return not lacking

    # --- allocate

    def _allocate(self) -> None:
        todo = [gang for gang in self._session.gangs if gang.phase not in ("", "Pending") and gang.is_valid]
        lanes = self._by_queue(gang for gang in todo if _waiting(gang))
        while (turn := self._next(lanes)) is not None:
            quota, gang = turn
            placed = self._allocate_gang(quota, gang)
            if placed and gang.is_satisfied:
                self._commit(placed)
                if _untried(gang):
                    next(lane[1] for lane in lanes if lane[0] is quota).append(gang)

    def _commit(self, tasks: list[Task]) -> None:
        for task in tasks:
            if task.status == ALLOCATED:
                task.status = BINDING
                self.outcome.bindings.append((task, task.node))

    def _allocate_gang(self, quota: Quota, gang: Gang) -> list[Task]:
        """The tasks that found a place, or none when not enough did; what is only pipelined stays so for the cycle."""
        topology = gang.group["spec"].get("networkTopology") or {}
        if topology.get("mode") == "hard" and topology.get("highestTierAllowed") is not None:
            return self._allocate_within(quota, gang, int(topology["highestTierAllowed"]))
        return self._try(quota, gang, list(self._session.seats.values()), prefers_near=topology.get("mode") == "soft")

    def _allocate_within(self, quota: Quota, gang: Gang, highest: int) -> list[Task]:
        held = {task.node for task in gang.tasks if task.node and task.status in (BINDING, "Bound", RUNNING)}
        for names in self._topology.by_tier(highest, holding=held):
            found = [name for name in names if self._fits(quota, gang, name)]
            if found:
                gang.fit_errors.clear()
                return self._try(quota, gang, self._seats_of(self._choose(found)), hyper_node="")
        return []

    def _fits(self, quota: Quota, gang: Gang, name: str) -> bool:
        gang.fit_errors.clear()
        placed = self._try(quota, gang, self._seats_of(name), hyper_node=name)
        for task in placed:
            self._session.take_back(task)
        return bool(placed)

    def _seats_of(self, hyper_node: str) -> list[Seat]:
        return [seat for name, seat in self._session.seats.items() if name in self._topology.members[hyper_node]]

    def _try(
        self, quota: Quota, gang: Gang, seats: list[Seat], *, hyper_node: str = "", prefers_near: bool = False
    ) -> list[Task]:
        placed: list[Task] = []
        for task in _untried(gang):
            if not quota.is_open or not quota.has_room_for(task):
                continue
            seat = self._best_seat(task, gang, seats, hyper_node=hyper_node, prefers_near=prefers_near)
            if seat is None:
                if gang.min_member == len(gang.tasks):
                    break
                continue
            self._session.place(task, seat.name, PIPELINED if missing(task.requests, seat.idle) else ALLOCATED)
            placed.append(task)
            if gang.is_satisfied:
                break
        if gang.is_satisfied or gang.is_pipelined:
            return placed
        for task in reversed(placed):
            self._session.take_back(task)
        return []

    def _best_seat(
        self, task: Task, gang: Gang, seats: list[Seat], *, hyper_node: str, prefers_near: bool
    ) -> Seat | None:
        nominated = str((task.pod.get("status") or {}).get("nominatedNodeName", ""))
        named = [seat for seat in seats if seat.name == nominated and not unfit(task, seat)]
        why_not = {seat.name: unfit(task, seat) for seat in seats}
        fitting = named or [seat for seat in seats if not why_not[seat.name]]
        if not fitting:
            gang.fit_errors[task.uid] = fit_text(why_not.values(), hyper_node=hyper_node)
            return None
        free_now = [seat for seat in fitting if not missing(task.requests, seat.idle)] or fitting
        near = self._nearness(gang) if prefers_near else {}
        scores = {seat.name: score(task, seat, self._weights) + near.get(seat.name, 0.0) for seat in free_now}
        best = max(scores.values())
        return self._session.seats[self._choose(sorted(name for name, value in scores.items() if value == best))]

    def _nearness(self, gang: Gang) -> dict[str, float]:
        """Points for each node by how small a HyperNode would hold the gang with it."""
        held = {task.node for task in gang.tasks if task.node}
        if not held:
            return {}
        tiers = {name: self._topology.lowest_tier_of({name, *held}) for name in self._session.seats}
        known = [tier for tier in tiers.values() if tier is not None]
        highest = max(known, default=0) + 1
        return {name: self._weights.topology * 100 * (highest - (tier or highest)) for name, tier in tiers.items()}

    # --- backfill

    def _backfill(self) -> None:
        """Pods that ask for nothing go anywhere."""
        for gang in self._session.gangs:
            tasks = [task for task in gang.with_status(PENDING) if not task.requests and not _is_gated(task)]
            for task in tasks if gang.phase not in ("", "Pending") else []:
                fitting = sorted(name for name, seat in self._session.seats.items() if not unfit(task, seat))
                if fitting:
                    self._session.place(task, self._choose(fitting), BINDING)
                    self.outcome.bindings.append((task, task.node))

    # --- reclaim

    def _reclaim(self) -> None:
        """A queue below what it deserves takes from queues above: Volcano itself breaks gangs."""
        for quota, gangs in self._by_queue(gang for gang in self._session.gangs if gang.is_valid and gang.is_starving):
            for gang in sorted((one for one in gangs if one.phase not in ("", "Pending")), key=self._turn):
                self._reclaim_for(quota, gang)

    def _reclaim_for(self, quota: Quota, gang: Gang) -> None:
        placed: list[Task] = []
        evicted: list[Task] = []
        for task in _waiting(gang):
            if not gang.is_starving:
                break
            victims = self._victims(quota, task) if quota.can_reclaim_for(task) else None
            if victims is None:
                continue
            for victim in victims[1]:
                self._session.release(victim)
            evicted += victims[1]
            self._session.place(task, victims[0].name, PIPELINED)
            task.is_making_room = True
            placed.append(task)
        if gang.is_pipelined:
            self.outcome.evictions += evicted
            return
        for task in placed:
            self._session.take_back(task)
        for victim in evicted:
            self._session.restore(victim)

    def _victims(self, quota: Quota, task: Task) -> tuple[Seat, list[Task]] | None:
        offers = [(seat, self._offer(quota, task, seat)) for seat in self._session.seats.values()]
        found = [(seat, victims) for seat, victims in offers if victims]
        if not found:
            return None
        return min(found, key=lambda one: (self._reclaim_turn(one[1][0]), len(one[1]), one[0].name))

    def _reclaim_turn(self, victim: Task) -> tuple[bool, float]:
        """Queues that deserve nothing of it give first, then those furthest above what they deserve."""
        book = self._books[self._session.gang_of(victim).queue]
        return any(book.deserved.get(name) for name in victim.requests), -book.share

    def _offer(self, quota: Quota, task: Task, seat: Seat) -> list[Task]:
        """Tasks of other queues whose leaving would make room for the task on the node."""
        victims: list[Task] = []
        room = dict(seat.future_idle)
        for gang in self._session.gangs:
            book = self._books.get(gang.queue)
            if book is None or book is quota or not book.is_reclaimable:
                continue
            for one in gang.with_status(RUNNING):
                if one.node == seat.name and missing(task.requests, room) and book.exceeds_deserved_by(one):
                    victims.append(one)
                    room = {
                        name: room.get(name, 0.0) + value
                        for name, value in {**dict.fromkeys(room, 0.0), **one.requests}.items()
                    }
        spec = seat.node.get("spec") or {}
        is_open = not spec.get("unschedulable") and not spec.get("taints")
        return victims if is_open and not missing(task.requests, room) else []


def _waiting(gang: Gang) -> list[Task]:
    return [task for task in gang.with_status(PENDING) if task.requests and not _is_gated(task)]


def _untried(gang: Gang) -> list[Task]:
    return [task for task in _waiting(gang) if task.uid not in gang.fit_errors]


def _is_gated(task: Task) -> bool:
    return bool(task.pod["spec"].get("schedulingGates"))
