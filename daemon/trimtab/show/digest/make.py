"""Reads what a digest counts and puts it together; the memory is whatever has these methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from typing import Protocol

from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.command import Command, Outcome
from trimtab.model.digest import DayHours, Digest, LeftOut, LeftOutKind
from trimtab.model.oncall import Incident
from trimtab.model.past import GpuTimes
from trimtab.model.window import NodeEvent, Window
from trimtab.show.digest.count import (
    cause_hours,
    energy_kwh,
    gpu_hours,
    incident_summary,
    is_counted,
    prospects,
    queue_hours,
    real,
    rule_gains,
)
from trimtab.show.digest.dossier import Known, offenders

INCIDENTS_MAX = 10_000
EVENTS_MAX = 100_000
FINDINGS_MAX = 10_000
DAYS_MAX = 62
"""Longer stretches are counted whole, without a bar for each day."""
GAP_SECONDS = 300.0
"""A stretch that begins so much later than was asked for is said to."""


class Hours(Protocol):
    """GPU-time of the past."""

    def gpu_times(self, since: datetime, until: datetime) -> GpuTimes:
        """By workload, queue, owner, cause and state, between two moments."""
        ...


class Facts(Protocol):
    """What happened, as it is kept."""

    def incidents(
        self, *, is_open: bool | None = None, since: datetime | None = None, limit: int = 1000
    ) -> tuple[Incident, ...]:
        """Incidents that stood at `since` or later, newest first."""
        ...

    def findings(
        self, state: FindingState | None = None, since: datetime | None = None, limit: int = 1000
    ) -> tuple[OpenFinding, ...]:
        """Findings that stood at `since` or later, newest first."""
        ...

    def commands(self, *, live_only: bool, since: datetime | None = None) -> tuple[Command, ...]:
        """Live ones, and those over that changed at `since` or later."""
        ...

    def outcome(self, command_id: int) -> Outcome | None:
        """What came of one command."""
        ...

    def events(self, since: datetime, node: str | None = None, limit: int = 10_000) -> tuple[NodeEvent, ...]:
        """Events at or after `since`, oldest first."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class DigestSource:
    """Where a digest is read from."""

    cluster: str
    hours: Hours
    facts: Facts
    window: Window | None = None
    """The last readings: what devices are, for dossiers."""


def make_digest(source: DigestSource, *, since: datetime, until: datetime, now: datetime, zone: tzinfo) -> Digest:
    """Everything between two moments. `zone` is where days begin at midnight."""
    times = source.hours.gpu_times(since, until)
    incidents = source.facts.incidents(since=since, limit=INCIDENTS_MAX)
    findings = source.facts.findings(since=since, limit=FINDINGS_MAX)
    commands = source.facts.commands(live_only=False, since=since)
    begun = [one for one in incidents if one.opened_at < until]
    return Digest(
        cluster=source.cluster,
        since=since,
        until=until,
        covered_since=times.since,
        covered_until=times.until,
        edge_seconds=times.edge_seconds,
        made_at=now,
        hours=gpu_hours(times.rows),
        queues=queue_hours(times),
        causes=cause_hours(times),
        days=tuple(_days(source.hours, times, zone)),
        energy_kwh=energy_kwh(times),
        incidents=incident_summary(incidents, since, until),
        offenders=offenders(
            begun,
            Known(
                findings=findings,
                events=_events(source.facts, begun, since, until),
                commands=commands,
                window=source.window,
            ),
        ),
        gains=rule_gains(commands, _outcomes(source.facts, commands), since, until),
        prospects=prospects(commands, [one for one in findings if one.state is FindingState.OPEN], times),
        left_out=(*_begins_later(times, since), *_left_out(incidents, findings, commands, times)),
    )


def _events(facts: Facts, incidents: Sequence[Incident], since: datetime, until: datetime) -> list[NodeEvent]:
    nodes = {one.subject.node for one in real(incidents) if one.subject.node}
    found = [event for node in sorted(nodes) for event in facts.events(since, node, EVENTS_MAX)]
    return [event for event in found if event.event.at < until and not event.is_history_only]


def _outcomes(facts: Facts, commands: Sequence[Command]) -> Mapping[int, Outcome]:
    found = {one.id: facts.outcome(one.id) for one in commands if one.state.is_over}
    return {number: outcome for number, outcome in found.items() if outcome is not None}


def _days(hours: Hours, times: GpuTimes, zone: tzinfo) -> Iterator[DayHours]:
    begin = times.since
    if times.until - times.since > timedelta(days=DAYS_MAX):
        return
    while begin < times.until:
        local = begin.astimezone(zone)
        midnight = (local + timedelta(days=1)).replace(hour=0, minute=0, second=0, microsecond=0)
        end = min(midnight.astimezone(begin.tzinfo), times.until)
        yield DayHours(begins_at=begin, hours=gpu_hours(hours.gpu_times(begin, end).rows))
        begin = end


def _begins_later(times: GpuTimes, since: datetime) -> Iterator[LeftOut]:
    if times.rows and (times.since - since).total_seconds() > GAP_SECONDS:
        yield LeftOut(kind=LeftOutKind.BEGINS_LATER, at=times.since)


def _left_out(
    incidents: Sequence[Incident], findings: Sequence[OpenFinding], commands: Sequence[Command], times: GpuTimes
) -> Iterator[LeftOut]:
    """What is not in the figures."""
    counts = {
        LeftOutKind.DRILLS: sum(1 for one in incidents if one.is_drill),
        LeftOutKind.HISTORY_ONLY: sum(1 for one in findings if not is_counted(one)),
        LeftOutKind.DRY_RUNS: sum(1 for one in commands if one.is_dry),
    }
    if not times.rows:
        yield LeftOut(kind=LeftOutKind.NOTHING_KEPT)
    yield from (LeftOut(kind=kind, count=count) for kind, count in counts.items() if count)
