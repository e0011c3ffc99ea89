"""Two daemons and more, one Lease, on the real API server: killed and frozen, and never two of them write at once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests.cluster.client import wait_for
from tests.cluster.lease_writer import REQUEST_SECONDS, TARGET
from tests.cluster.plane import Plane

TAKEOVERS = 50 if os.environ.get("TRIMTAB_LONG") else 8
ROOT = Path(__file__).parents[2]


class Writers:
    """Three writers at a time; one that is killed is replaced."""

    def __init__(self, plane: Plane, namespace: str, folder: Path) -> None:
        self.plane, self.namespace, self.folder = plane, namespace, folder
        self.alive: dict[str, subprocess.Popen[bytes]] = {}
        self.count = 0

    def add(self) -> None:
        self.count += 1
        name = f"w{self.count}"
        command = [sys.executable, "-m", "tests.cluster.lease_writer", str(self.plane.admin_kubeconfig)]
        paths = os.pathsep.join((str(ROOT), str(ROOT / "daemon")))
        with (self.folder / f"{name}.err").open("wb") as errors:
            self.alive[name] = subprocess.Popen(
                [*command, self.namespace, name, str(self.folder / f"{name}.jsonl")],
                env={**os.environ, "PYTHONPATH": paths},
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )

    def kill(self, name: str) -> None:
        process = self.alive.pop(name)
        process.kill()
        process.wait()
        self.add()

    def signal(self, name: str, number: signal.Signals) -> None:
        self.alive[name].send_signal(number)

    def stop(self) -> None:
        for process in self.alive.values():
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()

    @property
    def entries(self) -> list[dict[str, Any]]:
        """What all of them wrote, in the server's order. The last line of one that was killed may be cut."""
        found = []
        for path in self.folder.glob("*.jsonl"):
            whole = path.read_text(encoding="utf-8").splitlines(keepends=True)
            found += [json.loads(line) for line in whole if line.endswith("\n")]
        return sorted(found, key=lambda one: one["version"])


@contextmanager
def writers(plane: Plane, namespace: str, folder: Path) -> Iterator[Writers]:
    made = Writers(plane, namespace, folder)
    for _ in range(3):
        made.add()
    try:
        yield made
    finally:
        made.stop()


def holder(plane: Plane, namespace: str) -> str:
    """Who signed last: not only holds the Lease, but writes."""
    return plane.client.get("configmaps", TARGET, namespace).get("data", {}).get("who", "")


def check(entries: list[dict[str, Any]]) -> None:
    """Epochs never go back in the server's own order, each has one writer, and no two writers' writes overlap.

    A write is over, one way or the other, when the longest request is: the next writer must not have begun before.
    """
    who_by_epoch: dict[int, set[str]] = {}
    for before, after in pairwise(entries):
        assert before["epoch"] <= after["epoch"], (before, after)
        if before["who"] != after["who"]:
            assert before["since"] + REQUEST_SECONDS <= after["since"], (before, after)
    for one in entries:
        who_by_epoch.setdefault(one["epoch"], set()).add(one["who"])
    assert all(len(names) == 1 for names in who_by_epoch.values())


def test_never_two_writers_in_many_take_overs(plane: Plane, tmp_path: Path) -> None:
    namespace = "lease-test"
    plane.client.create("namespaces", {"metadata": {"name": namespace}})
    plane.client.create("configmaps", {"metadata": {"name": TARGET, "namespace": namespace}}, namespace)
    frozen: str | None = None
    with writers(plane, namespace, tmp_path) as made:
        wait_for(lambda: holder(plane, namespace) in made.alive, "a first writer")
        for number in range(TAKEOVERS):
            was = holder(plane, namespace)
            if number % 2:
                made.signal(was, signal.SIGSTOP)
            else:
                made.kill(was)
            wait_for(lambda was=was: holder(plane, namespace) not in ("", was), f"take-over {number} from {was}")
            if frozen is not None and frozen in made.alive:
                made.signal(frozen, signal.SIGCONT)
            frozen = was if number % 2 else None
        if frozen is not None:
            made.signal(frozen, signal.SIGCONT)
        last = holder(plane, namespace)
        seen = len(made.entries)
        wait_for(lambda: len(made.entries) > seen + 20, f"{last} or another goes on writing")
        entries = made.entries
    check(entries)
    changes = sum(1 for one, other in pairwise(entries) if one["who"] != other["who"])
    print(f"{changes} take-overs, {len(entries)} writes, {len({one['epoch'] for one in entries})} epochs")
    assert changes >= TAKEOVERS
