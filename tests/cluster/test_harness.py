"""What the harness promises of its processes: nothing outlives its run, and planes do not meet."""

from __future__ import annotations

import contextlib
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import build
from tests.cluster.client import wait_for
from tests.cluster.plane import Plane
from tests.cluster.processes import PORTS_IN_A_BLOCK, PortBlock

ROOT = Path(build.__file__).parents[2]


@contextlib.contextmanager
def a_plane_by_hand() -> Iterator[tuple[subprocess.Popen[str], Path, list[int]]]:
    """`python -m tests.cluster up`, its folder and the processes that it started."""
    command = [sys.executable, "-m", "tests.cluster", "up", "--racks", "0"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        said = ""
        while "Ctrl-C ends it" not in said:
            line = process.stdout.readline()
            assert line, f"it ended: {said}"
            said += line
        found = re.search(r"KUBECONFIG=(\S+)", said)
        assert found is not None
        try:
            yield process, Path(found[1]).parent, children_of(process.pid)
        finally:
            process.kill()


def children_of(pid: int) -> list[int]:
    """Processes that any thread of a process started."""
    threads = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for thread in threads for child in thread.read_text(encoding="ascii").split()]


def is_alive(pid: int) -> bool:
    """Whether it is there and more than an entry that nobody collected."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.long
def test_a_second_plane_runs_beside_the_first_and_goes_away_when_asked(plane: Plane) -> None:
    with a_plane_by_hand() as (process, folder, children):
        assert len(children) == 5
        assert plane.client.request("GET", "/readyz") == "ok"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
        assert not any(map(is_alive, children))
        assert not folder.exists()


def test_a_killed_run_leaves_no_process_and_the_next_one_removes_its_files(plane: Plane) -> None:
    with a_plane_by_hand() as (process, folder, children):
        process.kill()
        process.wait()
        wait_for(lambda: not any(map(is_alive, children)), "its processes gone")
        assert folder.exists()
    Plane(plane.binaries).stop()
    assert not folder.exists()
    assert plane.folder.exists()


def test_two_blocks_of_ports_never_meet(tmp_path: Path) -> None:
    first, second = PortBlock(tmp_path), PortBlock(tmp_path)
    ports = [[block.next() for _ in range(PORTS_IN_A_BLOCK)] for block in (first, second)]
    assert not set(ports[0]) & set(ports[1])
    with pytest.raises(StopIteration):
        first.next()
    first.close()
    second.close()
