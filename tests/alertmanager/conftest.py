from __future__ import annotations

import pytest
from tests.alertmanager.server import BINARY, INSTALL, Alertmanager, an_on_call


@pytest.fixture
def oncall():
    with an_on_call() as end:
        yield end


@pytest.fixture
def am(tmp_path, oncall):
    """A running Alertmanager that tells `oncall`."""
    if not BINARY:
        pytest.skip(INSTALL)
    server = Alertmanager(tmp_path / "am", webhook=oncall.url)
    server.start()
    yield server
    server.stop()
