"""Who may report, and over what: tokens and plaintext, tried on real processes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import a_report
from tests.standin.driver import Driver
from tests.system.processes import CLUSTER, Agent, Daemon, Running, eventually, free_port, verb
from tests.system.records import Records, is_whole, records_of

from trimtab.clock import SystemClock
from trimtab.outbound import session
from trimtab.ship.tokens import new_token
from trimtab.ship.wire import MSGPACK, ZSTD, encode_reports


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("doors")


@pytest.fixture(scope="module")
def daemon(home: Path) -> Iterator[Daemon]:
    made = Daemon(home)
    try:
        yield made.up()
    finally:
        made.close()


@pytest.fixture(scope="module")
def records(daemon: Daemon) -> Iterator[Records]:
    with records_of(daemon) as found:
        yield found


def post(daemon: Daemon, *, node: str, token: str | None) -> tuple[int, str]:
    """One report of a node, as any client sends it."""
    body = encode_reports([a_report(node, cluster=CLUSTER, sequence=1, sampled_at=SystemClock().now())])
    headers = {"Content-Type": MSGPACK, "Content-Encoding": ZSTD}
    with session(timeout_seconds=20.0, token=token) as client:
        answer = client.post(f"{daemon.ingest_url}/v1/reports", data=body, headers=headers)
    return answer.status_code, answer.json().get("error", "")


def test_the_ingest_door_knows_each_node_by_its_own_token(daemon: Daemon, records: Records) -> None:
    token = daemon.token_of("gpu-20")
    refusals = [post(daemon, node="gpu-20", token=given) for given in (None, new_token(), daemon.operator_token)]
    assert [status for status, _ in refusals] == [401, 401, 401]
    assert all("trimtab token node" in said for _, said in refusals[1:])
    status, said = post(daemon, node="gpu-21", token=token)
    assert (status, "gpu-20" in said, "gpu-21" in said) == (403, True, True)
    assert records.rows("gpu-20") == records.rows("gpu-21") == []
    assert post(daemon, node="gpu-20", token=token) == (200, "")
    assert len(records.rows("gpu-20")) == 1


def test_the_peoples_door_takes_the_operators_token_and_no_nodes(daemon: Daemon) -> None:
    for token in (new_token(), daemon.token_of("gpu-22")):
        for method, path in (("GET", "/api/v1/board"), ("POST", "/api/v1/pause"), ("POST", "/api/v1/links")):
            answer = daemon.ask(method, path, {"reason": "x"} if method == "POST" else None, token=token)
            assert (answer.status_code, "error" in answer.json()) == (401, True)
    assert daemon.board().is_paused is False


@pytest.fixture
def agents(tmp_path: Path, daemon: Daemon) -> Iterator[list[Agent]]:
    started: list[Agent] = []
    yield started
    for agent in started:
        agent.close()


def test_an_agent_with_an_unknown_token_keeps_its_reports_until_it_is_known(
    agents: list[Agent], tmp_path: Path, home: Path, daemon: Daemon, records: Records
) -> None:
    agent = Agent(tmp_path, Driver(tmp_path), node="gpu-10", daemon=daemon, token=new_token())
    agents.append(agent)
    agent.start()
    agent.waits_with(6)
    assert "answered 401" in agent.text()
    assert records.rows("gpu-10") == []
    made = verb("token", "node", "gpu-10", "--settings", str(daemon.settings_file), home=home)
    assert made.returncode == 0, made.stderr
    agent.token_file.write_text(made.stdout, encoding="ascii")
    assert agent.stop() == 0
    agent.start()
    _assert_all_arrives(agent, records)


def test_an_agent_with_another_nodes_token_is_refused_and_loses_nothing(
    agents: list[Agent], tmp_path: Path, daemon: Daemon, records: Records
) -> None:
    token = daemon.token_of("gpu-12")
    agent = Agent(tmp_path, Driver(tmp_path), node="gpu-11", daemon=daemon, token=token)
    agents.append(agent)
    agent.start()
    agent.waits_with(6)
    assert "answered 403" in agent.text()
    assert "gpu-12" in agent.text()
    assert records.rows("gpu-11") == records.rows("gpu-12") == []
    assert agent.metric("trimtab_agent_spool_dropped_total") == 0
    agent.token_file.write_text(daemon.token_of("gpu-11"), encoding="ascii")
    assert agent.stop() == 0
    agent.start()
    _assert_all_arrives(agent, records)


def _assert_all_arrives(agent: Agent, records: Records) -> None:
    eventually(lambda: agent.metric("trimtab_agent_ticks_total") >= 2, said=agent.tail)
    eventually(lambda: agent.metric("trimtab_agent_spool_reports") <= 1, said=agent.tail)
    rows = records.rows(agent.node)
    assert len(rows) >= 6
    assert is_whole(rows)


def test_an_agent_refuses_to_carry_its_token_in_the_clear(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(new_token(), encoding="ascii")
    settings = tmp_path / "agent.toml"
    settings.write_text(
        f'node = "gpu-00"\ndaemon_urls = ["http://203.0.113.5:9741"]\ntoken_file = "{tmp_path}/token"\n'
        f'spool_directory = "{tmp_path}/spool"\nkernel_log = "none"\nmetrics_listen = ""\n'
    )
    done = verb("agent", "--settings", str(settings), home=tmp_path)
    assert done.returncode == 2
    assert "http://203.0.113.5:9741 would carry this node's token in the clear" in done.stderr
    assert "https://" in done.stderr
    assert "allow_plaintext = true" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("door", ["ingest", "people"])
def test_a_daemon_refuses_to_leave_the_host_without_tls(door: str, tmp_path: Path) -> None:
    made = Daemon(tmp_path, settings=f'[{door}]\nlisten = "0.0.0.0:{free_port()}"\n')
    done = verb("daemon", "--settings", str(made.settings_file), home=tmp_path)
    assert done.returncode == 2
    for said in (f"{door}.listen = 0.0.0.0:", f"{door}.certificate_file", f"{door}.allow_plaintext = true"):
        assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_daemon_told_to_trust_the_network_listens_and_warns(tmp_path: Path) -> None:
    port = free_port()
    settings = f'[ingest]\nlisten = "0.0.0.0:{port}"\nallow_plaintext = true\n'
    made = Daemon(tmp_path, settings=settings)
    made.ingest_url = f"http://127.0.0.1:{port}"
    try:
        made.up()
        assert post(made, node="gpu-00", token=made.token_of("gpu-00")) == (200, "")
        assert "listening without TLS off loopback" in made.text()
        assert made.stop() == 0
    finally:
        made.close()


def test_a_second_daemon_on_the_same_state_is_told_why_it_may_not(daemon: Daemon, home: Path) -> None:
    done = verb("daemon", "--settings", str(daemon.settings_file), home=home)
    assert done.returncode == 2
    assert "another daemon is running here" in done.stderr
    assert daemon.is_running


def test_a_second_agent_on_the_same_spool_is_told_why_it_may_not(
    agents: list[Agent], tmp_path: Path, daemon: Daemon
) -> None:
    agent = Agent(tmp_path, Driver(tmp_path), node="gpu-13", daemon=daemon, token=daemon.token_of("gpu-13"))
    agents.append(agent)
    agent.start()
    eventually(lambda: agent.metric("trimtab_agent_ticks_total") >= 1, said=agent.tail)
    twin = Running(*agent.arguments, home=tmp_path, name="twin", env={})
    twin.start()
    try:
        eventually(lambda: not twin.is_running, said=twin.tail)
    finally:
        twin.close()
    assert str(agent.spool_directory) in twin.text()
    assert "Traceback" not in twin.text()
    assert agent.is_running
