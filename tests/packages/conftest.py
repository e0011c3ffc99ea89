"""The built packages, and systems to install them in."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass

import pytest
from tests.guest.root import guest_root, why_impossible
from tests.packages.built import Debs
from tests.packages.built import debs as built
from tests.packages.chroot import Chroot


@dataclass(frozen=True, slots=True)
class Installed:
    """A system with both packages, what was there before, and what dpkg said."""

    chroot: Chroot
    _: KW_ONLY
    before: set[str]
    people: str
    said: str


@pytest.fixture(scope="session")
def debs() -> Debs:
    return built()


@pytest.fixture(scope="session")
def has_guests() -> None:
    reason = why_impossible()
    if reason is not None:
        pytest.skip(reason)


@pytest.fixture
def chroot(has_guests: None) -> Iterator[Chroot]:
    made = Chroot(guest_root())
    yield made
    made.close()


@pytest.fixture(scope="session")
def both_installed(has_guests: None, debs: Debs) -> Iterator[Installed]:
    """Installed once; nobody writes to it, tests lay their own writes over it."""
    made = Chroot(guest_root())
    before, people = made.files(), made.out("getent", "passwd")
    said = made.dpkg("--install", *made.put(debs.agent, debs.daemon))
    yield Installed(made, before=before, people=people, said=said)
    made.close()


@pytest.fixture
def installed(both_installed: Installed) -> Iterator[Chroot]:
    """A system with both packages."""
    made = Chroot(guest_root(), over=both_installed.chroot)
    yield made
    made.close()
