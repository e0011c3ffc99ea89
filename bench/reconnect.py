"""All agents at once after an outage: how long until every spool is drained, and whether what is live came first.

A real `trimtab daemon`; each agent is the product's own spool and sender. All share this machine's cores, so the
default interval is 30 s: at 10 s the agents alone would take two cores. Prints time to drain, delay of live reports
during it, answers 429, the daemon's RSS before, at most and after, and acknowledged reports that are not stored.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing as mp
import os
import queue
import random
import resource
import shutil
import sqlite3
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import structlog  # noqa: E402
from tests.system.processes import CLUSTER, Daemon  # noqa: E402

from trimtab import logs  # noqa: E402
from trimtab.clock import SystemClock  # noqa: E402
from trimtab.model.reading import GpuInfo, GpuReading, Report  # noqa: E402
from trimtab.pki import Authority  # noqa: E402
from trimtab.ship.sender import Sender  # noqa: E402
from trimtab.ship.spool import Spool, Waiting  # noqa: E402
from trimtab.ship.tokens import digest_of, new_token  # noqa: E402
from trimtab.store.ring import RING_METRICS  # noqa: E402

SPOOL_BYTES_MAX = 64 * 1024 * 1024
TICK_SECONDS = 1.0
SAMPLE_SECONDS = 1.0


class TimedSpool(Spool):
    """A spool that knows how long each live report waited for its acknowledgement, and how many were acknowledged."""

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, SPOOL_BYTES_MAX)
        self.made_at: dict[int, float] = {}
        self.delays: list[float] = []
        self.acknowledged_total = 0

    def acknowledge(self, delivered: Iterable[Waiting]) -> None:
        gone = list(delivered)
        now = time.monotonic()
        self.acknowledged_total += len(gone)
        self.delays += [now - at for one in gone if (at := self.made_at.pop(one.sequence, None)) is not None]
        super().acknowledge(gone)


@dataclass
class NodeAgent:
    """One node: its spool, its sender, and when it reads next."""

    spool: TimedSpool
    sender: Sender
    report: Report
    due_at: float
    first_contact_at: float | None = None

    def tick(self, interval_seconds: float) -> None:
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
            self.agents[number].tick(self.interval_seconds)
            self.turns.put((time.monotonic() + TICK_SECONDS, number))

    def numbers(self) -> dict[str, object]:
        counts = [one.sender.counts for one in self.agents]
        delays = [delay for one in self.agents for delay in one.spool.delays]
        for one in self.agents:
            one.spool.delays = []
        return {
            "waiting": sum(max(one.spool.waiting - 1, 0) for one in self.agents),
            "drained": sum(one.spool.waiting <= 1 for one in self.agents),
            "put_off": sum(one.put_off_total for one in counts),
            "failed": sum(one.failures_total for one in counts),
            "acknowledged": sum(one.spool.acknowledged_total for one in self.agents),
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
                one.first_contact_at = None
            pipe.send("forgotten")
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


# --- the whole


class Fleet:
    """All shares, asked together."""

    def __init__(self, daemon: Daemon, tokens: dict[str, str], folder: Path, options: argparse.Namespace) -> None:
        context = mp.get_context("spawn")
        names = list(tokens)
        self._pipes = []
        self._processes = []
        for number in range(options.processes):
            mine = names[number :: options.processes]
            ours, theirs = context.Pipe()
            args = (theirs, {name: tokens[name] for name in mine}, daemon.ingest_url, str(folder), options)
            process = context.Process(target=serve, args=args, daemon=True)
            process.start()
            self._pipes.append(ours)
            self._processes.append(process)
        for pipe in self._pipes:
            pipe.recv()

    def ask(self, what: str) -> list[object]:
        for pipe in self._pipes:
            pipe.send(what)
        return [pipe.recv() for pipe in self._pipes]

    def numbers(self) -> dict[str, list[float] | float]:
        found = self.ask("numbers")
        whole: dict[str, list[float] | float] = {}
        for name in ("waiting", "drained", "put_off", "failed", "acknowledged", "dropped"):
            whole[name] = sum(one[name] for one in found)  # type: ignore[index]
        for name in ("delays", "first"):
            whole[name] = [value for one in found for value in one[name]]  # type: ignore[index]
        return whole

    def close(self) -> None:
        pipes, self._pipes = self._pipes, []
        for pipe in pipes:
            pipe.send("end")
        for process in self._processes:
            process.join(10.0)
            process.kill()


def rss_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    return int(text.split("VmRSS:")[1].split()[0]) / 1024


def settle(seconds: float) -> None:
    threading.Event().wait(seconds)


def quantile(values: list[float], share: float) -> float:
    return sorted(values)[min(int(len(values) * share), len(values) - 1)] if values else float("nan")


def measure(options: argparse.Namespace, home: Path) -> dict[str, object]:
    daemon = Daemon(home, database_url=options.database or "sqlite:///trimtab.db")
    daemon.write_settings("[detect]\ninterval_seconds = 5.0\n[plan]\ninterval_seconds = 5.0\n"
                          f'[store]\nurl = "{daemon.database_url}"\ncommit_interval_seconds = 1.0\n')  # fmt: skip
    tokens = {f"gpu-{number:05d}": new_token() for number in range(options.agents)}
    daemon.state_directory.mkdir(parents=True)
    lines = "".join(f'"{name}" = "{digest_of(token)}"\n' for name, token in tokens.items())
    daemon.tokens_file.write_text("[nodes]\n" + lines, encoding="ascii")
    spools = Path(options.spools or home / "spools")
    authority = Authority.create(Path(f"{spools}.made"), cluster=CLUSTER, clock=SystemClock())
    ca_file = Path(f"{spools}.ca") / "ca.pem"
    ca_file.parent.mkdir(parents=True)
    ca_file.write_bytes(authority.certificate_pem)
    daemon.up()
    fleet = Fleet(daemon, tokens, spools, options)
    try:
        say(f"{options.agents} agents of {options.gpus} GPUs, one report in {options.interval:g} s; "
            f"load average {os.getloadavg()[0]:.1f}")  # fmt: skip
        fleet.ask("run")
        began = time.monotonic()
        while fleet.numbers()["acknowledged"] < 2 * options.agents and time.monotonic() - began < options.limit:  # type: ignore[operator]
            settle(2.0)
        before_mib = rss_mib(daemon.pid)
        say(f"before: all agents report, daemon's RSS {before_mib:.0f} MiB")
        daemon.kill()
        kept = sum(fleet.ask("outage"))  # type: ignore[arg-type]
        settle(options.dark_seconds)
        fleet.ask("forget")
        earlier = fleet.numbers()
        say(f"outage of {options.outage_minutes:g} min: {kept} reports kept; every agent backs off by now")
        return drain(daemon, fleet, options, before_mib=before_mib, earlier=earlier)
    finally:
        fleet.close()
        daemon.close()


def drain(
    daemon: Daemon, fleet: Fleet, options: argparse.Namespace, *, before_mib: float, earlier: dict[str, object]
) -> dict[str, object]:
    began = time.monotonic()
    daemon.up()
    up_seconds = time.monotonic() - began
    peak_mib, delays, drained_seconds, said_at = 0.0, [], float("nan"), 0.0
    while time.monotonic() - began < options.limit:
        peak_mib = max(peak_mib, rss_mib(daemon.pid))
        now = fleet.numbers()
        delays += now["delays"]  # type: ignore[arg-type]
        if time.monotonic() - said_at > 15.0:
            said_at = time.monotonic()
            say(f"  {said_at - began:5.0f} s: {now['drained']:.0f} agents drained, {now['waiting']:.0f} reports wait, "
                f"RSS {rss_mib(daemon.pid):.0f} MiB, live p50 {quantile(delays, 0.5):.1f} s")  # fmt: skip
        if now["waiting"] == 0 or now["drained"] >= options.agents * 0.9999:  # type: ignore[operator]
            drained_seconds = time.monotonic() - began
            break
        settle(SAMPLE_SECONDS)
    settle(options.after_seconds)
    after_mib = rss_mib(daemon.pid)
    last = fleet.numbers()
    first = sorted(at - began for at in last["first"])  # type: ignore[union-attr]
    busiest = (
        max((sum(second <= at < second + 1 for at in first) for second in range(int(first[-1]) + 1)), default=0)
        if first
        else 0
    )
    fleet.close()
    stored = count_rows(daemon)
    return {
        "agents": options.agents,
        "drained_seconds": drained_seconds,
        "daemon_up_seconds": up_seconds,
        "live_delay_seconds_p50": quantile(delays, 0.5),
        "live_delay_seconds_p99": quantile(delays, 0.99),
        "live_delay_seconds_max": max(delays, default=float("nan")),
        "first_contacts_seconds_p50": statistics.median(first) if first else float("nan"),
        "first_contacts_in_the_busiest_second": busiest,
        "answers_429": last["put_off"] - earlier["put_off"],  # type: ignore[operator]
        "failures": last["failed"] - earlier["failed"],  # type: ignore[operator]
        "rss_before_mib": before_mib,
        "rss_peak_mib": peak_mib,
        "rss_after_mib": after_mib,
        "acknowledged": last["acknowledged"],
        "stored": stored,
        "lost": max(int(last["acknowledged"]) - stored, 0),  # type: ignore[arg-type, call-overload]
        "dropped": last["dropped"],
        "load_average": os.getloadavg()[0],
    }


def count_rows(daemon: Daemon) -> int:
    if not daemon.database_url.startswith("sqlite"):
        import psycopg  # noqa: PLC0415

        with psycopg.connect(daemon.database_url.replace("+psycopg", "")) as connection:
            return int(connection.execute("SELECT count(*) FROM journal").fetchone()[0])  # type: ignore[index]
    with sqlite3.connect(daemon.state_directory / "trimtab.db") as connection:
        return int(connection.execute("SELECT count(*) FROM journal").fetchone()[0])


def say(text: str) -> None:
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--gpus", type=int, default=8, help="GPUs an agent (default 8)")
    parser.add_argument("--values", type=int, default=10, help="values a GPU (default 10)")
    parser.add_argument("--interval", type=float, default=30.0, help="seconds between two reports of an agent")
    parser.add_argument("--outage-minutes", type=float, default=10.0)
    parser.add_argument("--dark-seconds", type=float, default=35.0, help="real outage, so that all back off")
    parser.add_argument("--after-seconds", type=float, default=20.0, help="rest before RSS is read again")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=200, help="a process")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which it gives up")
    parser.add_argument("--database", default="", help="SQLAlchemy URL of an empty database (default: SQLite file)")
    parser.add_argument("--spools", default="", help="folder for the spools (default: a temporary one)")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # ten thousand agents have a disk each
    home = Path(tempfile.mkdtemp(prefix="trimtab-reconnect-", dir=place))
    try:
        result = measure(options, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    if options.json:
        print(json.dumps(result))
        return
    for name, value in result.items():
        print(f"{name:40} {value:,.2f}" if isinstance(value, float) else f"{name:40} {value:,}")
    is_flat = float(result["rss_peak_mib"]) < 2 * float(result["rss_before_mib"])  # type: ignore[arg-type]
    print(f"all spools drained: {result['drained_seconds'] == result['drained_seconds']}; lost: {result['lost']}; "
          f"RSS stayed below twice what it was: {is_flat}")  # fmt: skip


if __name__ == "__main__":
    main()
