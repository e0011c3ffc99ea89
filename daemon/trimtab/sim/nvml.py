"""A stand-in for `pynvml.nvmlLib` without a compiler: many nodes in one process, each thread on the one it selected.

Handles name node and GPU themselves, so only calls without a handle depend on `select`. Functions keep their identity,
since the binding caches them by name.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from typing import Any

from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.fleet import CUDA_DRIVER_VERSION, DRIVER_VERSION, GPU_MODEL, SimNode
from trimtab.sim.nvml_fields import FieldValues
from trimtab.sim.physics import (
    CLOCK_MAX_MHZ,
    MEMORY_CLOCK_MHZ,
    MEMORY_RESERVED_BYTES,
    MEMORY_TOTAL_BYTES,
    NVLINKS,
    POWER_LIMIT_WATTS,
    SLOWDOWN_CELSIUS,
    Telemetry,
)

SUCCESS, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE, TIMEOUT, GPU_IS_LOST = 0, 3, 6, 7, 10, 15
INVALID_ARGUMENT = 2

Pointer = Any
"""What ctypes hands over: a handle, a byref, a buffer or a number object."""

_FIRST_PID = 20_000
_SM_CLOCKS = (0, 1)  # graphics, SM
_GPM_PERCENT: dict[int, Callable[[Telemetry, int], float]] = {
    1: lambda now, gpu: now.utilization_percent[gpu] / 100,
    2: lambda now, gpu: now.sm_active[gpu],
    3: lambda now, gpu: now.sm_occupancy[gpu],
    5: lambda now, gpu: now.tensor_active[gpu],
    10: lambda now, gpu: now.dram_active[gpu],
    11: lambda now, gpu: 0.0,  # noqa: ARG005 - no job of this cluster computes in 64 bits
    12: lambda now, gpu: now.sm_active[gpu] * 0.12,
    13: lambda now, gpu: now.sm_active[gpu] * 0.08,
}
_GPM_BYTES_PER_SECOND: dict[int, Callable[[Telemetry, int], float]] = {
    20: lambda now, gpu: now.pcie_bytes_per_second[gpu] * 0.3,
    21: lambda now, gpu: now.pcie_bytes_per_second[gpu],
    60: lambda now, gpu: now.nvlink_bytes_per_second[gpu],
    61: lambda now, gpu: now.nvlink_bytes_per_second[gpu],
}
_MEBI = 1024 * 1024


class SimNvml:
    """The library object. Hand it to the collector's door; call `select` before a node's tick."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        """No node is selected on any thread yet."""
        self._cluster = cluster
        self._columns = len(cluster.node_list) * len(cluster.node_list[0].gpus)
        self._chosen = threading.local()
        self._fields = FieldValues()
        self._numbers = itertools.count(1)
        self._samples: dict[int, tuple[int, Telemetry]] = {}
        for name, function in self._functions().items():
            setattr(self, name, function)

    def select(self, node: str) -> None:
        """From now on this thread is on that node."""
        self._chosen.node = self._cluster.nodes[node]

    def process_name(self, pid: int) -> str | None:
        """The name of a process that the stand-in lists; None for any other pid."""
        column = pid - _FIRST_PID
        if not 0 <= column < self._columns or self._holder(column) is None:
            return None
        return "python3"

    def __getattr__(self, name: str) -> Callable[..., int]:
        """Any other function of the library: an H100 that does not support it."""
        if not name.startswith("nvml"):
            raise AttributeError(name)
        return _not_supported

    def _functions(self) -> dict[str, Callable[..., int]]:
        whole: dict[str, Callable[..., int]] = {
            "nvmlInitWithFlags": _succeed,
            "nvmlShutdown": _succeed,
            "nvmlSystemGetDriverVersion": _text_of(DRIVER_VERSION),
            "nvmlSystemGetNVMLVersion": _text_of(f"12.{DRIVER_VERSION}"),
            "nvmlSystemGetCudaDriverVersion_v2": _value_of(CUDA_DRIVER_VERSION),
            "nvmlDeviceGetCount_v2": self._count,
            "nvmlDeviceGetHandleByIndex_v2": self._handle,
            "nvmlEventSetCreate": self._new,
            "nvmlEventSetFree": _succeed,
            "nvmlEventSetWait_v2": _no_event,
            "nvmlGpmSampleAlloc": self._new,
            "nvmlGpmSampleFree": self._free_sample,
            "nvmlGpmMetricsGet": self._gpm_metrics,
        }
        return whole | {name: self._on_gpu(answer) for name, answer in self._gpu_functions().items()}

    def _gpu_functions(self) -> dict[str, Callable[..., int]]:
        """Functions whose first argument is a GPU: they are handed the telemetry and the GPU's column."""
        limit = int(POWER_LIMIT_WATTS * 1000)
        return {
            "nvmlDeviceGetUUID": lambda _, gpu, buffer, size: _put_text(buffer, self._gpu(gpu).uuid, size),
            "nvmlDeviceGetSerial": lambda _, gpu, buffer, size: _put_text(buffer, self._gpu(gpu).serial, size),
            "nvmlDeviceGetName": lambda _, __, buffer, size: _put_text(buffer, GPU_MODEL, size),
            "nvmlDeviceGetVbiosVersion": lambda _, __, buffer, size: _put_text(buffer, "96.00.89.00.01", size),
            "nvmlDeviceGetMinorNumber": lambda _, gpu, out: _put(out, self._gpu(gpu).index),
            "nvmlDeviceGetIndex": lambda _, gpu, out: _put(out, self._gpu(gpu).index),
            "nvmlDeviceGetPciInfo_v3": self._pci_info,
            "nvmlDeviceGetMigMode": lambda _, __, current, pending: _put(current, 0) or _put(pending, 0),
            "nvmlDeviceGetFieldValues": self._field_values,
            "nvmlDeviceGetUtilizationRates": _utilization,
            "nvmlDeviceGetEncoderUtilization": lambda _, __, out, period: _put(out, 0) or _put(period, 1000),
            "nvmlDeviceGetDecoderUtilization": lambda _, __, out, period: _put(out, 0) or _put(period, 1000),
            "nvmlDeviceGetMemoryInfo": _memory,
            "nvmlDeviceGetMemoryInfo_v2": _memory_v2,
            "nvmlDeviceGetTemperatureV": _temperature_v,
            "nvmlDeviceGetTemperature": lambda now, gpu, _, out: _put(out, now.temperature_celsius[gpu]),
            "nvmlDeviceGetTemperatureThreshold": lambda _, __, ___, out: _put(out, int(SLOWDOWN_CELSIUS)),
            "nvmlDeviceGetMarginTemperature": _margin,
            "nvmlDeviceGetPowerUsage": lambda now, gpu, out: _put(out, now.power_milliwatts[gpu]),
            "nvmlDeviceGetEnforcedPowerLimit": lambda _, __, out: _put(out, limit),
            "nvmlDeviceGetPowerManagementDefaultLimit": lambda _, __, out: _put(out, limit),
            "nvmlDeviceGetTotalEnergyConsumption": lambda now, gpu, out: _put(out, now.energy_millijoules[gpu]),
            "nvmlDeviceGetClockInfo": _clock,
            "nvmlDeviceGetMaxClockInfo": lambda _, __, kind, out: _put(out, _max_clock(kind)),
            "nvmlDeviceGetPerformanceState": lambda now, gpu, out: _put(out, 0),  # noqa: ARG005 - H100: always P0
            "nvmlDeviceGetCurrentClocksEventReasons": lambda now, gpu, out: _put(out, now.clock_event_bits[gpu]),
            "nvmlDeviceGetPcieReplayCounter": lambda _, __, out: _put(out, 0),
            "nvmlDeviceGetCurrPcieLinkGeneration": lambda _, __, out: _put(out, 5),
            "nvmlDeviceGetMaxPcieLinkGeneration": lambda _, __, out: _put(out, 5),
            "nvmlDeviceGetCurrPcieLinkWidth": lambda _, __, out: _put(out, 16),
            "nvmlDeviceGetMaxPcieLinkWidth": lambda _, __, out: _put(out, 16),
            "nvmlDeviceGetNvLinkState": lambda _, __, link, out: _link_state(link, out),
            "nvmlDeviceGetTotalEccErrors": _ecc,
            "nvmlDeviceGetRemappedRows": lambda _, __, *outs: _put_all(outs, 0),
            "nvmlDeviceGetRowRemapperHistogram": _remap_banks,
            "nvmlDeviceGetSramEccErrorStatus": lambda _, __, out: SUCCESS,  # noqa: ARG005 - all counts stay 0
            "nvmlDeviceGetGpuFabricInfoV": _fabric,
            "nvmlDeviceGetComputeRunningProcesses_v3": self._processes,
            "nvmlDeviceRegisterEvents": _succeed,
            "nvmlGpmQueryDeviceSupport": lambda _, __, out: _put_field(out, "isSupportedDevice", 1),
            "nvmlGpmSampleGet": self._gpm_sample,
        }

    def _on_gpu(self, answer: Callable[..., int]) -> Callable[..., int]:
        """The function as the binding calls it: by handle, and only while the GPU is on the bus."""

        def call(handle: Pointer, *arguments: Pointer) -> int:
            column = _address(handle) - 1
            if not 0 <= column < self._columns:
                return INVALID_ARGUMENT
            node, gpu = self._cluster.gpu_of_column(column)
            if node.lost and node.is_lost(gpu.index):
                return GPU_IS_LOST
            return answer(self._cluster.telemetry, column, *arguments)

        return call

    def _node(self) -> SimNode:
        node: SimNode | None = getattr(self._chosen, "node", None)
        if node is None:
            raise RuntimeError("select(node) comes before the first call on a thread")
        return node

    def _gpu(self, column: int) -> Any:  # noqa: ANN401 - SimGpu, inside lambdas
        return self._cluster.gpu_of_column(column)[1]

    def _holder(self, column: int) -> str | None:
        jobs = list(self._cluster.jobs.values())
        return next((job.id for job in jobs if job.holds_gpus and column in job.columns), None)

    def _count(self, out: Pointer) -> int:
        return _put(out, len(self._node().gpus))

    def _handle(self, index: Pointer, out: Pointer) -> int:
        node, number = self._node(), _int(index)
        if number >= len(node.gpus):
            return INVALID_ARGUMENT
        if node.is_lost(number):
            return GPU_IS_LOST
        return _put_address(out, node.gpus[number].column + 1)

    def _new(self, out: Pointer) -> int:
        return _put_address(out, next(self._numbers))

    def _pci_info(self, _: Telemetry, column: int, out: Pointer) -> int:
        pci = self._gpu(column).pci
        info = _object(out)
        info.domain, info.bus, info.device = int(pci[:4], 16), int(pci[5:7], 16), int(pci[8:10], 16)
        info.busId = f"0000{pci}".upper().encode()
        info.pciDeviceId = 0x233010DE
        return SUCCESS

    def _field_values(self, now: Telemetry, column: int, count: Pointer, values: Pointer) -> int:
        self._fields.fill(now, column, ctypes.addressof(_object(values)), _int(count))
        return SUCCESS

    def _processes(self, now: Telemetry, column: int, count: Pointer, array: Pointer) -> int:
        if self._holder(column) is None:
            return _put(count, 0)
        if array is None or _object(count).value < 1:
            _put(count, 1)
            return INSUFFICIENT_SIZE
        array[0].pid = _FIRST_PID + column
        array[0].usedGpuMemory = max(now.memory_used_bytes[column] - MEMORY_RESERVED_BYTES, 0)
        return _put(count, 1)

    def _gpm_sample(self, now: Telemetry, column: int, sample: Pointer) -> int:
        self._samples[_address(sample)] = (column, now)
        return SUCCESS

    def _free_sample(self, sample: Pointer) -> int:
        self._samples.pop(_address(sample), None)
        return SUCCESS

    def _gpm_metrics(self, out: Pointer) -> int:
        request = _object(out)
        first = self._samples.get(_address(request.sample1))
        last = self._samples.get(_address(request.sample2))
        if first is None or last is None or first[0] != last[0]:
            return INVALID_ARGUMENT
        metrics, column = request.metrics, last[0]
        for number in range(request.numMetrics):
            slot = metrics[number]
            _put_metric(slot, column, first[1], last[1])
        return SUCCESS


def _put_metric(slot: Any, column: int, first: Telemetry, last: Telemetry) -> None:  # noqa: ANN401 - ctypes
    number = slot.metricId
    percent, rate = _GPM_PERCENT.get(number), _GPM_BYTES_PER_SECOND.get(number)
    if percent is not None:
        slot.value = 50 * (percent(first, column) + percent(last, column))
    elif rate is not None:
        slot.value = (rate(first, column) + rate(last, column)) / 2 / _MEBI
    slot.nvmlReturn = SUCCESS if percent or rate else NOT_SUPPORTED


def _not_supported(*_: Pointer) -> int:
    return NOT_SUPPORTED


def _succeed(*_: Pointer) -> int:
    return SUCCESS


def _no_event(*_: Pointer) -> int:
    """A GPU that fell off the bus cannot tell NVML so: only the kernel does."""
    return TIMEOUT


def _text_of(text: str) -> Callable[..., int]:
    return lambda buffer, size: _put_text(buffer, text, size)


def _value_of(value: int) -> Callable[..., int]:
    return lambda out: _put(out, value)


def _object(reference: Pointer) -> Any:  # noqa: ANN401 - whatever the binding passed by reference
    return getattr(reference, "_obj", reference)


def _int(number: Pointer) -> int:
    return int(number) if isinstance(number, int) else int(number.value)


def _address(pointer: Pointer) -> int:
    return ctypes.c_void_p.from_buffer(pointer).value or 0


def _put(out: Pointer, value: int) -> int:
    out._obj.value = value
    return SUCCESS


def _put_all(outs: tuple[Pointer, ...], value: int) -> int:
    for out in outs:
        out._obj.value = value
    return SUCCESS


def _put_field(out: Pointer, name: str, value: int) -> int:
    setattr(_object(out), name, value)
    return SUCCESS


def _put_address(out: Pointer, address: int) -> int:
    ctypes.c_void_p.from_buffer(out._obj).value = address
    return SUCCESS


def _put_text(buffer: Pointer, text: str, size: Pointer) -> int:
    encoded = text.encode()
    if len(encoded) >= _int(size):
        return INSUFFICIENT_SIZE
    buffer.value = encoded
    return SUCCESS


def _utilization(now: Telemetry, column: int, out: Pointer) -> int:
    rates = out._obj
    rates.gpu, rates.memory = now.utilization_percent[column], now.memory_utilization_percent[column]
    return SUCCESS


def _memory_v2(now: Telemetry, column: int, out: Pointer) -> int:
    memory, used = out._obj, max(now.memory_used_bytes[column] - MEMORY_RESERVED_BYTES, 0)
    memory.total, memory.reserved, memory.used = MEMORY_TOTAL_BYTES, MEMORY_RESERVED_BYTES, used
    memory.free = MEMORY_TOTAL_BYTES - MEMORY_RESERVED_BYTES - used
    return SUCCESS


def _memory(now: Telemetry, column: int, out: Pointer) -> int:
    """Version 1 counts what the driver reserves as used."""
    memory, used = out._obj, now.memory_used_bytes[column]
    memory.total, memory.used, memory.free = MEMORY_TOTAL_BYTES, used, MEMORY_TOTAL_BYTES - used
    return SUCCESS


def _temperature_v(now: Telemetry, column: int, out: Pointer) -> int:
    return _put_field(out, "temperature", now.temperature_celsius[column])


def _margin(now: Telemetry, column: int, out: Pointer) -> int:
    return _put_field(out, "marginTemperature", int(SLOWDOWN_CELSIUS) - now.temperature_celsius[column])


def _max_clock(kind: Pointer) -> int:
    return int(CLOCK_MAX_MHZ) if _int(kind) in _SM_CLOCKS else MEMORY_CLOCK_MHZ


def _clock(now: Telemetry, column: int, kind: Pointer, out: Pointer) -> int:
    return _put(out, now.sm_clock_mhz[column] if _int(kind) in _SM_CLOCKS else MEMORY_CLOCK_MHZ)


def _link_state(link: Pointer, out: Pointer) -> int:
    return _put(out, 1) if _int(link) < NVLINKS else INVALID_ARGUMENT


def _ecc(now: Telemetry, column: int, kind: Pointer, _: Pointer, out: Pointer) -> int:
    return _put(out, now.ecc_corrected[column] if _int(kind) == 0 else 0)


def _remap_banks(_: Telemetry, __: int, out: Pointer) -> int:
    banks = out._obj
    banks.max, banks.high, banks.partial, banks.low, banks.none = 2560, 0, 0, 0, 0
    return SUCCESS


def _fabric(_: Telemetry, __: int, out: Pointer) -> int:
    """Registered, and well."""
    info = _object(out)
    info.state, info.status = 3, SUCCESS
    if hasattr(info, "healthSummary"):
        info.healthSummary = 1
    return SUCCESS
