"""The whole demo as people start it: three stories end well; kill -9 loses nothing and leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import requests
from tests import postgres
from tests.system.processes import eventually

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


class Running:
    """A demo that was started, read line by line; it is ended however the test ends."""

    def __init__(self, *arguments: str, home: dict[str, str]) -> None:
        self.lines: list[str] = []
        self.scratch = Path(home["TMPDIR"])
        self.client_file = Path(home["XDG_STATE_HOME"]) / "trimtab" / "client.toml"
        self.process = subprocess.Popen(
            [*VERB, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=home
        )
        self._killer = threading.Timer(180.0, self.process.kill)

    def __enter__(self) -> Running:
        self._killer.start()
        return self

    def __exit__(self, *_ignored: object) -> None:
        self._killer.cancel()
        self.process.kill()
        self.process.communicate()

    @property
    def told(self) -> str:
        return "".join(self.lines)

    def read_until(self, is_enough: Callable[[], object], *, on_stderr: bool = False) -> None:
        stream = self.process.stderr if on_stderr else self.process.stdout
        assert stream is not None
        while not is_enough():
            line = stream.readline()
            assert line, self.told
            self.lines.append(line)

    def count(self, word: str) -> int:
        return sum(line.split()[2:3] == [word] for line in self.lines)

    def address(self, name: str) -> str:
        found = re.search(rf"^{name}:  (http://127\.0\.0\.1:\d+)", self.told, re.MULTILINE)
        assert found, self.told
        return found[1]

    def interrupt(self) -> tuple[str, str]:
        """Ctrl-C; what it still says, on both streams."""
        self.process.send_signal(signal.SIGINT)
        said = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, said
        return said

    def children(self) -> list[str]:
        """Processes that work in its scratch folder."""
        return [line for line in command_lines() if str(self.scratch) in line]


def command_lines() -> Iterator[str]:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        yield line


def has_servers() -> bool:
    return all(shutil.which(name) for name in ("prometheus", "prometheus-alertmanager"))


def test_three_stories_are_found_paged_answered_and_settled_with_all_servers_beside_them(home):
    """One run shows all of it, and is ended as soon as it has: how long that takes is the machine's business."""
    with Running("--json", "--auto-approve", home=home) as demo:

        def is_all_told() -> bool:
            chain = not has_servers() or "TrimtabAlwaysFiring arrived" in demo.told
            commands = demo.told.count("  settled after ")
            return min(demo.count("settled"), commands) >= 3 and demo.count("closed") >= 1 and chain

        demo.read_until(is_all_told, on_stderr=True)
        if has_servers():
            check_servers(demo)
        stdout, _stderr = demo.interrupt()
        assert demo.children() == []
    summary = json.loads(stdout)
    assert list(summary) == ["stories", "reports_acknowledged", "reports_lost", "commands"]
    check_stories(summary, demo.told, seconds=180)
    assert all(story["paged_s"] >= story["found_s"] - 1.0 for story in summary["stories"]), demo.told
    assert summary["reports_acknowledged"] > 500
    assert not demo.client_file.exists()
    assert list(demo.scratch.iterdir()) == []


def check_servers(demo: Running) -> None:
    """Prometheus scrapes this daemon and has our rules; findings that the outbox pages fire nothing there."""
    prometheus, alertmanager = demo.address("Prometheus"), demo.address("Alertmanager")
    up = eventually(lambda: asked(f"{prometheus}/api/v1/query?query=max(trimtab_cluster_gpus_reporting)")["result"])
    assert 180 <= float(up[0]["value"][1]) <= 192
    peers = asked(f"{prometheus}/api/v1/alertmanagers")["activeAlertmanagers"]
    assert [peer["url"] for peer in peers] == [f"{alertmanager}/api/v2/alerts"]
    fired = {alert["labels"]["alertname"] for alert in asked(f"{prometheus}/api/v1/alerts")["alerts"]}
    assert "TrimtabAlwaysFiring" in fired
    assert not fired & {"TrimtabDeviceFault", "TrimtabWaitingForPlacement"}


def asked(url: str) -> Any:
    answer = requests.get(url, timeout=30)
    answer.raise_for_status()
    return answer.json()["data"]


@pytest.mark.long
def test_the_same_on_postgresql(home, postgresql):
    database = postgresql.new_database()
    summary, told = shown_by("--for", "60", "--nodes", "12", "--no-servers", "--database", database, home=home)
    check_stories(summary, told, seconds=60)


@pytest.mark.parametrize(
    ("kills", "arguments"),
    [
        (8, ("--for", "34", "--speed", "24")),
        pytest.param(20, ("--for", "70", "--speed", "12"), marks=pytest.mark.long),
    ],
)
def test_kill_nine_of_the_daemon_loses_no_report_and_leaves_nothing_held(home, kills, arguments):
    summary, told = shown_by(*arguments, "--nodes", "8", "--no-servers", "--kill-daemon", str(kills), home=home)
    found = summary["kills"]
    assert (found["done"], found["restarts"]) == (kills, kills), told
    assert found["under_way"] >= 1, told
    assert found["left_behind"] == [], told
    assert summary["reports_acknowledged"] > 200
    assert summary["reports_lost"] == 0
    assert all(story["found_s"] is not None for story in summary["stories"]), told


def test_two_demos_start_at_once_and_end_cleanly_by_ctrl_c_and_by_kill_nine(home, tmp_path, request):
    """The first is on PostgreSQL, where there is one. Nothing that they started outlives them."""
    other_home = {**home, "XDG_STATE_HOME": str(tmp_path / "other"), "TMPDIR": str(tmp_path / "other" / "scratch")}
    Path(other_home["TMPDIR"]).mkdir(parents=True)
    database = () if postgres.why_missing() else ("--database", request.getfixturevalue("postgresql").new_database())
    with (
        Running("--nodes", "8", *database, home=home) as one,
        Running("--nodes", "8", "--no-servers" if not has_servers() else "--keep", home=other_home) as other,
    ):
        for demo in (one, other):
            demo.read_until(lambda demo=demo: "fallen_gpu:" in demo.told)
            assert re.search(
                r"^The page, opened by a link that works once:  http://127.0.0.1:\d+/", demo.told, re.MULTILINE
            )
            assert "trimtab approve R1" in demo.told
            assert demo.client_file.exists()
            assert len(demo.children()) == (3 if has_servers() else 1)
        stdout, _stderr = one.interrupt()
        assert "0 of them lost" in stdout
        assert one.children() == []
        assert not one.client_file.exists()
        assert list(one.scratch.iterdir()) == []
        other.process.kill()
        other.process.wait(30)
        eventually(lambda: other.children() == [], said=other.children)


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
