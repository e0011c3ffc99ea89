"""CPU-seconds per million samples, push end to end and durable; beside it, the same samples parsed as text.

Ours: POST over loopback -> Listener -> Inbox -> Journal (and the ring), acknowledged after commit; the daemon's half
runs in a process of its own, and only its CPU is counted (and that of its PostgreSQL backends, where they run here).
Peer: prometheus_client's text parser, then one row a sample with executemany into a plain table of the same engine.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing as mp
import os
import random
import sqlite3
import statistics
import tempfile
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from multiprocessing.connection import Connection
from pathlib import Path

import psycopg
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy.engine import make_url

from trimtab import logs
from trimtab.clock import SystemClock
from trimtab.errors import StoreError
from trimtab.listener import Listener
from trimtab.loop import Beat
from trimtab.model.metric import CATALOGUE, Kind, split_key
from trimtab.model.reading import GpuInfo, GpuReading, Report
from trimtab.settings import IngestSettings
from trimtab.ship.inbox import Inbox
from trimtab.ship.receiver import ingest_app
from trimtab.ship.tokens import NodeTokens, give_token
from trimtab.ship.wire import encode_reports
from trimtab.store.database import open_database
from trimtab.store.journal import Journal
from trimtab.store.ring import RING_METRICS, Ring

CLUSTER = "bench"
GPUS = 8
LINKS = 18
VALUES = 80
TICK_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one round took."""

    samples: int
    cpu_seconds: float
    wall_seconds: float
    server_cpu_seconds: float = 0.0

    @property
    def per_million(self) -> float:
        """CPU-seconds per million samples, the database server's included."""
        return (self.cpu_seconds + self.server_cpu_seconds) / self.samples * 1e6


def sample_keys() -> list[str]:
    """About 80 keys as an 8-GPU HGX node sends them: the catalogue, and what NVLink gives per link."""
    keys = [f"nvlink_up/{link}" for link in range(LINKS)]
    for metric in CATALOGUE:
        if metric.label is None:
            keys.append(metric.name)
        elif metric.label_values:
            keys += [f"{metric.name}/{value}" for value in metric.label_values[:3]]
    return keys[:VALUES]


class Fleet:
    """Nodes whose values move as telemetry does: some noisy, some growing, most of them constant."""

    def __init__(self, nodes: int, *, seed: int) -> None:
        self._random = random.Random(seed)
        self._keys = sample_keys()
        self._nodes = [f"gpu-{node:04d}" for node in range(nodes)]
        kinds = {metric.name: metric.kind for metric in CATALOGUE}
        self._grows = [kinds[split_key(key)[0]] is Kind.COUNTER for key in self._keys]
        self._noisy = [key in RING_METRICS for key in self._keys]
        self._totals = {node: [0.0] * len(self._keys) * GPUS for node in self._nodes}
        self._at = datetime.now(UTC).replace(microsecond=0)
        self._sequence = 0
        self._spool_id = uuid.uuid4().hex

    @property
    def names(self) -> list[str]:
        return self._nodes

    @property
    def samples_per_tick(self) -> int:
        return len(self._nodes) * GPUS * len(self._keys)

    def tick(self) -> list[Report]:
        """The next report of every node."""
        self._sequence += 1
        self._at += timedelta(seconds=TICK_SECONDS)
        return [self._report(node) for node in self._nodes]

    def _report(self, node: str) -> Report:
        gpus = tuple(
            GpuReading(
                info=GpuInfo(uuid=f"GPU-{node}-{index}", index=index, model="NVIDIA H100 80GB HBM3"),
                values=self._values(self._totals[node], index * len(self._keys)),
            )
            for index in range(GPUS)
        )
        return Report(
            cluster=CLUSTER,
            node=node,
            boot_id="boot",
            spool_id=self._spool_id,
            sequence=self._sequence,
            sampled_at=self._at,
            gpus=gpus,
            gpus_expected=GPUS,
        )

    def _values(self, totals: list[float], offset: int) -> dict[str, float]:
        values: dict[str, float] = {}
        for number, key in enumerate(self._keys):
            if self._grows[number]:
                totals[offset + number] += float(self._random.randrange(0, 4000)) if number % 4 == 0 else 0.0
                values[key] = totals[offset + number]
            else:
                values[key] = round(self._random.random(), 6) if self._noisy[number] else 1.0
        return values


def exposition(report: Report) -> str:
    """The same report as an exporter's page."""
    by_name: dict[str, list[str]] = {}
    for gpu in report.gpus:
        for key, value in gpu.values.items():
            name, label = split_key(key)
            more = f',part="{label}"' if label is not None else ""
            line = f'trimtab_gpu_{name}{{node="{report.node}",uuid="{gpu.uuid}"{more}}} {value!r}'
            by_name.setdefault(name, []).append(line)
    lines: list[str] = []
    for name, found in by_name.items():
        lines += [f"# HELP trimtab_gpu_{name} As trimtab has it.", f"# TYPE trimtab_gpu_{name} gauge", *found]
    return "\n".join(lines) + "\n"


# --- the daemon's half, in a process of its own -----------------------------------------------------------------


def serve(pipe: Connection, url: str, directory: str, interval_seconds: float) -> None:
    """Answer `cpu` with this process's CPU-seconds, until `stop`."""
    database = open_database(url, state_directory=Path(directory))
    journal = Journal(database)
    ring = Ring(cluster=CLUSTER, span_seconds=900.0, interval_seconds=TICK_SECONDS, metrics=RING_METRICS)
    inbox = Inbox(100_000)
    app = ingest_app(
        inbox=inbox,
        tokens=NodeTokens(Path(directory) / "node-tokens.toml"),
        settings=IngestSettings(),
        clock=SystemClock(),
        cluster=CLUSTER,
        commit_timeout_seconds=60.0,
    )

    def remember() -> str:
        drained = inbox.drain()
        try:
            appended = journal.append(drained)
        except StoreError as error:
            inbox.fail(drained, error)
            raise
        inbox.acknowledge(drained)
        ring.add(appended.new)
        return appended.sentence

    listener = Listener(app, name="ingest", listen="127.0.0.1:0")
    beat = Beat("remember", remember, interval_seconds=interval_seconds, clock=SystemClock())
    listener.start()
    beat.start()
    pipe.send(listener.port)
    while pipe.recv() == "cpu":
        pipe.send(time.process_time())
    beat.stop()
    listener.stop()
    database.close()


# --- the agents' half -----------------------------------------------------------------------------------------------


class Agents:
    """One kept-open connection a node."""

    def __init__(self, port: int, tokens: dict[str, str]) -> None:
        self._port = port
        self._tokens = tokens
        self._streams: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def connect(self) -> None:
        for node in self._tokens:
            self._streams[node] = await asyncio.open_connection("127.0.0.1", self._port)

    async def send(self, bodies: dict[str, bytes]) -> None:
        """Every node sends its body and hears its acknowledgement."""
        await asyncio.gather(*(self._post(node, body) for node, body in bodies.items()))

    async def _post(self, node: str, body: bytes) -> None:
        reader, writer = self._streams[node]
        head = (
            "POST /v1/reports HTTP/1.1\r\nHost: bench\r\nContent-Type: application/msgpack\r\n"
            f"Content-Encoding: zstd\r\nAuthorization: Bearer {self._tokens[node]}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        status = await reader.readline()
        if b" 200 " not in status:
            raise SystemExit(f"{node} was answered {status!r}")
        length = 0
        while (line := await reader.readline()) not in (b"\r\n", b""):
            if line.lower().startswith(b"content-length:"):
                length = int(line.split(b":")[1])
        await reader.readexactly(length)

    def close(self) -> None:
        for _, writer in self._streams.values():
            writer.close()


def backend_cpu_seconds(url: str) -> float:
    """CPU of the backends that serve this database, where they are processes of this machine."""
    if not url.startswith("postgresql"):
        return 0.0
    with psycopg.connect(libpq(url), autocommit=True) as connection:
        asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        pids = [row[0] for row in connection.execute(asked)]
    ticks = 0
    for pid in pids:
        path = Path(f"/proc/{pid}/stat")
        if path.exists():
            fields = path.read_text(encoding="ascii").rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def libpq(url: str) -> str:
    return make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)


async def push(pipe: Connection, agents: Agents, url: str, ticks: list[dict[str, bytes]], samples: int) -> Cost:
    """One round: every node reports once a tick."""
    server_before = backend_cpu_seconds(url)
    pipe.send("cpu")
    before, began = pipe.recv(), time.perf_counter()
    for bodies in ticks:
        await agents.send(bodies)
    wall_seconds = time.perf_counter() - began
    pipe.send("cpu")
    return Cost(samples, pipe.recv() - before, wall_seconds, backend_cpu_seconds(url) - server_before)


# --- the peer ---------------------------------------------------------------------------------------------------------

CREATE = (
    "CREATE TABLE IF NOT EXISTS bench_samples (at DOUBLE PRECISION, name TEXT, labels TEXT, value DOUBLE PRECISION)"
)


class Peer:
    """Text in, one row a sample out."""

    def __init__(self, url: str, directory: Path) -> None:
        self._is_postgresql = url.startswith("postgresql")
        self._url = url
        if self._is_postgresql:
            self._postgresql = psycopg.connect(libpq(url))
            self._postgresql.execute(CREATE)
            self._postgresql.commit()
        else:
            self._sqlite = sqlite3.connect(directory / "peer.db")
            self._sqlite.execute("PRAGMA journal_mode=WAL")
            self._sqlite.execute("PRAGMA synchronous=NORMAL")
            self._sqlite.execute(CREATE)

    def run(self, pages: list[list[str]]) -> Cost:
        """One commit a tick, as ours."""
        server_before = backend_cpu_seconds(self._url)
        before, began, samples = time.process_time(), time.perf_counter(), 0
        for tick, texts in enumerate(pages):
            rows = [
                (float(tick), sample.name, repr(sample.labels), sample.value)
                for text in texts
                for family in text_string_to_metric_families(text)
                for sample in family.samples
            ]
            self._insert(rows)
            samples += len(rows)
        cpu_seconds, wall_seconds = time.process_time() - before, time.perf_counter() - began
        return Cost(samples, cpu_seconds, wall_seconds, backend_cpu_seconds(self._url) - server_before)

    def _insert(self, rows: list[tuple[float, str, str, float]]) -> None:
        if self._is_postgresql:
            with self._postgresql.cursor() as cursor:
                cursor.executemany("INSERT INTO bench_samples VALUES (%s, %s, %s, %s)", rows)
            self._postgresql.commit()
        else:
            self._sqlite.executemany("INSERT INTO bench_samples VALUES (?, ?, ?, ?)", rows)
            self._sqlite.commit()

    def close(self) -> None:
        if self._is_postgresql:
            self._postgresql.execute("DROP TABLE bench_samples")
            self._postgresql.commit()
            self._postgresql.close()
        else:
            self._sqlite.close()


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=300, help="simulated nodes of 8 GPUs (default 300)")
    parser.add_argument("--ticks", type=int, default=4, help="reports a node and round (default 4)")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each side, in turn (default 3)")
    parser.add_argument("--peer-nodes", type=int, default=10, help="nodes for the slower peer (default 10)")
    parser.add_argument("--interval", type=float, default=1.0, help="seconds between commits (default 1)")
    parser.add_argument("--database", default="", help="SQLAlchemy URL of an empty database (default: SQLite file)")
    return parser.parse_args()


async def measure(options: argparse.Namespace, directory: Path) -> None:
    url = options.database or f"sqlite:///{directory}/trimtab.db"
    fleet, small = Fleet(options.nodes, seed=1), Fleet(options.peer_nodes, seed=2)
    tokens_file = directory / "node-tokens.toml"
    tokens = {node: give_token(tokens_file, node)[0] for node in fleet.names}
    ours_pipe, theirs_pipe = mp.get_context("spawn").Pipe()
    process = mp.get_context("spawn").Process(
        target=serve, args=(theirs_pipe, url, str(directory), options.interval), daemon=True
    )
    process.start()
    agents, peer = Agents(ours_pipe.recv(), tokens), Peer(url, directory)
    await agents.connect()
    await agents.send({report.node: encode_reports([report]) for report in fleet.tick()})  # warm
    ours: list[Cost] = []
    theirs: list[Cost] = []
    body_bytes: list[int] = []
    for number in range(options.rounds):
        ticks = [{one.node: encode_reports([one]) for one in fleet.tick()} for _ in range(options.ticks)]
        pages = [[exposition(report) for report in small.tick()] for _ in range(options.ticks)]
        body_bytes += [len(body) for bodies in ticks for body in bodies.values()]
        if number % 2:
            theirs.append(peer.run(pages))
        ours.append(await push(ours_pipe, agents, url, ticks, fleet.samples_per_tick * options.ticks))
        if not number % 2:
            theirs.append(peer.run(pages))
    agents.close()
    peer.close()
    ours_pipe.send("stop")
    process.join(30.0)
    say(options, url, ours, theirs, body_bytes)


def say(options: argparse.Namespace, url: str, ours: list[Cost], theirs: list[Cost], body_bytes: list[int]) -> None:
    values = len(sample_keys())
    mine, other = (statistics.median(cost.per_million for cost in costs) for costs in (ours, theirs))
    daemon = statistics.median(cost.cpu_seconds / cost.samples * 1e6 for cost in ours)
    reports = sum(cost.samples for cost in ours) / (GPUS * values)
    bytes_per_report = statistics.mean(body_bytes)
    offered = reports / sum(cost.wall_seconds for cost in ours)
    per_cpu_second = reports / sum(cost.cpu_seconds for cost in ours)
    best = min(cost.per_million for cost in ours)
    print(f"database {make_url(url).get_backend_name()}, load average {os.getloadavg()[0]:.1f}")
    print(f"{options.nodes} nodes x {GPUS} GPUs x {values} values, {options.rounds} rounds of {options.ticks} ticks")
    print(f"trimtab, POST to committed: {mine:.3f} CPU-s per million samples (daemon {daemon:.3f}), best {best:.3f}")
    print(f"  {per_cpu_second:.0f} reports per CPU-second of the daemon")
    print(f"  {offered:.0f} reports/s as offered: every node once a commit")
    print(f"  {bytes_per_report:.0f} bytes/report on the wire, {bytes_per_report / (GPUS * values):.2f} bytes/sample")
    print(f"prometheus_client parser, a row a sample: {other:.3f} CPU-s per million ({options.peer_nodes} nodes)")
    print(f"ratio peer / trimtab: {other / mine:.1f}")


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as directory:
        asyncio.run(measure(options, Path(directory)))


if __name__ == "__main__":
    logs.setup(level="info")  # as the daemon runs; debug lines would be measured too
    main()
