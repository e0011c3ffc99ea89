"""The demo's on-call end: takes signed pages from the outbox, and alerts from Alertmanager's webhook."""

from __future__ import annotations

import base64
import hmac
import queue
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec

from trimtab.clock import Clock, SystemClock, unix_seconds
from trimtab.errors import SettingsError
from trimtab.show.oncall.standard_webhook import PREFIX, TOLERANCE_SECONDS, key_bytes, signature
from trimtab.show.oncall.webhook_body import WebhookBody

PAGE_PATH = "/page"
ALERTS_PATH = "/alertmanager"
_BODY_BYTES_MAX = 4 * 1024 * 1024
_IDS_MAX = 10_000
_SECONDS_MAX = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert of Alertmanager's webhook; what else it says is not needed here."""

    status: str
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alerts:
    """One delivery of Alertmanager: a group."""

    alerts: tuple[Alert, ...]
    receiver: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrived:
    """What reached on-call, and when by this machine's clock that only goes forward."""

    said: WebhookBody | Alerts
    wall_seconds: float


class OnCallEnd:
    """Listens on loopback; what is wrongly signed, or comes twice, is not kept."""

    def __init__(self, directory: Path, *, clock: Clock | None = None) -> None:
        """Bind at once, and write the signing key that both sides read."""
        self._clock = clock or SystemClock()
        self.key_file = directory / "on-call.key"
        self.key_file.touch(mode=0o600)
        self.key_file.write_text(PREFIX + base64.b64encode(secrets.token_bytes(32)).decode() + "\n", encoding="ascii")
        self._key = key_bytes(self.key_file.read_text(encoding="ascii").strip(), of=str(self.key_file))
        self._seen: set[str] = set()
        self._arrived: queue.SimpleQueue[Arrived] = queue.SimpleQueue()
        self.refused = 0
        handler = type("Handler", (_Handler,), {"end": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, name="on-call", daemon=True
        )

    def start(self) -> None:
        """Listen on a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """Close the port."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(5.0)
        self._server.server_close()

    def arrived(self) -> tuple[Arrived, ...]:
        """What came since the last call, oldest first."""
        found = []
        while True:
            try:
                found.append(self._arrived.get_nowait())
            except queue.Empty:
                return tuple(found)

    def take(self, path: str, body: bytes, header: Callable[[str], str]) -> int:
        """One delivery; the status that it is answered with."""
        try:
            if path == PAGE_PATH:
                return self._take_page(body, header)
            if path.startswith(ALERTS_PATH):
                self._keep(msgspec.json.decode(body, type=Alerts))
                return 200
        except msgspec.MsgspecError:
            return 400
        return 404

    def _take_page(self, body: bytes, header: Callable[[str], str]) -> int:
        said_id = header("webhook-id")
        if not self._is_signed(said_id, header("webhook-timestamp"), header("webhook-signature"), body):
            self.refused += 1
            return 401
        said = msgspec.json.decode(body, type=WebhookBody)
        if said_id not in self._seen:
            if len(self._seen) >= _IDS_MAX:
                self._seen.clear()
            self._seen.add(said_id)
            self._keep(said)
        return 200

    def _is_signed(self, said_id: str, timestamp: str, signatures: str, body: bytes) -> bool:
        """By our key, over these bytes, lately."""
        if not said_id or not (timestamp.isascii() and timestamp.isdigit()):
            return False
        if abs(unix_seconds(self._clock.now()) - int(timestamp)) > TOLERANCE_SECONDS:
            return False
        good = signature(self._key, id=said_id, timestamp_seconds=int(timestamp), body=body).encode()
        return any(hmac.compare_digest(good, one.encode()) for one in signatures.split())

    def _keep(self, said: WebhookBody | Alerts) -> None:
        self._arrived.put(Arrived(said=said, wall_seconds=self._clock.monotonic_seconds()))


class _Handler(BaseHTTPRequestHandler):
    """One connection; its on-call end is a class attribute set by it."""

    end: OnCallEnd
    timeout = _SECONDS_MAX

    def do_POST(self) -> None:
        """A page or a group of alerts."""
        length = self.headers.get("Content-Length", "")
        if not (length.isascii() and length.isdigit()) or int(length) > _BODY_BYTES_MAX:
            self._answer(413)
            return
        body = self.rfile.read(int(length))
        self._answer(self.end.take(self.path, body, lambda name: self.headers.get(name, "")))

    def _answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: what arrives is told in the story."""


def settings_text(end: OnCallEnd, *, alertmanager_url: str) -> str:
    """The daemon's sections on on-call: its outbox pages this end, and silences hold that people make beside it."""
    urls = (
        f'\n[alertmanager]\nurls = ["{alertmanager_url}"]\nsilences_interval_seconds = 2.0\n'
        if alertmanager_url
        else ""
    )
    return f"""
[oncall]
pager = "outbox"

[oncall.targets.demo]
kind = "webhook"
url = "{end.url}{PAGE_PATH}"
keys_file = "{end.key_file}"
is_pager = true
{urls}"""


def receivers_at(sample: str, end: OnCallEnd) -> str:
    """The shipped sample for Alertmanager with this end in place of its example addresses. Raises SettingsError."""
    text = sample
    for host in ("http://pager.example:8080", "http://dead-man.example:8080"):
        if host not in text:
            raise SettingsError(f"The sample for Alertmanager names no {host}.")
        text = text.replace(host, end.url + ALERTS_PATH)
    return text
