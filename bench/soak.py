"""Half an hour of everything at once: does memory or the number of open files grow?

A real daemon over a simulated hall (faults come and go, jobs begin and end) and its agents; `trimtab agent` processes,
page clients that come, read the stream, and leave, and sign-ins. Samples RSS and open files of daemon and agents every
few seconds; prints the slope after warm-up with its 95 % interval (moving-block bootstrap, so that neighbouring samples
need not be independent), and a verdict.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402
from numpy.typing import NDArray  # noqa: E402
from tests.standin.driver import Driver  # noqa: E402
from tests.system.hall import Hall, hall  # noqa: E402
from tests.system.processes import Agent, Daemon, Running  # noqa: E402

from trimtab.outbound import OutboundError, session  # noqa: E402
from trimtab.sim.faults import Fault, inject  # noqa: E402

BLOCK_SECONDS = 60.0
DRAWS = 2000
RSS_MIB_PER_HOUR_MAX = 8.0
"""A slope whose whole interval lies below this is no growth that anybody would meet within a week of 1 GiB."""
FILES_PER_HOUR_MAX = 10.0
"""Clients come and go some thousand times an hour: one file kept by each hundredth of them would be more."""
SAMPLES_MIN = 20
SECONDS_MIN = 600.0
"""After warm-up: within less a process that still fills its caches looks as one that leaks."""
FLAT, GROWS, UNKNOWN = "flat", "GROWS", "not known: run longer"
PAGE_SECONDS = 4.0


@dataclass
class Watched:
    """One process and what was seen of it."""

    name: str
    pid: Callable[[], int | None]
    at_seconds: list[float] = field(default_factory=list)
    rss_mib: list[float] = field(default_factory=list)
    files: list[int] = field(default_factory=list)

    def look(self, at_seconds: float) -> None:
        pid = self.pid()
        with suppress(OSError, IndexError):
            text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
            count = len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - counted
            self.rss_mib.append(int(text.split("VmRSS:")[1].split()[0]) / 1024)
            self.files.append(count)
            self.at_seconds.append(at_seconds)


@dataclass(frozen=True)
class Slope:
    """Change an hour, and the interval that holds it in 95 of 100 draws."""

    per_hour: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.per_hour:+8.2f} / h  [{self.low:+.2f}, {self.high:+.2f}]"


def slope_of(at_seconds: NDArray[np.float64], values: NDArray[np.float64], *, seed: int = 1) -> Slope:
    """Least squares, and a moving-block bootstrap of its residuals: they are correlated over less than a block."""
    hours = at_seconds / 3600
    centred = hours - hours.mean()
    weight = (centred**2).sum()
    line = float((centred * values).sum() / weight)
    left = values - values.mean() - line * centred
    block = max(2, min(len(values) // 4, round(BLOCK_SECONDS / max(float(np.median(np.diff(at_seconds))), 0.1))))
    chance = np.random.default_rng(seed)
    blocks = -(-len(values) // block)
    starts = chance.integers(0, len(values) - block + 1, size=(DRAWS, blocks))
    drawn = left[(starts[:, :, None] + np.arange(block)).reshape(DRAWS, -1)[:, : len(values)]]
    slopes = line + (drawn - drawn.mean(axis=1, keepdims=True)) @ centred / weight
    low, high = np.quantile(slopes, (0.025, 0.975))
    return Slope(line, float(low), float(high))


# --- what happens meanwhile


class Churn:
    """Faults that come and go, page clients, sign-ins; each on a thread of its own until the end."""

    def __init__(self, play: Hall, *, seed: int, clients: int) -> None:
        self._play = play
        self._chance = random.Random(seed)
        self._is_over = threading.Event()
        self.done: dict[str, int] = {"faults": 0, "pages": 0, "streams": 0, "sign-ins": 0, "refused": 0, "api": 0}
        work = [self._faults, self._sign_ins, *[self._page] * clients]
        self._threads = [threading.Thread(target=self._loop, args=(one,), daemon=True) for one in work]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(30.0)

    def _loop(self, one: Callable[[], None]) -> None:
        while not self._is_over.is_set():
            with suppress(OutboundError, AssertionError):
                one()
            self._is_over.wait(self._chance.uniform(0.2, 1.0) * PAGE_SECONDS)

    def _faults(self) -> None:
        node = self._chance.choice([one.name for one in self._play.cluster.node_list])
        kind, gpus = self._chance.choice(["gpu_falls_off", "fan_failure"]), (self._chance.randrange(8),)
        inject(self._play.cluster, Fault(kind=kind, node=node, gpus=gpus))
        self._is_over.wait(15.0)
        inject(self._play.cluster, Fault(kind="repair", node=node, gpus=gpus))
        self.done["faults"] += 1

    def _page(self) -> None:
        daemon = self._play.daemon
        headers = {"Authorization": f"Bearer {daemon.operator_token}"}
        with session(timeout_seconds=20.0) as own:
            for path in ("/", "/api/v1/board", "/api/v1/findings?state=all", "/metrics", "/api/v1/doctor"):
                own.get(daemon.url + path, headers=headers)
                self.done["api"] += 1
            with own.get(f"{daemon.url}/api/v1/stream", headers=headers, stream=True) as stream:
                ends_at = time.monotonic() + self._chance.uniform(1.0, 8.0)
                for _ in stream.iter_content(4096):
                    if time.monotonic() > ends_at or self._is_over.is_set():
                        break
                self.done["streams"] += 1
            self.done["pages"] += 1

    def _sign_ins(self) -> None:
        daemon = self._play.daemon
        with session(timeout_seconds=20.0) as own:
            for token in (daemon.operator_token, f"wrong-{self._chance.random()}"):
                answer = own.post(f"{daemon.url}/api/v1/sign-in", json={"token": token}, headers={"Origin": daemon.url})
                self.done["sign-ins" if answer.status_code == 200 else "refused"] += 1


def real_agents(stack: ExitStack, daemon: Daemon, home: Path, count: int) -> list[Running]:
    """`trimtab agent` over the stand-in driver: what a node runs."""
    driver = Driver(home)
    made: list[Running] = []
    for number in range(count):
        node = f"real-{number:02d}"
        agent = Agent(home, driver, node=node, daemon=daemon, token=daemon.token_of(node))
        stack.callback(agent.close)
        agent.start()
        made.append(agent)
    return made


def run(options: argparse.Namespace, home: Path) -> list[Watched]:
    url = options.database or f"sqlite:///{home}/daemon/trimtab.db"
    with hall(home, database_url=url) as play, ExitStack() as stack:
        agents = real_agents(stack, play.daemon, home, options.agents)
        watched = [Watched("daemon", lambda: play.daemon.pid if play.daemon.is_running else None)]
        watched += [Watched(one.log.stem, lambda one=one: one.pid if one.is_running else None) for one in agents]
        churn = Churn(play, seed=options.seed, clients=options.clients)
        churn.start()
        stack.callback(churn.stop)
        began = time.monotonic()
        said_at = 0.0
        pause = threading.Event()
        while (at := time.monotonic() - began) < options.minutes * 60:
            for one in watched:
                one.look(at)
            if at - said_at > 60.0:
                said_at = at
                print(f"  {at / 60:5.1f} min: daemon {watched[0].rss_mib[-1]:.0f} MiB, {watched[0].files[-1]} files; "
                      f"{churn.done}", flush=True)  # fmt: skip
            pause.wait(options.every)
        for process in (play.daemon, *agents):
            assert process.is_running, process.tail()
            assert "Traceback" not in process.text(), process.tail()
        print(f"while: {churn.done}; load average {os.getloadavg()[0]:.1f}")
    return watched


def verdict(watched: list[Watched], *, warm_up_seconds: float) -> set[str]:
    """Print each slope; what was found of them."""
    found: set[str] = set()
    print(f"{'process':10} {'':6} {'first':>8} {'last':>8}   slope after warm-up, 95 % interval")
    for one in watched:
        at = np.asarray(one.at_seconds)
        late = at >= warm_up_seconds
        for what, values, bound in (
            ("MiB", np.asarray(one.rss_mib), RSS_MIB_PER_HOUR_MAX),
            ("files", np.asarray(one.files, np.float64), FILES_PER_HOUR_MAX),
        ):
            if late.sum() < SAMPLES_MIN:
                print(f"{one.name:10} {what:6} too few samples after warm-up: {late.sum()}")
                found.add(UNKNOWN)
                continue
            slope = slope_of(at[late], values[late])
            word = word_of(slope, bound) if at[late][-1] - at[late][0] >= SECONDS_MIN else UNKNOWN
            found.add(word)
            print(f"{one.name:10} {what:6} {values[late][0]:8.1f} {values[late][-1]:8.1f}   {slope}   {word}")
    return found


def word_of(slope: Slope, bound: float) -> str:
    """Flat: at most it is too little to matter. Grows: it is more than nothing, and by its middle it matters."""
    if slope.high <= bound:
        return FLAT
    return GROWS if slope.low > 0 and slope.per_hour > bound else UNKNOWN


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--warm-up-minutes", type=float, default=0.0, help="default: a third of it")
    parser.add_argument("--agents", type=int, default=2, help="real agent processes (default 2)")
    parser.add_argument("--clients", type=int, default=3, help="page clients at once (default 3)")
    parser.add_argument("--every", type=float, default=2.0, help="seconds between two samples")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", default="", help="SQLAlchemy URL of an empty database (default: SQLite file)")
    options = parser.parse_args()
    home = Path(tempfile.mkdtemp(prefix="trimtab-soak-"))
    try:
        watched = run(options, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    warm_up = (options.warm_up_minutes or options.minutes / 3) * 60
    found = verdict(watched, warm_up_seconds=warm_up)
    worst = next(word for word in (GROWS, UNKNOWN, FLAT) if word in found)
    print(f"verdict: {'nothing grows' if worst == FLAT else 'SOMETHING GROWS' if worst == GROWS else worst}")
    sys.exit({FLAT: 0, GROWS: 1, UNKNOWN: 2}[worst])


if __name__ == "__main__":
    main()
