"""The journal: every report that was taken in, once, durable before its agent is told so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection, Row

from trimtab.clock import from_unix_ms, unix_ms
from trimtab.errors import StoreError
from trimtab.model.reading import Delivery, Event, Report
from trimtab.store.database import Database
from trimtab.store.packing import Packer, Unpacker, dictionary_body, digest_of
from trimtab.store.tables import events, journal, journal_dictionaries, meta
from trimtab.store.text import clean, to_json
from trimtab.timekeeping import EARLIEST

log = structlog.get_logger()

PAGE_ROWS = 500
PRUNE_ROWS = 5000
NAME_CHARACTERS_MAX = 253
"""A DNS name at most. PostgreSQL cannot index much longer keys, and one such row would hold up all others."""
_INTEGER_MAX = 2**63 - 1
_TRIED = "tried"
_SKEW_MAX = timedelta(minutes=5)
_GAP_MS = 24 * 3600 * 1000

Key = tuple[str, str, str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """What became of one batch. `new` are the deliveries that were not known before, in order of arrival."""

    stored: int
    duplicates: int
    new: tuple[Delivery, ...]
    refused: tuple[str, ...] = ()
    """A sentence for each delivery that no database could keep; they are acknowledged and dropped."""

    @property
    def sentence(self) -> str:
        """One line for the log."""
        parts = [f"{self.stored} reports stored"]
        if self.duplicates:
            parts.append(f"{self.duplicates} seen before")
        if self.refused:
            parts.append(f"{len(self.refused)} not storable: {self.refused[0]}")
        return ", ".join(parts)


class Journal:
    """Appends, streams and prunes the reports of one database."""

    def __init__(self, database: Database) -> None:
        """Use an open database; its dictionary is fetched or laid down now. Raises StoreError."""
        self._database = database
        self._is_failing = False
        self._dictionary_id, body = self._own_dictionary()
        self._packer = Packer(body)
        self._unpacker = Unpacker(Report, {self._dictionary_id: body})

    def append(self, deliveries: Sequence[Delivery]) -> Appended:
        """Keep a batch in one transaction: all of it is durable on return, none of it when StoreError is raised."""
        refused: list[str] = []
        kept: dict[Key, Delivery] = {}
        for delivery in deliveries:
            reason = _refusal(delivery)
            if reason is None:
                kept.setdefault(_key(delivery), delivery)  # the first of equals within the batch
            else:
                refused.append(reason)
        self._is_failing = True
        new = self._insert(kept) if kept else ()
        self._is_failing = False
        return Appended(
            stored=len(new),
            duplicates=len(deliveries) - len(refused) - len(new),
            new=new,
            refused=tuple(refused),
        )

    def idle(self) -> str:
        """What a beat says to which nothing came. After a failure it tries whether the database can be written again:
        agents that were turned away stay away for a while, and their silence is no sign that all is well.
        """
        if self._is_failing:
            with self._database.write() as connection:
                tried = self._database.insert(meta).values(key=_TRIED, value=_TRIED)
                connection.execute(tried.on_conflict_do_nothing())
                connection.execute(sa.delete(meta).where(meta.c.key == _TRIED))
            self._is_failing = False
        return "nothing came in"

    def tail(self, since: datetime) -> Iterator[Delivery]:
        """What was taken in and is of `since` or later, in order of arrival; reads in pages, holds no transaction."""
        last_id = self._id_before(since)
        while page := self._page(last_id):
            for row in page:
                delivery = self._delivery(row)
                if delivery is not None and delivery.at >= since:
                    yield delivery
            last_id = page[-1].id

    def follow(self, after_id: int | None, *, since: datetime) -> tuple[tuple[Delivery, ...], int | None]:
        """One page of what came after a row, and the row that it ends with; None = begin at `since`."""
        last_id = self._id_before(since) if after_id is None else after_id
        if last_id == _INTEGER_MAX:
            return (), None
        page = self._page(last_id)
        found = [self._delivery(row) for row in page]
        return tuple(one for one in found if one is not None and one.at >= since), page[-1].id if page else last_id

    def lived_until(self) -> datetime | None:
        """When the newest report that is kept came in, less every gap of over a day before it; None = nothing is kept.

        In such a gap no daemon ran, or the clock was set ahead: neither makes a report any older. What came under a
        clock that was behind tells nothing. Walks the index by days, not the rows.
        """
        received = journal.c.received_at_ms
        sane = received >= unix_ms(EARLIEST)
        with self._database.read() as connection:

            def one(value: Any, *where: Any) -> int | None:  # noqa: ANN401 - parts of a statement
                found: int | None = connection.execute(sa.select(value).where(*where)).scalar_one_or_none()
                return found

            at_ms = newest_ms = one(sa.func.max(received), sane)
            if at_ms is None or newest_ms is None:
                return None
            skipped_ms = 0
            while True:
                begins_ms = one(sa.func.min(received), received >= at_ms - _GAP_MS, received <= at_ms, sane) or at_ms
                before_ms = one(sa.func.max(received), received < begins_ms, sane)
                if before_ms is None:
                    return from_unix_ms(newest_ms - skipped_ms)
                if begins_ms - before_ms > _GAP_MS:
                    last_before = one(sa.func.max(journal.c.id), received == before_ms)
                    first_after = one(sa.func.min(journal.c.id), received == begins_ms)
                    if (last_before or 0) > (first_after or 0):  # stored later, under an earlier time
                        return from_unix_ms(newest_ms - skipped_ms)
                    skipped_ms += begins_ms - before_ms
                at_ms = before_ms

    def prune(self, before: datetime) -> int:
        """Forget reports received before `before`, a few thousand a transaction; how many there were."""
        oldest = sa.select(journal.c.id).where(journal.c.received_at_ms < unix_ms(before)).limit(PRUNE_ROWS)
        pruned = 0
        while True:
            with self._database.write() as connection:
                gone = connection.execute(sa.delete(journal).where(journal.c.id.in_(oldest))).rowcount
            pruned += gone
            if gone < PRUNE_ROWS:
                return pruned

    def _insert(self, kept: dict[Key, Delivery]) -> tuple[Delivery, ...]:
        rows = [self._row(delivery) for delivery in kept.values()]
        statement = self._database.insert(journal).on_conflict_do_nothing()
        returned = statement.returning(journal.c.cluster, journal.c.node, journal.c.spool_id, journal.c.sequence)
        with self._database.write() as connection:
            stored = {tuple(row) for row in connection.execute(returned, rows)}
            new = tuple(delivery for key, delivery in kept.items() if key in stored)
            self._insert_events(connection, new)
        return new

    def _insert_events(self, connection: Connection, new: Iterable[Delivery]) -> None:
        rows = [
            _event_row(delivery, event, ordinal)
            for delivery in new
            for ordinal, event in enumerate(delivery.report.events)
        ]
        if rows:
            # A report that was pruned and is sent once more brings its events again: they are still there.
            connection.execute(self._database.insert(events).on_conflict_do_nothing(), rows)

    def _row(self, delivery: Delivery) -> dict[str, Any]:
        report = delivery.report
        return {
            "cluster": report.cluster,
            "node": report.node,
            "spool_id": report.spool_id,
            "sequence": report.sequence,
            "boot_id": clean(report.boot_id),
            "at_ms": unix_ms(delivery.at),
            "sampled_at_ms": unix_ms(report.sampled_at),
            "received_at_ms": unix_ms(delivery.received_at),
            "is_replay": delivery.is_replay,
            "is_clock_believed": delivery.is_clock_believed,
            "dictionary_id": self._dictionary_id,
            "body": self._packer.pack(report),
        }

    def _own_dictionary(self) -> tuple[int, bytes]:
        body = dictionary_body()
        row = {"sha256": digest_of(body), "body": body}
        found = sa.select(journal_dictionaries.c.id).where(journal_dictionaries.c.sha256 == row["sha256"])
        with self._database.write() as connection:
            connection.execute(self._database.insert(journal_dictionaries).on_conflict_do_nothing(), row)
            return connection.execute(found).scalar_one(), body

    def _id_before(self, since: datetime) -> int:
        # A node's clock may run ahead of ours: what it calls `since` may have come a little earlier.
        earliest = unix_ms(since - _SKEW_MAX)
        statement = sa.select(sa.func.min(journal.c.id)).where(journal.c.received_at_ms >= earliest)
        with self._database.read() as connection:
            first = connection.execute(statement).scalar_one_or_none()
        return _INTEGER_MAX if first is None else first - 1

    def _page(self, last_id: int) -> Sequence[Row[Any]]:
        statement = sa.select(journal).where(journal.c.id > last_id).order_by(journal.c.id).limit(PAGE_ROWS)
        with self._database.read() as connection:
            return connection.execute(statement).all()

    def _delivery(self, row: Row[Any]) -> Delivery | None:
        if not self._unpacker.knows(row.dictionary_id):
            self._unpacker = Unpacker(Report, dictionaries(self._database))
        try:
            report = self._unpacker.unpack(row.body, row.dictionary_id)
        except StoreError as error:
            # One damaged row costs itself: the daemon starts all the same.
            log.warning("journal row left out", row_id=row.id, node=row.node, sequence=row.sequence, said=str(error))
            return None
        return Delivery(
            report=report,
            received_at=from_unix_ms(row.received_at_ms),
            body_bytes=len(row.body),
            is_replay=row.is_replay,
            is_clock_believed=row.is_clock_believed,
        )


def dictionaries(database: Database) -> dict[int, bytes]:
    """All dictionaries that rows of this database were packed with, by id."""
    with database.read() as connection:
        rows = connection.execute(sa.select(journal_dictionaries.c.id, journal_dictionaries.c.body))
        return {row.id: row.body for row in rows}


def _key(delivery: Delivery) -> Key:
    report = delivery.report
    return report.cluster, report.node, report.spool_id, report.sequence


def _refusal(delivery: Delivery) -> str | None:
    """Why no database could keep it: one such row in a batch would hold up all the others for ever."""
    report = delivery.report
    for name in (report.cluster, report.node, report.spool_id):
        if len(name) > NAME_CHARACTERS_MAX or clean(name) != name:
            return f"a name of {report.node[:60]!r} is longer than {NAME_CHARACTERS_MAX} characters or holds a NUL"
    if not 0 <= report.sequence <= _INTEGER_MAX:
        return f"the sequence of {report.node} is out of range"
    if report.sampled_at.tzinfo is None or any(event.at.tzinfo is None for event in report.events):
        return f"a moment of {report.node} has no time zone"
    return None


def _event_row(delivery: Delivery, event: Event, ordinal: int) -> dict[str, Any]:
    report = delivery.report
    code = event.code if event.code is not None and abs(event.code) <= _INTEGER_MAX else None
    return {
        "cluster": report.cluster,
        "node": report.node,
        "spool_id": report.spool_id,
        "sequence": report.sequence,
        "ordinal": ordinal,
        "at_ms": unix_ms(event.at if delivery.is_clock_believed else delivery.received_at),
        "received_at_ms": unix_ms(delivery.received_at),
        "is_history_only": delivery.is_replay,
        "kind": event.kind.value,
        "source": event.source.value,
        "code": code,
        "gpu": clean(event.gpu),
        "pci": clean(event.pci),
        "text": clean(event.text),
        "body": to_json(event),
    }
