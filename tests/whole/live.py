"""Real processes for whole-path tests: a daemon, an exporter's page, verbs, and patience with a deadline."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests

ROOT = Path(__file__).parent.parent.parent
TRIMTAB = (sys.executable, "-c", "from trimtab.cli import main; main()")
SECONDS_MAX = 60.0


def a_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return int(bound.getsockname()[1])


def until(ask: Callable[[], Any], *, seconds: float = SECONDS_MAX) -> Any:
    """The first answer that is true; fails with the last one when the time is up."""
    last: Any = None
    for _ in range(int(seconds / 0.1)):
        last = ask()
        if last:
            return last
        threading.Event().wait(0.1)
    raise AssertionError(f"still {last!r} after {seconds} s")


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT / "daemon"), **more}


class Process:
    """One `trimtab` process that can be ended and killed."""

    def __init__(self, *arguments: str, log: Path, **env: str) -> None:
        self._log = log
        with log.open("ab") as file:
            self._process = subprocess.Popen([*TRIMTAB, *arguments], stdout=file, stderr=file, env=environment(**env))

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        if self._process.poll() is None:
            self._process.send_signal(number)
        return self._process.wait(SECONDS_MAX)

    @property
    def log(self) -> str:
        return self._log.read_text()


class Daemon(Process):
    """A real daemon on ports of its own, asked with the operator's token."""

    def __init__(self, directory: Path, *, settings: str) -> None:
        self.directory = directory
        self.people = a_port()
        settings_file = directory / "daemon.toml"
        settings_file.write_text(
            f'cluster = "hall-a"\nstate_directory = "{directory}/state"\n'
            f'[people]\nlisten = "127.0.0.1:{self.people}"\n[ingest]\nlisten = "127.0.0.1:{a_port()}"\n{settings}'
        )
        super().__init__("daemon", "--settings", str(settings_file), log=directory / "daemon.log")

    def get(self, path: str) -> Any:
        """The answer, or None while the daemon is not up."""
        token = self.directory / "state" / "operator.token"
        if not token.exists():
            return None
        headers = {"Authorization": f"Bearer {token.read_text().strip()}"}
        try:
            answer = requests.get(f"http://127.0.0.1:{self.people}{path}", headers=headers, timeout=10)
        except requests.ConnectionError:
            return None
        return answer.json() if answer.status_code == 200 else None

    def board(self) -> dict[str, Any]:
        return until(lambda: self.get("/api/v1/board"))

    def finding(self, rule: str, *, state: str = "open") -> dict[str, Any]:
        """The first finding of a rule in that state, once there is one."""

        def ask() -> Any:
            found = (self.get(f"/api/v1/findings?state={state}") or {"findings": []})["findings"]
            return next((one for one in found if one["finding"]["rule"] == rule), None)

        return until(ask)


class ExporterPage:
    """An exporter: serves what `text` holds."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.port = a_port()
        self.start()

    def start(self) -> None:
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = page.text.encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def run_verb(*arguments: str, **env: str) -> tuple[int, str, str]:
    done = subprocess.run(
        [*TRIMTAB, *arguments], capture_output=True, text=True, timeout=SECONDS_MAX, env=environment(**env), check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


def json_of(*arguments: str, **env: str) -> Any:
    code, out, err = run_verb(*arguments, "--json", **env)
    assert code == 0, err
    return json.loads(out)
