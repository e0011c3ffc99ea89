"""What is read by a call of its own, as one table: which call, which metrics it fills, how often."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pynvml

from trimtab.collect import nvml_door as door
from trimtab.collect.units import from_mega, from_milli, from_percent, is_blank
from trimtab.model.metric import CLOCK_EVENT_BITS, Cadence, sample_key

Value = tuple[str, float]
"""A sample key and its value in our unit."""
_BLANK = math.nan
"""The driver answered and gave no value: no sieve lets this through, and it is counted there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One call. It is left out where its keys have values already: of several for one key the first counts."""

    name: str
    key: str
    """The first of its keys; its error is told under it."""
    keys: frozenset[str]
    get: Callable[[door.Handle], Iterable[Value]]
    every: Cadence = Cadence.CHEAP
    is_on_mig: bool = True
    """False where a GPU split into instances does not have it, whatever its driver answers."""


def _read(
    name: str,
    *keys: str,
    get: Callable[[door.Handle], Iterable[Value]],
    every: Cadence = Cadence.CHEAP,
    is_on_mig: bool = True,
) -> Read:
    return Read(name=name, key=keys[0], keys=frozenset(keys), get=get, every=every, is_on_mig=is_on_mig)


def _one(
    key: str,
    call: str,
    *arguments: object,
    convert: Callable[[float], float] = float,
    every: Cadence = Cadence.CHEAP,
    is_on_mig: bool = True,
) -> Read:
    def get(handle: door.Handle) -> Iterable[Value]:
        raw = door.ask(call, handle, *arguments)
        return [(key, _BLANK if is_blank(raw) else convert(raw))]

    return _read(call, key, get=get, every=every, is_on_mig=is_on_mig)


def _utilization(handle: door.Handle) -> Iterable[Value]:
    rates = door.ask("nvmlDeviceGetUtilizationRates", handle)
    yield "utilization_ratio", from_percent(rates.gpu)
    yield "memory_controller_utilization_ratio", from_percent(rates.memory)


def _engine(key: str, call: str) -> Read:
    def get(handle: door.Handle) -> Iterable[Value]:
        percent, _sampling_period_us = door.ask(call, handle)
        return [(key, from_percent(percent))]

    return _read(call, key, get=get, is_on_mig=False)


def memory(handle: door.Handle) -> Iterable[Value]:
    """Total, used, free and reserved bytes of a GPU or MIG instance."""
    found = door.ask("nvmlDeviceGetMemoryInfo", handle, pynvml.nvmlMemory_v2)
    yield "memory_total_bytes", float(found.total)
    yield "memory_used_bytes", float(found.used)
    yield "memory_free_bytes", float(found.free)
    yield "memory_reserved_bytes", float(found.reserved)


def memory_v1(handle: door.Handle) -> Iterable[Value]:
    """The same of an old driver, which counts what it reserves as used and does not say how much that is."""
    found = door.ask("nvmlDeviceGetMemoryInfo", handle)
    yield "memory_total_bytes", float(found.total)
    yield "memory_used_bytes", float(found.used)
    yield "memory_free_bytes", float(found.free)


def _clock_events(call: str) -> Read:
    keys = tuple(sample_key("clock_event_active", reason) for reason in CLOCK_EVENT_BITS.values())

    def get(handle: door.Handle) -> Iterable[Value]:
        mask = door.ask(call, handle)
        if is_blank(mask):
            return [(keys[0], _BLANK)]
        return [(key, float(bool(mask & bit))) for key, bit in zip(keys, CLOCK_EVENT_BITS, strict=True)]

    return _read(call, *keys, get=get)


def _remapped_rows(handle: door.Handle) -> Iterable[Value]:
    correctable, uncorrectable, is_pending, has_failed = door.ask("nvmlDeviceGetRemappedRows", handle)
    yield sample_key("remapped_rows", "correctable"), float(correctable)
    yield sample_key("remapped_rows", "uncorrectable"), float(uncorrectable)
    yield "row_remap_pending", float(is_pending)
    yield "row_remap_failed", float(has_failed)


def _remap_banks(handle: door.Handle) -> Iterable[Value]:
    banks = door.ask("nvmlDeviceGetRowRemapperHistogram", handle)
    for spare in ("max", "high", "partial", "low", "none"):
        yield sample_key("remap_banks", spare), float(getattr(banks, spare))


def _sram(handle: door.Handle) -> Iterable[Value]:
    status = pynvml.c_nvmlEccSramErrorStatus_v1_t()
    door.ask("nvmlDeviceGetSramEccErrorStatus", handle, ctypes.byref(status))
    yield "sram_ecc_threshold_exceeded", float(bool(status.bThresholdExceeded))


_FABRIC_COMPLETED, _FABRIC_FAILED = 3, 4


def _fabric(handle: door.Handle) -> Iterable[Value]:
    info = pynvml.c_nvmlGpuFabricInfo_v3_t()
    door.ask("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
    yield "fabric_state", _fabric_state(info.state, info.status)
    yield "fabric_health", float(info.healthSummary)


def _fabric_v2(handle: door.Handle) -> Iterable[Value]:
    info = pynvml.c_nvmlGpuFabricInfo_v2_t()
    door.ask("nvmlDeviceGetGpuFabricInfoV", handle, ctypes.byref(info))
    yield "fabric_state", _fabric_state(info.state, info.status)


def _fabric_state(state: int, status: int) -> float:
    """Completed with a bad status is a failure; it was missed for weeks elsewhere by reading the state alone."""
    has_failed = state == _FABRIC_COMPLETED and status != pynvml.NVML_SUCCESS
    return float(_FABRIC_FAILED if has_failed else state)


_CORRECTED, _UNCORRECTED = pynvml.NVML_MEMORY_ERROR_TYPE_CORRECTED, pynvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED


def _ecc(key: str, counter: int) -> tuple[Read, ...]:
    kinds = {"corrected": _CORRECTED, "uncorrected": _UNCORRECTED}
    return tuple(
        _one(sample_key(key, kind), "nvmlDeviceGetTotalEccErrors", number, counter) for kind, number in kinds.items()
    )


_CORE = pynvml.NVML_TEMPERATURE_GPU
_SLOWDOWN = pynvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN

# Field values (nvml_fields.py) are read first: what stands here for one of theirs is for drivers without the field.
# GetPcieThroughput is not here: it blocks for 20 ms a direction; fields 197 and 198 and GPM have the same.
READS: tuple[Read, ...] = (
    _read(
        "nvmlDeviceGetUtilizationRates",
        "utilization_ratio",
        "memory_controller_utilization_ratio",
        get=_utilization,
        is_on_mig=False,
    ),
    _engine("encoder_utilization_ratio", "nvmlDeviceGetEncoderUtilization"),
    _engine("decoder_utilization_ratio", "nvmlDeviceGetDecoderUtilization"),
    _read("nvmlDeviceGetMemoryInfo_v2", "memory_used_bytes", "memory_total_bytes", get=memory),
    _read("nvmlDeviceGetMemoryInfo", "memory_used_bytes", "memory_total_bytes", get=memory_v1),
    _one("temperature_celsius", "nvmlDeviceGetTemperatureV", _CORE),
    _one("temperature_celsius", "nvmlDeviceGetTemperature", _CORE),
    _one("temperature_margin_celsius", "nvmlDeviceGetMarginTemperature"),
    _one("temperature_slowdown_celsius", "nvmlDeviceGetTemperatureThreshold", _SLOWDOWN, every=Cadence.STATIC),
    _one("power_watts", "nvmlDeviceGetPowerUsage", convert=from_milli),
    _one("power_limit_watts", "nvmlDeviceGetEnforcedPowerLimit", convert=from_milli),
    _one(
        "power_limit_default_watts",
        "nvmlDeviceGetPowerManagementDefaultLimit",
        convert=from_milli,
        every=Cadence.STATIC,
    ),
    _one("energy_joules_total", "nvmlDeviceGetTotalEnergyConsumption", convert=from_milli),
    _one("fan_speed_ratio", "nvmlDeviceGetFanSpeed", convert=from_percent, every=Cadence.EXPENSIVE),
    _one("sm_clock_hertz", "nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_SM, convert=from_mega),
    _one("memory_clock_hertz", "nvmlDeviceGetClockInfo", pynvml.NVML_CLOCK_MEM, convert=from_mega),
    _one(
        "sm_clock_max_hertz",
        "nvmlDeviceGetMaxClockInfo",
        pynvml.NVML_CLOCK_SM,
        convert=from_mega,
        every=Cadence.STATIC,
    ),
    _one("performance_state", "nvmlDeviceGetPerformanceState"),
    _clock_events("nvmlDeviceGetCurrentClocksEventReasons"),
    _clock_events("nvmlDeviceGetCurrentClocksThrottleReasons"),  # its name before driver 535
    _one("pcie_replay_total", "nvmlDeviceGetPcieReplayCounter"),
    _one("pcie_link_generation", "nvmlDeviceGetCurrPcieLinkGeneration"),
    _one("pcie_link_generation_max", "nvmlDeviceGetMaxPcieLinkGeneration", every=Cadence.STATIC),
    _one("pcie_link_width_lanes", "nvmlDeviceGetCurrPcieLinkWidth"),
    _one("pcie_link_width_lanes_max", "nvmlDeviceGetMaxPcieLinkWidth", every=Cadence.STATIC),
    *_ecc("ecc_errors_total", pynvml.NVML_VOLATILE_ECC),
    *_ecc("ecc_errors_aggregate", pynvml.NVML_AGGREGATE_ECC),
    _read(
        "nvmlDeviceGetRemappedRows",
        sample_key("remapped_rows", "correctable"),
        "row_remap_pending",
        "row_remap_failed",
        get=_remapped_rows,
    ),
    _read(
        "nvmlDeviceGetRowRemapperHistogram",
        sample_key("remap_banks", "max"),
        get=_remap_banks,
        every=Cadence.EXPENSIVE,
    ),
    _read(
        "nvmlDeviceGetSramEccErrorStatus",
        "sram_ecc_threshold_exceeded",
        get=_sram,
        every=Cadence.EXPENSIVE,
    ),
    _one("memory_unrepairable", "nvmlDeviceGetUnrepairableMemoryFlag_v1", every=Cadence.EXPENSIVE),
    _read("nvmlDeviceGetGpuFabricInfoV", "fabric_state", "fabric_health", get=_fabric),
    _read("nvmlDeviceGetGpuFabricInfoV (v2)", "fabric_state", get=_fabric_v2),
)


def nvlink_state(link: int) -> Read:
    """Whether one NVLink is up, for drivers without field 165."""
    return _one(sample_key("nvlink_up", str(link)), "nvmlDeviceGetNvLinkState", link, is_on_mig=False)
