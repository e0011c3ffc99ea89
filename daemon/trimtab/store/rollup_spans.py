"""Who has which GPU since when: taken from each board, written down when it changes, cut to the minutes of roll-ups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from trimtab.model.rollup import Standing, Tenure
from trimtab.store.database import Database
from trimtab.store.rollup_claims import NOBODY, Claim
from trimtab.store.rollup_minute import Pieces, Samples
from trimtab.store.rollup_slots import Slots
from trimtab.store.tables_rollup import rollup_spans, rollup_tenures, rollup_usage
from trimtab.store.text import clean

TIDIED_MAX = 2000
"""Tenures asked for, or forgotten, in one statement."""
REMEMBERED_MAX = 50_000
"""Tenures remembered: jobs come and go for years."""
Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Span:
    """One GPU's tenure and standing since a moment; `until_ms` None = it goes on."""

    slot: int
    since_ms: int
    until_ms: int | None
    tenure: int
    standing: int


class TenureBook:
    """Tenures by number in the database; those that were asked for lately are remembered."""

    def __init__(self, database: Database, *, cluster: str) -> None:
        """Use an open database."""
        self._database = database
        self._cluster = cluster
        self._ids: dict[Tenure, int] = {}

    def ids(self, tenures: Iterable[Tenure]) -> Mapping[Tenure, int]:
        """The number of each; new ones get theirs now. Raises StoreError."""
        wanted = set(tenures)
        missing = {tenure for tenure in wanted if tenure not in self._ids}
        if missing:
            if len(self._ids) > REMEMBERED_MAX:
                self._ids, missing = {}, wanted
            # A text that the database keeps in another form has the number of that form.
            kept = {tenure: Tenure(**_texts(tenure)) for tenure in missing}
            found = self._find(set(kept.values()))
            self._ids |= {tenure: found[form] for tenure, form in kept.items()}
        return self._ids

    def _find(self, tenures: set[Tenure]) -> Mapping[Tenure, int]:
        rows = [{"cluster": self._cluster, **_texts(tenure)} for tenure in sorted(tenures)]
        workloads = sorted({tenure.workload for tenure in tenures})
        found: dict[Tenure, int] = {}
        with self._database.write() as connection:
            connection.execute(self._database.insert(rollup_tenures).on_conflict_do_nothing(), rows)
            for first in range(0, len(workloads), TIDIED_MAX):
                some = rollup_tenures.c.workload.in_(workloads[first : first + TIDIED_MAX])
                statement = sa.select(rollup_tenures).where(rollup_tenures.c.cluster == self._cluster, some)
                for row in connection.execute(statement):
                    tenure = Tenure(workload=row.workload, queue=row.queue, owner=row.owner, cause=row.cause)
                    found[tenure] = row.id
        return found

    def tidy(self) -> int:
        """Forget tenures that no row and no span tells of any more; how many. For the thread that gives numbers."""
        every = sa.select(rollup_tenures.c.id).where(rollup_tenures.c.cluster == self._cluster)
        used = (
            sa.select(table.c.tenure_id).where(table.c.cluster == self._cluster).distinct()
            for table in (rollup_usage, rollup_spans)
        )
        with self._database.read() as connection:
            gone = set(connection.execute(every).scalars())
            for statement in used:
                gone.difference_update(connection.execute(statement).scalars())
        gone.discard(self._ids.get(NOBODY, 0))
        numbers = sorted(gone)
        for first in range(0, len(numbers), TIDIED_MAX):
            some = rollup_tenures.c.id.in_(numbers[first : first + TIDIED_MAX])
            with self._database.write() as connection:
                connection.execute(sa.delete(rollup_tenures).where(some))
        self._ids = {tenure: number for tenure, number in self._ids.items() if number not in gone}
        return len(numbers)


class SpanBook:
    """Spans that stand, and those that ended lately."""

    def __init__(self, database: Database, slots: Slots, tenures: TenureBook, *, cluster: str) -> None:
        """Take up those that stand in the database. Raises StoreError."""
        self._database = database
        self._cluster = cluster
        self._slots = slots
        self._tenures = tenures
        self.nobody = tenures.ids([NOBODY])[NOBODY]
        self._open: dict[int, Span] = {}
        self._ended: list[Span] = []
        self._first_ms: dict[int, int] = {}
        """Slot -> since when any span tells of it."""
        with database.read() as connection:
            for span in self._read(connection, rollup_spans.c.until_ms.is_(None)):
                self._open[span.slot] = span
            first = sa.select(rollup_spans.c.gpu_id, sa.func.min(rollup_spans.c.since_ms))
            wanted = first.where(rollup_spans.c.cluster == cluster).group_by(rollup_spans.c.gpu_id)
            for number, since_ms in connection.execute(wanted):
                if (slot := slots.slot_of_id(number)) is not None:
                    self._first_ms[slot] = since_ms

    def changes(
        self, claims: Mapping[tuple[str, str], Claim], *, at_ms: int, ended_ms: int
    ) -> tuple[list[Span], list[Span]]:
        """Spans that end and spans that begin when a board says this; nothing is changed yet."""
        ids = self._tenures.ids({claim.tenure for claim in claims.values()})
        over: list[Span] = []
        began: list[Span] = []
        seen: set[int] = set()
        for (node, gpu), claim in claims.items():
            slot = self._slots.slot(node, gpu, index=claim.index)
            if slot is None or slot in seen:
                continue
            seen.add(slot)
            was = self._open.get(slot)
            standing = claim.standing if claim.standing is not None else _before(was)
            tenure = ids[claim.tenure]
            if was is not None and was.tenure == tenure and was.standing == standing:
                continue
            if was is not None:
                over.append(_ended(was, ended_ms))
                if ended_ms < at_ms:  # nobody looked meanwhile
                    hole = Span(slot, max(ended_ms, was.since_ms), at_ms, self.nobody, int(Standing.UNBOOKED))
                    began.append(hole)
            began.append(Span(slot, at_ms, None, tenure, int(standing)))
        over += [_ended(span, ended_ms) for slot, span in self._open.items() if slot not in seen]
        return over, began

    def write(self, connection: Connection, over: Sequence[Span], began: Sequence[Span]) -> None:
        """Write the changes down within a transaction. Every GPU has its number by now."""
        ids = self._slots.ids()
        table = rollup_spans.c
        if over:
            which = (table.gpu_id == sa.bindparam("of_gpu"), table.since_ms == sa.bindparam("of_since"))
            rows = [{"of_gpu": int(ids[one.slot]), "of_since": one.since_ms, "ended": one.until_ms} for one in over]
            connection.execute(sa.update(rollup_spans).where(*which).values(until_ms=sa.bindparam("ended")), rows)
        if began:
            insert = self._database.insert(rollup_spans)
            replaced = {name: insert.excluded[name] for name in ("until_ms", "tenure_id", "standing")}
            key = [table.gpu_id, table.since_ms]
            begun = [self._row(int(ids[one.slot]), one) for one in began]
            connection.execute(insert.on_conflict_do_update(index_elements=key, set_=replaced), begun)

    def recall(self, since_ms: int) -> None:
        """Take up spans that ended after a moment: minutes since then are still to be rolled up. Raises StoreError."""
        with self._database.read() as connection:
            self._ended = list(self._read(connection, rollup_spans.c.until_ms > since_ms))

    def commit(self, over: Iterable[Span], began: Iterable[Span]) -> None:
        """The changes are written: go on from them."""
        for span in over:
            self._open.pop(span.slot, None)
            self._ended.append(span)
        for span in began:
            if span.until_ms is None:
                self._open[span.slot] = span
            else:
                self._ended.append(span)
            self._first_ms.setdefault(span.slot, span.since_ms)

    def forget(self, before_ms: int) -> None:
        """Let go of spans that ended before the minutes that are still to be rolled up."""
        self._ended = [span for span in self._ended if (span.until_ms or 0) > before_ms]

    def pieces(self, samples: Samples, *, begin_ms: int, end_ms: int) -> Pieces:
        """The stretches of one minute, of all GPUs."""
        spans = [*self._ended, *self._open.values()]
        return self.cut(spans, samples, begin_ms=begin_ms, end_ms=end_ms)

    def cut(self, spans: Sequence[Span], samples: Samples, *, begin_ms: int, end_ms: int) -> Pieces:
        """Stretches of a minute from spans, and from samples of which no span tells."""
        raw = np.array(
            [(one.slot, one.since_ms, end_ms if one.until_ms is None else one.until_ms, one.tenure, one.standing)
             for one in spans],
            np.int64,
        ).reshape(-1, 5)  # fmt: skip
        raw[:, 1] = np.maximum(raw[:, 1], begin_ms)
        raw[:, 2] = np.minimum(raw[:, 2], end_ms)
        raw = raw[raw[:, 1] < raw[:, 2]]
        raw = raw[np.lexsort((raw[:, 1], raw[:, 0]))]
        raw = np.concatenate((raw, self._untold(raw, samples, begin_ms, end_ms)))
        return Pieces(gpu=raw[:, 0], from_ms=raw[:, 1], to_ms=raw[:, 2], tenure=raw[:, 3], standing=raw[:, 4])

    def read(self, slots: Iterable[int], *, begin_ms: int, end_ms: int) -> list[Span]:
        """Spans of some GPUs that touch a stretch, from the database. Raises StoreError."""
        ids = self._slots.ids()
        numbers = [int(ids[slot]) for slot in slots]
        with self._database.read() as connection:
            return list(
                self._read(
                    connection,
                    rollup_spans.c.gpu_id.in_(numbers),
                    rollup_spans.c.since_ms < end_ms,
                    sa.or_(rollup_spans.c.until_ms.is_(None), rollup_spans.c.until_ms > begin_ms),
                )
            )

    def _untold(self, raw: Ints, samples: Samples, begin_ms: int, end_ms: int) -> Ints:
        """GPUs that were heard before the first span tells of them, or of which none ever did."""
        before_end = samples.at_ms < end_ms
        slots = np.unique(samples.gpu[before_end])
        if not len(slots):
            return np.zeros((0, 5), np.int64)
        heard = np.minimum.reduceat(*_grouped(samples.at_ms[before_end], samples.gpu[before_end]))
        heard = np.maximum(heard, begin_ms)
        told, at = np.unique(raw[:, 0], return_index=True)
        place = np.searchsorted(told, slots)
        is_told = place < len(told)
        is_told[is_told] = told[place[is_told]] == slots[is_told]
        until = np.full(len(slots), end_ms, np.int64)
        until[is_told] = raw[at[place[is_told]], 1]
        is_open = np.array([self._is_untold(int(slot), end_ms) for slot in slots[~is_told]], bool)
        wanted = is_told.copy()
        wanted[~is_told] = is_open
        wanted &= heard < until
        return self._unbooked(slots[wanted], heard[wanted], until[wanted])

    def _is_untold(self, slot: int, before_ms: int) -> bool:
        """Whether no board told of the GPU before then; one whose MIG instances are told of is told of."""
        known = self._slots.known(slot)
        beside = tuple(self._slots.of_node(known.node).items())  # another thread may add to it
        instances = (one for uuid, one in beside if uuid.startswith(f"{known.gpu}/"))
        return all(self._first_ms.get(one, before_ms) >= before_ms for one in (slot, *instances))

    def _unbooked(self, slot: Ints, from_ms: Ints, to_ms: Ints) -> Ints:
        nobody, standing = np.full(len(slot), self.nobody), np.full(len(slot), int(Standing.UNBOOKED))
        return np.stack((slot, from_ms, to_ms, nobody, standing), axis=1).astype(np.int64)

    def _read(self, connection: Connection, *wanted: sa.ColumnElement[bool]) -> Iterable[Span]:
        statement = sa.select(rollup_spans).where(rollup_spans.c.cluster == self._cluster, *wanted)
        for row in connection.execute(statement.order_by(rollup_spans.c.gpu_id, rollup_spans.c.since_ms)):
            slot = self._slots.slot_of_id(row.gpu_id)
            if slot is not None:
                yield Span(slot, row.since_ms, row.until_ms, row.tenure_id, row.standing)

    def _row(self, number: int, span: Span) -> dict[str, Any]:
        return {
            "gpu_id": number,
            "since_ms": span.since_ms,
            "until_ms": span.until_ms,
            "tenure_id": span.tenure,
            "standing": span.standing,
            "cluster": self._cluster,
        }


def _texts(tenure: Tenure) -> dict[str, str]:
    return {
        "workload": clean(tenure.workload)[:500],
        "queue": clean(tenure.queue)[:500],
        "owner": clean(tenure.owner)[:500],
        "cause": clean(tenure.cause),
    }


def _before(was: Span | None) -> Standing:
    """What stood goes on; a workload that let go of a GPU of which nothing is known leaves nobody's."""
    if was is None or was.standing == Standing.HELD:
        return Standing.UNBOOKED
    return Standing(was.standing)


def _ended(span: Span, at_ms: int) -> Span:
    return Span(span.slot, span.since_ms, max(at_ms, span.since_ms), span.tenure, span.standing)


def _grouped(values: Ints, of: Ints) -> tuple[Ints, Ints]:
    """Values in order of their group, and where each group begins."""
    order = np.argsort(of, kind="stable")
    ordered = of[order]
    return values[order], np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
