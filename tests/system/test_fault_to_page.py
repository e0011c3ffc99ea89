"""From a kernel line to a page with default settings: a real agent, a real daemon, a strict pager; each leg printed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from tests.oncall.receivers import PagerDutyReceiver
from tests.oncall.server import Reply, Request, serving
from tests.standin.driver import Driver
from tests.system.processes import CLUSTER, Daemon, Running, eventually

from trimtab.clock import SystemClock
from trimtab.collect.kernel_log import read_host_time
from trimtab.model.advice import OpenFinding
from trimtab.show.api_types_oncall import IncidentStory

ROUTING_KEY = "0123456789abcdef0123456789abcdef"
PAGE_SECONDS_MAX = 30.0
DEFAULTS = """
[store]
url = "sqlite:///trimtab.db"
[detect]
[plan]
[oncall]
[oncall.targets.night]
kind = "pagerduty"
routing_key_file = "pd.key"
url = "{url}"
"""
AGENT = """
cluster = "{cluster}"
node = "gpu-00"
daemon_urls = ["{url}"]
token_file = "{token_file}"
spool_directory = "{home}/spool"
kernel_log = "{log}"
metrics_listen = ""
"""


class TimedPager(PagerDutyReceiver):
    def __init__(self, clock: SystemClock) -> None:
        super().__init__(ROUTING_KEY)
        self.clock, self.rang, self.rang_at = clock, threading.Event(), clock.now()

    def judge(self, request: Request) -> Reply:
        reply = super().judge(request)
        if not self.rang.is_set():
            self.rang_at = self.clock.now()
            self.rang.set()
        return reply


@pytest.mark.long
def test_a_self_sufficient_fault_pages_within_thirty_seconds_of_its_kernel_line(tmp_path: Path) -> None:
    clock = SystemClock()
    pager, driver = TimedPager(clock), Driver(tmp_path)
    with serving(pager) as url:
        daemon = Daemon(tmp_path, settings=DEFAULTS.format(url=url))
        daemon.state_directory.mkdir()
        (daemon.state_directory / "pd.key").write_text(ROUTING_KEY)
        agent = None
        try:
            daemon.up()
            log, token = tmp_path / "kmsg.log", tmp_path / "token"
            log.write_text("")
            token.write_text(daemon.token_of("gpu-00"))
            settings = tmp_path / "agent.toml"
            settings.write_text(
                AGENT.format(cluster=CLUSTER, url=daemon.ingest_url, token_file=token, home=tmp_path, log=log)
            )
            agent = Running("agent", "--settings", str(settings), home=tmp_path, name="agent", env=driver.environment())
            agent.start()
            row = eventually(lambda: daemon.node("gpu-00"), said=agent.tail)
            pci = "0000:00:00.0"
            assert row.cells
            began_at = clock.now()
            uptime_us = int(read_host_time().uptime_seconds * 1e6)
            with log.open("a") as file:
                file.write(f"3,1,{uptime_us},-;NVRM: Xid (PCI:{pci[:-2]}): 79, GPU has fallen off the bus.\n")
            assert pager.rang.wait(90.0), f"{agent.tail()}\n{daemon.tail()}"
            finding = daemon.finding("device_fault")
            story = daemon.get("/api/v1/incidents/1", IncidentStory)
            _print_legs(began_at, finding, story, pager)
            assert (pager.rang_at - began_at).total_seconds() <= PAGE_SECONDS_MAX
        finally:
            for process in (agent, daemon):
                if process is not None:
                    process.close()


def _print_legs(began_at, finding: OpenFinding, story: IncidentStory, pager: TimedPager) -> None:
    legs = (
        ("kernel line -> judged (agent 10 s, commit 1 s, judge 5 s)", finding.opened_at - began_at),
        ("judged -> in the outbox", story.letters[0].created_at - finding.opened_at),
        ("outbox -> at the pager (deliver 1 s)", pager.rang_at - story.letters[0].created_at),
        ("in all", pager.rang_at - began_at),
    )
    for name, span in legs:
        print(f"{name}: {span.total_seconds():.2f} s")
