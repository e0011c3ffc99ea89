"""The whole demo as people start it: three stories end well, on both engines; kill -9 of the daemon loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

STORIES = ["fallen_gpu", "slow_rank", "scattered"]
VERB = [sys.executable, "-c", "from trimtab.cli import main; main()", "demo"]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment in which the demo leaves the developer's own files alone."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(scratch)}


def shown_by(*arguments: str, home: dict[str, str]) -> tuple[dict[str, Any], str]:
    """The summary of a demo that ran to its end, and what it told meanwhile."""
    command = [*VERB, "--json", "--auto-approve", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=150, env=home, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), done.stderr


def check_stories(summary: dict[str, Any], told: str, *, seconds: float) -> None:
    assert [story["name"] for story in summary["stories"]] == STORIES
    for story in summary["stories"]:
        assert story["found_s"] is not None, told
        assert story["found_s"] <= story["recommended_s"] < story["settled_s"] < seconds, told
        assert story["gpu_hours_saved"] > story["gpu_hours_lost"] > 0
    assert summary["commands"]["settled"] >= 3
    assert summary["reports_lost"] == 0


def test_three_stories_are_found_answered_and_settled(home, tmp_path):
    summary, told = shown_by("--for", "45", home=home)
    assert list(summary) == ["stories", "reports_acknowledged", "reports_lost", "commands"]
    check_stories(summary, told, seconds=45)
    assert summary["reports_acknowledged"] > 1000
    assert not (tmp_path / "trimtab" / "client.toml").exists()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_the_same_on_postgresql(home, postgresql):
    database = postgresql.new_database()
    summary, told = shown_by("--for", "40", "--nodes", "12", "--database", database, home=home)
    check_stories(summary, told, seconds=40)


def test_kill_nine_of_the_daemon_twenty_times_loses_no_report_and_leaves_nothing_held(home):
    arguments = ("--for", "70", "--speed", "12", "--nodes", "8", "--kill-daemon", "20")
    summary, told = shown_by(*arguments, home=home)
    kills = summary["kills"]
    assert (kills["done"], kills["restarts"]) == (20, 20), told
    assert kills["under_way"] >= 1, told
    assert kills["left_behind"] == [], told
    assert summary["reports_acknowledged"] > 300
    assert summary["reports_lost"] == 0
    assert all(story["found_s"] is not None for story in summary["stories"]), told


def test_ctrl_c_ends_it_cleanly_with_a_summary(home, tmp_path):
    process = subprocess.Popen(
        [*VERB, "--nodes", "8"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=home
    )
    killer = threading.Timer(60.0, process.kill)
    killer.start()
    assert process.stdout is not None
    lines = []
    with process.stdout as told:
        for line in told:
            lines.append(line)
            if "fallen_gpu:" in line and "story" in line:
                assert (tmp_path / "trimtab" / "client.toml").exists()
                process.send_signal(signal.SIGINT)
                break
        rest = told.read()
    assert process.wait(30) == 0
    killer.cancel()
    assert lines[0].startswith("The page, opened by a link that works once:  http://127.0.0.1:")
    assert "trimtab approve R1" in "".join(lines)
    assert "0 of them lost" in rest
    assert not (tmp_path / "trimtab" / "client.toml").exists()
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--nodes", "7"], "7 is not in the range"),
        (["--speed", "0"], "0.0 is not in the range"),
        (["--database", "mysql://x/y", "--for", "5"], "mysql"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(arguments, sentence, home):
    done = subprocess.run([*VERB, *arguments], capture_output=True, text=True, timeout=60, env=home, check=False)
    assert done.returncode == 2
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
