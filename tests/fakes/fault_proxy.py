"""A reverse proxy before a real API server that makes the faults which the server itself cannot be brought to make."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

CHUNK_BYTES = 65536
POLL_SECONDS = 0.05
OWN_HEADERS = ("connection", "transfer-encoding", "content-length", "keep-alive", "host")


@dataclass(frozen=True, slots=True)
class Seen:
    """A request that came, and when (monotonic seconds)."""

    method: str
    path: str
    is_watch: bool
    at: float
    answer: int


class FaultProxy:
    """Plain HTTP on loopback, TLS to the server behind. Faults are switches; all are off at first."""

    def __init__(self, target: str, *, ca_file: str) -> None:
        """Begin to serve at once."""
        self.is_half_open = False
        """Open connections stay open and nothing passes any more; what the server sends meanwhile is lost."""
        self.is_closing_watches = False
        """Every watch ends as soon as it is open, in good order."""
        self.is_expiring_watches = False
        """Every watch gets a 410 event, in a 200 answer, as after a restart of the server."""
        self.refuse: Callable[[str, str], tuple[int, dict[str, Any]] | None] = lambda method, path: None
        """(method, path) -> status and body to answer with in the server's place."""
        self.seen: list[Seen] = []
        self._target = urlsplit(target)
        self._context = ssl.create_default_context(cafile=ca_file)
        self._behind: set[http.client.HTTPSConnection] = set()
        self._is_stopping = threading.Event()
        self._server = _Server(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def stop(self) -> None:
        self._is_stopping.set()
        self.is_half_open = False
        self.cut()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def cut(self) -> None:
        """Cut every open connection, as a load balancer does that is restarted."""
        for behind in list(self._behind):
            if behind.sock is not None:
                with contextlib.suppress(OSError):
                    socket.socket.shutdown(behind.sock, socket.SHUT_RDWR)

    def watches(self, path: str, *, since: float = 0.0) -> list[float]:
        """When watches of a path were asked for."""
        return [one.at for one in self.seen if one.is_watch and one.path == path and one.at >= since]

    def storm(self, *, retry_after_seconds: int | None = None) -> None:
        """Answer everything with 429 until `calm`."""
        status: dict[str, Any] = {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": "TooManyRequests",
            "message": "too many requests, please try again later",
            "code": 429,
        }
        if retry_after_seconds is not None:
            status["details"] = {"retryAfterSeconds": retry_after_seconds}
        self.refuse = lambda method, path: (429, status)

    def calm(self) -> None:
        """All faults off."""
        self.is_half_open = self.is_closing_watches = self.is_expiring_watches = False
        self.refuse = lambda method, path: None

    # --- one request

    def serve(self, handler: _Handler) -> None:
        path, _, query = handler.path.partition("?")
        is_watch = "watch=1" in query or "watch=true" in query
        length = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(length) if length else None
        refused = self.refuse(handler.command, path)
        if refused is not None:
            self._note(handler, path, is_watch=is_watch, answer=refused[0])
            handler.answer(refused[0], json.dumps(refused[1]).encode())
            return
        if is_watch and (self.is_closing_watches or self.is_expiring_watches):
            self._note(handler, path, is_watch=True, answer=200)
            handler.answer(200, b"" if self.is_closing_watches else EXPIRED)
            return
        self._pass_on(handler, path, body, is_watch=is_watch)

    def _pass_on(self, handler: _Handler, path: str, body: bytes | None, *, is_watch: bool) -> None:
        if self.is_half_open:
            self._note(handler, path, is_watch=is_watch, answer=0)
            self._hang(handler)
            return
        behind = http.client.HTTPSConnection(str(self._target.hostname), self._target.port, context=self._context)
        self._behind.add(behind)
        try:
            headers = {key: value for key, value in handler.headers.items() if key.lower() not in OWN_HEADERS}
            behind.request(handler.command, handler.path, body=body, headers=headers)
            response = behind.getresponse()
            self._note(handler, path, is_watch=is_watch, answer=response.status)
            if not is_watch or response.status != 200:
                handler.answer(response.status, response.read(), dict(response.getheaders()))
                return
            handler.begin(response.status, dict(response.getheaders()))
            self._stream(handler, response)
        except (OSError, http.client.HTTPException):
            handler.close_connection = True  # the server behind has gone: cut, as it would be without us
        finally:
            self._behind.discard(behind)
            behind.close()

    def _stream(self, handler: _Handler, response: http.client.HTTPResponse) -> None:
        while found := response.read1(CHUNK_BYTES):
            if self.is_half_open:
                self._hang(handler)
                return
            handler.chunk(found)
        handler.chunk(b"")

    def _hang(self, handler: _Handler) -> None:
        while self.is_half_open and not self._is_stopping.is_set():
            time.sleep(POLL_SECONDS)
        handler.close_connection = True

    def _note(self, handler: _Handler, path: str, *, is_watch: bool, answer: int) -> None:
        self.seen.append(Seen(handler.command, path, is_watch, time.monotonic(), answer))


EXPIRED = (
    json.dumps(
        {
            "type": "ERROR",
            "object": {
                "kind": "Status",
                "apiVersion": "v1",
                "metadata": {},
                "status": "Failure",
                "message": "too old resource version: 1 (2)",
                "reason": "Expired",
                "code": 410,
            },
        }
    ).encode()
    + b"\n"
)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, proxy: FaultProxy) -> None:
        self.proxy = proxy
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients go away in the middle here: that is what is tested."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def handle_one(self) -> None:
        self.server.proxy.serve(self)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""

    def answer(self, status: int, body: bytes, headers: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for key, value in (headers or {"Content-Type": "application/json"}).items():
            if key.lower() not in OWN_HEADERS:
                self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def begin(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for key, value in headers.items():
            if key.lower() not in OWN_HEADERS:
                self.send_header(key, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.wfile.flush()

    def chunk(self, found: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(found), found))
        self.wfile.flush()
