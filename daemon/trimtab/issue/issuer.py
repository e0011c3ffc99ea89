"""Carries commands out, one step a beat: what is agreed is finished or undone, whatever happens in between.

Everything derives from the ledger and the snapshot, so a restart needs no memory of its own. Each step is in the
ledger before it is done, and safe to repeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import structlog

from trimtab.clock import Clock
from trimtab.issue import arrival, look, owners
from trimtab.issue.beat import Beat
from trimtab.issue.breaker import Breaker
from trimtab.issue.desk import WHO, Desk
from trimtab.issue.edge import Edge, why_not_begin
from trimtab.issue.enrich import enriched
from trimtab.issue.hands import Hands
from trimtab.issue.ledger import Ledger
from trimtab.issue.outcome import measure
from trimtab.issue.owners import Asker, Notify
from trimtab.issue.proposals import Change, backing_off, changes
from trimtab.issue.releases import Released, release_all
from trimtab.issue.steps import from_approved, from_proposed, why_not_stop_yet
from trimtab.issue.strays import Strays
from trimtab.issue.vetoes import Openings, in_force, is_touched_by_veto
from trimtab.issue.voice import Voice
from trimtab.model.advice import OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Budget, Command, CommandState, Plan, Refusal
from trimtab.model.standing import StandingKind
from trimtab.schedulers.scheduler import Scheduler
from trimtab.settings import IssueSettings

__all__ = ["Advance", "Issuer", "Ledger"]

log = structlog.get_logger()

DAY = timedelta(days=1)
SHOWN = timedelta(hours=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Advance:
    """What one beat did: commands that live or were over within the hour, what holds some up, and one line."""

    commands: tuple[Command, ...]
    refusals: tuple[Refusal, ...]
    """Those that are not in the plan."""
    sentence: str
    pause: str | None = None
    """Why nothing new begins, as the end of a sentence; None = not paused."""
    released: Released | None = None
    """How far a `release --all` that somebody asked for has come."""
    plan: Plan | None = None
    """The plan with causes and the schedulers' own steps, as it was acted on."""


class Issuer:
    """Moves every live command one step on, and keeps the proposals what the plan says."""

    def __init__(
        self,
        *,
        ledger: Ledger,
        schedulers: Mapping[str, Scheduler],
        settings: IssueSettings,
        clock: Clock,
        asker: Asker | None = None,
        notify: Notify | None = None,
        why_not_write: Callable[[], str | None] = lambda: None,
    ) -> None:
        """`schedulers` by controller; with `is_dry_run` set nothing that begins writes to any of them.

        `asker` asks owners who want to be asked first; without one a person's approval is their yes. `notify` tells
        owners of a move that is about to begin. `why_not_write`: another daemon is the one that acts, in words.
        """
        self._why_not_write = why_not_write
        self._desk = Desk(ledger=ledger, hands=Hands(schedulers, is_dry_run=settings.is_dry_run), settings=settings)
        self._ledger = ledger
        self._settings = settings
        self._clock = clock
        self._asker = asker
        self._voice = Voice(self._desk, asker, notify)
        self._strays = Strays(self._desk)
        self._openings = Openings(self._desk)
        self._steps: Mapping[CommandState, Callable[[Command, Beat], None]] = {
            CommandState.PROPOSED: self._proposed,
            CommandState.APPROVED: self._approved,
            CommandState.HELD: self._held,
            CommandState.CONFIRMED: self._confirmed,
            CommandState.SUBMITTED: self._submitted,
            CommandState.SETTLED: self._desk.undo,  # live only while somebody wants it undone
            CommandState.MISSED: self._desk.undo,
        }

    def advance(
        self,
        plan: Plan,
        snapshot: ClusterSnapshot,
        budget: Budget | None = None,
        findings: Sequence[OpenFinding] | None = None,
    ) -> Advance:
        """One step of everything. `budget`: what may still begin this beat; the plan's own limits hold besides.

        `findings`: all that are open. Without them a node that somebody opened counts as a veto, whatever healed.
        """
        beat = self._beat(plan, snapshot, budget, findings)
        standby = None if self._desk.hands.is_dry_run else self._why_not_write()
        released = None
        if standby is None:
            released = self._act(beat)
        else:
            self._stand_by(beat, standby)
        self._keep_proposals(beat)
        commands = self._ledger.commands(live_only=False, since=beat.now - SHOWN)
        return Advance(
            commands=commands,
            refusals=tuple(one for one in beat.refusals if one not in beat.plan.refusals),
            sentence=_sentence(beat, commands),
            pause=beat.pause,
            released=released,
            plan=beat.plan,
        )

    def _act(self, beat: Beat) -> Released | None:
        """One step of everything that writes, or has written."""
        released = release_all(self._desk, beat)
        self._strays.sweep(beat)
        for command in self._ledger.commands(live_only=True):
            self._steps[command.state](command, beat)
        for vetoed, said in beat.vetoed:
            self._openings.veto(vetoed, said, beat)
        self._openings.see(beat)
        return released

    def _stand_by(self, beat: Beat, why: str) -> None:
        """Whoever may not write decides nothing either: what is agreed waits, and says so."""
        for command in self._ledger.commands(live_only=True):
            if command.state is not CommandState.PROPOSED:
                beat.refuse(command, "standby", f"{command.name} waits: {why}.")

    def give_up(self, snapshot: ClusterSnapshot) -> str:
        """While the cluster cannot be seen whole: what has begun is given back when its time is over or a person asks.

        `snapshot` is the last whole one, for the outcome's arithmetic; adapters read afresh before they write.
        """
        beat = self._beat(Plan(made_at=self._clock.now(), is_whole=False), snapshot, None, None)
        if self._why_not_write() is not None:
            return ""
        is_release = bool(self._ledger.standing(StandingKind.RELEASE))
        for command in self._ledger.commands(live_only=True):
            if not command.state.is_begun or command.is_dry:
                continue
            since = command.submitted_at or command.changed_at
            if command.undo_requested_by is not None:
                self._desk.undo(command, beat)
            elif is_release or (beat.now - since).total_seconds() > self._settings.settle_seconds_max:
                why = "everything is given back" if is_release else "the cluster cannot be seen whole: given back"
                self._desk.end(command, CommandState.ABANDONED, why, was=command, beat=beat)
        return "; ".join(beat.said)

    def _beat(
        self,
        plan: Plan,
        snapshot: ClusterSnapshot,
        budget: Budget | None,
        findings: Sequence[OpenFinding] | None,
    ) -> Beat:
        now = self._clock.now()
        recent = self._ledger.commands(live_only=False, since=now - DAY)
        vetoes = in_force(self._ledger.standing(StandingKind.VETO), now)
        by_id = None if findings is None else {one.id: one for one in findings}
        beat = Beat(
            plan=plan,
            snapshot=snapshot,
            now=now,
            pause=self._why_paused(snapshot),
            edge=Edge(budget, [command for command in recent if command.state.is_begun], snapshot),
            breaker=Breaker(
                recent,
                open_ones=self._ledger.standing(StandingKind.BREAKER),
                resets=self._ledger.standing(StandingKind.RESET),
                settings=self._settings,
                now=now,
            ),
            recent=recent,
            vetoes=vetoes,
            findings=by_id,
        )
        beat.plan = enriched(
            plan,
            snapshot,
            self._desk.hands,
            findings=by_id,
            vetoes=vetoes,
            questions=self._openings.questions(beat),
        )
        beat.refusals += beat.plan.refusals[len(plan.refusals) :]
        return beat

    def _why_paused(self, snapshot: ClusterSnapshot) -> str | None:
        if self._ledger.standing(StandingKind.RELEASE):
            return "everything is being given back."
        if self._ledger.is_paused():
            return "paused."
        if snapshot.pause_reason is not None:
            return f"paused in the cluster itself: {snapshot.pause_reason or 'no reason given'}."
        return None

    # --- the life of a command, one method a state

    def _proposed(self, command: Command, beat: Beat) -> None:
        may_policy = (
            beat.pause is None
            and beat.breaker.why_not(command) is None
            and not is_touched_by_veto(command.recommendation, beat.vetoes)
            and not owners.needs_a_person(command, beat.snapshot, self._asker)
        )
        step = from_proposed(command, beat.plan, settings=self._settings, now=beat.now, may_policy=may_policy)
        if step is not None:
            self._desk.record(step.command, was=command, why=step.why, beat=beat, who=step.who or WHO)

    def _approved(self, command: Command, beat: Beat) -> None:
        step = from_approved(command, beat.plan, settings=self._settings, now=beat.now, pause=beat.pause)
        if step.command is not command:
            self._desk.record(step.command, was=command, why=step.why, beat=beat)
        elif step.why:
            beat.refuse(command, step.rule, step.why)
        elif step.fresh is not None:
            self._begin(replace(command, recommendation=step.fresh), was=command, beat=beat)

    def _begin(self, command: Command, *, was: Command, beat: Beat) -> None:
        impossible = self._desk.hands.refusal(command, beat.snapshot)
        if impossible is not None:
            self._desk.end(command, CommandState.REFUSED, impossible.sentence, was=was, beat=beat)
            return
        waits = beat.breaker.why_not(command)
        if waits is not None:
            beat.refuse(command, "breaker", waits)
            return
        sentence = why_not_begin(command, beat.snapshot, beat.edge)
        if sentence is not None:
            beat.refuse(command, "edge", sentence)
            return
        agreed = self._voice.agreed(command, was=was, beat=beat)
        if agreed is not None:
            self._hold(agreed, was=was, beat=beat)

    def _hold(self, command: Command, *, was: Command, beat: Beat) -> None:
        held = replace(
            command,
            state=CommandState.HELD,
            changed_at=beat.now,
            attempts=command.attempts + 1,
            is_dry=self._desk.hands.is_dry_run,
            reason="keeping its room",
        )
        if self._desk.record(held, was=was, why=held.reason, beat=beat):
            beat.edge.begin(held)
            for tripped in beat.breaker.begin(held):
                self._ledger.stand(tripped, what=f"breaker of {tripped.name} opened", at=beat.now)
                beat.said.append(tripped.why)
            self._voice.tell(held, beat)
            self._desk.do("hold", held, beat)

    def _held(self, command: Command, beat: Beat) -> None:
        is_held = command.is_dry or look.is_held(command, beat.snapshot)
        is_asked = is_held or command.undo_requested_by is not None
        # Asked again before it may end: only its scheduler knows whether a person has undone it. Without an answer it
        # ends for want of time alone.
        if not is_asked and not self._desk.do("hold", command, beat):
            self._unanswered(command, beat)
            return
        if self._is_ended(command, beat) or not is_held:
            return
        confirmed = replace(
            command, state=CommandState.CONFIRMED, changed_at=beat.now, reason="looked again: all seats are there"
        )
        self._desk.record(confirmed, was=command, why=confirmed.reason, beat=beat)

    def _unanswered(self, command: Command, beat: Beat) -> None:
        """Nobody knows what a command holds: its scheduler could not be asked, or has ended it by its no."""
        now = self._ledger.command(command.id) or command
        off = self._why_held_too_long(now, beat.now)
        if off is not None and now.state is CommandState.HELD and not beat.is_vetoed(now):
            self._desk.end(now, off[0], off[1], was=now, beat=beat)

    def _confirmed(self, command: Command, beat: Beat) -> None:
        if self._openings.is_in_question(command, beat) or self._is_ended(command, beat):
            return
        early = why_not_stop_yet(command, beat.snapshot, beat.now)
        if early is not None:
            beat.refuse(command, "checkpoint", early)
            return
        submitted = replace(
            command, state=CommandState.SUBMITTED, changed_at=beat.now, submitted_at=beat.now, reason="under way"
        )
        if self._desk.record(submitted, was=command, why=submitted.reason, beat=beat):
            self._desk.do("submit", submitted, beat)

    def _submitted(self, command: Command, beat: Beat) -> None:
        if command.undo_requested_by is not None:
            self._desk.undo(command, beat)
        elif command.is_dry:
            self._settle(command, "dry run: nothing was written", beat)
        elif self._openings.is_in_question(command, beat):
            return
        elif arrival.is_settled(command, beat.snapshot):
            outcome = measure(command, beat.snapshot, state=CommandState.SETTLED, now=beat.now)
            self._ledger.record_outcome(outcome)
            self._settle(command, outcome.sentence, beat)
        elif not self._is_lost(command, beat):
            # Done again until the snapshot shows it: after a crash nobody knows how far the last try came.
            self._desk.do("submit", command, beat)

    def _settle(self, command: Command, why: str, beat: Beat) -> None:
        settled = replace(command, state=CommandState.SETTLED, changed_at=beat.now, settled_at=beat.now, reason=why)
        if self._desk.record(settled, was=command, why=why, beat=beat):
            self._desk.do("release", settled, beat)

    def _is_lost(self, command: Command, beat: Beat) -> bool:
        """Whether it ends without having come true: its seats were taken, or it took too long."""
        missed = arrival.why_missed(command, beat.snapshot)
        since = command.submitted_at or command.changed_at
        is_late = (beat.now - since).total_seconds() > self._settings.settle_seconds_max
        if missed is None and is_late:
            missed = arrival.why_missed_in_the_end(command, beat.snapshot)
        if missed is not None:
            self._desk.end(command, CommandState.MISSED, missed, was=command, beat=beat)
        elif is_late:
            why = f"not settled after {self._settings.settle_seconds_max:.0f} s: given back"
            self._desk.end(command, CommandState.ABANDONED, why, was=command, beat=beat)
        return missed is not None or is_late

    def _is_ended(self, command: Command, beat: Beat) -> bool:
        """Whether a command that has stopped nothing yet ends: undone, unwanted, too long, or its seats gone."""
        if command.undo_requested_by is not None:
            self._desk.undo(command, beat)
            return True
        off = (
            self._why_held_too_long(command, beat.now)
            or self._why_unwanted(command, beat)
            or look.why_off(command, beat.snapshot)
        )
        if off is not None:
            self._desk.end(command, off[0], off[1], was=command, beat=beat)
        return off is not None

    def _why_held_too_long(self, command: Command, now: datetime) -> tuple[CommandState, str] | None:
        if (now - command.changed_at).total_seconds() <= self._settings.hold_seconds_max:
            return None
        return CommandState.ABANDONED, f"held for {self._settings.hold_seconds_max:.0f} s without a move: given back"

    @staticmethod
    def _why_unwanted(command: Command, beat: Beat) -> tuple[CommandState, str] | None:
        said = owners.why_unwanted(command, beat.snapshot) or owners.why_too_early(command, beat.snapshot, beat.now)
        return None if said is None else (CommandState.ABANDONED, said)

    # --- proposals

    def _keep_proposals(self, beat: Beat) -> None:
        if not beat.plan.is_whole:
            return
        recent = self._ledger.commands(live_only=False, since=beat.now - DAY)
        beat.refusals += backing_off(beat.plan, recent, settings=self._settings, now=beat.now)
        for change in changes(beat.plan, recent, settings=self._settings, now=beat.now):
            self._keep(change, beat)

    def _keep(self, change: Change, beat: Beat) -> None:
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
            self._desk.record(command, was=change.was, why=change.why, beat=beat)


def _sentence(beat: Beat, commands: tuple[Command, ...]) -> str:
    if beat.said:
        return "; ".join(beat.said)
    live = sum(1 for command in commands if not command.state.is_over)
    waits = f"; {beat.refusals[0].sentence}" if beat.refusals else ""
    return f"{live} commands live, nothing to do" + waits
