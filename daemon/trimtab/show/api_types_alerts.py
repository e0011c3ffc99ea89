"""What the API takes and gives about alerts of others, silences and maintenance windows."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from trimtab.model.alerts import ForeignAlert, Maintenance, MaintenanceScope, Quiet
from trimtab.show.api_types import Limit, Name, Reason, SinceSeconds

Moment = Annotated[datetime, Meta(tz=True)]
Lasting = Annotated[float, Meta(gt=0, le=90 * 86400.0)]


class AlertsQuery(Struct, frozen=True, kw_only=True):
    """Which alerts of others."""

    state: Literal["firing", "all"] = "firing"
    since_seconds: SinceSeconds = 7 * 86400.0
    """With state=all: heard of within so long."""
    limit: Limit = 1000


class Alerts(Struct, frozen=True, kw_only=True):
    """Other people's alerts, the newest first."""

    alerts: tuple[ForeignAlert, ...]


class AlertsHeard(Struct, frozen=True, kw_only=True):
    """What became of the alerts of a delivery: opened, resolved, repeated, late, ours, elsewhere and others."""

    outcomes: dict[str, int]


class QuietNow(Struct, frozen=True, kw_only=True):
    """What keeps people asleep now."""

    quiet: tuple[Quiet, ...]
    silences_read_at: datetime | None
    """When Alertmanager last told its silences; None = it has not, or is not asked."""
    trouble: str = ""


class MaintenanceAsked(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A window to be made."""

    scope: MaintenanceScope
    name: Name
    reason: Reason
    until: Moment | None = None
    lasts_seconds: Lasting | None = None
    """Instead of `until`: from its start on, by the daemon's clock."""
    starts_at: Moment | None = None
    """Later than now: a window that is planned."""
    silence: bool = False
    """Whether Alertmanager gets a silence for it too."""


class MaintenanceExtended(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another end: a moment, or so long from now."""

    until: Moment | None = None
    lasts_seconds: Lasting | None = None


class MaintenanceWindows(Struct, frozen=True, kw_only=True):
    """Windows that stand or are planned, and those over within a day."""

    windows: tuple[Maintenance, ...]
