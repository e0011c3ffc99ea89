"""One command on Kueue, step by step: hold, then stop, seat, start again and open the queues in the right order.

Every call reads afresh and does what can be done now. What must be remembered stands on the objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TypedDict

from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerRefused, SchedulerVetoed
from trimtab.model.command import Command, Move, Verb, Write
from trimtab.schedulers.kueue_objects import CLUSTER_QUEUES, LOCAL_QUEUES, KueueWorkload
from trimtab.schedulers.kueue_queues import QueueHolds
from trimtab.schedulers.kueue_rules import Case, first_no, is_exact, queues_to_hold, why_cordon_harms
from trimtab.schedulers.kueue_scope import Scope
from trimtab.schedulers.kueue_seats import Seats, seat_key
from trimtab.schedulers.kueue_stops import Stop
from trimtab.schedulers.marks import CORDON, read_holds
from trimtab.schedulers.nodes import Nodes
from trimtab.schedulers.objects import Pod
from trimtab.schedulers.pen import Pen
from trimtab.settings import KubernetesSettings

NAME = "kueue"
TRIES = 4
SEAT_SECONDS = 30.0
"""A victim that has found no seat by then finds one on the emptied node too: nobody is left out for another."""
SWAP_GRACE_SECONDS = 5.0
"""From an eviction until Kueue has surely chosen the new node; a Hold in between would cost the whole gang."""
PASSING = ("kueue_holding_hurts",)
"""Reasons that pass by themselves: the command waits."""
FIRST_SECONDS = 15.0
"""So long others wait behind the one that is to be served first."""


class Parts(TypedDict):
    """What one command is carried out with."""

    pen: Pen
    scope: Scope
    settings: KubernetesSettings
    command: Command
    swapped: dict[str, float]


@dataclass(frozen=True, kw_only=True)
class Carry:
    """One command at one moment."""

    pen: Pen
    scope: Scope
    settings: KubernetesSettings
    command: Command
    swapped: dict[str, float]
    """ClusterQueue -> when a pod of its was evicted for a hot swap, in seconds of the clock; shared by all commands."""

    # --- what the command says

    @cached_property
    def writes(self) -> Sequence[Write]:
        """Kueue's part of the writes."""
        return self.command.recommendation.writes_for(NAME)

    @cached_property
    def moves(self) -> Sequence[Move]:
        """Kueue's part of the moves."""
        return [one for one in self.command.recommendation.moves if one.controller == NAME and one.workload]

    @cached_property
    def victims(self) -> Sequence[Move]:
        """Those that stop whole and start again."""
        return [one for one in self.moves if one.before and not one.replaced]

    @cached_property
    def _waiters(self) -> Sequence[Move]:
        return [one for one in self.moves if not one.before]

    @cached_property
    def _emptied(self) -> tuple[str, ...]:
        """Nodes that victims leave and the one who waits is to have."""
        left = {seat.node for move in self.victims for seat in move.before}
        return tuple(sorted({seat.node for move in self._waiters for seat in move.after} & left))

    def queues_of(self, moves: Iterable[Move]) -> set[str]:
        """ClusterQueues of these workloads."""
        found = [self.scope.of(move.workload or "") for move in moves]
        queues = [self.scope.queue_of(one) for one in found if one is not None]
        return {queue for queue in queues if queue}

    # --- helpers

    @cached_property
    def queues(self) -> QueueHolds:
        """Holds on queues."""
        return QueueHolds(pen=self.pen, view=self.scope.view, command=self.command)

    @cached_property
    def nodes(self) -> Nodes:
        """Writes on nodes."""
        return Nodes(pen=self.pen, settings=self.settings)

    @cached_property
    def seats(self) -> Seats:
        """Writes of exact seats."""
        return Seats(pen=self.pen, view=self.scope.view, check=self.settings.admission_check)

    def read(self, workload: str) -> Stop | None:
        """A workload's Workload as it is now."""
        return Stop.read(self.pen, self.scope.view, self.command, workload)

    def on(self, workload: str, act: Callable[[Stop], None]) -> None:
        """Write on a Workload; read and judge it anew when Kueue wrote its status in between. Gone is fine."""
        for attempt in range(TRIES):
            stop = self.read(workload)
            if stop is None:
                return
            try:
                act(stop)
            except SchedulerConflict:
                if attempt == TRIES - 1:
                    raise
            else:
                return

    def _refuse_by_rules(self, moves: Iterable[Move]) -> None:
        """The rules, with the whole command in view; the first no ends it."""
        beneficiary = self.command.recommendation.for_workload
        for move in moves:
            one = self.scope.of(move.workload or "")
            if one is None:
                raise SchedulerRefused(f"Kueue has no Workload for {move.workload} any more.")
            case = Case(
                move=move,
                one=one,
                scope=self.scope,
                settings=self.settings,
                beneficiary=beneficiary,
                mark=self.command.mark,
            )
            no = first_no(case)
            if no is not None:
                raise SchedulerBusy(no[1]) if no[0] in PASSING else SchedulerRefused(no[1])

    # --- hold

    def hold(self) -> None:
        """Cordon, stop the queues where somebody waits, write the seats down. Refuses where holding would do harm."""
        self._refuse_by_rules(self.moves)
        cordons = [write for write in self.writes if write.verb is Verb.CORDON and write.node]
        for node in (*(write.node or "" for write in cordons), *self._emptied):
            self._refuse_harm(node)
        for write in cordons:
            self.nodes.cordon(self.command, write.node or "", lasts=write.lasts, why=self.command.recommendation.reason)
        if self.victims:
            self._hold_queues()
        for write in self.writes:
            if write.verb is Verb.RESERVE and write.workload:
                self._reserve(write)

    def _refuse_harm(self, node: str) -> None:
        harm = why_cordon_harms(self.scope, node, [move.workload or "" for move in self.victims])
        if harm is None or self._is_closed(node):
            return
        raise SchedulerBusy(f"{harm[0]}.") if harm[1] else SchedulerRefused(f"{node} is not cordoned: {harm[0]}.")

    def _is_closed(self, node: str) -> bool:
        found = self.scope.view.nodes.get(node)
        return found is not None and found.spec.unschedulable

    def _hold_queues(self) -> None:
        own = self.queues_of((*self.victims, *self._waiters))
        nodes = {seat.node for move in self.moves for seat in (*move.before, *move.after)}
        keys = queues_to_hold(self.scope, sorted(own), nodes)
        for key in keys:
            since = self.pen.clock.monotonic_seconds() - self.swapped.get(key, -SWAP_GRACE_SECONDS)
            if since < SWAP_GRACE_SECONDS:
                raise SchedulerBusy(f"Kueue is replacing a node in {key}; {self.command.name} holds it after that.")
        for key in keys:
            self.queues.hold(CLUSTER_QUEUES, key, is_peer=key not in own)
        for key in sorted(self.locals_ahead()):
            self.queues.hold(LOCAL_QUEUES, key, is_peer=True)

    def locals_ahead(self) -> set[str]:
        """LocalQueues of those who would be served before the ones we move, once their ClusterQueue opens."""
        movers = [one for one in (self.scope.of(move.workload or "") for move in self.moves) if one is not None]
        ahead = {
            other.local_queue for one in movers for other in self.scope.ahead_of(one, self.scope.queue_of(one) or "")
        }
        return ahead - {one.local_queue for one in movers}

    def _reserve(self, write: Write) -> None:
        stop = self.read(write.workload or "")
        if stop is None:
            raise SchedulerRefused(f"Kueue has no Workload for {write.workload} any more.")
        check = seat_check(stop.now, self.pen.prefix)
        is_swap = any(move.workload == write.workload and move.replaced for move in self.moves)
        if check is not None and is_swap:  # its pods ask for the label: the new node has to bear it
            for seat in write.seats:
                self.seats.add(self.command, stop.now, seat.node, workload_id=stop.id)
        self.on(stop.id, partial(Stop.reserve, seats=write.seats))

    # --- submit

    def submit(self) -> None:
        """The next step of everything else."""
        for write in self.writes:
            if write.verb is Verb.UNCORDON and write.node:
                self.nodes.open(self.command, write.node, lifts=write.lifts)
        if self.victims:
            self._move()
        for move in self.moves:
            if move.replaced:
                self._swap(move)

    def _swap(self, move: Move) -> None:
        """Evict the named pods off their node, once; Kueue finds the new one and the job's controller fills it."""
        left = {seat.pod: seat.node for seat in move.before if seat.pod in move.replaced}
        there = [
            pod
            for pod in self.scope.view.pods_of.get(move.workload or "", ())
            if left.get(pod.metadata.name) == pod.spec.node_name and not pod.is_terminating
        ]
        if not there:
            return
        queues = self.queues_of([move])
        for key in queues:
            self._wait_while_held(key)
        if len(there) == len(left):
            self._refuse_by_rules([move])
        for pod in there:
            self.swapped.update(dict.fromkeys(queues, self.pen.clock.monotonic_seconds()))
            self._evict(pod)

    def _wait_while_held(self, key: str) -> None:
        """In a stopped queue Kueue replaces no node and throws the gang out: a Hold of ours has to be over."""
        marks = self.queues.marks(key)
        if marks:
            raise SchedulerBusy(f"{self.command.name} evicts when {key} is open again; {marks[0]} holds it.")

    def _evict(self, pod: Pod) -> None:
        if not self._is_closed(pod.spec.node_name):
            raise SchedulerRefused(f"{pod.spec.node_name} is open: an evicted pod would come back to it.")
        self.nodes.evict(self.command, pod)

    def _move(self) -> None:
        stops = [one for one in (self.read(move.workload or "") for move in self.victims) if one is not None]
        stops = [one for one in stops if not one.now.is_finished]
        touched = next((one for one in stops if not one.now.is_active and not one.is_ours_to_start), None)
        if touched is not None:
            who = touched.now.switched_by or "somebody"
            raise SchedulerVetoed(f"{touched.now.key} was switched by {who} meanwhile; it is left to them.")
        if any(one.now.is_active and one.returned_at is None for one in stops):
            self._stop(stops)
        elif any(one.is_ours_to_start and not one.is_stopped for one in stops):
            return  # never switched back before it has stopped fully
        elif any(one.is_ours_to_start for one in stops):
            self._start(stops)
        elif all(one.now.is_back_in_line for one in stops):
            self._open(stops)

    def _stop(self, stops: Sequence[Stop]) -> None:
        running = [one for one in stops if one.now.is_active and one.returned_at is None]
        if len(running) == len(stops):
            self._refuse_by_rules(self.moves)
        self._hold_queues()
        own = self.queues_of((*self.victims, *self._waiters))
        if not all(self.queues.is_shut(key) for key in own):
            return  # Kueue has not taken note yet
        for node in self._emptied:
            self.nodes.cordon(self.command, node, why=self.command.recommendation.reason)
        for one in running:
            self.on(one.id, Stop.deactivate)

    def _start(self, stops: Sequence[Stop]) -> None:
        """All have stopped: seats where our check stands on them, then back into line, in the still stopped queues."""
        for one in stops:
            if not one.is_ours_to_start:
                continue
            if is_exact(one.now, self.settings):
                self._seat(one)
            self.on(one.id, Stop.reactivate)

    def _seat(self, one: Stop) -> None:
        after = next(move.after for move in self.victims if move.workload == one.id)
        self.seats.put(self.command, one.now, {seat.node for seat in after}, workload_id=one.id)
        check = one.now.check(self.settings.admission_check)
        key = seat_key(self.pen.prefix, one.now)
        if check is None or check.state != "Ready" or not check.selects(key):
            self.seats.ready(self.command, one.now, is_exact=True, message=f"seats of {self.command.name}")

    def _open(self, stops: Sequence[Stop]) -> None:
        """Open in an order in which victims and the one who waits are served before anybody else."""
        waited = self._seconds_since_return(stops)
        closed = [node for node in self._emptied if self._is_closed_by_us(node)]
        if closed:
            can_take_it = self._waiters and not all(is_exact(one.now, self.settings) for one in stops)
            if can_take_it and not self._are_seated(stops) and waited < SEAT_SECONDS:
                self._open_queues(self.queues_of(self.victims))  # they come back while the emptied node is shut
            elif can_take_it and waited < SEAT_SECONDS and not self._are_shut_again():
                return
            else:
                for node in closed:
                    self.nodes.uncordon(self.command, node)
            return  # uncordon is a starting gun: the queues open once it is seen
        first = self.queues_of(self._waiters)
        self._open_queues(first)
        if not self._have_quota(self._waiters) and first - self.queues_of(self.victims) and waited < FIRST_SECONDS:
            return
        self._open_queues(self.queues_of(self.victims))
        if waited >= FIRST_SECONDS or self._have_quota((*self.victims, *self._waiters)):
            for kind, key in self.queues.bearing():
                self.queues.open(kind, key)

    def _open_queues(self, keys: Iterable[str]) -> None:
        for key in sorted(keys):
            self.queues.open(CLUSTER_QUEUES, key)

    def _are_shut_again(self) -> bool:
        """Victims have their seats: everything stops once more, so that the emptied node has one taker."""
        own = self.queues_of((*self.victims, *self._waiters))
        for key in sorted(own):
            self.queues.hold(CLUSTER_QUEUES, key, is_peer=False)
        return all(self.queues.is_shut(key) for key in own)

    def _are_seated(self, stops: Sequence[Stop]) -> bool:
        return all(one.now.is_admitted and (one.now.has_topology or self._are_bound(one.id)) for one in stops)

    def _are_bound(self, workload: str) -> bool:
        pods = self.scope.view.pods_of.get(workload, ())
        wanted = next((len(move.after) for move in self.victims if move.workload == workload), 0)
        return len(pods) >= wanted and all(pod.spec.node_name for pod in pods)

    def _have_quota(self, moves: Iterable[Move]) -> bool:
        found = [self.read(move.workload or "") for move in moves]
        return all(one is None or one.now.has_quota or one.now.is_finished for one in found)

    def _seconds_since_return(self, stops: Sequence[Stop]) -> float:
        now = self.pen.clock.now()
        return min(((now - one.returned_at).total_seconds() for one in stops if one.returned_at), default=FIRST_SECONDS)

    def _is_closed_by_us(self, node: str) -> bool:
        found = self.scope.view.nodes.get(node)
        holds = read_holds(found.metadata.annotations, self.pen.prefix) if found is not None else ()
        return any(one.mark == self.command.mark and CORDON in one.what and not one.lasts for one in holds)


def seat_check(one: KueueWorkload, prefix: str) -> str | None:
    """The check by which a Workload asks for seats of ours."""
    key = seat_key(prefix, one)
    return next((check.name for check in one.checks if check.selects(key)), None)
