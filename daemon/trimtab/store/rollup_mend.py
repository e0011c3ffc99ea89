"""Counts minutes of nodes anew from the journal: after a restart, and when a report came late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import sqlalchemy as sa
import structlog
from numpy.typing import NDArray

from trimtab.clock import unix_ms
from trimtab.errors import StoreError
from trimtab.model.reading import Report
from trimtab.model.rollup import MINUTE
from trimtab.store.database import Database
from trimtab.store.journal import dictionaries
from trimtab.store.packing import Unpacker
from trimtab.store.rollup_buffer import Heap, chosen, picked, samples_of
from trimtab.store.rollup_minute import Rows, Samples, minute_rows
from trimtab.store.rollup_slots import Slots
from trimtab.store.rollup_spans import Span, SpanBook
from trimtab.store.rollup_write import write_rows
from trimtab.store.tables import journal

log = structlog.get_logger()

RUN_MS = 10 * MINUTE.ms
"""Minutes of a node further apart than this are read apart."""

SLOTS_MAX = 4000
"""GPUs whose spans are asked for at once."""

Minutes = Mapping[str, Sequence[int]]
"""Node -> begins of minutes, ascending."""


class Mender:
    """Puts rows right from what the journal holds; the same result whoever counted before."""

    def __init__(self, database: Database, slots: Slots, spans: SpanBook, *, cluster: str, hold_ms: int) -> None:
        """Use an open database."""
        self._database = database
        self._slots = slots
        self._spans = spans
        self._cluster = cluster
        self._hold_ms = hold_ms
        self._unpacker = Unpacker(Report, {})

    def mend(self, minutes: Minutes) -> dict[int, set[int]]:
        """Count these minutes of these nodes anew; minute -> slots whose rows were replaced. Raises StoreError."""
        heap = Heap()
        for node, wanted in minutes.items():
            for run in _runs(wanted):
                self._read(heap, node, run[0] - self._hold_ms, run[-1] + MINUTE.ms)
        self._slots.write()
        everything = samples_of([heap])
        by_minute: dict[int, list[str]] = {}
        for node, wanted in minutes.items():
            for minute in wanted:
                by_minute.setdefault(minute, []).append(node)
        slots = {node: list(self._slots.of_node(node).values()) for node in minutes}
        spans = self._spans_of(slots, by_minute)
        return {
            minute: self._minute(minute, [slot for node in nodes for slot in slots[node]], everything, spans)
            for minute, nodes in sorted(by_minute.items())
        }

    def tail(self, since: datetime) -> Iterator[tuple[str, int, int]]:
        """Node, moment and receipt (ms) of everything received since then; nothing is decoded. Raises StoreError."""
        columns = (journal.c.node, journal.c.at_ms, journal.c.received_at_ms)
        wanted = (journal.c.cluster == self._cluster, journal.c.received_at_ms >= unix_ms(since))
        with self._database.read() as connection:
            for row in connection.execute(sa.select(*columns).where(*wanted)):
                yield row.node, row.at_ms, row.received_at_ms

    def _spans_of(self, slots: Mapping[str, Sequence[int]], minutes: Mapping[int, object]) -> Mapping[int, list[Span]]:
        """Slot -> its spans within all these minutes, read once."""
        wanted = sorted(slot for some in slots.values() for slot in some)
        found: dict[int, list[Span]] = {}
        for first in range(0, len(wanted), SLOTS_MAX):
            some = wanted[first : first + SLOTS_MAX]
            for span in self._spans.read(some, begin_ms=min(minutes), end_ms=max(minutes) + MINUTE.ms):
                found.setdefault(span.slot, []).append(span)
        return found

    def _minute(
        self, minute_ms: int, slots: Sequence[int], everything: Samples, spans_of: Mapping[int, list[Span]]
    ) -> set[int]:
        wanted = np.isin(everything.gpu, np.fromiter(slots, np.int64, len(slots)))
        wanted &= (everything.at_ms > minute_ms - self._hold_ms) & (everything.at_ms < minute_ms + MINUTE.ms)
        samples = chosen(everything, wanted)
        end_ms = minute_ms + MINUTE.ms
        spans = [span for slot in slots for span in spans_of.get(slot, ())]
        pieces = self._spans.cut(spans, samples, begin_ms=minute_ms, end_ms=end_ms)
        rows = minute_rows(samples, pieces, begin_ms=minute_ms, end_ms=end_ms, hold_ms=self._hold_ms)
        self._write(minute_ms, rows, np.array(sorted(slots), np.int64))
        return set(slots)

    def _write(self, minute_ms: int, rows: Rows, replaced: NDArray[np.int64]) -> None:
        write_rows(self._database, MINUTE, minute_ms, rows, ids=self._slots.ids(), replaced=replaced)

    def _read(self, heap: Heap, node: str, after_ms: int, before_ms: int) -> None:
        wanted = (
            journal.c.cluster == self._cluster,
            journal.c.node == node,
            journal.c.at_ms > after_ms,
            journal.c.at_ms < before_ms,
        )
        columns = sa.select(journal.c.id, journal.c.at_ms, journal.c.dictionary_id, journal.c.body).where(*wanted)
        with self._database.read() as connection:
            rows = connection.execute(columns.order_by(journal.c.at_ms, journal.c.id)).all()
        for row in rows:
            report = self._report(row)
            if report is None:
                continue
            for slot, kind, values in picked(self._slots, node, report.gpus):
                heap.put(slot, row.at_ms, kind, values)

    def _report(self, row: Any) -> Report | None:  # noqa: ANN401 - a row of the journal
        if not self._unpacker.knows(row.dictionary_id):
            self._unpacker = Unpacker(Report, dictionaries(self._database))
        try:
            return self._unpacker.unpack(row.body, row.dictionary_id)
        except StoreError as error:
            log.warning("journal row left out of the roll-ups", row_id=row.id, said=str(error))
            return None


def _runs(minutes: Sequence[int]) -> Iterator[list[int]]:
    run: list[int] = []
    for minute in minutes:
        if run and minute - run[-1] > RUN_MS:
            yield run
            run = []
        run.append(minute)
    if run:
        yield run
