"""What roll-ups cost: CPU a report and a minute, bytes a row, and how fast the past is read.

    .venv/bin/python bench/rollup.py [--nodes 500] [--minutes 3] [--database URL]

A fleet in memory reports every 10 s of a clock that the bench moves. Ours takes the samples as the daemon's beats do
and writes its three tiers. The peer does what a first version would: a row a sample, and a GROUP BY a minute over them
into a row a GPU (min, mean, max, count of eight metrics; it has no p95, no states, no holders and no repair).
Both take turns in one run; ratios, not numbers, are what carries over to another machine.
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import statistics
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psycopg
import sqlalchemy as sa
from sqlalchemy.engine import make_url

from trimtab import logs
from trimtab.clock import unix_ms
from trimtab.model.board import Board, Cell, CellState, JobRow, NodeRow, Strip
from trimtab.model.command import Mode
from trimtab.model.reading import Delivery, GpuInfo, GpuReading, Report
from trimtab.model.rollup import ROLLED
from trimtab.settings.rollup import RollupSettings
from trimtab.store.database import Database, open_database
from trimtab.store.history import History
from trimtab.store.past import Past
from trimtab.store.rollup import Rollup

CLUSTER = "bench"
GPUS = 8
TICK_SECONDS = 10
KEYS = (
    "sm_active_ratio", "dram_active_ratio", "power_watts", "temperature_celsius", "sm_clock_hertz",
    "memory_used_bytes", "nvlink_throughput_bytes_per_second", "pcie_transmit_bytes_per_second",
    "pcie_receive_bytes_per_second",
)  # fmt: skip


class BenchClock:
    """Stands still until it is moved."""

    def __init__(self) -> None:
        self._now = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)

    def now(self) -> datetime:
        return self._now

    def monotonic_seconds(self) -> float:
        return time.monotonic()

    def wall_seconds(self, seconds: float) -> float:
        return seconds

    def advance(self, seconds: float) -> datetime:
        self._now += timedelta(seconds=seconds)
        return self._now


class Fleet:
    """Nodes of eight GPUs, most of them held by jobs of 64 GPUs."""

    def __init__(self, nodes: int) -> None:
        self.nodes = [f"gpu-{number:05d}" for number in range(nodes)]
        self._random = random.Random(5)
        self._sequence = 0
        # A few bodies serve all: what is measured is what is done with them, not how they are made.
        self._bodies = [self._values() for _ in range(200)]

    def _values(self) -> dict[str, float]:
        chance = self._random
        return {
            "sm_active_ratio": round(chance.random(), 4), "dram_active_ratio": round(chance.random(), 4),
            "power_watts": round(chance.uniform(80, 700), 1), "temperature_celsius": float(chance.randrange(30, 88)),
            "sm_clock_hertz": chance.randrange(800, 1980) * 1e6, "memory_used_bytes": chance.randrange(0, 80) * 2.0**30,
            "memory_total_bytes": 80 * 2.0**30,
            "nvlink_throughput_bytes_per_second": chance.uniform(0, 4e11),
            "pcie_transmit_bytes_per_second": chance.uniform(0, 2e10),
            "pcie_receive_bytes_per_second": chance.uniform(0, 2e10),
        }  # fmt: skip

    def tick(self, at: datetime) -> list[Delivery]:
        self._sequence += 1
        return [self._delivery(node, at) for node in self.nodes]

    def _delivery(self, node: str, at: datetime) -> Delivery:
        bodies, draw = self._bodies, self._random.randrange
        gpus = tuple(
            GpuReading(
                info=GpuInfo(uuid=f"GPU-{node}-{index}", index=index, model="NVIDIA H100 80GB HBM3"),
                values=bodies[draw(200)],
            )
            for index in range(GPUS)
        )
        report = Report(
            cluster=CLUSTER, node=node, boot_id="b", spool_id="s", sequence=self._sequence, sampled_at=at, gpus=gpus
        )  # fmt: skip
        return Delivery(report=report, received_at=at)

    def board(self, at: datetime) -> Board:
        rows = tuple(self._row(number, node) for number, node in enumerate(self.nodes))
        jobs = tuple(
            JobRow(id=f"research/job-{number}", name=f"job-{number}", state="running", pods=8, gpus_per_pod=8,
                   queue=f"queue-{number % 5}")
            for number in range(len(self.nodes) // 8 + 1)
        )  # fmt: skip
        strip = Strip(
            gpus_total=len(self.nodes) * GPUS, gpus_reporting=0, gpus_working=0, gpus_held_idle=0, gpus_free=0,
            gpus_spare=0, gpus_out_of_service=0, gpus_unknown=0, stranded={8: 5}, goodput_ratio=0.9,
        )  # fmt: skip
        return Board(cluster=CLUSTER, at=at, mode=Mode.RECOMMEND, is_paused=False, strip=strip, nodes=rows, jobs=jobs)

    def _row(self, number: int, node: str) -> NodeRow:
        is_held = number % 20 != 0
        state = CellState.WORKING if is_held else CellState.FREE
        workload = f"research/job-{number // 8}" if is_held else None
        cells = tuple(
            Cell(uuid=f"GPU-{node}-{index}", index=index, state=state, workload=workload) for index in range(GPUS)
        )
        return NodeRow(name=node, rack=f"r{number // 32}", cells=cells)


class Peer:
    """A row a sample, and once a minute a GROUP BY."""

    def __init__(self, url: str, directory: Path) -> None:
        self._is_postgresql = url.startswith("postgresql")
        if self._is_postgresql:
            libpq = make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
            self._connection: sqlite3.Connection | psycopg.Connection = psycopg.connect(libpq)
        else:
            self._connection = sqlite3.connect(directory / "peer.db")
            self._connection.execute("PRAGMA journal_mode=WAL")
        self._run("CREATE TABLE peer_samples (at BIGINT, gpu TEXT, metric TEXT, value DOUBLE PRECISION)")
        self._run(
            "CREATE TABLE peer_minutes (at BIGINT, gpu TEXT, metric TEXT, low DOUBLE PRECISION, "
            "mean DOUBLE PRECISION, high DOUBLE PRECISION, samples BIGINT, PRIMARY KEY (at, gpu, metric))"
        )
        self._connection.commit()

    def _run(self, statement: str) -> None:
        self._connection.execute(statement)

    def take(self, deliveries: list[Delivery]) -> None:
        rows = [
            (unix_ms(one.at), reading.uuid, key, reading.values[key])
            for one in deliveries
            for reading in one.report.gpus
            for key in KEYS
        ]
        mark = "%s" if self._is_postgresql else "?"
        cursor = self._connection.cursor()
        cursor.executemany(f"INSERT INTO peer_samples VALUES ({mark}, {mark}, {mark}, {mark})", rows)
        cursor.close()
        self._connection.commit()

    def minute(self, at_ms: int) -> None:
        self._run(
            f"INSERT INTO peer_minutes SELECT {at_ms}, gpu, metric, MIN(value), AVG(value), MAX(value), COUNT(*) "
            f"FROM peer_samples WHERE at >= {at_ms} AND at < {at_ms + 60_000} GROUP BY gpu, metric"
        )
        self._run(f"DELETE FROM peer_samples WHERE at < {at_ms + 60_000}")
        self._connection.commit()

    def close(self) -> None:
        if self._is_postgresql:
            self._run("DROP TABLE peer_samples")
            self._run("DROP TABLE peer_minutes")
            self._connection.commit()
        self._connection.close()


def measured(work: object) -> float:
    began = time.process_time()
    work()  # type: ignore[operator]
    return time.process_time() - began


def row_bytes(database: Database, table: str) -> float | None:
    """Bytes a row with its index, where the engine tells."""
    with database.read() as connection:
        rows = connection.execute(sa.text(f"SELECT COUNT(*) FROM {table}")).scalar_one()
        if database.is_sqlite:
            try:
                taken = connection.execute(sa.text(f"SELECT SUM(pgsize) FROM dbstat WHERE name = '{table}'")).scalar()
            except sa.exc.OperationalError:
                return None
        else:
            taken = connection.execute(sa.text(f"SELECT pg_total_relation_size('{table}')")).scalar_one()
    return float(taken) / rows if rows and taken else None


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=500, help="nodes of 8 GPUs (default 500)")
    parser.add_argument("--minutes", type=int, default=3, help="minutes of reports (default 3)")
    parser.add_argument("--peer-nodes", type=int, default=50, help="nodes for the slower peer (default 50)")
    parser.add_argument("--database", default="", help="SQLAlchemy URL of an empty database (default: SQLite file)")
    return parser.parse_args()


def measure(options: argparse.Namespace, directory: Path) -> None:
    url = options.database or f"sqlite:///{directory}/trimtab.db"
    database = open_database(url, state_directory=directory)
    clock = BenchClock()
    fleet, small = Fleet(options.nodes), Fleet(options.peer_nodes)
    rollup = Rollup(database, cluster=CLUSTER, clock=clock, settings=RollupSettings(), hold_seconds=60.0)
    peer = Peer(url, directory)
    rollup.see(fleet.board(clock.now()), None)
    first = measured(rollup.roll)
    taking: list[float] = []
    rolling: list[float] = []
    theirs: list[float] = []
    for _ in range(options.minutes):
        minute_ms = unix_ms(clock.now())
        take, their = 0.0, 0.0
        for _ in range(60 // TICK_SECONDS):
            clock.advance(TICK_SECONDS / 2)
            deliveries, fewer = fleet.tick(clock.now()), small.tick(clock.now())
            clock.advance(TICK_SECONDS / 2)
            take += measured(lambda given=deliveries: rollup.add(given))
            their += measured(lambda given=fewer: peer.take(given))
            rollup.see(fleet.board(clock.now()), None)
        their += measured(lambda at=minute_ms: peer.minute(at))
        clock.advance(0.0)
        before = clock.now()
        clock.advance(25.0)
        rolling.append(measured(rollup.roll))
        clock.advance((before - clock.now()).total_seconds())
        taking.append(take)
        theirs.append(their)
    # The first minute of every node is counted anew from the journal, which is empty here: it is left out.
    say(options, database, first=first, taking=taking[1:], rolling=rolling[1:], theirs=theirs[1:])
    read(database, clock, options)
    peer.close()
    database.close()


def say(
    options: argparse.Namespace,
    database: Database,
    *,
    first: float,
    taking: list[float],
    rolling: list[float],
    theirs: list[float],
) -> None:
    gpus, reports = options.nodes * GPUS, options.nodes * 60 // TICK_SECONDS
    take, roll, their = (statistics.median(one) for one in (taking, rolling, theirs))
    engine = "sqlite" if database.is_sqlite else "postgresql (its server's CPU is not counted, on either side)"
    print(f"{engine}, load average {os.getloadavg()[0]:.1f}")
    print(f"{options.nodes} nodes x {GPUS} GPUs, {len(ROLLED)} metrics, a report in {TICK_SECONDS} s")
    print(f"first look at all GPUs: {first:.2f} CPU-s, once")
    print(f"taking a report in: {take / reports * 1e6:.1f} us CPU")
    print(f"a minute of all GPUs, three tiers' share left out: {roll:.2f} CPU-s, {roll / gpus * 1e6:.1f} us a GPU")
    ours = (take + roll) / gpus
    share = ours * 100_000 / 60
    print(f"at 100,000 GPUs: {share * 100:.1f} % of one core")
    for tier in ("1m", "15m", "1h"):
        size = row_bytes(database, f"rollup_gpu_{tier}")
        if size is not None:
            print(f"a row of rollup_gpu_{tier}: {size:.0f} bytes with its index")
    peer = their / (options.peer_nodes * GPUS)
    print(f"peer, a row a sample and GROUP BY: {peer * 1e6:.0f} us a GPU and minute; ours {ours * 1e6:.0f} us")
    print(f"ratio peer / trimtab: {peer / ours:.1f}")


def read(database: Database, clock: BenchClock, options: argparse.Namespace) -> None:
    """What the page asks of the past."""
    past = Past(database, History(database, cluster=CLUSTER))
    now = clock.now()
    hour = timedelta(hours=1)
    for name, work in (
        ("a board of the past, cold", lambda: past.fleet_at(now - timedelta(seconds=90))),
        ("a board of the past", lambda: past.fleet_at(now - timedelta(seconds=90))),
        ("trends of a day", lambda: past.trends(now - 24 * hour, now, points_max=300, marks_max=1000)),
        ("a job's ranks over an hour", lambda: past.ranks(
            "research/job-1", "sm_clock_hertz", since=now - hour, until=now, points_max=120)),
        ("GPU-time of a day", lambda: past.gpu_times(now - 24 * hour, now)),
    ):  # fmt: skip
        began = time.perf_counter()
        work()
        print(f"{name}: {(time.perf_counter() - began) * 1000:.0f} ms")
    print(
        f"the database: {database.size_bytes() / 1e6:.0f} MB of {options.nodes * GPUS} GPUs and {options.minutes} min"
    )


def main() -> None:
    options = arguments()
    with tempfile.TemporaryDirectory(prefix="trimtab-bench-") as directory:
        measure(options, Path(directory))


if __name__ == "__main__":
    logs.setup(level="info")
    main()
