"""One daemon for all tests that need no bound on guessing of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.security.hall import Hall


@pytest.fixture(scope="session")
def shared_hall(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hall]:
    """Whatever was done to it: at the end it has had no trouble."""
    made = Hall(tmp_path_factory.mktemp("shared-hall"), failures=1_000_000)
    try:
        yield made.up()
        made.daemon.assert_had_no_trouble()
    finally:
        made.close()
