"""The smaller outputs of nvidia-smi: the table, CSV, link status and error messages."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from trimtab.collect.smi_table import TableGpu, read_csv, read_handle_errors, read_links, read_table
from trimtab.collect.vendor_pages import number
from trimtab.detect.detector import judge_events
from trimtab.errors import UnreadableInput
from trimtab.inspect.inspection import Counted, Inspection, Table, in_order
from trimtab.model.reading import Event, EventKind, EventSource, GpuInfo, GpuReading, GpuState

_MIB = 1048576.0


def needs_reset(info: GpuInfo, now: datetime) -> Event:
    """A GPU that says in several values that it wants a reset."""
    return Event(
        kind=EventKind.RESET_REQUIRED,
        source=EventSource.NVML,
        at=now,
        gpu=info.uuid,
        pci=info.pci,
        text=f"nvidia-smi shows `GPU requires reset` or ERR! for {info.uuid}",
    )


def gpu_table(readings: Sequence[GpuReading]) -> Table:
    """The numbers that a person looks for first."""
    rows = []
    for reading in readings[:40]:
        values = reading.values
        load, power, temperature = (
            values.get(key) for key in ("utilization_ratio", "power_watts", "temperature_celsius")
        )
        used = values.get("memory_used_bytes")
        rows.append((
            reading.info.pci or reading.uuid[:20],
            reading.info.model or "?",
            "?" if load is None else f"{load:.0%}",
            "?" if power is None else f"{power:.0f} W",
            "?" if temperature is None else f"{temperature:.0f} °C",
            "?" if used is None else f"{used / 2**30:.1f} GiB",
        ))  # fmt: skip
    return Table(head=("GPU", "model", "busy", "power", "temp", "memory"), rows=tuple(rows))


def read_table_output(text: str, now: datetime) -> Inspection:
    """The plain table."""
    gpus = read_table(text)
    if not gpus:
        raise UnreadableInput("looks like nvidia-smi's table but has no GPU row. Is the file whole?")
    reading = {
        "gpus": len(gpus),
        "bad": [gpu.index for gpu in gpus if gpu.is_bad],
        "per_gpu": {
            str(gpu.index): {
                "temp_c": number(gpu.temperature_celsius),
                "power_w": number(gpu.power_watts),
                "used_mib": number(gpu.memory_used_mib),
                "util": number(gpu.utilization_percent),
            }
            for gpu in gpus
        },
    }
    notes = (
        ("Memory `0MiB` of a GPU with ERR! is no proof that it is free.",) if any(gpu.is_bad for gpu in gpus) else ()
    )
    return _table_inspection("nvidia-smi table", reading, gpus, now, state=GpuState.UNREADABLE, notes=notes)


def read_csv_output(text: str, now: datetime) -> Inspection:
    """`--query-gpu … --format=csv`."""
    gpus = read_csv(text)
    reading = {
        "gpus": len(gpus),
        "needs_reset": [gpu.index for gpu in gpus if gpu.is_bad],
        "util": {str(gpu.index): number(gpu.utilization_percent) for gpu in gpus},
        "power_w": {str(gpu.index): number(gpu.power_watts) for gpu in gpus},
        "temp_c": {str(gpu.index): number(gpu.temperature_celsius) for gpu in gpus},
    }
    return _table_inspection("nvidia-smi --query-gpu CSV", reading, gpus, now, state=None)


def _table_inspection(
    kind: str,
    reading: dict[str, object],
    gpus: Sequence[TableGpu],
    now: datetime,
    *,
    state: GpuState | None,
    notes: tuple[str, ...] = (),
) -> Inspection:
    """`state` is what a bad row means; None = the row itself says that a reset is required."""
    readings = [_table_reading(gpu, state) for gpu in gpus]
    events = [
        needs_reset(reading.info, now) for gpu, reading in zip(gpus, readings, strict=True) if gpu.is_bad and not state
    ]
    return Inspection(
        kind=kind,
        reading=reading,
        sentence=str(Counted(len(gpus), "GPU")),
        findings=in_order(judge_events(events, readings=readings, at=now)),
        notes=notes,
        tables=(gpu_table(readings),),
    )


def _table_reading(gpu: TableGpu, state: GpuState | None) -> GpuReading:
    found = {
        "utilization_ratio": (gpu.utilization_percent, 0.01),
        "power_watts": (gpu.power_watts, 1.0),
        "power_limit_watts": (gpu.power_limit_watts, 1.0),
        "temperature_celsius": (gpu.temperature_celsius, 1.0),
        "memory_used_bytes": (None if gpu.is_bad else gpu.memory_used_mib, _MIB),
        "memory_total_bytes": (gpu.memory_total_mib, _MIB),
    }
    return GpuReading(
        info=GpuInfo(uuid=gpu.uuid or gpu.pci or f"GPU {gpu.index}", pci=gpu.pci, index=gpu.index, model=gpu.name),
        state=state if gpu.is_bad and state else GpuState.OK,
        values={key: value * factor for key, (value, factor) in found.items() if value is not None},
    )


def read_handle_error_output(text: str, now: datetime) -> Inspection:
    """Error messages of GPUs that cannot be opened."""
    found = read_handle_errors(text)
    events = [
        Event(kind=EventKind.FALLEN_OFF, source=EventSource.NVML, at=now, pci=one.pci, text=one.text,
              gpu=None if one.pci else one.raw.lower())
        for one in found
    ]  # fmt: skip
    return Inspection(
        kind="nvidia-smi error",
        reading={
            "outputs": [{"pci": one.pci, "raw": one.raw} | ({"lost": True} if one.is_lost else {}) for one in found],
        },
        sentence=f"{Counted(len(found), 'GPU')} without a handle",
        findings=in_order(judge_events(events, at=now)),
        notes=("nvidia-smi stops at the first lost GPU: how many others are well is not said here.",),
    )


def read_link_output(text: str, now: datetime) -> Inspection:  # noqa: ARG001 - one shape for all readers
    """`nvidia-smi nvlink --status` and `nvidia-smi -L`."""
    found = read_links(text)
    links = {
        str(one.index): None if one.speeds is None else sum("inactive" not in speed.lower() for speed in one.speeds)
        for one in found
    }
    instances = sum(len(one.instances) for one in found)
    reading: dict[str, object] = {"gpus": len(found), "links": links, "mig_devices": instances}
    unknown = sum(value is None for value in links.values())
    return Inspection(
        kind="nvidia-smi nvlink" if "link" in text.lower() else "nvidia-smi -L",
        reading=reading,
        sentence=str(Counted(len(found), "GPU")) + (f", {Counted(instances, 'MIG device')}" if instances else ""),
        notes=(f"NVLink of {Counted(unknown, 'GPU')} is not said (as in MIG mode): unknown, not 0 links.",)
        if unknown
        else (),
    )
