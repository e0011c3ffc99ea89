"""The events stream: each board once, a sign of life between, a clean end, and nobody waits for a slow reader."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest
import requests
from tests.builders import a_node, a_snapshot, a_window
from tests.fakes.clock import FakeClock
from tests.fakes.people import NOW, TOKEN, Served, a_board, serving

from trimtab.model.board import Board


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(board=a_board(), web=tmp_path, heartbeat_seconds=0.05) as running:
        yield running


class Reader:
    """Reads one stream event by event."""

    def __init__(self, served: Served, session: requests.Session | None = None, encoding: str = "gzip") -> None:
        headers = {} if session else {"Authorization": f"Bearer {TOKEN}"}
        headers["Accept-Encoding"] = encoding
        get = (session or requests).get
        self.answer = get(served.url + "/api/v1/events", headers=headers, stream=True, timeout=10)
        self._lines = self._split()

    def _split(self) -> Iterator[bytes]:
        parts: list[bytes] = []
        for chunk in self.answer.iter_content(chunk_size=None):
            *ended, rest = chunk.split(b"\n")
            for line in ended:
                yield b"".join([*parts, line])
                parts = []
            parts.append(rest)

    def next_board(self) -> tuple[int, Board]:
        sequence = 0
        for line in self._lines:
            name, _, value = line.partition(b": ")
            if name == b"id":
                sequence = int(value)
            if name == b"data":
                return sequence, msgspec.json.decode(value, type=Board)
        raise AssertionError("the stream ended")

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_: object) -> None:
        self.answer.close()

    def next_comment(self) -> bytes:
        return next(line for line in self._lines if line.startswith(b":"))

    def rest(self) -> list[bytes]:
        return [line for line in self._lines if line and not line.startswith(b":")]


def test_the_latest_board_comes_at_once_and_each_new_one_after_it(served: Served) -> None:
    with Reader(served) as reader:
        assert reader.answer.headers["content-type"].startswith("text/event-stream")
        assert reader.next_board() == (1, a_board())
        served.box.publish(a_board(is_paused=True))
        sequence, board = reader.next_board()
        assert (sequence, board.is_paused) == (2, True)


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_the_events_come_compressed_where_the_reader_takes_it_each_at_once(served: Served, encoding: str) -> None:
    with Reader(served, encoding=encoding) as reader:
        assert reader.answer.headers.get("content-encoding", "identity") == encoding
        for sequence in (1, 2, 3):
            assert reader.next_board()[0] == sequence
            served.box.publish(a_board())


def test_when_nothing_happens_a_comment_keeps_the_line_open(served: Served) -> None:
    with Reader(served) as reader:
        reader.next_board()
        assert reader.next_comment() == b": nothing new"


def test_streams_end_cleanly_when_the_daemon_stops(served: Served) -> None:
    with Reader(served) as reader:
        reader.next_board()
        served.box.close()
        assert reader.rest() == []
    assert served.box.readers == 0


def test_a_stream_needs_a_session_and_ends_with_it(tmp_path: Path) -> None:
    wall = FakeClock()
    with (
        serving(board=a_board(), web=tmp_path, wall=wall, heartbeat_seconds=0.05) as served,
        requests.Session() as page,
    ):
        assert requests.get(served.url + "/api/v1/events", timeout=5).status_code == 401
        page.get(f"{served.url}/open/{served.door.new_link()}", timeout=5)
        with Reader(served, page) as reader:
            reader.next_board()
            wall.advance(12 * 3600.0 + 1)
            assert reader.rest() == []


def test_a_reader_that_does_not_read_holds_up_nobody(tmp_path: Path) -> None:
    nodes = [a_node(f"gpu-{number:04}") for number in range(600)]
    large = a_board(snapshot=a_snapshot(nodes), window=a_window(at=NOW), findings=(), commands=())
    request = f"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {TOKEN}\r\n\r\n"
    with serving(board=large, web=tmp_path) as served, socket.socket() as stuck:
        stuck.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        stuck.connect(("127.0.0.1", served.listener.port))
        stuck.sendall(request.encode())
        with Reader(served) as reader:
            assert reader.next_board()[0] == 1
            for sequence in range(2, 12):
                served.box.publish(large)
                assert reader.next_board()[0] == sequence


def test_many_readers_all_get_the_same_board(served: Served) -> None:
    with ExitStack() as stack:
        readers = [stack.enter_context(Reader(served)) for _ in range(20)]
        assert [reader.next_board()[0] for reader in readers] == [1] * 20
        served.box.publish(a_board())
        assert [reader.next_board()[0] for reader in readers] == [2] * 20


def test_more_streams_than_allowed_are_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.show.api_pages.STREAMS_MAX", 1)
    with serving(board=a_board(), web=tmp_path, heartbeat_seconds=0.05) as served, Reader(served) as reader:
        reader.next_board()
        answer = served.get("/api/v1/events")
        assert (answer.status_code, "open already" in answer.json()["error"]) == (503, True)
