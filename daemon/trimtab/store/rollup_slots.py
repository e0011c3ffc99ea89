"""GPUs by number: a slot in memory at once, a number in the database with the next beat."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from trimtab.errors import StoreError
from trimtab.model.reading import GpuReading
from trimtab.store.database import Database
from trimtab.store.tables_rollup import rollup_gpus

GPUS_PER_NODE_MAX = 512
"""Numbers for the GPUs of one node: a node that invents UUIDs must not fill the database."""
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


class Slots:
    """Node and UUID -> slot (0, 1, 2 …) and number in the database. Any thread."""

    def __init__(self, database: Database, *, cluster: str) -> None:
        """Know what the database knows. Raises StoreError."""
        self._database = database
        self._cluster = cluster
        self._lock = threading.Lock()
        self._by_node: dict[str, dict[str, int]] = {}
        self._known: list[Known] = []
        self._slot_of_id: dict[int, int] = {}
        self._changed: list[int] = []
        """Slots of which something was learnt; one thread appends, another takes from the front."""
        self._ids: NDArray[np.int64] = np.zeros(0, np.int64)
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
                    connection.execute(statement, [self._row(one) for one in new])
                self._update(connection, changed)
        except StoreError:
            self._changed.extend(learnt)
            raise
        with self._database.read() as connection:
            self._take(connection, after_id=highest)
            if any(not one.id for one in new):  # another daemon had given some of them their numbers
                self._take(connection, after_id=0)

    def _slot(self, node: str, gpu: str, reading: GpuReading | None, index: int | None) -> int | None:
        gpus = self._by_node.setdefault(node, {})
        found = gpus.get(gpu)
        if found is None:
            if len(gpus) >= GPUS_PER_NODE_MAX:
                return None
            found = gpus[gpu] = len(self._known)
            self._known.append(Known(node=node, gpu=gpu, index=index))
            if reading is not None:
                self.learn(found, reading)
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
                slot = self._by_node.setdefault(row.node, {}).setdefault(row.gpu, len(self._known))
                if slot == len(self._known):
                    known = Known(node=row.node, gpu=row.gpu, index=row.gpu_index, model=row.model)
                    known.memory_total_mebibytes = row.memory_total_mebibytes
                    self._known.append(known)
                self._known[slot].id = row.id
                self._slot_of_id[row.id] = slot
