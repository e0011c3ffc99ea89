"""The daemon as a process on the real control plane: from the kernel's line to the pod on another node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import stories
from tests.cluster.audit import Audit, assert_allowed, kinds
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.test_rights import installed as _installed
from tests.cluster.whole import Whole

installed = _installed


def told(story: str) -> stories.Say:
    print()
    return lambda text: print(f"  story {story}: {text}")


@pytest.fixture
def whole(installed: Plane, space: Space, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Iterator[Whole]:
    """As the actor account; at the end of each story, that every write of it was one that the account is there for."""
    audit, made = Audit(installed), Whole(installed, space, tmp_path)
    yield made
    made.close()
    writes = audit.writes()
    with capsys.disabled():
        print(f"  writes: {kinds(writes)}")
    assert_allowed(writes)


def test_story_a(whole: Whole, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        stories.story_a(whole, told("a"))


@pytest.mark.long
def test_story_b(whole: Whole, capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        stories.story_b(whole, told("b"))


@pytest.mark.parametrize(
    "has_stream", [pytest.param(False, marks=pytest.mark.long, id="quiet"), pytest.param(True, id="stream")]
)
def test_story_c(whole: Whole, capsys: pytest.CaptureFixture[str], *, has_stream: bool) -> None:
    with capsys.disabled():
        stories.story_c(whole, told("c"), has_stream=has_stream)
