"""Old reports and wrong clocks are told apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import a_report, an_xid
from tests.fakes.clock import START

from trimtab.model.reading import Delivery
from trimtab.ship.believe import deliver, read_moment

YEAR_1970 = datetime(1970, 1, 1, 0, 2, tzinfo=UTC)
YEAR_2100 = datetime(2100, 1, 1, tzinfo=UTC)


def minutes(count: float) -> timedelta:
    return timedelta(minutes=count)


def received(sampled_at: datetime, sent_at: datetime | None) -> Delivery:
    return deliver(a_report(gpus=0, at=sampled_at), received_at=START, sent_at=sent_at)


# sampled, sent (both by the node's clock), believed?, replay?
CASES = {
    "live": (START, START, True, False),
    "backlog of 9 minutes": (START - minutes(9), START, True, False),
    "backlog of an hour is old, not wrong": (START - minutes(60), START, True, True),
    "clock 6 minutes behind is wrong, not old": (START - minutes(6), START - minutes(6), False, False),
    "clock an hour behind is wrong, not old": (START - minutes(60), START - minutes(60), False, False),
    "clock an hour ahead": (START + minutes(60), START + minutes(60), False, False),
    "clock 4 minutes ahead is borne": (START + minutes(4), START + minutes(4), True, False),
    "backlog from a clock that is wrong": (START, START + minutes(60), False, True),
    "never set, live": (YEAR_1970, YEAR_1970, False, False),
    "never set, sent after it was set": (YEAR_1970, START, False, True),
    "year 2100, live": (YEAR_2100, YEAR_2100, False, False),
    "year 2100, sent after it was set": (YEAR_2100, START, False, True),
    "live, sender does not say": (START, None, True, False),
    "an hour old, sender does not say": (START - minutes(60), None, True, True),
    "an hour ahead, sender does not say": (START + minutes(60), None, False, False),
    "1970, sender does not say": (YEAR_1970, None, False, False),
    "2100, sender does not say": (YEAR_2100, None, False, False),
}


@pytest.mark.parametrize("case", CASES)
def test_old_and_wrong_are_told_apart(case: str) -> None:
    sampled_at, sent_at, is_believed, is_replay = CASES[case]
    delivery = received(sampled_at, sent_at)
    assert (delivery.is_clock_believed, delivery.is_replay) == (is_believed, is_replay)
    assert delivery.at == (sampled_at if is_believed else START)


def test_skew_is_measured_at_sending_so_that_a_backlog_is_no_wrong_clock() -> None:
    assert received(START - minutes(60), START - timedelta(seconds=2)).clock_skew_seconds == 2.0
    assert received(START - minutes(7), START - minutes(7)).clock_skew_seconds == 420.0


def test_events_of_a_believed_clock_stay_as_they_are() -> None:
    report = a_report(gpus=0, events=(an_xid(at=START - minutes(3)),))
    assert deliver(report, received_at=START, sent_at=START).report is report


def test_events_of_a_wrong_clock_move_with_it_and_keep_their_stamp() -> None:
    ahead = minutes(60)
    report = a_report(gpus=0, at=START + ahead, events=(an_xid(at=START + ahead - minutes(1)),))
    (event,) = deliver(report, received_at=START, sent_at=START + ahead).report.events
    assert event.at == START - minutes(1)
    assert event.details["stamped_at"] == "2026-11-02T09:59:00Z"


@pytest.mark.parametrize("at", [YEAR_1970, YEAR_2100, datetime.max.replace(tzinfo=UTC), START + minutes(30)])
def test_an_event_alone_with_an_absurd_stamp_gets_its_reports_time(at: datetime) -> None:
    report = a_report(gpus=0, at=START - minutes(1), events=(an_xid(at=at),))
    (event,) = deliver(report, received_at=START, sent_at=START).report.events
    assert event.at == START - minutes(1)


MOMENTS = st.datetimes(timezones=st.just(UTC))


@given(sampled_at=MOMENTS, sent_at=st.none() | MOMENTS, event_at=MOMENTS)
def test_no_clock_breaks_it(sampled_at: datetime, sent_at: datetime | None, event_at: datetime) -> None:
    report = a_report(gpus=0, at=sampled_at, events=(an_xid(at=event_at),))
    delivery = deliver(report, received_at=START, sent_at=sent_at)
    assert delivery.at <= START + timedelta(days=1)
    assert delivery.report.events[0].at <= START + minutes(5)


def test_the_header_is_a_moment_with_a_zone_or_nothing() -> None:
    assert read_moment("2026-11-02T10:00:00.5+01:00") == START + timedelta(seconds=0.5)
    for text in ("", "yesterday", "2026-11-02T09:00:00", "1" * 5000, "0001-01-01T00:00:00+14:00"):
        assert read_moment(text) is None
