"""The adapter of plain Kubernetes: Jobs, JobSets, Deployments and StatefulSets that the bare kube-scheduler places.

Jobs and JobSets stop whole by `spec.suspend`; of others single pods are evicted, one at a time, under their budgets.
Seats are kept by a taint of ours on the node, and the workload's own waiting pods are let past it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import msgspec

from trimtab.clock import Clock
from trimtab.errors import SchedulerError, SchedulerGone, SchedulerRefused, SchedulerVetoed
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, Move, Recommendation, Refusal, Seat, Verb, Way, Write
from trimtab.schedulers.devices import Devices
from trimtab.schedulers.face import SEAT
from trimtab.schedulers.marks import hold_of
from trimtab.schedulers.nodes import Nodes
from trimtab.schedulers.objects import Pod
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.plain_owners import BARE, JOB, JOBSET, KINDS, PODS, Owner, address_of, is_homeless, read_owner
from trimtab.schedulers.plain_rules import arriving_seats, refusal_of, stops_whole
from trimtab.schedulers.plain_stops import Stops
from trimtab.schedulers.plain_ways import way_of
from trimtab.schedulers.view import View
from trimtab.settings import KubernetesSettings


class Plain:
    """Carries out commands for workloads without a queueing controller."""

    name = "kubernetes"

    def __init__(self, pen: Pen, view: Callable[[], View], settings: KubernetesSettings, clock: Clock) -> None:
        """`view`: what the last snapshot was made of."""
        self._pen = pen
        self._view = view
        self._settings = settings
        self._clock = clock
        self._nodes = Nodes(pen=pen, settings=settings)
        self._stops = Stops(nodes=self._nodes)
        self._devices = Devices(pen=pen, view=view, settings=settings)

    def refusal(self, move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
        """Why the move cannot be carried out, or None."""
        return refusal_of(move, snapshot, self._view())

    def way(self, recommendation: Recommendation, snapshot: ClusterSnapshot) -> Way:
        """Its part of the advice in kubectl's words, and the expected time."""
        return way_of(recommendation, snapshot, self._view(), controller=self.name, prefix=self._settings.prefix)

    def hold(self, command: Command) -> None:
        """Cordon; keep each seat's node from others; sign what will be stopped; last, write the seats down."""
        writes = command.recommendation.writes_for(self.name)
        for write in writes:
            if write.verb is Verb.CORDON and write.node:
                self._nodes.cordon(command, write.node, lasts=write.lasts)
            elif write.verb is Verb.TAINT_DEVICE and write.node and write.gpu:
                self._devices.taint(command, write.node, write.gpu, lasts=write.lasts)
        for write in writes:
            if write.verb is Verb.RESERVE and write.workload:
                self._reserve(command, write)

    def submit(self, command: Command) -> None:
        """Open what is to be opened, and bring each workload one step on."""
        writes = command.recommendation.writes_for(self.name)
        errors: list[SchedulerError] = []
        for write in writes:
            if write.verb is Verb.UNCORDON and write.node:
                _try(errors, partial(self._nodes.open, command, write.node, lifts=write.lifts))
            elif write.verb is Verb.UNTAINT_DEVICE and write.node and write.gpu:
                _try(errors, partial(self._devices.lift, command, write.node, write.gpu, lifts=write.lifts))
        for move in self._moves(command):
            _try(errors, partial(self._advance, command, move, _writes_of(move, writes)))
        _raise_worst(errors)

    def release(self, command: Command) -> None:
        """Start what it stopped, then take every signature, taint and seat off; a lasting cordon stays once settled."""
        errors: list[SchedulerError] = []
        for workload in self._workloads(command):
            _try(errors, partial(self._release_workload, command, workload))
        _try(errors, partial(self._nodes.give_back_pods, command, self._view().pods.values()))
        for node in self._nodes.bearing(command, self._view().nodes):
            _try(errors, partial(self._nodes.give_back, command, node))
        _try(errors, partial(self._devices.give_back, command))
        _raise_worst(errors)

    # --- hold

    def _reserve(self, command: Command, write: Write) -> None:
        move = next((one for one in self._moves(command) if one.workload == write.workload), None)
        workload = write.workload or ""
        owner = self._owner(workload)
        if move is not None and owner is not None:
            self._keep_seats(command, move, owner)
        self._nodes.reserve(command, workload, write.seats)

    def _keep_seats(self, command: Command, move: Move, owner: Owner) -> None:
        is_whole = stops_whole(owner.kind, move)
        for node in _kept_nodes(move, is_whole=is_whole):
            self._nodes.taint(command, node, SEAT)
            if move.before and is_whole and owner.kind is JOB:
                self._nodes.label(command, node, SEAT)
        if move.before and is_whole:
            self._stops.sign_whole(command, owner)
        if move.before and not is_whole:
            self._stops.mark_leavers(command, move, owner)
        if not move.before:
            self._stops.steer(command, owner, move.after)

    # --- submit

    def _advance(self, command: Command, move: Move, writes: Sequence[Write]) -> None:
        verbs = {write.verb for write in writes}
        owner = self._owner(move.workload or "")
        if owner is None or owner.is_over:
            return
        seats = _seats_of(writes, move)
        is_whole = stops_whole(owner.kind, move)
        kept = _kept_nodes(move, is_whole=is_whole) if Verb.RESERVE in verbs else ()
        if move.before and is_whole and Verb.SUSPEND in verbs:
            self._stops.advance_whole(command, owner, seats, kept=kept)
        elif move.before and not is_whole:
            self._stops.advance_evictions(command, owner, kept=kept)
        if Verb.RESERVE in verbs and not owner.is_suspended:
            self._stops.steer(command, owner, seats)

    def _owner(self, workload: str) -> Owner | None:
        if address_of(workload).kind not in KINDS:
            return self._bare(workload)
        return read_owner(self._pen.api, self._view(), workload)

    def _bare(self, workload: str) -> Owner | None:
        """A pod of its own that waits is let onto a seat too; it is never stopped."""
        address = address_of(workload)
        if address.kind != "pod":
            return None
        path = PODS.path(address.namespace, address.name)
        try:
            body = self._pen.api.get(path)
        except SchedulerGone:
            return None
        return Owner(kind=BARE, address=address, path=path, body=body, pods=(msgspec.convert(body, Pod),))

    # --- release

    def _release_workload(self, command: Command, workload: str) -> None:
        owner = read_owner(self._pen.api, self._view(), workload)
        if owner is None:
            return
        self._stops.give_back_whole(command, owner)
        self._nodes.give_back_pods(command, owner.pods)
        for pod in owner.pods:
            if is_homeless(pod):
                self._nodes.pods.withdraw(command, pod)

    def _workloads(self, command: Command) -> Iterator[str]:
        """Workloads of ours that the command names, and Jobs and JobSets that bear its mark."""
        named = [write.workload for write in command.recommendation.writes_for(self.name) if write.workload]
        view = self._view()
        for kind in (JOB, JOBSET):
            for item in view.kind(kind.key).values():
                if hold_of(item.metadata.annotations, self._settings.prefix, command.mark) is not None:
                    named.append(f"{item.metadata.namespace}/{kind.name}/{item.metadata.name}")
        return iter(dict.fromkeys(one for one in named if address_of(one).kind in KINDS))

    def _moves(self, command: Command) -> list[Move]:
        moves = command.recommendation.moves
        return [move for move in moves if move.workload is not None and move.controller == self.name]


def _writes_of(move: Move, writes: Sequence[Write]) -> list[Write]:
    return [write for write in writes if write.workload == move.workload]


def _kept_nodes(move: Move, *, is_whole: bool) -> tuple[str, ...]:
    return tuple(dict.fromkeys(seat.node for seat in arriving_seats(move, is_whole=is_whole)))


def _seats_of(writes: Sequence[Write], move: Move) -> Sequence[Seat]:
    kept = next((write.seats for write in writes if write.verb is Verb.RESERVE), ())
    return kept or move.after


def _try(errors: list[SchedulerError], do: Callable[[], None]) -> None:
    """One of several things that do not wait for each other."""
    try:
        do()
    except SchedulerError as error:
        errors.append(error)


def _raise_worst(errors: Sequence[SchedulerError]) -> None:
    """A no ends the command; anything else is tried again."""
    vetoed = [error for error in errors if isinstance(error, SchedulerVetoed)]
    refused = [error for error in errors if isinstance(error, SchedulerRefused)]
    for error in (*vetoed, *refused, *errors):
        raise error
