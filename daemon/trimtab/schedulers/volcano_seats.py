"""Seats of Volcano's pods: each kept by a taint of its own, each pod let onto its own seat and no other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass

import structlog

from trimtab.errors import SchedulerBusy, SchedulerError, SchedulerRefused
from trimtab.model.command import Command, Move, Seat, Verb
from trimtab.schedulers.face import SEAT, value_of
from trimtab.schedulers.nodes import Nodes
from trimtab.schedulers.objects import Pod
from trimtab.schedulers.view import View
from trimtab.schedulers.volcano_jobs import assigned, new_pods, ref_of

log = structlog.get_logger()

MEET_SECONDS = 2
"""Volcano makes the pods of a job that comes back within 0.2 s, and places them within a second."""
STOP_SECONDS = 5
"""Many pods end within so long after they are told to, whatever their grace period; the others are met later."""


def seat_suffix(node: str) -> str:
    """Name of the taint that keeps a seat there. Each node has its own: a pod may take its own seat and no other."""
    return f"{SEAT}-{hashlib.sha256(node.encode()).hexdigest()[:6]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Seats:
    """Keeps seats and lets pods onto them, for one command at a time; all of it safe to repeat."""

    nodes: Nodes
    view: Callable[[], View]

    def keep(self, command: Command, node: str) -> None:
        """Taint a seat's node. SchedulerBusy where another command has: its pods and ours would keep each other out."""
        found = self.view().nodes.get(node)
        start, value = f"{self.nodes.prefix}/{SEAT}", value_of(command.mark)
        for taint in found.spec.taints if found is not None else ():
            if taint.key.startswith(start) and taint.value != value:
                raise SchedulerBusy(f"{node} is kept by {taint.value} already; a pod can hold one seat on it.")
        self.nodes.taint(command, node, seat_suffix(node))

    def check(self, command: Command, move: Move) -> None:
        """Nothing is stopped before its seat is kept: taints that are not seen are set again, or refused as a veto."""
        value = value_of(command.mark)
        for node in dict.fromkeys(seat.node for seat in reserved(command, move)):
            key = f"{self.nodes.prefix}/{seat_suffix(node)}"
            found = self.view().nodes.get(node)
            if found is None or all((one.key, one.value) != (key, value) for one in found.spec.taints):
                self.keep(command, node)

    def let_in(self, command: Command, move: Move, pods: Sequence[Pod], *, only: Pod | None = None) -> bool:
        """Let each pod that waits for a place onto its own seat; whether any was let in that was not before.

        The nomination comes first and for all: it means nothing until the toleration lets the pod there, and then the
        pod's next try sees both. It is a wish only, so an account that may not write it goes on without.
        """
        kept = {seat.node for seat in reserved(command, move)}
        wanted = [
            (pod, seat.node)
            for pod, seat in assigned(pods, move.after)
            if seat.node in kept and (only is None or pod is only)
        ]
        for pod, node in wanted:
            try:
                self.nodes.nominate(command, pod, node)
            except SchedulerRefused as error:
                log.warning("not nominated", command_id=command.id, pod=pod.metadata.key, node=node, why=str(error))
        let_in = [self.nodes.tolerate(command, pod, suffix=seat_suffix(node)) for pod, node in wanted]
        return any(let_in)

    def meet(self, command: Command, move: Move, since: str, *, pods: int, seconds: int = MEET_SECONDS) -> None:
        """Let so many pods of a job that comes back in as they are made, before Volcano's next cycle.

        At a beat's distance Volcano would be quicker, and put them on any node that is open. Whatever goes wrong
        here, the next beat makes up for.
        """
        met: list[Pod] = []
        try:
            with closing(new_pods(self.nodes.pen.api, ref_of(move.workload or "//"), since, seconds=seconds)) as made:
                for pod in made:
                    met.append(pod)
                    self.let_in(command, move, met, only=pod)
                    if len(met) >= pods:
                        return
        except SchedulerError as error:
            log.info("not all new pods were met", command_id=command.id, workload=move.workload, why=str(error))


def reserved(command: Command, move: Move) -> tuple[Seat, ...]:
    """The seats that a command keeps for one workload."""
    return tuple(
        seat
        for write in command.recommendation.writes
        if write.verb is Verb.RESERVE and write.workload == move.workload
        for seat in write.seats
    )
