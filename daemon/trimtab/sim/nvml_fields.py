"""Field values of the stand-in driver: what an H100 answers to `nvmlDeviceGetFieldValues`, packed in one pass."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.sim.physics import NVLINKS, POWER_LIMIT_WATTS, Telemetry

_SUCCESS, _NOT_SUPPORTED = 0, 3
_UINT, _ULONGLONG = 1, 3
_ROW = struct.Struct("<IIqqiiQ")  # fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value
_VALUE_AT = 32
_ALL_LINKS = 0xFFFFFFFF
_PLANS_MAX = 256

Get = Callable[[Telemetry, int], int]

_LIMIT_MILLIWATTS = int(POWER_LIMIT_WATTS * 1000)

_CHANGING: dict[int, Get] = {
    82: lambda now, gpu: now.memory_temperature_celsius[gpu],
    185: lambda now, gpu: now.power_milliwatts[gpu],
    186: lambda now, gpu: now.power_milliwatts[gpu],
    83: lambda now, gpu: now.energy_millijoules[gpu],
    3: lambda now, gpu: now.ecc_corrected[gpu],
    5: lambda now, gpu: now.ecc_corrected[gpu],
    74: lambda now, gpu: now.power_cap_ns[gpu],
    75: lambda now, gpu: now.hw_thermal_ns[gpu],
    270: lambda now, gpu: now.hw_thermal_ns[gpu],
    197: lambda now, gpu: now.pcie_transmit_bytes[gpu],
    198: lambda now, gpu: now.pcie_receive_bytes[gpu],
}
"""Fields of a GPU that move."""

_STILL: dict[int, int] = {
    190: _LIMIT_MILLIWATTS,
    189: _LIMIT_MILLIWATTS,
    91: NVLINKS,
    **dict.fromkeys((4, 6, 142, 143, 144, 145, 230, 76, 269, 271, 77, 78, 79, 94, 173, 169, *range(174, 183)), 0),
}
"""Fields of a healthy GPU that stand still."""

_LINK_BYTES = (138, 139)
_LINK_STILL: dict[int, int] = {165: 1, 163: 0, 161: 0, 162: 0}


@dataclass(frozen=True, slots=True)
class _Plan:
    """How to answer one array of questions: a prepared answer, and what of it is to be filled in."""

    answer: bytes
    changing: tuple[tuple[int, Get], ...]
    links: tuple[tuple[int, int], ...]
    """Offset, and by how much the sum over all links is to be divided."""


class FieldValues:
    """Answers arrays of field values. The same question is taken apart once."""

    def __init__(self) -> None:
        """No question seen yet."""
        self._plans: dict[bytes, _Plan] = {}

    def fill(self, now: Telemetry, column: int, address: int, count: int) -> None:
        """Write the answers of one GPU over the questions at `address`."""
        size = count * _ROW.size
        asked = ctypes.string_at(address, size)
        plan = self._plans.get(asked)
        if plan is None:
            plan = self._learn(asked)
        answer = bytearray(plan.answer)
        for offset, get in plan.changing:
            answer[offset : offset + 8] = get(now, column).to_bytes(8, "little")
        if plan.links:
            total = now.nvlink_kib[column]
            shares = {parts: (total // parts).to_bytes(8, "little") for parts in (1, NVLINKS)}
            for offset, parts in plan.links:
                answer[offset : offset + 8] = shares[parts]
        ctypes.memmove(address, (ctypes.c_char * size).from_buffer(answer), size)

    def _learn(self, asked: bytes) -> _Plan:
        answer = bytearray(asked)
        changing: list[tuple[int, Get]] = []
        links: list[tuple[int, int]] = []
        for row, (field, scope, *_) in enumerate(_ROW.iter_unpack(asked)):
            offset = row * _ROW.size + _VALUE_AT
            code, kind, value = _still(field, scope)
            if field in _CHANGING:
                changing.append((offset, _CHANGING[field]))
                code, kind = _SUCCESS, _ULONGLONG
            elif field in _LINK_BYTES and (scope < NVLINKS or scope == _ALL_LINKS):
                links.append((offset, 1 if scope == _ALL_LINKS else NVLINKS))
                code, kind = _SUCCESS, _ULONGLONG
            _ROW.pack_into(answer, row * _ROW.size, field, scope, 0, 0, kind, code, value)
        plan = _Plan(bytes(answer), tuple(changing), tuple(links))
        if len(self._plans) < _PLANS_MAX:
            self._plans[asked] = plan
        return plan


def _still(field: int, scope: int) -> tuple[int, int, int]:
    """Return code, value type and value of a field that does not move."""
    if field in _STILL:
        return _SUCCESS, _UINT, _STILL[field]
    if field in _LINK_STILL and scope < NVLINKS:
        return _SUCCESS, _UINT, _LINK_STILL[field]
    return _NOT_SUPPORTED, _UINT, 0
