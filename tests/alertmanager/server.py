"""A real Alertmanager, and an on-call end that its webhook reaches."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
import yaml
from tests.system.processes import eventually, free_port

BINARY = next((name for name in ("prometheus-alertmanager", "alertmanager") if shutil.which(name)), "")
INSTALL = "Alertmanager is missing: apt-get install prometheus-alertmanager"


@dataclass
class OnCall:
    """What a pager behind Alertmanager's webhook was told."""

    told: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    """What deliveries are answered with."""
    url: str = ""
    authorization: list[str] = field(default_factory=list)

    def alerts(self, status: str | None = None) -> list[dict[str, Any]]:
        """Alerts in the order in which they were told."""
        found = [alert for body in list(self.told) for alert in body["alerts"]]
        return [alert for alert in found if status in (None, alert["status"])]

    def firing(self) -> dict[str, str]:
        """Group key -> its last status."""
        return {body["groupKey"]: body["status"] for body in list(self.told)}


@contextmanager
def an_on_call() -> Iterator[OnCall]:
    end = OnCall()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if end.status == 200:
                end.told.append(json.loads(body))
            self.send_response(end.status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    end.url = f"http://127.0.0.1:{server.server_port}/"
    try:
        yield end
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class Alertmanager:
    """One process on its own port and directory; it can be stopped, killed and started again."""

    def __init__(self, directory: Path, *, webhook: str, more: dict[str, Any] | None = None) -> None:
        self.directory = directory
        self.port = free_port()
        self.cluster_port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        receiver = {"url": webhook, "send_resolved": True, **(more or {})}
        route = {
            "receiver": "oncall",
            "group_by": ["alertname", "incident"],
            "group_wait": "0s",
            "group_interval": "1s",
            "repeat_interval": "1h",
        }
        config = {"route": route, "receivers": [{"name": "oncall", "webhook_configs": [receiver]}]}
        directory.mkdir(parents=True, exist_ok=True)
        self.config = directory / "alertmanager.yml"
        self.config.write_text(yaml.safe_dump(config))

    def start(self, *, peer: Alertmanager | None = None, is_clustered: bool = False) -> Alertmanager:
        listen = f"127.0.0.1:{self.cluster_port}" if is_clustered else ""
        command = [
            BINARY,
            f"--config.file={self.config}",
            f"--storage.path={self.directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{self.port}",
            f"--cluster.listen-address={listen}",
            "--log.level=warn",
        ]
        if peer is not None:
            command.append(f"--cluster.peer=127.0.0.1:{peer.cluster_port}")
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(lambda: requests.get(f"{self.url}/-/ready", timeout=5).status_code == 200, said=self._said)
        return self

    def stop(self, *, with_signal: int = signal.SIGTERM) -> None:
        if self._process is not None:
            self._process.send_signal(with_signal)
            self._process.wait(30)
            self._process = None

    def alerts(self, **params: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = requests.get(f"{self.url}/api/v2/alerts", params=params, timeout=5).json()
        return found

    def post(self, alerts: list[dict[str, Any]]) -> None:
        requests.post(f"{self.url}/api/v2/alerts", json=alerts, timeout=5).raise_for_status()

    def silence(self, *matchers: dict[str, Any], starts: str, ends: str, comment: str = "planned work") -> str:
        body = {
            "matchers": [{"isRegex": False, "isEqual": True, **one} for one in matchers],
            "startsAt": starts,
            "endsAt": ends,
            "createdBy": "anna",
            "comment": comment,
        }
        answer = requests.post(f"{self.url}/api/v2/silences", json=body, timeout=5)
        answer.raise_for_status()
        return str(answer.json()["silenceID"])

    def unsilence(self, silence_id: str) -> None:
        requests.delete(f"{self.url}/api/v2/silence/{silence_id}", timeout=5).raise_for_status()

    def silences(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = requests.get(f"{self.url}/api/v2/silences", timeout=5).json()
        return found

    def _said(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-2000:]
