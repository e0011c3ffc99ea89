"""The numbers of the ring: metric × time slot × GPU, in one numpy array that turns round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from trimtab.model.cluster import GpuKey
from trimtab.model.window import Series

COLUMNS_FIRST = 64


class Grid:
    """Values by slot (whole intervals since 1970) and column (a GPU); absent is NaN. It has no lock of its own."""

    def __init__(self, *, metrics: Sequence[str], slots: int, interval_seconds: float) -> None:
        """Hold `slots` intervals of these metrics."""
        self.metrics = tuple(metrics)
        self.interval_seconds = interval_seconds
        self.head: int | None = None
        """The newest slot."""
        self._slots = slots
        self._first: int | None = None
        self._values: NDArray[np.float32] = np.full((len(metrics), slots, COLUMNS_FIRST), np.nan, np.float32)
        self._gpus: list[GpuKey | None] = []
        self._heard: list[int] = []
        self._free: list[int] = []
        self._used: tuple[tuple[GpuKey, ...], NDArray[np.intp]] | None = None

    @property
    def size_bytes(self) -> int:
        """What the array takes in memory."""
        return int(self._values.nbytes)

    def slot_of(self, at_seconds: float) -> int:
        """The slot of a moment."""
        return int(at_seconds // self.interval_seconds)

    def column(self, gpu: GpuKey) -> int:
        """A column for a GPU that has none."""
        if self._free:
            column = self._free.pop()
            self._values[:, :, column] = np.nan
            self._gpus[column] = gpu
        else:
            column = len(self._gpus)
            self._gpus.append(gpu)
            self._heard.append(0)
            self._make_room()
        self._heard[column] = self.head or 0
        self._used = None
        return column

    def give_back(self, columns: Sequence[int]) -> None:
        """Let other GPUs have these columns."""
        for column in columns:
            self._gpus[column] = None
            self._free.append(column)
        self._used = None

    def is_empty(self, column: int) -> bool:
        """Whether nothing of the column is left in the ring."""
        return self.head is not None and self.head - self._heard[column] >= self._slots

    def advance(self, slot: int) -> None:
        """Make `slot` the newest, if it is newer; what falls out of the ring is forgotten."""
        if self.head is not None and slot <= self.head:
            return
        first = slot - self._slots + 1 if self.head is None else max(self.head + 1, slot - self._slots + 1)
        stale = np.arange(first, slot + 1) % self._slots
        self._values[:, stale, :] = np.nan
        self.head = slot

    def begin_again(self) -> None:
        """Forget all numbers, as if nothing had been heard; the GPUs keep their columns."""
        self._values[:] = np.nan
        self.head = self._first = None
        self._heard = [0] * len(self._heard)

    def write(self, slots: Sequence[int], columns: Sequence[int], values: Sequence[Sequence[float]]) -> None:
        """Set all metrics of (slot, column) pairs; slots that fell out of the ring are left out."""
        if not slots or self.head is None:
            return
        at, where = np.asarray(slots), np.asarray(columns)
        with np.errstate(over="ignore"):
            block = np.asarray(values, np.float64).astype(np.float32)
        block[np.isinf(block)] = np.nan
        held = at > self.head - self._slots
        self._values[:, at[held] % self._slots, where[held]] = block[held].T
        if held.any():
            first = int(at[held].min())
            self._first = first if self._first is None else min(self._first, first)
        for slot, column in zip(slots, columns, strict=True):
            self._heard[column] = max(self._heard[column], slot)

    def series(self, first: int, last: int) -> Mapping[str, Series]:
        """Every metric between two slots, both included: copies that nothing changes any more.

        Rows begin where anything was heard at all: what is shorter than asked for says so.
        """
        gpus, columns = self._columns_in_use()
        if self.head is None or self._first is None:
            slots, block = np.arange(0), self._values[:, :0, columns]
        else:
            slots = np.arange(max(first, self._first, self.head - self._slots + 1), min(last, self.head) + 1)
            block = self._block(slots, columns)
        at_seconds = slots.astype(np.float64) * np.float64(self.interval_seconds)
        at_seconds.setflags(write=False)
        block.setflags(write=False)
        return {
            metric: Series(gpus=gpus, at_seconds=at_seconds, values=block[index])
            for index, metric in enumerate(self.metrics)
        }

    def _block(self, slots: NDArray[np.int_], columns: NDArray[np.intp]) -> NDArray[np.float32]:
        if not len(slots):
            return self._values[:, :0, columns]
        width = len(self._gpus)
        begin, end = int(slots[0]) % self._slots, int(slots[-1]) % self._slots
        if begin <= end:
            block = self._values[:, begin : end + 1, :width].copy()
        else:
            block = np.concatenate((self._values[:, begin:, :width], self._values[:, : end + 1, :width]), axis=1)
        return block if len(columns) == width else block[:, :, columns]

    def _columns_in_use(self) -> tuple[tuple[GpuKey, ...], NDArray[np.intp]]:
        if self._used is None:
            columns = [column for column, gpu in enumerate(self._gpus) if gpu is not None]
            self._used = (tuple(gpu for gpu in self._gpus if gpu is not None), np.asarray(columns, np.intp))
        return self._used

    def _make_room(self) -> None:
        metrics, slots, width = self._values.shape
        if len(self._gpus) > width:
            wider: NDArray[np.float32] = np.full((metrics, slots, width * 2), np.nan, np.float32)
            wider[:, :, :width] = self._values
            self._values = wider
