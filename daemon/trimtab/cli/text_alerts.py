"""How the verbs speak of windows, silences and others' alerts. Pure: values in, lines out."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from trimtab.cli.text import Row, block, paragraph
from trimtab.clock import age_text, iso
from trimtab.model.alerts import AlertState, ForeignAlert, Maintenance, Quiet
from trimtab.show.api_types_alerts import QuietNow


def window_lines(windows: Sequence[Maintenance], at: datetime, columns: int) -> list[str]:
    """Windows, the newest first."""
    rows = [Row(one.title, f"{one.text}  {one.why} ({one.who})", _window_state(one, at)) for one in reversed(windows)]
    return block("window", rows, columns) if rows else ["No maintenance window stands."]


def _window_state(window: Maintenance, at: datetime) -> str:
    if window.ended_at is not None:
        return f"ended {iso(window.ended_at)} by {window.ended_by}"
    if window.is_over(at):
        return f"over since {iso(window.until)}"
    if at < window.starts_at:
        return f"from {iso(window.starts_at)} until {iso(window.until)}"
    silence = ", with a silence" if window.silence_id else ""
    return f"{age_text((window.until - at).total_seconds())} left, until {iso(window.until)}{silence}"


def quiet_lines(now: QuietNow, columns: int) -> list[str]:
    """What keeps people asleep."""
    rows = [
        Row(_name(one), f"{one.about}  {one.why} ({one.who or 'somebody'})", _quiet_state(one)) for one in now.quiet
    ]
    lines = block("quiet", rows, columns) if rows else ["Nothing keeps anybody asleep."]
    return [*lines, *(paragraph(now.trouble, columns) if now.trouble else [])]


def hushed_lines(quiet: Sequence[Quiet], columns: int) -> list[str]:
    """For the start view: what keeps people asleep, and only where it does."""
    rows = [Row(_name(one), f"{one.about}  {one.why}", _quiet_state(one)) for one in quiet if one.findings]
    return block("quiet", rows, columns)


def _name(one: Quiet) -> str:
    return one.name if one.kind == "maintenance" else f"silence {one.name[:8]}"


def _quiet_state(one: Quiet) -> str:
    hushed = f"hushes {', '.join(one.findings)}" if one.findings else "hushes nothing now"
    return f"{hushed}, until {iso(one.until)}"


def alert_lines(alerts: Sequence[ForeignAlert], at: datetime, columns: int) -> list[str]:
    """Other people's alerts."""
    rows = [Row(_place(one), one.text, _alert_state(one, at)) for one in alerts]
    return block("others", rows, columns) if rows else ["Others say nothing."]


def _place(alert: ForeignAlert) -> str:
    place = alert.place
    if place.node is not None:
        return f"{place.node} {place.gpu}" if place.gpu else place.node
    return place.gpu or place.pod or place.workload or "(nothing of ours)"


def _alert_state(alert: ForeignAlert, at: datetime) -> str:
    if alert.state is AlertState.FIRING:
        return age_text((at - alert.starts_at).total_seconds())
    if alert.state is AlertState.AGED:
        return f"not heard of since {iso(alert.heard_at)}"
    return f"over since {iso(alert.ends_at or alert.heard_at)}"
