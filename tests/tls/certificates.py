"""Certificates of every kind that goes wrong, made by the product's own CA with its clock set elsewhere."""

from __future__ import annotations

import os
import select
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from socket import create_server
from typing import Any

from tests.fakes.clock import FakeClock

from trimtab.clock import SystemClock
from trimtab.pki import Authority, key_pem, new_key, request_for, write_file
from trimtab.trust import Trust, TrustFiles

NAMES = ("127.0.0.1", "localhost")


class Hall:
    """A CA in a directory, and what it signs; times are days from now."""

    def __init__(self, directory: Path, cluster: str = "hall-a") -> None:
        self.directory = directory
        # Made long ago, so that it also vouched for what has ended since.
        self.authority = Authority.create(directory, cluster=cluster, clock=a_clock(-100))
        self.ca_file = str(directory / "ca.pem")

    def at(self, days: float) -> Authority:
        return Authority.load(self.directory, clock=a_clock(days))

    def server(
        self, name: str = "server", *, at_days: float = -1, days: float = 30, names: tuple[str, ...] = NAMES
    ) -> dict[str, str]:
        """Files of a server certificate, as a listener's arguments."""
        pair = self.at(at_days).issue_server(names, days=days)
        return self._kept(name, pair.certificate_pem, pair.key_pem)

    def client(self, node: str = "gpu-00", *, at_days: float = -1, days: float = 30) -> dict[str, str]:
        """Files of a node's certificate."""
        key = new_key()
        return self._kept(node, self.at(at_days).sign_node(request_for(key, node), node=node, days=days), key_pem(key))

    def trust(self, client: dict[str, str] | None = None) -> Trust:
        return Trust(TrustFiles(ca_file=self.ca_file, **(client or {})))

    def _kept(self, name: str, certificate: bytes, key: bytes) -> dict[str, str]:
        files = {"certificate_file": self.directory / f"{name}.crt", "key_file": self.directory / f"{name}.key"}
        write_file(files["key_file"], key, mode=0o600)
        write_file(files["certificate_file"], certificate, mode=0o644)
        return {what: str(file) for what, file in files.items()}


def a_clock(days: float) -> FakeClock:
    return FakeClock(SystemClock().now() + timedelta(days=days))


@contextmanager
def raw_server(context: ssl.SSLContext) -> Iterator[int]:
    """A TLS server that does no more than shake hands and answer 200; its port."""
    ended = threading.Event()

    def serve() -> None:
        while not ended.is_set():
            with suppress(OSError, ValueError):
                taken, _ = listening.accept()
                taken.settimeout(10)
                with (
                    suppress(OSError),
                    context.wrap_socket(taken, server_side=True, do_handshake_on_connect=False) as talking,
                ):
                    try:
                        talking.do_handshake()
                    except ssl.SSLError:
                        # Who hangs up on bytes that it has not read resets the connection, and its alert with it.
                        select.select([talking.fileno()], [], [], 5)
                        os.read(talking.fileno(), 65536)
                        continue
                    talking.recv(65536)
                    talking.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}")

    with create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(0.2)
        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            ended.set()
            thread.join(20)


def server_context(files: dict[str, str], **attributes: Any) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(files["certificate_file"], files["key_file"])
    for name, value in attributes.items():
        setattr(context, name, value)
    return context
