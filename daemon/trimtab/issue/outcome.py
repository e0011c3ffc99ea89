"""What came of a command, measured against its forecast, and the record of each rule. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from trimtab.issue.look import is_as_planned
from trimtab.model.cluster import ClusterSnapshot, WorkloadState
from trimtab.model.command import Command, CommandState, Move, Outcome


def measure(command: Command, snapshot: ClusterSnapshot, *, state: CommandState, now: datetime) -> Outcome:
    """The outcome of a command that settles, or ends in another `state`, now.

    Lost: the work that the stop threw away plus the GPUs that stood still until now. Saved: the gain that is left of
    its horizon, less what was lost; against doing nothing.
    """
    recommendation = command.recommendation
    since = command.submitted_at or now
    seconds = max(((command.settled_at or now) - since).total_seconds(), 0.0)
    lost = _gpu_hours_lost(command, snapshot, seconds) if command.submitted_at else 0.0
    has_settled = state is CommandState.SETTLED
    astray = _astray(recommendation.moves, snapshot) if has_settled else ()
    saved = _gpu_hours_left(command, now) - lost if has_settled else -lost
    unlocked = recommendation.gain.gpus_unlocked if has_settled else 0
    return Outcome(
        command_id=command.id,
        measured_at=now,
        is_good=has_settled and not astray and (saved > 0 or not recommendation.moves),
        sentence=_sentence(command, astray, state=state, lost=lost, seconds=seconds),
        gpu_hours_lost=lost,
        gpu_hours_saved=saved,
        gpus_unlocked=unlocked,
        seconds_to_settle=seconds,
    )


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


def _astray(moves: Sequence[Move], snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """Workloads that run, but not on the seats of the plan."""
    found = []
    for move in moves:
        workload = snapshot.workload_by_id.get(move.workload or "")
        if workload is None or workload.state is WorkloadState.FINISHED:
            continue
        if not is_as_planned(move, workload):
            found.append(workload.name)
    return tuple(found)


def _sentence(command: Command, astray: Sequence[str], *, state: CommandState, lost: float, seconds: float) -> str:
    cost = command.recommendation.cost
    if state is not CommandState.SETTLED:
        return f"{state} after {seconds:.0f} s; {lost:.2f} GPU-h lost, nothing gained."
    if not command.recommendation.moves:
        return f"settled after {seconds:.0f} s; nothing was stopped."
    where = f"; {', '.join(astray)} runs elsewhere than planned" if astray else ""
    return f"settled after {seconds:.0f} s; {lost:.2f} GPU-h lost, forecast {cost.gpu_hours:.2f}{where}."


def record_text(outcomes: Sequence[Outcome]) -> str:
    """A rule's record: `right in 46 of 49, last wrong on 12 Nov`; empty where nothing was measured yet."""
    if not outcomes:
        return ""
    good = sum(1 for outcome in outcomes if outcome.is_good)
    wrong = [outcome.measured_at for outcome in outcomes if not outcome.is_good]
    last = max(wrong).astimezone(UTC) if wrong else None
    return f"right in {good} of {len(outcomes)}" + (f", last wrong on {last.day} {last:%b}" if last else "")
