"""Who may say yes to what: modes by rule, and how long a no lasts. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from trimtab.model.command import Command, CommandState, Mode, Recommendation, Refusal
from trimtab.settings import IssueSettings

_ORDER = tuple(Mode)
SETTLED_QUIET_SECONDS = 120.0
"""Until the findings and the snapshot have caught up with what was done."""


def mode_of(rule: str, settings: IssueSettings) -> Mode:
    """The mode of one rule: its own, capped by the daemon's."""
    return min(settings.mode, settings.rules.get(rule, settings.mode), key=_ORDER.index)


def not_proposed(command: Command) -> str:
    """The sentence for a yes that comes too late or too early, with what came of the command."""
    why = f" ({command.reason.rstrip('.')})" if command.reason else ""
    return f"{command.name} is {command.state}{why}; only what is proposed can be approved."


def refusal_to_approve(command: Command, settings: IssueSettings) -> Refusal | None:
    """Why a person may not approve this command now, or None."""
    recommendation = command.recommendation
    mode = mode_of(recommendation.rule, settings)
    sentence = None
    if command.state is not CommandState.PROPOSED:
        sentence = not_proposed(command)
    elif recommendation.kind.is_advice_only:
        sentence = f"{command.name} is advice; trimtab does not carry it out."
    elif mode not in (Mode.APPROVE, Mode.ACT):
        sentence = (
            f'{command.name} is advice in mode {mode}. Copy its steps, or set [issue] mode = "approve" in the '
            "daemon's settings."
        )
    if sentence is None:
        return None
    return Refusal(rule="approval", sentence=sentence, subject=recommendation.subject, purpose=recommendation.purpose)


def quiet_until(command: Command, settings: IssueSettings) -> datetime | None:
    """Until when the purpose of a command that is over is not proposed again; None = at once."""
    seconds = _quiet_seconds(command, settings)
    return command.changed_at + timedelta(seconds=seconds) if seconds else None


def _quiet_seconds(command: Command, settings: IssueSettings) -> float:
    if command.state in (CommandState.REJECTED, CommandState.UNDONE):
        return settings.quiet_seconds_after_no
    if command.state is CommandState.SETTLED:
        return settings.quiet_seconds_after_no if command.is_dry else SETTLED_QUIET_SECONDS
    if command.state is CommandState.MISSED:
        return settings.missed_quiet_seconds
    if command.state is CommandState.REFUSED or (command.state is CommandState.ABANDONED and command.attempts):
        return settings.retry_seconds
    return 0.0


def is_quiet(purpose: str, over: Iterable[Command], settings: IssueSettings, now: datetime) -> bool:
    """Whether an earlier command of the same purpose still keeps it from being proposed."""
    ends = (quiet_until(command, settings) for command in over if command.recommendation.purpose == purpose)
    return any(end is not None and end > now for end in ends)


def quiet_purposes(commands: Sequence[Command], settings: IssueSettings, now: datetime) -> frozenset[str]:
    """Purposes of commands that are over and are not proposed again for now."""
    over = [command for command in commands if command.state.is_over]
    live = {command.recommendation.purpose for command in commands if not command.state.is_over}
    purposes = {command.recommendation.purpose for command in over} - live
    return frozenset(purpose for purpose in purposes if is_quiet(purpose, over, settings, now))


def backs_off_until(
    recommendation: Recommendation, over: Iterable[Command], settings: IssueSettings, now: datetime
) -> tuple[int, datetime] | None:
    """How often in a row the rule has missed its seats, and until when it therefore proposes no move; None = it may.

    The pause doubles with each miss; one command that settles ends the row. What moves nothing is not kept back.
    """
    if not recommendation.moves:
        return None
    ends = sorted(
        (one for one in over if one.recommendation.rule == recommendation.rule and not one.is_dry),
        key=lambda one: one.changed_at,
        reverse=True,
    )
    row = []
    for command in ends:
        if command.state is CommandState.MISSED:
            row.append(command)
        elif command.state is CommandState.SETTLED:
            break
    if not row:
        return None
    seconds = min(settings.missed_quiet_seconds * 2.0 ** min(len(row) - 1, 30), settings.missed_quiet_seconds_max)
    until = row[0].changed_at + timedelta(seconds=seconds)
    return (len(row), until) if until > now else None
