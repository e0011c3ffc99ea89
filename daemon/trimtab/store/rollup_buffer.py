"""Samples on their way into roll-ups: picked from each report once, kept by minute until the minute is whole."""

from __future__ import annotations

import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trimtab.clock import unix_ms
from trimtab.model.reading import Delivery, GpuReading, GpuState
from trimtab.model.rollup import MINUTE, ROLLED
from trimtab.store.rollup_minute import LOST, OK, UNREADABLE, Samples
from trimtab.store.rollup_slots import Slots

_NAN = float("nan")
_KIND = {GpuState.OK: OK, GpuState.LOST: LOST, GpuState.UNREADABLE: UNREADABLE}
_FIRST = tuple(metric.keys[0] if metric.keys else "" for metric in ROLLED)
_MORE = tuple(
    (place, metric.keys[1:], metric.parts) for place, metric in enumerate(ROLLED) if metric.keys[1:] or metric.parts
)


@dataclass(slots=True)
class Heap:
    """Samples of one stretch, packed, in order of arrival."""

    gpu: array[int] = field(default_factory=lambda: array("q"))
    at_ms: array[int] = field(default_factory=lambda: array("q"))
    kind: array[int] = field(default_factory=lambda: array("b"))
    values: array[float] = field(default_factory=lambda: array("f"))
    received_ms: int = 2**62
    """The earliest receipt."""

    def put(self, slot: int, at_ms: int, kind: int, values: Iterable[float]) -> None:
        """One sample."""
        self.gpu.append(slot)
        self.at_ms.append(at_ms)
        self.kind.append(kind)
        self.values.extend(values)


def samples_of(heaps: Iterable[Heap]) -> Samples:
    """The samples of several heaps as arrays of their own."""
    found = list(heaps)
    values = np.concatenate([np.frombuffer(one.values, np.float32) for one in found] or [np.zeros(0, np.float32)])
    values = values.reshape(-1, len(ROLLED)).copy()
    values[~np.isfinite(values)] = np.nan
    return Samples(
        gpu=np.concatenate([np.frombuffer(one.gpu, np.int64) for one in found] or [np.zeros(0, np.int64)]),
        at_ms=np.concatenate([np.frombuffer(one.at_ms, np.int64) for one in found] or [np.zeros(0, np.int64)]),
        kind=np.concatenate([np.frombuffer(one.kind, np.int8) for one in found] or [np.zeros(0, np.int8)]),
        values=values,
    )


def chosen(samples: Samples, wanted: NDArray[np.bool_]) -> Samples:
    """Some of the samples."""
    return Samples(samples.gpu[wanted], samples.at_ms[wanted], samples.kind[wanted], samples.values[wanted])


class Buffer:
    """What came in, by minute; and which minutes of which nodes have to be counted anew from the journal."""

    def __init__(self, slots: Slots, *, cluster: str, hold_ms: int, closed_ms: int, keep_ms: int) -> None:
        """Minutes before `closed_ms` are written already; reports older than `keep_ms` are too late for anything."""
        self._slots = slots
        self._cluster = cluster
        self._hold_ms = hold_ms
        self._keep_ms = keep_ms
        self._lock = threading.Lock()
        self._minutes: dict[int, Heap] = {}
        self._heard: set[str] = set()
        self._dirty: dict[str, dict[int, int]] = {}
        self.closed_ms = closed_ms
        self.too_late_total = 0

    def add(self, deliveries: Iterable[Delivery]) -> None:
        """Take in what the journal has stored."""
        with self._lock:
            for delivery in deliveries:
                if delivery.report.cluster == self._cluster:
                    self._add(delivery)

    def close(self, until_ms: int) -> None:
        """What comes for a minute before `until_ms` from now on is late."""
        with self._lock:
            self.closed_ms = until_ms

    def samples(self, minute_ms: int) -> Samples:
        """The samples that a minute is counted from: its own, and those before it that still stand for something."""
        first = MINUTE.floor_ms(minute_ms - self._hold_ms)
        with self._lock:
            wanted = [self._minutes[one] for one in sorted(self._minutes) if first <= one <= minute_ms]
            found = samples_of(wanted)
        return chosen(found, found.at_ms > minute_ms - self._hold_ms)

    def forget(self, before_ms: int) -> None:
        """Let go of minutes that nothing needs any more: those written, but for what still stands for something."""
        first = MINUTE.floor_ms(before_ms - self._hold_ms)
        with self._lock:
            for minute in [one for one in self._minutes if one < first]:
                del self._minutes[minute]

    def mark(self, node: str, minute_ms: int, received_ms: int) -> None:
        """Have a minute of a node counted anew."""
        with self._lock:
            self._mark(node, minute_ms, received_ms)

    def dirty(self, *, minutes_max: int) -> dict[str, list[int]]:
        """Closed minutes to be counted anew, by node; they stay marked until `clean`."""
        found: dict[str, list[int]] = {}
        left = minutes_max
        with self._lock:
            for node, minutes in self._dirty.items():
                ready = sorted(minute for minute in minutes if minute < self.closed_ms)[:left]
                if ready:
                    found[node] = ready
                    left -= len(ready)
                if left <= 0:
                    break
        return found

    def take(self, found: Mapping[str, Iterable[int]]) -> dict[str, dict[int, int]]:
        """Unmark minutes before they are counted anew: what comes meanwhile marks them again."""
        taken: dict[str, dict[int, int]] = {}
        with self._lock:
            for node, minutes in found.items():
                marked = self._dirty.get(node, {})
                taken[node] = {minute: marked.pop(minute) for minute in minutes if minute in marked}
                if not marked:
                    self._dirty.pop(node, None)
        return taken

    def give_back(self, taken: Mapping[str, Mapping[int, int]]) -> None:
        """Mark them again: they could not be counted."""
        with self._lock:
            for node, minutes in taken.items():
                for minute, received_ms in minutes.items():
                    self._mark(node, minute, received_ms)

    @property
    def dirty_minutes(self) -> int:
        """How many minutes of nodes wait to be counted anew."""
        with self._lock:
            return sum(len(minutes) for minutes in self._dirty.values())

    def unwritten_since_ms(self, written_ms: int) -> int | None:
        """The earliest receipt of a report that has still to be counted, when minutes before `written_ms` are written.

        One of a minute that is written counts as well, while it stands for its GPU in the next.
        """
        first = MINUTE.floor_ms(written_ms - self._hold_ms)
        with self._lock:
            open_ones = (heap.received_ms for minute, heap in self._minutes.items() if minute >= first)
            marked = (received for minutes in self._dirty.values() for received in minutes.values())
            return min((*open_ones, *marked), default=None)

    # --- one report

    def _add(self, delivery: Delivery) -> None:
        at_ms, received_ms = unix_ms(delivery.at), unix_ms(delivery.received_at)
        minute = MINUTE.floor_ms(at_ms)
        node = delivery.report.node
        if at_ms < received_ms - self._keep_ms:
            self.too_late_total += 1
            return
        if minute < self.closed_ms:
            self._mark_held(node, at_ms, received_ms)
            return
        if node not in self._heard:
            # What an earlier daemon, or another one, heard of this minute is in the journal only.
            self._heard.add(node)
            self._mark(node, minute, received_ms)
        heap = self._minutes.get(minute)
        if heap is None:
            heap = self._minutes[minute] = Heap()
        heap.received_ms = min(heap.received_ms, received_ms)
        for slot, kind, values in picked(self._slots, node, delivery.report.gpus):
            heap.put(slot, at_ms, kind, values)

    def _mark_held(self, node: str, at_ms: int, received_ms: int) -> None:
        """A late sample changes its minute and those that it still stands for."""
        last = at_ms + self._hold_ms
        minute = MINUTE.floor_ms(at_ms)
        while minute < last:
            self._mark(node, minute, received_ms)
            minute += MINUTE.ms

    def _mark(self, node: str, minute_ms: int, received_ms: int) -> None:
        minutes = self._dirty.setdefault(node, {})
        minutes[minute_ms] = min(minutes.get(minute_ms, received_ms), received_ms)


def picked(slots: Slots, node: str, readings: Iterable[GpuReading]) -> Iterator[tuple[int, int, list[float]]]:
    """Slot, kind and values of each GPU of a report; of each MIG instance as well, where it has a slot of its own."""
    by_uuid = slots.of_node(node)
    for reading in readings:
        slot = by_uuid.get(reading.info.uuid)
        if slot is None:
            slot = slots.slot(node, reading.info.uuid, reading)
            by_uuid = slots.of_node(node)
        if slot is None:
            continue
        slots.learn(slot, reading)
        values = _pick(reading.values)
        yield slot, _KIND[reading.state], values
        if reading.instances:
            yield from _instances(by_uuid, reading, values)


def _instances(
    by_uuid: Mapping[str, int], reading: GpuReading, parent: list[float]
) -> Iterator[tuple[int, int, list[float]]]:
    for one in reading.instances:
        values = _pick(one.values)
        values = [parent[0] if values[0] != values[0] else values[0], *values[1:]]
        for name in (f"{reading.info.uuid}/{one.gi}", f"{reading.info.uuid}/{one.gi}/{one.ci}"):
            if name in by_uuid:
                yield by_uuid[name], _KIND[reading.state], values


def _pick(values: Mapping[str, float]) -> list[float]:
    """The value of each rolled-up metric; every report of every GPU comes through here."""
    get = values.get
    found = [get(key, _NAN) for key in _FIRST]
    for place, keys, parts in _MORE:
        if found[place] is _NAN:
            found[place] = _other(values, keys, parts)
    return found


def _other(values: Mapping[str, float], keys: tuple[str, ...], parts: tuple[str, ...]) -> float:
    for key in keys:
        if key in values:
            return values[key]
    for part in parts:
        if part not in values:
            return _NAN
    return sum([values[part] for part in parts]) if parts else _NAN
