"""Through a site's proxy to a target with TLS: a tunnel, with credentials from a file, and the target's own CA."""

from __future__ import annotations

import base64
import select
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.oncall.cases import CASES, Case
from tests.oncall.scenes import a_message, own_ca, secret_file
from tests.oncall.server import serving

from trimtab.show.oncall.sender import TryAgain

CREDENTIALS = "trimtab:t0p-secret-proxy"
PAGERDUTY: Case = next(case for case in CASES if case.kind == "pagerduty")


class Tunnels:
    """A proxy that knows CONNECT and who may ask; it sees where to, and nothing of what."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.passed = b""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def _accept(self) -> None:
        self._listener.settimeout(0.1)
        while not self._stopping.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            self._threads.append(threading.Thread(target=self._serve, args=(client,)))
            self._threads[-1].start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            head = b""
            while b"\r\n\r\n" not in head:
                head += client.recv(4096)
            self.asked.append(head.decode().split("\r\n")[0])
            wanted = base64.b64encode(CREDENTIALS.encode())
            if b"Proxy-Authorization: Basic " + wanted not in head:
                client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
                return
            host, port = head.decode().split(" ")[1].split(":")
            with socket.create_connection((host, int(port))) as target:
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                self._relay(client, target)

    def _relay(self, client: socket.socket, target: socket.socket) -> None:
        ways = {client: target, target: client}
        while not self._stopping.is_set():
            ready, _, _ = select.select(list(ways), [], [], 0.1)
            for one in ready:
                piece = one.recv(65536)
                if not piece:
                    return
                self.passed += piece
                ways[one].sendall(piece)

    def stop(self) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()


@contextmanager
def tunnelling() -> Iterator[Tunnels]:
    tunnels = Tunnels()
    try:
        yield tunnels
    finally:
        tunnels.stop()


def test_the_proxy_sees_where_to_and_nothing_of_what(tmp_path: Path) -> None:
    receiver = PAGERDUTY.receiver()
    own_ca(tmp_path)
    with serving(receiver, certificate=tmp_path) as url, tunnelling() as proxy:
        secret_file(tmp_path, "proxy", f"http://{CREDENTIALS}@{proxy.address}")
        sender = PAGERDUTY.sender(url, tmp_path, ca_file="ca.crt", proxy_url_file="proxy")
        assert sender.send(a_message(), None)
        (asked,) = proxy.asked
        assert asked.startswith(f"CONNECT {url.removeprefix('https://')} ")
        assert b"llama-70b" not in proxy.passed
    assert len(receiver.requests) == 1


def test_a_proxy_that_refuses_is_tried_again_and_its_password_is_not_shown(tmp_path: Path) -> None:
    receiver = PAGERDUTY.receiver()
    own_ca(tmp_path)
    with serving(receiver, certificate=tmp_path) as url, tunnelling() as proxy:
        secret_file(tmp_path, "proxy", f"http://trimtab:wr0ng-secret-pass@{proxy.address}")
        sender = PAGERDUTY.sender(url, tmp_path, ca_file="ca.crt", proxy_url_file="proxy")
        with pytest.raises(TryAgain, match="ProxyError") as caught:
            sender.send(a_message(), None)
    assert "wr0ng" not in str(caught.value)
    assert not caught.value.may_have_arrived
    assert receiver.requests == []
