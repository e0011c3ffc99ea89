"""One live fleet for all tests of dashboards."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.dashboards.live import Fleet, live_fleet


@pytest.fixture(scope="module")  # no longer: it would take its share of both cores from all tests that follow
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """The demo, an agent and Prometheus over them, started once."""
    with live_fleet(tmp_path_factory.mktemp("fleet")) as live:
        yield live
