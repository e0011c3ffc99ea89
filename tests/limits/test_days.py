"""Memory over days, on a clock that is moved: nodes, GPUs, jobs and findings come and go, and nothing stays of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.limits.days import Days, objects, rss_mib


@pytest.fixture
def days(tmp_path: Path) -> Iterator[Days]:
    made = Days(tmp_path)
    yield made
    made.close()


def grown(before: dict[str, int], after: dict[str, int]) -> dict[str, tuple[int, int]]:
    """Kinds of which there are a quarter more than there were, and more than a few."""
    return {
        name: (before.get(name, 0), count) for name, count in after.items() if count > before.get(name, 0) * 1.25 + 200
    }


def test_hours_of_churn_leave_no_objects_behind(days: Days) -> None:
    days.live(2.5)
    before = objects()
    days.live(1.5)
    assert not grown(before, objects())


@pytest.mark.long
def test_three_days_of_churn_leave_memory_and_objects_as_they_were(days: Days) -> None:
    days.live(12.0)
    before, before_mib = objects(), rss_mib()
    seen = []
    for _ in range(12):
        days.live(6.0)
        seen.append((days.steps, rss_mib(), objects()["all"], days.database.size_bytes()))
    after = objects()
    assert not grown(before, after), seen
    assert rss_mib() < before_mib * 1.15 + 8, seen
    sizes = [size for *_, size in seen]
    assert max(sizes[6:]) < 1.3 * max(sizes[:6]), "the database grew though nothing is kept for longer than a day"
