"""Pytest fixtures of the real control plane: `plane`, booted once a run, and `space`, a test's own corner of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster import build
from tests.cluster.plane import Plane
from tests.cluster.space import Space


@pytest.fixture(scope="session")
def plane() -> Iterator[Plane]:
    """The control plane of this run, or a skip that says what to do; TRIMTAB_CLUSTER=require makes it a failure."""
    binaries = None
    if (reason := build.why_not()) is None and (binaries := build.find()) is None:
        reason = f"the real control plane is not built: {build.BUILD}"
    if binaries is None:
        refuse = pytest.fail if build.mode() == "require" else pytest.skip
        refuse(str(reason))
    booted = Plane.boot(binaries)
    yield booted
    booted.stop()


@pytest.fixture
def space(plane: Plane) -> Iterator[Space]:
    """A fresh namespace with queues `tas` and `flat` and no nodes yet: `space.add_racks()` gives it some."""
    made = Space(plane.client)
    yield made
    plane.mend()
    made.remove()


@pytest.fixture(scope="module")
def module_space(plane: Plane) -> Iterator[Space]:
    """The same for all tests of a module; call `reset` between them."""
    made = Space(plane.client, prefix="m")
    yield made
    plane.mend()
    made.remove()
