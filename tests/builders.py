"""Builders of model values with sensible defaults; a test names only what it is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from tests.fakes.clock import START

from trimtab.model.advice import Action, Evidence, Finding, OpenFinding, Severity, Subject
from trimtab.model.cluster import (
    Checkpoint,
    ClusterSnapshot,
    Gpu,
    GpuKey,
    Node,
    Placement,
    Workload,
    WorkloadState,
)
from trimtab.model.reading import Delivery, Event, EventKind, EventSource, GpuInfo, GpuReading, Report
from trimtab.model.window import GpuNow, NodeEvent, NodeNow, Window

CLUSTER = "hall-a"

BUSY = {
    "utilization_ratio": 0.97,
    "sm_active_ratio": 0.82,
    "dram_active_ratio": 0.5,
    "power_watts": 620.0,
    "power_limit_watts": 700.0,
    "temperature_celsius": 62.0,
    "sm_clock_hertz": 1.755e9,
    "memory_used_bytes": 70e9,
    "memory_total_bytes": 80e9,
}
IDLE = {
    "utilization_ratio": 0.0,
    "sm_active_ratio": 0.0,
    "dram_active_ratio": 0.0,
    "power_watts": 72.0,
    "power_limit_watts": 700.0,
    "temperature_celsius": 30.0,
    "sm_clock_hertz": 3.45e8,
    "memory_used_bytes": 6e8,
    "memory_total_bytes": 80e9,
}


def gpu_uuid(node: str, index: int) -> str:
    return f"GPU-{node}-{index}"


def a_gpu(node: str = "gpu-00", index: int = 0, **changes: Any) -> Gpu:
    return Gpu(**{"uuid": gpu_uuid(node, index), "index": index, "model": "NVIDIA H100 80GB HBM3", **changes})


def a_node(name: str = "gpu-00", *, gpus: int = 8, rack: str = "r1", **changes: Any) -> Node:
    return Node(name=name, rack=rack, gpus=tuple(a_gpu(name, index) for index in range(gpus)), **changes)


def a_placement(node: str, indexes: Iterable[int], *, rank: int = 0, pod: str | None = None) -> Placement:
    return Placement(
        pod=pod or f"pod-{rank}", rank=rank, node=node, gpus=tuple(gpu_uuid(node, index) for index in indexes)
    )


def a_workload(
    name: str = "llama-70b",
    *,
    on: Mapping[str, Iterable[int]] | None = None,
    pods: int | None = None,
    gpus_per_pod: int | None = None,
    state: WorkloadState | None = None,
    checkpoint: Checkpoint | None = None,
    **changes: Any,
) -> Workload:
    """`on` maps node -> GPU indexes, one pod a node; without it the workload waits."""
    placements = tuple(
        a_placement(node, indexes, rank=rank, pod=f"{name}-{rank}")
        for rank, (node, indexes) in enumerate((on or {}).items())
    )
    return Workload(
        **{
            "id": f"research/{name}",
            "name": name,
            "controller": "simulated",
            "pods": pods or max(len(placements), 1),
            "gpus_per_pod": gpus_per_pod or (len(placements[0].gpus) if placements else 8),
            "state": state or (WorkloadState.RUNNING if placements else WorkloadState.WAITING),
            "queue": "research",
            "placements": placements,
            "checkpoint": checkpoint or Checkpoint(last_at=START, interval_seconds=1800.0),
            "restart_seconds": 120.0,
            "started_at": START if placements else None,
            "waiting_since": None if placements else START,
            "waiting_reason": None if placements else "placement",
            **changes,
        }
    )


def a_snapshot(nodes: Iterable[Node] = (), workloads: Iterable[Workload] = (), **changes: Any) -> ClusterSnapshot:
    return ClusterSnapshot(
        **{
            "cluster": CLUSTER,
            "taken_at": START,
            "nodes": tuple(nodes),
            "workloads": tuple(workloads),
            **changes,
        }
    )


def a_reading(
    node: str = "gpu-00", index: int = 0, *, values: Mapping[str, float] | None = None, **changes: Any
) -> GpuReading:
    info = GpuInfo(
        uuid=gpu_uuid(node, index), pci=f"0000:{0x10 + index:02x}:00.0", index=index, model="NVIDIA H100 80GB HBM3"
    )
    return GpuReading(**{"info": info, "values": dict(BUSY if values is None else values), **changes})


def a_report(node: str = "gpu-00", *, sequence: int = 1, at: datetime = START, gpus: int = 8, **changes: Any) -> Report:
    return Report(
        **{
            "cluster": CLUSTER,
            "node": node,
            "boot_id": "boot-a",
            "spool_id": "spool-a",
            "sequence": sequence,
            "sampled_at": at,
            "gpus": tuple(a_reading(node, index) for index in range(gpus)),
            "gpus_expected": gpus,
            **changes,
        }
    )


def a_delivery(report: Report | None = None, *, received_at: datetime | None = None, **changes: Any) -> Delivery:
    report = report or a_report()
    return Delivery(report=report, received_at=received_at or report.sampled_at, **changes)


def an_xid(
    code: int = 79, *, node: str = "gpu-00", index: int | None = 3, at: datetime = START, **changes: Any
) -> Event:
    return Event(
        **{
            "kind": EventKind.XID,
            "source": EventSource.KERNEL,
            "at": at,
            "code": code,
            "gpu": None if index is None else gpu_uuid(node, index),
            "pci": None if index is None else f"0000:{0x10 + index:02x}:00.0",
            "boot_id": "boot-a",
            "text": f"NVRM: Xid (PCI:0000:{0x10 + (index or 0):02x}:00): {code}, pid='<unknown>', name=<unknown>",
            **changes,
        }
    )


def a_window(
    readings: Mapping[str, Iterable[GpuReading]] | None = None,
    *,
    events: Iterable[tuple[str, Event]] = (),
    snapshot: ClusterSnapshot | None = None,
    at: datetime = START,
    span_seconds: float = 900.0,
    series: Mapping[str, Any] | None = None,
) -> Window:
    """`readings` maps node -> its GPU readings, all fresh at `at`."""
    now = {
        GpuKey(cluster=CLUSTER, node=node, uuid=reading.uuid): GpuNow(
            key=GpuKey(cluster=CLUSTER, node=node, uuid=reading.uuid), reading=reading, at=at, received_at=at
        )
        for node, found in (readings or {}).items()
        for reading in found
    }
    nodes = {
        node: NodeNow(cluster=CLUSTER, name=node, received_at=at, sampled_at=at, boot_id="boot-a", source="nvml")
        for node in (readings or {})
    }
    return Window(
        cluster=CLUSTER,
        at=at,
        span_seconds=span_seconds,
        gpus=now,
        nodes=nodes,
        events=tuple(NodeEvent(cluster=CLUSTER, node=node, event=event) for node, event in events),
        series=series or {},
        snapshot=snapshot,
    )


def a_finding(*, id: int = 1, node: str | None = "gpu-00", gpu: int | None = 3, **changes: Any) -> OpenFinding:
    """An open device fault that takes its node out; `changes` are fields of the finding."""
    finding = Finding(
        **{
            "rule": "device_fault",
            "incident": f"device_fault:{node}:{gpu}",
            "subject": Subject(
                cluster=CLUSTER, node=node, gpu=None if node is None or gpu is None else gpu_uuid(node, gpu)
            ),
            "action": Action.CORDON_REBOOT,
            "severity": Severity.CRITICAL,
            "sentence": f"{node} GPU {gpu} fell off the bus (XID 79).",
            "evidence": (Evidence(source="kernel", text="Xid 79"),),
            "is_corroborated": True,
            **changes,
        }
    )
    return OpenFinding(id=id, finding=finding, opened_at=START, changed_at=START, last_seen_at=START)
