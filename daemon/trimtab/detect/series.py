"""Looks into a window's series: the last N seconds of one metric for some GPUs, as numpy arrays. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from trimtab.model.cluster import GpuKey
from trimtab.model.window import Series, Window

SERIES_METRICS: tuple[str, ...] = (
    "utilization_ratio",
    "sm_active_ratio",
    "dram_active_ratio",
    "power_watts",
    "temperature_celsius",
    "sm_clock_hertz",
    "clock_event_active/hw_thermal",
    "clock_event_active/hw_power_brake",
    "clock_event_seconds_total/hw_thermal",
    "clock_event_seconds_total/hw_power_brake",
)
"""Sample keys whose history the detectors look at: what the ring has to keep."""

SPAN_RATIO = 0.95
"""A span counts as seen when the first row is at least this share of it old."""
COVER_RATIO = 0.8
"""A GPU counts as seen when it has a value in this share of the rows that its node's interval allows: some get lost."""
_RECENT_SECONDS = 60.0
_SLACK_ROWS = 2
_SPAN_ROWS_MIN = 3

Floats = NDArray[np.float32]
Columns = NDArray[np.intp]


class _LastColumns:
    """The column index of the tuple of GPUs seen last: the ring gives the same tuple until a GPU comes or goes."""

    def __init__(self) -> None:
        self._held: tuple[tuple[GpuKey, ...], Mapping[tuple[str, str], int]] = ((), {})

    def of(self, gpus: tuple[GpuKey, ...]) -> Mapping[tuple[str, str], int]:
        held, index = self._held
        if held is not gpus:
            index = {(key.node, key.uuid): column for column, key in enumerate(gpus)}
            self._held = (gpus, index)
        return index


_LAST_COLUMNS = _LastColumns()


class SeriesView:
    """The series of one window, addressed by GPU."""

    def __init__(self, window: Window) -> None:
        """Look into `window`; nothing is computed before it is asked for."""
        self._window = window
        self._at_seconds = window.at.timestamp()

    @cached_property
    def gpus(self) -> tuple[GpuKey, ...]:
        """The GPUs of the columns, of the first series; others with other columns are looked up by key."""
        return next((series.gpus for series in self._window.series.values()), ())

    @cached_property
    def column_of(self) -> Mapping[tuple[str, str], int]:
        """(node, GPU UUID) -> its column in `gpus`."""
        return _LAST_COLUMNS.of(self.gpus)

    def columns(self, keys: Iterable[GpuKey]) -> Columns:
        """Columns of these GPUs; those without series have -1."""
        return self.columns_at([(key.node, key.uuid) for key in keys])

    def columns_at(self, places: Sequence[tuple[str, str]]) -> Columns:
        """Columns of these (node, GPU UUID) pairs; those without series have -1."""
        column_of = self.column_of
        return np.array([column_of.get(place, -1) for place in places], dtype=np.intp)

    def last(self, metric: str) -> Floats | None:
        """The latest value of a metric for each of `gpus`; None where there is no recent row.

        The newest row may still be filling up, and not every node reports into each: a GPU that is not in it has that
        of the last row of the recent ones that it is in.
        """
        series = self._window.series.get(metric)
        if series is None:
            return None
        recent = series.values[int(np.searchsorted(series.at_seconds, self._at_seconds - _RECENT_SECONDS)) :]
        return _newest(self._aligned(series, recent)) if len(recent) else None

    def span(self, metric: str, seconds: float) -> tuple[NDArray[np.float64], Floats] | None:
        """(moments, rows) of a metric in the last `seconds` over `gpus`; None unless rows cover that span."""
        series = self._window.series.get(metric)
        if series is None:
            return None
        first = int(np.searchsorted(series.at_seconds, self._at_seconds - seconds))
        moments = series.at_seconds[first:]
        if len(moments) < _SPAN_ROWS_MIN:
            return None
        # One row may be missing at either end: the oldest slides out, and the newest has nobody in it yet.
        slack_seconds = _SLACK_ROWS * _interval(moments)
        if float(moments[-1] - moments[0]) < SPAN_RATIO * seconds - slack_seconds:
            return None
        if self._at_seconds - float(moments[-1]) > _RECENT_SECONDS:
            return None
        return moments, self._aligned(series, series.values[first:])

    def block(self, metric: str, columns: Columns, seconds: float) -> Floats | None:
        """Rows of the last `seconds` for these columns; NaN for unknown ones; None unless rows cover that span."""
        found = self.span(metric, seconds)
        if found is None:
            return None
        _, rows = found
        if not len(columns):
            return rows[:, :0]
        block: Floats = rows[:, columns].astype(np.float32, copy=True)
        block[:, columns < 0] = np.nan
        return block

    def is_covered(self, block: Floats, keys: Sequence[GpuKey]) -> NDArray[np.bool_]:
        """Whether each column of a block has been seen throughout, for what its node's interval allows."""
        seen = 1.0 - np.isnan(block).mean(axis=0)
        nodes = self._window.nodes
        intervals = [nodes[key.node].interval_seconds if key.node in nodes else 0.0 for key in keys]
        allowed = np.minimum(self._row_seconds / np.maximum(intervals, self._row_seconds), 1.0)
        covered: NDArray[np.bool_] = seen >= COVER_RATIO * allowed
        return covered

    @cached_property
    def _row_seconds(self) -> float:
        """Between two rows; all series have the same."""
        moments = next((one.at_seconds for one in self._window.series.values() if len(one.at_seconds) > 1), None)
        return _interval(moments) if moments is not None else 1.0

    def _aligned(self, series: Series, values: Floats) -> Floats:
        if series.gpus is self.gpus or series.gpus == self.gpus:
            return values
        known = {key: column for column, key in enumerate(series.gpus)}
        order = np.array([known.get(key, -1) for key in self.gpus], dtype=np.intp)
        aligned: Floats = values[:, order].astype(np.float32, copy=True)
        aligned[:, order < 0] = np.nan
        return aligned


def _newest(rows: Floats) -> Floats:
    found: Floats = rows[-1].copy()
    for row in rows[-2::-1]:
        is_missing = np.isnan(found)
        if not is_missing.any():
            break
        found[is_missing] = row[is_missing]
    return found


def _interval(moments: NDArray[np.float64]) -> float:
    return float(moments[-1] - moments[0]) / (len(moments) - 1)


def highest(block: Floats) -> Floats:
    """Each column's highest value, NaN where it has none."""
    found: Floats = np.fmax.reduce(block, axis=0)
    return found


def lowest(block: Floats) -> Floats:
    """Each column's lowest value, NaN where it has none."""
    found: Floats = np.fmin.reduce(block, axis=0)
    return found


def mean_of(block: Floats) -> NDArray[np.float64]:
    """Each column's mean over the rows that have a value, NaN where none has."""
    seen = ~np.isnan(block)
    count = seen.sum(axis=0)
    total = np.where(seen, block, 0.0).sum(axis=0, dtype=np.float64)
    found: NDArray[np.float64] = np.divide(total, count, out=np.full(len(count), np.nan), where=count > 0)
    return found


def upper_median(values: NDArray[np.float64]) -> float:
    """The median, the upper of the two middle ones where there are two; NaN of nothing."""
    known = np.sort(values[~np.isnan(values)])
    return float(known[len(known) // 2]) if len(known) else float("nan")


def keys_at(view: SeriesView, columns: Sequence[int] | Columns) -> list[GpuKey]:
    """The GPUs of these columns."""
    return [view.gpus[int(column)] for column in columns]
