"""A tiny HTTP(S) server that answers as a test says and keeps what it was asked, and kubeconfigs that lead to it."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


Reply = tuple[int, Mapping[str, str], bytes]


class Web(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, reply: Callable[[Asked], Reply], tls: tuple[Path, Path] | None) -> None:
        self.reply = reply
        self.asked: list[Asked] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        if tls is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            self.socket = context.wrap_socket(self.socket, server_side=True)
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.server_address[1]}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not like our certificate goes away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Web

    def handle_one(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        asked = Asked(self.command, self.path, dict(self.headers), body)
        self.server.asked.append(asked)
        status, headers, content = self.server.reply(asked)
        self.send_response(status)
        for key, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(key, value)
        self.end_headers()
        self.wfile.write(content)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_one  # noqa: N815 - http.server's names

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@contextmanager
def a_web(reply: Callable[[Asked], Reply], *, tls: tuple[Path, Path] | None = None) -> Iterator[Web]:
    server = Web(reply, tls)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def document(value: Any, status: int = 200, **headers: str) -> Reply:
    return status, {"Content-Type": "application/json", **headers}, json.dumps(value).encode()


def refusal(code: int, message: str, **headers: str) -> Reply:
    return document({"kind": "Status", "status": "Failure", "message": message, "code": code}, code, **headers)


def a_kubeconfig(folder: Path, server: str, *, user: Any = None, cluster: Any = None, context: str = "here") -> Path:
    path = folder / "kubeconfig"
    body = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": context,
        "contexts": [{"name": "here", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": "u", "user": user or {}}],
    }
    path.write_text(json.dumps(body), encoding="utf-8")
    return path
