"""Reaches the schedulers that a command concerns; of one begun in a dry run, writes are only noted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import msgspec
import structlog

from trimtab.errors import SchedulerError, SchedulerRefused
from trimtab.loop import moving
from trimtab.model.advice import Subject
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import (
    Command,
    CommandState,
    Cost,
    Gain,
    Recommendation,
    RecommendationKind,
    Refusal,
    Verb,
    Way,
    Write,
    read_mark,
)
from trimtab.schedulers.dry_run import DryRun
from trimtab.schedulers.scheduler import Scheduler

log = structlog.get_logger()

DEVICE_VERBS = (Verb.TAINT_DEVICE, Verb.UNTAINT_DEVICE)
DEVICES_BY = "kubernetes"
"""Name of the adapter that takes single GPUs out of service."""
UNFORESEEN = (ValueError, TypeError, LookupError, AttributeError, msgspec.MsgspecError)
"""What reading an object raises whose fields are not as their kind's are: whoever may write it chooses its content."""
STRAY = "stray"
"""Rule of the stand-in for a command that is not in the ledger."""


class Hands:
    """The schedulers, by the controller whose workloads they carry out commands for."""

    def __init__(self, schedulers: Mapping[str, Scheduler], *, is_dry_run: bool) -> None:
        """`is_dry_run`: what begins from now on is dry. What was begun before is finished or undone for real."""
        self.is_dry_run = is_dry_run
        self._schedulers = dict(schedulers)
        self._noting: Mapping[str, Scheduler] = {name: DryRun(one) for name, one in schedulers.items()}

    def refusal(self, command: Command, snapshot: ClusterSnapshot) -> Refusal | None:
        """Why the schedulers cannot carry a command out, or None."""
        subject, purpose = command.recommendation.subject, command.recommendation.purpose
        for move in command.recommendation.moves:
            scheduler = self._schedulers.get(move.controller or "")
            if move.workload is not None and scheduler is None:
                sentence = f"No adapter carries out moves for {move.controller or 'an unknown controller'}."
                return Refusal(rule="no_adapter", sentence=sentence, subject=subject, purpose=purpose)
            no = scheduler.refusal(move, snapshot) if scheduler is not None else None
            if no is not None:
                return no
        if not self._schedulers:
            return Refusal(
                rule="no_adapter", sentence="No scheduler can be written to.", subject=subject, purpose=purpose
            )
        return None

    def way(self, recommendation: Recommendation, snapshot: ClusterSnapshot) -> Way:
        """How all schedulers concerned would carry it out, as one way. Raises SchedulerError where one cannot."""
        ways = [one.way(recommendation, snapshot) for one in self._concerned(recommendation, is_dry=False)]
        moving = [one for one in ways if one.sentence]  # others only close nodes and GPUs
        seconds = [one.seconds for one in moving if one.seconds is not None]
        return Way(
            steps=tuple(dict.fromkeys(step for one in ways for step in one.steps)),
            sentence=" ".join(one.sentence for one in ways if one.sentence),
            seconds=max(seconds) if len(seconds) == len(moving) and seconds else None,
            against=tuple(dict.fromkeys(text for one in ways for text in one.against)),
        )

    def do(self, what: str, command: Command) -> None:
        """`hold`, `submit` or `release` on every scheduler concerned; all are tried. Raises the first SchedulerError.

        Of a command that missed its seats after the stop, what is to last stays, as of one that settled. Once that is
        given back (a person opened the node again), nothing of it stays: its claim would keep a later cordon closed.
        """
        if what == "release" and command.is_holding:
            command = replace(command, state=CommandState.SETTLED)
        elif what == "release" and command.state.is_over and command.given_back_at is not None:
            command = replace(command, state=CommandState.UNDONE)
        failed: SchedulerError | None = None
        for scheduler in self._concerned(command.recommendation, is_dry=command.is_dry):
            try:
                self._one(what, scheduler, command)
            except SchedulerError as error:
                if what != "release":
                    raise
                failed = failed or error
        if failed is not None:
            raise failed

    @staticmethod
    def _one(what: str, scheduler: Scheduler, command: Command) -> None:
        """One call. An object in a shape that nobody foresaw costs the command that met it, never the daemon's beat."""
        moving(f"{what} {command.name}")
        act = {"hold": scheduler.hold, "submit": scheduler.submit}.get(what, scheduler.release)
        try:
            act(command)
        except UNFORESEEN as error:
            log.exception("adapter failed", command_id=command.id, what=what, scheduler=scheduler.name)
            said = f"{scheduler.name} met something that it cannot read ({type(error).__name__}: {error}); see the log."
            raise SchedulerRefused(said) from error

    def _concerned(self, recommendation: Recommendation, *, is_dry: bool) -> list[Scheduler]:
        """Those of its workloads' controllers, in their order.

        Where no workload tells, nodes are the duty of the first that is there; what a stray left, nobody knows, so
        all are asked. Single GPUs are plain Kubernetes' duty, whoever's work is on them.
        """
        controllers = {move.controller for move in recommendation.moves}
        if any(write.verb in DEVICE_VERBS for write in recommendation.writes):
            controllers.add(DEVICES_BY)
        schedulers = self._noting if is_dry else self._schedulers
        found = [one for name, one in schedulers.items() if name in controllers]
        if found:
            return found
        everyone = list(schedulers.values())
        return everyone if recommendation.rule == STRAY else everyone[:1]

    @staticmethod
    def stray(mark: str, snapshot: ClusterSnapshot) -> Command:
        """A stand-in for a command that this ledger does not know, with all that bears its mark, to be given back."""
        writes = [
            Write(verb=Verb.CORDON, node=node.name)
            for node in snapshot.nodes
            if node.is_cordoned and node.cordoned_by == mark
        ]
        writes += [Write(verb=Verb.SUSPEND, workload=one.id) for one in snapshot.workloads if one.suspended_by == mark]
        writes += [
            Write(verb=Verb.RESERVE, workload=one.workload) for one in snapshot.reservations if one.command == mark
        ]
        ledger, number = read_mark(mark) or ("", 0)
        return Command(
            id=number,
            ledger=ledger,
            state=CommandState.ABANDONED,
            changed_at=snapshot.taken_at,
            recommendation=Recommendation(
                kind=RecommendationKind.UNCORDON,
                rule=STRAY,
                purpose=f"stray:{mark}",
                subject=Subject(cluster=snapshot.cluster),
                sentence=f"Give back what {mark} left",
                reason="no such command in this ledger",
                findings=(),
                moves=(),
                writes=tuple(writes),
                gain=Gain(gpu_hours=0.0, horizon_hours=0.0),
                cost=Cost(gpu_hours=0.0),
                created_at=snapshot.taken_at,
                expires_at=snapshot.taken_at + timedelta(hours=1),
            ),
        )
