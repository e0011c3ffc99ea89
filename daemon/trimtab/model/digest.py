"""The digest: what a fleet did with a stretch of time, what it lost and why, and what the moves should give."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.model.advice import Action, Severity
from trimtab.model.past import GpuTimeState


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHours:
    """GPU-hours by what the GPUs did. Each watched GPU-hour is in exactly one state; `lost` is a part of `working`."""

    by_state: Mapping[GpuTimeState, float] = field(default_factory=dict)
    lost: float = 0.0
    """Of the working ones: lost to stragglers and the like, as findings say (a rank waits, and counts as working)."""

    @property
    def total(self) -> float:
        """All GPU-hours that were watched, unseen ones too."""
        return sum(self.by_state.values())

    @property
    def held(self) -> float:
        """Those that somebody held and that could work."""
        return self.of(GpuTimeState.WORKING) + self.of(GpuTimeState.HELD_IDLE)

    @property
    def good(self) -> float:
        """Those that did work that counted."""
        return max(self.of(GpuTimeState.WORKING) - self.lost, 0.0)

    @property
    def goodput_ratio(self) -> float | None:
        """Good ones over held ones; None where nobody held any."""
        return self.good / self.held if self.held > 0 else None

    def of(self, state: GpuTimeState) -> float:
        """GPU-hours of one state."""
        return self.by_state.get(state, 0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueHours:
    """GPU-hours that one queue's workloads held; "" = work without a queue."""

    queue: str
    hours: GpuHours


@dataclass(frozen=True, slots=True, kw_only=True)
class CauseHours:
    """GPU-hours that one kind of finding took: out of service, held but idle, or lost while working."""

    cause: str
    """A detector's rule."""
    out_of_service: float
    held_idle: float
    lost: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.out_of_service + self.held_idle + self.lost


@dataclass(frozen=True, slots=True, kw_only=True)
class DayHours:
    """GPU-hours of one day (or what of it lies within the stretch)."""

    begins_at: datetime
    hours: GpuHours


@dataclass(frozen=True, slots=True, kw_only=True)
class IncidentSummary:
    """Incidents that stood within the stretch. Medians are None where nothing of the kind happened."""

    opened: int
    closed: int
    still_open: int
    by_severity: Mapping[Severity, int] = field(default_factory=dict)
    by_rule: Mapping[str, int] = field(default_factory=dict)
    paged: int = 0
    acknowledged: int = 0
    to_page_seconds: float | None = None
    to_acknowledge_seconds: float | None = None
    to_mend_seconds: float | None = None
    longest: str = ""
    """First line of the one that stood longest, and how long."""
    longest_seconds: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DossierEvent:
    """One line of what a device said."""

    at: datetime
    kind: str
    code: int | None
    text: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """What a vendor asks for before a device is sent in. Empty fields were not known."""

    node: str
    gpu: str = ""
    """UUID; "" = the node as a whole."""
    model: str = ""
    serial: str = ""
    pci: str = ""
    driver: str = ""
    vbios: str = ""
    incidents: int = 0
    events: tuple[DossierEvent, ...] = ()
    events_left_out: int = 0
    health: Mapping[str, float] = field(default_factory=dict)
    """ECC, remapped rows and the like as last read, by metric key."""
    tried: tuple[str, ...] = ()
    """What was done about it, oldest first."""
    worst_action: Action = Action.NONE


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleGain:
    """What one rule's commands did, and gave against their forecast. GPU-hours; forecasts only where there were any."""

    rule: str
    settled: int = 0
    missed: int = 0
    undone: int = 0
    refused: int = 0
    expired: int = 0
    good: int = 0
    gained: float = 0.0
    gained_forecast: float | None = None
    cost: float = 0.0
    cost_forecast: float | None = None
    gpus_unlocked: int = 0


class ProspectKind(StrEnum):
    """What a prospect rests on."""

    RECOMMENDATION = "recommendation"
    """Open advice: its gain, for as often as its horizon fits into a week."""
    FINDING = "finding"
    """A finding that stands: the GPUs it takes, for a week."""
    IDLE_QUEUE = "idle_queue"
    """A queue that held GPUs idle: as much again in a week."""
    STRANDED = "stranded"
    """Free GPUs that no waiting job could use: as many again in a week."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """What would pay in the week to come, if it goes on as it was: what it is about and the GPU-hours in it."""

    kind: ProspectKind
    subject: str
    """A recommendation's or finding's own sentence, or a queue's name."""
    gpu_hours: float
    name: str = ""
    """`R11`, `F31`."""


class LeftOutKind(StrEnum):
    """Why something is not in the figures."""

    NOTHING_KEPT = "nothing_kept"
    BEGINS_LATER = "begins_later"
    """What is kept begins later than was asked for (`at`)."""
    DRILLS = "drills"
    HISTORY_ONLY = "history_only"
    """Findings that rest on reports which came too late to act on."""
    DRY_RUNS = "dry_runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """One thing that is not counted: how many of it, or from when on things are counted."""

    kind: LeftOutKind
    count: int = 0
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The whole of it. `since` and `until` are what was asked; `covered_since` and `covered_until` what is counted."""

    cluster: str
    since: datetime
    until: datetime
    covered_since: datetime
    covered_until: datetime
    edge_seconds: float
    """To how many seconds the counted stretch was rounded."""
    made_at: datetime
    hours: GpuHours
    queues: tuple[QueueHours, ...] = ()
    causes: tuple[CauseHours, ...] = ()
    days: tuple[DayHours, ...] = ()
    energy_kwh: float = 0.0
    incidents: IncidentSummary = IncidentSummary(opened=0, closed=0, still_open=0)
    offenders: tuple[Dossier, ...] = ()
    gains: tuple[RuleGain, ...] = ()
    prospects: tuple[Prospect, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    """What is not counted, and why."""
