"""Each way in which TLS goes wrong, over real sockets, as agent, verbs and daemon say it: host, key and fix."""

from __future__ import annotations

import random
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from structlog.testing import capture_logs
from tests.fakes.clock import FakeClock
from tests.tls.certificates import Hall, raw_server, server_context

from trimtab.cli.place import Place
from trimtab.cli.trouble import sentence_of as sentence_of_verbs
from trimtab.clock import SystemClock
from trimtab.handshakes import Keys, Trouble, sentence_of_text, told
from trimtab.listener import Listener
from trimtab.outbound import OutboundError, session
from trimtab.settings import AlertmanagerSettings
from trimtab.ship.peer import Peer as Daemon
from trimtab.ship.peer import Verdict
from trimtab.show.alertmanager.client import Peer as Alertmanager
from trimtab.show.alertmanager.client import PeerDown
from trimtab.store.faults import sentence_of as sentence_of_store
from trimtab.trust import Trust, TrustFiles


@pytest.fixture
def hall(tmp_path: Path) -> Hall:
    return Hall(tmp_path / "hall")


@contextmanager
def listening(app: Starlette | None = None, **files: str) -> Iterator[int]:
    listener = Listener(app or Starlette(), name="ingest", listen="127.0.0.1:0", **files)
    listener.start()
    try:
        yield listener.port
    finally:
        listener.stop()


def as_agent(url: str, trust: Trust) -> str:
    """What the agent says; the reports stay in line, whatever it was."""
    daemon = Daemon(url, token="x", trust=trust, clock=SystemClock(), jitter=random.Random(1))
    answer = daemon.post(b"")
    daemon.close()
    assert answer.verdict is Verdict.LATER
    return answer.sentence


def as_verb(url: str, ca_file: str) -> str:
    place = Place(url=url, token="x", ca_file=ca_file, said_by="the test", token_said_by="the test")
    with session(timeout_seconds=20, ca_file=ca_file) as asking:
        try:
            asking.get(f"{url}/healthz")
        except (OutboundError, OSError) as error:
            return sentence_of_verbs(error, place)
    raise AssertionError("it was trusted")


def as_daemon(url: str, ca_file: str) -> str:
    """What the daemon says of an Alertmanager there."""
    with pytest.raises(PeerDown) as down:
        Alertmanager(url, AlertmanagerSettings(urls=(url,), ca_file=ca_file)).silences()
    return str(down.value)


def test_a_certificate_that_has_ended(hall: Hall):
    with listening(**hall.server(at_days=-60, days=30)) as port:
        url = f"https://127.0.0.1:{port}"
        said = as_agent(url, hall.trust())
        assert said.startswith(
            f"The certificate of 127.0.0.1:{port} has ended, or the clock of this host, where it is 20"
        )
        assert said.endswith(
            "is ahead. Renew it there (`trimtab ca renew` where the daemon made it), or set the clock."
        )
        assert f"The certificate of 127.0.0.1:{port} has ended" in as_verb(url, hall.ca_file)
        assert f"The certificate of 127.0.0.1:{port} has ended" in as_daemon(url, hall.ca_file)


def test_a_certificate_that_is_not_valid_yet(hall: Hall):
    with listening(**hall.server(at_days=2)) as port:
        url = f"https://127.0.0.1:{port}"
        said = as_agent(url, hall.trust())
        assert (
            f"The certificate of 127.0.0.1:{port} is not valid yet, or the clock of this host, where it is 20" in said
        )
        assert "is behind. Set the clock of this host (timedatectl shows it)" in said
        assert "is not valid yet" in as_verb(url, hall.ca_file)
        assert "is not valid yet" in as_daemon(url, hall.ca_file)


def test_a_certificate_for_another_name(hall: Hall):
    with listening(**hall.server(names=("trimtab.example", "192.0.2.1"))) as port:
        url = f"https://127.0.0.1:{port}"
        expected = (
            f"The certificate of 127.0.0.1:{port} is for another name than 127.0.0.1. Write a name that it is for in "
        )
        assert as_agent(url, hall.trust()) == (
            f"{expected}daemon_urls, or add 127.0.0.1 to tls.names there and run `trimtab ca renew`."
        )
        assert expected + "--url" in as_verb(url, hall.ca_file)
        assert as_daemon(url, hall.ca_file) == f"{expected}alertmanager.urls."


def test_a_ca_that_nobody_here_trusts(hall: Hall, tmp_path: Path):
    other = Hall(tmp_path / "other")
    with listening(**hall.server()) as port:
        url, start = f"https://127.0.0.1:{port}", f"The certificate of 127.0.0.1:{port} is signed by a CA that is not"
        said = as_agent(url, other.trust())
        assert said.startswith(
            f"{start} trusted here. Set ca_file, which is {other.ca_file} now, to the certificate of"
        )
        assert as_agent(url, Trust(TrustFiles())).startswith(f"{start} trusted here. Set ca_file to the certificate of")
        assert "Set --ca-file, which is" in as_verb(url, other.ca_file)
        assert "Set alertmanager.ca_file, which is" in as_daemon(url, other.ca_file)


def test_http_spoken_to_a_port_of_tls(hall: Hall):
    with listening(**hall.server()) as port:
        url, expected = (
            f"http://127.0.0.1:{port}",
            f"127.0.0.1:{port} took the connection and hung up without an answer.",
        )
        assert as_agent(url, hall.trust()) == f"{expected} If it speaks TLS, write https:// in daemon_urls."
        assert f"{expected} If it speaks TLS, write https:// in --url." in as_verb(url, hall.ca_file)
        assert as_daemon(url, hall.ca_file) == f"{expected} If it speaks TLS, write https:// in alertmanager.urls."


@pytest.mark.parametrize("status", [400, 422])
def test_what_a_proxy_says_to_http_on_its_port_of_tls_costs_no_report(hall: Hall, status: int):
    async def refuse(_request: Request) -> Response:
        return Response("<html>The plain HTTP request was sent to HTTPS port</html>", status_code=status)

    app = Starlette(routes=[Route("/v1/reports", refuse, methods=["POST"])])
    with listening(app) as port:
        said = as_agent(f"http://127.0.0.1:{port}", hall.trust())
    assert said.endswith("another server or a proxy is there. If it speaks TLS, write https:// in daemon_urls.")


def test_tls_spoken_to_a_port_of_http(hall: Hall):
    with listening() as port:
        url, expected = f"https://127.0.0.1:{port}", f"127.0.0.1:{port} does not speak TLS. Turn it on there"
        said = as_agent(url, hall.trust())
        assert said.startswith(expected)
        assert said.endswith("write http:// in daemon_urls with allow_plaintext = true if the network is trusted.")
        assert expected in as_verb(url, hall.ca_file)
        assert expected in as_daemon(url, hall.ca_file)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_a_server_that_speaks_old_tls_only(hall: Hall):
    context = server_context(hall.server())
    context.set_ciphers("DEFAULT@SECLEVEL=0")
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    with raw_server(context) as port:
        url, expected = f"https://127.0.0.1:{port}", f"127.0.0.1:{port} and this host have no version of TLS in common"
        assert expected in as_agent(url, hall.trust())
        assert expected in as_verb(url, hall.ca_file)
        assert expected in as_daemon(url, hall.ca_file)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion.TLSv1_1 is deprecated:DeprecationWarning")
def test_our_listener_does_not_speak_old_tls(hall: Hall):
    with listening(**hall.server()) as port:
        old = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        old.set_ciphers("DEFAULT@SECLEVEL=0")
        old.check_hostname, old.verify_mode = False, ssl.CERT_NONE
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
        with socket.create_connection(("127.0.0.1", port), timeout=20) as plain, pytest.raises(ssl.SSLError) as refused:
            old.wrap_socket(plain)
        assert isinstance(refused.value, ssl.SSLEOFError) or "PROTOCOL_VERSION" in str(refused.value)


def test_a_proxy_that_asks_for_a_client_certificate(hall: Hall, tmp_path: Path):
    context = server_context(hall.server(), verify_mode=ssl.CERT_REQUIRED)
    context.load_verify_locations(hall.ca_file)
    other = Hall(tmp_path / "other")
    with raw_server(context) as port:
        url = f"https://127.0.0.1:{port}"
        assert as_agent(url, hall.trust()) == (
            f"127.0.0.1:{port} takes only who shows a client certificate, and none was shown. "
            "Set client_certificate_file, or enrol this node (`trimtab enroll` beside the daemon)."
        )
        strange = Trust(TrustFiles(ca_file=hall.ca_file, **other.client()))
        refused = (
            f"127.0.0.1:{port} refused our client certificate: it does not trust the CA that signed it. Enrol this"
        )
        assert as_agent(url, strange).startswith(refused)
        assert "takes only who shows a client certificate" in as_verb(url, hall.ca_file)
        assert as_agent(url, hall.trust(hall.client())).endswith("acknowledged nothing: is it a trimtab daemon?")


def test_a_client_certificate_that_ended_there_by_their_clock(hall: Hall):
    context = server_context(hall.server(), verify_mode=ssl.CERT_REQUIRED)
    context.load_verify_locations(hall.ca_file)
    ended = hall.client(at_days=-60, days=30)
    # Our own clock stands two months ago, so that it is shown all the same.
    trust = Trust(
        TrustFiles(ca_file=hall.ca_file, **ended),
        clock=FakeClock(hall.authority.certificate.not_valid_before_utc),
    )
    assert trust.is_shown
    with raw_server(context) as port:
        said = as_agent(f"https://127.0.0.1:{port}", trust)
    assert f"127.0.0.1:{port} refused our client certificate: it has ended, or the clock there is ahead." in said
    assert said.endswith("or correct client_certificate_file.")


def test_our_listener_hangs_up_on_a_client_certificate_of_another_ca(hall: Hall, tmp_path: Path):
    strange = Hall(tmp_path / "other").client()
    with listening(**hall.server(), client_ca_file=hall.ca_file) as port:
        said = as_agent(f"https://127.0.0.1:{port}", Trust(TrustFiles(ca_file=hall.ca_file, **strange)))
    refused = (
        f"127.0.0.1:{port} hung up after our client certificate was shown. If this goes on, it does not trust the CA",
        f"127.0.0.1:{port} refused our client certificate: it does not trust the CA",
    )
    assert said.startswith(refused), said
    assert "Enrol this node anew (`trimtab enroll NODE --again` beside the daemon)" in said


def test_a_client_certificate_that_has_ended_is_not_shown(hall: Hall):
    trust = hall.trust(hall.client(at_days=-60, days=30))
    assert not trust.is_shown
    assert [fact.remaining_seconds < 0 for fact in trust.facts if fact.use == "client"] == [True]


def test_a_ca_file_that_is_none_names_key_and_file(hall: Hall, tmp_path: Path):
    empty = tmp_path / "empty.pem"
    empty.write_text("")
    with listening(**hall.server()) as port:
        said = as_verb(f"https://127.0.0.1:{port}", str(empty))
    assert f"--ca-file ({empty}) is no PEM file that can be read. Correct the file." in said


LIBPQ = (
    ('server certificate for "db.example" does not match host name "db"', "is for another name than PostgreSQL"),
    ("SSL error: certificate verify failed", "Set sslrootcert in store.url to the certificate of the CA"),
    ("server does not support SSL, but SSL was required", "PostgreSQL does not speak TLS. Turn it on there"),
    ("SSL error: tlsv13 alert certificate required", "Set sslcert and sslkey in store.url."),
    ('root certificate file "/x/root.crt" does not exist', "sslrootcert in store.url or sslcert"),
)


@pytest.mark.parametrize(("words", "sentence"), LIBPQ)
def test_what_libpq_says_is_said_with_the_key(words: str, sentence: str):
    said = sentence_of_store(
        psycopg.OperationalError(f'connection to server at "db", port 5432 failed: {words}'), place="db"
    )
    assert sentence in said, said
    assert words in said  # the driver's own words stay, for whoever knows them


def test_the_daemon_says_who_cannot_come_in_and_why(hall: Hall, tmp_path: Path):
    strange = Hall(tmp_path / "other")
    with capture_logs() as logs, listening(**hall.server(), client_ca_file=hall.ca_file) as port:
        url = f"https://127.0.0.1:{port}"
        as_agent(url, strange.trust())
        as_agent(url.replace("https", "http"), hall.trust())
        for _ in range(3):
            as_agent(url, Trust(TrustFiles(ca_file=hall.ca_file, **strange.client())))
    told = [(one["peer"], one["why"][:49]) for one in logs if one["event"] == "a client cannot come in by TLS"]
    assert told == [
        ("127.0.0.1", "it does not trust the CA of our certificate: give"),
        ("127.0.0.1", "it speaks HTTP here, where TLS is spoken: write h"),
        ("127.0.0.1", "its client certificate is not signed by a CA of c"),
    ]


def test_what_is_no_tls_is_not_said_to_be():
    assert sentence_of_text("connection refused", host="db", keys=Keys(address="store.url")) is None


@pytest.mark.parametrize("trouble", list(Trouble))
def test_every_trouble_names_the_host_and_no_secret_of_the_address(trouble: Trouble):
    for keys in (Keys(address="a"), Keys(address="daemon_urls", ca="ca_file", certificate="c", is_daemon=True)):
        said = told(trouble, host="pager.example:443", name="pager.example", keys=keys)
        assert "pager.example" in said
        assert said.endswith(".")
