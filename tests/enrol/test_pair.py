"""Two daemons on one PostgreSQL know the same nodes: who joined at one comes in at the other, revoked at neither."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.enrol.nodes import NODE, Enrollee, enroll, row_of, token_of
from tests.pair.ground import PairDaemon, active_and_standby
from tests.postgres import PostgresServer
from tests.system.processes import eventually

pytestmark = pytest.mark.long


@pytest.fixture
def pair(tmp_path: Path, postgresql: PostgresServer) -> Iterator[list[PairDaemon]]:
    url, tokens = postgresql.new_database(), tmp_path / "node-tokens.toml"
    made = [PairDaemon(tmp_path / name, name, database_url=url, tokens=tokens) for name in ("left", "right")]
    for one in made:
        one.start()
    yield made
    for one in made:
        one.close()


def test_a_credential_works_at_both_daemons_and_its_revocation_too(pair: list[PairDaemon], tmp_path: Path) -> None:
    active, standby = eventually(lambda: active_and_standby(pair), seconds=120.0)
    agent = Enrollee(tmp_path, standby.ingest_url, active.ingest_url)  # the one that stands by is asked first
    try:
        agent.give(token_of(active))
        agent.start()
        eventually(lambda: row_of(active).get("state") == "enrolled", seconds=60.0, said=agent.tail)
        agent.reports_at(active)
        credential = agent.kept
        active.kill()
        eventually(standby.is_active, seconds=60.0, said=standby.tail)
        agent.reports_at(standby)
        assert agent.kept == credential  # nothing was asked for anew
        assert row_of(standby)["state"] == "enrolled"
        enroll(standby, "revoke", NODE, "--reason", "sold")
        eventually(lambda: "was revoked at" in agent.text(), seconds=60.0, said=agent.tail)
        active.start()
        standby.kill()
        eventually(active.is_active, seconds=120.0, said=active.tail)
        eventually(lambda: row_of(active)["state"] == "revoked", seconds=60.0, said=active.tail)
        waiting = agent.metric("trimtab_agent_spool_reports") or 0.0
        eventually(
            lambda: (agent.metric("trimtab_agent_spool_reports") or 0.0) > waiting, seconds=60.0, said=agent.tail
        )
    finally:
        agent.close()
