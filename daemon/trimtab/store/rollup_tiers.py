"""15-minute and 1-hour rows from finer ones, a few thousand GPUs at a time.

min, max and counts are those of the minutes; the mean is weighted by their counts; p95 is the nearest rank over the
minutes' means: the level that at least 95 % of the minutes, each by its mean, did not exceed. Of a quarter's fifteen
minutes that is the highest, so the database makes quarters by itself; hours take all but p95 from the quarters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from trimtab.model.rollup import HOUR, MINUTE, QUARTER, ROLLED, STATES, STATISTICS, RolledMetric, Tier, state_column
from trimtab.store.database import Database
from trimtab.store.rollup_minute import Rows
from trimtab.store.rollup_slots import Slots
from trimtab.store.rollup_write import delete_rows, write_rows
from trimtab.store.tables_rollup import GPU_TABLES

SLICE_GPUS = 2000
"""GPUs a transaction: a commit of reports waits a tenth of a second for it on SQLite."""
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_STATES_FROM = 2
_COUNTS_FROM = _STATES_FROM + len(STATES)
_VALUES_FROM = _COUNTS_FROM + len(ROLLED)


def build_slice(database: Database, slots: Slots, tier: Tier, at_ms: int, some: Ints) -> int:
    """Make the rows of one step anew, of at most SLICE_GPUS slots (ascending); how many rows. Raises StoreError."""
    numbers = slots.ids()[some]
    if tier is QUARTER:
        return _quarter(database, at_ms, [int(number) for number in numbers])
    if tier is not HOUR:
        raise ValueError(f"{tier.name} rows are made from samples")
    with database.read() as connection:
        quarters = _rows(connection, QUARTER, range(at_ms, at_ms + tier.ms, QUARTER.ms), _QUARTERS, numbers)
        means = _rows(connection, MINUTE, range(at_ms, at_ms + tier.ms, MINUTE.ms), _MEANS, numbers)
    rows = combined(quarters, means, slots)
    return write_rows(database, tier, at_ms, rows, ids=slots.ids(), replaced=some)


# --- quarters, by the database


def _quarter(database: Database, at_ms: int, numbers: Sequence[int]) -> int:
    minutes, table = GPU_TABLES[MINUTE.name].c, GPU_TABLES[QUARTER.name]
    values: dict[str, sa.ColumnElement[Any]] = {
        "at_ms": sa.literal(at_ms, sa.BigInteger),
        "gpu_id": minutes.gpu_id,
        "tenure_id": minutes.tenure_id,
    }
    values |= {state_column(state): sa.func.sum(minutes[state_column(state)]) for state in STATES}
    for metric in ROLLED:
        values |= _of_minutes(metric)
    wanted = (minutes.at_ms.in_(list(range(at_ms, at_ms + QUARTER.ms, MINUTE.ms))), minutes.gpu_id.in_(numbers))
    summed = sa.select(*values.values()).where(*wanted).group_by(minutes.gpu_id, minutes.tenure_id)
    with database.write() as connection:
        delete_rows(connection, QUARTER, at_ms, numbers)
        return connection.execute(sa.insert(table).from_select(list(values), summed)).rowcount


def _of_minutes(metric: RolledMetric) -> dict[str, sa.ColumnElement[Any]]:
    minutes = GPU_TABLES[MINUTE.name].c
    samples = minutes[metric.samples]
    low, mean, high = (minutes[metric.stored(one)] for one in STATISTICS[:3])
    kind = sa.SmallInteger if metric.is_small else sa.Integer
    weighed = sa.cast(sa.func.sum(sa.cast(mean, sa.BigInteger) * samples), sa.Float)
    counted = sa.func.nullif(sa.func.sum(samples), 0)
    return {
        metric.stored("min"): sa.func.min(low),
        metric.stored("mean"): sa.cast(sa.func.round(weighed / counted), kind),
        metric.stored("max"): sa.func.max(high),
        metric.stored("p95"): sa.func.max(mean),  # ceil(0.95 n) is n up to n = 19
        metric.samples: sa.func.sum(samples),
    }


# --- hours

_QUARTERS = (
    "gpu_id",
    "tenure_id",
    *(state_column(state) for state in STATES),
    *(metric.samples for metric in ROLLED),
    *(metric.stored(statistic) for metric in ROLLED for statistic in STATISTICS[:3]),
)
_MEANS = ("gpu_id", "tenure_id", *(metric.stored("mean") for metric in ROLLED))


def _rows(connection: Connection, tier: Tier, moments: range, columns: Sequence[str], numbers: Ints) -> Floats:
    """Rows of several steps as one array; NaN where there is nothing. All numbers here are far below 2⁵³."""
    driver: Any = connection.connection.driver_connection
    picked = f"SELECT {', '.join(columns)} FROM {GPU_TABLES[tier.name].name} WHERE at_ms"
    wanted = [int(number) for number in numbers]
    is_sqlite = connection.dialect.name == "sqlite"
    blocks = [np.zeros((0, len(columns)))]
    cursor = driver.cursor()
    try:
        # Step by step: rows of one step lie together, those of one GPU do not.
        for moment in moments:
            if is_sqlite:
                marks = ", ".join("?" * len(wanted))
                cursor.execute(f"{picked} = ? AND gpu_id IN ({marks})", (moment, *wanted))
            else:
                cursor.execute(f"{picked} = %s AND gpu_id = ANY(%s)", (moment, wanted))
            if rows := cursor.fetchall():
                blocks.append(np.array(rows, np.float64))
    finally:
        cursor.close()
    return np.concatenate(blocks)


def combined(quarters: Floats, means: Floats, slots: Slots) -> Rows:
    """Rows of an hour from rows of its quarters, and the means of its minutes for p95."""
    keys, row = np.unique(_keys(quarters), return_inverse=True)
    count = len(keys)
    state_ms = np.zeros((count, len(STATES)), np.int64)
    np.add.at(state_ms, row, quarters[:, _STATES_FROM:_COUNTS_FROM].astype(np.int64))
    counts = np.zeros((count, len(ROLLED)), np.int64)
    np.add.at(counts, row, quarters[:, _COUNTS_FROM:_VALUES_FROM].astype(np.int64))
    stats = np.full((count, len(ROLLED), len(STATISTICS)), np.nan)
    of_minutes = np.searchsorted(keys, _keys(means))
    for place, metric in enumerate(ROLLED):
        weight = quarters[:, _COUNTS_FROM + place]
        values = quarters[:, _VALUES_FROM + 3 * place : _VALUES_FROM + 3 * place + 3]
        known = weight > 0
        _combine(stats[:, place], row[known], values[known], weight[known])
        _p95(stats[:, place, 3], of_minutes, means[:, 2 + place], keys=keys, of=_keys(means))
        stats[:, place] /= metric.per_unit
    gpu = np.array([slots.slot_of_id(int(key >> 32)) or 0 for key in keys], np.int64)
    tenure = keys & (2**32 - 1)
    order = np.lexsort((tenure, gpu))
    return Rows(gpu[order], tenure[order], state_ms[order], counts[order], stats[order])


def _keys(rows: Floats) -> Ints:
    return rows[:, 0].astype(np.int64) << 32 | rows[:, 1].astype(np.int64)


def _combine(stats: Floats, row: Ints, values: Floats, weight: Floats) -> None:
    if not len(row):
        return
    order = np.argsort(row, kind="stable")
    row, values, weight = row[order], values[order], weight[order]
    starts = _starts(row)
    found = row[starts]
    stats[found, 0] = np.minimum.reduceat(values[:, 0], starts)
    stats[found, 1] = np.add.reduceat(values[:, 1] * weight, starts) / np.add.reduceat(weight, starts)
    stats[found, 2] = np.maximum.reduceat(values[:, 2], starts)


def _p95(stats: Floats, row: Ints, mean: Floats, *, keys: Ints, of: Ints) -> None:
    """Nearest rank: ceil(0.95 n) without a float."""
    known = ~np.isnan(mean) & (row < len(keys))
    known[known] = keys[row[known]] == of[known]
    row, mean = row[known], mean[known]
    if not len(row):
        return
    order = np.lexsort((mean, row))
    row, mean = row[order], mean[order]
    starts = _starts(row)
    sizes = np.diff(np.append(starts, len(row)))
    stats[row[starts]] = mean[starts + -(-sizes * 19 // 20) - 1]


def _starts(row: Ints) -> Ints:
    return np.flatnonzero(np.concatenate(([True], row[1:] != row[:-1])))


def slices(slots: Ints) -> Iterator[Ints]:
    """Slots in handfuls of SLICE_GPUS."""
    for first in range(0, len(slots), SLICE_GPUS):
        yield slots[first : first + SLICE_GPUS]
