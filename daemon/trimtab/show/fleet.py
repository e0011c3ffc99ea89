"""The fleet picture: one row a node, one cell a GPU, each with the one state that the evidence allows."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

import numpy as np

from trimtab.model.advice import OpenFinding
from trimtab.model.board import Cell, CellState, NodeRow
from trimtab.model.cluster import ClusterSnapshot, Gpu, Node, Workload
from trimtab.model.reading import GpuReading, GpuState
from trimtab.model.window import GpuNow, NodeNow, Window

ACTIVITY_KEYS = ("sm_active_ratio", "graphics_engine_active_ratio", "utilization_ratio")
"""What is taken for activity, best first."""

IDLE_RATIO = 0.01
"""Under this share of the time nothing worth the name ran."""

RECENT_SECONDS = 120.0
"""A held GPU is drawn as idle when all that was seen of it over this long is idle."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetInput:
    """What the fleet picture is drawn from."""

    at: datetime
    window: Window
    snapshot: ClusterSnapshot | None
    findings: Sequence[OpenFinding]
    silent_after_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class _Marks:
    """Open findings by what they mark in the picture."""

    by_gpu: Mapping[tuple[str, str], tuple[int, ...]]
    by_node: Mapping[str, tuple[int, ...]]
    idle_gpus: frozenset[tuple[str, str]]
    idle_workloads: frozenset[str]
    bad_gpus: frozenset[tuple[str, str]]


class _Fleet:
    """Lookups shared by all cells of one picture."""

    def __init__(self, given: FleetInput) -> None:
        self.given = given
        self.marks = _marks(given.findings)
        self.readings = _by_node(given.window)
        self.recent_activity = _recent_activity(given.window)
        self.holders: Mapping[tuple[str, str], Workload] = given.snapshot.holders if given.snapshot else {}
        self.is_attributed = any(_said_holder(now.reading) for now in given.window.gpus.values())
        self.waiting = _waiting_for_placement(given.snapshot)

    def is_silent(self, name: str) -> bool:
        now = self.given.window.nodes.get(name)
        return now is None or self.age_seconds(now) > self.given.silent_after_seconds

    def age_seconds(self, now: NodeNow) -> float:
        return (self.given.at - now.received_at).total_seconds()


def node_rows(given: FleetInput) -> tuple[NodeRow, ...]:
    """All nodes that the scheduler or the reports know, by rack and name; nodes that were let go are left out."""
    fleet = _Fleet(given)
    known = given.snapshot.node_by_name if given.snapshot else {}
    names = set(known) | {name for name, now in given.window.nodes.items() if now.is_expected}
    rows = [_node_row(fleet, name, known.get(name)) for name in names]
    return tuple(sorted(rows, key=lambda row: (row.rack or "", row.name)))


def activity_ratio(reading: GpuReading) -> float | None:
    """SM activity, else engine activity, else utilisation; of MIG instances the busiest. None = not known."""
    own = _activity_of(reading.values)
    if own is not None:
        return own
    found = (_activity_of(instance.values) for instance in reading.instances)
    return max((value for value in found if value is not None), default=None)


def _activity_of(values: Mapping[str, float]) -> float | None:
    return next((values[key] for key in ACTIVITY_KEYS if key in values), None)


def _node_row(fleet: _Fleet, name: str, node: Node | None) -> NodeRow:
    now = fleet.given.window.nodes.get(name)
    is_silent = fleet.is_silent(name)
    free_cells_workload = _stranded_for(fleet, name, node)
    cells = [
        _cell(fleet, name, node, gpu, reading, is_silent=is_silent, stranded_for=free_cells_workload)
        for gpu, reading in _gpus(fleet, name, node)
    ]
    return NodeRow(
        name=name,
        rack=node.rack if node else None,
        cells=tuple(cells),
        is_cordoned=node.is_cordoned if node else False,
        cordoned_by=node.cordoned_by if node else None,
        is_ready=node.is_ready if node else True,
        is_silent=is_silent,
        is_spare=node.is_spare if node else False,
        last_report_at=now.received_at if now else None,
        findings=fleet.marks.by_node.get(name, ()),
        model=_model(fleet.readings.get(name, {})),
    )


def _model(readings: Mapping[str, GpuNow]) -> str | None:
    models = {now.reading.info.model for now in readings.values()}
    return models.pop() if len(models) == 1 else None


def _gpus(fleet: _Fleet, name: str, node: Node | None) -> Iterable[tuple[Gpu | None, GpuNow | None]]:
    """The scheduler's GPUs with their readings (a MIG instance has its parent's), then those only reports know."""
    readings = fleet.readings.get(name, {})
    seen = set()
    for gpu in node.gpus if node else ():
        uuid = gpu.uuid if gpu.uuid in readings else gpu.uuid.partition("/")[0]
        seen.add(uuid)
        yield gpu, readings.get(uuid)
    others = [now for uuid, now in readings.items() if uuid not in seen]
    for now in sorted(others, key=lambda now: (now.reading.info.index is None, now.reading.info.index, now.key.uuid)):
        yield None, now


def _cell(
    fleet: _Fleet,
    node_name: str,
    node: Node | None,
    gpu: Gpu | None,
    now: GpuNow | None,
    *,
    is_silent: bool,
    stranded_for: str | None,
) -> Cell:
    uuid = gpu.uuid if gpu else now.key.uuid if now else ""
    reading = now.reading if now and not is_silent else None
    holder = _holder(fleet, node_name, uuid, now)
    state = _state(fleet, node_name, node, gpu, uuid=uuid, reading=reading, holder=holder, is_silent=is_silent)
    if state is CellState.FREE and stranded_for:
        state, holder = CellState.STRANDED, stranded_for
    values: Mapping[str, float] = reading.values if reading else {}
    return Cell(
        uuid=uuid,
        index=gpu.index if gpu else now.reading.info.index if now else None,
        state=state,
        workload=holder,
        activity_ratio=_rounded(activity_ratio(reading)) if reading else None,
        temperature_celsius=values.get("temperature_celsius"),
        power_watts=_rounded(values.get("power_watts"), 1),
        memory_used_ratio=_memory_used_ratio(values),
        sm_clock_hertz=values.get("sm_clock_hertz"),
        findings=fleet.marks.by_gpu.get((node_name, uuid), ()),
    )


def _state(
    fleet: _Fleet,
    node_name: str,
    node: Node | None,
    gpu: Gpu | None,
    *,
    uuid: str,
    reading: GpuReading | None,
    holder: str | None,
    is_silent: bool,
) -> CellState:
    if is_silent:
        return CellState.SILENT
    if reading is not None and reading.state is GpuState.LOST:
        return CellState.LOST
    if reading is None or reading.state is GpuState.UNREADABLE:
        return CellState.UNKNOWN
    if holder:
        return _held_state(fleet, node_name, uuid, reading, holder)
    if fleet.given.snapshot is None:
        return _unbooked_state(fleet, reading)
    return _free_state(fleet, node_name, node, gpu, uuid)


def _held_state(fleet: _Fleet, node_name: str, uuid: str, reading: GpuReading, holder: str) -> CellState:
    if (node_name, uuid) in fleet.marks.idle_gpus or holder in fleet.marks.idle_workloads:
        return CellState.HELD_IDLE
    recent = fleet.recent_activity.get((node_name, uuid))
    activity = activity_ratio(reading) if recent is None else recent
    if activity is None:
        return CellState.UNKNOWN
    return CellState.HELD_IDLE if activity < IDLE_RATIO else CellState.WORKING


def _unbooked_state(fleet: _Fleet, reading: GpuReading) -> CellState:
    """Without a scheduler: busy is busy; free only where the reports do say who holds what."""
    activity = activity_ratio(reading)
    if activity is not None and activity >= IDLE_RATIO:
        return CellState.WORKING
    return CellState.FREE if fleet.is_attributed else CellState.UNKNOWN


def _free_state(fleet: _Fleet, node_name: str, node: Node | None, gpu: Gpu | None, uuid: str) -> CellState:
    if node is None or gpu is None or not node.is_schedulable or not gpu.is_usable:
        return CellState.UNUSABLE
    if (node_name, uuid) in fleet.marks.bad_gpus:
        return CellState.UNUSABLE
    return CellState.SPARE if node.is_spare else CellState.FREE


def _holder(fleet: _Fleet, node_name: str, uuid: str, now: GpuNow | None) -> str | None:
    """Who holds it: the scheduler's word; without a scheduler, what the last report says."""
    if fleet.given.snapshot is not None:
        workload = fleet.holders.get((node_name, uuid))
        return workload.id if workload else None
    return _said_holder(now.reading) if now else None


def _said_holder(reading: GpuReading) -> str | None:
    if reading.holder:
        return reading.holder
    if reading.shared_by:
        return reading.shared_by[0]
    return next((instance.holder for instance in reading.instances if instance.holder), None)


def _stranded_for(fleet: _Fleet, name: str, node: Node | None) -> str | None:
    """The longest-waiting workload to whose pods this node's free GPUs are no use, if there is one."""
    if node is None or fleet.given.snapshot is None or node.is_spare:
        return None
    free = len(fleet.given.snapshot.free_gpus.get(name, ()))
    return next((workload.id for workload in fleet.waiting if free < workload.gpus_per_pod), None)


def _waiting_for_placement(snapshot: ClusterSnapshot | None) -> tuple[Workload, ...]:
    if snapshot is None:
        return ()
    return tuple(workload for workload in snapshot.waiting if workload.waiting_reason != "quota")


def _by_node(window: Window) -> Mapping[str, Mapping[str, GpuNow]]:
    found: dict[str, dict[str, GpuNow]] = defaultdict(dict)
    for key, now in window.gpus.items():
        found[key.node][key.uuid] = now
    return found


def _recent_activity(window: Window) -> Mapping[tuple[str, str], float]:
    """The most activity seen in the last two minutes, per GPU, where the window holds a series of it."""
    found: dict[tuple[str, str], float] = {}
    since = window.at.timestamp() - RECENT_SECONDS
    for name in reversed(ACTIVITY_KEYS):
        series = window.series.get(name)
        if series is None or not len(series.at_seconds):
            continue
        rows = series.values[series.at_seconds >= since]
        if not len(rows):
            continue
        most = np.where(np.isnan(rows), -1.0, rows).max(axis=0)
        pairs = zip(series.gpus, most.tolist(), strict=True)
        found.update({(key.node, key.uuid): value for key, value in pairs if value >= 0.0})
    return found


def _marks(findings: Sequence[OpenFinding]) -> _Marks:
    by_gpu: dict[tuple[str, str], list[int]] = defaultdict(list)
    by_node: dict[str, list[int]] = defaultdict(list)
    idle_gpus, idle_workloads, bad_gpus = set(), set(), set()
    for item in findings:
        subject = item.finding.subject
        if subject.node:
            by_node[subject.node].append(item.id)
        if subject.node and subject.gpu:
            by_gpu[subject.node, subject.gpu].append(item.id)
            if item.finding.action.takes_node_out:
                bad_gpus.add((subject.node, subject.gpu))
        if item.finding.rule == "idle_gpu":
            if subject.node and subject.gpu:
                idle_gpus.add((subject.node, subject.gpu))
            elif subject.workload:
                idle_workloads.add(subject.workload)
    return _Marks(
        by_gpu={key: tuple(ids) for key, ids in by_gpu.items()},
        by_node={key: tuple(ids) for key, ids in by_node.items()},
        idle_gpus=frozenset(idle_gpus),
        idle_workloads=frozenset(idle_workloads),
        bad_gpus=frozenset(bad_gpus),
    )


def _memory_used_ratio(values: Mapping[str, float]) -> float | None:
    used, total = values.get("memory_used_bytes"), values.get("memory_total_bytes")
    return None if used is None or not total else _rounded(used / total)


def _rounded(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)
