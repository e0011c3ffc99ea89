"""Keeps the proposals what the plan says: new ones in, changed ones renewed, those no longer needed out. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from trimtab.issue.policy import backs_off_until, is_quiet, mode_of
from trimtab.issue.steps import PASSING_RULES, clock_text, refusal_of, why_gone
from trimtab.model.command import Command, CommandState, Mode, Plan, Recommendation, Refusal
from trimtab.model.past import SAME_STEPS
from trimtab.settings import IssueSettings

NEWS_SECONDS = 60.0
NEWS_RATIO = 0.25
NEWS_GPU_HOURS = 0.5
"""With the same writes, a proposal is renewed only when its moment or its price has changed by this much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of the proposals: a new one (`was` None), a renewed one, or one that is given up."""

    was: Command | None
    recommendation: Recommendation
    state: CommandState = CommandState.PROPOSED
    why: str = ""


def changes(plan: Plan, recent: Sequence[Command], *, settings: IssueSettings, now: datetime) -> list[Change]:
    """What must be written for the ledger to say what the plan says. `recent`: live ones and those over in a day."""
    live = {command.recommendation.purpose: command for command in recent if not command.state.is_over}
    over = [command for command in recent if command.state.is_over]
    return [*_given_up(plan, live), *_made_or_renewed(plan, live, over, settings, now)]


def _given_up(plan: Plan, live: dict[str, Command]) -> Iterator[Change]:
    wanted = {recommendation.purpose for recommendation in plan.recommendations}
    for purpose, command in live.items():
        if command.state is not CommandState.PROPOSED or purpose in wanted:
            continue
        refusal = refusal_of(purpose, plan)
        if refusal is None or refusal.rule not in PASSING_RULES:
            yield Change(
                was=command,
                recommendation=command.recommendation,
                state=CommandState.ABANDONED,
                why=why_gone(refusal),
            )


def _made_or_renewed(
    plan: Plan, live: dict[str, Command], over: Sequence[Command], settings: IssueSettings, now: datetime
) -> Iterator[Change]:
    for recommendation in plan.recommendations:
        command = live.get(recommendation.purpose)
        if command is None:
            if is_wanted(recommendation, over, settings, now):
                yield Change(was=None, recommendation=recommendation)
        elif command.state is CommandState.PROPOSED:
            renewed = _renewed(command.recommendation, recommendation)
            if renewed is not None:
                yield Change(was=command, recommendation=renewed[0], why=renewed[1])


def is_wanted(recommendation: Recommendation, over: Sequence[Command], settings: IssueSettings, now: datetime) -> bool:
    """Whether new advice becomes a proposal: not in mode observe, while a no is fresh, or while its rule backs off."""
    if mode_of(recommendation.rule, settings) is Mode.OBSERVE:
        return False
    if is_quiet(recommendation.purpose, over, settings, now):
        return False
    return backs_off_until(recommendation, over, settings, now) is None


def backing_off(plan: Plan, recent: Sequence[Command], *, settings: IssueSettings, now: datetime) -> list[Refusal]:
    """What is not proposed because its rule has missed seats, with the sentence that says until when."""
    live = {command.recommendation.purpose for command in recent if not command.state.is_over}
    over = [command for command in recent if command.state.is_over]
    found = []
    for one in plan.recommendations:
        pause = backs_off_until(one, over, settings, now) if one.purpose not in live else None
        if pause is not None:
            misses, until = pause
            times = "once" if misses == 1 else f"{misses} times in a row"
            sentence = (
                f"Not proposed: somebody else took the seats of {one.rule} {times}; quiet until {clock_text(until)}."
            )
            found.append(Refusal(rule="missed", sentence=sentence, subject=one.subject, purpose=one.purpose))
    return found


def _renewed(old: Recommendation, new: Recommendation) -> tuple[Recommendation, str] | None:
    """What the proposal becomes, and why; None = it stays as it is. The same writes keep their expiry."""
    if old.fingerprint != new.fingerprint:
        return new, "the cluster has changed: other steps"
    if not _is_news(old, new):
        return None
    expires_at = max(old.expires_at, new.expires_at) if new.not_before else old.expires_at
    return replace(new, created_at=old.created_at, expires_at=expires_at), SAME_STEPS


def _is_news(old: Recommendation, new: Recommendation) -> bool:
    if (old.not_before is None) != (new.not_before is None) or old.findings != new.findings:
        return True
    if old.not_before and new.not_before:
        moved = abs((old.not_before - new.not_before).total_seconds())
        if moved > NEWS_SECONDS:
            return True
    return _differs(old.cost.gpu_hours, new.cost.gpu_hours) or _differs(old.gain.gpu_hours, new.gain.gpu_hours)


def _differs(old: float, new: float) -> bool:
    return abs(old - new) > max(NEWS_GPU_HOURS, NEWS_RATIO * abs(old))
