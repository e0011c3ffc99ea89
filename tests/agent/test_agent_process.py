"""`trimtab agent` as a process: it finds the stand-in driver through the loader, as it would find the real one."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.standin.driver import Driver

ROOT = Path(__file__).parent.parent.parent
TRIMTAB = (sys.executable, "-c", "from trimtab.cli import main; main()")
SECONDS_MAX = 30.0


def environment(driver: Driver | None, **more: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    return {**kept, **(driver.environment() if driver else {}), "PYTHONPATH": str(ROOT / "daemon"), **more}


def trimtab(*arguments: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*TRIMTAB, *arguments], env=env, capture_output=True, text=True, timeout=SECONDS_MAX, check=False
    )


def test_once_print_shows_one_report_and_writes_nothing(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    driver["2.lost"] = 1
    done = trimtab("agent", "--once", "--print", env=environment(driver))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert [gpu["state"] for gpu in report["gpus"]] == ["ok"] * 7  # the eighth was never seen: no UUID to name it by
    assert (report["gpus_expected"], report["errors"]["gpu 2"].startswith("GPU 2: ")) == (8, True)
    assert report["gpus"][0]["values"]["sm_active_ratio"] == 0.825
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fleet.txt"]


def test_a_laptop_without_a_driver_gets_a_report_that_says_what_to_install(tmp_path: Path) -> None:
    settings = tmp_path / "agent.toml"
    settings.write_text('nvml_library = "/nonexistent/libnvidia-ml.so.1"\n')
    done = trimtab("agent", "--settings", str(settings), "--once", "--print", env=environment(None))
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["gpus"] == []
    assert "nvml_library" in report["errors"]["nvml"]


def test_a_misspelt_setting_is_named_and_nothing_starts(tmp_path: Path) -> None:
    settings = tmp_path / "agent.toml"
    settings.write_text("intervall_seconds = 5\n")
    done = trimtab("agent", "--settings", str(settings), env=environment(None))
    assert done.returncode == 2
    assert "intervall_seconds" in done.stderr


class Running:
    """An agent at 10 Hz that prints its reports."""

    def __init__(self, tmp_path: Path, driver: Driver, **more: str) -> None:
        settings = tmp_path / "agent.toml"
        settings.write_text(
            f'node = "gpu-00"\ninterval_seconds = 0.1\nkernel_log = "none"\nmetrics_listen = ""\n'
            f'spool_directory = "{tmp_path / "spool"}"\n'
        )
        self.process = subprocess.Popen(
            [*TRIMTAB, "agent", "--settings", str(settings), "--print"],
            env=environment(driver, **more),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def reports(self) -> Iterator[dict[str, Any]]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield json.loads(line)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
            self.process.communicate(timeout=SECONDS_MAX)
        for pipe in (self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()
        return self.process.returncode


@pytest.fixture
def live_driver(tmp_path: Path) -> Driver:
    return Driver(tmp_path)


@pytest.fixture
def run(tmp_path: Path, live_driver: Driver) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def start(**more: str) -> Running:
        started.append(Running(tmp_path, live_driver, **more))
        return started[-1]

    yield start
    for running in started:
        running.end(signal.SIGKILL)


def until_lost(running: Running) -> dict[str, Any]:
    return next(report for report in running.reports() if any(gpu["state"] == "lost" for gpu in report["gpus"]))


def test_a_gpu_lost_live_is_said_once_over_a_kill_and_a_restart(
    live_driver: Driver, run: Callable[..., Running]
) -> None:
    running = run()
    first = next(running.reports())
    live_driver["3.lost"] = 1
    lost = until_lost(running)
    assert [event["kind"] for event in lost["events"]] == ["gpu_lost"]
    running.end(signal.SIGKILL)
    again = run()
    report = next(again.reports())
    assert [gpu["state"] for gpu in report["gpus"]].count("lost") == 1
    assert report["events"] == []  # it was said before
    assert report["sequence"] > lost["sequence"] > first["sequence"]
    assert (report["spool_id"], again.end()) == (first["spool_id"], 0)


def test_sigterm_ends_it_cleanly_even_while_a_gpu_hangs(live_driver: Driver, run: Callable[..., Running]) -> None:
    running = run()
    next(running.reports())
    live_driver["3.hang"] = 120
    hung = next(report for report in running.reports() if "gpu 3" in report["errors"])
    assert hung["errors"]["gpu 3"].startswith("GPU 3 does not answer since ")
    assert [gpu["state"] for gpu in hung["gpus"]].count("ok") == 7
    assert running.end() == 0


def test_systemd_hears_that_it_is_ready_that_it_lives_and_that_it_stops(
    tmp_path: Path, run: Callable[..., Running]
) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.settimeout(SECONDS_MAX)
        running = run(NOTIFY_SOCKET=str(tmp_path / "notify"))
        heard: list[str] = []
        status = "STATUS=8 GPUs read; no daemon_urls are set"
        while not ({"READY=1", "WATCHDOG=1"} <= set(heard) and any(line.startswith(status) for line in heard)):
            heard += listener.recv(4096).decode().split("\n")
        running.process.send_signal(signal.SIGTERM)
        while "STOPPING=1" not in heard:
            heard += listener.recv(4096).decode().split("\n")
    assert running.end() == 0
