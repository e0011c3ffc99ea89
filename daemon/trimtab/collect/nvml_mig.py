"""The MIG instances of one GPU: ids, profile, memory, and activity where the driver gives it."""

from __future__ import annotations

from collections.abc import Iterator

import pynvml

from trimtab.collect import nvml_door as door
from trimtab.collect.nvml_gpm import Gpm
from trimtab.collect.nvml_reads import memory, memory_v1
from trimtab.collect.units import Sieve
from trimtab.model.reading import MigReading

_NO_INSTANCE = {pynvml.NVML_ERROR_NOT_FOUND, pynvml.NVML_ERROR_INVALID_ARGUMENT}


class MigInstances:
    """Reads the instances of one GPU; keeps GPM samples per GPU instance."""

    def __init__(self) -> None:
        """No instance is known yet."""
        self._gpms: dict[int, Gpm | None] = {}
        self.bad: dict[str, int] = {}
        self.errors: dict[str, str] = {}

    def read(self, handle: door.Handle) -> tuple[MigReading, ...]:
        """All instances; `bad` and `errors` say what could not be read of them. Raises NvmlError."""
        self.bad, self.errors = {}, {}
        found = tuple(self._instance(handle, mig) for mig in _handles(handle))
        gone = set(self._gpms) - {instance.gi for instance in found}
        for gi in gone:
            self._close(gi)
        return found

    def close(self) -> None:
        """Give the samples back to the driver."""
        for gi in list(self._gpms):
            self._close(gi)

    def _instance(self, handle: door.Handle, mig: door.Handle) -> MigReading:
        gi = int(door.ask("nvmlDeviceGetGpuInstanceId", mig))
        ci = int(door.ask("nvmlDeviceGetComputeInstanceId", mig))
        sieve = Sieve()
        self._memory(mig, sieve, f"instance {gi}/{ci} memory")
        self._activity(handle, gi, sieve)
        for key, count in sieve.bad.items():
            self.bad[key] = self.bad.get(key, 0) + count
        return MigReading(gi=gi, ci=ci, profile=_profile(mig), values=sieve.values)

    def _memory(self, mig: door.Handle, sieve: Sieve, name: str) -> None:
        for read in (memory, memory_v1):
            try:
                for key, value in read(mig):
                    sieve.take(key, value)
            except door.Unsupported:
                continue
            except (door.GpuLost, door.DriverGone):
                raise
            except door.NvmlError as error:
                self.errors[name] = str(error)
            return

    def _activity(self, handle: door.Handle, gi: int, sieve: Sieve) -> None:
        gpm = self._gpms.setdefault(gi, Gpm(gi))
        if gpm is None:
            return
        try:
            gpm.read(handle, sieve)
        except door.Unsupported:
            self._close(gi)
            self._gpms[gi] = None
        except (door.GpuLost, door.DriverGone):
            raise
        except door.NvmlError as error:
            self.errors[f"instance {gi} activity"] = str(error)

    def _close(self, gi: int) -> None:
        gpm = self._gpms.pop(gi)
        if gpm is not None:
            gpm.close()


def _handles(handle: door.Handle) -> Iterator[door.Handle]:
    for index in range(int(door.ask("nvmlDeviceGetMaxMigDeviceCount", handle))):
        try:
            yield door.ask("nvmlDeviceGetMigDeviceHandleByIndex", handle, index)
        except (door.GpuLost, door.DriverGone):
            raise
        except door.NvmlError as error:
            if error.code not in _NO_INSTANCE:
                raise


def _profile(mig: door.Handle) -> str | None:
    """`1g.10gb` out of `NVIDIA H100 80GB HBM3 MIG 1g.10gb`."""
    try:
        name: str = door.ask("nvmlDeviceGetName", mig)
    except (door.GpuLost, door.DriverGone):
        raise
    except door.NvmlError:
        return None
    _, marker, profile = name.rpartition("MIG ")
    return profile if marker else None
