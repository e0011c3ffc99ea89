"""Devices that come back again and again, and what a vendor asks for before one is sent in. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trimtab.model.advice import OpenFinding, worst
from trimtab.model.command import Command, CommandState
from trimtab.model.digest import Dossier, DossierEvent
from trimtab.model.oncall import Incident
from trimtab.model.reading import EventKind, EventSource, GpuReading
from trimtab.model.window import NodeEvent, Window
from trimtab.show.digest.count import real

INCIDENTS_MIN = 2
"""A second incident within the stretch makes a repeat offender."""
OFFENDERS_MAX = 20
EVENTS_MAX = 40
"""The newest lines; how many more there were is said."""
HEALTH = (
    "ecc_errors_aggregate",
    "ecc_errors_total",
    "remapped_rows",
    "row_remap_pending",
    "row_remap_failed",
    "sram_ecc_threshold_exceeded",
    "retired_pages",
    "retired_pages_pending",
    "recovery_action",
    "pcie_replay_total",
)
_SAID = (EventKind.XID, EventKind.SXID, EventKind.FALLEN_OFF, EventKind.RM_INIT, EventKind.RESET_REQUIRED)
_LIFE = (EventKind.GPU_LOST, EventKind.GPU_RETURNED, EventKind.UUID_CHANGED, EventKind.BOOT)

Device = tuple[str, str]
"""Node and GPU; "" = the node as a whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of devices besides their incidents."""

    findings: Sequence[OpenFinding] = ()
    events: Sequence[NodeEvent] = ()
    commands: Sequence[Command] = ()
    window: Window | None = None


def offenders(incidents: Iterable[Incident], known: Known) -> tuple[Dossier, ...]:
    """Devices with at least two incidents, the worst first."""
    by_device: dict[Device, list[Incident]] = {}
    for incident in real(incidents):
        if incident.subject.node:
            by_device.setdefault((incident.subject.node, incident.subject.gpu or ""), []).append(incident)
    found = [_dossier(device, of, known) for device, of in by_device.items() if len(of) >= INCIDENTS_MIN]
    found.sort(key=lambda one: (-one.worst_action.rank, -one.incidents, one.node, one.gpu))
    return tuple(found[:OFFENDERS_MAX])


def _dossier(device: Device, incidents: Sequence[Incident], known: Known) -> Dossier:
    node, gpu = device
    reading = _reading(device, known.window)
    info = reading.info if reading is not None else None
    pci = info.pci if info is not None else None
    said = [one for one in known.events if one.node == node and _is_of(one, gpu, pci)]
    mine = [one for one in known.findings if (one.finding.subject.node, one.finding.subject.gpu or "") == device]
    drivers = known.window.driver_version if known.window is not None else {}
    driver = drivers.get(node) or (info.driver if info else None)
    return Dossier(
        node=node,
        gpu=gpu,
        model=(info.model if info else None) or "",
        serial=(info.serial if info else None) or "",
        pci=pci or "",
        driver=driver or "",
        vbios=(info.vbios if info else None) or "",
        incidents=len(incidents),
        events=tuple(_line(one) for one in said[-EVENTS_MAX:]),
        events_left_out=max(len(said) - EVENTS_MAX, 0),
        health=_health(reading),
        tried=_tried(node, known.commands),
        worst_action=worst([one.finding.action for one in mine] or [one.action for one in incidents]),
    )


def _reading(device: Device, window: Window | None) -> GpuReading | None:
    if window is None or not device[1]:
        return None
    return next(
        (now.reading for key, now in window.gpus.items() if (key.node, key.uuid) == device),
        None,
    )


def _is_of(event: NodeEvent, gpu: str, pci: str | None) -> bool:
    """Lines about the device; of a node as a whole all of them. What a program may have written is no evidence."""
    said = event.event
    if said.source is EventSource.USERSPACE or said.kind not in (*_SAID, *_LIFE):
        return False
    if not gpu:
        return True
    return said.gpu == gpu or (said.gpu is None and pci is not None and said.pci == pci)


def _line(event: NodeEvent) -> DossierEvent:
    said = event.event
    return DossierEvent(at=said.at, kind=said.kind.value, code=said.code, text=said.text, count=said.count)


def _health(reading: GpuReading | None) -> Mapping[str, float]:
    if reading is None:
        return {}
    return {key: value for key, value in sorted(reading.values.items()) if key.partition("/")[0] in HEALTH}


def _tried(node: str, commands: Sequence[Command]) -> tuple[str, ...]:
    done = [
        one
        for one in commands
        if not one.is_dry and one.recommendation.subject.node == node and one.state is CommandState.SETTLED
    ]
    return tuple(f"{one.changed_at:%Y-%m-%d %H:%M}Z {one.name}: {one.recommendation.sentence}" for one in done)
