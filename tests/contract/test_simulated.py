"""The simulated adapter's door: what is not a whole answer is no answer."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from tests.contract.rigs import a_command

from trimtab.errors import SchedulerRefused, SchedulerUnavailable
from trimtab.schedulers.simulated import SimulatedScheduler


@contextmanager
def answering(status: int, body: bytes) -> Iterator[SimulatedScheduler]:
    """A server that gives one answer to everything."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 - the server's own name

        def log_message(self, format: str, *args: object) -> None:
            """Quiet."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield SimulatedScheduler(f"http://127.0.0.1:{server.server_address[1]}", timeout_seconds=5.0)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    "body", [b"", b"not json", b'{"cluster": "hall-a"}', b'{"cluster": "hall-a", "nodes": [], "workloads": []', b"[]"]
)
def test_half_a_snapshot_is_no_snapshot(body):
    with answering(200, body) as scheduler, pytest.raises(SchedulerUnavailable, match="no whole snapshot"):
        scheduler.snapshot()


def test_an_error_of_the_server_is_no_answer():
    with answering(500, b"{}") as scheduler:
        with pytest.raises(SchedulerUnavailable, match="/snapshot answered 500"):
            scheduler.snapshot()
        with pytest.raises(SchedulerUnavailable, match="/writes answered 500"):
            scheduler.hold(a_command())


def test_a_no_carries_the_schedulers_own_sentence():
    sentence = answering(409, b'{"sentence": "gpu-01 is cordoned."}')
    with sentence as scheduler, pytest.raises(SchedulerRefused, match=r"^gpu-01 is cordoned\.$"):
        scheduler.hold(a_command())
    with answering(409, b"\xff") as scheduler, pytest.raises(SchedulerRefused, match="no reason given"):
        scheduler.release(a_command())


def test_nobody_at_the_other_end_is_said_with_the_address():
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{closed.getsockname()[1]}"
        with pytest.raises(SchedulerUnavailable, match=f"{url} cannot be reached"):
            SimulatedScheduler(url, timeout_seconds=1.0).snapshot()


def test_a_server_that_never_answers_is_given_up_in_time():
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(SchedulerUnavailable, match="cannot be reached"):
            SimulatedScheduler(url, timeout_seconds=0.2).snapshot()
