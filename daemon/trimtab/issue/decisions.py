"""What people decide: written to the ledger, state-checked; the next beat acts on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from trimtab.errors import DecisionRefused, LedgerConflict, UnknownCommand
from trimtab.issue.ledger import Ledger
from trimtab.issue.policy import refusal_to_approve
from trimtab.model.command import Command, CommandState, read_mark
from trimtab.model.standing import Answer, Standing, StandingKind
from trimtab.schedulers.resources import pause_config_map
from trimtab.settings import IssueSettings, KubernetesSettings

REASON_CHARACTERS_MAX = 500
SNOOZE_SECONDS_MAX = 7 * 86400.0


def approve(
    ledger: Ledger, command_id: int, *, fingerprint: str, who: str, now: datetime, settings: IssueSettings
) -> Command:
    """A person's yes to exactly these writes. Raises DecisionRefused."""
    command = _command(ledger, command_id)
    refusal = refusal_to_approve(command, settings)
    if refusal is not None:
        raise DecisionRefused(refusal.sentence)
    if fingerprint != command.recommendation.fingerprint:
        raise DecisionRefused(f"The steps of {command.name} have changed since you saw them. Look again, then approve.")
    recommendation = command.recommendation
    if recommendation.expires_at <= now:
        if not _is_snoozed(command, now):
            raise DecisionRefused(f"{command.name} has expired; it is made anew if it still holds.")
        # What was snoozed has outlived its time by a person's will: from the yes it has as long as when it was new.
        recommendation = replace(
            recommendation, expires_at=now + (recommendation.expires_at - recommendation.created_at)
        )
    approved = replace(
        command,
        recommendation=recommendation,
        state=CommandState.APPROVED,
        changed_at=now,
        approved_by=who,
        approved_at=now,
        approved_fingerprint=fingerprint,
        snoozed_until=None,
        reason="",
    )
    return _record(ledger, approved, was=command, who=who, why="approved", now=now)


def reject(ledger: Ledger, command_id: int, *, reason: str, who: str, now: datetime) -> Command:
    """A person's no to what has not begun. Raises DecisionRefused."""
    command = _command(ledger, command_id)
    if command.state.is_begun or command.state is CommandState.SETTLED:
        raise DecisionRefused(f"{command.name} is {command.state}; undo it instead.")
    if command.state.is_over:
        raise DecisionRefused(f"{command.name} is {command.state} already.")
    why = _reason(reason)
    rejected = replace(command, state=CommandState.REJECTED, changed_at=now, reason=why)
    return _record(ledger, rejected, was=command, who=who, why=why, now=now)


def snooze(ledger: Ledger, command_id: int, *, seconds: float, who: str, now: datetime) -> Command:
    """Later: a proposal is left alone for so long. Raises DecisionRefused."""
    command = _command(ledger, command_id)
    if not 0 < seconds <= SNOOZE_SECONDS_MAX:
        raise DecisionRefused(
            f"A snooze lasts between 1 s and {SNOOZE_SECONDS_MAX:.0f} s (7 days); {seconds:g} was given."
        )
    if command.state is not CommandState.PROPOSED:
        raise DecisionRefused(f"{command.name} is {command.state}; only what is proposed can wait.")
    snoozed = replace(command, snoozed_until=now + timedelta(seconds=seconds))
    return _record(ledger, snoozed, was=command, who=who, why=f"snoozed for {seconds:.0f} s", now=now)


def undo(ledger: Ledger, command_id: int, *, reason: str, who: str, now: datetime) -> Command:
    """Take an approval back, or ask for what was done to be given back. Raises DecisionRefused."""
    command = _command(ledger, command_id)
    why = _reason(reason)
    if command.state is CommandState.APPROVED:
        return _record(ledger, withdrawn(command, why, now), was=command, who=who, why=why, now=now)
    if command.state.is_over and command.state is not CommandState.SETTLED and not command.is_holding:
        raise DecisionRefused(f"{command.name} is {command.state}; there is nothing to undo.")
    if command.undo_requested_by is not None:
        raise DecisionRefused(f"{command.undo_requested_by} has asked for that already; it is being undone.")
    if command.state is CommandState.PROPOSED:
        raise DecisionRefused(f"{command.name} has done nothing yet; reject it instead.")
    if command.state is CommandState.SETTLED and not command.is_holding:
        raise DecisionRefused(f"{command.name} has settled and holds nothing; its jobs stay where they run.")
    asked = replace(command, undo_requested_by=who, reason=why)
    return _record(ledger, asked, was=command, who=who, why=f"undo: {why}", now=now)


def withdrawn(command: Command, why: str, now: datetime) -> Command:
    """An approved command back among the proposals.

    Its owners' yes and the notice were for the move as it was; a no and a "not before" are for any move of their work.
    """
    kept = {work: one for work, one in command.answers.items() if one.answer in (Answer.NO, Answer.NOT_BEFORE)}
    return replace(
        command,
        state=CommandState.PROPOSED,
        changed_at=now,
        approved_by=None,
        approved_at=None,
        approved_fingerprint=None,
        answers=kept,
        noticed_at=None,
        reason=why,
    )


def pause(ledger: Ledger, *, reason: str, who: str, now: datetime) -> None:
    """Stop new commands; begun ones are finished or undone."""
    ledger.set_paused(is_paused=True, who=who, why=_reason(reason), at=now)


def resume(
    ledger: Ledger,
    *,
    who: str,
    now: datetime,
    pause_reason: str | None = None,
    kubernetes: KubernetesSettings | None = None,
) -> str:
    """Allow new commands again, as far as this daemon goes; the sentence that says what else still stops them, or "".

    `pause_reason`: why the cluster itself says to pause (the snapshot's); no person's resume overrides that.
    """
    ledger.set_paused(is_paused=False, who=who, why="", at=now)
    if pause_reason is None:
        return ""
    how = f" To end that: {resume_line(kubernetes)}" if kubernetes is not None else ""
    return f"Still paused in the cluster itself: {pause_reason or 'no reason given'}.{how}"


def pause_line(kubernetes: KubernetesSettings) -> str:
    """The command that pauses us from inside the cluster, for when the daemon cannot be reached."""
    name = pause_config_map(kubernetes.prefix)
    return f"kubectl --namespace {kubernetes.namespace} create configmap {name} --from-literal=reason='why'"


def resume_line(kubernetes: KubernetesSettings) -> str:
    """The command that ends such a pause."""
    return f"kubectl --namespace {kubernetes.namespace} delete configmap {pause_config_map(kubernetes.prefix)}"


def resume_rule(ledger: Ledger, rule: str, *, who: str, now: datetime) -> None:
    """Let a rule go on that its breaker had stopped; its cordons until now no longer count. Raises DecisionRefused."""
    if not ledger.lift(StandingKind.BREAKER, rule, who=who, what=f"breaker of {rule} closed", why="", at=now):
        known = ", ".join(one.name for one in ledger.standing(StandingKind.BREAKER)) or "none"
        raise DecisionRefused(f"No breaker has stopped {rule}; stopped: {known}.")
    why = f"{who} looked: cordons of {rule} count from here"
    fact = Standing(kind=StandingKind.RESET, name=rule, since=now, who=who, why=why)
    ledger.stand(fact, what=f"{rule} goes on", at=now)


def lift_veto(ledger: Ledger, node: str, *, who: str, now: datetime) -> None:
    """Allow a node to be cordoned again that somebody had opened. Raises DecisionRefused."""
    if not ledger.lift(StandingKind.VETO, node, who=who, what=f"veto on {node} lifted", why="", at=now):
        raise DecisionRefused(f"No veto stands on {node}.")


def release_all(ledger: Ledger, *, who: str, now: datetime, reason: str = "", marks: Sequence[str] = ()) -> Standing:
    """Ask for everything of this ledger to be given back, and stay paused; the next beats do it.

    `marks`: marks of other ledgers that are to go too, each by its full name. Raises DecisionRefused for what is none.
    """
    bad = next((mark for mark in marks if read_mark(mark) is None), None)
    if bad is not None:
        raise DecisionRefused(f"{bad} is no mark of a trimtab; one looks like trimtab:3fa9c1d2:R11.")
    why = _reason(f"release --all: {reason}" if reason else "release --all")
    pause(ledger, reason=why, who=who, now=now)
    fact = Standing(
        kind=StandingKind.RELEASE, name="all", since=now, who=who, why=why, marks=tuple(dict.fromkeys(marks))
    )
    ledger.stand(fact, what="release of everything asked for", at=now)
    return fact


def _command(ledger: Ledger, command_id: int) -> Command:
    command = ledger.command(command_id)
    if command is None:
        raise UnknownCommand(f"There is no R{command_id}.")
    return command


def _is_snoozed(command: Command, now: datetime) -> bool:
    return command.snoozed_until is not None and command.snoozed_until > now


def _reason(text: str) -> str:
    return " ".join(text.split())[:REASON_CHARACTERS_MAX]


def _record(ledger: Ledger, command: Command, *, was: Command, who: str, why: str, now: datetime) -> Command:
    try:
        ledger.record(command, was=was, who=who, why=why, at=now)
    except LedgerConflict as error:
        raise DecisionRefused(f"{was.name} changed at this very moment. Look again, then decide.") from error
    return command
