"""TLS between real processes: the daemon's own CA, client certificates, renewal while reports flow, and plaintext."""

from __future__ import annotations

import signal
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.standin.driver import Driver
from tests.system.processes import Agent, Daemon, eventually, free_port, verb
from tests.tls.certificates import Hall
from tests.tls.secured import Secured, as_toml, serial_at

from trimtab.errors import SettingsError
from trimtab.listener import Listener
from trimtab.outbound import session
from trimtab.show.api_types import Doctor

NODE = "gpu-00"


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Secured]:
    made = Secured(tmp_path)
    try:
        yield made.up()
    finally:
        made.close()
        made.hang_up()


def test_reports_flow_by_the_daemons_own_ca_and_go_on_while_everything_is_renewed(daemon: Secured, tmp_path: Path):
    files = daemon.give(NODE, tmp_path)
    agent = Agent(
        tmp_path, Driver(tmp_path), node=NODE, daemon=daemon, token=daemon.token_of(NODE), settings=as_toml(files)
    )
    try:
        agent.start()
        acknowledged = lambda: agent.metric("trimtab_agent_acknowledged_total")  # noqa: E731
        eventually(lambda: acknowledged() >= 2, said=agent.tail)
        ports = (daemon.ingest_port, daemon.people_port)
        old = [serial_at(daemon, port) for port in ports]
        assert verb("ca", "renew", "--settings", str(daemon.settings_file), home=tmp_path).returncode == 0
        daemon.give(NODE, tmp_path)  # the node's as well
        eventually(lambda: all(serial_at(daemon, port) not in old for port in ports), said=daemon.tail)
        eventually(lambda: "certificate files read again" in agent.text(), said=agent.tail)
        before = acknowledged()
        eventually(lambda: acknowledged() >= before + 3, said=agent.tail)
        assert agent.metric("trimtab_agent_send_failures_total") == 0
        assert agent.metric("trimtab_agent_set_aside_total") == 0
        page = agent._session.get(f"http://127.0.0.1:{agent.metrics_port}/metrics").text
        assert (
            'trimtab_agent_certificate_remaining_seconds{certificate="client",cluster="hall-a",node="gpu-00"}' in page
        )
    finally:
        agent.close()
    left = tomllib.loads((daemon.state_directory / "client.toml").read_text())
    assert (left["url"], left["ca_file"]) == (daemon.url, daemon.ca_file)  # the verbs on this host trust it as it is
    checks = {one.name: one for one in daemon.get("/api/v1/doctor", Doctor).checks}
    assert {"certificate ingest", "certificate people", "certificate ca"} <= checks.keys()
    assert all(checks[f"certificate {use}"].is_ok for use in ("ingest", "people", "ca")), checks
    assert 'trimtab_daemon_certificate_unusable{certificate="ingest"} 0.0' in daemon.ask("GET", "/metrics").text
    daemon.assert_had_no_trouble()


def test_a_broken_file_is_said_by_doctor_and_metrics_and_sighup_takes_up_the_mended_one(daemon: Secured):
    served = daemon.ca_directory / "server.pem"
    old, good = serial_at(daemon, daemon.people_port), served.read_bytes()
    served.write_text("half a certif")
    eventually(
        lambda: 'certificate_unusable{certificate="people"} 1.0' in daemon.ask("GET", "/metrics").text, said=daemon.tail
    )
    check = next(one for one in daemon.get("/api/v1/doctor", Doctor).checks if one.name == "certificate people")
    assert not check.is_ok
    assert "The last good ones stay in force." in check.sentence
    assert check.fix
    assert serial_at(daemon, daemon.people_port) == old
    served.write_bytes(good)
    assert verb("ca", "renew", "--settings", str(daemon.settings_file), home=daemon.home).returncode == 0
    daemon._process.send_signal(signal.SIGHUP)  # type: ignore[union-attr]
    eventually(lambda: serial_at(daemon, daemon.people_port) != old, said=daemon.tail)
    eventually(
        lambda: 'certificate_unusable{certificate="people"} 0.0' in daemon.ask("GET", "/metrics").text, said=daemon.tail
    )


def test_an_agent_without_and_one_with_anothers_certificate_say_why_and_keep_their_reports(
    daemon: Secured, tmp_path: Path
):
    trusted = as_toml({"ca_file": daemon.ca_file})
    bare = Agent(tmp_path, Driver(tmp_path), node=NODE, daemon=daemon, token=daemon.token_of(NODE), settings=trusted)
    lent = Agent(
        tmp_path,
        Driver(tmp_path),
        node="gpu-01",
        daemon=daemon,
        token=daemon.token_of("gpu-01"),
        settings=as_toml(daemon.give("gpu-99", tmp_path)),
    )
    agents = (bare, lent)
    try:
        for agent in agents:
            agent.start()
        eventually(lambda: "this daemon takes no report without one" in bare.text(), said=bare.tail)
        eventually(
            lambda: "The client certificate of node gpu-99 was shown with the token of node gpu-01" in lent.text(),
            said=lent.tail,
        )
        for agent in agents:
            agent.waits_with(2)
            assert agent.metric("trimtab_agent_set_aside_total") == 0
        daemon.give(NODE, tmp_path)
    finally:
        for agent in agents:
            agent.close()


# --- plaintext off loopback


def test_a_daemon_listens_without_tls_off_loopback_only_when_it_is_told_to(tmp_path: Path):
    settings = tmp_path / "daemon.toml"
    for name in ("ingest", "people"):
        settings.write_text(
            f'state_directory = "{tmp_path / name}"\n'
            f'[ingest]\nlisten = "127.0.0.1:{free_port()}"\n[people]\nlisten = "127.0.0.1:{free_port()}"\n'.replace(
                f'[{name}]\nlisten = "127.0.0.1', f'[{name}]\nlisten = "0.0.0.0'
            )
        )
        done = verb("daemon", "--settings", str(settings), home=tmp_path)
        assert done.returncode == 2, done.stderr
        assert f"{name}.listen = 0.0.0.0:" in done.stderr
        assert f"leaves this host without TLS. Set {name}.certificate_file and {name}.key_file" in done.stderr
        assert f"or {name}.allow_plaintext = true if the network is trusted." in done.stderr


def test_plaintext_that_is_allowed_is_said_at_every_start():
    from starlette.applications import Starlette

    with capture_logs() as logs:
        listener = Listener(Starlette(), name="ingest", listen="0.0.0.0:0", allow_plaintext=True)
        listener.stop()
    assert [(one["log_level"], "without TLS off loopback" in one["event"]) for one in logs] == [("warning", True)]


def test_an_agent_sends_without_tls_off_loopback_only_when_it_is_told_to(tmp_path: Path):
    settings = tmp_path / "agent.toml"
    token = tmp_path / "token"
    token.write_text("trimtab_node_x")
    settings.write_text(
        f'daemon_urls = ["http://192.0.2.1:9741"]\ntoken_file = "{token}"\nspool_directory = "{tmp_path / "spool"}"\n'
        'kernel_log = "none"\nmetrics_listen = ""\n'
    )
    done = verb("agent", "--settings", str(settings), home=tmp_path)
    assert done.returncode == 2, done.stderr
    assert "daemon_urls: http://192.0.2.1:9741 would carry this node's token in the clear. Use https://" in done.stderr


def test_client_certificates_without_tls_are_a_contradiction():
    from starlette.applications import Starlette

    with pytest.raises(SettingsError, match="ingest asks for client certificates without TLS"):
        Listener(Starlette(), name="ingest", listen="127.0.0.1:0", client_ca_file="/x/ca.pem")


def test_an_operators_certificate_files_take_the_place_of_the_own_ca(tmp_path: Path):
    hall = Hall(tmp_path / "site")
    files = hall.server()
    made = Daemon(tmp_path)
    both = as_toml(files)
    made.write_settings(f'[people]\nlisten = "127.0.0.1:{made.people_port}"\n{both}own_certificate = true\n')
    done = verb("daemon", "--settings", str(made.settings_file), home=tmp_path)
    assert done.returncode == 2
    assert "people.own_certificate and people.certificate_file are two answers to one question" in done.stderr
    made.write_settings(f'[people]\nlisten = "127.0.0.1:{made.people_port}"\n{both}')
    made.url = made.url.replace("http:", "https:")
    made._session = session(timeout_seconds=20, ca_file=hall.ca_file)
    try:
        made.up()
        assert not (made.state_directory / "ca").exists()
    finally:
        made.close()
        made.hang_up()
