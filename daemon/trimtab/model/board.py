"""What people see: one published value a beat, read by the API, the page, the events stream and the verbs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.model.advice import OpenFinding
from trimtab.model.alerts import ForeignAlert, Quiet
from trimtab.model.command import Command, Mode, Outcome, Refusal
from trimtab.model.standing import Standing

NO_SCHEDULER = "No scheduler is set up"
"""So the sentence of a cluster that is watched alone begins."""


class CellState(StrEnum):
    """The state of one GPU in the fleet picture, by form: each has its own look."""

    WORKING = "working"
    HELD_IDLE = "held_idle"
    FREE = "free"
    STRANDED = "stranded"
    """Free, and no use to the waiting workload that it is outlined for."""
    SPARE = "spare"
    LOST = "lost"
    UNUSABLE = "unusable"
    SILENT = "silent"
    """No fresh report: nothing is claimed about it."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One GPU in the fleet picture. `activity_ratio` is SM activity (else utilisation); None = unknown."""

    uuid: str
    index: int | None
    state: CellState
    workload: str | None = None
    activity_ratio: float | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    memory_used_ratio: float | None = None
    sm_clock_hertz: float | None = None
    findings: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeRow:
    """One node in the fleet picture."""

    name: str
    rack: str | None
    cells: tuple[Cell, ...]
    is_cordoned: bool = False
    cordoned_by: str | None = None
    is_ready: bool = True
    is_silent: bool = False
    is_spare: bool = False
    last_report_at: datetime | None = None
    findings: tuple[int, ...] = ()
    model: str | None = None
    """What its GPUs are, as they say; None = not known, or several."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueRow:
    """One queue: its quota (None = not known), what its running jobs hold and its waiting ones ask for."""

    name: str
    gpus_quota: int | None
    gpus_used: int
    gpus_asked: int
    cohort: str | None = None
    held_by: str | None = None
    """Who keeps it from admitting anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """One workload that runs or waits, for the page's lists and highlights."""

    id: str
    name: str
    state: str
    pods: int
    gpus_per_pod: int
    queue: str | None
    nodes: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    priority: int = 0
    waiting_since: datetime | None = None
    why: str = ""
    """Why it waits, as a sentence: `placement: 9 free, never 8 together`."""
    recommendation: int | None = None
    checkpoint_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """The numbers at the top. `stranded` is by k (1, 2, 4, 8): free GPUs that cannot serve a pod of k GPUs."""

    gpus_total: int
    gpus_reporting: int
    gpus_working: int
    gpus_held_idle: int
    gpus_free: int
    gpus_spare: int
    gpus_out_of_service: int
    gpus_unknown: int
    stranded: Mapping[int, int] = field(default_factory=dict)
    goodput_ratio: float | None = None
    """Working GPUs less those that findings say are lost, over all GPUs that are held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One write of a command, in words, and whether it is done: `waiting`, `doing`, `done`, `given back`."""

    text: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandRow:
    """A command with what people need beside it: may it be approved now, and what came of the rule's last ones."""

    command: Command
    name: str
    """`R11`."""
    fingerprint: str
    """Of the exact writes; an approval sends it back."""
    is_approvable: bool
    steps: tuple[Step, ...] = ()
    refusal: Refusal | None = None
    outcome: Outcome | None = None
    record: str = ""
    """The rule's record: `right in 46 of 49, last wrong on 12 Nov; takes 1.4× as long as said`."""
    notice_until: datetime | None = None
    """Its owners have been told; it begins at this moment or later. None = not told, or nothing to wait for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleRecord:
    """How often a rule was right, and how true its forecasts were; a ratio is None where nothing was forecast."""

    rule: str
    right: int
    measured: int
    text: str
    """The same in words."""
    duration_ratio: float | None = None
    """How long its good commands took over how long they were said to take."""
    gain_ratio: float | None = None
    """What its commands gave over what they were said to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseRow:
    """How far a release of everything has come: since it was asked for, and what the cluster still bears."""

    asked_by: str
    asked_at: datetime
    at: datetime
    """As of when; a release that is done is shown as it ended."""
    given_back: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    """What is left and why, in words."""
    is_done: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """Everything on the start view, whole, as of `at`."""

    cluster: str
    at: datetime
    mode: Mode
    is_paused: bool
    strip: Strip
    nodes: tuple[NodeRow, ...] = ()
    jobs: tuple[JobRow, ...] = ()
    queues: tuple[QueueRow, ...] = ()
    findings: tuple[OpenFinding, ...] = ()
    """Open ones, worst first, then those closed in the last hour."""
    commands: tuple[CommandRow, ...] = ()
    """Live ones first, then those over in the last hour."""
    refusals: tuple[Refusal, ...] = ()
    blind: tuple[str, ...] = ()
    """Sentences on what is not seen: `No report from rack r3 for 4 min`, a scheduler that cannot be read."""
    notes: tuple[str, ...] = ()
    """What of the cluster is not read and may be missing: kinds that the account may not list."""
    pauses: tuple[str, ...] = ()
    """Why nothing new begins: a sentence for each of the pauses that stand."""
    why_not_written: str | None = None
    """Why this daemon writes nothing now (`the lease is held by …`); None = it may, or there is nobody to write to."""
    breakers: tuple[Standing, ...] = ()
    """Rules that are stopped until a person looks."""
    vetoes: tuple[Standing, ...] = ()
    """Nodes that a person opened and that are left alone."""
    foreign: tuple[str, ...] = ()
    """What the cluster bears of other daemons, as sentences."""
    release: ReleaseRow | None = None
    """A release of everything that is under way, or has ended lately."""
    records: tuple[RuleRecord, ...] = ()
    """Of the rules that have carried something out."""
    quiet: tuple[Quiet, ...] = ()
    """Silences and maintenance windows that hold, each with the findings that it keeps from paging."""
    alerts: tuple[ForeignAlert, ...] = ()
    """What others say now, the newest first; beside a finding it is evidence of source `alert`."""
    beats: Mapping[str, str] = field(default_factory=dict)
    """Beat -> its last sentence."""
    last_finding_at: datetime | None = None
    version: str = ""
    is_past: bool = False
    """Of a moment that is over (`?at=`): shown as such, and nothing on it can be decided."""
    clock_speed: float | None = None
    """How many times as fast as the wall a simulated cluster's clock runs; None = the machine's own clock."""
    bucket_seconds: float | None = None
    """Of a past board: its cells are means over so long; None = what the GPUs said last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerSeries:
    """Another GPU's metrics, beside the one that was asked for."""

    node: str
    gpu: str
    series: Mapping[str, tuple[tuple[float, float | None], ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerBand:
    """What the peers did at the same time: Unix seconds, lowest, median, highest of their means; how many they are."""

    gpus: int
    points: tuple[tuple[float, float, float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuHistory:
    """One GPU's history: metric -> points of (Unix seconds, value or None), ascending."""

    cluster: str
    node: str
    gpu: str
    series: Mapping[str, tuple[tuple[float, float | None], ...]]
    findings: tuple[OpenFinding, ...] = ()
    bucket_seconds: float | None = None
    """Every point is the mean of so long (its begin); None = points are of the reports themselves."""
    others: tuple[PeerSeries, ...] = ()
    bands: Mapping[str, PeerBand] = field(default_factory=dict)
    """Metric -> what the peers did, where peers were asked for."""
