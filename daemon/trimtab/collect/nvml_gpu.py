"""Reads one GPU, field by field: what it does not have is learnt once, what fails costs only itself."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from trimtab.clock import Clock
from trimtab.collect import nvml_door as door
from trimtab.collect.nvml_fields import (
    GPU_FIELDS,
    LINK_COUNT,
    OLD_NVLINK_FIELDS,
    FieldBlock,
    link_fields,
    slow_link_fields,
)
from trimtab.collect.nvml_gpm import Gpm
from trimtab.collect.nvml_inventory import DOWN
from trimtab.collect.nvml_mig import MigInstances
from trimtab.collect.nvml_processes import PidName, read_processes
from trimtab.collect.nvml_reads import READS, Read, nvlink_state
from trimtab.collect.units import Sieve
from trimtab.errors import CollectError
from trimtab.model.metric import Cadence
from trimtab.model.reading import GpuInfo, GpuReading, GpuState, MigReading, Process

_LINKS_MAX = 36


@dataclass(slots=True)
class GpuRead:
    """One reading, with the handle it came by, what could not be read and what was dropped."""

    handle: door.Handle
    reading: GpuReading
    errors: dict[str, str] = field(default_factory=dict)
    bad: dict[str, int] = field(default_factory=dict)


def is_mig_on(handle: door.Handle) -> bool:
    """Whether the GPU is split into instances now. Raises GpuLost, DriverGone."""
    mode = _unless_unsupported("nvmlDeviceGetMigMode", handle)
    return mode is not None and mode[0] == 1


class GpuSource:
    """One GPU under one driver, split into instances or not; what it does not support is dropped for good."""

    def __init__(
        self, handle: door.Handle, *, uuid: str, driver: str, is_mig: bool, clock: Clock, slow_seconds: float
    ) -> None:
        """Asks once what the GPU is and how many NVLinks it has. Raises GpuLost, DriverGone."""
        self.driver, self.is_mig = driver, is_mig
        self.born_at_seconds = clock.monotonic_seconds()
        self._clock = clock
        self._slow_seconds = slow_seconds
        self._slow_due_seconds = self.born_at_seconds
        self._info = _identity(handle, uuid, driver, is_mig=is_mig)
        self._links = Sieve()
        links = 0 if is_mig else _count_links(handle, self._links)
        self._fields = FieldBlock((*GPU_FIELDS, *(() if is_mig else OLD_NVLINK_FIELDS), *link_fields(links)))
        self._slow_fields = FieldBlock(slow_link_fields(links))
        reads = [*READS, *(nvlink_state(link) for link in range(links))]
        self._reads = [read for read in reads if read.is_on_mig or not is_mig]
        self._gpm: Gpm | None = None if is_mig else Gpm()
        self._instances = MigInstances()
        self._slow_values: dict[str, float] = {}
        self._processes: tuple[Process, ...] | None = None
        self._has_processes = True

    def read(self, handle: door.Handle, index: int, pid_name: PidName) -> GpuRead:
        """One reading. Raises GpuLost, DriverGone."""
        started = self._clock.monotonic_seconds()
        sieve = Sieve()
        errors = self._fields.read(handle, sieve)
        errors |= self._read_calls(handle, sieve, Cadence.CHEAP)
        self._read_activity(handle, sieve, errors)
        has_answered = bool(sieve.values)
        if started >= self._slow_due_seconds:
            self._slow_due_seconds = started + self._slow_seconds
            self._read_slow(handle, sieve, errors, pid_name)
        instances = self._read_instances(handle, sieve, errors)
        info = self._info_at(index)
        seconds = self._clock.monotonic_seconds() - started
        if not has_answered:
            reading = GpuReading(info=info, state=GpuState.UNREADABLE, values=DOWN)
            return GpuRead(handle, reading, _first(errors), sieve.bad)
        reading = GpuReading(
            info=info,
            values={"up": 1.0, **self._links.values, **self._slow_values, **sieve.values},
            instances=instances,
            processes=self._processes,
            read_seconds=seconds,
        )
        return GpuRead(handle, reading, errors, sieve.bad)

    def close(self) -> None:
        """Give back what the driver holds for us; a driver that refuses has forgotten it already."""
        try:
            if self._gpm is not None:
                self._gpm.close()
            self._instances.close()
        except door.NvmlError:
            self._gpm = None

    def _info_at(self, index: int) -> GpuInfo:
        if self._info.index != index:
            self._info = replace(self._info, index=index)
        return self._info

    def _read_calls(self, handle: door.Handle, sieve: Sieve, *cadences: Cadence) -> dict[str, str]:
        errors: dict[str, str] = {}
        unsupported: list[Read] = []
        for read in self._reads:
            if read.every not in cadences or read.keys <= sieve.values.keys():
                continue
            try:
                for key, value in read.get(handle):
                    sieve.take(key, value)
            except door.Unsupported:
                unsupported.append(read)
            except (door.GpuLost, door.DriverGone):
                raise
            except door.NvmlError as error:
                errors[read.key] = str(error)
        if unsupported:
            self._reads = [read for read in self._reads if read not in unsupported]
        return errors

    def _read_activity(self, handle: door.Handle, sieve: Sieve, errors: dict[str, str]) -> None:
        if self._gpm is None:
            return
        try:
            self._gpm.read(handle, sieve)
        except door.Unsupported:
            self._gpm = None
        except (door.GpuLost, door.DriverGone):
            raise
        except door.NvmlError as error:
            errors["activity"] = str(error)

    def _read_slow(self, handle: door.Handle, fast: Sieve, errors: dict[str, str], pid_name: PidName) -> None:
        """What is read seldom; its values are shown until they are read again."""
        slow = Sieve()
        slow.values.update(fast.values)
        errors |= self._slow_fields.read(handle, slow)
        errors |= self._read_calls(handle, slow, Cadence.STATIC, Cadence.EXPENSIVE)
        self._read_processes(handle, slow, errors, pid_name)
        self._slow_values = {key: value for key, value in slow.values.items() if key not in fast.values}
        for key, count in slow.bad.items():
            fast.bad[key] = fast.bad.get(key, 0) + count

    def _read_processes(self, handle: door.Handle, sieve: Sieve, errors: dict[str, str], pid_name: PidName) -> None:
        self._processes = None
        if not self._has_processes:
            return
        try:
            self._processes = read_processes(handle, pid_name)
            sieve.take("compute_processes", float(len(self._processes)))
        except door.Unsupported:
            self._has_processes = False
        except (door.GpuLost, door.DriverGone):
            raise
        except CollectError as error:
            errors["processes"] = str(error)

    def _read_instances(self, handle: door.Handle, sieve: Sieve, errors: dict[str, str]) -> tuple[MigReading, ...]:
        sieve.take("mig_mode", float(self.is_mig))
        if not self.is_mig:
            return ()
        try:
            found = self._instances.read(handle)
        except (door.GpuLost, door.DriverGone):
            raise
        except door.NvmlError as error:
            errors["instances"] = str(error)
            return ()
        errors |= self._instances.errors
        for key, count in self._instances.bad.items():
            sieve.bad[key] = sieve.bad.get(key, 0) + count
        return found


def _first(errors: dict[str, str]) -> dict[str, str]:
    """One error for the whole GPU where every read failed."""
    text = next(iter(errors.values()), "not one value could be read")
    return {"": f"the driver lists it, and no read succeeds: {text}"}


def _unless_unsupported(call: str, handle: door.Handle) -> door.Handle:
    """The answer of a call about what a GPU is; None where there is none."""
    try:
        return door.ask(call, handle)
    except (door.GpuLost, door.DriverGone):
        raise
    except door.NvmlError:
        return None


def pci_of(handle: door.Handle) -> str | None:
    """The GPU's PCI address, canonical; None where the driver does not say."""
    info = _unless_unsupported("nvmlDeviceGetPciInfo_v3", handle)
    return None if info is None else f"{info.domain:04x}:{info.bus:02x}:{info.device:02x}.0"


def _identity(handle: door.Handle, uuid: str, driver: str, *, is_mig: bool) -> GpuInfo:
    return GpuInfo(
        uuid=uuid,
        pci=pci_of(handle),
        serial=_unless_unsupported("nvmlDeviceGetSerial", handle),
        model=_unless_unsupported("nvmlDeviceGetName", handle),
        minor=_unless_unsupported("nvmlDeviceGetMinorNumber", handle),
        vbios=_unless_unsupported("nvmlDeviceGetVbiosVersion", handle),
        driver=driver,
        is_mig=is_mig,
    )


def _count_links(handle: door.Handle, sieve: Sieve) -> int:
    """How many NVLinks the GPU has: learnt from it, never assumed. A card without a bridge is well with none."""
    FieldBlock((LINK_COUNT,)).read(handle, sieve)
    if LINK_COUNT.key in sieve.values:
        return int(sieve.values[LINK_COUNT.key])
    links = 0
    try:
        while links < _LINKS_MAX:
            door.ask("nvmlDeviceGetNvLinkState", handle, links)
            links += 1
    except (door.GpuLost, door.DriverGone):
        raise
    except door.NvmlError:
        pass  # the first link that it does not have ends the count
    if links:
        sieve.take(LINK_COUNT.key, float(links))
    return links
