"""A span is cut into stretches of tiers: every minute once, nothing that was not asked for."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from trimtab.model.rollup import HOUR, MINUTE, QUARTER, TIERS
from trimtab.store.ledger_hours import parts

DAY_MINUTES = 3 * 24 * 60
MINUTES = st.integers(0, DAY_MINUTES)


def bounds_of(first: dict[str, int], end_minute: int) -> dict[str, tuple[int, int] | None]:
    """What each tier holds: from its own first step to its last whole one before the end."""
    found: dict[str, tuple[int, int] | None] = {}
    for tier in TIERS:
        begin = -(-first[tier.name] * MINUTE.ms // tier.ms) * tier.ms
        end = tier.floor_ms(end_minute * MINUTE.ms)
        found[tier.name] = (begin, end) if begin < end else None
    return found


@given(a=MINUTES, b=MINUTES, end=MINUTES, first=st.tuples(MINUTES, MINUTES, MINUTES))
def test_stretches_are_whole_steps_in_order_within_what_is_asked_and_kept(
    a: int, b: int, end: int, first: tuple[int, int, int]
) -> None:
    since, until = min(a, b) * MINUTE.ms, max(a, b) * MINUTE.ms
    bounds = bounds_of(dict(zip(("1m", "15m", "1h"), first, strict=True)), end)
    at = since
    for one in parts(since, until, bounds):
        held = bounds[one.tier.name]
        assert held is not None
        assert at <= one.since_ms < one.until_ms <= until
        assert one.since_ms % one.tier.ms == one.until_ms % one.tier.ms == 0
        assert held[0] <= one.since_ms
        assert one.until_ms <= held[1]
        at = one.until_ms


@given(a=MINUTES, b=MINUTES, end=MINUTES)
def test_where_all_tiers_reach_back_every_minute_is_counted_once(a: int, b: int, end: int) -> None:
    since, until = min(a, b), max(a, b)
    bounds = bounds_of({"1m": 0, "15m": 0, "1h": 0}, end)
    counted = sum(one.until_ms - one.since_ms for one in parts(since * MINUTE.ms, until * MINUTE.ms, bounds))
    assert counted == max(min(until, end) - since, 0) * MINUTE.ms


@given(a=MINUTES, hours=st.integers(1, 30))
def test_whole_hours_are_read_from_hours_alone(a: int, hours: int) -> None:
    since = HOUR.floor_ms(a * MINUTE.ms)
    bounds = bounds_of({"1m": 0, "15m": 0, "1h": 0}, 2 * DAY_MINUTES)
    found = list(parts(since, since + hours * HOUR.ms, bounds))
    assert [(one.tier, one.until_ms - one.since_ms) for one in found] == [(HOUR, hours * HOUR.ms)]


def test_old_spans_begin_with_the_next_whole_step_that_is_kept() -> None:
    bounds = bounds_of({"1m": 600, "15m": 300, "1h": 0}, 1000)
    found = list(parts(70 * MINUTE.ms, 700 * MINUTE.ms, bounds))
    assert [(one.tier, one.since_ms // MINUTE.ms, one.until_ms // MINUTE.ms) for one in found] == [
        (HOUR, 120, 660),
        (QUARTER, 660, 690),
        (MINUTE, 690, 700),
    ]
