"""What the detectors judge: the last stretch of history, in memory, as it stands at one moment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.model.alerts import ForeignAlert
from trimtab.model.cluster import ClusterSnapshot, GpuKey
from trimtab.model.reading import Event, GpuReading

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuNow:
    """The last reading of one GPU and when it was taken. `at` uses the believed clock (Delivery.at)."""

    key: GpuKey
    reading: GpuReading
    at: datetime
    received_at: datetime

    def value(self, sample_key: str) -> float | None:
        """The value of one sample key, or None where absent."""
        return self.reading.values.get(sample_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNow:
    """What is known of a node's reporting. `is_expected` is False for a node that the cluster let go."""

    cluster: str
    name: str
    received_at: datetime
    sampled_at: datetime
    boot_id: str
    source: str
    gpus_expected: int | None = None
    clock_skew_seconds: float = 0.0
    interval_seconds: float = 10.0
    errors: Mapping[str, str] = field(default_factory=dict)
    is_expected: bool = True
    metrics_url: str = ""
    """Where others reach its /metrics, as it says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """One metric of many GPUs over the window. `values` has shape (T, G), NaN where absent (inside arrays only).

    `at_seconds` has shape (T,), Unix seconds, ascending; column g belongs to `gpus[g]`.
    """

    gpus: tuple[GpuKey, ...]
    at_seconds: NDArray[np.float64]
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeEvent:
    """An event with the node it belongs to, and whether it may only inform (an old report, a foreign alert)."""

    cluster: str
    node: str
    event: Event
    is_history_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """One judgement's input. `snapshot` is None when the scheduler could not be read whole."""

    cluster: str
    at: datetime
    span_seconds: float
    gpus: Mapping[GpuKey, GpuNow]
    nodes: Mapping[str, NodeNow]
    events: Sequence[NodeEvent] = ()
    series: Mapping[str, Series] = field(default_factory=dict)
    snapshot: ClusterSnapshot | None = None
    driver_version: Mapping[str, str] = field(default_factory=dict)
    alerts: Sequence[ForeignAlert] = ()
    """What others say: context to be shown beside findings, never a ground for one."""
