"""Routes about alerts of others, silences and maintenance windows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.errors import DecisionRefused
from trimtab.model.alerts import Maintenance, Quiet
from trimtab.show.alertmanager.desk import Desk
from trimtab.show.alertmanager.others import NotNow, Others, TooMany
from trimtab.show.alertmanager.windows import UnknownWindow, Windows
from trimtab.show.api_routes import ApiError, Call, People
from trimtab.show.api_types import ID_MAX
from trimtab.show.api_types_alerts import Alerts, AlertsHeard, MaintenanceWindows, QuietNow

WEBHOOK_BYTES_MAX = 4 * 1024 * 1024
"""Some 2,000 alerts with all their labels and annotations."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerting:
    """What these routes work on."""

    desk: Desk
    others: Others
    windows: Windows
    quiet: Callable[[datetime], tuple[Quiet, ...]]


def hear(people: People, call: Call) -> AlertsHeard:
    """Take somebody's alerts in; 503 where they cannot be kept, which Alertmanager repeats."""
    try:
        outcomes = _alerting(people).others.hear(call.body, source=call.caller.who)
    except NotNow as error:
        raise ApiError(503, str(error)) from error
    except TooMany as error:
        raise ApiError(413, str(error)) from error
    return AlertsHeard(outcomes=dict(outcomes))


def alerts(people: People, call: Call) -> Alerts:
    """Other people's alerts."""
    others, query = _alerting(people).others, call.query
    if query.state == "firing":
        return Alerts(alerts=others.standing()[: query.limit])
    return Alerts(alerts=others.since(call.now - timedelta(seconds=query.since_seconds), query.limit))


def quiet(people: People, call: Call) -> QuietNow:
    """Silences and windows that hold now, with what they keep from paging."""
    alerting = _alerting(people)
    desk = alerting.desk
    return QuietNow(quiet=alerting.quiet(call.now), silences_read_at=desk.silences_read_at, trouble=desk.trouble)


def maintenance(people: People, call: Call) -> MaintenanceWindows:  # noqa: ARG001 - one shape for all handlers
    """Maintenance windows."""
    desk = _alerting(people).desk
    desk.refresh_windows()
    return MaintenanceWindows(windows=desk.windows)


def add_maintenance(people: People, call: Call) -> Maintenance:
    """A new window."""
    body = call.body
    return _alerting(people).windows.add(
        body.scope,
        body.name,
        until=_end(body.until, body.lasts_seconds, body.starts_at or call.now),
        why=body.reason,
        who=call.caller.who,
        starts_at=body.starts_at,
        wants_silence=body.silence,
    )


def extend_maintenance(people: People, call: Call) -> Maintenance:
    """Another end."""
    windows, body = _alerting(people).windows, call.body
    until = _end(body.until, body.lasts_seconds, call.now)
    return _known(lambda: windows.extend(_id(call), until=until, who=call.caller.who))


def end_maintenance(people: People, call: Call) -> Maintenance:
    """Over, now."""
    windows = _alerting(people).windows
    return _known(lambda: windows.end(_id(call), who=call.caller.who))


def _end(until: datetime | None, lasts_seconds: float | None, begins: datetime) -> datetime:
    if (until is None) == (lasts_seconds is None):
        raise ApiError(422, "Say when it ends: either `until` or `lasts_seconds`.")
    if until is not None:
        return until
    try:
        return begins + timedelta(seconds=lasts_seconds or 0.0)
    except OverflowError as error:
        raise ApiError(422, "There is no such moment: starts_at is too late.") from error


def _known(act: Callable[[], Maintenance]) -> Maintenance:
    try:
        return act()
    except UnknownWindow as error:
        raise ApiError(404, str(error)) from error


def _id(call: Call) -> int:
    if call.id > ID_MAX:
        raise ApiError(404, f"There is no maintenance window M{call.id}.")
    return call.id


def _alerting(people: People) -> Alerting:
    if people.alerting is None:
        raise DecisionRefused("This daemon keeps no alerts: it was put together without them.")
    return people.alerting
