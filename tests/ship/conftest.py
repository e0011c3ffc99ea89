"""What the tests of shipping share: a spool of their own, and a clock that they move."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fakes.clock import FakeClock

from trimtab.ship.spool import Spool


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool", 64 * 1024 * 1024)
    yield made
    made.close()


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()
