"""The NVML collector: every GPU of this node, each on its own; a lost or hung one never costs the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from trimtab.clock import Clock
from trimtab.collect import nvml_door as door
from trimtab.collect.collector import Section
from trimtab.collect.nvml_deadline import Answer, DirectReader, Reader, ThreadReader
from trimtab.collect.nvml_gpu import GpuRead, GpuSource, is_mig_on
from trimtab.collect.nvml_inventory import DOWN, Inventory
from trimtab.collect.nvml_processes import PidName, process_name
from trimtab.collect.nvml_xid import Xid, XidEvents
from trimtab.model.reading import Event, EventKind, EventSource, GpuInfo, GpuReading, GpuState

log = structlog.get_logger()

DEADLINE_SECONDS = 2.0
"""A read takes a few milliseconds; a driver under a storm of correctable errors was seen to block for 45 s."""
RELEARN_SECONDS = 3600.0
"""What a GPU does not support is asked for again this seldom: a GPU in trouble refuses more than it lacks."""
_RETRY_SECONDS_MIN, _RETRY_SECONDS_MAX = 5.0, 60.0
_DRIVER, _EVENTS = "driver", "events"


def reader_with_deadline(clock: Clock) -> Reader:
    """The reader for a real driver."""
    return ThreadReader(deadline_seconds=DEADLINE_SECONDS, clock=clock)


@dataclass(frozen=True, slots=True)
class _Listing:
    driver: str
    count: int


@dataclass(slots=True)
class _Tick:
    """What one tick gathers."""

    gpus: list[GpuReading] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)


class NvmlCollector:
    """Reads all GPUs of one node. All its NVML calls happen inside `collect`; no handle outlives a tick."""

    def __init__(
        self,
        *,
        clock: Clock,
        inventory: Inventory,
        reader: Reader | None = None,
        library: str = "",
        slow_seconds: float = 60.0,
        pid_name: PidName = process_name,
        before_tick: Callable[[], None] = lambda: None,
        source: str = "nvml",
    ) -> None:
        """`before_tick` runs first in each `collect`: a stand-in for many nodes is told there whose turn it is."""
        self._clock = clock
        self._inventory = inventory
        self._reader = reader or DirectReader()
        self._library = library
        self._slow_seconds = slow_seconds
        self._pid_name = pid_name
        self._before_tick = before_tick
        self._source = source
        self._sources: dict[str, GpuSource] = {}
        self._xids = XidEvents()
        self._is_open = False
        self._driver: str | None = None
        self._last_error = ""
        self._retry_at_seconds = 0.0
        self._retry_seconds = _RETRY_SECONDS_MIN

    def collect(self) -> Section:
        """All GPUs. A driver that is missing or gone is an error in the section, and is tried again."""
        self._before_tick()
        listing = self._listed()
        if isinstance(listing, str):
            return self._blind(listing)
        tick = _Tick()
        tick.events += self._noticed_driver(listing.driver)
        answers = self._reader.answers({index: self._read_of(index, listing) for index in range(listing.count)})
        if any(isinstance(answer.error, door.DriverGone) for answer in answers.values()):
            self._close()
            return self._blind(next(str(a.error) for a in answers.values() if isinstance(a.error, door.DriverGone)))
        for index, answer in answers.items():
            self._take(index, answer, tick)
        self._read_events(tick, [answer.value for answer in answers.values() if answer.value is not None])
        return self._settled(listing, tick)

    def close(self) -> None:
        """Give everything back to the driver, so that it can be reset or unloaded."""
        self._close()

    # --- the driver as a whole

    def _listed(self) -> _Listing | str:
        """Driver version and GPU count, or why there are none."""
        if not self._is_open and self._clock.monotonic_seconds() < self._retry_at_seconds:
            return self._last_error
        answer = self._reader.answers({_DRIVER: self._list})[_DRIVER]
        if answer.silent_seconds is not None:
            return f"NVML does not answer since {answer.silent_seconds:.0f} s"
        if answer.value is None:
            self._close()
            self._back_off(str(answer.error))
            return self._last_error
        if self._driver not in (None, answer.value.driver) and self._is_open and not self._reader.is_waiting():
            self._close()
            return self._listed()
        self._retry_seconds = _RETRY_SECONDS_MIN
        return answer.value

    def _list(self) -> _Listing:
        if not self._is_open:
            door.load(self._library)
            door.ask("nvmlInit")
            self._is_open = True
        return _Listing(door.ask("nvmlSystemGetDriverVersion"), int(door.ask("nvmlDeviceGetCount")))

    def _back_off(self, error: str) -> None:
        if error != self._last_error:
            log.warning("NVML cannot be read; it is tried again", error=error)
        self._last_error = error
        self._retry_at_seconds = self._clock.monotonic_seconds() + self._retry_seconds
        self._retry_seconds = min(self._retry_seconds * 2, _RETRY_SECONDS_MAX)

    def _close(self) -> None:
        """Forget all that belongs to this opening of the driver; what a hung call still uses is left to it."""
        was_open, self._is_open = self._is_open, False
        self._driver = None
        sources, self._sources = self._sources, {}
        if not was_open or self._reader.is_waiting():
            self._xids = XidEvents()
            return
        self._reader.answers({_DRIVER: lambda: self._shut(list(sources.values()))})

    def _shut(self, sources: list[GpuSource]) -> None:
        for source in sources:
            source.close()
        self._xids.close()
        door.ask("nvmlShutdown")

    def _noticed_driver(self, driver: str) -> tuple[Event, ...]:
        self._driver = driver
        return self._inventory.driver_events(driver, self._clock.now())

    def _blind(self, error: str) -> Section:
        """Without the driver nothing is claimed of GPUs never seen in this run, and known ones are unreadable."""
        known = self._inventory.gpus if self._inventory.has_settled else ()
        return Section(
            source=self._source,
            gpus=tuple(GpuReading(info=info, state=GpuState.UNREADABLE, values=DOWN) for info in known),
            gpus_expected=self._inventory.gpus_seen or None,
            errors={"nvml": error},
        )

    # --- one GPU

    def _read_of(self, index: int, listing: _Listing) -> Callable[[], GpuRead]:
        return lambda: self._read(index, listing.driver)

    def _read(self, index: int, driver: str) -> GpuRead:
        handle = door.handle_at(index)
        uuid: str = door.ask("nvmlDeviceGetUUID", handle)
        is_mig = is_mig_on(handle)
        source = self._sources.get(uuid)
        if source is None or self._is_outdated(source, driver, is_mig=is_mig):
            if source is not None:
                source.close()
            source = self._sources[uuid] = GpuSource(
                handle, uuid=uuid, driver=driver, is_mig=is_mig, clock=self._clock, slow_seconds=self._slow_seconds
            )
        return source.read(handle, index, self._pid_name)

    def _is_outdated(self, source: GpuSource, driver: str, *, is_mig: bool) -> bool:
        age_seconds = self._clock.monotonic_seconds() - source.born_at_seconds
        return (source.driver, source.is_mig) != (driver, is_mig) or age_seconds > RELEARN_SECONDS

    def _take(self, index: int, answer: Answer[GpuRead], tick: _Tick) -> None:
        if answer.value is not None:
            self._take_read(index, answer.value, tick)
            return
        info = self._inventory.at_index(index)  # what stands at an index that fails now: what stood there last
        if answer.silent_seconds is not None:
            text, state = f"GPU {index} does not answer since {answer.silent_seconds:.0f} s", GpuState.UNREADABLE
        else:
            text, state = f"GPU {index}: {answer.error}", _state_of(answer.error)
        tick.errors[f"gpu {index}"] = text
        if info is not None:
            tick.gpus.append(GpuReading(info=info, state=state, values=DOWN))
            if state is GpuState.LOST:
                self._sources.pop(info.uuid, None)

    def _take_read(self, index: int, read: GpuRead, tick: _Tick) -> None:
        tick.gpus.append(read.reading)
        for name, text in read.errors.items():
            tick.errors[f"gpu {index} {name}".strip()] = text
        for key, count in read.bad.items():
            tick.bad[key] = tick.bad.get(key, 0) + count

    # --- events and the whole

    def _read_events(self, tick: _Tick, reads: Sequence[GpuRead]) -> None:
        def read() -> list[Xid]:
            self._xids.follow({gpu.reading.uuid: gpu.handle for gpu in reads})
            return list(self._xids.read())

        answer = self._reader.answers({_EVENTS: read})[_EVENTS]
        if answer.value is None:
            tick.errors["nvml events"] = str(answer.error or f"no answer since {answer.silent_seconds:.0f} s")
            return
        infos = {gpu.uuid: gpu.info for gpu in tick.gpus}
        tick.events += [self._event(xid, infos) for xid in answer.value]

    def _event(self, xid: Xid, infos: Mapping[str, GpuInfo]) -> Event:
        info = infos.get(xid.uuid or "")
        where = "an unknown GPU" if info is None else f"GPU {info.index} ({info.pci})"
        return Event(
            kind=EventKind.XID,
            source=EventSource.NVML,
            at=self._clock.now(),
            code=xid.code,
            gpu=xid.uuid,
            pci=None if info is None else info.pci,
            gi=xid.gi,
            details={} if xid.ci is None else {"ci": str(xid.ci)},
            text=f"NVML event: XID {xid.code} on {where}",
        )

    def _settled(self, listing: _Listing, tick: _Tick) -> Section:
        gpus, events = self._inventory.settle(tick.gpus, self._clock.now())
        self._inventory.keep()
        return Section(
            source=self._source,
            driver=listing.driver,
            gpus=gpus,
            gpus_expected=max(self._inventory.gpus_seen, listing.count),
            events=(*tick.events, *events),
            errors=tick.errors,
            bad_samples=tick.bad,
        )


def _state_of(error: Exception | None) -> GpuState:
    """Lost when the driver says so, or when a GPU that is known has no handle any more."""
    return GpuState.LOST if isinstance(error, (door.GpuLost, door.NoHandle)) else GpuState.UNREADABLE


def node_inventory(state_directory: Path | None, boot_id: str) -> Inventory:
    """The inventory of this node, kept beside the agent's spool; None = in memory only."""
    return Inventory(path=None if state_directory is None else state_directory / "gpus.json", boot_id=boot_id)
