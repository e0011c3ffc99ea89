"""The inbox: bounded, and every delivery is answered once."""

from __future__ import annotations

from tests.builders import a_delivery, a_report

from trimtab.errors import StoreError
from trimtab.model.reading import Delivery
from trimtab.ship.inbox import Inbox


def some(count: int) -> list[Delivery]:
    return [a_delivery(a_report(gpus=0, sequence=n + 1)) for n in range(count)]


def test_what_is_put_in_comes_out_in_order_and_is_answered_after_the_commit() -> None:
    inbox, heard = Inbox(10), list[StoreError | None]()
    first, second = some(2), some(3)
    inbox.put(first, settle=heard.append)
    inbox.put(second)
    drained = inbox.drain()
    assert drained == first + second
    assert (heard, inbox.waiting, inbox.drain()) == ([], 5, [])
    inbox.acknowledge(drained)
    assert (heard, inbox.waiting, inbox.counts.committed_total) == ([None], 0, 5)


def test_a_ticket_is_done_at_its_last_commit_or_its_first_failure_once() -> None:
    inbox, heard = Inbox(10), list[StoreError | None]()
    inbox.put(some(3), settle=heard.append)
    one, two, three = inbox.drain()
    inbox.acknowledge([one])
    assert heard == []
    error = StoreError("the disk is full")
    inbox.fail([two], error)
    inbox.fail([three], error)
    inbox.acknowledge([one, two, three])
    assert heard == [error]
    assert (inbox.waiting, inbox.counts.failed_total) == (0, 2)


def test_a_full_inbox_turns_away_and_counts_until_there_is_room() -> None:
    inbox = Inbox(3)
    assert inbox.put(some(2)) is not None
    assert inbox.put(some(2)) is None
    assert inbox.put(some(1)) is not None
    drained = inbox.drain()
    assert inbox.put(some(1)) is None  # under way is not committed
    inbox.acknowledge(drained)
    assert inbox.put(some(3)) is not None
    assert inbox.counts.turned_away_total == 3


def test_what_nobody_waits_for_is_taken_back_unless_it_is_under_way() -> None:
    inbox = Inbox(3)
    ticket = inbox.put(some(2))
    assert ticket is not None
    assert inbox.withdraw(ticket)
    assert not inbox.withdraw(ticket)
    assert (inbox.drain(), inbox.waiting) == ([], 0)
    late = inbox.put(some(1))
    assert late is not None
    drained = inbox.drain()
    assert not inbox.withdraw(late)
    inbox.acknowledge(drained)
    assert inbox.waiting == 0
