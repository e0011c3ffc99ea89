"""How long one judgement takes as the cluster grows, and how long a storm of lines takes. `python bench/detect.py`."""

from __future__ import annotations

import resource
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "daemon"))

from trimtab.detect.detector import catalogue, judge_events
from trimtab.detect.series import SERIES_METRICS
from trimtab.detect.tracker import Tracker
from trimtab.model.cluster import (
    ClusterSnapshot,
    Gpu,
    GpuKey,
    Node,
    Placement,
    Workload,
    WorkloadState,
)
from trimtab.model.reading import Event, EventKind, EventSource, GpuInfo, GpuReading, GpuState
from trimtab.model.window import GpuNow, NodeEvent, NodeNow, Series, Window
from trimtab.settings import DetectSettings

AT = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)
MODEL = "NVIDIA H100 80GB HBM3"
GANG_NODES = 4
ROWS, STEP_SECONDS = 90, 10.0
VALUES = {
    "utilization_ratio": 0.97, "sm_active_ratio": 0.82, "dram_active_ratio": 0.5, "tensor_active_ratio": 0.4,
    "power_watts": 620.0, "power_limit_watts": 700.0, "temperature_celsius": 62.0, "sm_clock_hertz": 1.755e9,
    "recovery_action": 0.0, "row_remap_pending": 0.0, "row_remap_failed": 0.0, "energy_joules_total": 5e9,
    **{f"clock_event_active/{reason}": 0.0 for reason in ("hw_thermal", "hw_power_brake", "sw_thermal")},
    **{f"filler_{number}": 1.0 for number in range(40)},
}  # fmt: skip


def a_window(nodes: int) -> Window:
    """Gangs of 4 × 8 GPUs; of nodes 1 in 250 lost a GPU, 1 in 300 is hot, 1 in 500 silent; 1 gang in 100 idles."""
    random = np.random.default_rng(7)
    names = [f"gpu-{number:05}" for number in range(nodes)]
    keys = tuple(
        GpuKey(cluster="hall-a", node=name, uuid=f"GPU-{name}-{index}") for name in names for index in range(8)
    )
    gpus, events = {}, []
    for column, key in enumerate(keys):
        node = column // 8
        is_lost = node % 250 == 17 and column % 8 == 3
        info = GpuInfo(uuid=key.uuid, pci=f"0000:{16 + column % 8:02x}:00.0", index=column % 8, model=MODEL)
        reading = GpuReading(info=info, values=VALUES, state=GpuState.LOST if is_lost else GpuState.OK)
        received = AT - timedelta(seconds=300 if node % 500 == 33 else 5)
        gpus[key] = GpuNow(key=key, reading=reading, at=received, received_at=received)
        if is_lost:
            event = Event(kind=EventKind.XID, source=EventSource.KERNEL, at=AT - timedelta(seconds=40), code=79,
                          pci=info.pci, text="NVRM: Xid 79", boot_id="b")  # fmt: skip
            events.append(NodeEvent(cluster="hall-a", node=key.node, event=event))
    return Window(
        cluster="hall-a", at=AT, span_seconds=900.0, gpus=gpus, nodes=_nodes(names), events=tuple(events),
        series=_series(keys, random), snapshot=_snapshot(names),
    )  # fmt: skip


def _nodes(names: list[str]) -> dict[str, NodeNow]:
    return {
        name: NodeNow(cluster="hall-a", name=name, sampled_at=AT, boot_id="b", source="nvml", gpus_expected=8,
                      received_at=AT - timedelta(seconds=300 if number % 500 == 33 else 5))
        for number, name in enumerate(names)
    }  # fmt: skip


def _series(keys: tuple[GpuKey, ...], random: np.random.Generator) -> dict[str, Series]:
    at_seconds = AT.timestamp() - STEP_SECONDS * np.arange(ROWS)[::-1]
    noise = (1 + 0.02 * random.standard_normal((ROWS, len(keys)))).astype(np.float32)
    node = np.arange(len(keys)) // 8
    is_hot, is_idle = node % 300 == 41, (node // GANG_NODES) % 100 == 7
    found = {}
    for metric in SERIES_METRICS:
        if metric.startswith("clock_event_seconds"):
            continue
        values = noise * np.float32(VALUES[metric])
        if metric.startswith("clock_event"):
            values = np.zeros_like(noise)
        if metric == "clock_event_active/hw_thermal":
            values[:, is_hot] = 1.0
        if metric == "sm_clock_hertz":
            values[:, is_hot] *= 0.6
        if metric in ("utilization_ratio", "sm_active_ratio", "dram_active_ratio"):
            values[:, is_idle] = 0.0
        if metric == "power_watts":
            values[:, is_idle] = 72.0
        found[metric] = Series(gpus=keys, at_seconds=at_seconds, values=values)
    return found


def _snapshot(names: list[str]) -> ClusterSnapshot:
    nodes = tuple(
        Node(name=name, rack=f"r{number // 8}",
             gpus=tuple(Gpu(uuid=f"GPU-{name}-{index}", index=index, model=MODEL) for index in range(8)))
        for number, name in enumerate(names)
    )  # fmt: skip
    gangs = tuple(
        Workload(
            id=f"research/job-{first}", name=f"job-{first}", controller="kueue", pods=GANG_NODES, gpus_per_pod=8,
            state=WorkloadState.RUNNING, started_at=AT - timedelta(hours=5),
            placements=tuple(
                Placement(pod=f"p{rank}", rank=rank, node=name, gpus=tuple(f"GPU-{name}-{i}" for i in range(8)))
                for rank, name in enumerate(names[first : first + GANG_NODES])
            ),
        )
        for first in range(0, len(names) - GANG_NODES, GANG_NODES)
    )  # fmt: skip
    return ClusterSnapshot(cluster="hall-a", taken_at=AT, nodes=nodes, workloads=gangs)


def main() -> None:
    settings = DetectSettings(idle_after_seconds=850.0)
    print(f"{'nodes':>7} {'GPUs':>8} {'first beat':>11} {'beat':>9} {'tracker':>9}  findings  slowest detectors")
    for nodes in (125, 1250, 12500):
        window = a_window(nodes)
        first = judge(window, settings)
        times, findings = judge(window, settings)
        tracker = Tracker()
        started = time.perf_counter()
        tracker.commit(tracker.update(window, findings))
        tracker.update(window, findings)
        tracked = (time.perf_counter() - started) / 2
        slowest = sorted(times.items(), key=lambda item: -item[1])[:4]
        said = ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in slowest)
        print(f"{nodes:>7} {nodes * 8:>8} {sum(first[0].values()):>9.3f} s {sum(times.values()):>7.3f} s "
              f"{tracked:>7.3f} s  {len(findings):>8}  {said}")  # fmt: skip
    storm()
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


def judge(window: Window, settings: DetectSettings):
    times, findings = {}, []
    for detector in catalogue(settings):
        started = time.perf_counter()
        findings += detector.detect(window)
        times[detector.name] = time.perf_counter() - started
    return times, findings


def storm() -> None:
    """800,000 lines of XID 95 from 29 GPUs."""
    events = [
        Event(kind=EventKind.XID, source=EventSource.KERNEL, at=AT + timedelta(milliseconds=number), code=95,
              pci=f"0000:{number % 29:02x}:00.0", text="NVRM: Xid 95", boot_id="b")
        for number in range(800_000)
    ]  # fmt: skip
    started = time.perf_counter()
    findings = judge_events(events, node="gpu-07")
    print(
        f"storm: 800,000 lines of 29 faults judged in {time.perf_counter() - started:.2f} s: {len(findings)} findings"
    )


if __name__ == "__main__":
    main()
