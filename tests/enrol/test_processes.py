"""Real daemons and agents: join, report, renew, be revoked, be refused, and be killed at each of it."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event, Lock

import pytest
from tests.enrol.between import Between
from tests.enrol.nodes import NODE, Enrollee, enroll, row_of, token_of
from tests.postgres import PostgresServer
from tests.system.processes import MAIN, Daemon, Running, environment, eventually, verb

from trimtab.ship.join_token import digest_of


@pytest.fixture
def running() -> Iterator[Callable[[Running], Running]]:
    """Keeps what it is given, and ends it with the test."""
    kept: list[Running] = []

    def keep(one: Running) -> Running:
        kept.append(one)
        return one

    yield keep
    for one in kept:
        one.close()


@pytest.fixture(params=["sqlite", "postgresql"])
def daemon(request: pytest.FixtureRequest, tmp_path: Path, running: Callable[[Running], Running]) -> Daemon:
    """A daemon on each engine in turn."""
    url = "sqlite:///trimtab.db"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgresql")
        url = server.new_database()
    made = Daemon(tmp_path, database_url=url)
    running(made)
    return made.up()


def test_a_node_joins_reports_renews_and_is_revoked(
    daemon: Daemon, tmp_path: Path, running: Callable[[Running], Running]
) -> None:
    agent = Enrollee(tmp_path, daemon.ingest_url)
    running(agent)
    token = token_of(daemon)
    agent.give(token)
    agent.start()
    eventually(lambda: daemon.node(NODE), seconds=60.0, said=agent.tail)
    assert not agent.join_file.exists()  # used up
    assert agent.kept is not None
    assert stat.S_IMODE(agent.credentials.stat().st_mode) == 0o700
    assert [stat.S_IMODE(file.stat().st_mode) for file in agent.credentials.iterdir()] == [0o600]
    for text in (daemon.text(), agent.text()):
        assert token not in text
        assert agent.kept.token not in text
    eventually(lambda: row_of(daemon).get("state") == "enrolled", said=daemon.tail)

    first = agent.kept.token
    assert "after its next report" in enroll(daemon, "rotate", NODE)["sentence"]
    eventually(lambda: agent.kept is not None and agent.kept.token != first, said=agent.tail)
    eventually(lambda: row_of(daemon)["renewals"] == 1 and row_of(daemon)["state"] == "enrolled", said=daemon.tail)
    agent.reports_at(daemon)

    agent.kill()
    agent.start()
    daemon.kill()
    daemon.up()
    agent.reports_at(daemon)

    enroll(daemon, "revoke", NODE, "--reason", "sold")
    eventually(lambda: "was revoked at" in agent.text() and "(sold)" in agent.text(), said=agent.tail)
    eventually(lambda: agent.metric("trimtab_agent_enrolment_refusals_total", reason="revoked"), said=agent.tail)
    waiting = agent.metric("trimtab_agent_spool_reports") or 0.0
    eventually(lambda: (agent.metric("trimtab_agent_spool_reports") or 0.0) > waiting, said=agent.tail)
    agent.give(token_of(daemon, offline=True))  # let in again, without a restart of either
    agent.reports_at(daemon)
    eventually(lambda: agent.metric("trimtab_agent_spool_reports") == 0.0, said=agent.tail)
    assert "Traceback" not in daemon.text() + agent.text()
    audit = {line["what"] for line in daemon.ask("GET", "/api/v1/audit").json()["lines"]}
    assert {"gave a join token", "enrolled", "renewed its credential", "revoked a node's credential"} <= audit


@pytest.fixture
def alone(tmp_path: Path, running: Callable[[Running], Running]) -> Daemon:
    """A daemon on SQLite."""
    made = Daemon(tmp_path)
    running(made)
    return made.up()


def test_who_is_refused_says_so_everywhere_keeps_its_reports_and_takes_a_new_token(
    alone: Daemon, tmp_path: Path, running: Callable[[Running], Running]
) -> None:
    agent = Enrollee(tmp_path, alone.ingest_url)
    running(agent)
    agent.give(token_of(alone, "gpu-08"))  # of another node
    agent.start()
    eventually(lambda: "is for node gpu-08" in agent.text(), seconds=60.0, said=agent.tail)
    eventually(lambda: agent.metric("trimtab_agent_enrolment_refusals_total", reason="other_node"), said=agent.tail)
    assert agent.metric("trimtab_agent_enrolled") == 0.0
    asked = verb("doctor", "--settings", str(agent.settings_file), home=tmp_path)
    assert "is for node gpu-08, and the one that asks is gpu-07" in asked.stdout
    agent.give(token_of(alone, NODE, "--for", "0.001s"))
    eventually(lambda: "ran out at" in agent.text(), said=agent.tail)
    eventually(lambda: (agent.metric("trimtab_agent_spool_reports") or 0.0) > 3, said=agent.tail)
    agent.give(token_of(alone))
    eventually(lambda: agent.metric("trimtab_agent_enrolled") == 1.0, said=agent.tail)
    eventually(lambda: agent.metric("trimtab_agent_spool_reports") == 0.0, said=agent.tail)
    assert agent.metric("trimtab_agent_spool_dropped_total") == 0.0
    asked = verb("doctor", "--settings", str(agent.settings_file), home=tmp_path)
    assert f"ok  enrolment: {NODE} is enrolled in hall-a until" in asked.stdout


def test_a_node_is_joined_by_hand_before_its_agent_runs(
    alone: Daemon, tmp_path: Path, running: Callable[[Running], Running]
) -> None:
    settings = tmp_path / "agent.toml"
    settings.write_text(
        f'node = "{NODE}"\ncredential_directory = "{tmp_path}/credential"\nspool_directory = "{tmp_path}/spool"\n'
        'interval_seconds = 0.2\nkernel_log = "none"\nmetrics_listen = ""\n'
    )

    def join(token: str) -> subprocess.CompletedProcess[str]:
        command = [
            sys.executable,
            "-c",
            MAIN,
            "join",
            alone.ingest_url,
            "--token-file",
            "-",
            "--settings",
            str(settings),
        ]
        return subprocess.run(
            command, input=token, env=environment(tmp_path), capture_output=True, text=True, timeout=60, check=False
        )

    token = token_of(alone)
    done = join(token)
    assert done.returncode == 0, done.stderr
    assert f"{NODE} is enrolled in hall-a until" in done.stdout
    assert join(token).returncode == 0  # again: nothing to do
    used = join(token_of(alone, "gpu-08"))
    assert (used.returncode, "is for node gpu-08" in used.stderr) == (4, True)
    assert join("something").returncode == 2
    # The daemon's address and the cluster's name are what the join found.
    agent = running(Running("agent", "--settings", str(settings), home=tmp_path, name="agent", env={}))
    agent.start()
    eventually(lambda: alone.node(NODE), seconds=60.0, said=agent.tail)


def test_tokens_are_made_beside_a_daemon_that_does_not_run(alone: Daemon, tmp_path: Path) -> None:
    alone.stop()
    out = tmp_path / "tokens"
    done = verb("enroll", "gpu-[01-03]", "--out", str(out), "--settings", str(alone.settings_file), home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(file.name for file in out.iterdir()) == ["gpu-01.join", "gpu-02.join", "gpu-03.join"]
    assert {stat.S_IMODE(file.stat().st_mode) for file in out.iterdir()} == {0o600}
    assert "trimtab_join_" not in done.stdout + done.stderr
    listed = enroll(alone, "list", offline=True)["nodes"]
    assert [(row["node"], row["state"]) for row in listed] == [(f"gpu-0{n}", "invited") for n in (1, 2, 3)]
    assert "(beside the daemon)" in listed[0]["enrolled_by"]


def test_over_tls_the_token_vouches_for_the_daemon_and_the_node_shows_a_certificate_of_its_own(
    tmp_path: Path, running: Callable[[Running], Running]
) -> None:
    daemon = Daemon(tmp_path)
    running(daemon)
    daemon.write_settings(
        f'[ingest]\nlisten = "127.0.0.1:{daemon.ingest_port}"\nown_certificate = true\n'
        'client_certificates = "required"\n'
    )
    daemon.up()
    agent = Enrollee(tmp_path, f"https://127.0.0.1:{daemon.ingest_port}")
    running(agent)
    token = token_of(daemon)
    assert len(token.partition(".")[2]) == 64
    agent.give(token)
    agent.start()
    eventually(lambda: daemon.node(NODE), seconds=60.0, said=agent.tail)
    first = agent.kept
    assert first is not None
    assert first.certificate_pem.startswith("-----BEGIN CERTIFICATE-----")
    enroll(daemon, "rotate", NODE)
    eventually(lambda: row_of(daemon)["renewals"] == 1 and row_of(daemon)["state"] == "enrolled", said=agent.tail)
    assert agent.kept is not None
    assert agent.kept.certificate_pem != first.certificate_pem
    agent.reports_at(daemon)
    assert len(list(agent.credentials.glob("client-*.pem"))) == 1
    agent.kill()
    agent.start()
    agent.reports_at(daemon)
    assert row_of(daemon)["has_certificate"]


@pytest.mark.parametrize(
    "moment",
    [
        pytest.param("before it arrives", marks=pytest.mark.long),
        pytest.param("as it arrives", marks=pytest.mark.long),
        "once it is written down",
    ],
)
@pytest.mark.parametrize("step", ["/v1/enroll", "/v1/renew"])
def test_a_daemon_that_is_killed_during_a_join_or_a_renewal_loses_no_node(
    alone: Daemon, tmp_path: Path, running: Callable[[Running], Running], step: str, moment: str
) -> None:
    between = Between(alone.ingest_port)
    agent = Enrollee(tmp_path, between.url)
    running(agent)
    killed = Event()
    turn = Lock()

    def kill_at(path: str, when: str) -> None:
        with turn:
            if path == step and when == moment and not killed.is_set():
                alone.kill()
                killed.set()

    try:
        token = token_of(alone)
        agent.give(token)
        if step == "/v1/enroll":
            between.meanwhile = kill_at
        agent.start()
        if step == "/v1/renew":
            eventually(lambda: alone.node(NODE), seconds=60.0, said=agent.tail)
            between.meanwhile = kill_at
            enroll(alone, "rotate", NODE)
        eventually(killed.is_set, seconds=60.0, said=agent.tail)
        alone.up()
        eventually(lambda: agent.kept, seconds=60.0, said=agent.tail)
        agent.reports_at(alone)
        eventually(lambda: row_of(alone)["state"] == "enrolled", said=lambda: row_of(alone))
        eventually(lambda: row_of(alone)["renewals"] == int(step == "/v1/renew"), said=lambda: row_of(alone))
        assert agent.kept is not None
        assert agent.kept.join_sha256 == digest_of(token)
    finally:
        between.close()
