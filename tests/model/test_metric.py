"""The metric catalogue: names, units, ranges and the exporter names it knows."""

from __future__ import annotations

import math
from collections import Counter

import pytest

from trimtab.model.metric import (
    BY_NAME,
    CATALOGUE,
    CLOCK_EVENT_BITS,
    CLOCK_EVENT_MASK_ALIASES,
    Cadence,
    Kind,
    alias_index,
    sample_key,
    split_key,
)

# Unit -> ending of the name of a gauge. Units that are not here (count, state, ...) are not part of a name.
SUFFIXES = {
    unit: f"_{unit}"
    for unit in ("ratio", "bytes", "bytes_per_second", "celsius", "watts", "joules", "hertz", "seconds", "lanes")
}
UNITS = {*SUFFIXES, "count", "state", "boolean", "generation"}

# Every DCGM name on the recorded exporter pages, DCGM 2 to 4.5.
SEEN_ON_PAGES = """
DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS DCGM_FI_DEV_DEC_UTIL DCGM_FI_DEV_ENC_UTIL DCGM_FI_DEV_FB_FREE
DCGM_FI_DEV_FB_RESERVED DCGM_FI_DEV_FB_USED DCGM_FI_DEV_GPU_TEMP DCGM_FI_DEV_GPU_UTIL DCGM_FI_DEV_MEMORY_TEMP
DCGM_FI_DEV_MEM_CLOCK DCGM_FI_DEV_MEM_COPY_UTIL DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL
DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS
DCGM_FI_DEV_PCIE_REPLAY_COUNTER DCGM_FI_DEV_POWER_MGMT_LIMIT DCGM_FI_DEV_POWER_USAGE DCGM_FI_DEV_ROW_REMAP_FAILURE
DCGM_FI_DEV_SM_CLOCK DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS
DCGM_FI_DEV_VGPU_LICENSE_STATUS DCGM_FI_DEV_XID_ERRORS DCGM_FI_DRIVER_VERSION DCGM_FI_PROF_DRAM_ACTIVE
DCGM_FI_PROF_GR_ENGINE_ACTIVE DCGM_FI_PROF_NVLINK_RX_BYTES DCGM_FI_PROF_NVLINK_TX_BYTES DCGM_FI_PROF_PCIE_RX_BYTES
DCGM_FI_PROF_PCIE_TX_BYTES DCGM_FI_PROF_PIPE_FP16_ACTIVE DCGM_FI_PROF_PIPE_FP32_ACTIVE DCGM_FI_PROF_PIPE_FP64_ACTIVE
DCGM_FI_PROF_PIPE_TENSOR_ACTIVE DCGM_FI_PROF_SM_ACTIVE DCGM_FI_PROF_SM_OCCUPANCY
"""
EXCLUDED = {"DCGM_FI_DRIVER_VERSION"}  # a label of other rows, never a value


def test_names_are_unique_and_bare() -> None:
    assert len(BY_NAME) == len(CATALOGUE)
    assert not [name for name in BY_NAME if name.startswith("trimtab_") or "/" in name or name != name.lower()]
    assert not {"info", "sample_age_seconds", "xid_events_total", "process_memory_used_bytes"} & BY_NAME.keys()


def test_name_ends_in_its_unit() -> None:
    for metric in CATALOGUE:
        assert metric.unit in UNITS, metric.name
        assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER), metric.name
        stem = metric.name.removesuffix("_total").removesuffix("_max")
        endings = [unit for unit, suffix in SUFFIXES.items() if stem.endswith(suffix)]
        assert endings == ([metric.unit] if metric.unit in SUFFIXES else []), metric.name


def test_ranges_and_help_are_sound() -> None:
    for metric in CATALOGUE:
        assert metric.help.endswith(".") and "\n" not in metric.help, metric.name
        assert metric.nvml, metric.name
        if metric.unit in ("ratio", "boolean"):
            assert (metric.minimum, metric.maximum) == (0.0, 1.0), metric.name
        if metric.kind is Kind.COUNTER:
            assert (metric.minimum, metric.maximum) == (0.0, None), metric.name
        elif metric.minimum is not None and metric.maximum is not None:
            assert metric.minimum < metric.maximum, metric.name
    assert (BY_NAME["temperature_margin_celsius"].minimum or 0.0) < 0.0


def test_no_alias_twice() -> None:
    counts = Counter(alias.name for metric in CATALOGUE for alias in metric.dcgm)
    assert [name for name, count in counts.items() if count > 1] == []
    assert not set(CLOCK_EVENT_MASK_ALIASES) & counts.keys()
    assert len(alias_index()) == len(counts)
    assert all(name.startswith("DCGM_FI_") for name in counts)


def test_alias_has_a_label_value_exactly_where_the_metric_has_a_label() -> None:
    for metric, alias in alias_index().values():
        assert (alias.label_value is None) == (metric.label is None), alias.name
        if metric.label_values:
            assert alias.label_value in metric.label_values, alias.name
    assert all(metric.label or not metric.label_values for metric in CATALOGUE)


def test_every_name_on_recorded_pages_is_known_or_excluded() -> None:
    index = alias_index()
    assert {name for name in SEEN_ON_PAGES.split() if name not in index} == EXCLUDED


@pytest.mark.parametrize(
    ("alias_name", "raw", "name", "value"),
    [
        ("DCGM_FI_DEV_GPU_UTIL", 71, "utilization_ratio", 0.71),
        ("DCGM_FI_DEV_GPU_UTIL_RATIO", 71, "utilization_ratio", 0.71),
        ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", 0.873415, "graphics_engine_active_ratio", 0.873415),
        ("DCGM_FI_PROF_SM_UTIL_RATIO", 0.5, "sm_active_ratio", 0.5),
        ("DCGM_FI_DEV_FB_USED", 512, "memory_used_bytes", 536870912),
        ("DCGM_FI_DEV_SM_CLOCK", 1410, "sm_clock_hertz", 1.41e9),
        ("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", 2500, "energy_joules_total", 2.5),
        ("DCGM_FI_DEV_THERMAL_VIOLATION", 3e9, "policy_violation_seconds_total/thermal", 3.0),
        (
            "DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS",
            1.5e9,
            "clock_event_seconds_total/hw_thermal",
            1.5,
        ),
        ("DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", 12, "nvlink_throughput_bytes_per_second", 12e6),
        ("DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", 12, "nvlink_throughput_bytes_per_second", 12e6),
        ("DCGM_FI_DEV_POWER_MGMT_LIMIT", 700, "power_limit_watts", 700),
        ("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", 2, "ecc_errors_total/uncorrected", 2),
        ("DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", 1, "remapped_rows/uncorrectable", 1),
        ("DCGM_FI_DEV_BANKS_REMAP_ROWS_AVAIL_NONE", 3, "remap_banks/none", 3),
        ("DCGM_FI_DEV_BANK_REMAP_AVAIL_PARTIAL", 3, "remap_banks/partial", 3),
        ("DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL", 1, "nvlink_recovery_failed_total/all", 1),
        ("DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_15", 4, "nvlink_fec_corrected_total/15", 4),
    ],
)
def test_exporter_value_in_our_unit(alias_name: str, raw: float, name: str, value: float) -> None:
    metric, alias = alias_index()[alias_name]
    assert sample_key(metric.name, alias.label_value) == name
    assert math.isclose(raw * alias.scale, value)


def test_enforced_power_limit_comes_before_the_requested_one() -> None:
    names = [alias.name for alias in BY_NAME["power_limit_watts"].dcgm]
    assert names.index("DCGM_FI_DEV_ENFORCED_POWER_LIMIT") < names.index("DCGM_FI_DEV_POWER_MGMT_LIMIT")


def test_clock_event_bits_are_the_reasons_of_the_row() -> None:
    assert list(CLOCK_EVENT_BITS) == [1 << bit for bit in range(9)]
    assert BY_NAME["clock_event_active"].label_values == tuple(CLOCK_EVENT_BITS.values())
    assert BY_NAME["clock_event_active"].dcgm == ()
    assert set(BY_NAME["clock_event_seconds_total"].label_values) <= set(CLOCK_EVENT_BITS.values())


def test_costly_calls_are_not_cheap() -> None:
    for name in ("fan_speed_ratio", "compute_processes", "pcie_receive_bytes_per_second"):
        assert BY_NAME[name].cadence is Cadence.EXPENSIVE


@pytest.mark.parametrize(("name", "label_value"), [("power_watts", None), ("nvlink_up", "3"), ("x", "")])
def test_key_round_trip(name: str, label_value: str | None) -> None:
    assert split_key(sample_key(name, label_value)) == (name, label_value)
