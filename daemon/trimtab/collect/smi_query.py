"""`nvidia-smi -q`, text or XML -> readings of GPUs in our names and units, and the facts a person looks for. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.collect.pci import canonical_pci
from trimtab.collect.smi_tree import Section, SmiLog, is_fault
from trimtab.model.reading import GpuInfo, GpuReading, MigReading, Process

_MIB = 1048576.0
_MEGA = 1e6
_UNKNOWN_MODELS = frozenset({"graphics device", "nvidia graphics device", "nvidia-graphics-device"})
_RECOVERY = {
    "none": 0, "reset": 1, "gpu reset": 1, "gpu reset required": 1, "reboot": 2, "node reboot required": 2,
    "os reboot": 2, "drain p2p": 3, "drain and reset": 4,
}  # fmt: skip
_FABRIC = {"not started": 1, "in progress": 2, "completed": 3}

# Sample key -> (factor to our unit, candidate paths in text and XML, over the versions of nvidia-smi).
_NUMBERS: Mapping[str, tuple[float, tuple[str, ...]]] = {
    "utilization_ratio": (0.01, ("utilization/gpu", "utilization/gpu util")),
    "memory_controller_utilization_ratio": (0.01, ("utilization/memory", "utilization/memory util")),
    "encoder_utilization_ratio": (0.01, ("utilization/encoder", "utilization/encoder util")),
    "decoder_utilization_ratio": (0.01, ("utilization/decoder", "utilization/decoder util")),
    "memory_total_bytes": (_MIB, ("fb memory usage/total",)),
    "memory_used_bytes": (_MIB, ("fb memory usage/used",)),
    "memory_free_bytes": (_MIB, ("fb memory usage/free",)),
    "memory_reserved_bytes": (_MIB, ("fb memory usage/reserved",)),
    "temperature_celsius": (1.0, ("temperature/gpu current temp", "temperature/gpu temp")),
    "memory_temperature_celsius": (1.0, ("temperature/memory current temp", "temperature/memory temp")),
    "temperature_margin_celsius": (1.0, ("temperature/gpu t.limit temp", "temperature/gpu temp tlimit")),
    "power_watts": (1.0, (
        "gpu power readings/average power draw", "gpu power readings/power draw", "power readings/power draw",
        "gpu power readings/instantaneous power draw", "gpu power readings/instant power draw",
        "power readings/average power draw")),
    "power_limit_watts": (1.0, (
        "gpu power readings/current power limit", "power readings/enforced power limit", "power readings/power limit",
        "power readings/current power limit")),
    "power_limit_default_watts": (1.0, (
        "gpu power readings/default power limit", "power readings/default power limit")),
    "fan_speed_ratio": (0.01, ("fan speed",)),
    "sm_clock_hertz": (_MEGA, ("clocks/sm", "clocks/sm clock")),
    "memory_clock_hertz": (_MEGA, ("clocks/memory", "clocks/mem clock")),
    "sm_clock_max_hertz": (_MEGA, ("max clocks/sm", "max clocks/sm clock")),
    "pcie_link_generation": (1.0, (
        "pci/gpu link info/pcie generation/current", "pci/pci gpu link info/pcie gen/current link gen")),
    "pcie_link_generation_max": (1.0, (
        "pci/gpu link info/pcie generation/max", "pci/pci gpu link info/pcie gen/max link gen")),
    "pcie_link_width_lanes": (1.0, (
        "pci/gpu link info/link width/current", "pci/pci gpu link info/link widths/current link width")),
    "pcie_link_width_lanes_max": (1.0, (
        "pci/gpu link info/link width/max", "pci/pci gpu link info/link widths/max link width")),
    "pcie_replay_total": (1.0, ("pci/replays since reset", "pci/replay counter")),
    "retired_pages/correctable": (1.0, (
        "retired pages/single bit ecc", "retired pages/multiple single bit retirement/retired count")),
    "retired_pages/uncorrectable": (1.0, (
        "retired pages/double bit ecc", "retired pages/double bit retirement/retired count")),
    "remapped_rows/correctable": (1.0, (
        "remapped rows/correctable error", "remapped rows/remapped row corr")),
    "remapped_rows/uncorrectable": (1.0, (
        "remapped rows/uncorrectable error", "remapped rows/remapped row unc")),
}  # fmt: skip

_FLAGS: Mapping[str, tuple[str, ...]] = {
    "row_remap_pending": ("remapped rows/pending", "remapped rows/remapped row pending"),
    "row_remap_failed": ("remapped rows/remapping failure occurred", "remapped rows/remapped row failure"),
    "retired_pages_pending": (
        "retired pages/pending page blacklist", "retired pages/pending blacklist", "retired pages/pending retirement"),
    "sram_ecc_threshold_exceeded": (
        "ecc errors/aggregate/sram threshold exceeded", "ecc errors/aggregate/sram threshold exceeded"),
    "memory_unrepairable": ("ecc errors/unrepairable memory", "ecc errors/unrepairable memory"),
}  # fmt: skip

_REASONS: Mapping[str, str] = {
    "idle": "idle", "gpu idle": "idle",
    "applications clocks setting": "application_clocks",
    "sw power cap": "sw_power_cap",
    "hw slowdown": "hw_slowdown",
    "hw thermal slowdown": "hw_thermal",
    "hw power brake slowdown": "hw_power_brake",
    "sync boost": "sync_boost",
    "sw thermal slowdown": "sw_thermal",
    "display clock setting": "display_clocks", "display clocks setting": "display_clocks",
}  # fmt: skip
REASON_NAMES: Mapping[str, str] = {
    "idle": "Idle", "application_clocks": "Applications Clocks Setting", "sw_power_cap": "SW Power Cap",
    "hw_slowdown": "HW Slowdown", "hw_thermal": "HW Thermal Slowdown", "hw_power_brake": "HW Power Brake Slowdown",
    "sync_boost": "Sync Boost", "sw_thermal": "SW Thermal Slowdown", "display_clocks": "Display Clock Setting",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class SmiGpu:
    """One GPU of the report: its reading, and what only this report says."""

    address: str
    reading: GpuReading
    mig_devices: int = 0
    recovery_action: str | None = None
    fabric_state: str | None = None
    fabric_status: str | None = None
    ecc_mode: str | None = None
    has_ecc_counters: bool = False
    banks: Mapping[str, int] = field(default_factory=dict)
    needs_reset: bool = False
    """Several values are `GPU requires reset` or ERR!."""

    @property
    def key(self) -> str:
        """UUID, or the address as printed where the report gives no UUID."""
        return self.reading.uuid


def read_gpus(log: SmiLog) -> tuple[SmiGpu, ...]:
    """All GPUs of a report."""
    driver = log.head.text("driver version")
    return tuple(_read_gpu(address, section, driver) for address, section in log.gpus)


def attached_of(log: SmiLog) -> int | None:
    """How many GPUs the report says are attached; it may list fewer."""
    number = log.head.number("attached gpus")
    return None if number is None else int(number)


def _read_gpu(address: str, section: Section, driver: str | None) -> SmiGpu:
    model = section.text("product name")
    minor = section.number("minor number")
    mig_devices = [*section.all("mig device"), *_inner(section, "mig devices", "mig device")]
    banks = section.find("remapped rows", "bank remap availability histogram") or section.find(
        "remapped rows", "row remapper histogram"
    )
    reading = GpuReading(
        info=GpuInfo(
            uuid=section.text("gpu uuid", "uuid") or address.lower(),
            pci=canonical_pci(address),
            serial=_serial(section),
            model=None if model is None or model.lower() in _UNKNOWN_MODELS else model,
            minor=None if minor is None else int(minor),
            vbios=section.text("vbios version"),
            driver=driver,
            is_mig=(section.text("mig mode/current", "mig mode/current mig") or "").lower() == "enabled",
        ),
        values=_values(section),
        instances=_instances(mig_devices),
        processes=_processes(section),
    )
    volatile = section.find("ecc errors", "volatile")
    return SmiGpu(
        address=address,
        reading=reading,
        mig_devices=len(mig_devices),
        recovery_action=section.text("gpu recovery action"),
        fabric_state=section.text("fabric/state"),
        fabric_status=section.text("fabric/status"),
        ecc_mode=section.text("ecc mode/current", "ecc mode/current ecc"),
        has_ecc_counters=volatile is not None and any(value.isdigit() for value in volatile.values()),
        banks=_counts(banks),
        needs_reset=sum(is_fault(value) for value in section.values()) > 1,
    )


def _counts(section: Section | None) -> dict[str, int]:
    """Children whose value starts with a whole number: `639 bank(s)`."""
    words = [(child.key, (child.value or "").split()) for child in section.children] if section else []
    return {key: int(parts[0]) for key, parts in words if parts and parts[0].isdigit()}


def _inner(section: Section, outer: str, inner: str) -> list[Section]:
    return [found for holder in section.all(outer) for found in holder.all(inner)]


def _serial(section: Section) -> str | None:
    serial = section.text("serial number", "serial")
    return None if serial is None or not serial.strip("0") else serial


def _values(section: Section) -> dict[str, float]:
    values: dict[str, float] = {}
    for key, (factor, paths) in _NUMBERS.items():
        number = section.number(*paths)
        if number is not None:
            values[key] = number * factor
    for key, paths in _FLAGS.items():
        flag = section.flag(*paths)
        if flag is not None:
            values[key] = float(flag)
    recovery = _RECOVERY.get((section.text("gpu recovery action") or "").lower())
    if recovery is not None:
        values["recovery_action"] = float(recovery)
    fabric = _FABRIC.get((section.text("fabric/state") or "").lower())
    if fabric is not None:
        values["fabric_state"] = float(fabric)
    return values | _ecc(section) | _clock_events(section)


def _ecc(section: Section) -> dict[str, float]:
    """Volatile counters by kind; the kinds of memory are added, as the driver's total does."""
    volatile = section.find("ecc errors", "volatile")
    if volatile is None:
        return {}
    found: dict[str, float] = {}
    for child in volatile.children:
        kind = "uncorrected" if "uncorrectable" in child.key else "corrected" if "correctable" in child.key else None
        if kind and child.value is not None and child.value.strip().isdigit():
            key = f"ecc_errors_total/{kind}"
            found[key] = found.get(key, 0.0) + float(child.value)
    return found


def _clock_events(section: Section) -> dict[str, float]:
    """Reasons that hold the clocks down; `Throttle` was renamed to `Event` with driver 535, XML prefixes its tags."""
    found: dict[str, float] = {}
    for title in ("clocks event reasons", "clocks throttle reasons"):
        holder = section.find(title)
        for child in _flat(holder) if holder else ():
            name = child.key.removeprefix("clocks throttle reason ").removeprefix("clocks event reason ")
            reason = _REASONS.get(name)
            if reason and child.value and "active" in child.value.lower():
                found[f"clock_event_active/{reason}"] = 0.0 if child.value.lower().startswith("not") else 1.0
    return found


def _flat(section: Section) -> list[Section]:
    return [found for child in section.children for found in (child, *_flat(child))]


def _instances(devices: list[Section]) -> tuple[MigReading, ...]:
    """One reading per compute instance. Those of one GPU instance share its memory: it stands on the first."""
    seen: set[int] = set()
    found = []
    for device in devices:
        gi = device.number("gpu instance id")
        if gi is None:
            continue
        ci = device.number("compute instance id")
        values = {} if int(gi) in seen else _instance_memory(device)
        seen.add(int(gi))
        found.append(MigReading(gi=int(gi), ci=None if ci is None else int(ci), values=values))
    return tuple(found)


def _instance_memory(device: Section) -> dict[str, float]:
    values = {}
    for part in ("total", "used", "free"):
        number = device.number(f"shared fb memory usage/{part}", f"fb memory usage/{part}")
        if number is not None:
            values[f"memory_{part}_bytes"] = number * _MIB
    return values


def _processes(section: Section) -> tuple[Process, ...] | None:
    holder = section.find("processes")
    if holder is None:
        return None
    entries = [found for found in _flat(holder) if found.key == "process id"] or list(holder.all("process info"))
    return tuple(process for process in map(_process, entries) if process is not None)


def _process(entry: Section) -> Process | None:
    pid = int(entry.value) if entry.value and entry.value.strip().isdigit() else entry.number("pid")
    if pid is None:
        return None
    used = entry.number("used gpu memory", "used memory")
    name = entry.text("name", "process name")
    return Process(pid=int(pid), name=name, memory_used_bytes=None if used is None else int(used * _MIB))
