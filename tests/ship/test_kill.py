"""kill -9 of the agent's half at random moments, with and without a daemon: everything arrives, once, in order."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from tests.fakes.clock import FakeClock
from tests.fakes.ingest import Ingest, ingest

from trimtab.ship.sender import Sender
from trimtab.ship.spool import Spool

ROOT = Path(__file__).parent.parent.parent
LINES_MIN = 8


def run_and_kill(directory: Path, url: str, token: str, *, after_seconds: float) -> list[int]:
    """The sequences that the agent said it kept before it was killed."""
    command = [sys.executable, "-m", "tests.ship.shipper", str(directory), url, token]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'daemon'}{os.pathsep}{ROOT}"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT, env=environment
    ) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(LINES_MIN)]
        try:
            process.wait(after_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    return [int(line) for line in lines if line.endswith("\n")]


def drain(spool: Spool, daemon: Ingest, token: str) -> list[int]:
    """What the daemon hears from the process that goes on with this spool, in the order it came."""
    clock = FakeClock()
    sender = Sender(spool=spool, urls=[daemon.url], token=token, clock=clock)
    already = len(daemon.arrivals)
    for _ in range(1000):
        if spool.waiting == 0:
            break
        clock.advance(10.0)
        sender.tick()
    return daemon.arrivals[already:]


def test_kill_9_of_the_agent_and_outages_lose_nothing_and_keep_the_order(tmp_path: Path) -> None:
    chance = random.Random(11)
    directory = tmp_path / "spool"
    said: list[int] = []
    with ingest(tmp_path) as first:
        token, port = first.a_token(), first.port
        for _ in range(4):
            said += run_and_kill(directory, first.url, token, after_seconds=chance.uniform(0, 0.1))
    for _ in range(2):  # nobody listens
        said += run_and_kill(directory, f"http://127.0.0.1:{port}", token, after_seconds=chance.uniform(0, 0.1))
    with ingest(tmp_path) as second:
        second.kept.update(first.kept)
        said += run_and_kill(directory, second.url, token, after_seconds=chance.uniform(0, 0.05))
    # A third one: what the killed process had sent last may still be on its way to the second.
    with ingest(tmp_path) as third:
        third.kept.update(second.kept)
        spool = Spool(directory, 64 * 1024 * 1024)
        replayed = drain(spool, third, token)
        arrived = sorted(sequence for _, _, sequence in third.kept)
        spool.close()
    assert said == sorted(set(said))  # no sequence was given twice, whatever happened in between
    assert set(said) <= set(arrived)
    assert arrived == list(range(1, len(arrived) + 1))  # nothing is missing, and the store keeps each once
    assert replayed == sorted(replayed)
    assert (spool.dropped_total, spool.damaged_total, spool.set_aside_total) == (0, 0, 0)
