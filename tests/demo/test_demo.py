"""The whole demo as people start it: three stories end well, on both engines; kill -9 of the daemon loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from tests import postgres

from trimtab.demo.ground import Options
from trimtab.demo.supervisor import Result, run
from trimtab.service import Service

STORIES = ["fallen_gpu", "slow_rank", "scattered"]
VERB = [sys.executable, "-c", "from trimtab.cli import main; main()", "demo"]


@pytest.fixture
def home(tmp_path: Path) -> dict[str, str]:
    """An environment in which the demo leaves the developer's own files alone."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return {**os.environ, "XDG_STATE_HOME": str(tmp_path), "TMPDIR": str(scratch)}


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_three_stories_are_found_answered_and_settled(engine, home, tmp_path, request):
    arguments = ["--for", "45", "--auto-approve", "--json"]
    if engine == "postgresql":
        server: postgres.PostgresServer = request.getfixturevalue("postgresql")
        arguments += ["--database", server.new_database()]
    done = subprocess.run([*VERB, *arguments], capture_output=True, text=True, timeout=120, env=home, check=False)
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert list(summary) == ["stories", "reports_acknowledged", "reports_lost", "commands"]
    assert [story["name"] for story in summary["stories"]] == STORIES
    for story in summary["stories"]:
        assert story["found_s"] is not None, done.stderr
        assert story["found_s"] <= story["recommended_s"] < story["settled_s"] < 45, done.stderr
        assert story["gpu_hours_saved"] > story["gpu_hours_lost"] > 0
    assert summary["commands"]["settled"] >= 3
    assert summary["reports_acknowledged"] > 1000
    assert summary["reports_lost"] == 0
    assert not (tmp_path / "trimtab" / "client.toml").exists()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_kill_nine_of_the_daemon_twenty_times_loses_no_report_and_leaves_nothing_held(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    told: list[str] = []
    options = Options(speed=12.0, nodes=8, is_auto_approved=True, for_seconds=70.0, kill_daemon=20)
    result: Result = run(options, say=told.append, service=Service())
    story = "\n".join(told)
    assert (result.daemon_kills, result.daemon_restarts) == (20, 20), story
    assert result.kills_under_way >= 1, story
    assert result.summary.reports_acknowledged > 300
    assert result.summary.reports_lost == 0
    assert result.left_behind == (), story
    assert all(each.found_s is not None for each in result.summary.stories), story


def test_ctrl_c_ends_it_cleanly_with_a_summary(home, tmp_path):
    process = subprocess.Popen(
        [*VERB, "--nodes", "8"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=home
    )
    killer = threading.Timer(60.0, process.kill)
    killer.start()
    assert process.stdout is not None
    lines = []
    for line in process.stdout:
        lines.append(line)
        if "fallen_gpu:" in line and "story" in line:
            assert (tmp_path / "trimtab" / "client.toml").exists()
            process.send_signal(signal.SIGINT)
            break
    rest = process.stdout.read()
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
