"""Faults on the way: DNS gone, PostgreSQL full or gone, a backlog larger than any body, agents that come together."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import msgspec
import psycopg
import pytest
from tests import postgres
from tests.limits.disk import NEEDS, Disk
from tests.limits.disk_faults import failing
from tests.limits.scene import Row, scene
from tests.system.processes import Running

NAME = "daemon.trimtab.test"


def dns_gone(home: Path) -> Row:
    """The daemon's name resolves no more while its connections break: reports are kept until it does again."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip(NEEDS)
    hosts, resolver = home / "hosts", home / "resolv.conf"
    known = f"127.0.0.1 localhost {NAME}\n"
    hosts.write_text(known, encoding="ascii")
    resolver.write_text("nameserver 127.0.0.9\noptions timeout:1 attempts:1\n", encoding="ascii")
    mounts = f'mount --bind {hosts} /etc/hosts && mount --bind {resolver} /etc/resolv.conf && exec "$@"'

    def under(process: Running) -> None:
        if process.log.name == "daemon.log":
            return
        process.prefix = ("unshare", "--mount", "sh", "-c", mounts, "sh")
        settings = Path(process.arguments[-1])
        text = settings.read_text(encoding="utf-8").replace("http://127.0.0.1", f"http://{NAME}")
        settings.write_text("allow_plaintext = true\n" + text, encoding="utf-8")

    with scene(home, prepare=under) as stage:
        hosts.write_text("127.0.0.1 localhost\n", encoding="ascii")
        stage.daemon.kill()  # connections that are open would go on for ever
        stage.records.hang_up()
        stage.daemon.up()
        said = stage.says(stage.agents[0], r"(resol|not known).*reports do not flow")
        for agent in stage.agents:
            agent.waits_with(10)
        stage.lifted()
        hosts.write_text(known, encoding="ascii")
        stage.recovers()
        return stage.row(
            "DNS gone: the daemon's name resolves no more",
            "name taken out of the agents' resolver, daemon restarted; then back",
            log=said,
            status="agents: reports do not flow; they are kept",
            metric="trimtab_agent_spool_reports, trimtab_agent_send_failures_total rise",
            alert="TrimtabNodeSilent, TrimtabAgentNotDelivering",
        )


def a_server(stack: ExitStack) -> postgres.PostgresServer:
    if reason := postgres.why_missing():
        pytest.skip(reason)
    server = postgres.PostgresServer()
    stack.callback(server.stop)
    if not server.is_ours:
        pytest.skip("TEST_PG_URL names a server that is not ours to break")
    return server


def postgresql_full(home: Path) -> Row:
    """The disk under PostgreSQL's tables is full: reports are kept by the agents until there is room."""
    with ExitStack() as stack:
        disk = Disk(home / "tables", megabytes=48)
        stack.callback(disk.close)
        server = a_server(stack)  # after the disk: it is stopped before its disk goes
        shutil.chown(disk.path, "postgres", "postgres")
        home.chmod(0o755)
        for parent in home.parents:
            if parent != Path("/tmp") and str(parent).startswith("/tmp"):
                parent.chmod(0o755)
        url = server.new_database()
        with psycopg.connect(server._libpq(), autocommit=True) as admin:
            name = url.partition("?")[0].rpartition("/")[2]
            admin.execute(f"CREATE TABLESPACE small LOCATION '{disk.path}'".encode())
            admin.execute(f'ALTER DATABASE "{name}" SET TABLESPACE small'.encode())
        with scene(home, database_url=url) as stage:
            disk.fill()
            said = stage.says(stage.daemon, r"the server's disk is full.*beat failed", seconds=120.0)
            status = failing(stage)
            for agent in stage.agents:
                agent.waits_with(10)
            stage.lifted()
            disk.make_room()
            stage.recovers()
            return stage.row(
                "PostgreSQL's disk is full",
                "a tablespace of 48 MB filled by something else, then freed",
                log=said,
                status=status,
                metric='trimtab_beat_failures_total{beat="remember"} rises',
                alert="TrimtabBeatFailing, TrimtabAgentNotDelivering",
            )


def postgresql_gone(home: Path) -> Row:
    """The server crashes and comes back: nothing that was acknowledged is missing, the daemon stays."""
    with ExitStack() as stack:
        server = a_server(stack)
        with scene(home, database_url=server.new_database()) as stage:
            server.halt()
            said = stage.says(stage.daemon, r"(out of reach|connection broke|stopping or starting).*beat failed")
            status = failing(stage)
            for agent in stage.agents:
                agent.waits_with(10)
            assert stage.daemon.ask("GET", "/api/v1/board").status_code == 200
            stage.records.hang_up()
            server.go_on()
            stage.lifted()
            stage.recovers()
            return stage.row(
                "PostgreSQL out of reach",
                "server stopped as by a crash, started again",
                log=said,
                status=status,
                metric='trimtab_beat_failures_total{beat="remember"} rises',
                alert="TrimtabBeatFailing, TrimtabAgentNotDelivering",
            )


def oversized_backlog(home: Path) -> Row:
    """A backlog far larger than a body may be: it is sent in parts, and the agent learns how large they may be."""
    small = {"ingest": "body_bytes_max = 20000\ndecoded_bytes_max = 60000\nbacklog_reports_max = 40"}
    with scene(home, agents=1, more=small) as stage:
        agent = stage.agents[0]
        stage.daemon.kill()
        agent.waits_with(60)
        stage.records.hang_up()
        stage.daemon.up()
        stage.lifted()
        stage.recovers()
        assert agent.metric("trimtab_agent_set_aside_total") == 0, "none of them alone is too large"
        refused = stage.metric('trimtab_reports_refused_total{status="413"}')
        put_off = agent.metric("trimtab_agent_put_off_total")
        return stage.row(
            "a backlog larger than any body may be",
            "60 reports kept while the daemon takes 20 kB a body and 40 of a backlog at once",
            log="none: the agent halves what is too large",
            status="all arrive",
            metric=f"refused 413: {refused or 0:g}, put off 429: {put_off:g}, set aside: "
            f"{agent.metric('trimtab_agent_set_aside_total'):g}",
            alert="none; TrimtabAgentReportsSetAside where one alone is too large",
        )


def agents_come_together(home: Path, *, agents: int = 200) -> Row:
    """Many agents come back at once: live first, 429 honoured, all drained. In full: bench/reconnect.py."""
    command = [
        sys.executable, "bench/reconnect.py", "--agents", str(agents), "--interval", "20", "--outage-minutes", "10",
        "--dark-seconds", "15", "--after-seconds", "3", "--processes", "2", "--threads", "40", "--gpus", "1", "--json",
        "--limit", "280", "--outages", "1",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False, timeout=400,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    told = msgspec.json.decode(done.stdout.splitlines()[-1])
    found: dict[str, float | None] = {**told, **told["outages"][0]}
    assert found["drained_seconds"] is not None, found
    assert found["lost"] == 0, found
    assert found["dropped"] == 0, found
    assert found["agents_whose_live_report_was_first"] == agents, found
    return Row(
        fault=f"{agents} agents come back at once after 10 min",
        done="daemon killed, 30 reports kept by each, daemon started",
        acknowledged=int(found["acknowledged"] or 0),
        lost=int(found["lost"] or 0),
        doubled=int(found["doubled"] or 0),
        log="not looked at: these agents run without a log",
        status=f"live reports after {found['live_delay_seconds_p50']:.1f} s (p50)",
        metric=f"answers 429: {found['answers_429']:g}; RSS {found['rss_before_mib']:.0f} MiB before, "
        f"{found['rss_peak_mib']:.0f} at most",
        alert="TrimtabInboxFull where it lasts",
        recovered=f"{found['drained_seconds']:.0f} s",
    )
