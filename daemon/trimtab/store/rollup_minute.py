"""One minute of samples and who held what -> rows. Pure arithmetic on arrays; the live path and the repair share it.

What a row says:
- A sample stands for its GPU from its moment until the next sample, for `hold_ms` at most; time that no sample stands
  for is unknown.
- min, mean, max and p95 are of the samples whose moment lies in the minute, while the row's tenure was in force; p95 is
  the nearest rank: the smallest value that at least 95 % of the samples do not exceed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trimtab.model.past import GpuTimeState
from trimtab.model.rollup import IDLE_RATIO, ROLLED, STATE_OF_STANDING, STATES, Standing

OK, LOST, UNREADABLE = 0, 1, 2
"""What a sample says of its GPU: it was read, it is gone, it could not be read."""

_MAX = 2**53
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_WORKING, _HELD_IDLE, _UNKNOWN = (
    STATES.index(state) for state in (GpuTimeState.WORKING, GpuTimeState.HELD_IDLE, GpuTimeState.UNKNOWN)
)
_OUT = STATES.index(GpuTimeState.OUT_OF_SERVICE)
_BY_STANDING = np.array(
    [STATES.index(STATE_OF_STANDING.get(Standing(number), GpuTimeState.UNKNOWN)) for number in range(len(Standing))]
)


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples in any order: GPU (any number), moment, what it says of the GPU, values (NaN = absent) by metric."""

    gpu: Ints
    at_ms: Ints
    kind: NDArray[np.int8]
    values: NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Pieces:
    """Stretches within the minute in which a GPU had one tenure and standing; never overlapping for one GPU."""

    gpu: Ints
    from_ms: Ints
    to_ms: Ints
    tenure: Ints
    standing: Ints


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows as columns. `stats` by metric: counts, and min, mean, max, p95 in base units (NaN where count is 0)."""

    gpu: Ints
    tenure: Ints
    state_ms: Ints
    """By row and state."""
    counts: Ints
    """By row and metric."""
    stats: Floats
    """By row, metric and statistic."""


def minute_rows(samples: Samples, pieces: Pieces, *, begin_ms: int, end_ms: int, hold_ms: int) -> Rows:
    """The rows of one minute, one a GPU and tenure, whether anything was heard or not."""
    pieces, row_of, gpu, tenure = _merged(pieces)
    samples = _sorted(samples)
    state_ms = _state_ms(samples, pieces, begin_ms=begin_ms, end_ms=end_ms, hold_ms=hold_ms)
    inside = (samples.at_ms >= begin_ms) & (samples.at_ms < end_ms)
    piece = _piece_at(samples.gpu, samples.at_ms, pieces)
    counted = inside & (piece >= 0)
    rows = len(gpu)
    row = row_of[piece[counted]]
    counts, stats = statistics(row, samples.values[counted], rows=rows)
    by_row = np.zeros((rows, len(STATES)), np.int64)
    np.add.at(by_row, row_of, state_ms)
    return Rows(gpu=gpu, tenure=tenure, state_ms=by_row, counts=counts, stats=stats)


def _merged(pieces: Pieces) -> tuple[Pieces, Ints, Ints, Ints]:
    """Pieces by GPU and time, the row of each, and GPU and tenure of each row: a GPU that comes back to a tenure
    within the minute has one row of it.
    """
    order = np.lexsort((pieces.from_ms, pieces.gpu))
    made = Pieces(*(getattr(pieces, name)[order] for name in ("gpu", "from_ms", "to_ms", "tenure", "standing")))
    unique, row_of = np.unique(made.gpu << 32 | made.tenure, return_inverse=True)
    return made, row_of.astype(np.int64), unique >> 32, unique & (2**32 - 1)


def _sorted(samples: Samples) -> Samples:
    order = np.lexsort((samples.at_ms, samples.gpu))
    return Samples(samples.gpu[order], samples.at_ms[order], samples.kind[order], samples.values[order])


def _piece_at(gpu: Ints, at_ms: Ints, pieces: Pieces) -> Ints:
    """Which piece a moment of a GPU lies in; -1 = none."""
    found = _last_from(gpu, at_ms, pieces)
    if not len(pieces.gpu):
        return found
    fits = (found >= 0) & (pieces.gpu[found] == gpu) & (at_ms < pieces.to_ms[found])
    return np.where(fits, found, -1)


def _last_from(gpu: Ints, at_ms: Ints, pieces: Pieces) -> Ints:
    """The last piece that does not begin after the moment, of whichever GPU stands before; -1 = none."""
    both = np.concatenate((pieces.from_ms, at_ms))
    base = int(both.min()) if len(both) else 0
    span = int(both.max()) - base + 1 if len(both) else 1
    keys = pieces.gpu * span + (pieces.from_ms - base)
    return np.searchsorted(keys, gpu * span + (at_ms - base), side="right").astype(np.int64) - 1


def _state_ms(samples: Samples, pieces: Pieces, *, begin_ms: int, end_ms: int, hold_ms: int) -> Ints:
    """Milliseconds by piece and state; what is left of a piece is unknown."""
    count = len(pieces.gpu)
    total = np.zeros(count * len(STATES), np.int64)
    if count:
        next_ms = np.full(len(samples.gpu), _MAX, np.int64)
        same = samples.gpu[1:] == samples.gpu[:-1]
        next_ms[:-1][same] = samples.at_ms[1:][same]
        starts = np.maximum(samples.at_ms, begin_ms)
        ends = np.minimum(np.minimum(next_ms, samples.at_ms + hold_ms), end_ms)
        covers = np.flatnonzero(ends > starts)
        _spread(total, samples, pieces, covers=covers, starts=starts[covers], ends=ends[covers])
    by_piece = total.reshape(count, len(STATES))
    by_piece[:, _UNKNOWN] += (pieces.to_ms - pieces.from_ms) - by_piece.sum(axis=1)
    return by_piece


def _spread(total: Ints, samples: Samples, pieces: Pieces, *, covers: Ints, starts: Ints, ends: Ints) -> None:
    """Give each cover to the pieces that it lies in: nearly always one, and as many rounds as the most have."""
    gpu = samples.gpu[covers]
    piece = np.maximum(_last_from(gpu, starts, pieces), 0)
    ahead = pieces.gpu[piece] < gpu  # begins before the GPU's first piece: that one is next
    piece = piece + ahead
    while len(covers):
        inside = piece < len(pieces.gpu)
        inside &= pieces.gpu[np.minimum(piece, len(pieces.gpu) - 1)] == gpu
        covers, gpu, piece, starts, ends = (one[inside] for one in (covers, gpu, piece, starts, ends))
        lapped = np.minimum(ends, pieces.to_ms[piece]) - np.maximum(starts, pieces.from_ms[piece])
        state = _states(samples, covers, pieces.standing[piece])
        np.add.at(total, piece * len(STATES) + state, np.maximum(lapped, 0))
        more = pieces.to_ms[piece] < ends
        covers, gpu, piece, starts, ends = covers[more], gpu[more], piece[more] + 1, starts[more], ends[more]


def _states(samples: Samples, which: Ints, standing: Ints) -> Ints:
    """The state that each of these samples shows, given the standing."""
    kind = samples.kind[which]
    activity = samples.values[which, 0]
    is_busy = activity >= np.float32(IDLE_RATIO)  # NaN is not
    state = _BY_STANDING[standing]
    is_held = standing == Standing.HELD
    state = np.where(is_held, np.where(is_busy, _WORKING, _HELD_IDLE), state)
    state = np.where(is_held & np.isnan(activity), _UNKNOWN, state)
    state = np.where((standing == Standing.UNBOOKED) & is_busy, _WORKING, state)
    state = np.where(kind == UNREADABLE, _UNKNOWN, state)
    return np.where(kind == LOST, _OUT, state)


def statistics(row: Ints, values: NDArray[np.float32] | Floats, *, rows: int) -> tuple[Ints, Floats]:
    """Counts by row and metric; min, mean, max, p95 by row, metric and statistic. `row` says whose each value is."""
    metrics = len(ROLLED)
    counts = np.zeros((rows, metrics), np.int64)
    stats = np.full((rows, metrics, 4), np.nan)
    order = np.argsort(row, kind="stable")
    row, values = row[order], values[order]
    for metric in range(metrics):
        known = ~np.isnan(values[:, metric])
        of, what = row[known], values[known, metric].astype(np.float64)
        if len(of):
            _one_metric(of, what, counts[:, metric], stats[:, metric])
    return counts, stats


def _one_metric(of: Ints, what: Floats, counts: Ints, stats: Floats) -> None:
    starts = np.flatnonzero(np.concatenate(([True], of[1:] != of[:-1])))
    found = of[starts]
    sizes = np.diff(np.append(starts, len(of)))
    counts[found] = sizes
    stats[found, 0] = np.minimum.reduceat(what, starts)
    stats[found, 1] = np.add.reduceat(what, starts) / sizes
    stats[found, 2] = np.maximum.reduceat(what, starts)
    stats[found, 3] = _nearest_rank(of, what, starts, sizes, highest=stats[found, 2])


def _nearest_rank(of: Ints, what: Floats, starts: Ints, sizes: Ints, *, highest: Floats) -> Floats:
    """p95 of each group. Of fewer than 20 values it is the highest: no sorting then."""
    ranks = -(-sizes * 19 // 20)  # ceil(0.95 n) without a float
    if (ranks == sizes).all():
        return highest
    ordered: Floats = what[np.lexsort((what, of))]
    found: Floats = ordered[starts + ranks - 1]
    return found


def stored(stats: Floats, counts: Ints) -> tuple[Ints, NDArray[np.bool_]]:
    """Whole numbers of stored units by row, metric and statistic, and where there is nothing."""
    scale = np.array([metric.per_unit for metric in ROLLED])[None, :, None]
    most = np.array([2**15 - 1 if metric.is_small else 2**31 - 1 for metric in ROLLED])[None, :, None]
    absent = np.broadcast_to((counts == 0)[:, :, None], stats.shape)
    scaled = np.where(absent, 0.0, stats) * scale
    return np.clip(np.rint(scaled), -most, most).astype(np.int64), absent
