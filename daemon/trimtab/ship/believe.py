"""What to make of a node's clock: is a report old, or is its clock wrong? Pure; the receiver asks once a report."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from trimtab.clock import iso
from trimtab.model.reading import Delivery, Event, Report

SKEW_MAX = timedelta(minutes=5)
"""A clock off by more is not believed: windows use our receipt time."""
FRESH_MAX = timedelta(minutes=10)
"""An older report enters the history but pages nobody."""
EARLIEST = datetime(2020, 1, 1, tzinfo=UTC)
"""No report is older than this software: an earlier stamp is a clock that was never set."""
AHEAD_MAX = timedelta(days=1)
STAMPED_AT = "stamped_at"
"""Key in an event's details that keeps the node's own stamp where it was not believed."""
_HEADER_CHARS_MAX = 40


def read_moment(text: str) -> datetime | None:
    """The moment of a header; None when it is missing or no moment with its zone."""
    if not text or len(text) > _HEADER_CHARS_MAX:
        return None
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC) if moment.tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


def deliver(report: Report, *, received_at: datetime, sent_at: datetime | None, body_bytes: int = 0) -> Delivery:
    """The report as the daemon holds it. `sent_at` is the sender's clock at the moment of sending.

    Skew is receipt less sending, age is sending less sampling: a backlog after an outage is old, not wrong.
    Without `sent_at` only a stamp ahead of ours shows a wrong clock; one behind is taken for an old report.
    """
    is_set = _is_set(report.sampled_at, received_at)
    is_ahead = report.sampled_at > received_at + SKEW_MAX
    is_skewed = sent_at is not None and abs(received_at - sent_at) > SKEW_MAX
    is_believed = is_set and not is_ahead and not is_skewed
    at = report.sampled_at if is_believed else received_at
    offset = timedelta(0) if is_believed else received_at - (sent_at or report.sampled_at)
    return Delivery(
        report=_with_moved_events(report, offset, at, received_at),
        received_at=received_at,
        sent_at=sent_at,
        body_bytes=body_bytes,
        is_replay=_is_replay(report, received_at, sent_at, is_set=is_set),
        is_clock_believed=is_believed,
    )


def _is_set(moment: datetime, received_at: datetime) -> bool:
    return EARLIEST <= moment <= received_at + AHEAD_MAX


def _is_replay(report: Report, received_at: datetime, sent_at: datetime | None, *, is_set: bool) -> bool:
    if sent_at is not None:
        # Negative beyond the bound: the clock was set back since; how old the report is, nobody knows. Page nobody.
        return abs(sent_at - report.sampled_at) > FRESH_MAX
    return is_set and received_at - report.sampled_at > FRESH_MAX


def _with_moved_events(report: Report, offset: timedelta, at: datetime, received_at: datetime) -> Report:
    if not report.events:
        return report
    moved = tuple([_moved(event, offset, at, received_at) for event in report.events])
    is_same = all(after is before for after, before in zip(moved, report.events, strict=True))
    return report if is_same else replace(report, events=moved)


def _moved(event: Event, offset: timedelta, at: datetime, received_at: datetime) -> Event:
    try:
        moment = event.at + offset
    except OverflowError:
        moment = at
    if not _is_set(moment, received_at) or moment > received_at + SKEW_MAX:
        moment = at
    if moment == event.at:
        return event
    return replace(event, at=moment, details={**event.details, STAMPED_AT: iso(event.at)})
