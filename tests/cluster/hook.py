"""An owner's ask-first hook: a real HTTP server that answers as it is told, by the plain name of the workload."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]


class Hook:
    """`answers` by workload; one that is not named there gets none, and its connection stays open."""

    def __init__(self, answers: Mapping[str, Json]) -> None:
        self.asked: list[Json] = []
        self.tokens: list[str | None] = []
        self._answers = answers
        self._ended = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, name="hook", daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/ask"

    def stop(self) -> None:
        self._ended.set()
        self._server.shutdown()
        self._thread.join(20.0)
        self._server.server_close()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                hook.asked.append(body)
                hook.tokens.append(self.headers.get("Authorization"))
                answer = hook._answers.get(body["workload"].rsplit("/", 1)[-1])
                if answer is None:
                    hook._ended.wait(60.0)
                    self.close_connection = True
                    return
                said = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(said)))
                self.end_headers()
                self.wfile.write(said)

            def log_message(self, *arguments: object) -> None:
                """A test's output is no access log."""

        return Handler
