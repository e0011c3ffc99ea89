"""CPU and memory of reading a cluster: 1,000 nodes of 8 GPUs, 3,000 pods, 50 pod changes a second; beside a peer.

A local HTTPS server in its own process serves recorded objects; `--kubeconfig` reads a real cluster instead.
Ours: mirror, reader and one snapshot every 5 s, as the daemon does. Peer: lightkube's own typed list and watch of
nodes, pods and Jobs alone, kept in a dictionary, no snapshots. Each in a fresh process; its CPU is all that is counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SNAPSHOT_SECONDS = 5.0
CPU_BAR_SECONDS = 5.0
SHARE_BAR = 0.05
RSS_BAR_MIB = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--pods", type=int, default=3000)
    parser.add_argument("--rate", type=float, default=50.0, help="pod changes a second")
    parser.add_argument("--seconds", type=float, default=30.0, help="how long the steady state is measured")
    parser.add_argument("--kubeconfig", type=Path, help="a real cluster instead of the recorded one")
    parser.add_argument("--role", choices=("ours", "mirror", "peer"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.role:
        roles = {"ours": ours, "mirror": mirror_alone, "peer": peer}
        print(json.dumps(roles[asked.role](asked.kubeconfig, asked.seconds)))
        return 0
    with served(asked) as kubeconfig:
        found = {role: run(role, kubeconfig, asked.seconds) for role in ("ours", "mirror", "peer")}
    for role, one in found.items():
        print(
            f"{role:7} first {one['first_cpu_seconds']:.2f} s CPU ({one['first_wall_seconds']:.2f} s wall), "
            f"then {one['share']:.2%} of a core at {one['events_per_second']:.0f} events/s, "
            f"RSS {one['rss_mib']:.0f} MiB at its most, {one['rss_start_mib']:.0f} MiB after imports"
        )
    best, other = found["ours"], found["peer"]
    print(
        f"        snapshots: {best['snapshots']} at {best['snapshot_cpu_seconds']:.3f} s CPU each, "
        f"{best['workloads']} workloads, {best['nodes']} nodes; whole: {best['whole']}"
    )
    for role in ("ours", "mirror"):
        one = found[role]
        print(
            f"ratio   {role} / peer: first {one['first_cpu_seconds'] / other['first_cpu_seconds']:.2f}, "
            f"steady {one['share'] / max(other['share'], 1e-6):.2f}, RSS {one['rss_mib'] / other['rss_mib']:.2f}"
        )
    is_met = (
        best["first_cpu_seconds"] <= CPU_BAR_SECONDS and best["share"] <= SHARE_BAR and best["rss_mib"] <= RSS_BAR_MIB
    )
    print(f"bar     first <= {CPU_BAR_SECONDS:.0f} s CPU, <= {SHARE_BAR:.0%} of a core, <= {RSS_BAR_MIB} MiB:", end=" ")
    print("met" if is_met else "MISSED")
    return 0 if is_met or asked.kubeconfig else 1


@contextlib.contextmanager
def served(asked: argparse.Namespace) -> Iterator[Path]:
    if asked.kubeconfig:
        yield asked.kubeconfig
        return
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as folder:
        arguments = [str(asked.nodes), str(asked.pods), str(asked.rate), folder]
        command = [sys.executable, "-m", "apiserver.serve", *arguments]
        with subprocess.Popen(command, cwd=HERE, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            if not server.stdout.readline().strip():
                raise SystemExit("the server of recorded objects did not start")
            try:
                yield Path(folder) / "kubeconfig"
            finally:
                server.terminate()


def run(role: str, kubeconfig: Path, seconds: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--role", role, "--kubeconfig", str(kubeconfig), "--seconds", str(seconds)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def rss_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def ours(kubeconfig: Path, seconds: float) -> dict[str, Any]:
    return _ours(kubeconfig, seconds, has_reader=True)


def mirror_alone(kubeconfig: Path, seconds: float) -> dict[str, Any]:
    return _ours(kubeconfig, seconds, has_reader=False)


def _ours(kubeconfig: Path, seconds: float, *, has_reader: bool) -> dict[str, Any]:
    from trimtab import logs  # noqa: PLC0415 - imports are part of what is measured
    from trimtab.clock import SystemClock  # noqa: PLC0415
    from trimtab.schedulers.connect import connect  # noqa: PLC0415
    from trimtab.schedulers.mirror import Mirror  # noqa: PLC0415
    from trimtab.schedulers.reader import KubernetesReader  # noqa: PLC0415
    from trimtab.settings import KubernetesSettings  # noqa: PLC0415

    logs.setup(level="warning")
    settings = KubernetesSettings(kubeconfig=str(kubeconfig))
    clock = SystemClock()
    rss_start = rss_mib()
    cpu, wall = time.process_time(), time.monotonic()
    api = connect(settings)
    mirror = Mirror(connect(settings), settings, clock)
    reader = KubernetesReader(mirror, api=api, settings=settings, cluster="bench", clock=clock)
    mirror.start()
    while mirror.objects().why_not_whole is not None:
        if time.monotonic() - wall > 120:
            raise SystemExit(f"not whole: {mirror.objects().why_not_whole}")
        time.sleep(0.05)
    snapshot = reader.snapshot() if has_reader else None
    first_cpu, first_wall = time.process_time() - cpu, time.monotonic() - wall
    events = sum(one.events for one in mirror.counts().values())
    steady_cpu, steady_wall, snapshots, in_snapshots = time.process_time(), time.monotonic(), 0, 0.0
    while time.monotonic() - steady_wall < seconds:
        time.sleep(SNAPSHOT_SECONDS)
        if has_reader:
            begun = time.thread_time()
            snapshot = reader.snapshot()
            in_snapshots += time.thread_time() - begun
            snapshots += 1
    elapsed = time.monotonic() - steady_wall
    result = {
        "first_cpu_seconds": first_cpu,
        "first_wall_seconds": first_wall,
        "share": (time.process_time() - steady_cpu) / elapsed,
        "events_per_second": (sum(one.events for one in mirror.counts().values()) - events) / elapsed,
        "rss_mib": rss_mib(),
        "rss_start_mib": rss_start,
        "snapshots": snapshots,
        "snapshot_cpu_seconds": in_snapshots / max(snapshots, 1),
        "workloads": len(snapshot.workloads) if snapshot else 0,
        "nodes": len(snapshot.nodes) if snapshot else 0,
        "whole": mirror.objects().why_not_whole is None,
    }
    mirror.stop()
    api.close()
    return result


def peer(kubeconfig: Path, seconds: float) -> dict[str, Any]:
    from lightkube import Client, KubeConfig  # noqa: PLC0415 - as above
    from lightkube.resources.batch_v1 import Job  # noqa: PLC0415
    from lightkube.resources.core_v1 import Node, Pod  # noqa: PLC0415

    rss_start = rss_mib()
    cpu, wall = time.process_time(), time.monotonic()
    client = Client(config=KubeConfig.from_file(kubeconfig), trust_env=False)
    kept: dict[str, Any] = {}
    listed = 0

    def follow(kind: Any) -> None:
        nonlocal listed
        found = client.list(kind) if kind is Node else client.list(kind, namespace="*")
        for one in found:
            kept[one.metadata.uid] = one
        listed += 1
        options = {} if kind is Node else {"namespace": "*"}
        for event, one in client.watch(kind, resource_version=found.resourceVersion, server_timeout=600, **options):
            counts.append(1)
            if event == "DELETED":
                kept.pop(one.metadata.uid, None)
            else:
                kept[one.metadata.uid] = one

    counts: list[int] = []
    for kind in (Node, Pod, Job):
        threading.Thread(target=follow, args=(kind,), daemon=True).start()
    while listed < 3:
        time.sleep(0.05)
    first_cpu, first_wall = time.process_time() - cpu, time.monotonic() - wall
    events, steady_cpu, steady_wall = len(counts), time.process_time(), time.monotonic()
    time.sleep(seconds)
    elapsed = time.monotonic() - steady_wall
    return {
        "first_cpu_seconds": first_cpu,
        "first_wall_seconds": first_wall,
        "share": (time.process_time() - steady_cpu) / elapsed,
        "events_per_second": (len(counts) - events) / elapsed,
        "rss_mib": rss_mib(),
        "rss_start_mib": rss_start,
    }


if __name__ == "__main__":
    sys.exit(main())
