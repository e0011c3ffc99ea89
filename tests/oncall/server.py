"""A local HTTP(S) server that plays somebody's on-call end: served-first answers, then its own strict rules."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

REQUEST_BYTES_MAX = 2 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Request:
    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> dict[str, str]:
        return {name: values[0] for name, values in parse_qs(urlsplit(self.target).query).items()}

    def json(self) -> Any:
        """The body, which must be declared as JSON in UTF-8."""
        assert self.headers.get("content-type", "").split(";")[0] == "application/json", "not declared as JSON"
        return json.loads(self.body.decode("utf-8"))


@dataclass(frozen=True, kw_only=True)
class Reply:
    status: int = 200
    body: Any = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    is_dropped: bool = False
    """Take the request and hang up without a word."""
    is_silent: bool = False
    """Take the request and say nothing until the server is stopped."""

    is_dripping: bool = False
    """A byte of a header every tenth of a second: always in time, never done."""

    def content(self) -> bytes:
        return self.body if isinstance(self.body, bytes) else json.dumps(self.body).encode()


DRIP = Reply(is_dripping=True)
DROP = Reply(is_dropped=True)
SILENCE = Reply(is_silent=True)


class Refused(Exception):
    """What the real end would refuse, with its own answer."""

    def __init__(self, reply: Reply) -> None:
        super().__init__(str(reply.body))
        self.reply = reply


class Receiver:
    """One real end's rules. `first` is served before any rule is looked at; `after` is served once a rule has taken
    the request, so that the answer is lost and not the message."""

    def __init__(self) -> None:
        self.first: list[Reply] = []
        self.after: list[Reply] = []
        self.requests: list[Request] = []
        self.refusals: list[str] = []
        self.url = ""
        self._lock = threading.Lock()

    def answer(self, request: Request) -> Reply:
        with self._lock:
            self.requests.append(request)
            if self.first:
                return self.first.pop(0)
            try:
                reply = self.judge(request)
            except Refused as refused:
                self.refusals.append(str(refused))
                return refused.reply
            except (AssertionError, KeyError, TypeError, ValueError) as error:
                self.refusals.append(f"{type(error).__name__}: {error}")
                return self.malformed(str(error))
            return self.after.pop(0) if self.after else reply

    def judge(self, request: Request) -> Reply:
        raise NotImplementedError

    def malformed(self, why: str) -> Reply:
        return Reply(status=400, body={"error": why})


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    timeout = 30

    def _serve(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        assert length <= REQUEST_BYTES_MAX
        request = Request(
            method=self.command,
            target=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(length),
        )
        reply = self.server.receiver.answer(request)
        if reply.is_silent:
            self.server.stopping.wait(60)
        while reply.is_dripping and not self.server.stopping.wait(0.1):
            self.wfile.write(b"H")
            self.wfile.flush()
        if reply.is_silent or reply.is_dropped or reply.is_dripping:
            self.close_connection = True
            return
        content = reply.content()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_PUT = do_GET = _serve  # noqa: N815 - http.server finds them by these names

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    receiver: Receiver

    def __init__(self, receiver: Receiver, tls: ssl.SSLContext | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.receiver = receiver
        self.stopping = threading.Event()
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True, do_handshake_on_connect=False)

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # a client that gives up on us is part of the tests


@contextmanager
def serving(receiver: Receiver, *, certificate: Path | None = None) -> Iterator[str]:
    """Run it; the URL to reach it by. `certificate` is a folder with tls.crt and tls.key."""
    tls = None
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate / "tls.crt", certificate / "tls.key")
    server = _Server(receiver, tls)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, name="receiver")
    thread.start()
    receiver.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.server_address[1]}"
    try:
        yield receiver.url
    finally:
        server.stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()
