"""Reload: what can be is in force at once, the rest is named; what cannot be used changes nothing. Real processes."""

from __future__ import annotations

import os
import queue
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from tests.fakes.clock import FakeClock
from tests.standin.driver import Driver
from tests.system.processes import Agent, Daemon, eventually

from trimtab.errors import SettingsError, StoreError
from trimtab.model.command import AuditLine
from trimtab.reloading import Part, Reloaded, Reloader
from trimtab.settings import DaemonSettings, from_table

SECONDS_MAX = 60.0


def settings(**tables: object) -> DaemonSettings:
    return from_table(dict(tables), DaemonSettings, where="test")


class Scene:
    """A reloader over two parts, and what they were given."""

    def __init__(self, start: DaemonSettings) -> None:
        self.file: DaemonSettings | SettingsError = start
        self.taken: list[tuple[str, object]] = []
        self.told: list[Reloaded] = []
        self.refuses: Exception | None = None
        self.reloader = Reloader(
            start,
            read=self._read,
            parts=[
                Part(keys=("plan",), prepare=lambda new: lambda: self.taken.append(("plan", new.plan.moves_max))),
                Part(keys=("issue.mode", "oncall.routes"), prepare=self._prepare),
            ],
            clock=FakeClock(),
            told=self.told.append,
        )

    def _read(self) -> DaemonSettings:
        if isinstance(self.file, SettingsError):
            raise self.file
        return self.file

    def _prepare(self, new: DaemonSettings):
        if self.refuses is not None:
            raise self.refuses
        return lambda: self.taken.append(("mode", new.issue.mode.value))


def test_each_changed_key_is_in_force_or_waits_for_a_restart():
    scene = Scene(settings())
    scene.file = settings(plan={"moves_max": 2}, people={"listen": "127.0.0.1:1"}, cluster="other")
    found = scene.reloader.reload()
    assert (found.in_force, found.waiting) == (("plan.moves_max",), ("cluster", "people.listen"))
    assert scene.taken == [("plan", 2)]
    now = scene.reloader.settings
    assert (now.plan.moves_max, now.cluster, now.people.listen) == (2, "default", "127.0.0.1:9740")
    assert found.sentence == (
        "Settings reloaded; in force now: plan.moves_max; needs a restart: cluster, people.listen."
    )


def test_what_waits_is_said_until_the_file_says_again_what_is_in_force():
    scene = Scene(settings())
    scene.file = settings(people={"listen": "127.0.0.1:1"})
    assert scene.reloader.reload().waiting == ("people.listen",)
    assert scene.reloader.reload().waiting == ("people.listen",)
    scene.file = settings()
    assert scene.reloader.reload().sentence == "Settings reloaded: nothing in them has changed."
    assert scene.reloader.waiting == ()


def test_a_broken_file_changes_nothing_and_is_said_until_it_is_mended():
    scene = Scene(settings())
    scene.file = SettingsError("daemon.toml: not TOML: line 3")
    found = scene.reloader.reload()
    assert not found.is_ok
    assert scene.reloader.trouble == "Settings not reloaded, those in force stay: daemon.toml: not TOML: line 3"
    assert (scene.taken, scene.reloader.failures_total) == ([], 1)
    scene.file = settings(plan={"moves_max": 1})
    scene.reloader.reload()
    assert (scene.reloader.trouble, scene.taken) == ("", [("plan", 1)])
    assert [one.is_ok for one in scene.told] == [False, True]


def test_all_parts_are_prepared_before_any_is_changed():
    scene = Scene(settings())
    scene.file = settings(plan={"moves_max": 2}, issue={"mode": "act"})
    scene.refuses = SettingsError("issue.mode: not with these rights")
    assert scene.reloader.reload().error == "issue.mode: not with these rights"
    assert scene.taken == []
    assert scene.reloader.settings == settings()


def test_a_defect_of_a_part_ends_no_process_that_reloads():
    scene = Scene(settings())
    scene.file = settings(plan={"moves_max": 2}, issue={"mode": "act"})
    scene.refuses = KeyError("gone")
    assert scene.reloader.reload().error == "a defect (KeyError: 'gone'); its traceback is in the log"
    assert (scene.taken, scene.reloader.failures_total) == ([], 1)
    scene.refuses = None
    assert scene.reloader.reload().is_ok


def test_a_database_that_is_away_ends_no_process_that_reloads():
    def away(_found: Reloaded) -> None:
        raise StoreError("the database is away")

    start = settings()
    reloader = Reloader(start, read=lambda: settings(cluster="b"), parts=[], clock=FakeClock(), told=away)
    assert reloader.reload().waiting == ("cluster",)


def test_what_a_key_names_is_read_again_though_the_key_is_the_same():
    taken: list[str] = []
    part: Part[DaemonSettings] = Part(
        keys=("people.metrics_token_file",), prepare=lambda _new: lambda: taken.append("read"), is_always_due=True
    )
    found = Reloader(settings(), read=settings, parts=[part], clock=FakeClock()).reload()
    assert (taken, found.changes) == (["read"], ())


@pytest.fixture
def daemon(tmp_path: Path):
    """A daemon that tells us what it would tell systemd."""
    made = Daemon(tmp_path)
    yield made
    made.hang_up()
    made.close()


class Manager:
    """Hears what a service tells systemd."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._heard: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._listen)
        self._thread.start()

    def until(self, *wanted: str) -> list[str]:
        """What came from now on, until all of this came in this order."""
        left, heard = list(wanted), []
        while left:
            heard.append(self._heard.get(timeout=SECONDS_MAX))
            if heard[-1].startswith(left[0]):
                left.pop(0)
        return heard

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(SECONDS_MAX)
        self._socket.close()

    def _listen(self) -> None:
        while told := self._socket.recv(65536):
            for line in told.decode().split("\n"):
                self._heard.put(line)


@pytest.fixture
def manager(tmp_path: Path):
    made = Manager(tmp_path / "notify")
    yield made
    made.close()


def metric(daemon: Daemon, name: str) -> float:
    page = daemon.ask("GET", "/metrics").text
    return next(float(line.split()[-1]) for line in page.splitlines() if line.startswith(f"{name} "))


def checks(daemon: Daemon) -> list[dict]:
    return [one for one in daemon.ask("GET", "/api/v1/doctor").json()["checks"] if one["name"] == "settings"]


def test_a_running_daemon_takes_other_settings_and_refuses_broken_ones(
    tmp_path: Path, daemon: Daemon, manager: Manager
):
    daemon.env["NOTIFY_SOCKET"] = str(tmp_path / "notify")
    daemon.up()
    manager.until("EXTEND_TIMEOUT_USEC=", "STATUS=starting: the database's migration", "READY=1")
    assert daemon.board().mode == "recommend"

    daemon.write_settings(
        '[issue]\nmode = "approve"\n[plan]\ninterval_seconds = 0.3\nmoves_max = 1\n'
        '[people]\nlisten = "127.0.0.1:1"\n[log]\nlevel = "debug"\n'
        '[oncall]\ntargets.chat = {kind = "slack", token_file = "chat.token", channel = "#gpu"}\n'
    )
    (daemon.state_directory / "chat.token").write_text("xoxb-canary-0123456789\n")
    hang_up(daemon)
    heard = manager.until("RELOADING=1", "MONOTONIC_USEC=", "READY=1")
    moment = next(line for line in heard if line.startswith("MONOTONIC_USEC="))
    assert 0 < int(moment.partition("=")[2]) <= time.monotonic() * 1e6
    eventually(lambda: daemon.board().mode == "approve", said=daemon.tail)
    eventually(lambda: "deliver chat" in daemon.board().beats, said=daemon.tail)
    found = checks(daemon)[0]
    assert found["is_ok"]
    assert found["sentence"] == "Set in the file and not in force before a restart: people.listen."
    assert metric(daemon, "trimtab_settings_waiting") == 1.0
    assert '"level": "debug"' in daemon.text()

    daemon.settings_file.write_text(daemon.settings_file.read_text() + "\n[plann]\nmoves = 1\n")
    hang_up(daemon)
    manager.until("RELOADING=1", "READY=1", "STATUS=Settings not reloaded, those in force stay: ")
    assert metric(daemon, "trimtab_settings_reload_ok") == 0.0
    assert daemon.board().mode == "approve"
    found = checks(daemon)[0]
    assert not found["is_ok"]
    assert "unknown field `plann`" in found["sentence"]
    assert found["fix"]
    lines = daemon.get("/api/v1/audit", dict[str, list[AuditLine]], since_seconds=600)["lines"]
    told = [(line.who, line.what) for line in lines if line.who == "settings"]
    assert told == [("settings", "settings reloaded"), ("settings", "settings not reloaded")]
    assert "issue.mode" in next(line.why for line in lines if line.what == "settings reloaded")
    assert "xoxb-canary" not in daemon.text()
    assert daemon.stop() == 0


def hang_up(running: Daemon | Agent) -> None:
    os.kill(running.pid, signal.SIGHUP)


def test_a_running_agent_reads_its_settings_again(tmp_path: Path, daemon: Daemon):
    daemon.up()
    driver = Driver(tmp_path)
    agent = Agent(tmp_path, driver, node="gpu-00", daemon=daemon, token="trimtab_node_wrong-canary-0123456789")
    agent.start()
    try:
        agent.waits_with(2)  # the daemon refuses the token
        agent.token_file.write_text(daemon.token_of("gpu-00") + "\n")
        file = tmp_path / "gpu-00.toml"
        text = file.read_text()
        file.write_text(text.replace("interval_seconds = 0.2", "interval_seconds = 0.3") + "gpus_expected = 9\n")
        hang_up(agent)
        eventually(lambda: "in force now: gpus_expected, interval_seconds." in agent.text(), said=agent.tail)
        daemon.finding("gpus_missing")
        file.write_text(text + "intervall = 3\n")
        hang_up(agent)
        eventually(lambda: "settings not reloaded; those in force stay" in agent.text(), said=agent.tail)
        assert "unknown field `intervall`" in agent.text()
        assert agent.is_running
        assert agent.stop() == 0
    finally:
        agent.close()
