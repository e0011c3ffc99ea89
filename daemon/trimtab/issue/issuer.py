"""Carries commands out, one step a beat: what is agreed is finished or undone, whatever happens in between.

Everything derives from the ledger and the snapshot, so a restart needs no memory of its own. Each step is in the
ledger before it is done, and safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import structlog

from trimtab.clock import Clock
from trimtab.errors import LedgerConflict, SchedulerError, SchedulerRefused
from trimtab.issue import look
from trimtab.issue.edge import Edge, why_not_begin
from trimtab.issue.hands import Hands
from trimtab.issue.ledger import Ledger
from trimtab.issue.outcome import measure
from trimtab.issue.proposals import Change, changes
from trimtab.issue.steps import from_approved, from_proposed
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import AuditLine, Budget, Command, CommandState, Plan, Refusal
from trimtab.schedulers.scheduler import Scheduler
from trimtab.settings import IssueSettings

__all__ = ["Advance", "Issuer", "Ledger"]

log = structlog.get_logger()

WHO = "trimtab"
DAY = timedelta(days=1)
SHOWN = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What one beat did: commands that live or were over within the hour, what holds some up, and one line."""

    commands: tuple[Command, ...]
    refusals: tuple[Refusal, ...]
    sentence: str


@dataclass(slots=True, kw_only=True)
class _Beat:
    """What one beat sees and has done so far."""

    plan: Plan
    snapshot: ClusterSnapshot
    now: datetime
    is_paused: bool
    edge: Edge
    refusals: list[Refusal] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def refuse(self, command: Command, rule: str, sentence: str) -> None:
        """Say why a command does not move on."""
        recommendation = command.recommendation
        self.refusals.append(
            Refusal(rule=rule, sentence=sentence, subject=recommendation.subject, purpose=recommendation.purpose)
        )


class Issuer:
    """Moves every live command one step on, and keeps the proposals what the plan says."""

    def __init__(
        self, *, ledger: Ledger, schedulers: Mapping[str, Scheduler], settings: IssueSettings, clock: Clock
    ) -> None:
        """`schedulers` by controller; with `is_dry_run` set nothing that begins writes to any of them."""
        self._ledger = ledger
        self._hands = Hands(schedulers, is_dry_run=settings.is_dry_run)
        self._settings = settings
        self._clock = clock
        self._owed: set[str] = set()
        """Marks that the last beat had to give back."""
        self._steps: Mapping[CommandState, Callable[[Command, _Beat], None]] = {
            CommandState.PROPOSED: self._proposed,
            CommandState.APPROVED: self._approved,
            CommandState.HELD: self._held,
            CommandState.CONFIRMED: self._confirmed,
            CommandState.SUBMITTED: self._submitted,
            CommandState.SETTLED: self._settled,
        }

    def advance(self, plan: Plan, snapshot: ClusterSnapshot, budget: Budget | None = None) -> Advance:
        """One step of everything. `budget`: what may still begin this beat; the plan's own limits hold besides."""
        now = self._clock.now()
        live = self._ledger.commands(live_only=True)
        beat = _Beat(
            plan=plan,
            snapshot=snapshot,
            now=now,
            is_paused=self._ledger.is_paused(),
            edge=Edge(budget, [command for command in live if command.state.is_begun]),
        )
        self._give_back_strays(beat)
        for command in live:
            self._steps[command.state](command, beat)
        self._see_vetoes(beat)
        self._keep_proposals(beat)
        commands = self._ledger.commands(live_only=False, since=now - SHOWN)
        return Advance(commands=commands, refusals=tuple(beat.refusals), sentence=_sentence(beat, commands))

    # --- the life of a command, one method a state

    def _proposed(self, command: Command, beat: _Beat) -> None:
        step = from_proposed(
            command, beat.plan, beat.snapshot, settings=self._settings, now=beat.now, is_paused=beat.is_paused
        )
        if step is not None:
            self._record(step.command, was=command, why=step.why, beat=beat, who=step.who or WHO)

    def _approved(self, command: Command, beat: _Beat) -> None:
        step = from_approved(command, beat.plan, settings=self._settings, now=beat.now, is_paused=beat.is_paused)
        if step.command is not command:
            self._record(step.command, was=command, why=step.why, beat=beat)
        elif step.why:
            beat.refuse(command, step.rule, step.why)
        elif step.fresh is not None:
            self._begin(replace(command, recommendation=step.fresh), was=command, beat=beat)

    def _begin(self, command: Command, *, was: Command, beat: _Beat) -> None:
        impossible = self._hands.refusal(command, beat.snapshot)
        if impossible is not None:
            self._end(command, CommandState.REFUSED, impossible.sentence, was=was, beat=beat)
            return
        sentence = why_not_begin(command, beat.snapshot, beat.edge)
        if sentence is not None:
            beat.refuse(command, "edge", sentence)
            return
        held = replace(
            command,
            state=CommandState.HELD,
            changed_at=beat.now,
            attempts=command.attempts + 1,
            is_dry=self._hands.is_dry_run,
            reason="keeping its room",
        )
        if self._record(held, was=was, why=held.reason, beat=beat):
            beat.edge.begin(held)
            self._do("hold", held, beat)

    def _held(self, command: Command, beat: _Beat) -> None:
        if self._is_ended(command, beat):
            return
        if not command.is_dry and not look.is_held(command, beat.snapshot):
            self._do("hold", command, beat)
            return
        confirmed = replace(
            command, state=CommandState.CONFIRMED, changed_at=beat.now, reason="looked again: all seats are there"
        )
        self._record(confirmed, was=command, why=confirmed.reason, beat=beat)

    def _confirmed(self, command: Command, beat: _Beat) -> None:
        if self._is_ended(command, beat):
            return
        submitted = replace(
            command, state=CommandState.SUBMITTED, changed_at=beat.now, submitted_at=beat.now, reason="under way"
        )
        if self._record(submitted, was=command, why=submitted.reason, beat=beat):
            self._do("submit", submitted, beat)

    def _submitted(self, command: Command, beat: _Beat) -> None:
        since = command.submitted_at or command.changed_at
        if command.undo_requested_by is not None:
            self._undo(command, beat)
        elif command.is_dry:
            self._settle(command, "dry run: nothing was written", beat)
        elif look.is_settled(command, beat.snapshot):
            self._ledger.record_outcome(
                outcome := measure(command, beat.snapshot, state=CommandState.SETTLED, now=beat.now)
            )
            self._settle(command, outcome.sentence, beat)
        elif (beat.now - since).total_seconds() > self._settings.settle_seconds_max:
            why = f"not settled after {self._settings.settle_seconds_max:.0f} s: given back"
            self._end(command, CommandState.ABANDONED, why, was=command, beat=beat)
        else:
            # Done again until the snapshot shows it: after a crash nobody knows how far the last try came.
            self._do("submit", command, beat)

    def _settle(self, command: Command, why: str, beat: _Beat) -> None:
        settled = replace(command, state=CommandState.SETTLED, changed_at=beat.now, settled_at=beat.now, reason=why)
        if self._record(settled, was=command, why=why, beat=beat):
            self._do("release", settled, beat)

    def _settled(self, command: Command, beat: _Beat) -> None:
        """Live only while somebody wants it undone."""
        self._undo(command, beat)

    def _undo(self, command: Command, beat: _Beat) -> None:
        why = f"undone for {command.undo_requested_by}" + (f": {command.reason}" if command.reason else "")
        self._end(command, CommandState.UNDONE, why, was=command, beat=beat)

    def _is_ended(self, command: Command, beat: _Beat) -> bool:
        """Whether a command that has stopped nothing yet ends here: undone, too long, or its seats are gone."""
        if command.undo_requested_by is not None:
            self._undo(command, beat)
            return True
        if (beat.now - command.changed_at).total_seconds() > self._settings.hold_seconds_max:
            why = f"held for {self._settings.hold_seconds_max:.0f} s without a move: given back"
            self._end(command, CommandState.ABANDONED, why, was=command, beat=beat)
            return True
        off = look.why_off(command, beat.snapshot)
        if off is not None:
            self._end(command, off[0], off[1], was=command, beat=beat)
        return off is not None

    def _end(self, command: Command, state: CommandState, why: str, *, was: Command, beat: _Beat) -> None:
        """Over: in the ledger first, then given back. What is left after a crash here, the next beat gives back."""
        ended = replace(command, state=state, changed_at=beat.now, reason=why)
        if was.state in (CommandState.SUBMITTED, CommandState.SETTLED) and not was.is_dry:
            self._ledger.record_outcome(measure(command, beat.snapshot, state=state, now=beat.now))
        if self._record(ended, was=was, why=why, beat=beat) and (was.state.is_begun or was.state.is_over):
            self._do("release", ended, beat)

    # --- besides single commands

    def _give_back_strays(self, beat: _Beat) -> None:
        """What a crash may not leave behind: marks of ours whose command is over, never began or is unknown."""
        if self._hands.is_dry_run:
            return  # nothing would be given back, so nothing must say so
        was_owed, self._owed = self._owed, set()
        for mark in sorted(look.marks(beat.snapshot)):
            number = mark.removeprefix("trimtab:R")
            command = self._ledger.command(int(number)) if number.isdigit() else None
            if not look.owes(mark, command, beat.snapshot):
                continue
            stray = command or self._hands.stray(mark, beat.snapshot)
            why = f"{mark} is {command.state if command else 'unknown to this ledger'}; what it held is given back"
            self._owed.add(mark)
            if mark not in was_owed:  # said once, however often the scheduler has to be asked
                about = command.id if command else None
                self._ledger.audit([AuditLine(at=beat.now, who=WHO, what="released", why=why, command_id=about)])
            beat.said.append(why)
            self._do("release", stray, beat)

    def _see_vetoes(self, beat: _Beat) -> None:
        """A person who uncordons what we cordoned has undone it: a veto, counted against the rule."""
        for command in self._ledger.commands(live_only=False, since=beat.now - DAY):
            if command.state is not CommandState.SETTLED or command.is_dry or command.undo_requested_by:
                continue
            if command.settled_at is None or command.settled_at >= beat.snapshot.taken_at:
                continue
            nodes = (beat.snapshot.node_by_name.get(name) for name in look.lasting_nodes(command))
            opened = next((node.name for node in nodes if node is not None and not node.is_cordoned), None)
            if opened is not None:
                self._end(command, CommandState.UNDONE, f"somebody uncordoned {opened}: a veto", was=command, beat=beat)

    def _keep_proposals(self, beat: _Beat) -> None:
        if not beat.plan.is_whole:
            return
        recent = self._ledger.commands(live_only=False, since=beat.now - DAY)
        for change in changes(beat.plan, recent, settings=self._settings, now=beat.now):
            self._keep(change, beat)

    def _keep(self, change: Change, beat: _Beat) -> None:
        if change.was is None:
            added = self._ledger.add(change.recommendation, beat.now)
            beat.said.append(f"{added.name} proposed: {change.recommendation.sentence}")
            log.info("command proposed", command_id=added.id, said=change.recommendation.sentence)
        else:
            command = replace(
                change.was,
                recommendation=change.recommendation,
                state=change.state,
                changed_at=change.was.changed_at if change.state is change.was.state else beat.now,
                reason=change.why,
            )
            self._record(command, was=change.was, why=change.why, beat=beat)

    # --- hands

    def _record(self, command: Command, *, was: Command, why: str, beat: _Beat, who: str = WHO) -> bool:
        """Write a step to the ledger; False when a person was quicker, and the next beat looks at it anew."""
        try:
            self._ledger.record(command, was=was, who=who, why=why, at=beat.now)
        except LedgerConflict:
            beat.refuse(was, "conflict", f"{was.name} was changed by somebody at this moment; next beat.")
            return False
        if command.state is not was.state:
            beat.said.append(f"{command.name} {was.state} → {command.state}" + (f" ({why})" if why else ""))
            log.info("command changed", command_id=command.id, was=was.state, state=command.state, why=why)
        return True

    def _do(self, what: str, command: Command, beat: _Beat) -> None:
        """One call to the schedulers. Out of reach: try again next beat. A no: the command ends, all given back."""
        try:
            self._hands.do(what, command)
        except SchedulerRefused as error:
            beat.refuse(command, "scheduler", f"{command.name}: the scheduler refused to {what}: {error}")
            if command.state.is_begun:
                self._end(command, CommandState.REFUSED, str(error), was=command, beat=beat)
        except SchedulerError as error:
            beat.refuse(command, "scheduler", f"{command.name} waits to {what}: {error}")


def _sentence(beat: _Beat, commands: tuple[Command, ...]) -> str:
    if beat.said:
        return "; ".join(beat.said)
    live = sum(1 for command in commands if not command.state.is_over)
    waits = f"; {beat.refusals[0].sentence}" if beat.refusals else ""
    return f"{live} commands live, nothing to do" + waits
