"""What agent and daemon know of themselves, as plain values for /metrics and doctor. None = not known, not exported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.model.board import Board
from trimtab.model.command import Budget
from trimtab.model.reading import Report
from trimtab.model.window import Window
from trimtab.tls import CertificateFacts

if TYPE_CHECKING:
    from trimtab.show.alertmanager.facts import AlertingFacts
    from trimtab.show.metrics_limits import LimitsFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentFacts:
    """Counts over the life of an agent, and the state of its spool. `events_total` is by (kind, code or "")."""

    version: str = ""
    ticks_total: int | None = None
    ticks_dropped_total: int | None = None
    tick_seconds: float | None = None
    spool_reports: int | None = None
    spool_bytes: int | None = None
    spool_bytes_max: int | None = None
    disk_free_bytes: int | None = None
    put_off_total: int | None = None
    spool_dropped_total: int | None = None
    spool_lost_total: int | None = None
    spool_damaged_total: int | None = None
    events_dropped_total: int | None = None
    set_aside_total: int | None = None
    acknowledged_total: int | None = None
    acknowledged_at: datetime | None = None
    send_failures_total: int | None = None
    collector_seconds: Mapping[str, float] = field(default_factory=dict)
    collector_errors_total: Mapping[str, int] = field(default_factory=dict)
    bad_samples_total: int | None = None
    events_total: Mapping[tuple[str, str], int] = field(default_factory=dict)
    last_xids: Mapping[str, int] = field(default_factory=dict)
    """GPU -> the last XID code that was seen on it."""
    is_enrolled: bool | None = None
    """None where an operator made its token."""
    credential_expires_at: datetime | None = None
    credentials_received_total: int | None = None
    enrolment_refusals_total: Mapping[str, int] = field(default_factory=dict)
    """Reason -> times that this node was not let in, or not renewed."""
    certificates: tuple[CertificateFacts, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentView:
    """What an agent's /metrics is made from: the last report, if there is one."""

    now: datetime
    report: Report | None
    facts: AgentFacts


@dataclass(frozen=True, slots=True, kw_only=True)
class BeatFacts:
    """One beat (or another loop of its own) of the daemon; ages in seconds of the daemon's clock."""

    name: str
    interval_seconds: float
    beats_total: int = 0
    failures_total: int = 0
    dropped_total: int = 0
    last_duration_seconds: float = 0.0
    age_seconds: float | None = None
    """Since it last ended; None = never."""
    sentence: str = ""
    is_alive: bool = True
    is_failing: bool = False
    """Whether the last beat failed; its sentence says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFacts:
    """What the reader of one kind of a cluster's objects has done so far; errors are by kind."""

    attempts_total: int = 0
    lists_total: int = 0
    watches_total: int = 0
    changes_total: int = 0
    missed_changes_total: int = 0
    errors_total: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsFacts:
    """What came of the last time that the settings were read again while running."""

    is_ok: bool = True
    at: datetime | None = None
    """When they were read again; None = not since the start."""
    failures_total: int = 0
    trouble: str = ""
    waiting: tuple[str, ...] = ()
    """Keys whose new value needs a restart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """What was done with a cluster's API since the start. `writes_total` is by (first word, result)."""

    writes_total: Mapping[tuple[str, str], int] = field(default_factory=dict)
    reads: Mapping[str, ReadFacts] = field(default_factory=dict)
    events_total: Mapping[str, int] = field(default_factory=dict)
    is_lease_held: bool | None = None
    lease_epoch: int | None = None
    token_reviews_total: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class OnCallFacts:
    """The outbox in numbers, and who pages. `messages` is by (target, state), `attempts_total` by (target, result)."""

    pager: str
    """Who pages for what opens now: outbox, alertmanager or none."""
    pagers: Mapping[int, str] = field(default_factory=dict)
    """Open finding -> who pages for it; one that the outbox has no target for has nobody."""
    messages: Mapping[tuple[str, str], int] = field(default_factory=dict)
    oldest_waiting_seconds: Mapping[str, float] = field(default_factory=dict)
    attempts_total: Mapping[tuple[str, str], int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupFacts:
    """How the roll-ups are; `rows_total` is by tier."""

    rows_total: Mapping[str, int] = field(default_factory=dict)
    failures_total: int = 0
    mended_minutes_total: int = 0
    too_late_total: int = 0
    waiting_minutes: int | None = None
    lag_seconds: float | None = None
    """None = another daemon rolls up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFacts:
    """Who of the daemons on one PostgreSQL is active, as this one sees it."""

    cluster: str
    name: str
    is_active: bool
    term: int | None = None
    takeovers_total: int | None = None
    """Times that another daemon became the active one."""
    since: datetime | None = None
    active_name: str = ""
    active_url: str = ""
    standbys: int = 0
    daemons_expected: int = 1
    look_age_seconds: float | None = None
    """Since the database was last asked and answered."""
    why_not_act: str | None = None
    """Why the active one begins nothing at present, as the end of a sentence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonFacts:
    """Counts over the life of a daemon, and what its parts hold now.

    `reports_refused_total` is by HTTP status, `inbox_total` by what became of the reports, `command_changes_total` by
    (rule, state).
    """

    version: str = ""
    certificates: tuple[CertificateFacts, ...] = ()
    started_at: datetime | None = None
    beats: tuple[BeatFacts, ...] = ()
    inbox_reports: int | None = None
    inbox_reports_max: int | None = None
    inbox_total: Mapping[str, int] = field(default_factory=dict)
    body_bytes_total: int | None = None
    reports_replayed_total: int | None = None
    reports_received_total: int | None = None
    reports_stored_total: int | None = None
    reports_duplicate_total: int | None = None
    reports_refused_total: Mapping[str, int] = field(default_factory=dict)
    bad_samples_total: int | None = None
    ring_gpus: int | None = None
    ring_bytes: int | None = None
    ring_gpus_dropped_total: int | None = None
    ring_events_dropped_total: int | None = None
    detector_seconds: Mapping[str, float] = field(default_factory=dict)
    detector_errors_total: Mapping[str, int] = field(default_factory=dict)
    snapshot_age_seconds: float | None = None
    scheduler_failures_total: int | None = None
    command_changes_total: Mapping[tuple[str, str], int] = field(default_factory=dict)
    scrape_failures_total: Mapping[str, int] = field(default_factory=dict)
    board_readers: int | None = None
    page_url: str = ""
    """How people reach the page; empty = not said."""
    door_answers_total: Mapping[str, int] = field(default_factory=dict)
    """What the people's door said."""
    enrolment_answers_total: Mapping[str, int] = field(default_factory=dict)
    oncall: OnCallFacts | None = None
    """None = on-call is not part of this daemon."""
    budget: Budget | None = None
    """What the last rebalance beat was allowed to spend."""
    cluster: ClusterFacts | None = None
    """None = no cluster is read through its own API."""
    alerting: AlertingFacts | None = None
    """Alertmanager, both ways; None = the daemon was put together without."""
    settings: SettingsFacts | None = None
    rollup: RollupFacts | None = None
    """None = roll-ups are turned off."""
    limits: LimitsFacts | None = None
    """Disk and connections; None = the daemon was put together without."""
    pair: PairFacts | None = None
    """None = the database is SQLite, of which one daemon is the only one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DaemonView:
    """What the daemon's /metrics and doctor are made from. `board` and `window` are None before the first beat."""

    now: datetime
    board: Board | None
    window: Window | None
    facts: DaemonFacts
