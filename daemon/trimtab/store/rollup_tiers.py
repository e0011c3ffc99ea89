"""15-minute and 1-hour rows from the 1-minute rows, a few thousand GPUs at a time.

min, max and counts are those of the minutes; the mean is weighted by their counts; p95 is the nearest rank over the
minutes' means: the level that at least 95 % of the minutes, each by its mean, did not exceed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray

from trimtab.model.rollup import MINUTE, ROLLED, STATES, STATISTICS, Tier, state_column
from trimtab.store.database import Database
from trimtab.store.rollup_minute import Rows
from trimtab.store.rollup_slots import Slots
from trimtab.store.rollup_write import write_rows
from trimtab.store.tables_rollup import GPU_TABLES

SLICE_ROWS = 60_000
"""Minute rows read at once."""
_ABSENT = -(2**31)
_MINUTES = GPU_TABLES[MINUTE.name].c
_COLUMNS: tuple[sa.ColumnElement[Any], ...] = (
    _MINUTES.gpu_id,
    _MINUTES.tenure_id,
    *(_MINUTES[state_column(state)] for state in STATES),
    *(_MINUTES[metric.samples] for metric in ROLLED),
    *(
        sa.func.coalesce(_MINUTES[metric.stored(statistic)], sa.literal_column(str(_ABSENT)))
        for metric in ROLLED
        for statistic in STATISTICS[:3]
    ),
)
_STATES_FROM = 2
_COUNTS_FROM = _STATES_FROM + len(STATES)
_VALUES_FROM = _COUNTS_FROM + len(ROLLED)


def build_tier(database: Database, slots: Slots, tier: Tier, at_ms: int, wanted: NDArray[np.int64]) -> int:
    """Make the rows of one step of these slots (sorted) anew from its minutes; how many. Raises StoreError."""
    ids = slots.ids()
    many = max(SLICE_ROWS // (tier.seconds // MINUTE.seconds), 1)
    done = 0
    for first in range(0, len(wanted), many):
        some = wanted[first : first + many]
        found = _read(database, tier, at_ms, ids[some])
        rows = combined(found, slots)
        done += write_rows(database, tier, at_ms, rows, ids=ids, replaced=some)
    return done


def _read(database: Database, tier: Tier, at_ms: int, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    minutes = range(at_ms, at_ms + tier.ms, MINUTE.ms)
    blocks = [np.zeros((0, len(_COLUMNS)), np.int64)]
    wanted = numbers.tolist()
    with database.read() as connection:
        # Minute by minute: rows of one minute lie together, those of one GPU do not.
        for minute in minutes:
            for ids in _chunks(wanted):
                statement = sa.select(*_COLUMNS).where(_MINUTES.at_ms == minute, _MINUTES.gpu_id.in_(ids))
                rows = connection.execute(statement).all()
                if rows:
                    blocks.append(np.array([tuple(row) for row in rows], np.int64))
    return np.concatenate(blocks)


def _chunks(numbers: Sequence[int], many: int = 4000) -> Iterator[Sequence[int]]:
    for first in range(0, len(numbers), many):
        yield numbers[first : first + many]


def combined(found: NDArray[np.int64], slots: Slots) -> Rows:
    """Rows of a coarser step from minute rows (columns as read)."""
    keys, row = np.unique(found[:, 0] << 32 | found[:, 1], return_inverse=True)
    row = row.astype(np.int64)
    count = len(keys)
    state_ms = np.zeros((count, len(STATES)), np.int64)
    np.add.at(state_ms, row, found[:, _STATES_FROM:_COUNTS_FROM])
    counts = np.zeros((count, len(ROLLED)), np.int64)
    np.add.at(counts, row, found[:, _COUNTS_FROM:_VALUES_FROM])
    stats = np.full((count, len(ROLLED), len(STATISTICS)), np.nan)
    for place, metric in enumerate(ROLLED):
        low, mean, high = (found[:, _VALUES_FROM + 3 * place + one] for one in range(3))
        weight = found[:, _COUNTS_FROM + place]
        known = (weight > 0) & (mean != _ABSENT)
        if known.any():
            said = _Minutes(row[known], low[known], mean[known], high[known], weight[known])
            _combine(said, stats[:, place], metric.per_unit)
    gpu = np.array([slots.slot_of_id(int(key >> 32)) or 0 for key in keys], np.int64)
    order = np.lexsort((keys & (2**32 - 1), gpu))
    return Rows(
        gpu=gpu[order],
        tenure=(keys & (2**32 - 1))[order],
        state_ms=state_ms[order],
        counts=counts[order],
        stats=stats[order],
    )


class _Minutes:
    """What the minutes say of one metric, sorted by row and mean."""

    def __init__(
        self,
        row: NDArray[np.int64],
        low: NDArray[np.int64],
        mean: NDArray[np.int64],
        high: NDArray[np.int64],
        weight: NDArray[np.int64],
    ) -> None:
        order = np.lexsort((mean, row))
        self.row, self.low, self.mean = row[order], low[order], mean[order]
        self.high, self.weight = high[order], weight[order]


def _combine(said: _Minutes, stats: NDArray[np.float64], per_unit: float) -> None:
    starts = np.flatnonzero(np.concatenate(([True], said.row[1:] != said.row[:-1])))
    sizes = np.diff(np.append(starts, len(said.row)))
    found = said.row[starts]
    samples = np.add.reduceat(said.weight, starts)
    ranks = -(-sizes * 19 // 20)  # nearest rank: ceil(0.95 n)
    stats[found, 0] = np.minimum.reduceat(said.low, starts) / per_unit
    stats[found, 1] = np.add.reduceat(said.mean * said.weight, starts) / samples / per_unit
    stats[found, 2] = np.maximum.reduceat(said.high, starts) / per_unit
    stats[found, 3] = said.mean[starts + ranks - 1] / per_unit
