"""kill -9 of a node at every step of joining and renewing: neither lost nor burnt, and one credential in the end."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.enrol.desk import Office
from tests.enrol.gate import Gate

from trimtab import pki
from trimtab.clock import SystemClock
from trimtab.ship.keyring import Keyring

ROOT = Path(__file__).parent.parent.parent
STEPS_MAX = 40


@pytest.fixture
def gate(office: Office, tmp_path: Path) -> Iterator[Gate]:
    """With a CA of its own, so that there are more files to write."""
    authority = pki.Authority.make(cluster="hall-a", clock=SystemClock())
    pair = authority.issue_server(["127.0.0.1"])
    (tmp_path / "server.pem").write_bytes(pair.certificate_pem)
    (tmp_path / "server.key").write_bytes(pair.key_pem)
    opened = Gate(office, authority=authority, server=(tmp_path / "server.pem", tmp_path / "server.key"))
    yield opened
    opened.close()


class Nodes:
    """Starts a process a life, from one that has imported everything."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("joiner.py"))],
            env={"PYTHONPATH": str(ROOT / "daemon"), "PATH": os.environ["PATH"]},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, directory: Path, token: str, *, die_at: int = 0, what: str = "join") -> int:
        """One life; 0 when it did what it should, -9 when it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        life = {"url": self._gate.url, "directory": str(directory), "node": directory.name, "token": token}
        self._process.stdin.write(json.dumps({**life, "die_at": die_at, "what": what}) + "\n")
        self._process.stdin.flush()
        while not (said := self._process.stdout.readline().strip()).lstrip("-").isdecimal():
            assert said, "the nodes' process ended"  # what else it prints is its log
        assert int(said) in (0, -signal.SIGKILL)
        return int(said)

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30.0)
        self._process.stdout.close()


def story(gate: Gate, nodes: Nodes, home: Path, die_at: int) -> tuple[int, int]:
    """One node that is killed at this step of its join, then at this step of its renewal; the exit codes."""
    node = f"gpu-{die_at:02}"
    directory = home / node
    token = gate.registrar.invite([node], by="anna")[0].token
    joined = nodes.run(directory, token, die_at=die_at)
    if joined:
        assert nodes.run(directory, token) == 0
    first = Keyring(directory).kept
    assert first is not None
    assert gate.enrolled.node_of(first.token) == node
    gate.sync()
    renewed = nodes.run(directory, token, die_at=die_at, what="renew")
    # Killed or not, what is on disk lets it in; an agent that starts again goes on where it was.
    held = Keyring(directory).kept
    assert held is not None
    assert gate.enrolled.node_of(held.token) == node
    gate.sync()
    assert nodes.run(directory, token, what="renew") == 0
    last = Keyring(directory).kept
    assert last is not None
    assert last.token != first.token
    assert gate.enrolled.node_of(last.token) == node
    assert (Path(Keyring(directory).client_file)).exists()
    gate.sync()
    assert gate.enrolled.node_of(first.token) is None
    return joined, renewed


def test_a_node_that_is_killed_at_any_step_is_enrolled_once_and_lets_nobody_in_by_the_old(
    gate: Gate, tmp_path: Path
) -> None:
    ends: dict[int, tuple[int, int]] = {}
    nodes = Nodes(gate)
    try:
        for step in range(1, STEPS_MAX):
            ends[step] = story(gate, nodes, tmp_path, step)
            if ends[step] == (0, 0):
                break
    finally:
        nodes.close()
    killed = [step for step, (joined, _) in ends.items() if joined]
    assert killed == list(range(1, len(killed) + 1))  # every step up to the last was one of death
    assert len(killed) >= 12
    assert ends[max(ends)] == (0, 0)
    good = [one for one in gate.office.facts.credentials() if one.ended_at is None]
    assert len(good) == len(ends)
    assert {one.node for one in good} == {f"gpu-{step:02}" for step in ends}
    print(f"{len(killed)} instants of a join, {sum(bool(renewed) for _, renewed in ends.values())} of a renewal")
