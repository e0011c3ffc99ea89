"""Faults of processes: no file descriptors left, stopped and continued, clocks that jump, slow and idle clients."""

from __future__ import annotations

import os
import resource
import signal
import socket
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.limits.scene import Row, Scene, scene
from tests.system.processes import Running, eventually

FAKETIME = next((str(path) for path in Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1")), "")
SLOW = "slow"


def open_files(process: Running) -> int:
    return len(os.listdir(f"/proc/{process.pid}/fd"))  # noqa: PTH208 - of /proc, counted


def limit_files(process: Running, number: int | None) -> None:
    """The soft limit alone; None = all that the hard one allows."""
    _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
    resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (hard if number is None else number, hard))


# --- file descriptors


def daemon_without_files(home: Path) -> Row:
    """The running daemon may open no more files; connections that are open go on, new ones wait; then it may again."""
    with scene(home) as stage, ExitStack() as stack:
        address = ("127.0.0.1", stage.daemon.ingest_port)
        limit_files(stage.daemon, open_files(stage.daemon) + 2)
        crowd = []
        for _ in range(8):  # whoever comes now finds none
            one = stack.enter_context(socket.create_connection(address, timeout=5.0))
            crowd.append(one)
        stage.flows(reports=10)  # agents' connections are open already
        stage.lifted()
        limit_files(stage.daemon, None)
        for one in crowd:
            one.close()
        stage.recovers()
        assert stage.daemon.ask("GET", "/api/v1/board").status_code == 200
        files, most = stage.metric("process_open_fds"), stage.metric("process_max_fds")
        return stage.row(
            "daemon has no file descriptors left",
            "RLIMIT_NOFILE of the running daemon set to what it has open, 8 clients more; then lifted",
            log="a library says: accept failed (too many open files), or nothing where no new connection came",
            status="open connections go on, new ones wait",
            metric=f"process_open_fds {files:g} of process_max_fds {most:g} (after)",
            alert="TrimtabFilesRunningOut",
        )


def agent_without_files(home: Path) -> Row:
    """A running agent may open no more files: what is live goes on from memory; what was kept is still sent."""
    with scene(home) as stage:
        agent = stage.agents[0]
        limit_files(agent, 3)
        said = stage.says(agent, r"the spool cannot be used|cannot be read|Too many open files")
        stage.daemon.kill()  # so that it needs a new connection as well
        stage.records.hang_up()
        stage.daemon.up()
        stage.lifted()
        limit_files(agent, None)
        stage.recovers()
        return stage.row(
            "agent has no file descriptors left",
            "RLIMIT_NOFILE of the running agent set to 3, daemon killed and started; then lifted",
            log=said,
            status="live reports wait in memory or on disk",
            metric=f"trimtab_agent_spool_lost_total {agent.metric('trimtab_agent_spool_lost_total'):g}",
            alert="TrimtabFilesRunningOut, TrimtabAgentAbsent",
        )


# --- stopped, and continued later


def daemon_stopped(home: Path, *, seconds: float = 40.0) -> Row:
    """SIGSTOP for longer than every time-out: agents keep their reports, and nobody is called silent afterwards."""
    with scene(home) as stage:
        os.kill(stage.daemon.pid, signal.SIGSTOP)
        stopped_at = time.monotonic()
        try:
            said = stage.says(stage.agents[0], r"reports do not flow; they are kept")
            eventually(lambda: time.monotonic() - stopped_at > seconds, seconds=seconds + 30.0)
        finally:
            os.kill(stage.daemon.pid, signal.SIGCONT)
        stage.lifted()
        held = stage.says(stage.daemon, r"stood still") if seconds > 35.0 else ""
        stage.recovers()
        assert not stage.daemon.findings("node_silent", state="all"), "its own standing still was taken for the nodes'"
        return stage.row(
            "daemon stopped and continued (SIGSTOP, SIGCONT)",
            f"stopped for {seconds:.0f} s",
            log=held or said,
            status="beat judge: not judged until the nodes have reported again",
            metric='trimtab_beat_age_seconds{beat="judge"}',
            alert="TrimtabDaemonAbsent (not scraped), TrimtabAgentNotDelivering",
        )


def agent_stopped(home: Path, *, seconds: float = 70.0) -> Row:
    """SIGSTOP of one agent for longer than the daemon waits for it: its node is silent, then well again."""
    quick = "[detect]\ninterval_seconds = 0.2\nsilent_after_seconds = 5.0\n"
    with scene(home, settings=quick) as stage:
        agent = stage.agents[0]
        os.kill(agent.pid, signal.SIGSTOP)
        try:
            found = stage.daemon.finding("node_silent", seconds=seconds)
        finally:
            os.kill(agent.pid, signal.SIGCONT)
        stage.lifted()
        stage.recovers()
        return stage.row(
            "agent stopped and continued (SIGSTOP, SIGCONT)",
            "stopped until its node counted as silent",
            log=found.finding.sentence,
            status=f"finding {found.name}",
            metric="trimtab_node_reporting 0",
            alert="TrimtabNodeSilent",
        )


# --- clocks


@dataclass
class FakeTime:
    """libfaketime under one process: its wall clock is moved while it runs, its monotonic clock is not."""

    file: Path

    def under(self, process: Running) -> None:
        if not FAKETIME:
            pytest.skip("libfaketime is missing: apt-get install faketime")
        self.shift(0)
        process.env |= {
            "LD_PRELOAD": FAKETIME,
            "FAKETIME_TIMESTAMP_FILE": str(self.file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_DONT_RESET": "1",
        }

    def shift(self, seconds: int) -> None:
        """From now on it is so much later there."""
        fresh = self.file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}s\n", encoding="ascii")
        fresh.replace(self.file)


def clock_of_daemon_jumps(home: Path, *, waits: bool = True) -> Row:
    """Three days ahead (raw reports are kept for two), then back: nobody is called silent, nothing is deleted."""
    fake = FakeTime(home / "daemon.time")
    with scene(home, prepare=lambda one: fake.under(one) if one.log.name == "daemon.log" else None) as stage:
        rows = stage.stored(stage.agents[0])
        fake.shift(3 * 86400)
        said = stage.says(stage.daemon, r"clock was set forward by 3 d")
        stage.flows(reports=10)
        if waits:
            stage.says(stage.daemon, r"judging goes on", seconds=90.0)
        fake.shift(-86400)
        stage.says(stage.daemon, r"clock was set back by 4 d")
        stage.flows(reports=10)
        stage.lifted()
        fake.shift(0)
        stage.recovers()
        if waits:
            ends = stage.daemon.text().count("judging goes on")
            eventually(lambda: stage.daemon.text().count("judging goes on") > ends, seconds=120.0, said=stage.tails)
            eventually(lambda: stage.daemon.board().strip.gpus_reporting == 16, seconds=60.0, said=stage.tails)
        assert not stage.daemon.findings("node_silent", state="all"), stage.daemon.findings("node_silent", state="all")
        assert stage.stored(stage.agents[0]) > rows
        return stage.row(
            "daemon's clock jumps (+3 d, -1 d, right again)",
            "libfaketime moves the wall clock of the running daemon",
            log=said,
            status="beat judge: not judged until the nodes have reported again",
            metric="trimtab_node_clock_skew_seconds",
            alert="TrimtabClockSkew",
        )


def clock_of_agent_jumps(home: Path) -> Row:
    """An agent's clock goes two hours ahead, then back behind: its reports arrive, by our clock, and it is said."""
    fake = FakeTime(home / "agent.time")
    quick = "[detect]\ninterval_seconds = 0.2\n"
    with scene(
        home, settings=quick, prepare=lambda one: fake.under(one) if one.log.name == "gpu-00.log" else None
    ) as stage:
        fake.shift(7200)
        found = stage.daemon.finding("clock_skew", seconds=120.0)
        stage.flows(reports=10)
        fake.shift(-7200)
        stage.flows(reports=10)
        stage.lifted()
        fake.shift(0)
        stage.recovers()
        return stage.row(
            "an agent's clock jumps (+2 h, -2 h, right again)",
            "libfaketime moves the wall clock of the running agent",
            log=found.finding.sentence,
            status=f"finding {found.name}",
            metric="trimtab_node_clock_skew_seconds",
            alert="TrimtabClockSkew",
        )


# --- clients


def slow_clients(home: Path, *, connections: int = 600) -> Row:
    """Idle connections, heads and bodies that never end, on both listeners, more than there are places for."""
    few = {"ingest": f"connections_max = {connections // 3}", "people": f"connections_max = {connections // 6}"}
    with scene(home, more=few) as stage, ExitStack() as stack:
        began = stage.daemon.ask("GET", "/api/v1/board").elapsed.total_seconds()
        crowd = [stack.enter_context(open_slowly(kind, port)) for kind, port in kinds(stage, connections)]
        slowest = 0.0
        for turn in range(20):
            slowest = max(slowest, fresh(stage, lambda: stage.daemon.ask("GET", "/api/v1/board").status_code == 200))
            for one in crowd[turn::20]:
                drip(one)
        stage.flows(reports=10)
        said = stage.says(stage.daemon, r"connections are closed because")
        closed = stage.metric('trimtab_connections_closed_total{listener="ingest",why="made_room"}')
        assert closed, "none had to go"
        stage.lifted()
        stack.close()
        stage.recovers()
        assert slowest < 30.0, "people were kept out"
        return stage.row(
            "slow and idle clients on both listeners",
            f"{len(crowd)} connections: idle, half a head, half a body, drip by drip; "
            f"{connections // 3} and {connections // 6} places",
            log=said,
            status=f"the board took {slowest:.2f} s at most ({began:.2f} s before)",
            metric=f'trimtab_connections_closed_total{{why="made_room"}} {closed:g}',
            alert="TrimtabConnectionsCrowded",
        )


def kinds(stage: Scene, connections: int) -> list[tuple[bytes, int]]:
    token = stage.agents[0].token_file.read_text(encoding="ascii").strip()
    head = b"POST /v1/reports HTTP/1.1\r\nHost: x\r\nContent-Type: application/msgpack\r\nContent-Length: 5000\r\n"
    what = [
        b"",
        b"GET /api/v1/board HTTP/1.1\r\nHost: x\r\nX-Slow: ",
        head + f"Authorization: Bearer {token}\r\n\r\nab".encode(),
        b"\r\n",
    ]
    ports = (stage.daemon.ingest_port, stage.daemon.people_port)
    return [(what[number % len(what)], ports[number // 4 % 2]) for number in range(connections)]


def open_slowly(begin: bytes, port: int) -> socket.socket:
    made = socket.create_connection(("127.0.0.1", port), timeout=10.0)
    if begin:
        made.sendall(begin)
    return made


def drip(one: socket.socket) -> None:
    try:
        one.sendall(b"a")
    except OSError:
        one.close()


def fresh(stage: Scene, ask: Callable[[], bool]) -> float:
    """How long a person waits who comes anew, over a connection of their own."""
    stage.daemon.hang_up()
    began = time.monotonic()
    assert ask()
    return time.monotonic() - began
