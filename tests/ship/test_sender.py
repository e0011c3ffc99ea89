"""The sender against real listeners: order, back-off, failover, and what is set aside."""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs
from tests.builders import a_report
from tests.fakes.clock import FakeClock
from tests.fakes.ingest import Ingest, ingest

from trimtab.errors import SettingsError, StoreError
from trimtab.settings import AgentSettings
from trimtab.ship.sender import Sender, sender_of
from trimtab.ship.spool import Spool


@pytest.fixture
def daemon(tmp_path: Path, clock: FakeClock) -> Iterator[Ingest]:
    with ingest(tmp_path, clock=clock) as started:
        yield started


def sender_to(*urls: str, spool: Spool, clock: FakeClock, token: str, rate: float = 20.0, **options: Any) -> Sender:
    return Sender(
        spool=spool, urls=urls, token=token, clock=clock, replay_reports_per_second=rate,
        jitter=random.Random(1), **options,
    )  # fmt: skip


def keep(spool: Spool, clock: FakeClock, reports: int = 1, **changes: Any) -> None:
    for _ in range(reports):
        spool.append(a_report(gpus=1, sequence=0, spool_id="", at=clock.now(), **changes))


def a_free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


@contextmanager
def answering(status: int, body: bytes = b"", **headers: str) -> Iterator[tuple[str, list[str]]]:
    """A server that gives one answer to everything, and what it was asked."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            asked.append(self.path)
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_a_report_goes_out_as_it_was_kept(daemon: Ingest, spool: Spool, clock: FakeClock) -> None:
    sender = sender_to(daemon.url, spool=spool, clock=clock, token=daemon.a_token())
    keep(spool, clock)
    assert sender.tick() == "sent 1 live, 0 of 0 backlog; 0 waiting"
    (delivery,) = daemon.deliveries
    assert delivery.report == a_report(gpus=1, sequence=1, spool_id=spool.spool_id)
    assert delivery.sent_at == clock.now()
    assert sender.tick() == "sent 0 live, 0 of 0 backlog; 0 waiting"


def test_after_an_outage_live_goes_first_and_the_backlog_follows_oldest_first_at_its_rate(
    daemon: Ingest, spool: Spool, clock: FakeClock
) -> None:
    sender = sender_to(daemon.url, spool=spool, clock=clock, token=daemon.a_token(), rate=10.0)
    keep(spool, clock, 30)
    clock.advance(1.0)
    assert sender.tick() == "sent 1 live, 10 of 29 backlog; 19 waiting"
    keep(spool, clock)
    clock.advance(1.0)
    assert sender.tick() == "sent 1 live, 10 of 19 backlog; 9 waiting"
    clock.advance(1.0)
    assert sender.tick() == "sent 0 live, 9 of 9 backlog; 0 waiting"
    assert daemon.arrivals == [30, *range(1, 11), 31, *range(11, 30)]
    assert daemon.duplicates_total == 0


def test_a_long_wait_is_no_licence_for_a_burst(daemon: Ingest, spool: Spool, clock: FakeClock) -> None:
    sender = sender_to(daemon.url, spool=spool, clock=clock, token=daemon.a_token(), rate=2.0)
    keep(spool, clock, 60)
    clock.advance(3600.0)
    assert sender.tick() == "sent 1 live, 20 of 59 backlog; 39 waiting"


def test_an_outage_keeps_everything_in_line_and_is_said_once(tmp_path: Path, spool: Spool, clock: FakeClock) -> None:
    port = a_free_port()
    daemon = Ingest(tmp_path, clock=clock, listen=f"127.0.0.1:{port}")
    token = daemon.a_token()
    daemon.stop()
    sender = sender_to(f"http://127.0.0.1:{port}", spool=spool, clock=clock, token=token)
    with capture_logs() as logs:
        for _ in range(5):
            keep(spool, clock)
            clock.advance(60.0)
            said = sender.tick()
    assert "refused" in said
    assert "5 waiting" in said
    assert [line["log_level"] for line in logs] == ["warning"]
    assert sender.counts.failures_total == 5
    with ingest(tmp_path, clock=clock, listen=f"127.0.0.1:{port}") as back, capture_logs() as logs:
        clock.advance(60.0)
        assert sender.tick() == "sent 1 live, 4 of 4 backlog; 0 waiting"
        assert back.arrivals == [5, 1, 2, 3, 4]
    assert [line["event"] for line in logs if line["log_level"] == "info"] == ["reports flow again"]


def test_it_backs_off_from_half_a_second_to_thirty_with_jitter(spool: Spool, clock: FakeClock) -> None:
    sender = sender_to(f"http://127.0.0.1:{a_free_port()}", spool=spool, clock=clock, token="t")
    keep(spool, clock)
    waits: list[float] = []
    waited = 0.0
    while len(waits) < 9:
        before = sender.counts.failures_total
        sender.tick()
        if sender.counts.failures_total > before:
            waits.append(waited)
            waited = 0.0
        clock.advance(0.05)
        waited += 0.05
    bounds = [min(0.5 * 2.0**n, 30.0) for n in range(8)]
    for wait, most in zip(waits[1:], bounds, strict=True):
        assert 0.5 * most <= wait <= most + 0.1
    assert len({round(wait / most, 2) for wait, most in zip(waits[1:], bounds, strict=True)}) > 3


def test_429_is_obeyed_for_as_long_as_it_asks(spool: Spool, clock: FakeClock) -> None:
    with answering(429, b'{"error": "later"}', Retry_After="7") as (url, asked):
        sender = sender_to(url, spool=spool, clock=clock, token="t")
        keep(spool, clock)
        assert "answered 429: later" in sender.tick()
        clock.advance(6.9)
        sender.tick()
        assert len(asked) == 1
        clock.advance(7 * 1.25 - 6.9 + 0.01)
        sender.tick()
        assert len(asked) == 2


def test_an_absurd_retry_after_does_not_silence_an_agent(spool: Spool, clock: FakeClock) -> None:
    with answering(503, Retry_After="99999999") as (url, asked):
        sender = sender_to(url, spool=spool, clock=clock, token="t")
        keep(spool, clock)
        sender.tick()
        clock.advance(751.0)
        sender.tick()
        assert len(asked) == 2


@pytest.mark.parametrize("status", [301, 307, 401, 403, 404, 408, 426, 429, 500, 502, 503])
def test_what_may_pass_keeps_the_report_in_line(spool: Spool, clock: FakeClock, status: int) -> None:
    with answering(status, Location="http://127.0.0.1:1/elsewhere") as (url, asked):
        sender = sender_to(url, spool=spool, clock=clock, token="t")
        keep(spool, clock)
        sender.tick()
        assert (spool.waiting, spool.set_aside_total, asked) == (1, 0, ["/v1/reports"])
        assert str(status) in sender.trouble


@pytest.mark.parametrize("body", [b"", b"<html>welcome</html>", b"{}", b'{"acknowledged": "all"}'])
def test_a_200_that_acknowledges_nothing_keeps_the_report(spool: Spool, clock: FakeClock, body: bytes) -> None:
    with answering(200, body) as (url, _asked):
        sender = sender_to(url, spool=spool, clock=clock, token="t")
        keep(spool, clock)
        assert "is it a trimtab daemon?" in sender.tick()
        assert spool.waiting == 1


def test_a_200_acknowledges_only_what_it_names(spool: Spool, clock: FakeClock) -> None:
    with answering(200, b'{"acknowledged": [2]}') as (url, _asked):
        sender = sender_to(url, spool=spool, clock=clock, token="t")
        keep(spool, clock, 3)
        clock.advance(1.0)
        assert sender.tick() == "sent 0 live, 1 of 3 backlog; 2 waiting"


@pytest.mark.parametrize("status", [400, 413, 422])
def test_what_is_refused_for_good_is_set_aside(spool: Spool, clock: FakeClock, status: int) -> None:
    with answering(status, b'{"error": "$[0].node: empty."}') as (url, asked):
        sender = sender_to(url, spool=spool, clock=clock, token="t")
        keep(spool, clock)
        sender.tick()
        clock.advance(60.0)
        sender.tick()
        assert (spool.waiting, spool.set_aside_total, sender.counts.set_aside_total, len(asked)) == (0, 1, 1, 1)


def test_one_bad_report_does_not_take_its_neighbours_with_it(daemon: Ingest, spool: Spool, clock: FakeClock) -> None:
    sender = sender_to(daemon.url, spool=spool, clock=clock, token=daemon.a_token())
    keep(spool, clock, 10)
    keep(spool, clock, errors={"": "a name that the daemon refuses"})
    keep(spool, clock, 10)
    clock.advance(1.0)
    sender.tick()
    assert (spool.waiting, spool.set_aside_total) == (0, 1)
    assert sorted(daemon.arrivals) == [*range(1, 11), *range(12, 22)]
    (aside,) = (spool._directory / "aside").glob("*.txt")
    assert "$[0].errors" in aside.read_text()


def test_a_batch_too_large_is_sent_in_parts(tmp_path: Path, spool: Spool, clock: FakeClock) -> None:
    with ingest(tmp_path, clock=clock, decoded_bytes_max=4000) as daemon:
        sender = sender_to(daemon.url, spool=spool, clock=clock, token=daemon.a_token())
        keep(spool, clock, 20)
        clock.advance(1.0)
        sender.tick()
        assert (sorted(daemon.arrivals), spool.set_aside_total) == (list(range(1, 21)), 0)
        too_large = daemon.counts.requests_total[413]
        assert too_large > 2
        keep(spool, clock, 20)
        clock.advance(1.0)
        sender.tick()
        assert (sorted(daemon.arrivals), spool.waiting) == (list(range(1, 41)), 0)
        assert daemon.counts.requests_total[413] <= too_large + 2  # it knows by now; the live report alone is small
        clock.advance(601.0)
        keep(spool, clock, 20)
        sender.tick()
        assert daemon.counts.requests_total[413] > too_large + 2  # the daemon may take more by now: it is asked again


def test_a_store_error_keeps_the_report_in_line(daemon: Ingest, spool: Spool, clock: FakeClock) -> None:
    sender = sender_to(daemon.url, spool=spool, clock=clock, token=daemon.a_token())
    daemon.next_commit_error = StoreError("disk full")
    keep(spool, clock)
    assert "disk full" in sender.tick()
    clock.advance(1.0)
    assert sender.tick() == "sent 1 live, 0 of 0 backlog; 0 waiting"


def test_a_new_token_is_all_it_takes_to_go_on(daemon: Ingest, spool: Spool, clock: FakeClock, tmp_path: Path) -> None:
    sender = sender_to(daemon.url, spool=spool, clock=clock, token=daemon.a_token("gpu-01"))
    keep(spool, clock, 2)
    assert "this token is of node gpu-01" in sender.tick()
    right = sender_to(daemon.url, spool=spool, clock=clock, token=daemon.a_token("gpu-00"))
    clock.advance(1.0)
    right.tick()
    assert (spool.waiting, spool.set_aside_total) == (0, 0)


def test_the_second_daemon_is_asked_when_the_first_is_away(daemon: Ingest, spool: Spool, clock: FakeClock) -> None:
    dead = f"http://127.0.0.1:{a_free_port()}"
    sender = sender_to(dead, daemon.url, spool=spool, clock=clock, token=daemon.a_token())
    keep(spool, clock)
    assert sender.tick() == "sent 1 live, 0 of 0 backlog; 0 waiting"
    assert sender.trouble == ""


def test_the_first_daemon_is_asked_again_once_it_is_back(
    daemon: Ingest, tmp_path: Path, spool: Spool, clock: FakeClock
) -> None:
    port = a_free_port()
    sender = sender_to(f"http://127.0.0.1:{port}", daemon.url, spool=spool, clock=clock, token=daemon.a_token())
    keep(spool, clock)
    sender.tick()
    with ingest(tmp_path, clock=clock, listen=f"127.0.0.1:{port}") as first:
        keep(spool, clock)
        clock.advance(60.0)
        sender.tick()
        assert (first.arrivals, daemon.arrivals) == ([2], [1])


def test_the_report_in_memory_reaches_the_daemon_while_the_disk_is_away(
    daemon: Ingest, tmp_path: Path, clock: FakeClock
) -> None:
    (tmp_path / "in-the-way").write_text("", encoding="ascii")
    spool = Spool(tmp_path / "in-the-way", 10**6)
    sender = sender_to(daemon.url, spool=spool, clock=clock, token=daemon.a_token())
    for _ in range(3):
        keep(spool, clock)
        assert "only the last report is kept, in memory" in sender.tick()
    assert daemon.arrivals == [1, 2, 3]
    assert daemon.duplicates_total == 0


def test_without_urls_reports_stay_in_the_spool(spool: Spool, clock: FakeClock) -> None:
    sender = sender_of(AgentSettings(), spool=spool, clock=clock)
    keep(spool, clock, 2)
    assert sender.tick() == "no daemon_urls are set; 2 reports are kept in the spool"


@pytest.mark.parametrize(
    ("urls", "token", "says"),
    [
        (["http://daemon.example:9741"], "t", "allow_plaintext"),
        (["http://10.0.0.7:9741"], "t", "allow_plaintext"),
        (["ftp://127.0.0.1"], "t", "not like https"),
        (["127.0.0.1:9741"], "t", "not like https"),
        (["https://user:word@daemon"], "t", "not like https"),
        (["https://daemon:99999"], "t", "no URL"),
        (["http://127.0.0.1:9741"], None, "trimtab enroll NODE"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_fix(
    spool: Spool, clock: FakeClock, urls: list[str], token: str | None, says: str
) -> None:
    with pytest.raises(SettingsError, match=says):
        Sender(spool=spool, urls=urls, token=token, clock=clock)


def test_plaintext_off_the_host_is_allowed_by_the_setting(spool: Spool, clock: FakeClock, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n", encoding="ascii")
    settings = AgentSettings(
        daemon_urls=("http://daemon.example:9741",), allow_plaintext=True, token_file=str(tmp_path / "token")
    )
    assert isinstance(sender_of(settings, spool=spool, clock=clock), Sender)


TLS = Path(__file__).parent.parent / "fixtures" / "tls"


def test_tls_is_spoken_to_a_daemon_that_our_ca_vouches_for_and_to_no_other(
    tmp_path: Path, spool: Spool, clock: FakeClock
) -> None:
    certificate = {"certificate_file": str(TLS / "server.pem"), "key_file": str(TLS / "server.key")}
    with ingest(tmp_path, clock=clock, **certificate) as daemon:
        token = daemon.a_token()
        keep(spool, clock)
        doubting = sender_to(daemon.url, spool=spool, clock=clock, token=token)
        assert "is signed by a CA that is not trusted here. Set ca_file to" in doubting.tick()
        trusting = sender_to(daemon.url, spool=spool, clock=clock, token=token, ca_file=str(TLS / "ca.pem"))
        assert trusting.tick() == "sent 1 live, 0 of 0 backlog; 0 waiting"
        trusting.close()


def test_reports_of_an_old_spool_and_a_new_one_are_not_confused(
    daemon: Ingest, spool: Spool, clock: FakeClock, tmp_path: Path
) -> None:
    other = Spool(tmp_path / "other", 10**6)
    token = daemon.a_token()
    for each in (spool, other):
        keep(each, clock)
        sender_to(daemon.url, spool=each, clock=clock, token=token).tick()
    other.close()
    assert (daemon.arrivals, len(daemon.deliveries)) == ([1, 1], 2)
    assert replace(daemon.deliveries[0].report, spool_id="x") == replace(daemon.deliveries[1].report, spool_id="x")
