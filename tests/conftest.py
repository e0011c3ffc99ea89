"""Fixtures that more than one stage uses: the two databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import postgres

from trimtab.store.database import Database, open_database


@pytest.fixture(scope="session")
def postgresql() -> Iterator[postgres.PostgresServer]:
    """One PostgreSQL for the run, started when first asked for."""
    if reason := postgres.why_missing():
        pytest.skip(reason)
    server = postgres.PostgresServer()
    yield server
    server.stop()


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """URL of an empty database of each engine in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/trimtab.db"
    server: postgres.PostgresServer = request.getfixturevalue("postgresql")
    return server.new_database()


@pytest.fixture
def database(database_url: str, tmp_path: Path) -> Iterator[Database]:
    """An open database of each engine in turn."""
    opened = open_database(database_url, state_directory=tmp_path)
    yield opened
    opened.close()
