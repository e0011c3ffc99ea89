"""What is known of the past: the fleet as it was, trends with their marks, ranks over time, GPU-time by cause."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from trimtab.model.advice import OpenFinding
from trimtab.model.board import JobRow, NodeRow, QueueRow
from trimtab.model.command import Command, Mode, Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What the roll-ups hold: from when to when. None = nothing yet."""

    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PastFleet:
    """The cluster as it was: what a board of the past is put together from. Cells are means over the bucket."""

    at: datetime
    bucket_at: datetime
    bucket_seconds: float
    nodes: tuple[NodeRow, ...]
    jobs: tuple[JobRow, ...] = ()
    queues: tuple[QueueRow, ...] = ()
    findings: tuple[OpenFinding, ...] = ()
    """Those that stood then, or ended within the hour before, as they were then."""
    commands: tuple[Command, ...] = ()
    """Those that were live then, or over within the hour before, as they were then."""
    outcomes: Mapping[int, Outcome] = field(default_factory=dict)
    """By command id, those that were known then."""
    stranded: Mapping[int, int] = field(default_factory=dict)
    goodput_ratio: float | None = None
    """The mean of what the boards of that step said; None = not kept."""
    mode: Mode | None = None
    """None = not kept."""
    is_paused: bool = False
    pauses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


SAME_STEPS = "same steps, other moment or price"
"""Why a proposal was written anew where what it would do has not changed: kept, and left out of what people read."""


class MarkKind(StrEnum):
    """What happened at a mark on the scrubber."""

    FINDING_OPENED = "finding_opened"
    FINDING_CLOSED = "finding_closed"
    COMMAND = "command"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrendMark:
    """One thing that happened, for the scrubber. `state` is a command's new state, `severity` a finding's."""

    at_seconds: float
    kind: MarkKind
    id: int
    name: str
    """`F31`, `R11`."""
    text: str
    severity: str = ""
    state: str = ""
    rule: str = ""
    node: str | None = None
    gpu: str | None = None
    workload: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trends:
    """The strip's numbers over time, step by step, and what happened meanwhile.

    Every series has one value a step of `at_seconds` (the step's begin); None = nothing was kept of that step.
    """

    cluster: str
    since: datetime
    until: datetime
    bucket_seconds: float
    at_seconds: tuple[float, ...] = ()
    series: Mapping[str, tuple[float | None, ...]] = field(default_factory=dict)
    """gpus_working, gpus_held_idle, gpus_free, gpus_stranded, gpus_spare, gpus_out_of_service, gpus_unknown,
    gpus_total, activity_ratio (of the GPUs that are held), power_watts (of all that said), goodput_ratio, and
    `stranded/1`, `stranded/2`, `stranded/4`, `stranded/8`."""
    marks: tuple[TrendMark, ...] = ()
    """Oldest first; of more than the request's limit the latest."""
    marks_left_out: int = 0
    kept: Kept = Kept()
    queue: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RankRow:
    """One GPU of a job over time: a row of the heat strip. `rank` None = the scheduler did not say."""

    rank: int | None
    pod: str
    node: str
    gpu: str
    index: int | None
    values: tuple[float | None, ...]
    """One a step; None = nothing was heard, or the job did not hold it then."""
    mean: float | None = None
    to_median_ratio: float | None = None
    """Its mean over the median of all rows' means; None where it says nothing."""
    is_suspect: bool = False
    """Whether an open finding, or its distance from the others, points at it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """A job's ranks × time: row i of `rows` at step k is `rows[i].values[k]`, of the step from `at_seconds[k]`."""

    job: str
    metric: str
    unit: str
    since: datetime
    until: datetime
    bucket_seconds: float
    at_seconds: tuple[float, ...] = ()
    rows: tuple[RankRow, ...] = ()
    """By rank, then node and index; at most 4,096."""
    rows_left_out: int = 0
    low: float | None = None
    """Of all values the 2nd percentile, for the colour scale; `high` is the 98th."""
    high: float | None = None
    suspect: int | None = None
    """Which of `rows` (its place, not its rank); None = nobody stands out."""
    suspect_text: str = ""
    """Why, in a sentence: `rank 5 (gpu-07 GPU 3) runs at 1.12 GHz, the median is 1.75 GHz`."""
    findings: tuple[int, ...] = ()
    """Findings about the job or its GPUs that stood within the span."""


class GpuTimeState(StrEnum):
    """What a GPU did with its time. Each of its seconds is in exactly one of these."""

    WORKING = "working"
    HELD_IDLE = "held_idle"
    FREE = "free"
    STRANDED = "stranded"
    SPARE = "spare"
    OUT_OF_SERVICE = "out_of_service"
    UNKNOWN = "unknown"
    """Nothing was heard, or what was heard does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTime:
    """GPU-seconds of one workload in one queue under one cause, by state. `workload` "" = nobody held the GPUs."""

    workload: str
    queue: str
    owner: str
    cause: str
    """Detectors' rule of the finding that stood on it meanwhile (`device_fault`); "" = nothing was wrong."""
    seconds: Mapping[GpuTimeState, float]
    lost_seconds: float = 0.0
    """GPU-seconds that findings of this cause say were lost of the working ones (a straggler's peers wait)."""
    energy_joules: float = 0.0
    """Mean power × time, over the time in which power was heard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuTimes:
    """GPU-time between two moments, as far as it was kept. The span is whole steps; it says so."""

    cluster: str
    since: datetime
    until: datetime
    rows: tuple[GpuTime, ...] = ()
    kept: Kept = Kept()
    edge_seconds: float = 60.0
    """To how many seconds the two moments were rounded."""

    @property
    def total_seconds(self) -> float:
        """All GPU-seconds that were watched."""
        return sum(sum(row.seconds.values()) for row in self.rows)
