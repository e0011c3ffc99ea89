"""Pages of other exporters: nvidia_gpu_exporter, AMD, Ascend, Cambricon, all-smi, HAMi -> facts and readings. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from trimtab.collect.exposition import Page, Sample
from trimtab.collect.pci import canonical_pci
from trimtab.model.metric import CLOCK_EVENT_BITS, sample_key
from trimtab.model.reading import GpuInfo, GpuReading, Process

_SMI = "nvidia_smi_"


@dataclass(frozen=True, slots=True, kw_only=True)
class VendorPage:
    """What such a page says: facts under the names of its kind, and readings where its GPUs are told apart."""

    kind: str
    facts: Mapping[str, object]
    gpus: tuple[GpuReading, ...] = ()
    unhealthy: tuple[str, ...] = ()
    """Devices that their vendor's own health value calls bad."""


@dataclass(slots=True)
class _Table:
    """Values of one page by family and device key."""

    values: dict[str, dict[str, float]] = field(default_factory=dict)
    labels: dict[str, dict[str, str]] = field(default_factory=dict)

    def of(self, *families: str) -> dict[str, float]:
        """The values of the first family that the page has."""
        return next((self.values[family] for family in families if family in self.values), {})


def _table(samples: Iterable[Sample], key_of: Callable[[Mapping[str, str]], str | None]) -> _Table:
    table = _Table()
    for sample in samples:
        labels = sample.series.folded
        key = key_of(labels)
        if key is not None and math.isfinite(sample.value):
            table.values.setdefault(sample.series.name, {}).setdefault(key, sample.value)
            table.labels[key] = {**table.labels.get(key, {}), **labels}
    return table


def number(value: float | None) -> float | int | None:
    """A whole number as such, for people and JSON; what is no number is absent."""
    if value is None or not math.isfinite(value):
        return None
    return int(value) if value == int(value) else value


def _numbers(values: Mapping[str, float]) -> dict[str, float | int | None]:
    return {key: number(value) for key, value in values.items()}


def _holder(labels: Mapping[str, str], pod_label: str = "pod") -> str | None:
    pod = labels.get(pod_label)
    return f"{labels.get('namespace', '')}/{pod}".lstrip("/") if pod else None


def read_vendor(page: Page) -> VendorPage | None:
    """The page of a known exporter, told by its names; None when it is none of them."""
    names = page.names
    for is_of_kind, reader in _KINDS:
        if is_of_kind(names):
            return reader(page)
    return None


# nvidia_gpu_exporter: base units already; N/A series are left out; the UUID lacks its prefix.
_SMI_VALUES: Mapping[str, str] = {
    "utilization_gpu_ratio": "utilization_ratio",
    "utilization_memory_ratio": "memory_controller_utilization_ratio",
    "memory_used_bytes": "memory_used_bytes",
    "memory_total_bytes": "memory_total_bytes",
    "memory_free_bytes": "memory_free_bytes",
    "temperature_gpu": "temperature_celsius",
    "temperature_memory": "memory_temperature_celsius",
    "temperature_gpu_tlimit": "temperature_margin_celsius",
    "power_draw_watts": "power_watts",
    "power_draw_instant_watts": "power_instant_watts",
    "enforced_power_limit_watts": "power_limit_watts",
    "clocks_current_sm_clock_hz": "sm_clock_hertz",
    "clocks_max_sm_clock_hz": "sm_clock_max_hertz",
    "gpu_recovery_action": "recovery_action",
    "remapped_rows_pending": "row_remap_pending",
    "remapped_rows_failure": "row_remap_failed",
    "remapped_rows_correctable": "remapped_rows/correctable",
    "remapped_rows_uncorrectable": "remapped_rows/uncorrectable",
    "ecc_errors_corrected_volatile_total": "ecc_errors_total/corrected",
    "ecc_errors_uncorrected_volatile_total": "ecc_errors_total/uncorrected",
    "fabric_state": "fabric_state",
}


def _read_smi_exporter(page: Page) -> VendorPage:
    table = _table((one for one in page.samples if "pid" not in one.series.labels), lambda labels: labels.get("uuid"))
    processes = _smi_processes(page)
    gpus = tuple(_smi_reading(uuid, table, processes.get(uuid, ())) for uuid in table.labels)
    per_gpu = {
        gpu.uuid: {
            "mig": gpu.info.is_mig,
            "util_gpu": number(gpu.values.get("utilization_ratio")),
            "remap_pending": number(gpu.values.get("row_remap_pending")),
            "power_w": number(gpu.values.get("power_watts")),
            "temp_c": number(gpu.values.get("temperature_celsius")),
            "recovery_action": number(gpu.values.get("recovery_action")),
            "processes": len(gpu.processes or ()),
        }
        for gpu in gpus
    }
    facts = {"gpus": len(gpus), "processes": sum(len(gpu.processes or ()) for gpu in gpus), "per_gpu": per_gpu}
    return VendorPage(kind="nvidia_gpu_exporter page", facts=facts, gpus=gpus)


def _smi_processes(page: Page) -> dict[str, tuple[Process, ...]]:
    found: dict[str, tuple[Process, ...]] = {}
    for sample in page.samples:
        labels = sample.series.labels
        pid = labels.get("pid", "")
        if (
            sample.series.name == f"{_SMI}compute_app_used_memory_bytes"
            and pid.isascii()
            and pid.isdigit()
            and 0 <= sample.value < 2**60
        ):
            process = Process(pid=int(pid), name=labels.get("process_name"), memory_used_bytes=int(sample.value))
            uuid = labels.get("uuid", "")
            found[uuid] = (*found.get(uuid, ()), process)
    return found


def _smi_reading(uuid: str, table: _Table, processes: tuple[Process, ...]) -> GpuReading:
    labels = table.labels[uuid]
    values = {
        ours: table.values[f"{_SMI}{theirs}"][uuid]
        for theirs, ours in _SMI_VALUES.items()
        if uuid in table.values.get(f"{_SMI}{theirs}", {})
    }
    mask = table.of(f"{_SMI}clocks_event_reasons_active", f"{_SMI}clocks_throttle_reasons_active").get(uuid)
    if mask is not None:
        values |= {
            sample_key("clock_event_active", reason): 1.0 if int(mask) & bit else 0.0
            for bit, reason in CLOCK_EVENT_BITS.items()
        }
    serial, index = labels.get("serial", ""), labels.get("index", "")
    info = GpuInfo(
        uuid=uuid,
        pci=canonical_pci(labels.get("pci_bus_id", "")),
        serial=serial if serial.strip("0") else None,
        model=labels.get("name") or None,
        index=int(index) if index.isdigit() else None,
        driver=labels.get("driver_version") or None,
        is_mig=table.of(f"{_SMI}mig_mode_current").get(uuid) == 1,
    )
    return GpuReading(info=info, values=values, processes=processes)


# AMD: cards are distinct serials, capacity is per partition; MB and percent; label case varies.
def _amd_key(labels: Mapping[str, str]) -> str | None:
    return labels.get("gpu_id") or labels.get("gpu_uuid")


def _read_amd(page: Page) -> VendorPage:
    table = _table(page.samples, _amd_key)
    devices = table.labels
    cards = {labels.get("serial_number") or labels.get("gpu_uuid") or key for key, labels in devices.items()}
    load = table.of("gpu_gfx_activity", "gpu_usage")
    power = table.of("gpu_package_power", "gpu_average_package_power")
    memory = table.of("gpu_total_vram", "gpu_total_memory")
    partitions: dict[str, int] = {}
    for labels in devices.values():
        serial = labels.get("serial_number", "")
        partitions[serial] = partitions.get(serial, 0) + 1
    health = table.of("gpu_health")
    per_gpu = {
        key: {
            "power_w": number(power.get(key)),
            "mem_total_mb": number(memory.get(key)),
            "util": number(load.get(key)),
            "holder": _holder(labels),
            "job": labels.get("job_id") or None,
        }
        for key, labels in devices.items()
    }
    facts: dict[str, object] = {
        "gpus": len(cards),
        "devices": len(devices),
        "busy": [key for key, value in load.items() if value > 0],
        "partitions_per_card": {serial: count for serial, count in partitions.items() if serial and count > 1},
        "per_gpu": per_gpu,
        "jobs": {key: labels.get("job_id") or None for key, labels in devices.items() if "job_id" in labels},
    }
    unhealthy = tuple(key for key, value in health.items() if value == 0)
    return VendorPage(kind="AMD device-metrics-exporter page", facts=facts, unhealthy=unhealthy)


# Ascend: 1 is healthy; a total of 0 MB is unknown; two label sets.
def _ascend_key(labels: Mapping[str, str]) -> str | None:
    return labels.get("id") or labels.get("npuid")


def _read_ascend(page: Page) -> VendorPage:
    table = _table(page.samples, _ascend_key)
    machine = next((number(one.value) for one in page.samples if one.series.name == "machine_npu_nums"), None)
    totals = {
        key: number(value) if value > 0 else None
        for key, value in table.of("npu_chip_info_hbm_total_memory", "npu_chip_info_total_memory").items()
    }
    owners = {key: _holder(labels, "pod_name") for key, labels in table.labels.items()}
    sizes = set(totals.values())
    health = table.of("npu_chip_info_health_status")
    devices = int(machine) if machine is not None else len(table.labels)
    facts: dict[str, object] = {
        "gpus": devices,
        "devices": devices,
        "health": _numbers(health),
        "hbm_total": totals,
        "hbm_total_mb": sizes.pop() if len(sizes) == 1 else None,
        "hbm_used_mb": _numbers(table.of("npu_chip_info_hbm_used_memory")),
        "utilization": _numbers(table.of("npu_chip_info_utilization", "container_npu_utilization")),
        "error_code": _numbers(table.of("npu_chip_info_error_code")),
        "owner": {key: owner for key, owner in owners.items() if owner},
    }
    unhealthy = tuple(key for key, value in health.items() if value == 0)
    return VendorPage(kind="Ascend npu-exporter page", facts=facts, unhealthy=unhealthy)


# Cambricon: per-core values are no sum; a fan speed of -1 is no fan.
def _read_mlu(page: Page) -> VendorPage:
    whole = _table((one for one in page.samples if "core" not in one.series.labels), lambda labels: labels.get("mlu"))
    cores: dict[str, list[float]] = {}
    for sample in page.samples:
        if sample.series.name == "core_utilization" and "mlu" in sample.series.labels and math.isfinite(sample.value):
            cores.setdefault(sample.series.labels["mlu"], []).append(sample.value)
    health = whole.of("health")
    facts: dict[str, object] = {
        "gpus": len(whole.labels),
        "devices": len(whole.labels),
        "activity": _numbers(whole.of("activity", "utilization")),
        "fan": {key: number(value) if value >= 0 else None for key, value in whole.of("fan_speed").items()},
        "memory_used_bytes": _numbers(whole.of("memory_used")),
        **{f"core_mean_card{key}": number(sum(found) / len(found)) for key, found in cores.items()},
    }
    unhealthy = tuple(key for key, value in health.items() if value == 0)
    return VendorPage(kind="Cambricon mlu-exporter page", facts=facts, unhealthy=unhealthy)


# all-smi: a host's page even where there is no GPU; used 0 beside available = total is a container's artefact.
def _read_all_smi(page: Page) -> VendorPage:
    gpus = _table(
        (one for one in page.samples if one.series.name.startswith("all_smi_gpu_")),
        lambda labels: labels.get("uuid") or labels.get("index"),
    )
    flat = {one.series.name: one.value for one in page.samples if math.isfinite(one.value)}
    disks = {
        one.series.labels.get("mount_point") for one in page.samples if one.series.name == "all_smi_disk_total_bytes"
    }
    total, used = flat.get("all_smi_memory_total_bytes"), flat.get("all_smi_memory_used_bytes")
    if used == 0 and flat.get("all_smi_memory_available_bytes") == total:
        used = None
    facts: dict[str, object] = {
        "gpus": len(gpus.labels),
        "disks": len(disks),
        "memory_total_bytes": number(total),
        "memory_used_bytes": number(used),
        "per_gpu": {
            key: {
                "util": number(gpus.of("all_smi_gpu_utilization").get(key)),
                "power_w": number(gpus.of("all_smi_gpu_power_consumption_watts").get(key)),
                "temp_c": number(gpus.of("all_smi_gpu_temperature_celsius").get(key)),
            }
            for key in gpus.labels
        },
    }
    return VendorPage(kind="all-smi page", facts=facts)


# HAMi: what was handed out is not what is used; big numbers stand in labels and are no values.
def _read_hami(page: Page) -> VendorPage:
    cards = _table(page.samples, lambda labels: labels.get("deviceuuid"))
    held: dict[str, float] = {}
    for sample in page.samples:
        labels = sample.series.labels
        holder = _holder(labels) if math.isfinite(sample.value) else None
        if sample.series.name in ("hami_container_device_memory_bytes", "vGPU_device_memory_usage_in_bytes") and holder:
            held[holder] = held.get(holder, 0.0) + sample.value
    facts: dict[str, object] = {
        "gpus": len(cards.labels),
        "containers": len(held),
        "core_allocated": _numbers(cards.of("GPUDeviceCoreAllocated")),
        "memory_allocated_bytes": _numbers(cards.of("GPUDeviceMemoryAllocated")),
        "container_memory_bytes": _numbers(held),
    }
    return VendorPage(kind="HAMi page", facts=facts)


_KINDS: tuple[tuple[Callable[[set[str]], bool], Callable[[Page], VendorPage]], ...] = (
    (lambda names: any(name.startswith(_SMI) for name in names), _read_smi_exporter),
    (lambda names: any(name.startswith(("npu_chip_", "machine_npu")) for name in names), _read_ascend),
    (lambda names: any(name.startswith("all_smi_") for name in names), _read_all_smi),
    (lambda names: any(name.startswith(("GPUDevice", "hami_")) for name in names), _read_hami),
    (lambda names: any(name.startswith("gpu_") for name in names) and "gpu_utilization" not in names, _read_amd),
    (lambda names: "chip_temperature" in names or {"activity", "driver_state"} <= names, _read_mlu),
)
