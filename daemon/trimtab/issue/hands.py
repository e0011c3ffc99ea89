"""Reaches the schedulers that a command concerns; of one begun in a dry run, writes are only noted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

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
    Write,
)
from trimtab.schedulers.dry_run import DryRun
from trimtab.schedulers.scheduler import Scheduler


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

    def do(self, what: str, command: Command) -> None:
        """`hold`, `submit` or `release` on every scheduler concerned. Raises SchedulerError."""
        for scheduler in self._of(command):
            if what == "hold":
                scheduler.hold(command)
            elif what == "submit":
                scheduler.submit(command)
            else:
                scheduler.release(command)

    def _of(self, command: Command) -> list[Scheduler]:
        """Those of its workloads' controllers, in their order; all where there is no workload to tell."""
        controllers = {move.controller for move in command.recommendation.moves}
        schedulers = self._noting if command.is_dry else self._schedulers
        found = [one for name, one in schedulers.items() if name in controllers]
        return found or list(schedulers.values())

    @staticmethod
    def stray(mark: str, snapshot: ClusterSnapshot) -> Command:
        """A stand-in for a command that the ledger does not know, with all that bears its mark, to be given back."""
        writes = [
            Write(verb=Verb.CORDON, node=node.name)
            for node in snapshot.nodes
            if node.is_cordoned and node.cordoned_by == mark
        ]
        writes += [Write(verb=Verb.SUSPEND, workload=one.id) for one in snapshot.workloads if one.suspended_by == mark]
        writes += [
            Write(verb=Verb.RESERVE, workload=one.workload) for one in snapshot.reservations if one.command == mark
        ]
        number = mark.removeprefix("trimtab:R")
        return Command(
            id=int(number) if number.isdigit() else 0,
            state=CommandState.ABANDONED,
            changed_at=snapshot.taken_at,
            recommendation=Recommendation(
                kind=RecommendationKind.UNCORDON,
                rule="stray",
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
