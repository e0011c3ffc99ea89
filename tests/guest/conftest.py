"""The one machine that most of these tests share, with both packages installed and an agent that reports."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.machine import Machine
from tests.guest.root import Root, guest_root, why_impossible
from tests.packages.built import Debs, debs


@pytest.fixture(scope="session")
def root() -> Root:
    """What guests boot from."""
    if reason := why_impossible():
        pytest.skip(reason)
    return guest_root()


@pytest.fixture(scope="session")
def packages() -> Debs:
    """Both packages of this source, or those of a folder that TRIMTAB_DEBS names."""
    given = os.environ.get("TRIMTAB_DEBS")
    if not given:
        return debs()
    [agent], [daemon] = Path(given).glob("trimtab-agent_*.deb"), Path(given).glob("trimtab-daemon_*.deb")
    return Debs(agent=agent, daemon=daemon)


@pytest.fixture(scope="session")
def machine(root: Root, packages: Debs) -> Iterator[Machine]:
    """Installed, set up and reporting; each test leaves it so."""
    made = Machine(root)
    try:
        made.said_at_install = made.install([packages.agent, packages.daemon])
        made.set_up()
        made.shows_data()
        yield made
    finally:
        made.close()
