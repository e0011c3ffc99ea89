"""Counts a digest out of plain values: GPU-hours, incidents, what moves gave. Pure; nothing here reads anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from statistics import median

from trimtab.model.advice import OpenFinding
from trimtab.model.command import Command, CommandState, Outcome
from trimtab.model.digest import (
    CauseHours,
    GpuHours,
    IncidentSummary,
    Prospect,
    ProspectKind,
    QueueHours,
    RuleGain,
)
from trimtab.model.oncall import Incident
from trimtab.model.past import GpuTime, GpuTimes, GpuTimeState

HOUR_SECONDS = 3600.0
PROSPECTS_MAX = 8
PROSPECT_HOURS_MIN = 1.0
"""Less than a GPU-hour a week is nobody's next task."""
WEEK_SECONDS = 7 * 86400.0
DAY_HOURS = 24.0

_COUNTED: Mapping[CommandState, str] = {
    CommandState.SETTLED: "settled",
    CommandState.MISSED: "missed",
    CommandState.UNDONE: "undone",
    CommandState.REFUSED: "refused",
    CommandState.EXPIRED: "expired",
}


def gpu_hours(rows: Iterable[GpuTime]) -> GpuHours:
    """The sum of rows."""
    by_state = dict.fromkeys(GpuTimeState, 0.0)
    lost = 0.0
    for row in rows:
        lost += row.lost_seconds
        for state, seconds in row.seconds.items():
            by_state[state] += seconds
    return GpuHours(
        by_state={state: seconds / HOUR_SECONDS for state, seconds in by_state.items()}, lost=lost / HOUR_SECONDS
    )


def queue_hours(times: GpuTimes) -> tuple[QueueHours, ...]:
    """By queue, those that held most first; time that nobody held is in no queue."""
    rows: dict[str, list[GpuTime]] = {}
    for row in times.rows:
        if row.workload:
            rows.setdefault(row.queue, []).append(row)
    found = [QueueHours(queue=queue, hours=gpu_hours(of)) for queue, of in rows.items()]
    return tuple(sorted(found, key=lambda one: (-one.hours.total, one.queue)))


def cause_hours(times: GpuTimes) -> tuple[CauseHours, ...]:
    """By kind of finding, those that took most first."""
    rows: dict[str, list[GpuTime]] = {}
    for row in times.rows:
        if row.cause:
            rows.setdefault(row.cause, []).append(row)
    found = []
    for cause, of in rows.items():
        hours = gpu_hours(of)
        out, idle = hours.of(GpuTimeState.OUT_OF_SERVICE), hours.of(GpuTimeState.HELD_IDLE)
        found.append(CauseHours(cause=cause, out_of_service=out, held_idle=idle, lost=hours.lost))
    return tuple(sorted((one for one in found if one.total > 0), key=lambda one: (-one.total, one.cause)))


def energy_kwh(times: GpuTimes) -> float:
    """What the GPUs drew, over the time in which their power was heard."""
    return sum(row.energy_joules for row in times.rows) / 3.6e6


def incident_summary(incidents: Iterable[Incident], since: datetime, until: datetime) -> IncidentSummary:
    """Incidents that stood within the stretch; drills are left out, and so are summaries of several."""
    stood = [one for one in real(incidents) if one.opened_at < until and (one.closed_at or until) >= since]
    opened = [one for one in stood if one.opened_at >= since]
    closed = [one for one in stood if one.closed_at is not None and one.closed_at < until]
    longest = max(stood, key=lambda one: _seconds(one, until), default=None)
    return IncidentSummary(
        opened=len(opened),
        closed=len(closed),
        still_open=len(stood) - len(closed),
        by_severity=Counter(one.worst for one in opened),
        by_rule=dict(sorted(Counter(one.rule for one in opened).items())),
        paged=sum(1 for one in opened if one.paged_at is not None),
        acknowledged=sum(1 for one in opened if one.acknowledged_at is not None),
        to_page_seconds=_median((one.opened_at, one.paged_at) for one in opened),
        to_acknowledge_seconds=_median((one.paged_at, one.acknowledged_at) for one in opened),
        to_mend_seconds=_median((one.opened_at, one.closed_at) for one in closed),
        longest=longest.first_line or longest.title if longest is not None else "",
        longest_seconds=_seconds(longest, until) if longest is not None else 0.0,
    )


def real(incidents: Iterable[Incident]) -> list[Incident]:
    """Those about something that happened: no drill, and no message that sums up others."""
    return [one for one in incidents if not one.is_drill and one.finding is not None]


def _seconds(incident: Incident, until: datetime) -> float:
    return (min(incident.closed_at or until, until) - incident.opened_at).total_seconds()


def _median(spans: Iterable[tuple[datetime | None, datetime | None]]) -> float | None:
    known = [(end - begin).total_seconds() for begin, end in spans if begin is not None and end is not None]
    return float(median(known)) if known else None


def rule_gains(
    commands: Iterable[Command], outcomes: Mapping[int, Outcome], since: datetime, until: datetime
) -> tuple[RuleGain, ...]:
    """What commands that ended within the stretch did, by rule; dry runs did nothing and are left out."""
    by_rule: dict[str, list[Command]] = {}
    for command in commands:
        if not command.is_dry and command.state.is_over and since <= command.changed_at < until:
            by_rule.setdefault(command.recommendation.rule, []).append(command)
    return tuple(_rule_gain(rule, of, outcomes) for rule, of in sorted(by_rule.items()))


def _rule_gain(rule: str, commands: Sequence[Command], outcomes: Mapping[int, Outcome]) -> RuleGain:
    measured = [outcomes[one.id] for one in commands if one.id in outcomes]
    counts = Counter(_COUNTED.get(one.state) for one in commands)
    return RuleGain(
        rule=rule,
        settled=counts["settled"],
        missed=counts["missed"],
        undone=counts["undone"],
        refused=counts["refused"],
        expired=counts["expired"],
        good=sum(1 for one in measured if one.is_good),
        gained=sum(one.gpu_hours_saved for one in measured),
        gained_forecast=_sum(one.gpu_hours_saved_forecast for one in measured),
        cost=sum(one.gpu_hours_lost for one in measured),
        cost_forecast=_sum(one.gpu_hours_lost_forecast for one in measured),
        gpus_unlocked=sum(one.gpus_unlocked for one in measured),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def prospects(commands: Iterable[Command], findings: Iterable[OpenFinding], times: GpuTimes) -> tuple[Prospect, ...]:
    """What would pay most in the week to come, if it goes on as it was; what an open recommendation answers is in it
    alone, not once more as a finding.
    """
    advice = [one for one in commands if one.state in (CommandState.PROPOSED, CommandState.APPROVED)]
    answered = {finding for one in advice for finding in one.recommendation.findings}
    found = [
        *(_of_command(one) for one in advice),
        *(_of_finding(one) for one in findings if one.id not in answered and is_counted(one)),
        *_of_time(times),
    ]
    worth = [one for one in found if one.gpu_hours >= PROSPECT_HOURS_MIN]
    return tuple(sorted(worth, key=lambda one: (-one.gpu_hours, one.subject))[:PROSPECTS_MAX])


def is_counted(finding: OpenFinding) -> bool:
    """Whether it stands for something that happened while we watched."""
    return not finding.finding.is_history_only


def _of_command(command: Command) -> Prospect:
    gain = command.recommendation.gain
    per_hour = gain.gpu_hours / gain.horizon_hours if gain.horizon_hours > 0 else 0.0
    # A gain that ends within its horizon (a job that waits a few hours) does not come again by itself.
    week = per_hour * WEEK_SECONDS / HOUR_SECONDS if gain.horizon_hours >= DAY_HOURS else gain.gpu_hours
    return Prospect(
        kind=ProspectKind.RECOMMENDATION,
        subject=command.recommendation.sentence,
        gpu_hours=week,
        name=command.name,
    )


def _of_finding(finding: OpenFinding) -> Prospect:
    week = finding.finding.loss_gpus * WEEK_SECONDS / HOUR_SECONDS
    return Prospect(kind=ProspectKind.FINDING, subject=finding.finding.sentence, gpu_hours=week, name=finding.name)


def _of_time(times: GpuTimes) -> Iterable[Prospect]:
    span_seconds = (times.until - times.since).total_seconds()
    if span_seconds <= 0:
        return
    scale = WEEK_SECONDS / span_seconds
    for one in queue_hours(times):
        idle = one.hours.of(GpuTimeState.HELD_IDLE)
        yield Prospect(kind=ProspectKind.IDLE_QUEUE, subject=one.queue, gpu_hours=idle * scale)
    stranded = gpu_hours(times.rows).of(GpuTimeState.STRANDED)
    yield Prospect(kind=ProspectKind.STRANDED, subject=times.cluster, gpu_hours=stranded * scale)
