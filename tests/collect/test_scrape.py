"""Watching without agents: an exporter's page becomes the node's report."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from structlog.testing import capture_logs
from tests.fakes.clock import START, FakeClock
from tests.fakes.pages import FakePages
from tests.field_cases import case

from trimtab.collect.scrape import HttpPages, ScrapePool, Scraper
from trimtab.errors import CollectError, NoData
from trimtab.settings import ScrapeSettings, ScrapeTarget

TARGET = ScrapeTarget(url="http://10.0.0.7:9400/metrics", node="gpu-07")


def scraper(pages: dict[str, str | Exception]) -> Scraper:
    return Scraper(TARGET, cluster="hall-a", pages=FakePages(pages), clock=FakeClock(), spool_id="s")


def test_the_node_is_the_targets_and_not_the_exporters_pod():
    report = scraper({TARGET.url: case("A02").text}).scrape()
    assert (report.node, report.source, report.cluster, report.sampled_at) == (
        "gpu-07",
        "dcgm-exporter",
        "hall-a",
        START,
    )
    assert len(report.gpus) == 4


def test_the_sequence_grows_and_a_gpu_that_vanishes_is_missed():
    full = case("A24").text
    pages: dict[str, str | Exception] = {TARGET.url: full}
    found = scraper(pages)
    first = found.scrape()
    pages[TARGET.url] = "\n".join(line for line in full.splitlines() if 'gpu="1"' not in line)
    second = found.scrape()
    assert [(report.sequence, len(report.gpus), report.gpus_expected) for report in (first, second)] == [
        (1, 2, 2),
        (2, 1, 2),
    ]


def test_an_empty_page_is_not_a_node_without_gpus():
    with pytest.raises(NoData, match="names no GPU"):
        scraper({TARGET.url: "# nothing\n"}).scrape()


def test_a_failure_is_a_warning_once_and_many_are_counted():
    targets = tuple(ScrapeTarget(url=f"http://10.0.0.{n}:9400/metrics", node=f"gpu-{n:02}") for n in range(10))
    pages = FakePages({one.url: CollectError("refused") for one in targets})
    pool = ScrapePool(ScrapeSettings(targets=targets), cluster="hall-a", clock=FakeClock(), pages=pages, spool_id="s")
    try:
        with capture_logs() as said:
            pool.scrape_all()
            pool.scrape_all()
        assert [(one["log_level"], one["node"]) for one in said] == [("warning", one.node) for one in targets]
        assert len(pool.unread) == 9
        assert pool.unread[-1] == "Of 2 more nodes the exporter is not read."
    finally:
        pool.close()


def test_a_failed_target_costs_only_its_own_report_and_is_counted():
    other = ScrapeTarget(url="http://10.0.0.8:9400/metrics", node="gpu-08")
    pages = FakePages({TARGET.url: case("A24").text, other.url: CollectError("http://10.0.0.8: refused")})
    pool = ScrapePool(
        ScrapeSettings(targets=(other, TARGET)), cluster="hall-a", clock=FakeClock(), pages=pages, spool_id="s"
    )
    try:
        assert [report.node for report in pool.scrape_all()] == ["gpu-07"]
        assert pool.failing == {"gpu-08": "http://10.0.0.8: refused"}
        assert pool.unread == ("gpu-08 is not seen: its exporter is not read. http://10.0.0.8: refused",)
        pages.pages[other.url] = case("A24").text
        assert [report.node for report in pool.scrape_all()] == ["gpu-08", "gpu-07"]
        assert (pool.failing, pool.unread) == ({}, ())
        assert pool.tally.failures_total == {"gpu-08": 1}
    finally:
        pool.close()


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        status = 200 if self.path == "/metrics" else 404
        body = case("A24").text.encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def exporter() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_real_exporter_is_read_over_http(exporter):
    pages = HttpPages(timeout_seconds=5)
    try:
        assert pages.get(f"{exporter}/metrics") == case("A24").text
        with pytest.raises(CollectError, match="answered 404"):
            pages.get(f"{exporter}/")
    finally:
        pages.close()


def test_an_exporter_that_is_down_says_so():
    pages = HttpPages(timeout_seconds=2)
    try:
        with pytest.raises(CollectError, match="Is the exporter up"):
            pages.get("http://127.0.0.1:9/metrics")
    finally:
        pages.close()
