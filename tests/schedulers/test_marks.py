"""What is read out of our annotation, whoever wrote it."""

from __future__ import annotations

import pytest

from trimtab.schedulers.marks import UNREADABLE, read_holds


@pytest.mark.parametrize(
    "text",
    [
        "x",
        "{}",
        '[{"what": ["cordon"]}]',
        '[{"mark": "m", "before": 7}]',
        '[{"mark": "m", "at": "2026-01-01T00:00:00"}]',
        '[{"mark": "m", "until": "2026-01-01T00:00:00"}]',
    ],
)
def test_an_annotation_that_is_not_as_we_write_it_is_nobodys(text: str) -> None:
    assert [one.mark for one in read_holds({"trimtab/hold": text}, "trimtab")] == [UNREADABLE]


def test_moments_with_a_zone_can_be_compared_with_now() -> None:
    (hold,) = read_holds({"trimtab/hold": '[{"mark": "m", "at": "2026-01-01T00:00:00Z"}]'}, "trimtab")
    assert hold.at is not None
    assert hold.at.tzinfo is not None
