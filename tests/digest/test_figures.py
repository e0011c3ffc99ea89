"""The digest's figures equal an independent count over the same raw samples; devices that come back have a dossier."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, timedelta, timezone

import pytest
from tests.alertmanager.scenes import an_incident
from tests.builders import CLUSTER, a_finding, a_reading, a_window, an_xid, gpu_uuid
from tests.fakes.clock import START
from tests.fakes.people import a_command
from tests.store.test_rollup import JOBS, Hall, live_through

from trimtab.clock import unix_ms
from trimtab.model.advice import Action, Subject
from trimtab.model.command import CommandState, Outcome
from trimtab.model.digest import GpuHours, LeftOutKind, ProspectKind
from trimtab.model.past import GpuTime, GpuTimes, GpuTimeState
from trimtab.model.reading import EventSource
from trimtab.model.window import NodeEvent
from trimtab.show.digest.count import incident_summary, prospects, rule_gains
from trimtab.show.digest.dossier import EVENTS_MAX, Known, offenders
from trimtab.show.digest.make import DigestSource, make_digest
from trimtab.store.database import Database
from trimtab.store.history import History
from trimtab.store.past import Past

QUEUE = {job.id: job.queue for job in JOBS}
HOUR_MS = 3_600_000


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_gpu_hours_equal_a_count_of_the_raw_samples(database: Database, seed: int) -> None:
    """Over an hour's edge: late reports, doubled ones, silence, lost GPUs, restarts, jobs that come and go."""
    hall = Hall(database)
    minutes = 63
    live_through(hall, seed, minutes=minutes)
    until = START + timedelta(minutes=minutes)
    source = a_source(database)

    digest = make_digest(source, since=START, until=until, now=hall.clock.now(), zone=UTC)

    counted: Counter[str] = Counter()
    by_queue: dict[str, Counter[str]] = {}
    for (_, _, workload), row in hall.oracle().rows(unix_ms(START), unix_ms(until)).items():
        counted.update(row.state_ms)
        if workload:
            by_queue.setdefault(QUEUE[workload] or "", Counter()).update(row.state_ms)
    assert milliseconds(digest.hours) == {state.value: counted[state.value] for state in GpuTimeState}
    told = {
        one.queue: {state.value: round(hours * HOUR_MS) for state, hours in one.hours.by_state.items()}
        for one in digest.queues
    }
    assert told == {queue: {state.value: of[state.value] for state in GpuTimeState} for queue, of in by_queue.items()}
    assert sum(day.hours.total for day in digest.days) == pytest.approx(digest.hours.total)
    assert counted["unknown"] > 0, "what was not seen is a figure of its own"
    assert (digest.covered_since, digest.covered_until, digest.left_out) == (START, until, ())


def a_source(database: Database) -> DigestSource:
    history = History(database, cluster=CLUSTER)
    return DigestSource(cluster=CLUSTER, hours=Past(database, history), facts=history)


def milliseconds(hours: GpuHours) -> dict[str, int]:
    return {state.value: round(of * HOUR_MS) for state, of in hours.by_state.items()}


def test_days_are_those_of_the_zone_and_add_up(database: Database) -> None:
    hall = Hall(database)
    live_through(hall, 3, minutes=20)
    # Midnight of this zone falls into the middle of what was lived through.
    zone = timezone(timedelta(hours=15) - timedelta(minutes=8))
    source = a_source(database)
    digest = make_digest(source, since=START, until=START + timedelta(minutes=20), now=hall.clock.now(), zone=zone)
    assert [one.begins_at for one in digest.days] == [START, START + timedelta(minutes=8)]
    assert sum(one.hours.total for one in digest.days) == pytest.approx(digest.hours.total)


def test_what_was_not_kept_is_said_and_is_not_zero(database: Database) -> None:
    hall = Hall(database)
    live_through(hall, 1, minutes=6)
    source = a_source(database)
    begin = START - timedelta(days=7)
    later = make_digest(source, since=begin, until=START + timedelta(minutes=6), now=hall.clock.now(), zone=UTC)
    assert [(one.kind, one.at) for one in later.left_out] == [(LeftOutKind.BEGINS_LATER, START)]
    nothing = make_digest(source, since=begin, until=begin + timedelta(hours=1), now=hall.clock.now(), zone=UTC)
    assert [one.kind for one in nothing.left_out] == [LeftOutKind.NOTHING_KEPT]
    assert nothing.hours.goodput_ratio is None


# --- incidents


def an_xid_incident(number: int, *, minutes: int, lasts: int | None = 10, node: str = "gpu-07", **changes: object):
    at = START + timedelta(minutes=minutes)
    given = {
        "id": f"i{number}",
        "finding": number,
        "subject": Subject(cluster=CLUSTER, node=node, gpu=gpu_uuid(node, 3)),
        "opened_at": at,
        "paged_at": at + timedelta(seconds=6),
        "closed_at": None if lasts is None else at + timedelta(minutes=lasts),
        "action": Action.HARDWARE_RMA,
    }
    return an_incident(number, **{**given, **changes})


def test_incidents_are_counted_once_and_drills_not_at_all() -> None:
    until = START + timedelta(hours=5)
    found = [
        an_xid_incident(1, minutes=-30, lasts=40),
        an_xid_incident(2, minutes=60, lasts=20, acknowledged_at=START + timedelta(minutes=61)),
        an_xid_incident(3, minutes=200, lasts=None),
        an_xid_incident(4, minutes=210, is_drill=True),
        an_xid_incident(5, minutes=400),
        an_xid_incident(6, minutes=-90, lasts=10),
        an_xid_incident(7, minutes=70, finding=None),
    ]
    summary = incident_summary(found, START, until)
    assert (summary.opened, summary.closed, summary.still_open) == (2, 2, 1)
    assert (summary.to_page_seconds, summary.to_acknowledge_seconds, summary.to_mend_seconds) == (6.0, 54.0, 1800.0)
    assert summary.longest_seconds == 100 * 60


def test_a_second_incident_makes_a_dossier_with_the_devices_own_lines() -> None:
    node, uuid = "gpu-07", gpu_uuid("gpu-07", 3)
    event = NodeEvent(cluster=CLUSTER, node=node, event=an_xid(79, node=node))
    others = [
        replace(event, node="gpu-08"),
        replace(event, event=replace(event.event, gpu=gpu_uuid(node, 4), pci=None)),
        replace(event, event=replace(event.event, source=EventSource.USERSPACE)),
    ]
    many = [replace(event, event=replace(event.event, at=START + timedelta(seconds=n))) for n in range(EVENTS_MAX + 3)]
    finding = a_finding(id=1, node=node, gpu=3, action=Action.HARDWARE_RMA)
    drain = a_command(5, state=CommandState.SETTLED)
    tried = replace(drain, recommendation=replace(drain.recommendation, subject=Subject(cluster=CLUSTER, node=node)))
    known = Known(findings=[finding], events=[*others, *many], commands=[tried])

    incidents = [
        an_xid_incident(1, minutes=0),
        an_xid_incident(2, minutes=60),
        an_xid_incident(3, minutes=5, node="gpu-09"),
    ]
    [dossier] = offenders(incidents, known)

    assert (dossier.node, dossier.gpu, dossier.incidents) == (node, uuid, 2)
    assert (len(dossier.events), dossier.events_left_out) == (EVENTS_MAX, 3)
    assert {one.code for one in dossier.events} == {79}
    assert dossier.worst_action is Action.HARDWARE_RMA
    assert len(dossier.tried) == 1


def test_a_dossier_knows_the_device_where_it_was_read_last() -> None:
    node = "gpu-07"
    reading = a_reading(node, 3, values={"remapped_rows/uncorrectable": 2.0, "power_watts": 300.0})
    window = a_window({node: [reading]})
    incidents = [an_xid_incident(1, minutes=0), an_xid_incident(2, minutes=60)]
    [dossier] = offenders(incidents, Known(window=window))
    assert dossier.health == {"remapped_rows/uncorrectable": 2.0}
    assert dossier.pci == (reading.info.pci or "")


# --- gains and prospects


def an_outcome(command_id: int, *, saved: float, lost: float, forecast: float | None) -> Outcome:
    return Outcome(
        command_id=command_id,
        measured_at=START,
        is_good=saved > lost,
        sentence="",
        gpu_hours_lost=lost,
        gpu_hours_saved=saved,
        gpus_unlocked=8,
        seconds_to_settle=10.0,
        gpu_hours_saved_forecast=forecast,
        gpu_hours_lost_forecast=forecast,
    )


def test_gains_are_those_of_commands_that_ended_within_the_stretch() -> None:
    def ended(number: int, state: CommandState, *, minutes: int = 5, is_dry: bool = False):
        return replace(a_command(number, state=state), changed_at=START + timedelta(minutes=minutes), is_dry=is_dry)

    commands = [
        ended(1, CommandState.SETTLED),
        ended(2, CommandState.SETTLED),
        ended(3, CommandState.MISSED),
        ended(4, CommandState.SETTLED, minutes=-5),
        ended(5, CommandState.SETTLED, is_dry=True),
        ended(6, CommandState.PROPOSED),
    ]
    outcomes = {
        1: an_outcome(1, saved=8.0, lost=0.5, forecast=7.0),
        2: an_outcome(2, saved=1.0, lost=2.0, forecast=None),
        4: an_outcome(4, saved=99.0, lost=0.0, forecast=99.0),
        5: an_outcome(5, saved=99.0, lost=0.0, forecast=99.0),
    }
    [gain] = rule_gains(commands, outcomes, START, START + timedelta(hours=1))
    assert (gain.settled, gain.missed, gain.good) == (2, 1, 1)
    assert (gain.gained, gain.cost, gain.gained_forecast, gain.cost_forecast) == (9.0, 2.5, 7.0, 7.0)


def test_what_would_pay_is_counted_once_and_for_a_week() -> None:
    times = GpuTimes(
        cluster=CLUSTER,
        since=START,
        until=START + timedelta(days=1),
        rows=(
            GpuTime(workload="a/b", queue="research", owner="", cause="", seconds={GpuTimeState.HELD_IDLE: 7200.0}),
            GpuTime(workload="", queue="", owner="", cause="", seconds={GpuTimeState.STRANDED: 36_000.0}),
        ),
    )
    open_finding = a_finding(id=9, node="gpu-07", gpu=3)
    costly = replace(open_finding, finding=replace(open_finding.finding, loss_gpus=8.0))
    answered = replace(costly, id=31)
    history = replace(costly, id=32, finding=replace(costly.finding, is_history_only=True))
    advice = a_command(11, state=CommandState.PROPOSED)
    advice = replace(advice, recommendation=replace(advice.recommendation, findings=(31,)))

    found = prospects([advice], [costly, answered, history], times)

    assert [(one.kind, one.name) for one in found if one.kind is ProspectKind.FINDING] == [(ProspectKind.FINDING, "F9")]
    hours = {one.kind: one.gpu_hours for one in found}
    assert hours[ProspectKind.FINDING] == pytest.approx(8 * 168)
    assert hours[ProspectKind.IDLE_QUEUE] == pytest.approx(14.0)
    assert hours[ProspectKind.STRANDED] == pytest.approx(70.0)
