"""After an outage of all: what is live finds room, a backlog waits its turn, and the agent knows which is which."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import a_delivery, a_report
from tests.fakes.clock import FakeClock

from trimtab.model.reading import Delivery
from trimtab.ship.inbox import Inbox
from trimtab.ship.peer import Answer, Verdict
from trimtab.ship.sender import Sender
from trimtab.ship.spool import Spool
from trimtab.ship.turnstile import RETURNS_PER_SECOND, SECONDS_MAX, Turnstile


def some(count: int) -> list[Delivery]:
    return [a_delivery(a_report(gpus=0, sequence=n + 1)) for n in range(count)]


def test_a_backlog_leaves_room_for_what_is_live() -> None:
    inbox = Inbox(100, backlog_reports_max=20)
    assert inbox.put(some(20), is_backlog=True) is not None
    assert inbox.put(some(1), is_backlog=True) is None
    assert inbox.put(some(80)) is not None
    inbox.acknowledge(inbox.drain())
    assert inbox.put(some(20), is_backlog=True) is not None


def test_a_batch_larger_than_all_room_for_backlog_goes_alone() -> None:
    inbox = Inbox(100, backlog_reports_max=20)
    assert inbox.put(some(50), is_backlog=True) is not None
    assert inbox.put(some(1), is_backlog=True) is None


def test_what_is_on_its_way_in_counts() -> None:
    inbox = Inbox(100, backlog_reports_max=20)
    assert not inbox.has_room(15, is_backlog=True, coming=10)
    assert inbox.has_room(10, is_backlog=True, coming=10)
    assert inbox.has_room(90, is_backlog=False, coming=10)


def test_a_backlog_that_is_withdrawn_makes_room_again() -> None:
    inbox = Inbox(100, backlog_reports_max=20)
    ticket = inbox.put(some(20), is_backlog=True)
    assert ticket is not None
    assert inbox.withdraw(ticket)
    assert inbox.put(some(20), is_backlog=True) is not None


def test_ten_thousand_that_are_put_off_come_back_one_after_the_other() -> None:
    clock = FakeClock()
    turnstile = Turnstile(clock, jitter=random.Random(1))
    waits = [turnstile.retry_after_seconds() for _ in range(10_000)]
    assert min(waits) >= 2
    assert max(waits) <= SECONDS_MAX + 3
    busiest = max(waits.count(second) for second in range(70))
    assert busiest < 5 * RETURNS_PER_SECOND
    clock.advance(120.0)
    assert turnstile.retry_after_seconds() <= 5  # whoever comes later alone need not wait for those


@pytest.fixture
def spool(tmp_path: Path) -> Iterator[Spool]:
    made = Spool(tmp_path / "spool", 64 * 1024 * 1024)
    yield made
    made.close()


class TurnsBacklogsAway:
    """A daemon that has room for what is live alone."""

    url = "http://daemon"

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.heard: list[int] = []
        self.due_in_seconds = 0.0
        self.backlog_due_at = 0.0

    @property
    def backlog_due_in_seconds(self) -> float:
        return max(0.0, self.backlog_due_at - self.clock.monotonic_seconds())

    def post(self, body: bytes, *, backlog_reports: int = 0) -> Answer:
        self.heard.append(backlog_reports)
        if not backlog_reports:
            return Answer(verdict=Verdict.TAKEN, status=200, acknowledged=frozenset(range(1000)))
        self.backlog_due_at = self.clock.monotonic_seconds() + 30.0
        return Answer(verdict=Verdict.LATER, status=429, sentence="later", retry_after_seconds=30.0)

    def close(self) -> None:
        """Nothing is open."""


def test_a_backlog_that_is_put_off_holds_up_nothing_live_and_is_no_trouble(spool: Spool) -> None:
    clock = FakeClock()
    for _ in range(5):
        spool.append(a_report(gpus=0, sequence=0, spool_id="", at=clock.now()))
    sender = Sender(spool=spool, urls=["http://127.0.0.1:1"], token="t", clock=clock)
    sender.close()
    daemon = TurnsBacklogsAway(clock)
    sender._peers = [daemon]  # type: ignore[list-item]
    clock.advance(10.0)
    said = sender.tick()
    assert "the backlog waits its turn for 30.0 s" in said
    assert (sender.trouble, sender.counts.put_off_total, sender.counts.failures_total) == ("", 1, 0)
    for _ in range(3):
        clock.advance(5.0)
        spool.append(a_report(gpus=0, sequence=0, spool_id="", at=clock.now()))
        sender.tick()
    assert daemon.heard == [0, 4, 0, 0, 0]
    assert sender.counts.sent_live_total == 4
