"""What a board costs at 24, 1,250 and 12,500 nodes of 8 GPUs: building, encoding, compressing, and /metrics.

The peer is plain `json` with `dataclasses.asdict` over the same board.
"""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeVar

import numpy as np

from trimtab.model.board import Board
from trimtab.model.cluster import ClusterSnapshot, Gpu, GpuKey, Node, Placement, Workload, WorkloadState
from trimtab.model.command import Mode
from trimtab.model.reading import GpuInfo, GpuReading
from trimtab.model.window import GpuNow, NodeNow, Series, Window
from trimtab.show.board import Published, build_board
from trimtab.show.metrics import daemon_exposition
from trimtab.show.metrics_facts import DaemonFacts, DaemonView

AT = datetime(2026, 11, 2, 9, tzinfo=UTC)
SIZES = (24, 1_250, 12_500)
GPUS = 8
T = TypeVar("T")


def a_reading(node: int, index: int) -> GpuReading:
    values = {
        "sm_active_ratio": 0.8123 if node % 7 else 0.0,
        "temperature_celsius": 60.0 + index,
        "power_watts": 612.345,
        "memory_used_bytes": 7e10,
        "memory_total_bytes": 8.5e10,
        "sm_clock_hertz": 1.755e9,
    }
    values.update({f"nvlink_transmit_bytes_total/{link}": 1e12 + link for link in range(18)})
    return GpuReading(info=GpuInfo(uuid=f"GPU-{node}-{index}", index=index, model="H100"), values=values)


def a_cluster(nodes: int) -> tuple[ClusterSnapshot, Window]:
    names = [f"gpu-{number:05}" for number in range(nodes)]
    gpus = {name: tuple(Gpu(uuid=f"GPU-{node}-{index}", index=index) for index in range(GPUS))
            for node, name in enumerate(names)}  # fmt: skip
    workloads = tuple(
        Workload(
            id=f"research/job-{first}",
            name=f"job-{first}",
            controller="simulated",
            pods=len(group),
            gpus_per_pod=GPUS,
            state=WorkloadState.RUNNING,
            placements=tuple(
                Placement(pod=f"job-{first}-{rank}", rank=rank, node=name, gpus=tuple(gpu.uuid for gpu in gpus[name]))
                for rank, name in enumerate(group)
            ),
        )
        for first in range(0, nodes, 10)
        if (group := names[first : first + 8])
    )
    made = tuple(Node(name=name, rack=f"r{node // 16:04}", gpus=gpus[name]) for node, name in enumerate(names))
    snapshot = ClusterSnapshot(cluster="bench", taken_at=AT, nodes=made, workloads=workloads)
    now = {
        GpuKey(cluster="bench", node=name, uuid=f"GPU-{node}-{index}"): a_reading(node, index)
        for node, name in enumerate(names)
        for index in range(GPUS)
    }
    known = {key: GpuNow(key=key, reading=reading, at=AT, received_at=AT) for key, reading in now.items()}
    reporting = {
        name: NodeNow(cluster="bench", name=name, received_at=AT, sampled_at=AT, boot_id="b", source="sim")
        for name in names
    }
    series = Series(
        gpus=tuple(known),
        at_seconds=np.arange(90.0) * 10 + AT.timestamp() - 890,
        values=np.full((90, len(known)), 0.8, dtype=np.float32),
    )
    window = Window(
        cluster="bench",
        at=AT,
        span_seconds=900.0,
        gpus=known,
        nodes=reporting,
        series={"sm_active_ratio": series},
        snapshot=snapshot,
    )
    return snapshot, window


def fastest_ms(do: Callable[[], T], times: int) -> tuple[float, T]:
    best, result = float("inf"), do()
    for _ in range(times):
        began = time.process_time()
        result = do()
        best = min(best, time.process_time() - began)
    return best * 1e3, result


def plain_json(board: Board) -> bytes:
    return json.dumps(dataclasses.asdict(board), default=str).encode()


def main() -> None:
    print(f"{'nodes':>7}{'GPUs':>9}{'build ms':>10}{'encode ms':>11}{'gzip ms':>9}{'JSON MB':>9}{'gzip MB':>9}"
          f"{'metrics ms':>12}{'series':>9}{'json/ours':>11}")  # fmt: skip
    for nodes in SIZES:
        snapshot, window = a_cluster(nodes)
        times = 5 if nodes < 5000 else 2

        def build(snapshot: ClusterSnapshot = snapshot, window: Window = window) -> Board:
            return build_board(
                cluster="bench", at=AT, window=window, snapshot=snapshot, findings=(), commands=(),
                mode=Mode.APPROVE, is_paused=False,
            )  # fmt: skip

        build_ms, board = fastest_ms(build, times)
        encode_ms, raw = fastest_ms(lambda board=board: Published(board=board, sequence=1).json, times)
        gzip_ms, packed = fastest_ms(lambda board=board: Published(board=board, sequence=1).gzip, 1)
        view = DaemonView(now=AT, board=board, window=window, facts=DaemonFacts())
        metrics_ms, (page, _) = fastest_ms(lambda view=view: daemon_exposition(view), 1)
        series = sum(1 for line in page.splitlines() if not line.startswith(b"#"))
        plain_ms, _ = fastest_ms(lambda board=board: plain_json(board), 1) if nodes < 5000 else (float("nan"), b"")
        print(f"{nodes:>7}{nodes * GPUS:>9}{build_ms:>10.1f}{encode_ms:>11.2f}{gzip_ms - encode_ms:>9.1f}"
              f"{len(raw) / 1e6:>9.2f}{len(packed) / 1e6:>9.2f}{metrics_ms:>12.1f}{series:>9}"
              f"{plain_ms / encode_ms:>11.1f}")  # fmt: skip


if __name__ == "__main__":
    main()
