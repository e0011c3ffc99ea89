"""All agents at once after an outage: how long until every spool is drained, and whether what is live came first.

A real `trimtab daemon`; each agent is the product's own spool and sender: its encoding, its back-off, its order. All
share this machine's cores, so that by default an agent has one GPU and reports in 30 s. Prints whether every spool is
drained and when, acknowledged reports that are not stored (each one is looked up), at how many agents the live report
was the first to be taken, answers 429, and the daemon's RSS before, at most and after. The first outage also fills the
daemon's window with history, which it then holds at any load: what a second one adds is what an outage costs.
"""

from __future__ import annotations

import argparse
import json
import math
import multiprocessing as mp
import os
import shutil
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import sqlalchemy as sa  # noqa: E402
from bench.reconnect_agents import serve  # noqa: E402
from tests.system.processes import CLUSTER, Daemon  # noqa: E402

from trimtab.clock import SystemClock  # noqa: E402
from trimtab.pki import Authority  # noqa: E402
from trimtab.ship.tokens import digest_of, new_token  # noqa: E402
from trimtab.store.database import open_database  # noqa: E402
from trimtab.store.tables import journal  # noqa: E402

SAMPLE_SECONDS = 1.0


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

    def ask(self, what: str) -> list[Any]:
        for pipe in self._pipes:
            pipe.send(what)
        return [pipe.recv() for pipe in self._pipes]

    def numbers(self) -> dict[str, Any]:
        found = self.ask("numbers")
        whole: dict[str, Any] = {}
        for name in ("waiting", "drained", "put_off", "failed", "acknowledged", "dropped", "live_first"):
            whole[name] = sum(one[name] for one in found)
        for name in ("delays", "first"):
            whole[name] = [value for one in found for value in one[name]]
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


def measure(options: argparse.Namespace, home: Path) -> dict[str, Any]:
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
        while fleet.numbers()["acknowledged"] < 2 * options.agents and time.monotonic() - began < options.limit:
            settle(2.0)
        outages: list[dict[str, Any]] = []
        for _ in range(options.outages):
            outages.append(suffer(daemon, fleet, options))
            say(", ".join(f"{name} {value:,.1f}" for name, value in outages[-1].items()))
        return {"outages": outages, **account(daemon, fleet, options)}
    finally:
        fleet.close()
        daemon.close()


def suffer(daemon: Daemon, fleet: Fleet, options: argparse.Namespace) -> dict[str, Any]:
    """One outage, until every spool is drained and some time after."""
    before_mib = rss_mib(daemon.pid)
    say(f"before: all agents report, daemon's RSS {before_mib:.0f} MiB")
    daemon.kill()
    kept = sum(fleet.ask("outage"))
    settle(options.dark_seconds)
    fleet.ask("forget")
    earlier = fleet.numbers()
    say(f"outage of {options.outage_minutes:g} min: {kept} reports kept; every agent backs off by now")
    began = time.monotonic()
    daemon.up()
    up_seconds = time.monotonic() - began
    peak_mib, delays, drained_seconds, said_at = 0.0, [], float("nan"), 0.0
    while time.monotonic() - began < options.limit:
        peak_mib = max(peak_mib, rss_mib(daemon.pid))
        now = fleet.numbers()
        delays += now["delays"]
        if time.monotonic() - said_at > 15.0:
            said_at = time.monotonic()
            say(f"  {said_at - began:5.0f} s: {now['drained']:.0f} agents drained, {now['waiting']:.0f} reports wait, "
                f"RSS {rss_mib(daemon.pid):.0f} MiB, live p50 {quantile(delays, 0.5):.1f} s")  # fmt: skip
        if now["drained"] == options.agents:
            drained_seconds = time.monotonic() - began
            break
        settle(SAMPLE_SECONDS)
    settle(options.after_seconds)
    daemon.fail_if_ended()
    last = fleet.numbers()
    first = sorted(at - began for at in last["first"])
    return {
        "drained_seconds": drained_seconds,
        "daemon_up_seconds": up_seconds,
        "live_delay_seconds_p50": quantile(delays, 0.5),
        "live_delay_seconds_p99": quantile(delays, 0.99),
        "live_delay_seconds_max": max(delays, default=float("nan")),
        "first_contacts_seconds_p50": statistics.median(first) if first else float("nan"),
        "first_contacts_in_the_busiest_second": busiest_second(first),
        "answers_429": last["put_off"] - earlier["put_off"],
        "failures": last["failed"] - earlier["failed"],
        "rss_before_mib": before_mib,
        "rss_peak_mib": peak_mib,
        "rss_after_mib": rss_mib(daemon.pid),
        "agents_whose_live_report_was_first": last["live_first"],
        "load_average": os.getloadavg()[0],
    }


def busiest_second(first: list[float]) -> int:
    if not first:
        return 0
    return max(sum(second <= at < second + 1 for at in first) for second in range(int(first[-1]) + 1))


def account(daemon: Daemon, fleet: Fleet, options: argparse.Namespace) -> dict[str, Any]:
    """Each report that an agent was told is safe, looked up."""
    dropped = fleet.numbers()["dropped"]
    acknowledged: dict[str, set[int]] = {}
    for share in fleet.ask("acknowledged"):
        acknowledged |= share
    fleet.close()
    stored, doubled = stored_by(daemon)
    return {
        "agents": options.agents,
        "acknowledged": sum(len(mine) for mine in acknowledged.values()),
        "stored": sum(len(theirs) for theirs in stored.values()),
        "lost": sum(len(mine - stored.get(node, set())) for node, mine in acknowledged.items()),
        "doubled": doubled,
        "dropped": dropped,
    }


def stored_by(daemon: Daemon) -> tuple[dict[str, set[int]], int]:
    """Each node's sequences in the journal, and how many of its rows are there twice."""
    found: dict[str, set[int]] = {}
    rows = 0
    database = open_database(daemon.database_url, state_directory=daemon.state_directory)
    try:
        with database.read() as connection:
            for node, sequence in connection.execute(sa.select(journal.c.node, journal.c.sequence)):
                found.setdefault(node, set()).add(sequence)
                rows += 1
    finally:
        database.close()
    return found, rows - sum(len(theirs) for theirs in found.values())


def say(text: str) -> None:
    print(text, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--gpus", type=int, default=1, help="GPUs an agent (default 1)")
    parser.add_argument("--values", type=int, default=10, help="values a GPU (default 10)")
    parser.add_argument("--interval", type=float, default=30.0, help="seconds between two reports of an agent")
    parser.add_argument("--outages", type=int, default=2, help="one after the other (default 2)")
    parser.add_argument("--outage-minutes", type=float, default=10.0)
    parser.add_argument("--dark-seconds", type=float, default=35.0, help="real outage, so that all back off")
    parser.add_argument("--after-seconds", type=float, default=20.0, help="rest before RSS is read again")
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--threads", type=int, default=200, help="a process")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds after which it gives up")
    parser.add_argument("--database", default="", help="SQLAlchemy URL of an empty database (default: SQLite file)")
    parser.add_argument("--spools", default="", help="folder for the spools (default: a temporary one)")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.outages < 1:
        parser.error("--outages: one at least")
    return options


def main() -> None:
    options = arguments()
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # ten thousand agents have a disk each
    home = Path(tempfile.mkdtemp(prefix="trimtab-reconnect-", dir=place))
    try:
        result = measure(options, home)
    finally:
        shutil.rmtree(home, ignore_errors=True)
    outages = result.pop("outages")
    if options.json:
        print(json.dumps({**result, "outages": [without_nan(one) for one in outages]}))
        return
    for name, value in result.items():
        print(f"{name:40} {value:,}")
    for name in outages[0]:
        print(f"{name:40} " + "  then  ".join(f"{one[name]:,.1f}" for one in outages))
    is_drained = not any(math.isnan(one["drained_seconds"]) for one in outages)
    before_mib, peak_mib, after_mib = (outages[-1][f"rss_{when}_mib"] for when in ("before", "peak", "after"))
    print(f"all spools drained: {is_drained}; lost: {result['lost']}; RSS at most {peak_mib / before_mib:.2f} and in "
          f"the end {after_mib / before_mib:.2f} of what it was before the last outage")  # fmt: skip
    sys.exit(0 if is_drained and not result["lost"] else 1)


def without_nan(row: dict[str, Any]) -> dict[str, Any]:
    return {name: None if isinstance(one, float) and math.isnan(one) else one for name, one in row.items()}


if __name__ == "__main__":
    main()
