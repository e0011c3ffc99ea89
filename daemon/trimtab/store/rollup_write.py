"""Rows of roll-ups into the database: whole slices replaced in one transaction, by COPY on PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from trimtab.model.rollup import ROLLED, STATES, STATISTICS, Tier, state_column
from trimtab.store.database import Database
from trimtab.store.rollup_minute import Rows, stored
from trimtab.store.tables_rollup import GPU_TABLES, rollup_state

SLICE_ROWS = 4000
"""Rows a transaction: so long a commit of reports may have to wait on SQLite."""

_VALUES = tuple((place, metric) for place, metric in enumerate(ROLLED))
_COLUMNS = (
    "at_ms",
    "gpu_id",
    "tenure_id",
    *(state_column(state) for state in STATES),
    *(metric.stored(statistic) for _, metric in _VALUES for statistic in STATISTICS),
    *(metric.samples for _, metric in _VALUES),
)


def write_rows(
    database: Database, tier: Tier, at_ms: int, rows: Rows, *, ids: NDArray[np.int64], replaced: NDArray[np.int64]
) -> int:
    """Put the rows of one step in place of whatever was there of these GPUs; how many rows.

    `ids` gives each slot its number in the database; `replaced` are the slots whose former rows go.
    """
    order = np.argsort(rows.gpu, kind="stable")
    values = _columns(at_ms, rows, order, ids)
    gpus = rows.gpu[order]
    done = 0
    for slots, begin, end in _slices(np.union1d(replaced, gpus), gpus):
        with database.write() as connection:
            delete_rows(connection, tier, at_ms, [int(ids[slot]) for slot in slots])
            if end > begin:
                insert(database, connection, tier, list(zip(*(one[begin:end] for one in values), strict=True)))
        done += end - begin
    return done


def _slices(slots: NDArray[np.int64], gpus: NDArray[np.int64]) -> Iterator[tuple[NDArray[np.int64], int, int]]:
    """Slots in handfuls, with where their rows begin and end."""
    for first in range(0, len(slots), SLICE_ROWS):
        some = slots[first : first + SLICE_ROWS]
        begin = int(np.searchsorted(gpus, some[0], side="left"))
        end = int(np.searchsorted(gpus, some[-1], side="right"))
        yield some, begin, end


def _columns(at_ms: int, rows: Rows, order: NDArray[np.int64], ids: NDArray[np.int64]) -> list[list[Any]]:
    whole, absent = stored(rows.stats[order], rows.counts[order])
    columns: list[list[Any]] = [
        [at_ms] * len(order),
        ids[rows.gpu[order]].tolist(),
        rows.tenure[order].tolist(),
        *(rows.state_ms[order, place].tolist() for place in range(len(STATES))),
    ]
    for place, _ in _VALUES:
        for statistic in range(len(STATISTICS)):
            columns.append(_or_none(whole[:, place, statistic], absent[:, place, statistic]))
    columns += [np.minimum(rows.counts[order, place], 2**15 - 1).tolist() for place, _ in _VALUES]
    return columns


def _or_none(values: NDArray[np.int64], absent: NDArray[np.bool_]) -> list[Any]:
    found: list[Any] = values.tolist()
    if absent.all():
        return [None] * len(values)
    for place in np.flatnonzero(absent).tolist():
        found[place] = None
    return found


def delete_rows(connection: Connection, tier: Tier, at_ms: int, numbers: Sequence[int]) -> None:
    """Take away the rows of some GPUs (by their numbers) of one step."""
    table = GPU_TABLES[tier.name]
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql(
            f"DELETE FROM {table.name} WHERE at_ms = %s AND gpu_id = ANY(%s)", (at_ms, list(numbers))
        )
        return
    marks = ", ".join("?" * len(numbers))
    connection.exec_driver_sql(f"DELETE FROM {table.name} WHERE at_ms = ? AND gpu_id IN ({marks})", (at_ms, *numbers))


def insert(database: Database, connection: Connection, tier: Tier, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows in the order of `_COLUMNS`."""
    table = GPU_TABLES[tier.name].name
    names = ", ".join(_COLUMNS)
    if database.is_sqlite:
        marks = ", ".join("?" * len(_COLUMNS))
        connection.exec_driver_sql(f"INSERT INTO {table} ({names}) VALUES ({marks})", list(rows))
        return
    driver: Any = connection.connection.driver_connection
    with driver.cursor() as cursor, cursor.copy(f"COPY {table} ({names}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row(row)


class State:
    """How far the roll-ups of a cluster are, by name."""

    def __init__(self, database: Database, *, cluster: str) -> None:
        """Read it. Raises StoreError."""
        self._database = database
        self._cluster = cluster
        wanted = sa.select(rollup_state.c.name, rollup_state.c.value).where(rollup_state.c.cluster == cluster)
        with database.read() as connection:
            self._values: dict[str, int] = {row.name: row.value for row in connection.execute(wanted)}

    def get(self, name: str) -> int | None:
        """A number that was kept."""
        return self._values.get(name)

    def put(self, values: Mapping[str, int], connection: Connection | None = None) -> None:
        """Keep numbers, within a transaction or in one of its own."""
        if connection is None:
            if any(self._values.get(name) != value for name, value in values.items()):
                with self._database.write() as own:
                    self.put(values, own)
            return
        rows = [{"cluster": self._cluster, "name": name, "value": value} for name, value in values.items()]
        upsert = self._database.insert(rollup_state)
        key = [rollup_state.c.cluster, rollup_state.c.name]
        statement = upsert.on_conflict_do_update(index_elements=key, set_={"value": upsert.excluded.value})
        connection.execute(statement, rows)
        self._values |= values
