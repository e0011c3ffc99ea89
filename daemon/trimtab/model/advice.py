"""What trimtab says is wrong: actions, findings and their evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class Action(StrEnum):
    """What to do about a thing, worst last. The one vocabulary in code, API, metrics and files."""

    NONE = "none"
    UNKNOWN = "unknown"
    WATCH = "watch"
    ALERT_OWNER = "alert_owner"
    CONFIG_PROBLEM = "config_problem"
    RESET_AFTER_DRAIN = "reset_after_drain"
    CORDON_RESET = "cordon_reset"
    CORDON_REBOOT = "cordon_reboot"
    HARDWARE_RMA = "hardware_rma"

    @property
    def rank(self) -> int:
        """Place in the order; higher is worse."""
        return list(Action).index(self)

    @property
    def takes_node_out(self) -> bool:
        """Whether it takes a GPU or node out of service now."""
        return self in (Action.CORDON_RESET, Action.CORDON_REBOOT, Action.HARDWARE_RMA)


def worst(actions: tuple[Action, ...] | list[Action]) -> Action:
    """The worst of several actions; `none` of none."""
    return max(actions, key=lambda action: action.rank, default=Action.NONE)


class Severity(StrEnum):
    """Who is to be disturbed: nobody, the day shift, or whoever sleeps."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"

    @property
    def rank(self) -> int:
        """Place in the order; higher is worse."""
        return list(Severity).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One fact that a finding rests on (or, listed under `against`, that speaks against it)."""

    source: str
    """kernel, nvml, exporter, scheduler, reports, peers."""
    text: str
    at: datetime | None = None
    value: float | None = None
    threshold: float | None = None
    unit: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What a finding or recommendation is about; the narrowest that is known. `gpu` is a UUID."""

    cluster: str
    node: str | None = None
    gpu: str | None = None
    workload: str | None = None
    queue: str | None = None

    @property
    def text(self) -> str:
        """For people: node and GPU, or workload, or queue, or the cluster."""
        parts = [part for part in (self.node, self.gpu) if part]
        return " ".join(parts) or self.workload or self.queue or self.cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What a detector says is wrong, as of one window. `incident` is equal for all findings of one incident.

    `sentence` stands alone: subject, cause; `impact` says whom it hits. `gpus_hit` counts the GPUs that suffer.
    `loss_gpus` is how many GPUs' worth of work is lost while it stays open (GPU-hours per hour).
    """

    rule: str
    incident: str
    subject: Subject
    action: Action
    severity: Severity
    sentence: str
    impact: str = ""
    advice: str = ""
    evidence: tuple[Evidence, ...] = ()
    against: tuple[Evidence, ...] = ()
    workloads_hit: tuple[str, ...] = ()
    gpus_hit: int = 0
    loss_gpus: float = 0.0
    is_corroborated: bool = False
    """Two independent sources, or one that is self-sufficient: only then may a move rest on it."""
    began_at: datetime | None = None
    is_history_only: bool = False
    facts: Mapping[str, str] = field(default_factory=dict)


UNPROVED = "unproved"
"""Fact of a finding that ended although nothing proves it well, as the end of "it ended while": `nothing ran on it`."""


class FindingState(StrEnum):
    """Whether a finding still stands."""

    OPEN = "open"
    CLOSED = "closed"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFinding:
    """A finding with an identity and a life. Shown as `F31`."""

    id: int
    finding: Finding
    state: FindingState = FindingState.OPEN
    opened_at: datetime
    changed_at: datetime
    last_seen_at: datetime
    closed_at: datetime | None = None
    close_reason: str | None = None
    snoozed_until: datetime | None = None
    clear_since: datetime | None = None
    """Since when the detector no longer says so; the close rule counts from here."""
    gate: str = ""
    """What ends it, and lets what it took out return to service: `well for 10 min, the driver asks for nothing`."""

    @property
    def name(self) -> str:
        """`F31`."""
        return f"F{self.id}"
