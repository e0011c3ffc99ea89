"""`python -m tests.cluster up`: the test control plane by hand, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal
import sys
import threading

from tests.cluster import build
from tests.cluster.plane import Plane
from tests.cluster.space import FLAT, TAS, Space


def main() -> int:
    """Build if needed, boot, say how to reach it, wait, and leave nothing behind."""
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=__doc__)
    parser.add_argument("command", choices=["up"])
    parser.add_argument("--racks", type=int, default=2, help="racks to make (0: no nodes and queues)")
    parser.add_argument("--nodes", type=int, default=5, help="nodes of 8 GPUs in each")
    arguments = parser.parse_args()
    if reason := build.why_not():
        print(reason, file=sys.stderr)
        return 1
    plane = Plane.boot(build.build())
    try:
        _describe(plane, arguments.racks, arguments.nodes)
        _wait_for_the_end()
    finally:
        plane.stop()
    return 0


def _describe(plane: Plane, racks: int, nodes: int) -> None:
    sizes = ", ".join(f"{name} {size >> 20}" for name, size in plane.rss_bytes().items())
    print(f"up after {plane.boot_seconds['total']:.1f} s at {plane.url}; RSS in MiB: {sizes}")
    print(f"  export KUBECONFIG={plane.admin_kubeconfig}")
    print(f"  logs: {plane.folder}/*.log")
    if racks:
        space = Space(plane.client, prefix="hand")
        space.add_racks(racks=racks, nodes_per_rack=nodes)
        print(f"  namespace {space.namespace}: {racks * nodes} nodes, LocalQueues {TAS} and {FLAT}")
    print("Ctrl-C ends it", flush=True)


def _wait_for_the_end() -> None:
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()


if __name__ == "__main__":
    sys.exit(main())
