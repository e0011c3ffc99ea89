"""An owner's hook over real HTTP: answers as told, or holds the request open until it is let go."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hook:
    """`status` and `body` are what it answers; `is_silent` keeps it from answering until `let_go`."""

    def __init__(self) -> None:
        self.status = 200
        self.body: bytes = b'{"answer": "yes"}'
        self.asked: list[dict[str, Any]] = []
        self.tokens: list[str | None] = []
        self.is_silent = False
        self.let_go = threading.Event()
        self.url = ""

    def answers(self, answer: str, **more: str) -> None:
        self.body = json.dumps({"answer": answer, **more}).encode()


@contextmanager
def a_hook() -> Iterator[Hook]:
    hook = Hook()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            hook.asked.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            hook.tokens.append(self.headers.get("Authorization"))
            if hook.is_silent:
                hook.let_go.wait(60)
            self.send_response(hook.status)
            self.send_header("Content-Length", str(len(hook.body)))
            self.send_header("Location", hook.url + "/elsewhere")
            self.end_headers()
            self.wfile.write(hook.body)

        def log_message(self, *args: Any) -> None:
            """Nothing is printed."""

        def handle(self) -> None:
            try:
                super().handle()
            except (BrokenPipeError, ConnectionResetError):
                return  # whoever asked has gone

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = False
    server.block_on_close = True
    hook.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hook
    finally:
        hook.let_go.set()
        server.shutdown()
        thread.join()
        server.server_close()
