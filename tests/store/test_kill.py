"""kill -9 at any point loses nothing that was acknowledged."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

from tests.fakes.clock import START

from trimtab.store.database import open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal

ROOT = Path(__file__).parent.parent.parent
KILLS = 5


def run_and_kill(url: str, directory: Path, first: int, *, after_lines: int, after_seconds: float) -> set[int]:
    """What the process acknowledged before it was killed: after some lines, then at a random moment."""
    command = [sys.executable, "-m", "tests.store.appender", url, str(directory), str(first)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'daemon'}{os.pathsep}{ROOT}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(after_lines)]
        try:
            process.wait(after_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    whole = [line for line in lines if line.endswith("\n")]
    return {int(number) for line in whole for number in line.split()}


def test_what_was_acknowledged_is_there_after_kill_9(database_url: str, tmp_path: Path) -> None:
    chance = random.Random(9)
    acknowledged: set[int] = set()
    first = 1
    for _ in range(KILLS):
        found = run_and_kill(
            database_url, tmp_path, first, after_lines=chance.randint(1, 4), after_seconds=chance.uniform(0, 0.05)
        )
        assert found
        acknowledged |= found
        # The agent does not know what became of the batch under way and sends it again, from what it knows.
        first = max(acknowledged) + 1
    database = open_database(database_url, state_directory=tmp_path)
    kept = [delivery.report.sequence for delivery in Journal(database).tail(START)]
    lines = [event.event.text for event in History(database, cluster="hall-a").events(START)]
    database.close()
    assert len(kept) == len(set(kept))
    assert acknowledged <= set(kept)
    assert sorted(lines) == sorted(f"line {number}" for number in kept)  # a report and its events, or neither
