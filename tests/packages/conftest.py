"""The built packages, and systems to install them in."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.guest.root import guest_root, why_impossible
from tests.packages.built import Debs
from tests.packages.built import debs as built
from tests.packages.chroot import Chroot


@pytest.fixture(scope="session")
def debs() -> Debs:
    return built()


@pytest.fixture
def make_chroot() -> Iterator[Callable[[], Chroot]]:
    reason = why_impossible()
    if reason is not None:
        pytest.skip(reason)
    made: list[Chroot] = []

    def make() -> Chroot:
        made.append(Chroot(guest_root()))
        return made[-1]

    yield make
    for one in made:
        one.close()


@pytest.fixture
def chroot(make_chroot: Callable[[], Chroot]) -> Chroot:
    return make_chroot()
