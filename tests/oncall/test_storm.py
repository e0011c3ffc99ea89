"""A storm of XIDs the whole way: kernel log files, agents' readers, the real detectors and tracker, a strict pager."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import CLUSTER, a_delivery, a_report
from tests.fakes.clock import FakeClock
from tests.oncall.receivers import PagerDutyReceiver
from tests.oncall.scenes import secret_file
from tests.oncall.server import serving

from trimtab.central import Central, Parts
from trimtab.collect.kernel_log import HostTime, KernelLogFollower
from trimtab.detect.detector import catalogue
from trimtab.detect.series import SERIES_METRICS
from trimtab.issue.issuer import Issuer
from trimtab.link import Link
from trimtab.onduty import on_duty
from trimtab.plan.planner import Planner
from trimtab.settings import DaemonSettings, OnCallSettings
from trimtab.settings.oncall_targets import PagerDutySettings
from trimtab.ship.inbox import Inbox
from trimtab.show.board import BoardBox
from trimtab.store.database import open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.ring import Ring

ROUTING_KEY = "0123456789abcdef0123456789abcdef"
FAULTS, NODES, GPUS = 29, 4, 8
CODES = (48, 95, 119, 79)
LINE = "3,{sequence},{at},-;NVRM: Xid (PCI:0000:{bus:02x}:00): {code}, pid='<unknown>', name=<unknown>, {words}\n"


class Node:
    """One node's kernel log, its reader and its reports."""

    def __init__(self, number: int, directory: Path, clock: FakeClock) -> None:
        self.name = f"gpu-{number:02}"
        self.faulty = [index for index in range(GPUS) if number * GPUS + index < FAULTS]
        self._clock = clock
        self._log = directory / f"{self.name}.log"
        self._log.write_text("")
        self._boot, self._booted_at_seconds = "boot-a", clock.monotonic_seconds() - 100_000.0
        self._lines = self._reports = 0
        self._follower = KernelLogFollower(
            str(self._log), clock=clock, state_directory=directory / self.name, host_time=self._host_time
        )
        assert self._follower.events() == []

    def _host_time(self) -> HostTime:
        return HostTime(boot_id=self._boot, uptime_seconds=self._clock.monotonic_seconds() - self._booted_at_seconds)

    def storm(self, lines: int) -> None:
        """So many lines at once, of all its faults in turn."""
        at = int(self._host_time().uptime_seconds * 1e6)
        with self._log.open("a") as file:
            for _ in range(lines):
                index = self.faulty[self._lines % len(self.faulty)]
                self._lines += 1
                file.write(
                    LINE.format(
                        sequence=self._lines,
                        at=at,
                        bus=0x10 + index,
                        code=CODES[index % len(CODES)],
                        words="GPU has fallen off the bus." if index % len(CODES) == 3 else "storm",
                    )
                )

    def reboot(self) -> None:
        self._boot, self._booted_at_seconds = "boot-b", self._clock.monotonic_seconds()
        self._log.write_text("")

    def report(self):
        self._reports += 1
        events = self._follower.events()
        self._follower.commit()
        now = self._clock.now()
        return a_delivery(
            a_report(
                self.name,
                sequence=self._reports,
                at=now,
                boot_id=self._boot,
                gpus=GPUS,
                events=tuple(events),
            ),
            received_at=now,
        ), sum(event.count for event in events)


class Hall:
    """A daemon's beats over these nodes, with one pager."""

    def __init__(self, directory: Path, url: str) -> None:
        secret_file(directory, "pd.key", ROUTING_KEY)
        target = PagerDutySettings(routing_key_file="pd.key", url=url, per_minute_max=60_000)
        self.settings = DaemonSettings(
            cluster=CLUSTER, state_directory=str(directory), oncall=OnCallSettings(targets={"night": target})
        )
        self.clock = FakeClock()
        self.nodes = [Node(number, directory, self.clock) for number in range(NODES)]
        self.database = open_database("sqlite:///trimtab.db", state_directory=directory)
        self.history = History(self.database, cluster=CLUSTER)
        self.duty = on_duty(
            self.settings,
            history=self.history,
            clock=self.clock,
            page_url=lambda: "https://trimtab.example",
            why_not_well=str,
        )
        detectors = catalogue(self.settings.detect)
        span_seconds = max(one.span_seconds for one in detectors)
        self.inbox = Inbox(1000)
        self.central = Central(
            Parts(
                settings=self.settings,
                clock=self.clock,
                inbox=self.inbox,
                journal=Journal(self.database),
                ring=Ring(cluster=CLUSTER, span_seconds=span_seconds, interval_seconds=10.0, metrics=SERIES_METRICS),
                history=self.history,
                detectors=detectors,
                planner=Planner(self.settings.plan),
                issuer=Issuer(ledger=self.history, schedulers={}, settings=self.settings.issue, clock=self.clock),
                link=Link(),
                box=BoardBox(),
                bell=self.duty.bell,
            )
        )
        self.lines_read = 0

    def tick(self) -> None:
        """Ten seconds: all nodes report, it is judged, and what is due is sent."""
        told = [node.report() for node in self.nodes]
        self.lines_read += sum(lines for _, lines in told)
        self.inbox.put([delivery for delivery, _ in told])
        self.central.remember()
        self.central.judge()
        for beat in self.duty.beats:
            beat.run_once()
        self.clock.advance(10.0)


@pytest.fixture
def pager() -> Iterator[PagerDutyReceiver]:
    receiver = PagerDutyReceiver(ROUTING_KEY)
    with serving(receiver):
        yield receiver


@pytest.mark.parametrize("lines", [40_000, pytest.param(800_000, marks=pytest.mark.long)])
def test_twenty_nine_faults_as_a_storm_are_at_most_twenty_nine_pages_all_closed_when_mended(
    tmp_path: Path, pager: PagerDutyReceiver, lines: int
):
    hall = Hall(tmp_path, pager.url)
    for _ in range(3):
        hall.tick()
    for _ in range(10):
        for node in hall.nodes:
            node.storm(lines // 10 // NODES)
        hall.tick()
    assert hall.lines_read == lines
    assert 1 <= len(pager.pages) <= FAULTS
    assert set(pager.pages.values()) == {1}
    gpus = {found.finding.subject.gpu or found.finding.sentence for found in hall.history.open_findings()}
    assert len(gpus) >= NODES
    for node in hall.nodes:
        node.reboot()
    for _ in range(75):
        hall.tick()
    assert hall.history.open_findings() == ()
    assert hall.history.open_incidents() == ()
    assert Counter(pager.alerts.values()) == {"resolved": len(pager.pages)}
    assert pager.refusals == []
    print(f"{lines} lines of {FAULTS} faults: {len(pager.pages)} pages, {len(pager.requests)} messages, all closed")
    hall.database.close()
