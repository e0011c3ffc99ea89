"""Real processes for the end-to-end tests: a daemon, an agent over the stand-in driver, and how to ask and wait."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import requests
from tests.standin.driver import Driver

from trimtab.model.advice import OpenFinding
from trimtab.model.board import Board, NodeRow
from trimtab.outbound import OutboundError, session
from trimtab.ship.tokens import give_token

T = TypeVar("T")

ROOT = Path(__file__).parent.parent.parent
CLUSTER = "hall-a"
# A child dies with the test run however that ends (prctl 1 = PR_SET_PDEATHSIG).
MAIN = "import ctypes, signal; ctypes.CDLL(None).prctl(1, signal.SIGKILL); from trimtab.cli import main; main()"
STOP_SECONDS = 20.0


def eventually(look: Callable[[], T | None], *, seconds: float = 30.0, said: Callable[[], object] = str) -> T:
    """The first true value of `look`; a process that does not answer yet is waited for, at most so long."""
    pause, ends_at, last = threading.Event(), time.monotonic() + seconds, "nothing"
    while time.monotonic() < ends_at:
        try:
            found = look()
        except OutboundError as error:
            found, last = None, f"{type(error).__name__}: {error}"
        if found:
            return found
        pause.wait(0.05)
    raise AssertionError(f"it did not come true within {seconds:g} s; last trouble: {last}\n{said()}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def environment(home: Path, **more: str) -> dict[str, str]:
    """What a verb is started with: none of the developer's own settings."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    places = {"XDG_STATE_HOME": str(home), "XDG_CONFIG_HOME": str(home / "config")}
    return {**kept, "PYTHONPATH": str(ROOT / "daemon"), **places, **more}


def verb(*arguments: str, home: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """One run of `trimtab …` to its end."""
    command = [sys.executable, "-c", MAIN, *arguments]
    return subprocess.run(
        command, env=environment(home, **more), capture_output=True, text=True, timeout=60, check=False
    )


class Running:
    """One `trimtab …` that goes on until it is stopped or killed, and can be started again."""

    def __init__(self, *arguments: str, home: Path, name: str, env: Mapping[str, str]) -> None:
        self.arguments, self.home = arguments, home
        self.log = home / f"{name}.log"
        self.prefix: tuple[str, ...] = ()
        """A program that it is run by, such as unshare."""
        self.env = {**environment(home), **env}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.prefix, sys.executable, "-c", MAIN, *self.arguments],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    @property
    def pid(self) -> int:
        """Its process id, while it runs."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """kill -9 of what must be alive until then."""
        assert self._process is not None
        assert self.is_running, f"it ended by itself:\n{self.tail()}"
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait(STOP_SECONDS) == -signal.SIGKILL
        self._process = None

    def stop(self) -> int:
        """SIGTERM; the exit code."""
        assert self._process is not None
        self._process.terminate()
        code = self._process.wait(STOP_SECONDS)
        self._process = None
        return code

    def fail_if_ended(self) -> None:
        """What ended by itself will not answer: no use in waiting for it."""
        code = self._process.poll() if self._process is not None else None
        assert code is None, f"it ended by itself ({code}):\n{self.tail()}"

    def close(self) -> None:
        """Gone, whatever state it is in."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait(STOP_SECONDS)

    def assert_had_no_trouble(self) -> None:
        """No traceback and no failed detector in all it said."""
        said = self.text()
        assert "Traceback" not in said, said
        assert "a detector failed" not in said, said

    def text(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""

    def tail(self) -> str:
        return "\n".join(self.text().splitlines()[-40:])


class Daemon(Running):
    """`trimtab daemon` on ports that it keeps over restarts; fast beats, so that a test need not wait."""

    def __init__(self, home: Path, *, database_url: str = "sqlite:///trimtab.db", settings: str = "") -> None:
        self.people_port, self.ingest_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self.people_port}"
        self.ingest_url = f"http://127.0.0.1:{self.ingest_port}"
        self.state_directory = home / "daemon"
        self.database_url = database_url
        self.settings_file = home / "daemon.toml"
        self.write_settings(settings)
        super().__init__("daemon", "--settings", str(self.settings_file), home=home, name="daemon", env={})
        self._session = session(timeout_seconds=20.0)

    def write_settings(self, settings: str) -> None:
        """Fast beats and these ports, unless `settings` (whole tables) says otherwise."""
        sections = {
            "ingest": f'listen = "127.0.0.1:{self.ingest_port}"',
            "people": f'listen = "127.0.0.1:{self.people_port}"',
            "store": f'url = "{self.database_url}"\ncommit_interval_seconds = 0.05',
            "detect": "interval_seconds = 0.2",
            "plan": "interval_seconds = 0.2",
        }
        sections |= _sections(settings)
        head = f'cluster = "{CLUSTER}"\nstate_directory = "{self.state_directory}"\n'
        body = "".join(f"\n[{name}]\n{text}\n" for name, text in sections.items())
        self.settings_file.write_text(head + body, encoding="utf-8")

    @property
    def tokens_file(self) -> Path:
        return self.state_directory / "node-tokens.toml"

    def token_of(self, node: str) -> str:
        """A new token of a node."""
        return give_token(self.tokens_file, node)[0]

    @property
    def operator_token(self) -> str:
        return (self.state_directory / "operator.token").read_text(encoding="ascii").strip()

    def up(self) -> Daemon:
        """Start it, and wait until it answers and has judged once."""
        self.start()
        eventually(lambda: self.ask("GET", "/api/v1/board").status_code == 200, seconds=120.0, said=self.tail)
        return self

    def ask(self, method: str, path: str, body: object = None, *, token: str | None = None) -> requests.Response:
        """One request with the operator's token, or with another."""
        self.fail_if_ended()
        if token is None and not (self.state_directory / "operator.token").exists():
            raise OutboundError("the daemon has not made its token yet")
        headers = {"Authorization": f"Bearer {token or self.operator_token}", "Content-Type": "application/json"}
        data = None if body is None else msgspec.json.encode(body)
        return self._session.request(method, self.url + path, data=data, headers=headers)

    def hang_up(self) -> None:
        """Close our connections to it; the next request makes one anew."""
        self._session.close()

    def get(self, path: str, kind: type[T], **query: object) -> T:
        answer = self.ask("GET", path + ("?" + "&".join(f"{key}={value}" for key, value in query.items())))
        assert answer.status_code == 200, answer.text
        return msgspec.json.decode(answer.content, type=kind)

    def board(self) -> Board:
        return self.get("/api/v1/board", Board)

    def node(self, name: str) -> NodeRow | None:
        return next((row for row in self.board().nodes if row.name == name), None)

    def findings(self, rule: str, *, state: str = "open") -> list[OpenFinding]:
        found = self.get("/api/v1/findings", dict[str, list[OpenFinding]], state=state)["findings"]
        return [one for one in found if one.finding.rule == rule]

    def finding(self, rule: str, *, state: str = "open", seconds: float = 30.0) -> OpenFinding:
        """The finding of a rule, waited for."""
        said = lambda: f"{self.findings(rule, state='all')}\n{self.tail()}"  # noqa: E731
        return eventually(lambda: next(iter(self.findings(rule, state=state)), None), seconds=seconds, said=said)


class Agent(Running):
    """`trimtab agent` of one node at 5 Hz over the stand-in driver."""

    def __init__(
        self, home: Path, driver: Driver, *, node: str, daemon: Daemon, token: str, settings: str = ""
    ) -> None:
        self.node, self.daemon = node, daemon
        self.metrics_port = free_port()
        self.token_file = home / f"{node}.token"
        self.token_file.write_text(token + "\n", encoding="ascii")
        self.spool_directory = home / f"{node}.spool"
        settings_file = home / f"{node}.toml"
        settings_file.write_text(
            f"""\
cluster = "{CLUSTER}"
node = "{node}"
daemon_urls = ["{daemon.ingest_url}"]
token_file = "{self.token_file}"
interval_seconds = 0.2
replay_reports_per_second = 500
spool_directory = "{self.spool_directory}"
kernel_log = "none"
metrics_listen = "127.0.0.1:{self.metrics_port}"
{settings}
""",
            encoding="utf-8",
        )
        arguments = ("agent", "--settings", str(settings_file))
        super().__init__(*arguments, home=home, name=node, env=driver.environment())
        self._session = session(timeout_seconds=5.0)

    def metric(self, name: str) -> float:
        """One value of its /metrics page; 0 before the first report, when the page holds none."""
        self.fail_if_ended()
        page = self._session.get(f"http://127.0.0.1:{self.metrics_port}/metrics").text
        found = re.search(rf"^{name}{{[^}}]*}} (\S+)$", page, re.MULTILINE)
        assert found is not None or "trimtab_agent_" not in page, f"{name} is not on the page:\n{page}"
        return float(found[1]) if found is not None else 0.0

    def waits_with(self, reports: int) -> None:
        """Wait until so many reports are in its spool."""
        eventually(lambda: self.metric("trimtab_agent_spool_reports") >= reports, seconds=120.0, said=self.tail)

    def settled(self) -> set[int]:
        """Sequences that it has written down as acknowledged."""
        kept: dict[str, Any] = msgspec.json.decode((self.spool_directory / "position.json").read_bytes())
        inside = {number for first, last in kept["ranges"] for number in range(first, last + 1)}
        return set(range(1, kept["position"] + 1)) | inside


def _sections(settings: str) -> dict[str, str]:
    """`[name]` tables of a TOML text, as text by name."""
    parts = re.split(r"^\[(\w+)\]\n", settings, flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))
