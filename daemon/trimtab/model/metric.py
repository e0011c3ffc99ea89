"""The metric catalogue: every per-GPU metric, its unit, kind and aliases, as one literal table.

Read by the collectors (what to fetch, how to convert), by the exposition and by the detectors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a metric's values relate over time."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Cadence(StrEnum):
    """How often a metric is read: every tick, every minute, or once and on change."""

    CHEAP = "cheap"
    EXPENSIVE = "expensive"
    STATIC = "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A name under which dcgm-exporter publishes this metric, and the factor to our base unit.

    `scale` converts the exporter's number into ours (MiB to bytes = 1048576, percent to ratio = 0.01).
    `label_value` is the value of our `label` that this alias stands for, where the metric has one.
    """

    name: str
    scale: float = 1.0
    label_value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the catalogue. `name` is without the `trimtab_gpu_` prefix; its last word is the unit."""

    name: str
    unit: str
    kind: Kind
    nvml: str
    help: str
    cadence: Cadence = Cadence.CHEAP
    label: str | None = None
    label_values: tuple[str, ...] = ()
    dcgm: tuple[Alias, ...] = ()
    minimum: float | None = 0.0
    maximum: float | None = None
    is_per_instance: bool = False


CLOCK_EVENT_BITS: Mapping[int, str] = {
    0x1: "idle", 0x2: "application_clocks", 0x4: "sw_power_cap", 0x8: "hw_slowdown", 0x10: "sync_boost",
    0x20: "sw_thermal", 0x40: "hw_thermal", 0x80: "hw_power_brake", 0x100: "display_clocks",
}  # fmt: skip
"""Bit of the clock-event mask -> value of the `reason` label of `clock_event_active`."""

CLOCK_EVENT_MASK_ALIASES: tuple[str, ...] = ("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS")
"""Names under which dcgm-exporter publishes the whole mask: one number, so no alias with a scale can express it."""

ALL_LINKS = "all"
"""Value of the label `link` for a sum over all links, which is what DCGM gives for a GPU."""

_GAUGE, _COUNTER = Kind.GAUGE, Kind.COUNTER
_PERCENT, _MIB, _MEGA, _MJ, _NS = 0.01, 1048576.0, 1e6, 1e-3, 1e-9  # from %, MiB, MHz or MB, mJ, ns
_MAX_BYTES, _MAX_HERTZ, _MAX_WATTS, _MAX_CELSIUS = 2.0**44, 5e10, 1e4, 150.0

# One row a metric, in the order of the documentation. Aliases stand in order of preference: where a page has
# several for one key, the first wins (power: the enforced limit before the requested one). `nvml` names a call
# without its nvmlDevice prefix, or field ids, or GPM metric ids. A metric with a label is never sent without it.
# fmt: off
CATALOGUE: tuple[Metric, ...] = (
    Metric(name="up", unit="boolean", kind=_GAUGE, nvml="handle and one base read", maximum=1.0,
           help="1 while the GPU answers, 0 when it does not."),
    # Field 203 is an integer percent under both names in DCGM 4.6 (reported: 4.7 makes _RATIO 0..1); PROF is 0..1.
    Metric(name="utilization_ratio", unit="ratio", kind=_GAUGE, nvml="GetUtilizationRates.gpu", maximum=1.0,
           help="Share of the time in which at least one kernel ran.", dcgm=(
               Alias(name="DCGM_FI_DEV_GPU_UTIL", scale=_PERCENT),
               Alias(name="DCGM_FI_DEV_GPU_UTIL_RATIO", scale=_PERCENT))),
    Metric(name="memory_controller_utilization_ratio", unit="ratio", kind=_GAUGE, nvml="GetUtilizationRates.memory",
           help="Share of the time in which device memory was read or written.", maximum=1.0,
           dcgm=(Alias(name="DCGM_FI_DEV_MEM_COPY_UTIL", scale=_PERCENT),)),
    Metric(name="encoder_utilization_ratio", unit="ratio", kind=_GAUGE, nvml="GetEncoderUtilization", maximum=1.0,
           help="Share of time the encoder was busy.", dcgm=(Alias(name="DCGM_FI_DEV_ENC_UTIL", scale=_PERCENT),)),
    Metric(name="decoder_utilization_ratio", unit="ratio", kind=_GAUGE, nvml="GetDecoderUtilization", maximum=1.0,
           help="Share of time the decoder was busy.", dcgm=(Alias(name="DCGM_FI_DEV_DEC_UTIL", scale=_PERCENT),)),
    Metric(name="graphics_engine_active_ratio", unit="ratio", kind=_GAUGE, nvml="GPM 1", maximum=1.0,
           help="Share of the time the graphics or compute engine was busy.", is_per_instance=True,
           dcgm=(Alias(name="DCGM_FI_PROF_GR_ENGINE_ACTIVE"), Alias(name="DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO"))),
    Metric(name="sm_active_ratio", unit="ratio", kind=_GAUGE, nvml="GPM 2", maximum=1.0, is_per_instance=True,
           help="Share of the multiprocessors that had work, averaged over time.",
           dcgm=(Alias(name="DCGM_FI_PROF_SM_ACTIVE"), Alias(name="DCGM_FI_PROF_SM_UTIL_RATIO"))),
    Metric(name="sm_occupancy_ratio", unit="ratio", kind=_GAUGE, nvml="GPM 3", maximum=1.0, is_per_instance=True,
           help="Resident warps as a share of the most that fit.",
           dcgm=(Alias(name="DCGM_FI_PROF_SM_OCCUPANCY"), Alias(name="DCGM_FI_PROF_SM_OCCUPANCY_RATIO"))),
    Metric(name="tensor_active_ratio", unit="ratio", kind=_GAUGE, nvml="GPM 5", maximum=1.0, is_per_instance=True,
           help="Share of the time the tensor cores were busy.",
           dcgm=(Alias(name="DCGM_FI_PROF_PIPE_TENSOR_ACTIVE"), Alias(name="DCGM_FI_PROF_TENSOR_UTIL_RATIO"))),
    Metric(name="dram_active_ratio", unit="ratio", kind=_GAUGE, nvml="GPM 10", maximum=1.0, is_per_instance=True,
           help="Memory bandwidth in use as a share of its peak.",
           dcgm=(Alias(name="DCGM_FI_PROF_DRAM_ACTIVE"), Alias(name="DCGM_FI_PROF_DRAM_UTIL_RATIO"))),
    Metric(name="fp64_active_ratio", unit="ratio", kind=_GAUGE, nvml="GPM 11", maximum=1.0, is_per_instance=True,
           help="Share of the time the 64-bit floating-point units were busy.",
           dcgm=(Alias(name="DCGM_FI_PROF_PIPE_FP64_ACTIVE"), Alias(name="DCGM_FI_PROF_FP64_UTIL_RATIO"))),
    Metric(name="fp32_active_ratio", unit="ratio", kind=_GAUGE, nvml="GPM 12", maximum=1.0, is_per_instance=True,
           help="Share of the time the 32-bit floating-point units were busy.",
           dcgm=(Alias(name="DCGM_FI_PROF_PIPE_FP32_ACTIVE"), Alias(name="DCGM_FI_PROF_FP32_UTIL_RATIO"))),
    Metric(name="fp16_active_ratio", unit="ratio", kind=_GAUGE, nvml="GPM 13", maximum=1.0, is_per_instance=True,
           help="Share of the time the 16-bit floating-point units were busy.",
           dcgm=(Alias(name="DCGM_FI_PROF_PIPE_FP16_ACTIVE"), Alias(name="DCGM_FI_PROF_FP16_UTIL_RATIO"))),
    # Memory. DCGM counts MiB.
    Metric(name="memory_total_bytes", unit="bytes", kind=_GAUGE, nvml="GetMemoryInfo_v2.total", maximum=_MAX_BYTES,
           help="Device memory installed.", cadence=Cadence.STATIC, is_per_instance=True,
           dcgm=(Alias(name="DCGM_FI_DEV_FB_TOTAL", scale=_MIB),)),
    Metric(name="memory_used_bytes", unit="bytes", kind=_GAUGE, nvml="GetMemoryInfo_v2.used", maximum=_MAX_BYTES,
           help="Device memory in use.", is_per_instance=True, dcgm=(Alias(name="DCGM_FI_DEV_FB_USED", scale=_MIB),)),
    Metric(name="memory_free_bytes", unit="bytes", kind=_GAUGE, nvml="GetMemoryInfo_v2.free", maximum=_MAX_BYTES,
           help="Device memory unused.", is_per_instance=True, dcgm=(Alias(name="DCGM_FI_DEV_FB_FREE", scale=_MIB),)),
    Metric(name="memory_reserved_bytes", unit="bytes", kind=_GAUGE, nvml="GetMemoryInfo_v2.reserved",
           help="Device memory that driver and firmware keep for themselves.", maximum=_MAX_BYTES,
           dcgm=(Alias(name="DCGM_FI_DEV_FB_RESERVED", scale=_MIB),)),
    Metric(name="temperature_celsius", unit="celsius", kind=_GAUGE, nvml="GetTemperatureV, GetTemperature",
           help="Temperature of the GPU core.", maximum=_MAX_CELSIUS,
           dcgm=(Alias(name="DCGM_FI_DEV_GPU_TEMP"), Alias(name="DCGM_FI_DEV_GPU_TEMP_CELSIUS"))),
    Metric(name="memory_temperature_celsius", unit="celsius", kind=_GAUGE, nvml="field 82", maximum=_MAX_CELSIUS,
           help="Temperature of the device memory, where 0 means the card does not measure it.",
           dcgm=(Alias(name="DCGM_FI_DEV_MEMORY_TEMP"), Alias(name="DCGM_FI_DEV_MEMORY_TEMP_CELSIUS"))),
    Metric(name="temperature_margin_celsius", unit="celsius", kind=_GAUGE, nvml="GetMarginTemperature",
           help="Degrees left before the GPU slows itself down.", minimum=-_MAX_CELSIUS, maximum=_MAX_CELSIUS,
           dcgm=(Alias(name="DCGM_FI_DEV_GPU_TEMP_LIMIT"), Alias(name="DCGM_FI_DEV_GPU_TEMP_MARGIN_CELSIUS"))),
    Metric(name="temperature_slowdown_celsius", unit="celsius", kind=_GAUGE, nvml="GetTemperatureThreshold(SLOWDOWN)",
           help="Core temperature at which the GPU slows itself down.", cadence=Cadence.STATIC, maximum=_MAX_CELSIUS,
           dcgm=(Alias(name="DCGM_FI_DEV_SLOWDOWN_TEMP"), Alias(name="DCGM_FI_DEV_GPU_TEMP_SLOWDOWN_CELSIUS"))),
    Metric(name="power_watts", unit="watts", kind=_GAUGE, nvml="GetPowerUsage; field 185", maximum=_MAX_WATTS,
           help="Power drawn by the board, averaged over a second where the card averages.",
           dcgm=(Alias(name="DCGM_FI_DEV_POWER_USAGE"), Alias(name="DCGM_FI_DEV_BOARD_POWER_WATTS"))),
    Metric(name="power_instant_watts", unit="watts", kind=_GAUGE, nvml="field 186", maximum=_MAX_WATTS,
           help="Power drawn by the board at this instant.",
           dcgm=(Alias(name="DCGM_FI_DEV_POWER_USAGE_INSTANT"), Alias(name="DCGM_FI_DEV_BOARD_POWER_RAW_WATTS"))),
    Metric(name="power_limit_watts", unit="watts", kind=_GAUGE, nvml="GetEnforcedPowerLimit; field 190",
           help="Power limit in force after all limiters.", maximum=_MAX_WATTS, dcgm=(
               Alias(name="DCGM_FI_DEV_ENFORCED_POWER_LIMIT"),
               Alias(name="DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS"), Alias(name="DCGM_FI_DEV_POWER_MGMT_LIMIT"),
               Alias(name="DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS"))),
    Metric(name="power_limit_default_watts", unit="watts", kind=_GAUGE, nvml="field 189", cadence=Cadence.STATIC,
           help="Power limit the board ships with.", maximum=_MAX_WATTS, dcgm=(
               Alias(name="DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF"),
               Alias(name="DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS"))),
    Metric(name="energy_joules_total", unit="joules", kind=_COUNTER, nvml="GetTotalEnergyConsumption; field 83",
           help="Energy since driver load.", dcgm=(Alias(name="DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", scale=_MJ),)),
    Metric(name="fan_speed_ratio", unit="ratio", kind=_GAUGE, nvml="GetFanSpeed", maximum=1.0,
           help="Fan speed.", cadence=Cadence.EXPENSIVE, dcgm=(Alias(name="DCGM_FI_DEV_FAN_SPEED", scale=_PERCENT),)),
    Metric(name="sm_clock_hertz", unit="hertz", kind=_GAUGE, nvml="GetClockInfo(SM)", maximum=_MAX_HERTZ,
           help="Current clock of the multiprocessors.", dcgm=(Alias(name="DCGM_FI_DEV_SM_CLOCK", scale=_MEGA),)),
    Metric(name="memory_clock_hertz", unit="hertz", kind=_GAUGE, nvml="GetClockInfo(MEM)", maximum=_MAX_HERTZ,
           help="Current clock of the device memory.", dcgm=(Alias(name="DCGM_FI_DEV_MEM_CLOCK", scale=_MEGA),)),
    Metric(name="sm_clock_max_hertz", unit="hertz", kind=_GAUGE, nvml="GetMaxClockInfo(SM)", maximum=_MAX_HERTZ,
           help="Highest clock the multiprocessors can run at.", cadence=Cadence.STATIC,
           dcgm=(Alias(name="DCGM_FI_DEV_MAX_SM_CLOCK", scale=_MEGA),)),
    Metric(name="performance_state", unit="state", kind=_GAUGE, nvml="GetPerformanceState", maximum=15.0,
           help="Performance state from 0, the fastest, to 15.",
           dcgm=(Alias(name="DCGM_FI_DEV_PSTATE"), Alias(name="DCGM_FI_DEV_GPU_PSTATE"))),
    Metric(name="clock_event_active", unit="boolean", kind=_GAUGE, maximum=1.0, label="reason",
           nvml="GetCurrentClocksEventReasons, GetCurrentClocksThrottleReasons",
           help="1 while this reason holds the clocks down.", label_values=tuple(CLOCK_EVENT_BITS.values())),
    Metric(name="clock_event_seconds_total", unit="seconds", kind=_COUNTER, nvml="fields 74, 76, 269, 270, 271",
           help="Time for which this reason held the clocks down.", label="reason",
           label_values=("sw_power_cap", "sync_boost", "sw_thermal", "hw_thermal", "hw_power_brake"), dcgm=(
               Alias(name="DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", scale=_NS, label_value="sw_power_cap"),
               Alias(name="DCGM_FI_DEV_CLOCKS_EVENT_REASON_SYNC_BOOST_NS", scale=_NS, label_value="sync_boost"),
               Alias(name="DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", scale=_NS, label_value="sw_thermal"),
               Alias(name="DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", scale=_NS, label_value="hw_thermal"),
               Alias(name="DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", scale=_NS,
                     label_value="hw_power_brake"))),
    Metric(name="policy_violation_seconds_total", unit="seconds", kind=_COUNTER, nvml="fields 74 to 79", label="policy",
           help="Time for which this policy kept the GPU below its clocks.",
           label_values=("power", "thermal", "sync_boost", "board_limit", "low_utilization", "reliability"), dcgm=(
               Alias(name="DCGM_FI_DEV_POWER_VIOLATION", scale=_NS, label_value="power"),
               Alias(name="DCGM_FI_DEV_THERMAL_VIOLATION", scale=_NS, label_value="thermal"),
               Alias(name="DCGM_FI_DEV_SYNC_BOOST_VIOLATION", scale=_NS, label_value="sync_boost"),
               Alias(name="DCGM_FI_DEV_BOARD_LIMIT_VIOLATION", scale=_NS, label_value="board_limit"),
               Alias(name="DCGM_FI_DEV_LOW_UTIL_VIOLATION", scale=_NS, label_value="low_utilization"),
               Alias(name="DCGM_FI_DEV_RELIABILITY_VIOLATION", scale=_NS, label_value="reliability"))),
    # PCIe. The byte counters wrap; the rates are not counters.
    Metric(name="pcie_transmit_bytes_total", unit="bytes", kind=_COUNTER, nvml="field 197",
           help="Bytes the GPU sent over PCIe.", dcgm=(Alias(name="DCGM_FI_PROF_PCIE_TX_BYTES_TOTAL"),)),
    Metric(name="pcie_receive_bytes_total", unit="bytes", kind=_COUNTER, nvml="field 198",
           help="Bytes the GPU received over PCIe.", dcgm=(Alias(name="DCGM_FI_PROF_PCIE_RX_BYTES_TOTAL"),)),
    Metric(name="pcie_transmit_bytes_per_second", unit="bytes_per_second", kind=_GAUGE, cadence=Cadence.EXPENSIVE,
           nvml="GPM 20; GetPcieThroughput(TX) blocks 20 ms", maximum=1e12,
           help="Rate at which the GPU sends over PCIe.", dcgm=(Alias(name="DCGM_FI_PROF_PCIE_TX_BYTES"),)),
    Metric(name="pcie_receive_bytes_per_second", unit="bytes_per_second", kind=_GAUGE, cadence=Cadence.EXPENSIVE,
           nvml="GPM 21; GetPcieThroughput(RX) blocks 20 ms", maximum=1e12,
           help="Rate at which the GPU receives over PCIe.", dcgm=(Alias(name="DCGM_FI_PROF_PCIE_RX_BYTES"),)),
    Metric(name="pcie_replay_total", unit="count", kind=_COUNTER, nvml="GetPcieReplayCounter; field 94",
           help="PCIe packets that had to be sent again.",
           dcgm=(Alias(name="DCGM_FI_DEV_PCIE_REPLAY_COUNTER"), Alias(name="DCGM_FI_DEV_PCIE_REPLAY_TOTAL"))),
    Metric(name="pcie_correctable_errors_total", unit="count", kind=_COUNTER, nvml="field 173",
           help="PCIe errors the link put right by itself.", dcgm=(
               Alias(name="DCGM_FI_DEV_PCIE_COUNT_CORRECTABLE_ERRORS"),
               Alias(name="DCGM_FI_DEV_PCIE_CORRECTABLE_ERROR_TOTAL"))),
    Metric(name="pcie_errors_total", unit="count", kind=_COUNTER, nvml="fields 174 to 182, 169", label="kind",
           help="PCIe errors of this kind.", label_values=(
               "nak_received", "receiver", "bad_tlp", "nak_sent", "bad_dllp", "non_fatal", "fatal",
               "unsupported_request", "lcrc", "l0_to_recovery")),
    Metric(name="pcie_link_generation", unit="generation", kind=_GAUGE, nvml="GetCurrPcieLinkGeneration", maximum=10.0,
           help="PCIe generation in use, lower when idle.", dcgm=(Alias(name="DCGM_FI_DEV_PCIE_LINK_GEN"),)),
    Metric(name="pcie_link_generation_max", unit="generation", kind=_GAUGE, nvml="GetMaxPcieLinkGeneration",
           help="Highest PCIe generation this link can run at.", cadence=Cadence.STATIC, maximum=10.0,
           dcgm=(Alias(name="DCGM_FI_DEV_PCIE_MAX_LINK_GEN"),)),
    Metric(name="pcie_link_width_lanes", unit="lanes", kind=_GAUGE, nvml="GetCurrPcieLinkWidth", maximum=32.0,
           help="PCIe lanes in use.", dcgm=(Alias(name="DCGM_FI_DEV_PCIE_LINK_WIDTH"),)),
    Metric(name="pcie_link_width_lanes_max", unit="lanes", kind=_GAUGE, nvml="GetMaxPcieLinkWidth", maximum=32.0,
           help="Most PCIe lanes this link can use.", cadence=Cadence.STATIC,
           dcgm=(Alias(name="DCGM_FI_DEV_PCIE_MAX_LINK_WIDTH"),)),
    # NVLink. DCGM "bandwidth" and "throughput" (449, 843, 897) are rates in MB/s whatever a page's TYPE says.
    Metric(name="nvlink_transmit_bytes_total", unit="bytes", kind=_COUNTER, nvml="field 138 (KiB); NVLink5: 202",
           help="Bytes sent over this NVLink.", label="link", dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_TX_BYTES", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_TX_BYTES_TOTAL", label_value=ALL_LINKS))),
    Metric(name="nvlink_receive_bytes_total", unit="bytes", kind=_COUNTER, nvml="field 139 (KiB); NVLink5: 204",
           help="Bytes received over this NVLink.", label="link", dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_RX_BYTES", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_RX_BYTES_TOTAL", label_value=ALL_LINKS))),
    Metric(name="nvlink_throughput_bytes_per_second", unit="bytes_per_second", kind=_GAUGE, nvml="GPM 60 plus 61",
           help="Rate over all NVLinks, both directions together.", maximum=1e14, dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", scale=_MEGA),
               Alias(name="DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL", scale=_MEGA))),
    Metric(name="nvlink_transmit_bytes_per_second", unit="bytes_per_second", kind=_GAUGE, nvml="GPM 61", maximum=1e14,
           help="Rate at which the GPU sends over all NVLinks.", dcgm=(Alias(name="DCGM_FI_PROF_NVLINK_TX_BYTES"),
               Alias(name="DCGM_FI_DEV_NVLINK_TX_BANDWIDTH_TOTAL", scale=_MEGA),
               Alias(name="DCGM_FI_DEV_NVLINK_TX_THROUGHPUT_TOTAL", scale=_MEGA))),
    Metric(name="nvlink_receive_bytes_per_second", unit="bytes_per_second", kind=_GAUGE, nvml="GPM 60", maximum=1e14,
           help="Rate at which the GPU receives over all NVLinks.", dcgm=(Alias(name="DCGM_FI_PROF_NVLINK_RX_BYTES"),
               Alias(name="DCGM_FI_DEV_NVLINK_RX_BANDWIDTH_TOTAL", scale=_MEGA),
               Alias(name="DCGM_FI_DEV_NVLINK_RX_THROUGHPUT_TOTAL", scale=_MEGA))),
    Metric(name="nvlink_up", unit="boolean", kind=_GAUGE, nvml="GetNvLinkState; field 165", maximum=1.0, label="link",
           help="1 while this NVLink is active.",  # the page's own `nvlink` label says which link
           dcgm=(Alias(name="DCGM_FI_DEV_NVLINK_GET_STATE", label_value=ALL_LINKS),)),
    Metric(name="nvlink_links", unit="count", kind=_GAUGE, nvml="field 91", cadence=Cadence.STATIC, maximum=64.0,
           help="NVLinks this GPU has."),
    Metric(name="nvlink_crc_errors_total", unit="count", kind=_COUNTER, nvml="field 163", label="link",
           help="Checksum errors on this NVLink.", dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_ERROR_DL_CRC", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_CRC_ERROR_TOTAL", label_value=ALL_LINKS))),
    Metric(name="nvlink_crc_errors_by_kind_total", unit="count", kind=_COUNTER, nvml="fields 38 flit, 45 data",
           help="Checksum errors of this kind over all NVLinks, as older cards count them.", label="kind",
           label_values=("flit", "data"), dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL", label_value="flit"),
               Alias(name="DCGM_FI_DEV_NVLINK_CRC_FLIT_ERROR_TOTAL", label_value="flit"),
               Alias(name="DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL", label_value="data"),
               Alias(name="DCGM_FI_DEV_NVLINK_CRC_DATA_ERROR_TOTAL", label_value="data"))),
    Metric(name="nvlink_replay_total", unit="count", kind=_COUNTER, nvml="field 161", label="link",
           help="Packets sent again over this NVLink.", dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_ERROR_DL_REPLAY", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_REPLAY_TOTAL", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_REPLAY_ERROR_TOTAL", label_value=ALL_LINKS))),
    Metric(name="nvlink_recovery_total", unit="count", kind=_COUNTER, nvml="field 162; NVLink5: 215", label="link",
           help="Times this NVLink went into recovery, whatever came of it.", dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_EVENTS", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_RECOVERY_EVENT_TOTAL", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_ERROR_DL_RECOVERY", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_RECOVERY_TOTAL", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_RECOVERY_ERROR_TOTAL", label_value=ALL_LINKS))),
    Metric(name="nvlink_recovery_failed_total", unit="count", kind=_COUNTER, nvml="NVLink5: field 214", label="link",
           help="Times this NVLink went into recovery and stayed down.", dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_RECOVERY_FAILED_TOTAL", label_value=ALL_LINKS))),
    Metric(name="nvlink_receive_errors_total", unit="count", kind=_COUNTER, nvml="NVLink5: field 208", label="link",
           help="Packets received with an error on this NVLink.", dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_RX_ERRORS", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_RX_ERROR_TOTAL", label_value=ALL_LINKS))),
    Metric(name="nvlink_receive_errors_by_kind_total", unit="count", kind=_COUNTER, label="kind",
           nvml="NVLink5: fields 206, 207, 209, 210, 211, 212", help="Packet errors of this kind over all NVLinks.",
           label_values=("malformed", "overrun", "remote", "general", "integrity", "transmit_discard"), dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_RX_MALFORMED_PACKET_ERRORS", label_value="malformed"),
               Alias(name="DCGM_FI_DEV_NVLINK_RX_PACKET_MALFORMED_TOTAL", label_value="malformed"),
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_RX_BUFFER_OVERRUN_ERRORS", label_value="overrun"),
               Alias(name="DCGM_FI_DEV_NVLINK_RX_PACKET_DROPPED_TOTAL", label_value="overrun"),
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_RX_REMOTE_ERRORS", label_value="remote"),
               Alias(name="DCGM_FI_DEV_NVLINK_RX_REMOTE_ERROR_TOTAL", label_value="remote"),
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_RX_GENERAL_ERRORS", label_value="general"),
               Alias(name="DCGM_FI_DEV_NVLINK_RX_GENERAL_ERROR_TOTAL", label_value="general"),
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS", label_value="integrity"),
               Alias(name="DCGM_FI_DEV_NVLINK_INTEGRITY_ERROR_TOTAL", label_value="integrity"),
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_TX_DISCARDS", label_value="transmit_discard"))),
    Metric(name="nvlink_symbol_errors_total", unit="count", kind=_COUNTER, nvml="NVLink5: field 221", label="link",
           help="Symbols received wrong on this NVLink.", dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_RX_SYMBOL_ERRORS", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_RX_SYMBOL_ERROR_TOTAL", label_value=ALL_LINKS))),
    Metric(name="nvlink_effective_errors_total", unit="count", kind=_COUNTER, nvml="NVLink5: field 219", label="link",
           help="Errors left on this NVLink after forward error correction.", dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_ERRORS", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_EFFECTIVE_ERROR_TOTAL", label_value=ALL_LINKS))),
    Metric(name="nvlink_effective_bit_error_ratio", unit="ratio", kind=_GAUGE, nvml="NVLink5: field 220", label="link",
           help="Share of bits still wrong after forward error correction.", maximum=1.0, dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_EFFECTIVE_BER_FLOAT", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_EFFECTIVE_BER_RATIO", label_value=ALL_LINKS))),
    Metric(name="nvlink_symbol_bit_error_ratio", unit="ratio", kind=_GAUGE, nvml="NVLink5: field 222", label="link",
           help="Share of bits wrong counted by symbols.", maximum=1.0, dcgm=(
               Alias(name="DCGM_FI_DEV_NVLINK_COUNT_SYMBOL_BER_FLOAT", label_value=ALL_LINKS),
               Alias(name="DCGM_FI_DEV_NVLINK_SYMBOL_BER_RATIO", label_value=ALL_LINKS))),
    Metric(name="nvlink_fec_corrected_total", unit="count", kind=_COUNTER, nvml="NVLink5: fields 235 to 250",
           help="Blocks over all NVLinks in which this many symbols were corrected.", cadence=Cadence.EXPENSIVE,
           label="bin", label_values=tuple(str(n) for n in range(16)),
           dcgm=tuple(Alias(name=f"DCGM_FI_DEV_NVLINK_COUNT_FEC_HISTORY_{n}", label_value=str(n)) for n in range(16))),
    Metric(name="fabric_state", unit="state", kind=_GAUGE, nvml="GetGpuFabricInfoV.state", maximum=6.0,
           help="Fabric registration: 0 not supported, 1 not started, 2 in progress, 3 completed, 4 failed.",
           dcgm=(Alias(name="DCGM_FI_DEV_FABRIC_MANAGER_STATUS"),)),
    Metric(name="fabric_health", unit="state", kind=_GAUGE, nvml="GetGpuFabricInfoV.healthSummary", maximum=3.0,
           help="Fabric health: 0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity.",
           dcgm=(Alias(name="DCGM_FI_DEV_FABRIC_HEALTH_SUMMARY"),)),
    Metric(name="c2c_link_errors_total", unit="count", kind=_COUNTER, nvml="fields 231, 232, 233", label="kind",
           help="Errors on the chip-to-chip links to the CPU.", label_values=("crc", "replay", "replay_back_to_back")),
    Metric(name="ecc_errors_total", unit="count", kind=_COUNTER, nvml="GetTotalEccErrors; fields 3, 4", label="kind",
           help="Memory errors found by ECC since the driver was loaded.", label_values=("corrected", "uncorrected"),
           dcgm=(Alias(name="DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", label_value="corrected"),
                 Alias(name="DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", label_value="uncorrected"))),
    Metric(name="ecc_errors_aggregate", unit="count", kind=_GAUGE, nvml="fields 5, 6", label="kind",
           help="Memory errors found by ECC over the life of the card.", label_values=("corrected", "uncorrected"),
           dcgm=(Alias(name="DCGM_FI_DEV_ECC_SBE_AGG_TOTAL", label_value="corrected"),
                 Alias(name="DCGM_FI_DEV_ECC_DBE_AGG_TOTAL", label_value="uncorrected"))),
    Metric(name="sram_ecc_threshold_exceeded", unit="boolean", kind=_GAUGE, maximum=1.0,
           nvml="GetSramEccErrorStatus.bThresholdExceeded", help="1 once on-chip memory had more errors than allowed.",
           dcgm=(Alias(name="DCGM_FI_DEV_THRESHOLD_SRM"), Alias(name="DCGM_FI_DEV_SRAM_EXCEEDED"))),
    Metric(name="remapped_rows", unit="count", kind=_GAUGE, nvml="GetRemappedRows; fields 142, 143", label="cause",
           help="Memory rows replaced by spare ones.", label_values=("correctable", "uncorrectable"), dcgm=(
               Alias(name="DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", label_value="correctable"),
               Alias(name="DCGM_FI_DEV_ROW_REMAP_CORRECTABLE_TOTAL", label_value="correctable"),
               Alias(name="DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", label_value="uncorrectable"),
               Alias(name="DCGM_FI_DEV_ROW_REMAP_UNCORRECTABLE_TOTAL", label_value="uncorrectable"))),
    Metric(name="row_remap_pending", unit="boolean", kind=_GAUGE, nvml="field 144", maximum=1.0,
           help="1 while a row waits for a reset to be replaced.", dcgm=(Alias(name="DCGM_FI_DEV_ROW_REMAP_PENDING"),)),
    Metric(name="row_remap_failed", unit="boolean", kind=_GAUGE, nvml="field 145", maximum=1.0,
           help="1 once a row could not be replaced.",
           dcgm=(Alias(name="DCGM_FI_DEV_ROW_REMAP_FAILURE"), Alias(name="DCGM_FI_DEV_ROW_REMAP_FAILED"))),
    Metric(name="remap_banks", unit="count", kind=_GAUGE, nvml="GetRowRemapperHistogram", cadence=Cadence.EXPENSIVE,
           help="Memory banks that have this many spare rows left.", label="spare",
           label_values=("max", "high", "partial", "low", "none"), dcgm=tuple(
               Alias(name=f"DCGM_FI_DEV_{stem}_{spare.upper()}", label_value=spare)
               for spare in ("max", "high", "partial", "low", "none")
               for stem in ("BANKS_REMAP_ROWS_AVAIL", "BANK_REMAP_AVAIL"))),
    Metric(name="retired_pages", unit="count", kind=_GAUGE, nvml="fields 29, 30", label="cause",
           help="Memory pages taken out of use on cards without row remapping.",
           label_values=("correctable", "uncorrectable"), dcgm=(
               Alias(name="DCGM_FI_DEV_RETIRED_SBE", label_value="correctable"),
               Alias(name="DCGM_FI_DEV_PAGE_RETIRED_SBE_TOTAL", label_value="correctable"),
               Alias(name="DCGM_FI_DEV_RETIRED_DBE", label_value="uncorrectable"),
               Alias(name="DCGM_FI_DEV_PAGE_RETIRED_DBE_TOTAL", label_value="uncorrectable"))),
    Metric(name="retired_pages_pending", unit="count", kind=_GAUGE, nvml="field 31",
           help="Memory pages that wait for a reboot to be taken out of use.",
           dcgm=(Alias(name="DCGM_FI_DEV_RETIRED_PENDING"), Alias(name="DCGM_FI_DEV_PAGE_RETIRED_PENDING"))),
    Metric(name="memory_unrepairable", unit="boolean", kind=_GAUGE, nvml="GetUnrepairableMemoryFlag_v1", maximum=1.0,
           help="1 once the memory has a fault that cannot be repaired.",
           dcgm=(Alias(name="DCGM_FI_DEV_MEMORY_UNREPAIRABLE_FLAG"), Alias(name="DCGM_FI_DEV_MEMORY_UNREPAIRABLE"))),
    Metric(name="recovery_action", unit="state", kind=_GAUGE, nvml="field 230", maximum=7.0,
           help="What the driver asks for: 0 none, 1 GPU reset, 2 reboot, 3 drain peers, 4 drain and reset, 5 fabric.",
           dcgm=(Alias(name="DCGM_FI_DEV_GET_GPU_RECOVERY_ACTION"), Alias(name="DCGM_FI_DEV_GPU_RECOVERY_ACTION"))),
    Metric(name="xid_last_code", unit="state", kind=_GAUGE, nvml="none (exporter only)", maximum=9999.0,
           help="Last XID code, sticky, only as seen at an exporter.",
           dcgm=(Alias(name="DCGM_FI_DEV_XID_ERRORS"), Alias(name="DCGM_FI_DEV_XID_ERROR"))),
    Metric(name="mig_mode", unit="boolean", kind=_GAUGE, nvml="GetMigMode", cadence=Cadence.STATIC, maximum=1.0,
           help="1 while the GPU is split into instances.", dcgm=(Alias(name="DCGM_FI_DEV_MIG_MODE"),)),
    Metric(name="compute_processes", unit="count", kind=_GAUGE, nvml="GetComputeRunningProcesses_v3 (v2, v1)",
           help="Processes that hold a compute context.", cadence=Cadence.EXPENSIVE, is_per_instance=True),
    Metric(name="vgpu_license_status", unit="state", kind=_GAUGE, nvml="vGPU calls", cadence=Cadence.EXPENSIVE,
           help="1 if a vGPU is licensed, else 0.", dcgm=(Alias(name="DCGM_FI_DEV_VGPU_LICENSE_STATUS"),)),
)
# Left out on purpose: DCGM_FI_DRIVER_VERSION (a label of other rows: text, goes to `info`); NVLink recoveries that
# succeeded (1211: all less failed); raw bit error rates (1215, 1217: coded, not a number); PCIe throughput 200 and
# 201 (deprecated); DCGM_EXP_* (windows, not samples); FB_USED_PERCENT/_RATIO (used by total); info, XID events
# and memory per process (not sample values).
# fmt: on

BY_NAME: Mapping[str, Metric] = {metric.name: metric for metric in CATALOGUE}


def alias_index() -> dict[str, tuple[Metric, Alias]]:
    """Every dcgm-exporter name, old and new, with the metric it stands for and how to convert it."""
    return {alias.name: (metric, alias) for metric in CATALOGUE for alias in metric.dcgm}


def sample_key(name: str, label_value: str | None = None) -> str:
    """The key of one value in a report: `name`, or `name/label_value` where the metric has a label."""
    return name if label_value is None else f"{name}/{label_value}"


def split_key(key: str) -> tuple[str, str | None]:
    """The reverse of `sample_key`."""
    name, slash, label_value = key.partition("/")
    return name, label_value if slash else None
