"""`nvidia-smi -q` as text or XML, and the choice among all outputs of nvidia-smi."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from trimtab.collect.smi_query import REASON_NAMES, SmiGpu, attached_of, read_gpus
from trimtab.collect.smi_table import is_csv, is_list
from trimtab.collect.smi_topology import is_topology
from trimtab.collect.smi_tree import SmiLog, read_text, read_xml
from trimtab.collect.vendor_pages import number
from trimtab.detect.condition import RETIRED_PAGES_RMA
from trimtab.detect.detector import judge_events
from trimtab.errors import UnreadableInput
from trimtab.inspect.inspection import Counted, Inspection, in_order
from trimtab.inspect.smi_small import (
    gpu_table,
    needs_reset,
    read_csv_output,
    read_handle_error_output,
    read_link_output,
    read_table_output,
)
from trimtab.inspect.topology import read_topology_output

_MIB = 1048576.0
_FABRIC_MODELS = ("HBM3", "H100", "H200", "B200", "B300", "A100-SXM", "A800-SXM")
"""Models that come on boards of eight (or four) behind NVSwitch when their report has a fabric state."""


def reader_of(text: str) -> Callable[[str, datetime], Inspection] | None:
    """The reader for one of nvidia-smi's outputs; None for any other text."""
    head = text[:100_000]
    kinds: tuple[tuple[bool, Callable[[str, datetime], Inspection]], ...] = (
        ("<nvidia_smi_log" in head, _read_xml),
        ("NVSMI LOG=" in head or _is_query_part(head), _read_query),
        ("| NVIDIA-SMI " in head, read_table_output),
        ("Unable to determine the device handle" in head, read_handle_error_output),
        (is_topology(head), read_topology_output),
        (is_list(head), read_link_output),
        (is_csv(head), read_csv_output),
    )
    return next((reader for is_of_kind, reader in kinds if is_of_kind), None)


def _is_query_part(text: str) -> bool:
    """Part of a -q report, cut out by a person: a GPU line, then indented headings."""
    lines = [line for line in text.splitlines()[:5] if line.strip()]
    return (
        len(lines) > 1
        and lines[0].startswith("GPU ")
        and lines[0].count(":") >= 2
        and "(" not in lines[0]
        and lines[1].startswith("    ")
    )


def _read_xml(text: str, now: datetime) -> Inspection:
    return _query(read_xml(text), "nvidia-smi -q -x", now)


def _read_query(text: str, now: datetime) -> Inspection:
    return _query(read_text(text), "nvidia-smi -q", now)


def _query(log: SmiLog, kind: str, now: datetime) -> Inspection:
    gpus = read_gpus(log)
    attached = attached_of(log)
    if not gpus:
        raise UnreadableInput(f"looks like {kind} but lists no GPU. Is the file whole?")
    events = [needs_reset(gpu.reading.info, now) for gpu in gpus if gpu.needs_reset]
    expected = _expected(gpus, attached)
    findings = judge_events(
        events,
        readings=[gpu.reading for gpu in gpus],
        at=now,
        gpus_expected=expected,
        node="" if expected is None else "this node",
    )
    reading = _query_reading(gpus, attached)
    if expected is not None:
        reading["expected"] = expected
    return Inspection(
        kind=kind,
        reading=reading,
        sentence=_query_sentence(gpus, attached),
        findings=in_order(findings),
        notes=tuple(_query_notes(gpus, attached)),
        tables=(gpu_table([gpu.reading for gpu in gpus]),),
    )


def _expected(gpus: Sequence[SmiGpu], attached: int | None) -> int | None:
    """How many GPUs a board behind NVSwitch comes with, where the count cannot be right; None = no statement."""
    shown = attached if attached is not None else len(gpus)
    is_board = all(
        gpu.fabric_state is not None and any(word in (gpu.reading.info.model or "") for word in _FABRIC_MODELS)
        for gpu in gpus
    )
    if not is_board or shown in (1, 2, 4, 8) or shown != len(gpus):
        return None
    return 4 if shown < 4 else 8 if shown < 8 else None


def _query_reading(gpus: Sequence[SmiGpu], attached: int | None) -> dict[str, object]:
    own = {gpu.key: _gpu_reading(gpu) for gpu in gpus}
    reading: dict[str, object] = {"gpus": len(gpus), "attached": attached, "per_gpu": own}
    if len(gpus) == 1:
        reading |= own[gpus[0].key] | {"uuid": gpus[0].key}
    else:
        reading |= _shared(gpus, own)
    reading["rma"] = [gpu.key for gpu in gpus if _retired(gpu) >= RETIRED_PAGES_RMA]
    reading["pending"] = sum(gpu.reading.values.get("retired_pages_pending") == 1 for gpu in gpus)
    reading["active"] = sorted({name for gpu in gpus for name in _active(gpu)})
    return reading


def _shared(gpus: Sequence[SmiGpu], own: dict[str, dict[str, object]]) -> dict[str, object]:
    """What a person asks of all GPUs at once: equal values as one, power as a list."""
    shared: dict[str, object] = {"power_w": [values["power_w"] for values in own.values()]}
    for key in ("limit_w", "fabric_state", "fabric_status"):
        found = [own[gpu.key][key] for gpu in gpus]
        shared[key] = found[0] if all(value == found[0] for value in found) else found
    return shared


def _retired(gpu: SmiGpu) -> float:
    values = gpu.reading.values
    return values.get("retired_pages/correctable", 0.0) + values.get("retired_pages/uncorrectable", 0.0)


def _active(gpu: SmiGpu) -> list[str]:
    values = gpu.reading.values
    return [
        name for reason, name in REASON_NAMES.items() if reason != "idle" and values.get(f"clock_event_active/{reason}")
    ]


def _gpu_reading(gpu: SmiGpu) -> dict[str, object]:
    """The facts of one GPU; null = unknown."""
    values = gpu.reading.values

    def of(key: str, factor: float = 1.0) -> float | int | None:
        value = values.get(key)
        return None if value is None else number(round(value * factor, 6))

    def flag(key: str) -> bool | None:
        value = values.get(key)
        return None if value is None else bool(value)

    instances = gpu.reading.instances
    idle = values.get("clock_event_active/idle")
    remap = {"correctable": of("remapped_rows/correctable"), "uncorrectable": of("remapped_rows/uncorrectable"),
             "pending": flag("row_remap_pending"), "failure": flag("row_remap_failed"), **gpu.banks}  # fmt: skip
    has_remap = any(value is not None for value in remap.values())
    return {
        "pci": gpu.reading.info.pci,
        "model": gpu.reading.info.model,
        "util_gpu": of("utilization_ratio", 100),
        "temp_c": of("temperature_celsius"),
        "tlimit_c": of("temperature_margin_celsius"),
        "power_w": of("power_watts"),
        "limit_w": of("power_limit_watts"),
        "fb_used_mib": of("memory_used_bytes", 1 / _MIB),
        "link_gen": of("pcie_link_generation"),
        "link_gen_max": of("pcie_link_generation_max"),
        "width": of("pcie_link_width_lanes"),
        "idle": None if idle is None else bool(idle),
        "recovery_action": gpu.recovery_action,
        "remap_pending": flag("row_remap_pending"),
        "remap": remap if has_remap else None,
        "remapped_rows": {key: remap[key] for key in ("correctable", "uncorrectable")} if has_remap else None,
        "retired_pages": _retired(gpu) if "retired_pages/correctable" in values else None,
        "sbe": of("retired_pages/correctable"),
        "dbe": of("retired_pages/uncorrectable"),
        "pending": flag("retired_pages_pending"),
        "ecc_mode": gpu.ecc_mode,
        "volatile": {
            "corrected": of("ecc_errors_total/corrected"),
            "uncorrected": of("ecc_errors_total/uncorrected"),
        }
        if gpu.has_ecc_counters
        else None,
        "fabric_state": gpu.fabric_state,
        "fabric_status": gpu.fabric_status,
        "mig_devices": gpu.mig_devices,
        "gpu_instances": len({one.gi for one in instances}),
        "mig_used_mib": {
            str(one.gi): number(one.values["memory_used_bytes"] / _MIB)
            for one in instances
            if "memory_used_bytes" in one.values
        },
        "processes": None if gpu.reading.processes is None else len(gpu.reading.processes),
    }  # fmt: skip


def _query_sentence(gpus: Sequence[SmiGpu], attached: int | None) -> str:
    shown = f"{Counted(len(gpus), 'GPU')}"
    of = f" of {attached} attached" if attached is not None and attached != len(gpus) else ""
    driver = gpus[0].reading.info.driver
    return f"{shown}{of}" + (f", driver {driver}" if driver else "")


def _query_notes(gpus: Sequence[SmiGpu], attached: int | None) -> Iterator[str]:
    if any(gpu.reading.info.is_mig for gpu in gpus):
        yield "A GPU in MIG mode has no utilisation and no row-remap figures: unknown, not 0."
    if any("Unknown Error" in (gpu.ecc_mode or "Unknown Error") and gpu.banks for gpu in gpus):
        yield "ECC counters cannot be read, row remapping can: N/A is not 0."
    if any(name in _active(gpu) for gpu in gpus for name in ("SW Power Cap",)):
        yield "SW Power Cap at full load is usual, and no fault while the draw is near the limit."
    if attached is not None and attached > len(gpus):
        yield f"{attached - len(gpus)} attached GPUs are not in this file: nothing is said about them."
