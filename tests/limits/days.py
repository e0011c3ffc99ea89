"""Days in minutes: the daemon's own beats over a real database on a clock that is moved, with a cluster that churns."""

from __future__ import annotations

import gc
import os
import random
import tempfile
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.builders import CLUSTER, a_delivery, a_node, a_reading, a_report, a_snapshot, a_workload, an_xid
from tests.fakes.clock import FakeClock
from tests.fakes.scheduler import FakeScheduler

from trimtab.central import Central, Parts
from trimtab.detect.detector import catalogue
from trimtab.detect.series import SERIES_METRICS
from trimtab.issue.issuer import Issuer
from trimtab.keeping import keeping_of
from trimtab.link import Link
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.reading import GpuReading
from trimtab.plan.planner import Planner
from trimtab.settings import DaemonSettings, RollupSettings, StoreSettings
from trimtab.ship.inbox import Inbox
from trimtab.show.board import BoardBox
from trimtab.store.database import Database, open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.ring import Ring

SHM = "/dev/shm"
NODES = 6
GPUS = 2
STEP_SECONDS = 60.0
HOUR = 3600.0
TURNOVER_STEPS = 30
"""Every half hour a node is replaced by one of another name, with other GPUs, and its job by another job."""


class Days:
    """A daemon's life, a minute a step."""

    def __init__(self, directory: Path, *, seed: int = 3) -> None:
        # In memory where there is such a place: what is measured is memory, and days hold many commits.
        self._folder = tempfile.TemporaryDirectory(dir=SHM if os.access(SHM, os.W_OK) else directory)
        self.database: Database = open_database("sqlite:///trimtab.db", state_directory=Path(self._folder.name))
        # Everything that is kept by days is kept for hours here, so that a few days see it go.
        self.settings = DaemonSettings(
            cluster=CLUSTER,
            store=StoreSettings(journal_days=0.1),
            rollup=RollupSettings(minute_days=0.25, quarter_days=0.5, hour_days=1.0),
        )
        self.clock = FakeClock()
        self.history = History(self.database, cluster=CLUSTER)
        self._chance = random.Random(seed)
        self._made = NODES
        self._names = [f"gpu-{number:04d}" for number in range(NODES)]
        self._sequences: Counter[str] = Counter()
        self.steps = 0
        self.scheduler = FakeScheduler(self._snapshot(), self.clock)
        detectors = catalogue(self.settings.detect, spares_kept=0)
        schedulers = {"simulated": self.scheduler}
        self.box = BoardBox()
        self.keeping = keeping_of(self.settings, database=self.database, history=self.history, clock=self.clock)
        self.central = Central(
            Parts(
                settings=self.settings,
                clock=self.clock,
                inbox=Inbox(1000),
                journal=Journal(self.database),
                ring=Ring(cluster=CLUSTER, span_seconds=max(one.span_seconds for one in detectors),
                          interval_seconds=10.0, metrics=SERIES_METRICS),
                history=self.history,
                detectors=detectors,
                planner=Planner(self.settings.plan),
                issuer=Issuer(ledger=self.history, schedulers=schedulers, settings=self.settings.issue,
                              clock=self.clock),
                link=Link(reader=self.scheduler),
                box=self.box,
                rollup=self.keeping.rollup,
            )
        )  # fmt: skip

    def live(self, hours: float) -> None:
        """So many hours pass."""
        for _ in range(int(hours * HOUR / STEP_SECONDS)):
            self._step()

    def close(self) -> None:
        self.database.close()
        self._folder.cleanup()

    def _step(self) -> None:
        self.steps += 1
        if self.steps % TURNOVER_STEPS == 0:
            self._names[self._chance.randrange(NODES)] = f"gpu-{self._made:04d}"
            self._made += 1
        now = self._snapshot()
        self.scheduler.nodes = {node.name: node for node in now.nodes}
        self.scheduler.jobs = {job.id: job for job in now.workloads}
        self.central._parts.inbox.put([self._delivery(name) for name in self._names])
        self.central.remember()
        self.central.rebalance()
        self.central.judge()
        for beat in self.keeping.beats:
            beat.run_once()
        if self.steps % 30 == 0:
            for chore in self.keeping.chores:
                chore.run()
        self.clock.advance(STEP_SECONDS)

    def _delivery(self, name: str) -> object:
        self._sequences[name] += 1
        at = self.clock.now()
        events = ()
        if self._chance.random() < 0.02:  # findings that come and, with their node, go
            events = (an_xid(self._chance.choice([13, 31, 43, 79]), node=name, index=0, at=at - timedelta(seconds=5)),)
        report = a_report(name, sequence=self._sequences[name], at=at, gpus=0, events=events, spool_id=f"s-{name}")
        return a_delivery(replace(report, gpus=tuple(self._reading(name, index) for index in range(GPUS))),
                          received_at=at)  # fmt: skip

    def _reading(self, name: str, index: int) -> GpuReading:
        values = {metric: round(self._chance.random(), 3) for metric in SERIES_METRICS[:8]}
        return a_reading(name, index, values=values, holder=f"research/job-of-{name}")

    def _snapshot(self) -> ClusterSnapshot:
        nodes = [a_node(name, gpus=GPUS) for name in self._names]
        jobs = [a_workload(f"job-of-{name}", on={name: range(GPUS)}) for name in self._names]
        return a_snapshot(nodes, jobs)


def rss_mib() -> float:
    """What this process takes now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024 / 1024


def objects() -> Counter[str]:
    """Objects of our own kinds that are alive, and all of them together."""
    gc.collect()
    alive = gc.get_objects()
    ours = Counter(type(one).__qualname__ for one in alive if str(type(one).__module__).startswith("trimtab"))
    ours["all"] = len(alive)
    return ours
