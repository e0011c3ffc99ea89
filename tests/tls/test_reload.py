"""New certificates are taken up without a restart, a dropped connection or a failed request; broken ones are not."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from tests.system.processes import eventually
from tests.tls.certificates import Hall, a_clock

from trimtab import pki
from trimtab.errors import SettingsError
from trimtab.listener import Listener
from trimtab.outbound import session
from trimtab.settings.exposition import AgentMetricsSettings
from trimtab.show.metrics_server import MetricsServer
from trimtab.tls import ServerTls, TlsFiles
from trimtab.trust import LOOK_SECONDS, Trust, TrustFiles


@pytest.fixture
def hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path / "hall")


async def answered(_request: Request) -> PlainTextResponse:
    return PlainTextResponse("x" * 1000)


@contextmanager
def listening(**files: str) -> Iterator[Listener]:
    listener = Listener(Starlette(routes=[Route("/", answered)]), name="people", listen="127.0.0.1:0", **files)
    listener.start()
    try:
        yield listener
    finally:
        listener.stop()


def serial_at(port: int, hall: Hall) -> int:
    """Of the certificate that a new handshake brings."""
    context = ssl.create_default_context(cafile=hall.ca_file)
    with (
        socket.create_connection(("127.0.0.1", port), timeout=20) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as talking,
    ):
        der = talking.getpeercert(binary_form=True)
    assert der is not None
    return pki.certificate_of_der(der).serial_number


def held_serial(files: dict[str, str]) -> int:
    return pki.read_certificates(Path(files["certificate_file"]))[0].serial_number


class Load:
    """Requests without a pause, on kept connections and on new ones, until it is stopped; every failure is kept."""

    def __init__(self, port: int, hall: Hall, *, threads: int = 4) -> None:
        self.url, self.ca_file = f"https://127.0.0.1:{port}/", hall.ca_file
        self.answered, self.failures, self._ended = 0, [], threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(n % 2 == 0,)) for n in range(threads)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        for thread in self._threads:
            thread.join(30)

    def _run(self, is_kept: bool) -> None:
        with session(timeout_seconds=20, ca_file=self.ca_file) as kept:
            while not self._ended.is_set():
                try:
                    if is_kept:
                        self._count(kept.get(self.url))
                    else:
                        with session(timeout_seconds=20, ca_file=self.ca_file) as fresh:
                            self._count(fresh.get(self.url))
                except requests.RequestException as error:
                    self.failures.append(repr(error))

    def _count(self, answer: requests.Response) -> None:
        self.answered += 1
        if (answer.status_code, len(answer.content)) != (200, 1000):
            self.failures.append(answer.text)


def test_no_request_fails_while_certificates_change_under_load(hall: Hall):
    files = hall.server()
    with listening(**files) as listener, Load(listener.port, hall) as load:
        serials = {serial_at(listener.port, hall)}
        for _ in range(3):
            before = load.answered
            eventually(lambda before=before: load.answered > before + 40)
            hall.server()
            wanted = held_serial(files)
            eventually(lambda wanted=wanted: serial_at(listener.port, hall) == wanted)  # it looks by itself
            serials.add(wanted)
        before = load.answered
        eventually(lambda: load.answered > before + 40)
    assert load.failures == []
    assert len(serials) == 4
    assert listener.tls is not None
    assert listener.tls.reloads_total == 3


def test_an_open_connection_outlives_the_certificate_that_it_began_with(hall: Hall):
    with listening(**hall.server()) as listener:
        context = ssl.create_default_context(cafile=hall.ca_file)
        with (
            socket.create_connection(("127.0.0.1", listener.port), timeout=20) as plain,
            context.wrap_socket(plain, server_hostname="127.0.0.1") as talking,
        ):
            for _ in range(2):
                talking.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
                got = b""
                while not got.endswith(b"x" * 1000):
                    got += talking.recv(65536)
                hall.server()
                assert listener.reload() == "people: certificate read again"


def test_a_broken_file_keeps_the_old_one_and_says_so_until_it_is_mended(hall: Hall):
    files = hall.server()
    with listening(**files) as listener:
        assert listener.tls is not None
        serial, good = held_serial(files), Path(files["certificate_file"]).read_bytes()
        Path(files["certificate_file"]).write_text("half a certif")
        assert "Both must be PEM files" in listener.reload()
        assert listener.tls.trouble.endswith("The last good ones stay in force.")
        assert [bool(fact.trouble) for fact in listener.tls.facts] == [True]
        assert serial_at(listener.port, hall) == serial
        Path(files["certificate_file"]).unlink()
        assert "No such file" in listener.reload()
        assert serial_at(listener.port, hall) == serial
        Path(files["certificate_file"]).write_bytes(good)
        listener.reload()
        assert listener.tls.trouble == ""


def test_a_new_certificate_that_has_ended_is_not_taken_up(hall: Hall):
    files = hall.server()
    with listening(**files) as listener:
        serial = held_serial(files)
        hall.server(at_days=-60, days=30)
        assert "it ended at" in listener.reload()
        assert serial_at(listener.port, hall) == serial


def test_a_listener_whose_certificate_has_ended_says_so_for_as_long_as_it_has(hall: Hall):
    tls = ServerTls("ingest", TlsFiles(**hall.server(at_days=-60, days=30)))
    assert "nobody will trust this listener" in tls.trouble
    tls.look()
    assert "nobody will trust this listener" in tls.trouble
    hall.server()
    tls.look(is_asked=True)
    assert tls.trouble == ""


def test_half_a_pair_is_waited_for_and_no_trouble(hall: Hall):
    files = hall.server()
    tls = ServerTls("ingest", TlsFiles(**files))
    old_key = Path(files["key_file"]).read_bytes()
    hall.server()
    new_key = Path(files["key_file"]).read_bytes()
    Path(files["key_file"]).write_bytes(old_key)
    assert tls.look() == ""  # seen, and not touched yet
    Path(files["key_file"]).write_bytes(new_key)
    assert (tls.look(), tls.trouble) == ("", "")  # it has changed again
    assert tls.look() == "ingest: certificate read again"


def test_a_broken_file_is_said_once_and_not_at_each_look(hall: Hall):
    files = hall.server()
    tls = ServerTls("ingest", TlsFiles(**files))
    Path(files["key_file"]).write_text("no key")
    assert tls.look() == ""
    assert "Both must be PEM files" in tls.look()
    assert tls.look() == ""
    assert tls.trouble != ""


def test_a_key_behind_a_password_is_refused_and_nobody_is_asked_for_it(hall: Hall):
    from cryptography.hazmat.primitives import serialization

    files = hall.server()
    locked = pki.new_key().private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(b"secret"),
    )
    Path(files["key_file"]).write_bytes(locked)
    with pytest.raises(SettingsError, match="locked by a password"):
        ServerTls("people", TlsFiles(**files))


def test_a_client_takes_up_a_new_ca_and_keeps_the_old_one_while_the_new_is_broken(hall: Hall, tmp_path: Path):
    trusted, other = tmp_path / "trusted.pem", Hall(tmp_path / "other")
    trusted.write_bytes(Path(hall.ca_file).read_bytes())
    clock = a_clock(0)
    trust = Trust(TrustFiles(ca_file=str(trusted)), clock=clock)
    with listening(**hall.server()) as listener, session(timeout_seconds=20, trust=trust) as asking:
        url = f"https://127.0.0.1:{listener.port}/"
        assert asking.get(url).status_code == 200
        trusted.write_text("no certificate")
        for _ in range(3):
            clock.advance(LOOK_SECONDS)
            assert asking.get(url).status_code == 200
        assert trust.trouble.endswith("The last good ones stay in force.")
        trusted.write_bytes(Path(other.ca_file).read_bytes())
        for _ in range(2):
            clock.advance(LOOK_SECONDS)
            trust.look()
        assert trust.trouble == ""
        with session(timeout_seconds=20, trust=trust) as stranger, pytest.raises(requests.exceptions.SSLError):
            stranger.get(url)


def test_a_client_shows_its_certificate_once_it_is_there_and_the_renewed_one_afterwards(hall: Hall):
    files = {
        name: str(hall.directory / f"gpu-00.{end}") for name, end in (("certificate_file", "crt"), ("key_file", "key"))
    }
    clock = a_clock(0)
    trust = Trust(TrustFiles(ca_file=hall.ca_file, **files), clock=clock)
    assert not trust.is_shown
    ends = []
    for days in (10, 20):
        hall.client(days=days)
        for _ in range(2):
            clock.advance(LOOK_SECONDS)
            trust.look()
        ends += [round(fact.remaining_seconds / 86400) for fact in trust.facts if fact.use == "client"]
    assert trust.is_shown
    assert ends == [9, 19]
    clock.advance(19 * 86400)
    assert trust.look()  # it has ended meanwhile: it is shown no more
    assert not trust.is_shown


def test_an_agents_metrics_are_served_by_the_new_certificate(hall: Hall):
    files = hall.server()
    server = MetricsServer("127.0.0.1:0", lambda _accept: (b"ok\n", "text/plain"), AgentMetricsSettings(**files))
    try:
        old = serial_at(server.port, hall)
        assert old == held_serial(files)
        hall.server()
        eventually(lambda: serial_at(server.port, hall) == held_serial(files))
        assert [fact.use for fact in server.certificates] == ["metrics"]
    finally:
        server.stop()


def test_a_listener_with_idle_and_silent_clients_ends_in_time_and_without_an_error(hall: Hall):
    context = ssl.create_default_context(cafile=hall.ca_file)
    left: list[socket.socket] = []
    with listening(**hall.server()) as listener:
        for number in range(45):
            taken = socket.create_connection(("127.0.0.1", listener.port), timeout=20)
            if number % 3:
                taken = context.wrap_socket(taken, server_hostname="127.0.0.1")
                taken.sendall(b"GET / HTTP/1.1\r\nHost: a\r\n" + (b"\r\n" if number % 3 == 1 else b""))
            left.append(taken)
    # A thread that ended by an error (EBUSY, once) is a warning of pytest's, and warnings are errors here.
    assert not listener.is_alive
    for one in left:
        one.close()
