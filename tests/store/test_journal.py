from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
import sqlalchemy as sa
from tests.builders import CLUSTER, a_delivery, a_report, an_xid
from tests.fakes.clock import START

from trimtab.errors import StoreError
from trimtab.model.reading import Delivery, Event
from trimtab.store.database import Database
from trimtab.store.history import History
from trimtab.store.journal import PAGE_ROWS, Journal, dictionaries
from trimtab.store.packing import Packer, digest_of
from trimtab.store.tables import journal, journal_dictionaries


def deliveries(*sequences: int, **changes: object) -> list[Delivery]:
    return [
        a_delivery(a_report(sequence=number, at=START + timedelta(seconds=10 * number), **changes))
        for number in sequences
    ]


def sequences_in(database: Database, since: datetime = START) -> list[int]:
    return [delivery.report.sequence for delivery in Journal(database).tail(since)]


def test_what_was_appended_comes_back_whole(database: Database) -> None:
    sent = [
        a_delivery(a_report(events=(an_xid(79, details={"unit": "GPC 3"}),)), received_at=START + timedelta(seconds=2)),
        a_delivery(a_report("gpu-01", at=START - timedelta(hours=1)), received_at=START, is_replay=True),
        a_delivery(a_report("gpu-02", at=START + timedelta(days=20000)), received_at=START, is_clock_believed=False),
    ]
    appended = Journal(database).append(sent)
    assert appended.new == tuple(sent)
    assert appended.sentence == "3 reports stored"
    back = list(Journal(database).tail(START - timedelta(days=1)))
    assert [replace(delivery, body_bytes=0) for delivery in back] == sent
    assert all(delivery.body_bytes > 0 for delivery in back)


def test_nothing_appended_is_nothing_stored(database: Database) -> None:
    assert Journal(database).append([]).sentence == "0 reports stored"


def test_a_sequence_seen_before_is_not_stored_again(database: Database) -> None:
    book = Journal(database)
    book.append(deliveries(1, 2, 3))
    appended = book.append(deliveries(2, 3, 4, 4))
    assert (appended.stored, appended.duplicates) == (1, 3)
    assert [delivery.report.sequence for delivery in appended.new] == [4]
    assert appended.sentence == "1 reports stored, 3 seen before"
    assert sequences_in(database) == [1, 2, 3, 4]


def test_the_first_of_equals_within_a_batch_is_kept(database: Database) -> None:
    first, second = a_delivery(a_report(driver="first")), a_delivery(a_report(driver="second"))
    assert Journal(database).append([first, second]).new == (first,)


def test_a_new_spool_a_new_node_and_a_new_cluster_count_for_themselves(database: Database) -> None:
    same = a_report()
    others = [
        same,
        replace(same, spool_id="spool-b"),
        replace(same, node="gpu-01"),
        replace(same, cluster="hall-b"),
    ]
    assert Journal(database).append([a_delivery(report) for report in others]).stored == 4


def test_two_clusters_with_the_same_node_do_not_mix(database: Database) -> None:
    xid = an_xid(79)
    for cluster in (CLUSTER, "hall-b"):
        Journal(database).append([a_delivery(a_report(cluster=cluster, events=(replace(xid, text=cluster),)))])
    for cluster in (CLUSTER, "hall-b"):
        assert [found.event.text for found in History(database, cluster=cluster).events(START)] == [cluster]


def test_names_in_any_script_are_kept(database: Database) -> None:
    report = a_report("узел-07-节点-🜁", cluster="Rechenzentrum Süd", events=(an_xid(text="温度"),))
    Journal(database).append([a_delivery(report)])
    assert [found.report for found in Journal(database).tail(START)] == [report]
    (event,) = History(database, cluster="Rechenzentrum Süd").events(START, node="узел-07-节点-🜁")
    assert event.event.text == "温度"


def test_a_nul_in_a_kernel_line_holds_nothing_up(database: Database) -> None:
    line = "NVRM: Xid\0 79 \ud7ff"
    report = a_report(boot_id="a\0b", events=(an_xid(text=line),))
    assert Journal(database).append([a_delivery(report)]).stored == 1
    assert [found.report for found in Journal(database).tail(START)] == [report]
    (event,) = History(database, cluster=CLUSTER).events(START)
    assert event.event.text == line  # whole in the body; the column has a replacement character


@pytest.mark.parametrize(
    "changes",
    [
        {"node": "x" * 5000},
        {"spool_id": "s" * 254},
        {"node": "a\0b"},
        {"sequence": 2**63},
        {"sequence": -1},
        {"sampled_at": datetime(2026, 11, 2)},  # noqa: DTZ001 - a naive moment is what is tested
        {"events": (Event(kind=an_xid().kind, source=an_xid().source, at=datetime(2026, 1, 1)),)},  # noqa: DTZ001
    ],
    ids=["node", "spool", "nul", "huge", "negative", "naive", "naive-event"],
)
def test_a_report_that_no_database_can_keep_does_not_hold_up_the_others(
    database: Database, changes: dict[str, object]
) -> None:
    bad = a_delivery(replace(a_report(sequence=7), **changes), received_at=START)
    appended = Journal(database).append([*deliveries(1), bad, *deliveries(2)])
    assert (appended.stored, appended.duplicates, len(appended.refused)) == (2, 0, 1)
    assert "1 not storable: " in appended.sentence
    assert sequences_in(database) == [1, 2]


def test_an_event_number_out_of_range_is_kept_in_the_body_alone(database: Database) -> None:
    Journal(database).append([a_delivery(a_report(events=(an_xid(2**64 - 1),)))])
    (event,) = History(database, cluster=CLUSTER).events(START)
    assert event.event.code == 2**64 - 1


def test_the_tail_begins_where_it_is_asked_to_and_spans_pages(database: Database) -> None:
    count = PAGE_ROWS + 20
    Journal(database).append(deliveries(*range(1, count + 1), gpus=1))
    assert sequences_in(database) == list(range(1, count + 1))
    assert sequences_in(database, START + timedelta(seconds=10 * count - 10)) == [count - 1, count]
    assert sequences_in(database, START + timedelta(days=1)) == []


def flipped(body: bytes) -> bytes:
    return body[:-9] + bytes([body[-9] ^ 0xFF]) + body[-8:]


def truncated(body: bytes) -> bytes:
    return body[: len(body) // 2]


def emptied(body: bytes) -> bytes:
    return b""


@pytest.mark.parametrize("damage", [flipped, truncated, emptied], ids=lambda damage: damage.__name__)
def test_a_damaged_row_costs_itself_alone(database: Database, damage: Callable[[bytes], bytes]) -> None:
    Journal(database).append(deliveries(1, 2, 3))
    with database.write() as connection:
        body = connection.execute(sa.select(journal.c.body).where(journal.c.sequence == 2)).scalar_one()
        connection.execute(sa.update(journal).where(journal.c.sequence == 2).values(body=damage(body)))
    assert sequences_in(database) == [1, 3]


def test_rows_packed_by_another_version_are_read(database: Database) -> None:
    other = b"another version's dictionary, " * 20
    report = a_report(sequence=1)
    book = Journal(database)
    book.append(deliveries(2))
    with database.write() as connection:
        connection.execute(sa.insert(journal_dictionaries), {"sha256": digest_of(other), "body": other})
        added = connection.execute(sa.select(sa.func.max(journal_dictionaries.c.id))).scalar_one()
        changed = {"sequence": 1, "dictionary_id": added, "body": Packer(other).pack(report)}
        connection.execute(sa.update(journal).values(**changed))
    assert [found.report for found in book.tail(START)] == [report]


def test_opening_again_uses_the_same_dictionary(database: Database) -> None:
    Journal(database)
    Journal(database)
    assert len(dictionaries(database)) == 1


def test_a_row_is_small(database: Database) -> None:
    Journal(database).append(deliveries(*range(1, 11)))
    (row, *_) = Journal(database).tail(START)
    assert row.body_bytes < 1000, "eight GPUs of nine values each; without the dictionary it is twice as much"


def test_pruning_forgets_what_was_received_before(database: Database) -> None:
    book = Journal(database)
    book.append(deliveries(1, 2, 3, events=(an_xid(),)))
    assert book.prune(START + timedelta(seconds=30)) == 2
    assert book.prune(START + timedelta(seconds=30)) == 0
    assert sequences_in(database) == [3]
    assert len(History(database, cluster=CLUSTER).events(START)) == 3  # facts stay
    assert book.append(deliveries(1, events=(an_xid(),))).stored == 1  # sent once more, its events are not doubled
    assert len(History(database, cluster=CLUSTER).events(START)) == 3


def test_events_of_a_node_are_told_oldest_first(database: Database) -> None:
    later, sooner = an_xid(63, at=START + timedelta(seconds=9)), an_xid(79, at=START + timedelta(seconds=1))
    Journal(database).append([a_delivery(a_report(events=(later, sooner)))])
    Journal(database).append([a_delivery(a_report("gpu-01", events=(an_xid(13),)), is_replay=True)])
    history = History(database, cluster=CLUSTER)
    assert [found.event.code for found in history.events(START)] == [13, 79, 63]
    assert [found.event for found in history.events(START, node="gpu-00")] == [sooner, later]
    assert [found.event for found in history.events(START, node="gpu-00", limit=1)] == [later]
    assert [found.is_history_only for found in history.events(START, node="gpu-01")] == [True]
    assert history.events(START + timedelta(seconds=10)) == ()


def test_an_event_of_a_node_with_a_wrong_clock_stands_at_its_receipt(database: Database) -> None:
    wrong = START - timedelta(days=20000)
    report = a_report(at=wrong, events=(an_xid(79, at=wrong),))
    Journal(database).append([a_delivery(report, received_at=START, is_clock_believed=False)])
    assert len(History(database, cluster=CLUSTER).events(START)) == 1


def test_a_closed_server_is_a_store_error_and_nothing_is_half_stored(database: Database) -> None:
    book = Journal(database)
    with database.write() as connection:
        connection.execute(sa.text("DROP TABLE events"))
    with pytest.raises(StoreError):
        book.append([a_delivery(a_report(events=(an_xid(),)))])
    assert sequences_in(database) == []


def at_day(day: float, sequence: int) -> Delivery:
    return a_delivery(a_report(sequence=sequence, at=START), received_at=START + timedelta(days=day))


def test_a_gap_of_more_than_a_day_makes_no_report_older(database: Database) -> None:
    book = Journal(database)
    assert book.lived_until() is None
    book.append([at_day(day, number) for number, day in enumerate([0.0, 0.5, 1.4, 2.3], start=1)])
    assert book.lived_until() == START + timedelta(days=2.3)  # nights in which nobody reports are time like any other
    book.append([at_day(day, number) for number, day in enumerate([400.0, 400.5], start=5)])
    # The clock was set a year ahead, or nothing ran for a year: half a day more was lived through.
    assert book.lived_until() == START + timedelta(days=2.8)
    book.append([at_day(day, number) for number, day in enumerate([800.25, 801.0], start=7)])
    assert book.lived_until() == START + timedelta(days=3.55)
    book.prune(START + timedelta(days=300))  # what came before the gap is gone: the gap is no matter any more
    assert book.lived_until() == START + timedelta(days=401.25)


def test_what_came_under_a_clock_that_was_behind_is_no_gap(database: Database) -> None:
    book = Journal(database)
    book.append([at_day(day, number) for number, day in enumerate([0.0, 0.5, 1.0], start=1)])
    book.append([at_day(-500.0, 4)])  # later, and dated long before: not lived through
    book.append([at_day(1.5, 5)])
    assert book.lived_until() == START + timedelta(days=1.5)
    book.append([at_day(-20 * 365.0, 6)])  # a clock that was never set
    assert book.lived_until() == START + timedelta(days=1.5)
