"""What the API does with the past: a board of then, trends, a job's ranks, charts."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from trimtab.clock import iso
from trimtab.model.advice import FindingState
from trimtab.model.board import Board, CellState, GpuHistory
from trimtab.model.past import Kept, PastFleet, Ranks, Trends
from trimtab.show.api_handlers import METRICS_MAX
from trimtab.show.api_handlers import board as board_now
from trimtab.show.api_routes import ApiError, Call, People
from trimtab.show.api_types_history import PastMemory
from trimtab.show.board import findings_shown, strip_of
from trimtab.show.rows import RowInput, command_rows

AHEAD = timedelta(seconds=60)
"""Browsers' clocks may run so far ahead of ours."""
ALSO_MAX = 16


def board(people: People, call: Call) -> Board:
    """The board of the last beat, or of a moment that is over."""
    if not call.query.at:
        return board_now(people, call)
    at = moment(call.query.at, key="at")
    if at > call.now + AHEAD:
        raise ApiError(422, f"at: {iso(at)} has not come yet; here it is {iso(call.now)}.")
    past = memory(people)
    fleet = past.fleet_at(min(at, call.now))
    if fleet is None:
        raise ApiError(404, _why_nothing(at, past.kept()))
    return past_board(people, fleet)


def past_board(people: People, fleet: PastFleet) -> Board:
    """A board put together from what was kept; nothing on it can be decided."""
    latest = people.box.latest()
    open_findings = tuple(one for one in fleet.findings if one.state is FindingState.OPEN)
    reporting = sum(1 for node in fleet.nodes for cell in node.cells if cell.state is not CellState.SILENT)
    strip = strip_of(fleet.nodes, open_findings, fleet.stranded, gpus_reporting=reporting)
    if fleet.goodput_ratio is not None:  # what was said then, not reckoned anew from means and later findings
        strip = replace(strip, goodput_ratio=fleet.goodput_ratio)
    mode = fleet.mode or (latest.board.mode if latest is not None else None)
    if mode is None:
        raise ApiError(503, "The daemon has just started and has not judged yet. Try again in a few seconds.")
    rows = command_rows(
        RowInput(
            at=fleet.at,
            snapshot=None,
            commands=fleet.commands,
            outcomes=fleet.outcomes,
            records={},
            refusals=(),
            mode=mode,
            rule_modes=people.rule_modes,
            notice_seconds=people.notice_seconds,
        )
    )
    silent = sum(1 for node in fleet.nodes if node.is_silent)
    return Board(
        cluster=people.cluster,
        at=fleet.at,
        mode=mode,
        is_paused=fleet.is_paused,
        strip=strip,
        nodes=fleet.nodes,
        jobs=fleet.jobs,
        queues=fleet.queues,
        findings=findings_shown(fleet.findings, fleet.at),
        commands=tuple(replace(row, is_approvable=False) for row in rows),
        pauses=fleet.pauses,
        notes=fleet.notes,
        blind=(f"No report from {silent} of {len(fleet.nodes)} nodes then.",) if silent else (),
        last_finding_at=max((one.opened_at for one in fleet.findings), default=None),
        version=latest.board.version if latest is not None else "",
        is_past=True,
        bucket_seconds=fleet.bucket_seconds,
    )


def trends(people: People, call: Call) -> Trends:
    """The strip's numbers over time, and what happened meanwhile."""
    query = call.query
    since, until = span(call, query.since, query.until, query.since_seconds)
    return memory(people).trends(since, until, points_max=query.points, marks_max=query.marks, queue=query.queue)


def ranks(people: People, call: Call) -> Ranks:
    """A job's ranks over time."""
    query = call.query
    since, until = span(call, query.since, query.until, query.since_seconds)
    found = memory(people).ranks(call.name, query.metric, since=since, until=until, points_max=query.points)
    if found is None:
        raise ApiError(404, f"No job {call.name!r} has held a GPU since roll-ups are kept.")
    return found


def history(people: People, call: Call) -> GpuHistory:
    """One GPU's series, of others beside it, and a band of its peers."""
    query = call.query
    metrics = tuple(name for name in query.metric.split(",") if name)
    if not 0 < len(metrics) <= METRICS_MAX:
        raise ApiError(422, f"Give 1 to {METRICS_MAX} metrics, with commas between them; {len(metrics)} were given.")
    since, until = span(call, query.since, query.until, query.since_seconds)
    also = _places(query.also)
    if people.past is None:
        return people.memory.gpu_history(
            people.cluster, query.node, query.gpu, since=since, until=until, metrics=metrics
        )
    return people.past.gpu_history(
        query.node, query.gpu, since=since, until=until, metrics=metrics, also=also, peers=query.peers
    )


def memory(people: People) -> PastMemory:
    """What reads the past; ApiError where this daemon was put together without."""
    if people.past is None:
        raise ApiError(404, "This daemon keeps no roll-ups, so it has no past to show. Set rollup.is_on = true.")
    return people.past


def span(call: Call, since: str, until: str, since_seconds: float) -> tuple[datetime, datetime]:
    """The stretch of a query: two moments, or so long back from the second (else from now)."""
    end = min(moment(until, key="until"), call.now) if until else call.now
    begin = moment(since, key="since") if since else end - timedelta(seconds=since_seconds)
    if begin >= end:
        raise ApiError(422, f"since: {iso(begin)} is not before {iso(end)}.")
    if end - begin > timedelta(days=3660):
        raise ApiError(422, f"since: {iso(begin)} is more than ten years before {iso(end)}.")
    return begin, end


def moment(text: str, *, key: str) -> datetime:
    """An ISO moment with its zone. Raises ApiError 422 with how to write one."""
    fix = f"{key}: {text[:40]!r} is no moment. Write it as 2026-11-30T14:00:00Z."
    try:
        found = datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ApiError(422, f"{key}: {text[:40]!r} has no time zone. Write it as 2026-11-30T14:00:00Z.")
        if not 0.0 <= found.timestamp() < 2.0**33:
            raise ApiError(422, fix)
    except (ValueError, OverflowError) as error:
        raise ApiError(422, fix) from error
    return found


def _why_nothing(at: datetime, kept: Kept) -> str:
    if kept.since is None or kept.until is None:
        return f"Nothing was kept of {iso(at)}: no minute has been rolled up yet. The first is there after two minutes."
    if kept.since <= at <= kept.until:
        return f"Nothing was kept of {iso(at)}: no daemon was running then. There is something before and after."
    return f"Nothing was kept of {iso(at)}: roll-ups reach from {iso(kept.since)} to {iso(kept.until)}."


def _places(text: str) -> tuple[tuple[str, str], ...]:
    found = [one.partition("/") for one in text.split(",") if one]
    if len(found) > ALSO_MAX:
        raise ApiError(422, f"also: {len(found)} GPUs were given, {ALSO_MAX} are shown at most.")
    if any(not node or not gpu for node, _, gpu in found):
        raise ApiError(422, "also: write each GPU as node/uuid, with commas between them.")
    return tuple((node, gpu) for node, _, gpu in found)
