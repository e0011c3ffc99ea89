"""GPUs by number: a slot in memory at once, a number in the database with the next beat.

Clusters whose nodes come and go have new GPUs for ever: a GPU's row goes with the last step that is kept of it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from trimtab.clock import Clock, unix_ms
from trimtab.errors import StoreError
from trimtab.model.reading import GpuReading
from trimtab.store.database import Database
from trimtab.store.tables_rollup import GPU_TABLES, rollup_gpus, rollup_spans

GPUS_PER_NODE_MAX = 512
"""Numbers for the GPUs of one node: a node that invents UUIDs must not fill the database."""
MORE_PER_DAY_MAX = 64
"""New numbers beyond that, a node and day: a name that is used again and again has other GPUs each time."""
HEARD_MS = 6 * 3_600_000
"""How old `heard_ms` may get of a GPU that is told of."""
_DAY_MS = 86_400_000
_BATCH = 4000
"""Rows a transaction."""
_MIB = 1048576


@dataclass(slots=True)
class Known:
    """One GPU and what is known of it."""

    node: str
    gpu: str
    index: int | None = None
    model: str | None = None
    memory_total_mebibytes: int | None = None
    id: int = 0
    """Its number in the database; 0 = not there yet."""
    heard_ms: int = 0
    """When somebody last told of it, to some hours, as the database has it; never set back."""
    is_told: bool = False
    """Whether somebody told of it since `note_heard`."""


class Slots:
    """Node and UUID -> slot (0, 1, 2 …) and number in the database. Any thread."""

    def __init__(self, database: Database, *, cluster: str, clock: Clock) -> None:
        """Know what the database knows. Raises StoreError."""
        self._database = database
        self._cluster = cluster
        self._clock = clock
        self._lock = threading.Lock()
        self._by_node: dict[str, dict[str, int]] = {}
        self._known: list[Known] = []
        self._slot_of_id: dict[int, int] = {}
        self._changed: list[int] = []
        """Slots of which something was learnt; one thread appends, another takes from the front."""
        self._ids: NDArray[np.int64] = np.zeros(0, np.int64)
        self._more: dict[str, int] = {}
        """Node -> new GPUs of today beyond GPUS_PER_NODE_MAX."""
        self.is_stale = False
        """Whether rows went of GPUs that are remembered here: all is to be opened anew before anything is written."""
        with database.read() as connection:
            self._take(connection, after_id=0)

    def __len__(self) -> int:
        """How many there are."""
        return len(self._known)

    def of_node(self, node: str) -> dict[str, int]:
        """UUID -> slot of a node's GPUs; not to be changed by the caller."""
        return self._by_node.get(node, {})

    def slot(self, node: str, gpu: str, reading: GpuReading | None = None, index: int | None = None) -> int | None:
        """The slot of a GPU, new if need be; None for one too many of its node."""
        with self._lock:
            return self._slot(node, gpu, reading, index)

    def known(self, slot: int) -> Known:
        """What is known of a slot's GPU."""
        return self._known[slot]

    def slot_of_id(self, number: int) -> int | None:
        """The slot of a number in the database."""
        return self._slot_of_id.get(number)

    def ids(self) -> NDArray[np.int64]:
        """Slot -> number in the database, of all that have one."""
        if len(self._ids) != len(self._known) or (len(self._ids) and not self._ids.all()):
            self._ids = np.fromiter((one.id for one in self._known), np.int64, len(self._known))
        return self._ids

    def learn(self, slot: int, reading: GpuReading) -> None:
        """Take in what a reading says of the GPU itself, where it is news."""
        known = self._known[slot]
        known.is_told = True
        if known.memory_total_mebibytes is None and "memory_total_bytes" in reading.values:
            known.memory_total_mebibytes = round(reading.values["memory_total_bytes"] / _MIB)
            self._changed.append(slot)
        if known.index is None and reading.info.index is not None:
            known.index = reading.info.index
            self._changed.append(slot)
        if known.model is None and reading.info.model is not None:
            known.model = reading.info.model
            self._changed.append(slot)

    def write(self) -> None:
        """Give every slot its number, and write down what was learnt. Raises StoreError."""
        new = [one for one in tuple(self._known) if not one.id]
        learnt = self._changed[: len(self._changed)]
        del self._changed[: len(learnt)]
        changed = [self._known[slot] for slot in sorted(set(learnt)) if self._known[slot].id]
        if not new and not changed:
            return
        highest = max((one.id for one in self._known), default=0)
        try:
            with self._database.write() as connection:
                if new:
                    statement = self._database.insert(rollup_gpus).on_conflict_do_nothing()
                    heard = {"heard_ms": unix_ms(self._clock.now())}
                    connection.execute(statement, [{**self._row(one), **heard} for one in new])
                self._update(connection, changed)
        except StoreError:
            self._changed.extend(learnt)
            raise
        with self._database.read() as connection:
            self._take(connection, after_id=highest)
            if any(not one.id for one in new):  # another daemon had given some of them their numbers
                self._take(connection, after_id=0)

    def note_heard(self) -> None:
        """Write down who was told of since the last time. For the thread that gives numbers. Raises StoreError."""
        now_ms = unix_ms(self._clock.now())
        told = [one for one in tuple(self._known) if one.id and one.is_told and now_ms - one.heard_ms >= HEARD_MS]
        statement = sa.update(rollup_gpus).where(rollup_gpus.c.id == sa.bindparam("number")).values(heard_ms=now_ms)
        for first in range(0, len(told), _BATCH):
            some = told[first : first + _BATCH]
            with self._database.write() as connection:
                connection.execute(statement, [{"number": one.id} for one in some])
            for one in some:
                one.heard_ms = now_ms
        for one in tuple(self._known):
            one.is_told = False

    def forget(self) -> int:
        """Delete the rows of GPUs of which nothing is kept any more; how many. Once a day, after `note_heard`.

        For the thread that gives numbers. Raises StoreError.
        """
        with self._database.read() as connection:
            before_ms = self._kept_since(connection)
            old = (rollup_gpus.c.cluster == self._cluster, rollup_gpus.c.heard_ms < before_ms)
            # Who is on boards has a span. The highest number is never free for another GPU.
            has_span = sa.exists().where(rollup_spans.c.gpu_id == rollup_gpus.c.id)
            highest = sa.select(sa.func.max(rollup_gpus.c.id)).scalar_subquery()
            wanted = sa.select(rollup_gpus.c.id).where(*old, ~has_span, rollup_gpus.c.id < highest)
            gone = [number for number in connection.execute(wanted).scalars() if not self._is_told(number)]
        self.is_stale = self.is_stale or bool(gone)  # whatever comes of the first batch
        for first in range(0, len(gone), _BATCH):
            with self._database.write() as connection:
                some = rollup_gpus.c.id.in_(gone[first : first + _BATCH])
                connection.execute(sa.delete(rollup_gpus).where(some, *old))
        self._more = {}
        return len(gone)

    def inherit(self, former: Slots) -> None:
        """Go on counting the new numbers of the day."""
        self._more = former._more

    def _kept_since(self, connection: Connection) -> int:
        """Of a GPU that was last told of before then no step is kept; 0 where there is no step at all."""
        oldest = [sa.select(sa.func.min(table.c.at_ms)).scalar_subquery() for table in GPU_TABLES.values()]
        kept = [found for found in connection.execute(sa.select(*oldest)).one() if found is not None]
        return min(kept) - _DAY_MS if kept else 0

    def _is_told(self, number: int) -> bool:
        slot = self._slot_of_id.get(number)
        return slot is not None and self._known[slot].is_told

    def _slot(self, node: str, gpu: str, reading: GpuReading | None, index: int | None) -> int | None:
        gpus = self._by_node.setdefault(node, {})
        found = gpus.get(gpu)
        if found is None:
            if len(gpus) >= GPUS_PER_NODE_MAX:
                if self._more.get(node, 0) >= MORE_PER_DAY_MAX:
                    return None
                self._more[node] = self._more.get(node, 0) + 1
            found = len(self._known)
            self._known.append(Known(node=node, gpu=gpu, index=index))
            gpus[gpu] = found  # only now: who looks it up without the lock finds what it names
            if reading is not None:
                self.learn(found, reading)
        self._known[found].is_told = True
        return found

    def _row(self, one: Known) -> Mapping[str, str | int | None]:
        return {
            "cluster": self._cluster,
            "node": one.node,
            "gpu": one.gpu,
            "gpu_index": one.index,
            "model": one.model,
            "memory_total_mebibytes": one.memory_total_mebibytes,
        }

    def _update(self, connection: Connection, changed: Iterable[Known]) -> None:
        rows = [{"number": one.id, **self._row(one)} for one in changed]
        if rows:
            values: dict[str, Any] = {
                name: sa.bindparam(name) for name in ("gpu_index", "model", "memory_total_mebibytes")
            }
            statement = sa.update(rollup_gpus).where(rollup_gpus.c.id == sa.bindparam("number")).values(values)
            connection.execute(statement, rows)

    def _take(self, connection: Connection, *, after_id: int) -> None:
        wanted = (rollup_gpus.c.cluster == self._cluster, rollup_gpus.c.id > after_id)
        rows = connection.execute(sa.select(rollup_gpus).where(*wanted).order_by(rollup_gpus.c.id)).all()
        with self._lock:
            for row in rows:
                gpus = self._by_node.setdefault(row.node, {})
                slot = gpus.get(row.gpu, len(self._known))
                if slot == len(self._known):
                    known = Known(node=row.node, gpu=row.gpu, index=row.gpu_index, model=row.model)
                    known.memory_total_mebibytes = row.memory_total_mebibytes
                    self._known.append(known)
                    gpus[row.gpu] = slot
                self._known[slot].id, self._known[slot].heard_ms = row.id, row.heard_ms or 0
                self._slot_of_id[row.id] = slot
