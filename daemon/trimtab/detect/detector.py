"""The detectors: what one is, the list of them, and the ones that need no series (for a file that a person has)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Protocol

from trimtab.detect.blind import Blind
from trimtab.detect.clock_skew import ClockSkew
from trimtab.detect.contradiction import Contradiction
from trimtab.detect.device_fault import DeviceFault
from trimtab.detect.fragmentation import Fragmentation
from trimtab.detect.gpus_missing import GpusMissing
from trimtab.detect.hung_job import HungJob
from trimtab.detect.node_silent import NodeSilent
from trimtab.model.advice import Finding
from trimtab.model.cluster import GpuKey
from trimtab.model.reading import Event, GpuReading
from trimtab.model.window import GpuNow, NodeEvent, NodeNow, Window
from trimtab.settings import DetectSettings

EVER_SECONDS = 1e12
"""A span that holds every event of a file."""


class Detector(Protocol):
    """Judges one window. Pure: same window, same findings."""

    name: str
    """Also the `rule` of all its findings."""
    span_seconds: float
    """How much history it wants to see."""

    def detect(self, window: Window) -> Iterable[Finding]:
        """What is wrong in this window."""
        ...


def catalogue(settings: DetectSettings, *, spares_kept: int = 0) -> tuple[Detector, ...]:
    """Every detector of the daemon, in order of urgency. Needs numpy for the last three.

    `spares_kept`: whole free nodes that the planner leaves alone, so that they are no room for who waits.
    """
    # Imported here, so that `inspect` on a node, which has no numpy, can use the rest of this module.
    from trimtab.detect.hotspot import Hotspot  # noqa: PLC0415
    from trimtab.detect.idle_gpu import IdleGpu  # noqa: PLC0415
    from trimtab.detect.straggler import Straggler  # noqa: PLC0415

    return (
        DeviceFault(span_seconds=settings.span_seconds),  # a GPU or switch that fails
        GpusMissing(),  # a GPU that is gone without a word
        NodeSilent(settings),  # a node that says nothing
        Blind(),  # a node that reports and cannot read its GPUs
        ClockSkew(settings),  # a node whose moments are not believed
        Contradiction(),  # an agent and the cluster's API that do not agree on who holds a GPU
        HungJob(after_seconds=settings.hung_after_seconds),  # a job that waits for itself
        Fragmentation(settings, spares_kept=spares_kept),  # free GPUs that nobody who waits can use
        Straggler(settings),  # a rank that holds its gang back
        Hotspot(settings),  # a GPU that throttles
        IdleGpu(settings),  # a GPU that is held and unused
    )


def event_detectors() -> tuple[Detector, ...]:
    """Detectors for one file: events however old, one reading each, no series, no numpy."""
    return (DeviceFault(span_seconds=EVER_SECONDS), GpusMissing(), Blind(), HungJob())


def judge_events(
    events: Iterable[Event] = (),
    *,
    readings: Iterable[GpuReading] = (),
    cluster: str = "",
    node: str = "",
    at: datetime | None = None,
    gpus_expected: int | None = None,
    errors: Mapping[str, str] | None = None,
) -> tuple[Finding, ...]:
    """Findings of one node's file. `gpus_expected` makes missing GPUs a finding; `at` defaults to the last event."""
    told = tuple(events)
    at = at or max((event.at for event in told), default=datetime.fromtimestamp(0, UTC))
    window = Window(
        cluster=cluster,
        at=at,
        span_seconds=EVER_SECONDS,
        gpus={
            key: GpuNow(key=key, reading=reading, at=at, received_at=at)
            for reading in readings
            for key in (GpuKey(cluster=cluster, node=node, uuid=reading.uuid),)
        },
        nodes=_nodes(cluster, node, at, gpus_expected, errors or {}),
        events=tuple(NodeEvent(cluster=cluster, node=node, event=event) for event in told),
    )
    return tuple(finding for detector in event_detectors() for finding in detector.detect(window))


def _nodes(
    cluster: str, node: str, at: datetime, gpus_expected: int | None, errors: Mapping[str, str]
) -> dict[str, NodeNow]:
    """The node only where there is something to hold against it: a log alone says nothing on what it should have."""
    if gpus_expected is None and not errors:
        return {}
    now = NodeNow(
        cluster=cluster,
        name=node,
        received_at=at,
        sampled_at=at,
        boot_id="",
        source="nvml",
        gpus_expected=gpus_expected,
        errors=errors,
    )
    return {node: now}
