"""A port that systemd holds is taken over by name, and what leaves the host there needs TLS as anywhere."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

ACTIVATE = "systemd-socket-activate"
SERVE = """
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
import threading
from trimtab.listener import Listener
app = Starlette(routes=[Route("/", lambda request: PlainTextResponse("here"))])
listener = Listener(app, name="people", listen="127.0.0.1:0")
listener.start()
print(listener.port, flush=True)
threading.Event().wait(60)
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def activated(listen: str, *, name: str) -> subprocess.Popen[str]:
    if shutil.which(ACTIVATE) is None:
        pytest.skip(f"{ACTIVATE} is missing: apt-get install systemd")
    line = [ACTIVATE, f"--listen={listen}", f"--fdname={name}", "--setenv=PATH", sys.executable, "-c", SERVE]
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def knock(port: int) -> None:
    """The first connection is what starts the service."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=30).close()
        except ConnectionRefusedError:
            continue
        return
    raise AssertionError(f"nobody listens on port {port}")


def test_the_listener_serves_on_the_socket_that_systemd_holds():
    port = free_port()
    process = activated(f"127.0.0.1:{port}", name="people")
    try:
        knock(port)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
            assert answer.read() == b"here"
        assert process.stdout is not None
        assert process.stdout.readline().strip() == str(port)
    finally:
        process.kill()
        process.communicate()


def test_a_socket_under_another_name_is_not_ours():
    port = free_port()
    process = activated(f"127.0.0.1:{port}", name="something-else")
    try:
        knock(port)
        assert process.stdout is not None
        assert process.stdout.readline().strip() not in ("", str(port)), "it binds its own port"
    finally:
        process.kill()
        process.communicate()


def test_a_socket_off_loopback_needs_tls():
    port = free_port()
    process = activated(f"0.0.0.0:{port}", name="people")
    try:
        knock(port)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert "leaves this host without TLS" in said
    assert "from systemd" in said
