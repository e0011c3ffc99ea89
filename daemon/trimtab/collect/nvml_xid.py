"""XID events as NVML tells them: quick, but it misses some and forgets them; the kernel log is the truth."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pynvml

from trimtab.collect import nvml_door as door

_EVENTS_PER_CALL_MAX = 100
_NO_INSTANCE = 0xFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One XID event; `uuid` is None when the driver no longer knows the GPU it names."""

    code: int
    uuid: str | None
    gi: int | None = None
    ci: int | None = None


class XidEvents:
    """The event set of one opening of the driver."""

    def __init__(self) -> None:
        """Nothing is registered yet."""
        self._set: door.Handle = None
        self._uuid_of: dict[int, str] = {}
        self._is_unsupported = False

    def follow(self, handles: Mapping[str, door.Handle]) -> None:
        """Register the GPUs (UUID -> handle) that are not registered yet. Raises DriverGone."""
        registered = set(self._uuid_of.values())
        for uuid, handle in handles.items():
            if uuid not in registered and not self._is_unsupported:
                self._register(uuid, handle)

    def read(self) -> Iterator[Xid]:
        """All events since the last call, without waiting. Raises NvmlError."""
        if self._set is None:
            return
        for _ in range(_EVENTS_PER_CALL_MAX):
            try:
                data = door.ask("nvmlEventSetWait_v2", self._set, 0)
            except door.NvmlError as error:
                if error.code == pynvml.NVML_ERROR_TIMEOUT:
                    return
                raise
            if data.eventType & pynvml.nvmlEventTypeXidCriticalError:
                yield self._xid(data)

    def close(self) -> None:
        """Give the event set back; a driver that refuses has forgotten it already."""
        event_set, self._set = self._set, None
        self._uuid_of.clear()
        if event_set is None:
            return
        try:
            door.ask("nvmlEventSetFree", event_set)
        except door.NvmlError:
            return

    def _register(self, uuid: str, handle: door.Handle) -> None:
        try:
            if self._set is None:
                self._set = door.ask("nvmlEventSetCreate")
            door.ask("nvmlDeviceRegisterEvents", handle, pynvml.nvmlEventTypeXidCriticalError, self._set)
        except door.DriverGone:
            raise
        except door.Unsupported as error:
            self._is_unsupported = error.code == pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
        except door.NvmlError:
            return  # lost, or refused for now: tried again with the next tick
        self._uuid_of[_address(handle)] = uuid  # also where unsupported, so that it is not asked for every tick

    def _xid(self, data: door.Handle) -> Xid:
        return Xid(
            code=int(data.eventData),
            uuid=self._uuid_of.get(_address(data.device)),
            gi=None if data.gpuInstanceId == _NO_INSTANCE else int(data.gpuInstanceId),
            ci=None if data.computeInstanceId == _NO_INSTANCE else int(data.computeInstanceId),
        )


def _address(handle: door.Handle) -> int:
    """What tells one handle from another: the pointer in it, since the binding makes a new object each time."""
    try:
        return ctypes.cast(handle, ctypes.c_void_p).value or 0
    except (TypeError, ctypes.ArgumentError):
        return id(handle)
