"""Kernel logs, journal exports and /dev/kmsg copies: records, events, what they mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.clock import iso
from trimtab.collect.journal_export import entries_of, is_journal_export
from trimtab.collect.kernel_events import KnownGpus, StormCap, events_of
from trimtab.collect.kernel_lines import read_json_entry
from trimtab.collect.kernel_records import KernelLogParser, KernelRecord, settle
from trimtab.detect.detector import judge_events
from trimtab.inspect.inspection import Counted, Inspection, Table, in_order
from trimtab.model.advice import Finding
from trimtab.model.reading import Event, EventKind, EventSource

KIND = "kernel log"
RECORDS_KEPT_MAX = 20_000
"""Of a log that is read in a stream, this many records with something to say are shown; all are judged."""
_SLICE_LINES = 20_000
_KERNEL_LINE = re.compile(
    r"^(?:\d{1,3},\d+,\d+,[^;]*;|(?:<\d+>)?\[\s*\d+\.\d{3,6}\]|\[\w{3} \w{3} +\d+ [\d:]{8} \d{4}\]|"
    r"\w{3} +\d+ \d\d:\d\d:\d\d \S+ |\d{4}-\d\d-\d\dT[\d:.,+Z-]+ \S+ \S|kernel: |"
    r"\[\w{3} \d\d \d{4} [\d:]{8}\] \[\w+\])"
)
_DRIVER_LINE = re.compile(r"NVRM:|nvidia-nvswitch\d+:|\bnvgpu:|\bMTGPU:|^node\s+xid\d+_total\s*$", re.MULTILINE)
_KIND_WORDS = {
    "xid": "XID",
    "sxid": "SXid",
    "fallen_off": "fell off the bus",
    "rm_init": "failed to initialise",
}
_ROWS_MAX = 40


def is_log(text: str) -> bool:
    """Whether a text looks like a kernel log in any shape: by its driver lines, else by its stamps."""
    head = text[:200_000]
    if _DRIVER_LINE.search(head) or is_journal_export(head):
        return True
    lines = [line for line in head.splitlines()[:200] if line.strip()]
    if not lines:
        return False
    if read_json_entry(lines[0]) is not None:
        return True
    return sum(_KERNEL_LINE.match(line) is not None for line in lines) * 3 > len(lines)


def read_log(text: str, *, now: datetime) -> Inspection:
    """A log that fits in memory: every line is in the reading."""
    parser = KernelLogParser(now=now)
    if is_journal_export(text[:4000]):
        for place, entry in entries_of(text):
            parser.feed_entry(entry, line=place)
    else:
        for line in text.split("\n")[: -1 if text.endswith("\n") else None]:
            parser.feed(line.rstrip("\r"))
    records = settle(parser.take(is_end=True))
    events = events_of(records, received_at=now, source=EventSource.KERNEL)
    return _conclude(events, records=records, lines=parser.lines_read, totals=_Totals.of(records))


def read_log_stream(lines: Iterable[str], *, now: datetime) -> Inspection:
    """A log of any size, in slices: lines with nothing to say are not kept, a storm is counted."""
    parser, cap, known = KernelLogParser(now=now), StormCap(), KnownGpus()
    totals = _Totals()
    kept: list[KernelRecord] = []
    events: list[Event] = []
    for is_end in _feed_in_slices(lines, parser):
        spoken = [record for record in parser.take(is_end=is_end) if record.kind != "ignore"]
        totals.add(spoken)
        kept += spoken[: max(RECORDS_KEPT_MAX - len(kept), 0)]
        # Only differences of moments count here; a fixed boot keeps slices in order.
        boot_at = now - timedelta(days=36500)
        found = events_of(spoken, received_at=now, boot_at=boot_at, source=EventSource.KERNEL, known=known)
        events += cap.cap(found)
    return _conclude(events, records=kept, lines=parser.lines_read, totals=totals)


def _feed_in_slices(lines: Iterable[str], parser: KernelLogParser) -> Iterator[bool]:
    for number, line in enumerate(lines, start=1):
        parser.feed(line.rstrip("\n").rstrip("\r"))
        if number % _SLICE_LINES == 0:
            yield False
    yield True


@dataclass(slots=True)
class _Totals:
    spoken: int = 0
    malformed: int = 0
    duplicates: int = 0
    stale: int = 0
    table_rows: int = 0

    @classmethod
    def of(cls, records: Sequence[KernelRecord]) -> _Totals:
        totals = cls()
        totals.add([record for record in records if record.kind != "ignore"])
        return totals

    def add(self, spoken: Sequence[KernelRecord]) -> None:
        self.spoken += len(spoken)
        for record in spoken:
            self.malformed += record.message.is_malformed
            self.duplicates += record.duplicate_of is not None
            self.stale += record.is_stale
            self.table_rows += "total" in record.extra


def _conclude(events: Sequence[Event], *, records: Sequence[KernelRecord], lines: int, totals: _Totals) -> Inspection:
    findings = in_order(_judge(events))
    count = sum(event.count for event in events)
    return Inspection(
        kind=KIND,
        reading=[record.as_dict() for record in records],
        sentence=f"{Counted(lines, 'line')}, {Counted(count, 'driver event')}" if count else _quiet(lines, totals),
        findings=findings,
        errors=totals.malformed,
        notes=tuple(_notes(events, totals)),
        tables=(_table(records),) if events else (),
    )


def _judge(events: Sequence[Event]) -> Iterator[Finding]:
    """Each machine alone: by the host that its lines name, and by the blocks of the file."""
    machines: dict[tuple[str, str], list[Event]] = {}
    for event in events:
        host, section = event.details.get("host", ""), event.details.get("section", "")
        machines.setdefault((host, section), []).append(event)
    parts = len({section for _, section in machines})
    for (host, section), own in machines.items():
        name = host or (f"machine {int(section or 0) + 1}" if parts > 1 else "")
        yield from judge_events(own, node=name)


def _quiet(lines: int, totals: _Totals) -> str:
    if totals.table_rows:
        return f"{Counted(totals.table_rows, 'node')} with totals of one XID code; no event"
    return f"{Counted(lines, 'line')}, no GPU or NVSwitch fault among them"


def _notes(events: Sequence[Event], totals: _Totals) -> Iterator[str]:
    if totals.malformed:
        yield f"{Counted(totals.malformed, 'driver line')} torn or without a number: counted, skipped."
    if totals.duplicates:
        yield f"{Counted(totals.duplicates, 'line')} delivered twice, counted once."
    if totals.stale:
        yield f"{Counted(totals.stale, 'line')} of an earlier boot: past, not judged."
    if totals.table_rows:
        yield "High totals of XID 45 are a job's own clean-up; compare nodes by their other codes."
    if any(event.pci is None and event.kind is not EventKind.SXID for event in events):
        yield "Some lines name no readable PCI address: which GPU they mean is not known."


def _table(records: Sequence[KernelRecord]) -> Table:
    """One row per kind, code and device: how many lines, first and last, as the log itself dates them."""
    groups: dict[tuple[str, str], list[KernelRecord]] = {}
    for record in records:
        word = "reset required" if "reset_required" in record.message.facts else _KIND_WORDS.get(record.kind)
        if word is None or record.duplicate_of is not None or record.is_stale:
            continue
        code = f"{word} {record.message.code}" if record.kind in ("xid", "sxid") else word
        groups.setdefault((code, record.message.pci or "unknown"), []).append(record)
    rows = [
        (code, pci, str(len(own)), _moment(own[0]), _moment(own[-1]))
        for (code, pci), own in list(groups.items())[:_ROWS_MAX]
    ]
    return Table(head=("event", "device", "lines", "first", "last"), rows=tuple(rows))


def _moment(record: KernelRecord) -> str:
    stamped = record.stamped
    if stamped.at is not None:
        text = iso(stamped.at)
        return text if stamped.is_zone_known else text.removesuffix("Z").replace("T", " ")
    return "not dated" if stamped.at_us is None else f"{stamped.at_us / 1e6:.3f} s after boot"
