"""What becomes of a command before it begins: its next state and the reason. Pure."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from trimtab.issue.decisions import withdrawn
from trimtab.issue.enrich import OUT_OF_REACH
from trimtab.issue.policy import mode_of
from trimtab.issue.vetoes import IN_QUESTION
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, CommandState, Mode, Plan, Recommendation, Refusal, Verb
from trimtab.settings import IssueSettings

BUDGET_RULE = "budget"
PASSING_RULES = (BUDGET_RULE, OUT_OF_REACH, IN_QUESTION)
"""Refusals of these rules pass: what they stand against waits and is not given up."""
CHECKPOINT_PATIENCE = timedelta(seconds=300)
"""How long an approved move waits beyond the moment that was approved for a checkpoint that comes late."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Next:
    """The command as it is to be, or unchanged with `why` it waits, or unchanged with a `fresh` look to begin with."""

    command: Command
    why: str = ""
    rule: str = ""
    who: str | None = None
    fresh: Recommendation | None = None


def clock_text(moment: datetime) -> str:
    """`14:31 UTC`."""
    return moment.astimezone(UTC).strftime("%H:%M UTC")


def from_proposed(
    command: Command, plan: Plan, *, settings: IssueSettings, now: datetime, may_policy: bool
) -> Next | None:
    """Expired, given up with its mode, approved by policy; or None: it waits for a person.

    `may_policy`: no pause, breaker, veto, or owner who must be asked by a person keeps a policy's yes back.
    """
    recommendation = command.recommendation
    mode = mode_of(recommendation.rule, settings)
    if command.snoozed_until is not None and command.snoozed_until > now:
        return None
    if recommendation.expires_at <= now:
        why = f"not approved by {clock_text(recommendation.expires_at)}"
        return _to(command, CommandState.EXPIRED, why, now)
    if mode is Mode.OBSERVE:
        return _to(command, CommandState.ABANDONED, f"mode of {recommendation.rule} is observe", now)
    fresh = _fresh(command, plan)
    is_same = fresh is not None and fresh.fingerprint == recommendation.fingerprint
    if mode is not Mode.ACT or not may_policy or not is_same or recommendation.kind.is_advice_only:
        return None
    approved = replace(
        command,
        state=CommandState.APPROVED,
        changed_at=now,
        approved_by="policy",
        approved_at=now,
        approved_fingerprint=recommendation.fingerprint,
        reason=f"mode of {recommendation.rule} is act",
    )
    return Next(command=approved, why=approved.reason, who="policy")


def from_approved(command: Command, plan: Plan, *, settings: IssueSettings, now: datetime, pause: str | None) -> Next:
    """The fresh look before the first write: other writes, a mode or an expiry take the approval away."""
    recommendation = command.recommendation
    mode = mode_of(recommendation.rule, settings)
    if mode not in (Mode.APPROVE, Mode.ACT):
        return _back(command, f"mode of {recommendation.rule} is {mode} now", now)
    if recommendation.expires_at <= now:
        why = f"approved by {command.approved_by}, but it could not begin by {clock_text(recommendation.expires_at)}"
        return _to(command, CommandState.EXPIRED, why, now)
    if pause is not None:
        return Next(command=command, rule="paused", why=f"{command.name} waits: {pause}")
    if not plan.is_whole:
        return Next(command=command, rule="snapshot", why=f"{command.name} waits: the cluster cannot be judged now.")
    return _compare(command, plan, now)


def _compare(command: Command, plan: Plan, now: datetime) -> Next:
    fresh = _fresh(command, plan)
    if fresh is None:
        refusal = refusal_of(command.recommendation.purpose, plan)
        if refusal is not None and refusal.rule in PASSING_RULES:
            return Next(command=command, rule=refusal.rule, why=f"{command.name} waits: {refusal.sentence}")
        return _to(command, CommandState.ABANDONED, why_gone(refusal), now)
    if fresh.fingerprint != command.approved_fingerprint:
        changed = replace(command, recommendation=fresh)
        return _back(changed, "the cluster has changed: other steps than those approved. Approve anew.", now)
    until = _wait_until(command, fresh, now)
    if until is not None and not closes_a_node(fresh):
        why = f"{command.name} waits for a checkpoint until {clock_text(until)}."
        return Next(command=command, rule="checkpoint", why=why)
    kept = replace(fresh, created_at=command.recommendation.created_at, expires_at=command.recommendation.expires_at)
    return Next(command=command, fresh=kept)


def _wait_until(command: Command, fresh: Recommendation, now: datetime) -> datetime | None:
    """The moment to wait for, by the fresh look, bounded by what was approved; None = now."""
    approved = command.recommendation.not_before
    if approved is None or fresh.not_before is None:
        return None
    until = min(fresh.not_before, approved + CHECKPOINT_PATIENCE)
    return until if until > now else None


def closes_a_node(recommendation: Recommendation) -> bool:
    """Whether it takes a node out: then it begins at once, so that nobody new lands there, and waits with its room."""
    return any(write.verb is Verb.CORDON and write.lasts for write in recommendation.writes)


def why_not_stop_yet(command: Command, snapshot: ClusterSnapshot, now: datetime) -> str | None:
    """Why what runs is not stopped yet: its next checkpoint is still to come; None = now.

    A checkpoint that was written since its room is kept ends the wait, whatever had been expected.
    """
    until = command.recommendation.not_before
    if until is None or until <= now or command.is_dry:
        return None
    moved = [snapshot.workload_by_id.get(move.workload or "") for move in command.recommendation.moves if move.before]
    saved = [one.checkpoint.last_at for one in moved if one is not None]
    if saved and all(at is not None and at > command.changed_at for at in saved):
        return None
    return f"{command.name} keeps its room and waits for a checkpoint until {clock_text(until)}."


def refusal_of(purpose: str, plan: Plan) -> Refusal | None:
    """The plan's own no to a purpose."""
    return next((refusal for refusal in plan.refusals if refusal.purpose == purpose), None)


def why_gone(refusal: Refusal | None) -> str:
    """Why what was proposed is proposed no longer."""
    return refusal.sentence if refusal is not None else "no longer needed: the plan does not ask for it any more"


def _fresh(command: Command, plan: Plan) -> Recommendation | None:
    purpose = command.recommendation.purpose
    return next((one for one in plan.recommendations if one.purpose == purpose), None)


def _to(command: Command, state: CommandState, why: str, now: datetime) -> Next:
    return Next(command=replace(command, state=state, changed_at=now, reason=why), why=why)


def _back(command: Command, why: str, now: datetime) -> Next:
    return Next(command=withdrawn(command, why, now), why=why)
