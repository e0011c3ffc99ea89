"""Which GPUs this node has had: tells a lost GPU from one that never was, a swapped part from a new one."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import msgspec
import structlog

from trimtab.model.reading import Event, EventKind, EventSource, GpuInfo, GpuReading, GpuState

log = structlog.get_logger()

DOWN = {"up": 0.0}


@dataclass
class _Memory:
    """What is kept on disk. `gpus` and `lost` are of this boot; `slots` outlives it, since parts are swapped cold."""

    boot_id: str = ""
    driver: str | None = None
    gpus: dict[str, GpuInfo] = field(default_factory=dict)
    lost: list[str] = field(default_factory=list)
    slots: dict[str, str] = field(default_factory=dict)


class Inventory:
    """Remembers GPUs by UUID and slot over restarts of the agent, and says each change once."""

    def __init__(self, *, path: Path | None, boot_id: str) -> None:
        """`path` is the file to keep it in; None = only in memory. A boot starts the count of GPUs anew."""
        self._path = path
        self._memory = _read(path)
        if self._memory.boot_id != boot_id:
            self._memory = replace(self._memory, boot_id=boot_id, gpus={}, lost=[])
        self._written = msgspec.json.encode(self._memory)
        self.has_settled = False
        """Whether the driver was read in this run."""

    @property
    def gpus_seen(self) -> int:
        """The most GPUs seen since boot."""
        return len(self._memory.gpus)

    @property
    def gpus(self) -> tuple[GpuInfo, ...]:
        """Every GPU seen since boot, by index."""
        return tuple(sorted(self._memory.gpus.values(), key=lambda info: (info.index is None, info.index)))

    def at_index(self, index: int) -> GpuInfo | None:
        """The GPU that was last read at this index; indexes move when a driver starts without a lost GPU."""
        there = [info for info in self._memory.gpus.values() if info.index == index]
        return min(there, key=lambda info: info.uuid in self._memory.lost, default=None)

    def driver_events(self, driver: str, at: datetime) -> tuple[Event, ...]:
        """The change of driver version, once; nothing on the first sight of a driver."""
        before, self._memory.driver = self._memory.driver, driver
        if before in (None, driver):
            return ()
        return (
            Event(
                kind=EventKind.DRIVER_CHANGED,
                source=EventSource.NVML,
                at=at,
                details={"from": before or "", "to": driver},
                text=f"The driver changed from {before} to {driver}",
            ),
        )

    def settle(self, readings: Sequence[GpuReading], at: datetime) -> tuple[tuple[GpuReading, ...], tuple[Event, ...]]:
        """The readings with the missing GPUs added as lost, and what changed since the last time."""
        self.has_settled = True
        events = [event for reading in readings if (event := self._take(reading, at)) is not None]
        read = {reading.uuid for reading in readings}
        missing = [info for info in self.gpus if info.uuid not in read]
        whole = (*readings, *(GpuReading(info=info, state=GpuState.LOST, values=DOWN) for info in missing))
        events += [event for reading in whole if (event := self._lost_or_back(reading, at)) is not None]
        return whole, tuple(events)

    def keep(self) -> None:
        """Write to disk what has changed; a disk that refuses costs the memory over a restart, not the report."""
        encoded = msgspec.json.encode(self._memory)
        if self._path is None or encoded == self._written:
            return
        self._written = encoded
        scratch = self._path.with_suffix(".new")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_bytes(encoded)
            os.replace(scratch, self._path)  # noqa: PTH105 - the atomic one
        except OSError as error:
            log.warning("the list of GPUs seen could not be kept", path=str(self._path), error=str(error))

    def _take(self, reading: GpuReading, at: datetime) -> Event | None:
        """Remember a GPU that was read; a new UUID in a slot means that the part was swapped."""
        if reading.state is GpuState.LOST:
            return None
        memory, info = self._memory, reading.info
        memory.gpus[info.uuid] = info
        if info.pci is None:
            return None
        before = memory.slots.get(info.pci)
        memory.slots[info.pci] = info.uuid
        if before in (None, info.uuid):
            return None
        self._forget(before or "")
        return Event(
            kind=EventKind.UUID_CHANGED,
            source=EventSource.NVML,
            at=at,
            gpu=info.uuid,
            pci=info.pci,
            details={"from": before or "", "to": info.uuid},
            text=f"Slot {info.pci} held {before} and now holds {info.uuid}",
        )

    def _forget(self, uuid: str) -> None:
        self._memory.gpus.pop(uuid, None)
        if uuid in self._memory.lost:
            self._memory.lost.remove(uuid)

    def _lost_or_back(self, reading: GpuReading, at: datetime) -> Event | None:
        lost, uuid = self._memory.lost, reading.uuid
        if reading.state is GpuState.LOST and uuid not in lost:
            lost.append(uuid)
            return _event(EventKind.GPU_LOST, reading, at, "no longer answers: it is lost to the driver")
        if reading.state is GpuState.OK and uuid in lost:
            lost.remove(uuid)
            return _event(EventKind.GPU_RETURNED, reading, at, "answers again")
        return None


def _event(kind: EventKind, reading: GpuReading, at: datetime, text: str) -> Event:
    info = reading.info
    return Event(
        kind=kind,
        source=EventSource.NVML,
        at=at,
        gpu=info.uuid,
        pci=info.pci,
        text=f"GPU {info.index} ({info.uuid}, {info.pci}) {text}",
    )


def _read(path: Path | None) -> _Memory:
    if path is None:
        return _Memory()
    try:
        return msgspec.json.decode(path.read_bytes(), type=_Memory)
    except FileNotFoundError:
        return _Memory()
    except (OSError, msgspec.DecodeError) as error:
        log.warning("the list of GPUs seen could not be read; it starts anew", path=str(path), error=str(error))
        return _Memory()
