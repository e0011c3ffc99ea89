"""Exporter pages: dcgm-exporter, one or several scrapes, and the pages of other exporters."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from trimtab.collect.dcgm import DcgmPage, DcgmReader, is_dcgm
from trimtab.collect.dcgm_xid import XidGauge, standing_codes
from trimtab.collect.exposition import Page, PageReader
from trimtab.collect.vendor_pages import VendorPage, number, read_vendor
from trimtab.detect.detector import judge_events
from trimtab.detect.xid_table import load_table
from trimtab.errors import UnreadableInput
from trimtab.inspect.inspection import Counted, Inspection, Table, in_order, remark
from trimtab.model.advice import Action, Finding
from trimtab.model.reading import GpuReading

KIND = "dcgm-exporter page"
_BASE_FAMILIES = ("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_FB_USED")
"""Families that a reader looks for on any GPU: where a page lacks them, the reading says null."""
_PARTING = re.compile(r"^--- ?(.*)$", re.MULTILINE)
_SECONDS = re.compile(r"t=(\d+)")
_MIB = 1048576.0


def blocks_of(text: str) -> list[tuple[str, str]]:
    """(title, text) of the blocks parted by `--- …` lines; one block without a title where there are none."""
    parts = _PARTING.split(text)
    if len(parts) == 1:
        return [("", text)]
    head = [("", parts[0])] if parts[0].strip() else []
    return head + list(zip(parts[1::2], parts[2::2], strict=True))


def read_pages(text: str, *, now: datetime) -> Inspection:
    """A page, or several scrapes of one exporter. Raises UnreadableInput for a page that no reader knows."""
    blocks = blocks_of(text)
    reader = PageReader()
    pages = [(title, reader.read(block)) for title, block in blocks]
    whole = Page(samples=[sample for _, page in pages for sample in page.samples])
    if not whole.samples:
        raise UnreadableInput("is a metrics page without a single sample: is the exporter running?")
    if is_dcgm(whole):
        return _read_dcgm(pages, now=now)
    found = [(title, read_vendor(page)) for title, page in pages]
    known = [(title, page) for title, page in found if page is not None]
    if not known:
        names = ", ".join(sorted(whole.names)[:4])
        raise UnreadableInput(
            f"is a metrics page of an exporter that trimtab does not read ({names} …). Known: dcgm-exporter, "
            "nvidia_gpu_exporter, AMD device-metrics-exporter, Ascend npu-exporter, mlu-exporter, all-smi, HAMi"
        )
    return _read_vendor(known, errors=sum(page.errors for _, page in pages), now=now)


def _read_dcgm(pages: Sequence[tuple[str, Page]], *, now: datetime) -> Inspection:
    reader, gauge = DcgmReader(), XidGauge()
    read = [(title, reader.read_page(page)) for title, page in pages]
    events = [event for _, page in read for event in gauge.changes(page, at=now)]
    last = read[-1][1]
    findings = list(judge_events(events, readings=last.gpus, at=now))
    if len(read) == 1:
        findings += _standing(last.gpus, now=now)
    reading = _reading(last) | {"pods": len(_pods(last.gpus)), "events": len(events)}
    if len(read) > 1:
        reading["scrapes"] = [{"t": _seconds(title)} | _reading(page) for title, page in read]
    errors = sum(page.errors for _, page in read)
    return Inspection(
        kind=KIND,
        reading=reading,
        sentence=_sentence(last, scrapes=len(read)),
        findings=in_order(findings),
        errors=errors,
        notes=tuple(_notes(last, errors=errors)),
        tables=(_table(last.gpus),),
    )


def _seconds(title: str) -> int | None:
    found = _SECONDS.search(title)
    return int(found[1]) if found else None


def _reading(page: DcgmPage) -> dict[str, object]:
    families = [family for family in (*_BASE_FAMILIES, *sorted(page.families)) if family]
    # A card that shows its instances only has no whole-card families at all; it is not filled up.
    per_gpu: dict[str, dict[str, float | None]] = {}
    for uuid, values in page.per_gpu.items():
        per_gpu[uuid] = dict.fromkeys(families) if values else {}
        per_gpu[uuid].update({key: number(one) for key, one in values.items()})
    reading: dict[str, object] = {
        "gpus": len(page.gpus),
        "mig_instances": len(page.per_instance),
        "per_gpu": per_gpu,
        "per_instance": {
            key: {name: number(one) for name, one in values.items()} for key, values in page.per_instance.items()
        },
        "families": len(page.families),
        "blank_series": page.blanks,
        "xid_series": sum("DCGM_FI_DEV_XID_ERRORS" in values for values in page.per_gpu.values()),
        "limit_known": sum("power_limit_watts" in gpu.values for gpu in page.gpus),
        "holders": {gpu.uuid: gpu.holder or list(gpu.shared_by) for gpu in page.gpus if gpu.holder or gpu.shared_by},
    }
    pci = {gpu.uuid: gpu.info.pci for gpu in page.gpus if gpu.info.pci}
    totals = {gpu.uuid: gpu.values["memory_total_bytes"] for gpu in page.gpus if "memory_total_bytes" in gpu.values}
    if pci:
        reading["pci"] = pci
    if totals:
        reading["fb_total_mib"] = {uuid: number(total / _MIB) for uuid, total in totals.items()}
    return reading


def _pods(gpus: Sequence[GpuReading]) -> set[str]:
    found = {holder for gpu in gpus for holder in (gpu.holder, *gpu.shared_by) if holder}
    return found | {one.holder for gpu in gpus for one in gpu.instances if one.holder}


def _standing(gpus: Sequence[GpuReading], *, now: datetime) -> Iterator[Finding]:
    """One page tells the last code and not when: a thing to look up, never a verdict."""
    table = load_table()
    for event in standing_codes(gpus, at=now):
        row = table.by_code.get(event.code or 0, table.unknown)
        yield remark(
            "exporter_xid",
            event.gpu or "",
            Action.WATCH,
            f"{event.gpu} shows XID {event.code} ({row.name}) as its last code; when it came is not said",
            advice="Look in the kernel log of the node: journalctl -k | grep -i xid. The gauge keeps the code until "
            "the exporter restarts.",
        )


def _sentence(page: DcgmPage, *, scrapes: int) -> str:
    instances = f", {Counted(len(page.per_instance), 'MIG instance')}" if page.per_instance else ""
    series = f", {scrapes} scrapes" if scrapes > 1 else ""
    pods = _pods(page.gpus)
    held = f", held by {', '.join(sorted(pods)[:3])}{' …' if len(pods) > 3 else ''}" if pods else ""
    return f"{Counted(len(page.gpus), 'GPU')}{instances}{series}{held}"


def _notes(page: DcgmPage, *, errors: int) -> Iterator[str]:
    if errors:
        yield f"{Counted(errors, 'line')} could not be read: counted, skipped."
    if page.blanks:
        yield f"{page.blanks} values are DCGM's mark for `no value`: unknown, not 0."
    if page.traffic_gap:
        yield "NVLink traffic is 0 on every GPU beside clear activity: not seen by the exporter, so unknown."
    if any(gpu.shared_by for gpu in page.gpus):
        yield "A GPU shared by several pods shows each the whole device's value; each pod's share is unknown."


def _read_vendor(pages: Sequence[tuple[str, VendorPage]], *, errors: int, now: datetime) -> Inspection:
    last = pages[-1][1]
    reading = dict(last.facts)
    if len(pages) > 1:
        reading["scrapes"] = [{"t": _seconds(title)} | dict(page.facts) for title, page in pages]
        jobs = {job for _, page in pages for job in _values(page.facts.get("jobs")) if job}
        reading["job_count"] = len(jobs)
    findings = list(judge_events(readings=last.gpus, at=now))
    findings += [
        remark("vendor_health", device, Action.WATCH, f"Device {device} is unhealthy, as its vendor says",
               advice="Ask the vendor's own tool why.")
        for device in last.unhealthy
    ]  # fmt: skip
    return Inspection(
        kind=last.kind,
        reading=reading,
        sentence=f"{Counted(int(str(reading.get('gpus', 0))), 'accelerator')}"
        + (f", {Counted(len(pages), 'scrape')}" if len(pages) > 1 else ""),
        findings=in_order(findings),
        errors=errors,
        tables=(_table(last.gpus),) if last.gpus else (),
    )


def _values(table: object) -> list[object]:
    return list(table.values()) if isinstance(table, dict) else []


def _table(gpus: Sequence[GpuReading]) -> Table:
    """The numbers that a person looks for first."""
    rows = [
        (
            str(gpu.info.index) if gpu.info.index is not None else gpu.uuid[:12],
            gpu.info.model or "?",
            _shown(gpu.values.get("utilization_ratio"), 100, "%"),
            _shown(gpu.values.get("power_watts"), 1, "W"),
            _shown(gpu.values.get("temperature_celsius"), 1, "°C"),
            _shown(gpu.values.get("memory_used_bytes"), 1 / 2**30, "GiB"),
            gpu.holder or ", ".join(gpu.shared_by[:2]) or "–",
        )
        for gpu in gpus[:40]
    ]
    return Table(head=("GPU", "model", "busy", "power", "temp", "memory", "held by"), rows=tuple(rows))


def _shown(value: float | None, factor: float, unit: str) -> str:
    return "?" if value is None else f"{value * factor:.0f} {unit}"
