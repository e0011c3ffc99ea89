"""A node's way to its daemon, on which something may happen: before a request arrives, before its answer."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

PASSED_ON = ("authorization", "content-type", "content-encoding")


class Between:
    """Plain HTTP on loopback, before one port behind it."""

    def __init__(self, port: int) -> None:
        """Serve at once; nothing happens on the way yet."""
        self.meanwhile: Callable[[str, str], None] = lambda _path, _when: None
        """Called before a request goes on, once it has gone, and once its answer is here."""
        self._port = port
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self._thread = Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def pass_on(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes] | None:
        """What the daemon answers; None = the line broke."""
        self.meanwhile(path, "before it arrives")
        behind = http.client.HTTPConnection("127.0.0.1", self._port, timeout=20.0)
        try:
            behind.request(method, path, body=body, headers=headers)
            self.meanwhile(path, "as it arrives")
            answer = behind.getresponse()
            came = answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return None
        finally:
            behind.close()
        return came if self._is_there_still(path) else None

    def _is_there_still(self, path: str) -> bool:
        """Whether whoever answered is alive; the answer of one that is killed now is lost with it."""
        self.meanwhile(path, "once it is written down")
        try:
            socket.create_connection(("127.0.0.1", self._port), timeout=5.0).close()
        except OSError:
            return False
        return True


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Both ends are killed here: that is what is tested."""


def _handler(between: Between) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {key: value for key, value in self.headers.items() if key.lower() in PASSED_ON}
            came = between.pass_on(self.command, self.path, body, headers)
            if came is None:
                self.close_connection = True
                return
            self.send_response(came[0])
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(came[1])))
            self.end_headers()
            self.wfile.write(came[1])

        do_GET = do_POST = handle_one  # noqa: N815 - http.server's names

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    return Handler
