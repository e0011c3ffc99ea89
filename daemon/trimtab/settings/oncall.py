"""Who is told what is wrong: targets, routes, who pages, and how much is too much."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta, field

from trimtab.model.advice import Severity
from trimtab.model.oncall import Audience, Pager
from trimtab.settings.oncall_targets import TargetSettings
from trimtab.settings.shape import Count, NotNegative, Positive, Section


class RouteSettings(Section, frozen=True, kw_only=True):
    """What goes to which targets. Every route that fits is followed; an empty list of patterns fits all."""

    targets: tuple[str, ...]
    """Names of targets, all of which are told."""
    audience: Audience = Audience.ONCALL
    """oncall, or owner: the people whose workload it is, apart from on-call."""
    severities: tuple[Severity, ...] = (Severity.CRITICAL, Severity.WARNING)
    """Only incidents of these; empty = any."""
    rules: tuple[str, ...] = ()
    """Kinds of findings (`node_*`). Of an owner's route, empty = application errors, stragglers, idle and hung jobs."""
    queues: tuple[str, ...] = ()
    """Only those of jobs in these queues; empty = any."""
    owners: tuple[str, ...] = ()
    """Only those of jobs of these owners; empty = any."""
    locale: Literal["en", "zh-CN"] | None = None
    """Unset = the target's."""


class OnCallSettings(Section, frozen=True, kw_only=True):
    """The outbox to on-call."""

    pager: Pager = Pager.OUTBOX
    """Who pages: outbox, alertmanager or none. `trimtab pager` changes it while running and for later starts."""
    targets: dict[str, TargetSettings] = field(default_factory=dict)
    """Names of targets, all of which are told."""
    routes: tuple[RouteSettings, ...] = ()
    """Unset = critical and warning go to every target."""
    runbook_url: str = ""
    """Where docs/runbooks is served, for links in messages; empty = no link."""
    heartbeat_url: str = ""
    """Asked once a minute while all is well: whatever listens there pages when we stop."""
    heartbeat_url_file: str = ""
    """The same from a file, where the address is a secret."""
    heartbeat_seconds: Positive = 60.0
    """How often `heartbeat_url` is called."""
    deliver_seconds: Positive = 1.0
    """How often the outbox looks for what is due."""
    lease_seconds: Annotated[float, Meta(ge=30)] = 90.0
    """How long one worker may have a message in hand before another takes it: well over twice a time-out."""
    backoff_seconds: Positive = 2.0
    """First wait after a failure, doubled each time; the real wait is a random part of it."""
    backoff_seconds_max: Positive = 120.0
    """Longest pause between two attempts at one target."""
    give_up_seconds: Positive = 4 * 3600.0
    """A message that could not be delivered for so long is dead."""
    next_after_seconds: Positive = 180.0
    """A page that is not delivered by then also goes to the target's `next`."""
    escalate_after_seconds: NotNegative = 0.0
    """A critical page that nobody acknowledged by then also goes to `next`; 0 = that is the pager's own job."""
    budget_window_seconds: Positive = 600.0
    """Over which the noise budget counts."""
    budget_incidents_max: Count = 20
    """Incidents told within the window; past it the less than critical ones share one summary."""
    quiet_update_seconds: NotNegative = 10.0
    """Updates that wake nobody wait this long, so that several become one."""
    outbox_days: Annotated[float, Meta(ge=3)] = 30.0
    """Delivered and dead messages are kept this long; 3 at least: by them a digest that was sent is not sent again."""
