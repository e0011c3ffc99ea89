"""A hall of nodes that report to a real daemon as told, and a scheduler that says who holds what."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import Any

import msgspec
import requests
from tests.alerts.servers import serving
from tests.builders import BUSY, CLUSTER, IDLE, a_node, a_reading, a_report, a_snapshot, a_workload, an_xid
from tests.system.processes import Daemon

from trimtab.clock import ScaledClock, iso
from trimtab.model.cluster import Node, Workload
from trimtab.model.reading import GpuReading, GpuState, Report
from trimtab.ship.wire import MSGPACK, SENT_AT_HEADER, ZSTD, encode_reports

GPUS = 4
REPORT_SECONDS = 10.0
WAITING = "eval-9"
HUNG = {**BUSY, "utilization_ratio": 1.0, "sm_active_ratio": 0.1, "dram_active_ratio": 0.0, "power_watts": 130.0,
        "tensor_active_ratio": 0.0}  # fmt: skip


@dataclass
class Spot:
    """One node: whose job it holds, and how it is ill while it is."""

    name: str
    job: str
    rank: int = 0
    rack: str = "r1"
    held: int = GPUS
    ill: Callable[[Report, Spot], Report | None] = lambda report, _: report
    is_ill: bool = False
    is_told: bool = False
    """Whether what happens once has been reported."""
    boots: int = 1
    skew_seconds: float = 0.0
    sequence: int = 0

    def report(self, now: datetime) -> Report | None:
        self.sequence += 1
        holder = f"research/{self.job}-{self.rank}"
        values = {**BUSY, "clock_event_active/hw_thermal": 0.0}
        gpus = tuple(
            a_reading(self.name, index, values=values if index < self.held else IDLE,
                      holder=holder if index < self.held else None)
            for index in range(GPUS)
        )  # fmt: skip
        report = a_report(self.name, sequence=self.sequence, at=now, gpus=0, boot_id=f"boot-{self.boots}",
                          spool_id=f"spool-{self.name}")  # fmt: skip
        report = replace(report, gpus=gpus, gpus_expected=GPUS)
        return self.ill(report, self) if self.is_ill else report


def with_values(report: Report, values: Mapping[str, float], *indexes: int) -> Report:
    """The report with these GPUs (all without any) at other values."""

    def changed(reading: GpuReading) -> GpuReading:
        is_meant = not indexes or reading.info.index in indexes
        return replace(reading, values={**reading.values, **values}) if is_meant else reading

    return replace(report, gpus=tuple(changed(reading) for reading in report.gpus))


def falls_off(report: Report, spot: Spot) -> Report:
    events = (
        () if spot.is_told else (an_xid(79, node=spot.name, index=1, at=report.sampled_at, boot_id=report.boot_id),)
    )
    spot.is_told = True
    gpus = tuple(
        replace(reading, state=GpuState.LOST, values={}) if reading.info.index == 1 else reading
        for reading in report.gpus
    )
    return replace(report, gpus=gpus, events=events)


def program_fails(report: Report, spot: Spot) -> Report:
    if spot.is_told:
        return report
    spot.is_told = True
    return replace(report, events=(an_xid(31, node=spot.name, index=1, at=report.sampled_at, boot_id=report.boot_id),))


def is_skewed(report: Report, spot: Spot) -> Report:
    spot.skew_seconds = 900.0
    return replace(report, sampled_at=report.sampled_at - timedelta(seconds=900))


def _one_by_a_ghost(reading: GpuReading) -> GpuReading:
    return replace(reading, holder="research/ghost-0") if reading.info.index == 3 else reading


def spots() -> list[Spot]:
    """A node a kind, beside a gang of four and a rack of two."""
    return [
        Spot("n-device", "a-device", ill=falls_off),
        Spot("n-program", "a-program", ill=program_fails),
        Spot("n-missing", "a-missing", ill=lambda report, _: replace(report, gpus=report.gpus[:-1])),
        Spot("n-silent", "a-silent", ill=lambda *_: None),
        Spot("n-blind", "a-blind", ill=lambda report, _: replace(report, gpus=(), errors={"nvml": "no driver"})),
        Spot("n-clock", "a-clock", ill=is_skewed),
        Spot("n-hung", "a-hung", ill=lambda report, _: with_values(report, HUNG)),
        Spot("n-hot", "a-hot", ill=lambda report, _: with_values(report, {"clock_event_active/hw_thermal": 1.0}, 2)),
        Spot("n-idle", "a-idle", ill=lambda report, _: with_values(report, IDLE)),
        Spot("n-odd", "a-odd", ill=lambda report, _: replace(
            report, gpus=tuple(_one_by_a_ghost(one) for one in report.gpus))),
        *(Spot(f"g-{rank}", "gang", rank=rank) for rank in (0, 2, 3)),
        Spot("g-1", "gang", rank=1,
             ill=lambda report, _: with_values(report, {"sm_clock_hertz": 0.55 * BUSY["sm_clock_hertz"]}, 2)),
        *(Spot(f"r9-{rank}", f"b-{rank}", rack="r9", ill=lambda *_: None) for rank in (0, 1)),
        *(Spot(f"f-{rank}", f"c-{rank}", held=2) for rank in (0, 1)),
    ]  # fmt: skip


@dataclass
class Hall:
    """The nodes, what runs on them, and who waits."""

    clock: ScaledClock
    spots: list[Spot] = field(default_factory=spots)
    waits_since: datetime | None = None

    def nodes(self) -> list[Node]:
        return [a_node(spot.name, gpus=GPUS, rack=spot.rack) for spot in self.spots]

    def workloads(self) -> list[Workload]:
        jobs: dict[str, dict[str, range]] = {}
        for spot in sorted(self.spots, key=lambda one: one.rank):
            jobs.setdefault(spot.job, {})[spot.name] = range(spot.held)
        started = self.clock.anchor - timedelta(hours=3)
        made = [
            a_workload(name, on=on, controller="kubernetes", tenant="research", started_at=started)
            for name, on in jobs.items()
        ]
        # A rank's number is its place in the gang; a job of one node is called by its own.
        made = [self._named(workload) for workload in made]
        if self.waits_since is not None:
            made.append(
                a_workload(
                    WAITING, gpus_per_pod=4, controller="kubernetes", tenant="research", waiting_since=self.waits_since
                )
            )
        return made

    def _named(self, workload: Workload) -> Workload:
        ranks = {spot.name: spot.rank for spot in self.spots}
        placed = tuple(
            replace(one, pod=f"{workload.name}-{ranks[one.node]}", rank=ranks[one.node]) for one in workload.placements
        )
        return replace(workload, placements=placed)

    def snapshot(self) -> bytes:
        return msgspec.json.encode(a_snapshot(self.nodes(), self.workloads(), taken_at=self.clock.now()))


@contextmanager
def a_scheduler(hall: Hall) -> Iterator[str]:
    """The scheduler's API, for the daemon's reader; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = hall.snapshot() if self.path == "/snapshot" else b"[]"
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with serving(Handler) as port:
        yield f"http://127.0.0.1:{port}"


class Reporters:
    """All nodes' reports, each with its node's own token, at the pace of the hall's clock."""

    def __init__(self, hall: Hall, daemon: Daemon) -> None:
        self.refused: list[str] = []
        self._hall, self._url = hall, f"{daemon.ingest_url}/v1/reports"
        self._tokens = {spot.name: daemon.token_of(spot.name) for spot in hall.spots}
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporters")

    def __enter__(self) -> Reporters:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._ends.set()
        self._thread.join()

    def _run(self) -> None:
        with requests.Session() as session:
            while not self._ends.wait(self._hall.clock.wall_seconds(REPORT_SECONDS)):
                for spot in self._hall.spots:
                    self._send(session, spot)

    def _send(self, session: requests.Session, spot: Spot) -> None:
        now = self._hall.clock.now()
        report = spot.report(now)
        if report is None:
            return
        sent_at = now - timedelta(seconds=spot.skew_seconds if spot.is_ill else 0.0)
        headers = {"Content-Type": MSGPACK, "Content-Encoding": ZSTD, SENT_AT_HEADER: iso(sent_at),
                   "Authorization": f"Bearer {self._tokens[spot.name]}"}  # fmt: skip
        assert report.cluster == CLUSTER
        answer = session.post(self._url, data=encode_reports([report]), headers=headers, timeout=20)
        if answer.status_code != 200:
            self.refused.append(answer.text)
