"""The agents of bench/reconnect.py: the product's own spool and sender each, some thousands in one process."""

from __future__ import annotations

import argparse
import queue
import random
import resource
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import structlog

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.system.processes import CLUSTER  # noqa: E402

from trimtab import logs  # noqa: E402
from trimtab.clock import SystemClock  # noqa: E402
from trimtab.model.reading import GpuInfo, GpuReading, Report  # noqa: E402
from trimtab.ship.sender import Sender  # noqa: E402
from trimtab.ship.spool import Spool, Waiting  # noqa: E402
from trimtab.store.ring import RING_METRICS  # noqa: E402

SPOOL_BYTES_MAX = 64 * 1024 * 1024
TICK_SECONDS = 1.0


class TimedSpool(Spool):
    """A spool that knows which reports were acknowledged, how long each live one waited, and what was taken first."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, SPOOL_BYTES_MAX)
        self.made_at: dict[int, float] = {}
        self.delays: list[float] = []
        self.acknowledged: set[int] = set()
        self.was_live_first: bool | None = None
        """Of the first that is taken after the outage; None before."""

    def acknowledge(self, delivered: Iterable[Waiting]) -> None:
        gone = list(delivered)
        now = time.monotonic()
        if gone and self.was_live_first is None:
            self.was_live_first = len(gone) == 1 and gone[0].sequence == self.newest
        self.acknowledged.update(one.sequence for one in gone)
        made_at = [self.made_at.pop(one.sequence, None) for one in gone]
        if len(gone) == 1 and gone[0].sequence == self.newest and made_at[0] is not None:
            self.delays.append(now - made_at[0])  # taken while it was live; one that a newer one overtook is backlog
        super().acknowledge(gone)

    @property
    def newest(self) -> int:
        """Sequence of the newest report."""
        return self._last


@dataclass
class NodeAgent:
    """One node: its spool, its sender, and when it reads next."""

    spool: TimedSpool
    sender: Sender
    report: Report
    due_at: float
    first_contact_at: float | None = None

    def tick(self, interval_seconds: float) -> float:
        """One beat; seconds until the next that can have anything to do."""
        now = time.monotonic()
        if now >= self.due_at:
            self.due_at = max(self.due_at + interval_seconds, now)
            kept = self.spool.append(replace(self.report, sampled_at=datetime.now(UTC)))
            self.spool.made_at[kept.sequence] = time.monotonic()
        before = self.sender.counts.sent_live_total + self.sender.counts.put_off_total
        self.sender.tick()
        after = self.sender.counts.sent_live_total + self.sender.counts.put_off_total
        if self.first_contact_at is None and after > before:
            self.first_contact_at = time.monotonic()
        until_due = max(self.due_at - time.monotonic(), 0.0)
        if self.spool.waiting == 0:
            return until_due
        (peer,) = self.sender._peers
        put_off = peer.due_in_seconds if self.spool.live() is not None else peer.backlog_due_in_seconds
        return min(max(put_off, TICK_SECONDS), until_due)


def a_report(node: str, options: argparse.Namespace) -> Report:
    chance = random.Random(node)
    keys = RING_METRICS[: options.values]
    gpus = tuple(
        GpuReading(
            info=GpuInfo(uuid=f"GPU-{node}-{index}", index=index, model="NVIDIA H100 80GB HBM3"),
            values={key: round(chance.random(), 4) for key in keys},
        )
        for index in range(options.gpus)
    )
    return Report(
        cluster=CLUSTER, node=node, boot_id="boot", sequence=0, sampled_at=datetime.now(UTC), gpus=gpus,
        gpus_expected=options.gpus,
    )  # fmt: skip


# --- a share of the agents, in a process of its own


@dataclass
class Share:
    """Some of the agents; threads take them in turn."""

    agents: list[NodeAgent]
    interval_seconds: float
    turns: queue.PriorityQueue[tuple[float, int]] = field(default_factory=queue.PriorityQueue)
    is_over: threading.Event = field(default_factory=threading.Event)

    def run(self, threads: int) -> None:
        for number in range(len(self.agents)):
            self.turns.put((time.monotonic() + random.random() * TICK_SECONDS, number))
        for _ in range(threads):
            threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        while not self.is_over.is_set():
            due, number = self.turns.get()
            if (left := due - time.monotonic()) > 0:
                self.is_over.wait(left)
            wait_seconds = self.agents[number].tick(self.interval_seconds)
            self.turns.put((time.monotonic() + wait_seconds, number))

    def numbers(self) -> dict[str, Any]:
        counts = [one.sender.counts for one in self.agents]
        delays = [delay for one in self.agents for delay in one.spool.delays]
        for one in self.agents:
            one.spool.delays = []
        return {
            "waiting": sum(max(one.spool.waiting - 1, 0) for one in self.agents),
            "drained": sum(one.spool.waiting <= 1 for one in self.agents),
            "put_off": sum(one.put_off_total for one in counts),
            "failed": sum(one.failures_total for one in counts),
            "acknowledged": sum(len(one.spool.acknowledged) for one in self.agents),
            "live_first": sum(one.spool.was_live_first is True for one in self.agents),
            "dropped": sum(one.spool.dropped_total for one in self.agents),
            "delays": delays,
            "first": [one.first_contact_at for one in self.agents if one.first_contact_at is not None],
        }


def serve(pipe: Connection, tokens: dict[str, str], url: str, folder: str, options: argparse.Namespace) -> None:
    """Answer what is asked over the pipe, until `end`."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    logs.setup(level="error")
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    threading.stack_size(256 * 1024)
    clock = SystemClock()
    agents = []
    for name, token in tokens.items():
        spool = TimedSpool(Path(folder) / name)
        # One certificate to trust: each agent reads what the system trusts, and ten thousand would read it here.
        sender = Sender(spool=spool, urls=[url], token=token, clock=clock, ca_file=f"{folder}.ca/ca.pem")
        due_at = time.monotonic() + random.random() * options.interval
        agents.append(NodeAgent(spool, sender, a_report(name, options), due_at))
    share = Share(agents, options.interval)
    pipe.send("ready")
    while (asked := pipe.recv()) != "end":
        if asked == "run":
            share.run(options.threads)
            pipe.send("running")
        elif asked == "outage":
            pipe.send(outage(share, options))
        elif asked == "forget":
            for one in agents:
                one.first_contact_at = one.spool.was_live_first = None
            pipe.send("forgotten")
        elif asked == "acknowledged":
            share.is_over.set()
            pipe.send({one.report.node: set(one.spool.acknowledged) for one in agents})
        else:
            pipe.send(share.numbers())
    share.is_over.set()


def outage(share: Share, options: argparse.Namespace) -> int:
    """What each agent reads while nobody takes it: one report an interval, as if that time had passed."""
    reports = int(options.outage_minutes * 60 / options.interval)
    began = datetime.now(UTC) - timedelta(minutes=options.outage_minutes)
    for one in share.agents:
        for number in range(reports):
            at = began + timedelta(seconds=number * options.interval)
            one.spool.append(replace(one.report, sampled_at=at))
    return reports * len(share.agents)
