"""One database an engine for all of these tests: each has a cluster of its own in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from tests.enrol.desk import Office
from tests.postgres import PostgresServer

from trimtab.store.database import Database, open_database


@pytest.fixture(scope="package", params=["sqlite", "postgresql"])
def one_database(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """An open database of each engine in turn, shared."""
    state: Path = tmp_path_factory.mktemp("enrol")
    url = f"sqlite:///{state}/trimtab.db"
    if request.param == "postgresql":
        server: PostgresServer = request.getfixturevalue("postgresql")
        url = server.new_database()
    opened = open_database(url, state_directory=state)
    yield opened
    opened.close()


@pytest.fixture
def office(one_database: Database) -> Office:
    """A cluster's enrolment, empty."""
    return Office(one_database, cluster=f"hall-{uuid4().hex[:8]}")
