"""PostgreSQL goes away in the middle: the daemon stays, keeps what it acknowledged, and goes on by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests import postgres
from tests.standin.driver import Driver
from tests.system.processes import Agent, Daemon, eventually
from tests.system.records import is_whole, records_of

NODE = "gpu-00"


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.PostgresServer]:
    """A server of these tests alone: it is stopped under the daemon's feet."""
    if reason := postgres.why_missing():
        pytest.skip(reason)
    made = postgres.PostgresServer()
    yield made
    made.stop()


def beats(daemon: Daemon) -> dict[str, float]:
    """Beat -> how often it has run, from /metrics."""
    page = daemon.ask("GET", "/metrics").text
    return {name: float(count) for name, count in re.findall(r'^trimtab_beats_total{beat="(\w+)"} (\S+)$', page, re.M)}


def test_a_daemon_that_is_up_before_its_database_waits_for_it(server: postgres.PostgresServer, tmp_path: Path) -> None:
    if not server.is_ours:
        pytest.skip("the server is somebody else's: it is not stopped")
    url = server.new_database()
    daemon = Daemon(tmp_path, database_url=url)
    server.halt()
    try:
        daemon.start()
        eventually(lambda: "the database is waited for" in daemon.text(), said=daemon.tail)
        eventually(lambda: "this daemon stands by" in daemon.text(), said=daemon.tail)
        assert daemon.is_running
    finally:
        server.go_on()
    try:
        eventually(lambda: "this daemon is the active one" in daemon.text(), said=daemon.tail)
        assert "Traceback" not in daemon.text()
    finally:
        daemon.close()


def test_the_daemon_outlives_cut_connections_and_a_stopped_server(
    server: postgres.PostgresServer, tmp_path: Path
) -> None:
    url = server.new_database()
    with ExitStack() as stack:
        daemon = Daemon(tmp_path, database_url=url)
        stack.callback(daemon.close)
        daemon.up()
        agent = Agent(tmp_path, Driver(tmp_path), node=NODE, daemon=daemon, token=daemon.token_of(NODE))
        stack.callback(agent.close)
        agent.start()
        records = stack.enter_context(records_of(daemon))

        def flows() -> None:
            """Three more reports are stored, and all beats go on."""
            stored, before = len(records.rows(NODE)), beats(daemon)
            eventually(lambda: len(records.rows(NODE)) >= stored + 3, said=daemon.tail)
            eventually(lambda: all(beats(daemon)[name] > count for name, count in before.items()), said=daemon.tail)
            assert agent.settled() <= {row.sequence for row in records.rows(NODE)}

        eventually(lambda: agent.metric("trimtab_agent_ticks_total") >= 2, said=agent.tail)
        flows()
        for _ in range(3):
            assert server.cut_connections(url) >= 1
            records.hang_up()
            flows()
        if server.is_ours:
            server.halt()
            try:
                eventually(lambda: "beat failed" in daemon.text(), said=daemon.tail)
                agent.waits_with(8)
                assert daemon.ask("GET", "/api/v1/board").status_code == 200
                doctor = daemon.ask("GET", "/api/v1/doctor")  # whoever looks for the fault is told of it
                assert doctor.status_code == 200, doctor.text
                assert "What waits to be told is not known" in doctor.text
            finally:
                server.go_on()
            records.hang_up()
            flows()
        eventually(lambda: agent.metric("trimtab_agent_spool_reports") <= 1, said=agent.tail)
        assert daemon.is_running
        assert is_whole(records.rows(NODE))
        assert "Traceback" not in daemon.text()
