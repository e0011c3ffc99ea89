"""Ranges of settled sequences, against a plain set."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trimtab.ship.settled import RANGES_MAX, Settled

SPANS = st.lists(st.tuples(st.integers(1, 60), st.integers(0, 12)), max_size=30)


@given(spans=SPANS)
def test_it_is_a_set_of_sequences(spans: list[tuple[int, int]]) -> None:
    settled, model = Settled(), set()
    for first, length in spans:
        settled.add(first, first + length)
        model |= set(range(first, first + length + 1))
    assert [n for n in range(1, 90) if n in settled] == sorted(model)
    assert settled.count(10, 40) == len(model & set(range(10, 41)))
    assert settled.highest == max(model, default=0)
    assert Settled(settled.position, settled.ranges).ranges == settled.ranges
    assert all(first > settled.position + 1 for first, _ in settled.ranges)


def test_too_many_ranges_forget_the_lowest_which_is_then_sent_again() -> None:
    settled = Settled()
    for n in range(RANGES_MAX + 5):
        settled.add(2 * n + 2, 2 * n + 2)
    assert len(settled.ranges) == RANGES_MAX
    assert 2 not in settled
    assert 2 * (RANGES_MAX + 4) + 2 in settled
