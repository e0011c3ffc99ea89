"""The last stretch of history in memory: what the detectors judge, never read from the database."""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from trimtab.clock import unix_seconds
from trimtab.model.cluster import ClusterSnapshot, GpuKey
from trimtab.model.reading import Delivery, Event, GpuReading
from trimtab.model.window import GpuNow, NodeEvent, NodeNow, Window
from trimtab.store.grid import Grid

RING_METRICS: tuple[str, ...] = (
    "sm_active_ratio",
    "utilization_ratio",
    "dram_active_ratio",
    "tensor_active_ratio",
    "graphics_engine_active_ratio",
    "power_watts",
    "temperature_celsius",
    "sm_clock_hertz",
    "clock_event_active/hw_thermal",
    "clock_event_active/hw_power_brake",
    "clock_event_active/sw_thermal",
    "clock_event_seconds_total/hw_thermal",
    "clock_event_seconds_total/hw_power_brake",
    "memory_used_bytes",
    "pcie_transmit_bytes_per_second",
    "nvlink_throughput_bytes_per_second",
)
"""Sample keys that are kept as series unless others are named; every other value is in the last reading alone."""

SKEW_SECONDS = 300.0
"""A node's clock may be this far off and still be believed; the ring has room for as much ahead."""
SET_BACK_SLOTS = 3
"""Slots beyond any node's present that only an earlier present of our own can have written."""
EVENTS_MAX = 100_000
"""Events kept of one stretch: storms are cut upstream, this bounds what is left of them."""
GPUS_PER_NODE_MAX = 512
"""GPUs kept of one node: a node that invents UUIDs must not fill the daemon's memory."""
_INTERVAL_WEIGHT = 0.3
_NAN = float("nan")
EventKey = tuple[str | int | datetime | None, ...]


class _NodeState:
    """One node: what it last said, and which columns its GPUs have."""

    __slots__ = ("columns", "driver", "keys", "now", "sequence", "spool_id")

    def __init__(self) -> None:
        self.now: NodeNow | None = None
        self.driver: str | None = None
        self.spool_id = ""
        self.sequence = -1
        self.keys: dict[str, GpuKey] = {}
        self.columns: dict[str, int] = {}

    def is_older(self, delivery: Delivery) -> bool:
        """Whether something later of this node is known. Order is by sequence; without a spool, by receipt."""
        if delivery.is_replay:
            return True
        if self.now is None:
            return False
        report = delivery.report
        if report.spool_id and report.spool_id == self.spool_id:
            return report.sequence <= self.sequence
        return delivery.received_at < self.now.received_at


class Ring:
    """Reports of the last stretch, by GPU. `add` and `window` may be called from different threads."""

    def __init__(
        self,
        *,
        cluster: str,
        span_seconds: float,
        interval_seconds: float,
        metrics: tuple[str, ...] = RING_METRICS,
        retire_after_seconds: float = 3600.0,
        events_max: int = EVENTS_MAX,
    ) -> None:
        """Hold `span_seconds` in slots of `interval_seconds`; a GPU that its node no longer names for
        `retire_after_seconds`, and a node that the cluster let go for as long, are forgotten.
        """
        slots = math.ceil(span_seconds / interval_seconds) + math.ceil(SKEW_SECONDS / interval_seconds) + 2
        self.cluster = cluster
        self.span_seconds = span_seconds
        self.events_dropped_total = 0
        self.gpus_dropped_total = 0
        self._grid = Grid(metrics=metrics, slots=slots, interval_seconds=interval_seconds)
        self._events_max = events_max
        self._retire_after = timedelta(seconds=retire_after_seconds)
        self._lock = threading.Lock()
        self._nodes: dict[str, _NodeState] = {}
        self._gpus: dict[GpuKey, GpuNow] = {}
        self._events: dict[EventKey, NodeEvent] = {}
        self._expected: frozenset[str] | None = None
        self._swept_at_slot = 0

    def add(self, deliveries: Iterable[Delivery]) -> None:
        """Take in what the journal has stored. Reports of another cluster are left out."""
        slots: list[int] = []
        columns: list[int] = []
        values: list[list[float]] = []
        metrics = self._grid.metrics
        with self._lock:
            for delivery in deliveries:
                if delivery.report.cluster != self.cluster:
                    continue
                slot = self._slot(delivery)
                state = self._nodes.setdefault(delivery.report.node, _NodeState())
                readings = self._admitted(state, delivery.report.gpus)
                if not state.is_older(delivery):
                    self._hear(state, delivery, readings)
                for reading in readings:
                    slots.append(slot)
                    columns.append(self._column(state, delivery.report.node, reading.uuid))
                    of = reading.values
                    values.append([of.get(metric, _NAN) for metric in metrics])
                self._take_events(delivery)
            self._grid.write(slots, columns, values)
            self._sweep()

    def window(self, at: datetime, *, span_seconds: float, snapshot: ClusterSnapshot | None) -> Window:
        """The last `span_seconds` before `at`, whole and never changed afterwards.

        A node that the snapshot lacks is not expected; without a snapshot the last one seen decides.
        """
        end_seconds = unix_seconds(at)
        first = self._grid.slot_of(end_seconds - span_seconds) + 1
        oldest = at - timedelta(seconds=span_seconds)
        with self._lock:
            if snapshot is not None:
                self._expected = frozenset(node.name for node in snapshot.nodes)
                self._let_go(at)
            gpus = dict(self._gpus)
            nodes = {name: self._node_now(state.now) for name, state in self._nodes.items() if state.now is not None}
            events = [event for event in self._events.values() if event.event.at >= oldest]
            drivers = {name: state.driver for name, state in self._nodes.items() if state.driver is not None}
            series = self._grid.series(first, self._grid.slot_of(end_seconds))
        events.sort(key=_moment)
        return Window(
            cluster=self.cluster,
            at=at,
            span_seconds=span_seconds,
            gpus=gpus,
            nodes=nodes,
            events=tuple(events),
            series=series,
            snapshot=snapshot,
            driver_version=drivers,
        )

    @property
    def nodes_count(self) -> int:
        """Nodes that have reported and were not forgotten."""
        return len(self._nodes)

    @property
    def gpus_count(self) -> int:
        """GPUs that have a last reading."""
        return len(self._gpus)

    @property
    def size_bytes(self) -> int:
        """What the arrays of numbers take in memory."""
        return self._grid.size_bytes

    @property
    def events_count(self) -> int:
        """Events that are held."""
        return len(self._events)

    def _slot(self, delivery: Delivery) -> int:
        grid = self._grid
        latest = grid.slot_of(unix_seconds(delivery.received_at) + SKEW_SECONDS)
        slot = min(grid.slot_of(unix_seconds(delivery.at)), latest)  # no clock may push the ring out of its present
        if grid.head is not None and grid.head - latest > SET_BACK_SLOTS:
            grid.begin_again()  # our own clock was set back: what is written ahead of it is of no known time
            self._swept_at_slot = 0
        grid.advance(slot)
        return slot

    def _admitted(self, state: _NodeState, readings: Sequence[GpuReading]) -> Sequence[GpuReading]:
        room = GPUS_PER_NODE_MAX - len(state.keys)
        if len(readings) <= room:
            return readings
        known = [reading for reading in readings if reading.uuid in state.keys]
        new = [reading for reading in readings if reading.uuid not in state.keys]
        self.gpus_dropped_total += max(len(new) - room, 0)
        return known + new[: max(room, 0)]

    def _hear(self, state: _NodeState, delivery: Delivery, readings: Sequence[GpuReading]) -> None:
        report = delivery.report
        state.now = self._said(state, delivery)
        state.spool_id, state.sequence, state.driver = report.spool_id, report.sequence, report.driver
        for reading in readings:
            key = self._key(state, report.node, reading.uuid)
            self._gpus[key] = GpuNow(key=key, reading=reading, at=delivery.at, received_at=delivery.received_at)

    def _said(self, state: _NodeState, delivery: Delivery) -> NodeNow:
        report = delivery.report
        return NodeNow(
            cluster=report.cluster,
            name=report.node,
            received_at=delivery.received_at,
            sampled_at=report.sampled_at,
            boot_id=report.boot_id,
            source=report.source,
            gpus_expected=report.gpus_expected,
            clock_skew_seconds=delivery.clock_skew_seconds,
            interval_seconds=self._interval(state, delivery),
            errors=report.errors,
            metrics_url=report.metrics_url,
        )

    def _interval(self, state: _NodeState, delivery: Delivery) -> float:
        known = state.now.interval_seconds if state.now is not None else self._grid.interval_seconds
        report = delivery.report
        if state.now is None or report.spool_id != state.spool_id or report.sequence != state.sequence + 1:
            return known
        passed = (report.sampled_at - state.now.sampled_at).total_seconds()
        # A clock that was set, or a beat that was missed, is no new interval.
        return known + _INTERVAL_WEIGHT * (passed - known) if 0 < passed < 10 * known else known

    def _key(self, state: _NodeState, node: str, uuid: str) -> GpuKey:
        key = state.keys.get(uuid)
        if key is None:
            key = state.keys[uuid] = GpuKey(cluster=self.cluster, node=node, uuid=uuid)
        return key

    def _column(self, state: _NodeState, node: str, uuid: str) -> int:
        column = state.columns.get(uuid)
        if column is None:
            column = state.columns[uuid] = self._grid.column(self._key(state, node, uuid))
        return column

    def _take_events(self, delivery: Delivery) -> None:
        for event in delivery.report.events:
            key = _event_key(delivery.report.node, event)
            if key in self._events:
                continue
            if len(self._events) >= self._events_max:
                self._events.pop(next(iter(self._events)))
                self.events_dropped_total += 1
            self._events[key] = NodeEvent(
                cluster=self.cluster,
                node=delivery.report.node,
                event=event if delivery.is_clock_believed else replace(event, at=delivery.received_at),
                is_history_only=delivery.is_replay,
            )

    def _node_now(self, now: NodeNow) -> NodeNow:
        if self._expected is None or now.name in self._expected:
            return now
        return replace(now, is_expected=False)

    def _sweep(self) -> None:
        """Once a span: forget events that are past it, GPUs that their node no longer names, and empty columns."""
        head = self._grid.head
        if head is None or (head - self._swept_at_slot) * self._grid.interval_seconds < self.span_seconds:
            return
        self._swept_at_slot = head
        self._events = {key: event for key, event in self._events.items() if self._is_held(event)}
        for state in self._nodes.values():
            self._retire(state)

    def _is_held(self, event: NodeEvent) -> bool:
        head = self._grid.head or 0
        return unix_seconds(event.event.at) >= head * self._grid.interval_seconds - self.span_seconds - SKEW_SECONDS

    def _retire(self, state: _NodeState) -> None:
        for uuid, key in tuple(state.keys.items()):
            last = self._gpus.get(key)
            if last is not None and state.now is not None:
                if state.now.received_at - last.received_at <= self._retire_after:
                    continue
                del self._gpus[key]
            column = state.columns.get(uuid)
            if column is None or self._grid.is_empty(column):
                self._grid.give_back([] if column is None else [column])
                state.columns.pop(uuid, None)
                del state.keys[uuid]

    def _let_go(self, at: datetime) -> None:
        gone = [
            name
            for name, state in self._nodes.items()
            if self._expected is not None
            and name not in self._expected
            and (state.now is None or at - state.now.received_at > self._retire_after)
        ]
        for name in gone:
            self._forget(name)

    def _forget(self, node: str) -> None:
        state = self._nodes.pop(node, None)
        if state is None:
            return
        self._grid.give_back(list(state.columns.values()))
        for key in state.keys.values():
            self._gpus.pop(key, None)


def _event_key(node: str, event: Event) -> EventKey:
    if event.cursor is not None:
        return node, event.source, event.boot_id, event.cursor, event.kind, event.code
    return node, event.source, event.kind, event.code, event.gpu or event.pci, event.at, event.text


def _moment(event: NodeEvent) -> datetime:
    return event.event.at
