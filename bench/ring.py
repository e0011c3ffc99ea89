"""What the ring costs: one report, one window, memory; at 1,250 and 12,500 nodes of 8 GPUs, and how it grows."""

from __future__ import annotations

import resource
import time
from datetime import UTC, datetime, timedelta

from trimtab.model.reading import Delivery, GpuInfo, GpuReading, Report
from trimtab.store.ring import RING_METRICS, Ring

START = datetime(2026, 11, 2, 9, tzinfo=UTC)
INTERVAL_SECONDS, SPAN_SECONDS, GPUS = 10.0, 300.0, 8
SIZES = (1_250, 12_500)


def a_delivery(node: int, tick: int) -> Delivery:
    values = {metric: float(tick % 7) + 0.5 for metric in RING_METRICS}
    values.update({f"other_{number}": 1.0 for number in range(26)})
    gpus = tuple(
        GpuReading(info=GpuInfo(uuid=f"GPU-{node}-{index}", index=index), values=values) for index in range(GPUS)
    )
    at = START + timedelta(seconds=tick * INTERVAL_SECONDS)
    report = Report(
        cluster="bench", node=f"gpu-{node}", boot_id="b", spool_id="s", sequence=tick, sampled_at=at, gpus=gpus
    )
    return Delivery(report=report, received_at=at)


def measure(nodes: int) -> tuple[float, float, float]:
    """Microseconds per report, milliseconds per window (both CPU), bytes of peak memory so far."""
    ring = Ring(cluster="bench", span_seconds=SPAN_SECONDS, interval_seconds=INTERVAL_SECONDS)
    ticks = int(SPAN_SECONDS / INTERVAL_SECONDS) + 5
    spent = 0.0
    for tick in range(ticks):
        batch = [a_delivery(node, tick) for node in range(nodes)]
        began = time.process_time()
        ring.add(batch)
        spent = time.process_time() - began  # the last tick: the ring is full and turns round
    at = START + timedelta(seconds=(ticks - 1) * INTERVAL_SECONDS)
    windows = []
    for _ in range(5):
        began = time.process_time()
        window = ring.window(at, span_seconds=SPAN_SECONDS, snapshot=None)
        windows.append(time.process_time() - began)
        assert len(window.gpus) == nodes * GPUS
        del window
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return spent / nodes * 1e6, sorted(windows)[2] * 1e3, peak_bytes


def main() -> None:
    print(f"ring of {SPAN_SECONDS:.0f} s at {INTERVAL_SECONDS:.0f} s, {len(RING_METRICS)} metrics, {GPUS} GPUs a node")
    print(f"{'nodes':>8} {'µs/report':>10} {'ms/window':>10} {'peak MiB':>9}")
    found = {}
    for nodes in SIZES:
        found[nodes] = measure(nodes)
        report_us, window_ms, peak_bytes = found[nodes]
        print(f"{nodes:>8} {report_us:>10.1f} {window_ms:>10.1f} {peak_bytes / 2**20:>9.0f}")
    small, large = (found[nodes] for nodes in SIZES)
    print(
        f"{SIZES[1] / SIZES[0]:.0f} times the nodes: a report costs {large[0] / small[0]:.2f} times as much, "
        f"a window {large[1] / small[1]:.1f} times"
    )
    share = large[0] * SIZES[1] / INTERVAL_SECONDS / 1e6 + large[1] / 1e3 / 5.0
    print(f"{SIZES[1] * GPUS:,} GPUs at one report in 10 s and one window in 5 s: {share:.0%} of one core")


if __name__ == "__main__":
    main()
