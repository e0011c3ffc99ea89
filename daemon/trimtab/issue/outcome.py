"""What came of a command, measured against its forecast, and the record of each rule. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from trimtab.issue.arrival import astray, is_at_rest, seats_hit
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, CommandState, Outcome, Recommendation, RecommendationKind


def measure(command: Command, snapshot: ClusterSnapshot, *, state: CommandState, now: datetime) -> Outcome:
    """The outcome of a command that settles, or ends in another `state`, now.

    Lost: the work that the stop threw away plus the GPUs that stood still until now. Saved: the gain forecast for what
    is left of its horizon, less what was lost; only the loss is measured. What missed its seats and still did what it
    was for (the job that room was made for runs) has its gain, and is no success.
    """
    recommendation = command.recommendation
    since = command.submitted_at or now
    seconds = max(((command.settled_at or now) - since).total_seconds(), 0.0)
    lost = _gpu_hours_lost(command, snapshot, seconds) if command.submitted_at else 0.0
    has_settled = state is CommandState.SETTLED
    has_gain = has_settled or (state is CommandState.MISSED and _is_served(command, snapshot))
    elsewhere = tuple(name for move in recommendation.moves if (name := astray(move, snapshot))) if has_settled else ()
    saved = _gpu_hours_left(command, now) - lost if has_gain else -lost
    unlocked = recommendation.gain.gpus_unlocked if has_gain else 0
    is_bound = recommendation.kind is not RecommendationKind.DRAIN
    return Outcome(
        command_id=command.id,
        measured_at=now,
        is_good=has_settled and not (elsewhere and is_bound) and (saved > 0 or not recommendation.moves),
        sentence=_sentence(command, elsewhere, state=state, lost=lost, seconds=seconds, has_gain=has_gain),
        gpu_hours_lost=lost,
        gpu_hours_saved=saved,
        gpus_unlocked=unlocked,
        seconds_to_settle=seconds,
        seconds_forecast=seconds_forecast(recommendation),
        gpu_hours_lost_forecast=recommendation.cost.gpu_hours if recommendation.moves else None,
        gpu_hours_saved_forecast=(
            recommendation.gain.gpu_hours - recommendation.cost.gpu_hours if recommendation.moves else None
        ),
        seats_planned=sum(len(move.after) for move in recommendation.moves),
        seats_hit=sum(seats_hit(move, snapshot) for move in recommendation.moves),
    )


def seconds_forecast(recommendation: Recommendation) -> float | None:
    """How long it was said to take until all of it runs again; None where nothing is stopped or nothing was said."""
    if not recommendation.moves:
        return None
    return recommendation.way_seconds or recommendation.cost.restart_seconds or None


def _is_served(command: Command, snapshot: ClusterSnapshot) -> bool:
    """Whether room was made for something, and it and all that was stopped for it run."""
    moves = command.recommendation.moves
    return any(not move.before for move in moves) and all(is_at_rest(move, command, snapshot) for move in moves)


def _gpu_hours_lost(command: Command, snapshot: ClusterSnapshot, seconds: float) -> float:
    """Forecast of the lost work, taken when it began, with the restart as it really was in place of its forecast."""
    cost = command.recommendation.cost
    restart_forecast = still = 0.0
    for move in command.recommendation.moves:
        if move.before:
            gpus = sum(seat.gpus for seat in move.before)
            workload = snapshot.workload_by_id.get(move.workload or "")
            known = workload.restart_seconds if workload is not None else None
            restart_forecast += gpus * (cost.restart_seconds if known is None else known) / 3600
            still += gpus * seconds / 3600
    return max(cost.gpu_hours - restart_forecast, 0.0) + still


def _gpu_hours_left(command: Command, now: datetime) -> float:
    gain = command.recommendation.gain
    if gain.horizon_hours <= 0:
        return 0.0
    passed_hours = max((now - command.recommendation.created_at).total_seconds(), 0.0) / 3600
    return gain.gpu_hours * max(1 - passed_hours / gain.horizon_hours, 0.0)


def _sentence(
    command: Command, elsewhere: Sequence[str], *, state: CommandState, lost: float, seconds: float, has_gain: bool
) -> str:
    cost = command.recommendation.cost
    if state is not CommandState.SETTLED:
        gained = "what it was for was reached all the same" if has_gain else "nothing gained"
        return f"{state} after {seconds:.0f} s; {lost:.2f} GPU-h lost, {gained}."
    if not command.recommendation.moves:
        return f"settled after {seconds:.0f} s; nothing was stopped."
    where = f"; {', '.join(elsewhere)} runs elsewhere than planned" if elsewhere else ""
    return f"settled after {seconds:.0f} s; {lost:.2f} GPU-h lost, forecast {cost.gpu_hours:.2f}{where}."


def record_text(outcomes: Sequence[Outcome]) -> str:
    """A rule's record and how true its forecasts were; empty where nothing was measured yet.

    `right in 46 of 49, last wrong on 12 Nov; takes 1.4× as long as said, should give 0.9× of what it said`.
    """
    if not outcomes:
        return ""
    good = sum(1 for outcome in outcomes if outcome.is_good)
    wrong = [outcome.measured_at for outcome in outcomes if not outcome.is_good]
    last = max(wrong).astimezone(UTC) if wrong else None
    record = f"right in {good} of {len(outcomes)}" + (f", last wrong on {last.day} {last:%b}" if last else "")
    slower, given = duration_ratio(outcomes), gain_ratio(outcomes)
    said = [f"takes {slower:.1f}× as long as said"] if slower is not None else []
    said += [f"should give {given:.1f}× of what it said"] if given is not None else []
    return "; ".join([record, ", ".join(said)]) if said else record


def duration_ratio(outcomes: Sequence[Outcome]) -> float | None:
    """How long good commands took over how long they were said to; None without a forecast."""
    pairs = [(one.seconds_to_settle, one.seconds_forecast) for one in outcomes if one.is_good and one.seconds_forecast]
    forecast = sum(said for _, said in pairs if said)
    return sum(took for took, _ in pairs) / forecast if forecast > 0 else None


def gain_ratio(outcomes: Sequence[Outcome]) -> float | None:
    """What all commands gave, failures too, over what they were said to; None without a forecast of a gain."""
    pairs = [
        (one.gpu_hours_saved, one.gpu_hours_saved_forecast)
        for one in outcomes
        if one.gpu_hours_saved_forecast is not None
    ]
    forecast = sum(said for _, said in pairs)
    return sum(gave for gave, _ in pairs) / forecast if forecast > 0 else None
