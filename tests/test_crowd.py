"""Slow and idle connections on a real listener: they make room, and whoever works is let be."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from tests.system.processes import eventually

from trimtab import crowd
from trimtab.listener import Listener

PLACES = 8


async def answer(request: Request) -> Response:
    await request.body()
    return PlainTextResponse("well")


@pytest.fixture
def listener() -> Iterator[Listener]:
    app = Starlette(routes=[Route("/", answer, methods=["GET", "POST"])])
    made = Listener(app, name="people", listen="127.0.0.1:0", connections_max=PLACES)
    made.start()
    yield made
    made.stop()


def connect(listener: Listener, stack: ExitStack, begin: bytes = b"") -> socket.socket:
    made = stack.enter_context(socket.create_connection(("127.0.0.1", listener.port), timeout=30.0))
    if begin:
        made.sendall(begin)
    return made


def is_answered(one: socket.socket) -> bool:
    one.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    return b"well" in one.recv(4096)


def is_closed(one: socket.socket) -> bool:
    try:
        return one.recv(1) == b""
    except ConnectionError:
        return True


def test_whoever_comes_anew_gets_the_place_of_whoever_waited_longest(listener: Listener) -> None:
    with ExitStack() as stack:
        worker = connect(listener, stack)
        assert is_answered(worker)
        strangers = [connect(listener, stack) for _ in range(PLACES + 4)]
        eventually(lambda: listener.crowd.closed_total["made_room"] == 5)
        assert all(is_closed(one) for one in strangers[:5])
        assert is_answered(worker)  # it has spoken: strangers go first
        assert is_answered(strangers[-1])
        assert listener.crowd.connections <= PLACES


def test_a_head_and_a_body_that_never_end_are_ended(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crowd, "HEAD_SECONDS", 0.3)
    monkeypatch.setattr(crowd, "BODY_SECONDS", 0.3)
    with ExitStack() as stack:
        silent = connect(listener, stack)
        head = connect(listener, stack, b"GET / HTTP/1.1\r\nHost: x\r\nX-")
        body = connect(listener, stack, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 50\r\n\r\nab")
        assert is_closed(silent)
        assert is_closed(head)
        assert is_closed(body)
    assert listener.crowd.closed_total["slow_head"] == 2
    assert listener.crowd.closed_total["slow_body"] == 1
    eventually(lambda: listener.crowd.connections == 0)


def test_a_kept_connection_may_be_quiet_and_is_asked_to_hurry_once_it_begins(
    listener: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crowd, "HEAD_SECONDS", 1.0)
    with ExitStack() as stack:
        kept = connect(listener, stack)
        assert is_answered(kept)
        other = connect(listener, stack)
        assert is_closed(other)  # a second has passed
        assert is_answered(kept)
        kept.sendall(b"\r\n")  # no request ever begins so
        assert is_closed(kept)
