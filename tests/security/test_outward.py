"""What we ask of others cannot be led elsewhere, and what they answer cannot fill our memory."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from trimtab.collect.scrape import HttpPages
from trimtab.errors import CollectError
from trimtab.outbound import exchange, session

TOKEN = "trimtab_" + "s" * 43


class Server:
    """Answers as it is told and keeps what it heard."""

    def __init__(self, status: int, headers: dict[str, str], body: bytes = b"") -> None:
        self.heard: list[tuple[str, str, dict[str, str]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def answer(self) -> None:
                length = int(self.headers.get("Content-Length", "0"))
                self.rfile.read(length)
                server.heard.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}))
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(body))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = answer  # noqa: N815 - http.server's names

            def log_message(self, format: str, *args: Any) -> None: ...

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5.0)


@contextmanager
def answering(status: int = 200, body: bytes = b"", **headers: str) -> Iterator[Server]:
    server = Server(status, {name.replace("_", "-"): value for name, value in headers.items()}, body)
    try:
        yield server
    finally:
        server.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_no_token_and_no_report_follows_a_redirect(status: int) -> None:
    with answering(body=b"{}") as thief, answering(status, Location=f"{thief.url}/take") as peer:
        with session(timeout_seconds=5.0, token=TOKEN) as ours:
            assert ours.post(f"{peer.url}/v1/reports", data=b"reports").status_code == status
            assert ours.get(f"{peer.url}/api/v1/board").status_code == status
        answer = exchange("POST", peer.url, body=b"x", headers={"X-Secret": "s"}, timeout_seconds=5.0)
        assert answer.status == status
        assert thief.heard == []
        assert len(peer.heard) == 3


def test_an_exporter_leads_the_daemon_nowhere_else() -> None:
    """A page of a node that redirects to the cloud's metadata, or to a service of the daemon's host."""
    with answering(body=b"up 1\n") as inside, answering(302, Location=f"{inside.url}/latest/meta-data") as exporter:
        pages = HttpPages(timeout_seconds=5.0)
        with pytest.raises(CollectError, match="answered 302"):
            pages.get(f"{exporter.url}/metrics")
        pages.close()
        assert inside.heard == []


def test_an_exporters_page_that_unpacks_without_end_is_let_go() -> None:
    bomb = gzip.compress(b"a 1\n" * (64 << 20), 1)
    with answering(body=bomb, Content_Encoding="gzip") as exporter:
        pages = HttpPages(timeout_seconds=20.0)
        with pytest.raises(CollectError, match="larger than"):
            pages.get(f"{exporter.url}/metrics")
        pages.close()


def test_an_answer_that_unpacks_without_end_is_cut() -> None:
    bomb = gzip.compress(b"a" * (64 << 20), 9)
    with answering(body=bomb, Content_Encoding="gzip") as peer:
        answer = exchange("GET", peer.url, body=None, headers={}, timeout_seconds=20.0, answer_bytes_max=4096)
    assert len(answer.body) == 4096


def test_the_environment_names_no_proxy_for_us(monkeypatch: pytest.MonkeyPatch) -> None:
    with answering(body=b"ok") as peer, answering(body=b"thief") as thief:
        monkeypatch.setenv("HTTP_PROXY", thief.url)
        monkeypatch.setenv("http_proxy", thief.url)
        with session(timeout_seconds=5.0, token=TOKEN) as ours:
            assert ours.get(peer.url).text == "ok"
        assert thief.heard == []
