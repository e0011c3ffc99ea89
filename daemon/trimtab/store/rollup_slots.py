"""GPUs by number: a slot in memory at once, a number in the database with the next beat.

Clusters whose nodes come and go have new GPUs for ever: those that nobody told of for days are not remembered here, and
their rows go once nothing is kept of them.
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
from trimtab.store.tables_rollup import GPU_TABLES, rollup_gpus

GPUS_PER_NODE_MAX = 512
"""Numbers for the GPUs of one node: a node that invents UUIDs must not fill the database."""
HEARD_MS = 6 * 3_600_000
"""How old `heard_ms` may get of a GPU that is told of."""
MARGIN_MS = 12 * 3_600_000
"""GPUs are remembered so much longer than the rows that may still be counted anew."""
QUIET_MAX, QUIET_RATIO_MAX = 100, 0.25
"""So many slots, and this share of all, may be of GPUs that need not be remembered before all are opened anew."""
FORGOTTEN_MAX = 5000
"""Rows of GPUs that go in one transaction."""
_NODES_MAX = 500
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
    """About when somebody last told of it, to some hours, as the database has it."""
    is_told: bool = True
    """Whether somebody told of it since `tidy`."""


class Slots:
    """Node and UUID -> slot (0, 1, 2 …) and number in the database. Any thread."""

    def __init__(self, database: Database, *, cluster: str, clock: Clock, counted_ms: int) -> None:
        """Know what the database knows of GPUs of which somebody told lately. Rows of the last `counted_ms` may still
        be counted anew. Raises StoreError.
        """
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
        self._remembered_ms = counted_ms + MARGIN_MS
        self.is_stale = False
        """Whether so much here is of GPUs that are gone that all is better opened anew; as `tidy` found it."""
        self._is_full = False
        """Whether a GPU found no slot, since its node has so many."""
        with database.read() as connection:
            self._recall(connection, unix_ms(clock.now()) - self._remembered_ms)

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
        try:
            with self._database.write() as connection:
                if new:
                    statement = self._database.insert(rollup_gpus).on_conflict_do_nothing()
                    now_ms = unix_ms(self._clock.now())
                    connection.execute(statement, [{**self._row(one), "heard_ms": now_ms} for one in new])
                self._update(connection, changed)
        except StoreError:
            self._changed.extend(learnt)
            raise
        with self._database.read() as connection:
            self._number(connection, new)

    def tidy(self) -> None:
        """Write down who was told of, and let go of rows of GPUs of which nothing is kept any more.

        For the thread that gives numbers, some times a day. Raises StoreError.
        """
        now_ms, known = unix_ms(self._clock.now()), tuple(self._known)
        told = [one for one in known if one.id and one.is_told and abs(now_ms - one.heard_ms) >= HEARD_MS]
        if told:
            statement = sa.update(rollup_gpus).where(rollup_gpus.c.id == sa.bindparam("number")).values(heard_ms=now_ms)
            with self._database.write() as connection:
                connection.execute(statement, [{"number": one.id} for one in told])
        for one in told:
            one.heard_ms = now_ms
        for one in known:
            one.is_told = False
        quiet = sum(one.id > 0 and one.heard_ms < now_ms - self._remembered_ms for one in known)
        self.is_stale = quiet > QUIET_MAX + QUIET_RATIO_MAX * len(known) or (self._is_full and quiet > 0)
        self._forget()

    def _forget(self) -> None:
        """Rows of GPUs that were last told of before the oldest of all steps that are kept."""
        oldest = [sa.select(sa.func.min(table.c.at_ms)).scalar_subquery() for table in GPU_TABLES.values()]
        with self._database.read() as connection:
            kept_ms = [found for found in connection.execute(sa.select(*oldest)).one() if found is not None]
            if not kept_ms:
                return
            before = rollup_gpus.c.heard_ms < min(kept_ms) - 2 * MARGIN_MS
            wanted = sa.select(rollup_gpus.c.id).where(rollup_gpus.c.cluster == self._cluster, before)
            found = connection.execute(wanted.limit(FORGOTTEN_MAX + len(self._known))).scalars()
            gone = [number for number in found if number not in self._slot_of_id][:FORGOTTEN_MAX]
        for first in range(0, len(gone), _NODES_MAX):
            with self._database.write() as connection:
                some = gone[first : first + _NODES_MAX]
                connection.execute(sa.delete(rollup_gpus).where(rollup_gpus.c.id.in_(some)))

    def _slot(self, node: str, gpu: str, reading: GpuReading | None, index: int | None) -> int | None:
        gpus = self._by_node.setdefault(node, {})
        found = gpus.get(gpu)
        if found is None:
            if len(gpus) >= GPUS_PER_NODE_MAX:
                self._is_full = True
                return None
            found = gpus[gpu] = len(self._known)
            self._known.append(Known(node=node, gpu=gpu, index=index))
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

    def _recall(self, connection: Connection, since_ms: int) -> None:
        heard = rollup_gpus.c.heard_ms >= since_ms
        wanted = sa.select(rollup_gpus).where(rollup_gpus.c.cluster == self._cluster, heard)
        for row in connection.execute(wanted.order_by(rollup_gpus.c.id)):
            slot = self._by_node.setdefault(row.node, {})[row.gpu] = len(self._known)
            self._known.append(Known(node=row.node, gpu=row.gpu, is_told=False))
            self._learn_row(slot, row)

    def _number(self, connection: Connection, new: Iterable[Known]) -> None:
        """Numbers of new slots; what is new here may have been told of long ago, or by another daemon."""
        nodes = sorted({one.node for one in new})
        for first in range(0, len(nodes), _NODES_MAX):
            some = rollup_gpus.c.node.in_(nodes[first : first + _NODES_MAX])
            for row in connection.execute(sa.select(rollup_gpus).where(rollup_gpus.c.cluster == self._cluster, some)):
                slot = self._by_node[row.node].get(row.gpu)
                if slot is not None and not self._known[slot].id:
                    self._learn_row(slot, row)

    def _learn_row(self, slot: int, row: Any) -> None:  # noqa: ANN401 - a row of SQLAlchemy
        known = self._known[slot]
        known.id, known.heard_ms = row.id, row.heard_ms or 0
        known.index = row.gpu_index if known.index is None else known.index
        known.model = known.model or row.model
        known.memory_total_mebibytes = known.memory_total_mebibytes or row.memory_total_mebibytes
        self._slot_of_id[row.id] = slot
