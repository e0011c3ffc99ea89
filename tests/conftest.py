"""Fixtures that more than one stage uses: the two databases, and the real control plane."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import structlog
from tests import postgres
from tests.cluster.fixtures import module_space, plane, space

from trimtab.store.database import Database, open_database

HERE = Path(__file__).parent
WITH_SERVERS = ("alertmanager", "alerts", "dashboards", "demo", "guest", "pair", "system")
"""Folders whose tests wait for servers most of the time: `make test` runs them beside those that compute."""
WITH_PROCESSES = ("enrol", "limits", "packages", "security", "tls")
"""Folders whose tests start agents, daemons and builds of their own: they run with those of the real control plane."""

__all__ = ["module_space", "plane", "space"]  # pytest finds fixtures by name here


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Whatever uses the real control plane is marked `cluster`: `-m "not cluster"` is the quick suite.

    What is marked `long` runs with TRIMTAB_LONG=1 only (`make test-long`).
    """
    for item in items:
        if item.path.relative_to(HERE).parts[0] in WITH_SERVERS:
            item.add_marker("servers")
        if item.path.relative_to(HERE).parts[0] in WITH_PROCESSES:
            item.add_marker("processes")
        if "plane" in getattr(item, "fixturenames", ()):
            item.add_marker("cluster")
    if not os.environ.get("TRIMTAB_LONG"):
        too_long = [item for item in items if item.get_closest_marker("long")]
        items[:] = [item for item in items if item not in too_long]
        config.hook.pytest_deselected(items=too_long)


@pytest.fixture(autouse=True)
def _logging() -> Iterator[None]:
    """A verb that a test runs in this process sets logging up for itself alone."""
    before = structlog.get_config()
    yield
    structlog.configure(**before)


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
