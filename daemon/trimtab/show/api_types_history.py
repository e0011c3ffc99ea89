"""What the API takes and gives of the past, and the protocol through which it reaches it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal, Protocol

from msgspec import Meta, Struct

from trimtab.model.board import GpuHistory
from trimtab.model.past import Kept, PastFleet, Ranks, Trends
from trimtab.show.api_types import Name, SinceSeconds

Moment = Annotated[str, Meta(max_length=40)]
"""ISO 8601 with its zone: `2026-11-30T14:00:00Z`."""

RankMetric = Literal[
    "activity_ratio",
    "sm_clock_hertz",
    "power_watts",
    "temperature_celsius",
    "memory_used_bytes",
    "dram_active_ratio",
    "nvlink_bytes_per_second",
    "pcie_bytes_per_second",
]


class BoardQuery(Struct, frozen=True, kw_only=True):
    """Which moment; none = now."""

    at: Moment = ""


class TrendsQuery(Struct, frozen=True, kw_only=True):
    """Which stretch (without `since` the last `since_seconds`), in at most how many steps, of which queue."""

    since: Moment = ""
    until: Moment = ""
    since_seconds: SinceSeconds = 86400.0
    points: Annotated[int, Meta(ge=2, le=2000)] = 300
    marks: Annotated[int, Meta(ge=0, le=5000)] = 1000
    queue: Annotated[str, Meta(max_length=253)] | None = None


class RanksQuery(Struct, frozen=True, kw_only=True):
    """Which metric of the job's ranks, over which stretch, in at most how many steps."""

    metric: RankMetric = "activity_ratio"
    since: Moment = ""
    until: Moment = ""
    since_seconds: SinceSeconds = 3600.0
    points: Annotated[int, Meta(ge=2, le=500)] = 120


class HistoryQuery(Struct, frozen=True, kw_only=True):
    """Which GPU, which metrics (sample keys, comma between them), which stretch, and who beside it.

    `also`: other GPUs as `node/uuid`, commas between them, 16 at most. `peers`: a band of the node's other GPUs, or of
    the other GPUs of the job that held it last.
    """

    node: Name
    gpu: Name
    metric: Annotated[str, Meta(max_length=2000)] = "sm_active_ratio,temperature_celsius,power_watts"
    since: Moment = ""
    until: Moment = ""
    since_seconds: SinceSeconds = 3600.0
    also: Annotated[str, Meta(max_length=8000)] = ""
    peers: Literal["none", "node", "job"] = "none"


class PastMemory(Protocol):
    """What the API reads of the past; the store satisfies it by shape."""

    def kept(self) -> Kept:
        """From when to when there is something."""
        ...

    def fleet_at(self, at: datetime) -> PastFleet | None:
        """The cluster as it was at a moment; None where nothing of it was kept."""
        ...

    def trends(
        self, since: datetime, until: datetime, *, points_max: int, marks_max: int, queue: str | None = None
    ) -> Trends:
        """The strip's numbers over time, with marks."""
        ...

    def ranks(self, job: str, metric: str, *, since: datetime, until: datetime, points_max: int) -> Ranks | None:
        """A job's ranks over time; None for a job that is not known."""
        ...

    def gpu_history(
        self,
        node: str,
        gpu: str,
        *,
        since: datetime,
        until: datetime,
        metrics: Sequence[str],
        also: Sequence[tuple[str, str]] = (),
        peers: str = "none",
    ) -> GpuHistory:
        """One GPU's series and those beside it, from the raw reports or from the roll-ups, whichever fits."""
        ...
