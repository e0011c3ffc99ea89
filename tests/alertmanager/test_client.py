"""How a peer is asked: credentials, what its noes mean, and that it can neither hold us nor fill us."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from tests.alertmanager.scenes import a_frame

from trimtab.errors import SettingsError
from trimtab.settings import AlertmanagerSettings
from trimtab.show.alertmanager.client import Peer, PeerDown, PeerRefused, check_url


class Server:
    """Answers as it is told, and remembers what it was asked."""

    def __init__(self) -> None:
        self.status, self.body = 200, b"[]"
        self.good = ""
        """The Authorization that it takes; empty = any."""
        self.seen: list[tuple[str, str, str]] = []
        self.drips = threading.Event()
        self.url = ""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            authorization = self.headers.get("Authorization", "")
            made.seen.append((self.command, self.path, authorization))
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status = made.status if made.good in ("", authorization) else 401
            self.send_response(status)
            if status == 302:
                self.send_header("Location", "/elsewhere")
            if made.drips.is_set():
                self.end_headers()
                for _ in range(100):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    if not made.drips.wait(0.1):
                        return
                    threading.Event().wait(0.1)
                return
            self.send_header("Content-Length", str(len(made.body)))
            self.end_headers()
            self.wfile.write(made.body)

        do_GET = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

        def log_message(self, format: str, *args: object) -> None:
            pass

    running = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads = True
    thread = threading.Thread(target=running.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    made.url = f"http://127.0.0.1:{running.server_port}"
    yield made
    made.drips.clear()
    running.shutdown()
    thread.join()
    running.server_close()


def peer_of(server: Server, **settings) -> Peer:
    return Peer(server.url, AlertmanagerSettings(**settings))


def test_a_token_or_a_password_goes_along_and_is_read_anew_when_it_is_refused(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("old\n")
    peer = peer_of(server, token_file=str(file))
    server.good = "Bearer new"
    with pytest.raises(PeerDown, match="401"):
        peer.silences()
    file.write_text("new\n")
    assert peer.silences() == ()
    basic = peer_of(server, user="anna", password_file=str(file))
    server.good = "Basic YW5uYTpuZXc="
    assert basic.silences() == ()


def test_what_is_no_for_good_and_what_is_not_now(server: Server) -> None:
    peer = peer_of(server)
    server.body = b'"start time must be before end time"'
    server.status = 400
    with pytest.raises(PeerRefused, match=r"400: start time must be before end time"):
        peer.post_alerts([])
    for status in (302, 403, 429, 500, 503):
        server.status = status
        with pytest.raises(PeerDown, match=str(status)):
            peer.post_alerts([])
    assert "/elsewhere" not in [path for _, path, _ in server.seen]


def test_what_is_not_alertmanager_is_said(server: Server) -> None:
    server.body = b"<html>"
    with pytest.raises(PeerDown, match="in a way that is not Alertmanager's"):
        peer_of(server).silences()


def test_a_peer_that_sends_a_byte_now_and_then_holds_nobody(server: Server) -> None:
    server.drips.set()
    with pytest.raises(PeerDown, match="no whole answer in 1 s"):
        peer_of(server, timeout_seconds=1.0).silences()


def test_nothing_that_cannot_be_sent_ends_the_beat(server: Server) -> None:
    with pytest.raises(PeerDown, match=r"cannot be asked: .*surrogates"):
        peer_of(server).post_alerts([{"labels": {"alertname": "\ud800"}}])
    with pytest.raises(PeerDown, match=r"am\.\.example:9093 (does not answer|cannot be asked)"):
        Peer("http://am..example:9093", AlertmanagerSettings()).silences()


def test_a_silence_that_is_over_already_is_ended(server: Server) -> None:
    server.status, server.body = 404, b'"silence 1 not found"'
    peer_of(server).end_silence("1")
    server.status, server.body = 500, b'"silence 1 already expired"'
    peer_of(server).end_silence("1")
    server.body = b'"out of memory"'
    with pytest.raises(PeerDown, match="out of memory"):
        peer_of(server).end_silence("1")


@pytest.mark.parametrize(
    ("url", "settings", "said"),
    [
        ("alertmanager:9093", {}, "is not like http://alertmanager:9093"),
        ("ftp://am:9093", {}, "is not like"),
        ("http://am:99999", {}, "is no URL"),
        ("http://anna:pw@am:9093", {}, "leave the password out"),
        ("http://am:9093", {"token_file": "x"}, "in the clear"),
        ("http://am:9093", {"user": "anna"}, "in the clear"),
    ],
)
def test_addresses_that_cannot_be_are_refused_with_the_fix(url: str, settings: dict, said: str) -> None:
    with pytest.raises(SettingsError, match=said) as error:
        check_url(url, AlertmanagerSettings(**settings))
    assert "pw" not in str(error.value).replace("http://", "")


def test_addresses_that_can_be_are_taken() -> None:
    plain = a_frame().settings
    assert check_url("http://am:9093/", plain) == "http://am:9093"
    assert check_url("https://gw.example/am/api/v2", AlertmanagerSettings(token_file="x")) == "https://gw.example/am"
    assert check_url("http://127.0.0.1:9093", AlertmanagerSettings(user="anna")) == "http://127.0.0.1:9093"
    trusted = AlertmanagerSettings(token_file="x", allow_plaintext=True)
    assert check_url("http://am:9093", trusted) == "http://am:9093"


def test_a_ca_file_that_is_not_there_is_a_peer_that_cannot_be_asked(server: Server, tmp_path: Path) -> None:
    settings = AlertmanagerSettings(urls=("https://127.0.0.1:1",), ca_file=str(tmp_path / "being-replaced.pem"))
    with pytest.raises(PeerDown, match=r"cannot be asked|does not answer"):
        Peer("https://127.0.0.1:1", settings).silences()
