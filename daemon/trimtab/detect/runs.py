"""Folds raw events into runs (one fault of one GPU, with first, last and count), in one pass. Pure.

800,000 lines of a storm become a few runs here; everything after this works on runs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from trimtab.detect.nvlink import NVLINK4, NVLINK5
from trimtab.detect.xid import RECOVERY, Sign, read_event
from trimtab.detect.xid_table import XidTable
from trimtab.model.reading import Event, EventKind, EventSource
from trimtab.model.window import NodeEvent, Window

BURST_GAP_SECONDS = 180.0
"""Lines of one kind closer than this are one burst; rules count bursts, not lines."""
EPISODE_GAP_SECONDS = 60.0
"""Different codes of one GPU closer than this have one root."""

_DETAIL_KEYS: Mapping[int, tuple[str, ...]] = {
    NVLINK4: ("registers",),
    RECOVERY: ("recovery_action", "action"),
    **dict.fromkeys(NVLINK5, ("words",)),
}
_BELIEVED = frozenset({EventSource.KERNEL, EventSource.NVML})


@dataclass(slots=True, kw_only=True)
class Run:
    """Events of one kind, code and GPU without a long gap between them. `gpu` is a UUID, a PCI address or empty."""

    node: str
    gpu: str
    first: Event
    last: Event
    first_at: datetime
    last_at: datetime
    lines: int
    sign: Sign
    is_believed: bool
    """Said by the kernel or NVML; anything else informs and never suffices."""
    is_history_only: bool


@dataclass(slots=True, kw_only=True)
class Device:
    """All runs of one GPU (or of a node, where no GPU is named), in order of time."""

    node: str
    gpu: str
    runs: list[Run] = field(default_factory=list)
    returned_at: datetime | None = None
    """When it came back, or its driver withdrew what it asked for: what it said before is answered."""


@dataclass(slots=True)
class _Raw:
    event: NodeEvent
    first: Event
    last: Event
    first_at: datetime
    last_at: datetime
    lines: int


def devices_of(window: Window, table: XidTable) -> list[Device]:
    """Every GPU (or node) that the window's events speak of, with its runs of the current boot."""
    if not window.events:
        return []
    boots = _current_boots(window)
    uuids = _uuid_by_pci(window)
    devices: dict[tuple[str, str], Device] = {}
    for raw in _collapse(window.events, boots):
        node, event = raw.event.node, raw.first
        gpu = _gpu_of(event, node, uuids)
        device = devices.setdefault((node, gpu), Device(node=node, gpu=gpu))
        run = _run(raw, gpu, table, window.driver_version.get(node))
        if event.kind is EventKind.GPU_RETURNED or (run is not None and run.sign.recovery == 0):
            device.returned_at = max(device.returned_at or raw.last_at, raw.last_at)
        elif run is not None:
            device.runs.append(run)
    for device in devices.values():
        device.runs.sort(key=lambda run: (run.first_at, -run.sign.row.rank))
    return list(devices.values())


def episodes_of(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs in order of time, parted where a minute passed without a line."""
    episodes: list[list[Run]] = []
    ends = None
    for run in runs:
        if ends is None or (run.first_at - ends).total_seconds() > EPISODE_GAP_SECONDS:
            episodes.append([])
            ends = run.last_at
        episodes[-1].append(run)
        ends = max(ends, run.last_at)
    return episodes


def _run(raw: _Raw, gpu: str, table: XidTable, driver: str | None) -> Run | None:
    sign = read_event(raw.first, table, driver=driver)
    if sign is None:
        return None
    return Run(
        node=raw.event.node,
        gpu=gpu,
        first=raw.first,
        last=raw.last,
        first_at=raw.first_at,
        last_at=raw.last_at,
        lines=raw.lines,
        sign=sign,
        is_believed=raw.first.source in _BELIEVED,
        is_history_only=raw.event.is_history_only,
    )


def _collapse(events: Iterable[NodeEvent], boots: Mapping[str, str]) -> list[_Raw]:
    """One pass over all lines: equal ones without a long gap become one. Duplicates by cursor count once."""
    gap = timedelta(seconds=BURST_GAP_SECONDS)
    open_runs: dict[tuple[object, ...], _Raw] = {}
    done: list[_Raw] = []
    seen: set[tuple[str, str, str | None]] = set()
    for item in events:
        event = item.event
        boot = event.boot_id
        if boot and boots.get(item.node, boot) != boot:
            continue
        if event.cursor is not None:
            mark = (item.node, event.cursor, boot)
            if mark in seen:
                continue
            seen.add(mark)
        key = _key(item, event)
        raw, at = open_runs.get(key), event.at
        if raw is None or at > raw.last_at + gap or at < raw.first_at - gap:
            raw = open_runs[key] = _Raw(item, event, event, at, at, event.count)
            done.append(raw)
            continue
        raw.lines += event.count
        if at >= raw.last_at:
            raw.last_at, raw.last = at, event
        elif at < raw.first_at:
            raw.first_at, raw.first = at, event
    return done


def _key(item: NodeEvent, event: Event) -> tuple[object, ...]:
    details = _DETAIL_KEYS.get(event.code or 0)
    detail = None if details is None else tuple(event.details.get(name) for name in details)
    link = event.link if event.kind is EventKind.SXID else None
    place = event.engine if event.code == 13 else event.pid if event.code == 31 else None
    return (item.node, event.gpu, event.pci, event.kind, event.code, event.source, event.severity, item.is_history_only,
            detail, link, place)  # fmt: skip


def _current_boots(window: Window) -> dict[str, str]:
    """Node -> its present boot: as its reports say, else that of its last event."""
    boots = {name: node.boot_id for name, node in window.nodes.items() if node.boot_id}
    latest: dict[str, datetime] = {}
    for item in window.events:
        boot = item.event.boot_id
        if not boot or item.node in window.nodes:
            continue
        if item.node not in latest or item.event.at >= latest[item.node]:
            latest[item.node], boots[item.node] = item.event.at, boot
    return boots


def _uuid_by_pci(window: Window) -> dict[tuple[str, str], str]:
    """(node, PCI address) -> UUID, from readings and from events that carry both; only for nodes with events."""
    nodes = {item.node for item in window.events}
    found = {
        (key.node, pci): key.uuid
        for key, now in window.gpus.items()
        if key.node in nodes and (pci := now.reading.info.pci) is not None
    }
    for item in window.events:
        event = item.event
        if event.gpu is not None and event.pci is not None:
            found.setdefault((item.node, event.pci), event.gpu)
    return found


def _gpu_of(event: Event, node: str, uuids: Mapping[tuple[str, str], str]) -> str:
    if event.kind is EventKind.SXID:
        return ""  # the address is the switch's
    if event.gpu is not None:
        return event.gpu
    return uuids.get((node, event.pci), event.pci) if event.pci else ""


def bursts_by_code(runs: Iterable[Run]) -> Mapping[int | None, list[Run]]:
    """Runs that are bursts of their own (180 s apart), by code; runs that only differ in detail count once."""
    bursts: dict[int | None, list[Run]] = defaultdict(list)
    for run in sorted(runs, key=lambda run: run.first_at):
        known = bursts[run.sign.code]
        if known and (run.first_at - known[-1].last_at).total_seconds() <= BURST_GAP_SECONDS:
            continue
        known.append(run)
    return bursts
