"""Enrolment and TLS together: a join token is all that a node is given, and required client certificates come of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.enrol.nodes import NODE, Enrollee, enroll, row_of, token_of
from tests.system.processes import eventually, verb
from tests.tls.secured import Secured

from trimtab import pki


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Secured]:
    made = Secured(tmp_path)
    try:
        yield made.up()
    finally:
        made.close()
        made.hang_up()


def test_a_node_with_a_join_token_alone_reports_where_client_certificates_are_required(daemon: Secured, tmp_path: Path):
    trusted = ("--ca-file", daemon.ca_file)
    agent = Enrollee(tmp_path, daemon.ingest_url)
    agent.give(token_of(daemon, NODE, *trusted))
    try:
        agent.start()
        agent.reports_at(daemon)  # no ca_file, no certificate: the token's fingerprint vouched for the daemon
        eventually(lambda: row_of(daemon).get("state") == "enrolled", said=daemon.tail)
        first = agent.kept.token
        assert verb("ca", "renew", "--settings", str(daemon.settings_file), home=tmp_path).returncode == 0
        enroll(daemon, "rotate", NODE, *trusted)
        eventually(lambda: agent.kept is not None and agent.kept.token != first, said=agent.tail)
        agent.reports_at(daemon)  # by the renewed certificate
        remaining = agent.metric("trimtab_agent_certificate_remaining_seconds", certificate="client")
        assert remaining is not None
        assert remaining > 80 * 86400
        enroll(daemon, "revoke", NODE, "--reason", "sold", *trusted)
        eventually(lambda: "was revoked at" in agent.text(), said=agent.tail)
        assert agent.metric("trimtab_agent_set_aside_total") == 0
    finally:
        agent.close()
    daemon.assert_had_no_trouble()


def test_a_daemon_of_another_ca_is_not_joined(daemon: Secured, tmp_path: Path):
    token = token_of(daemon, NODE, "--ca-file", daemon.ca_file)
    for name in ("ca.pem", "ca.key", "server.pem", "server.key"):
        (daemon.ca_directory / name).unlink()
    assert verb("ca", "create", "--settings", str(daemon.settings_file), home=tmp_path).returncode == 0
    daemon.kill()
    # Whoever stands in the daemon's place has some CA, too, and not the one whose fingerprint is in the token.
    daemon.start()
    stranger = pki.read_certificates(daemon.ca_directory / "ca.pem")[0]
    assert daemon.authority is not None
    assert pki.fingerprint_of(stranger) != daemon.authority.fingerprint
    agent = Enrollee(tmp_path, daemon.ingest_url)
    agent.give(token)
    try:
        agent.start()
        eventually(lambda: "has another CA than the join token says" in agent.text(), seconds=60, said=agent.tail)
        assert agent.kept is None
        assert agent.join_file.exists()  # kept for when the right daemon answers
    finally:
        agent.close()
