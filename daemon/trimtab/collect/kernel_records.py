"""A kernel log as records, one a line: what each line is and what it says. Pure; keeps state between lines only."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from trimtab.collect.kernel_lines import Stamped, read_entry, read_line
from trimtab.collect.kernel_message import (
    IGNORE,
    Message,
    completes_opening,
    continues_opening,
    device_id_of,
    read_message,
)

_OPENING_LINES_MAX = 4
_TOTALS_HEAD = re.compile(r"node\s+xid(\d+)_total\s*$")
_TOTALS_ROW = re.compile(r"(\S+)\s+(\d{1,15})\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelRecord:
    """One line of a kernel log. `section` counts blocks parted by `--- …` lines: other machines."""

    line: int
    message: Message
    stamped: Stamped
    section: int = 0
    continuation_of: int | None = None
    duplicate_of: int | None = None
    is_stale: bool = False
    """Said in an earlier boot than the last one."""
    extra: Mapping[str, object] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        """xid, sxid, fallen_off, rm_init, other or ignore."""
        return self.message.kind

    def as_dict(self) -> dict[str, object]:
        """The record in the shape that `inspect --json` gives: only what was printed."""
        message, stamped = self.message, self.stamped
        spoken = message.kind != "ignore"
        found: dict[str, object | None] = {
            "subcode": message.subcode,
            "engine": message.engine,
            "link": message.link,
            "severity": message.severity,
            "pid": message.pid,
            "name": message.name,
            "gi": message.gi,
            "ts_us": stamped.at_us if stamped.shape == "kmsg" and spoken else None,
            "boot": stamped.boot if spoken else None,
            "continuation_of": self.continuation_of,
            "duplicate_of": self.duplicate_of,
            "malformed": message.is_malformed or None,
            "truncated": message.is_truncated or None,
            "stale": self.is_stale or None,
        }
        known = {key: value for key, value in found.items() if value is not None}
        head = {"line": self.line, "kind": message.kind, "code": message.code, "pci": message.pci}
        return head | known | dict(message.facts) | dict(self.extra)


class KernelLogParser:
    """Takes lines one by one, gives records; a message of several lines becomes one record and continuations."""

    def __init__(self, *, now: datetime) -> None:
        """`now` dates syslog lines, which name no year."""
        self._now = now
        self._records: list[KernelRecord] = []
        self._line = 0
        self._section = 0
        self._opening: int | None = None
        self._last_spoken: KernelRecord | None = None
        self._last: KernelRecord | None = None
        self._totals_code: int | None = None

    @property
    def lines_read(self) -> int:
        """Lines fed so far."""
        return self._line

    def feed(self, line: str) -> None:
        """Read the next line, without its newline."""
        self._line += 1
        if self._is_plain(line):
            self._add(KernelRecord(line=self._line, message=IGNORE, stamped=_PLAIN, section=self._section))
            return
        if line.startswith("--- "):
            self._section += 1
            self._opening = self._last_spoken = None
            self._add(KernelRecord(line=self._line, message=IGNORE, stamped=_PLAIN, section=self._section))
            return
        if not self._continues(line) and not self._is_total(line):
            self._add_stamped(read_line(line, now=self._now))

    def feed_entry(self, entry: Mapping[str, object], *, line: int) -> None:
        """Read a journal entry given as fields; `line` is where it stands in its file."""
        self._line = line
        self._add_stamped(read_entry(entry))

    def take(self, *, is_end: bool = False) -> list[KernelRecord]:
        """Records that are complete; a message whose next lines are awaited is held back until `is_end`."""
        held = None if is_end or self._opening is None else self._opening
        taken = self._records if held is None else self._records[:held]
        self._records = [] if held is None else self._records[held:]
        self._opening = None if held is None else 0
        return taken

    def _is_plain(self, line: str) -> bool:
        """A line that cannot matter, told without taking it apart: almost all of a real log."""
        if line[:1] in ("{", " ", "\t", "-") or self._opening is not None or self._totals_code is not None:
            return False
        return not ("NVRM" in line or "SXid" in line or line[:1].isdigit() or line.startswith("node"))

    def _continues(self, line: str) -> bool:
        opening = self._opening
        if opening is not None:
            if self._read_after_opening(line, opening):
                return True
        elif line[:1] in (" ", "\t") and self._may_continue(line):
            parent = self._last if self._last and self._last.stamped.shape == "kmsg" else self._last_spoken
            if parent is not None:
                self._add_continuation(parent.continuation_of or parent.line)
                return True
        return False

    def _may_continue(self, line: str) -> bool:
        """Blank-led: always part of a kmsg record; else only right after a spoken line, and no message itself."""
        if self._last is not None and self._last.stamped.shape == "kmsg":
            return True
        return self._last_spoken is not None and "NVRM:" not in line and bool(line.strip())

    def _read_after_opening(self, line: str, opening: int) -> bool:
        record = self._records[opening]
        if (continues_opening(line) or completes_opening(line)) and self._is_same_speaker(record, line):
            device_id = device_id_of(line)
            facts = dict(record.message.facts) | ({"device_id": device_id} if device_id else {})
            is_complete = completes_opening(line)
            message = replace(record.message, kind="fallen_off" if is_complete else "other", facts=facts)
            text = f"{record.stamped.text} {line[max(line.find('NVRM:'), 0) :].removeprefix('NVRM:').strip()}"
            self._records[opening] = replace(record, message=message, stamped=replace(record.stamped, text=text))
            self._add_continuation(record.line)
            self._opening = None if is_complete else opening
            return True
        if len(self._records) - opening >= _OPENING_LINES_MAX:
            self._opening = None
        return False

    def _is_same_speaker(self, record: KernelRecord, line: str) -> bool:
        """What userspace writes is no end of what the kernel began."""
        return not record.stamped.is_kernel or read_line(line, now=self._now).is_kernel

    def _is_total(self, line: str) -> bool:
        """A table of totals per node, as people make it from many logs: information, never an event."""
        head = _TOTALS_HEAD.match(line)
        if head:
            self._totals_code = int(head[1])
            return False
        row = _TOTALS_ROW.match(line) if self._totals_code is not None else None
        if row is None:
            return False
        extra = {"node": row[1], "xid": self._totals_code, "total": int(row[2])}
        self._add(KernelRecord(line=self._line, message=_OTHER, stamped=_PLAIN, section=self._section, extra=extra))
        return True

    def _add_stamped(self, stamped: Stamped) -> None:
        message = read_message(stamped.text)
        record = KernelRecord(line=self._line, message=message, stamped=stamped, section=self._section)
        if message.is_opening:
            self._opening = len(self._records)
        self._add(record)

    def _add_continuation(self, parent_line: int) -> None:
        shape = self._last.stamped.shape if self._last else "text"
        stamped = replace(_PLAIN, shape=shape)
        self._add(
            KernelRecord(
                line=self._line,
                message=IGNORE,
                stamped=stamped,
                section=self._section,
                continuation_of=parent_line,
            )
        )

    def _add(self, record: KernelRecord) -> None:
        self._records.append(record)
        self._last = record
        if record.continuation_of is None:
            self._last_spoken = None if record.kind == "ignore" else record


_PLAIN = Stamped(text="", shape="text")
_OTHER = Message(kind="other")


def parse_kernel_log(lines: Iterable[str], *, now: datetime) -> list[KernelRecord]:
    """The records of a whole log; duplicates (same cursor) and records of an earlier boot are marked."""
    parser = KernelLogParser(now=now)
    for line in lines:
        parser.feed(line.rstrip("\n").rstrip("\r"))
    return settle(parser.take(is_end=True))


def settle(records: list[KernelRecord]) -> list[KernelRecord]:
    """Mark what was delivered twice and what belongs to an earlier boot than the last record's."""
    boots = [record.stamped.boot for record in records if record.stamped.boot]
    current = boots[-1] if boots else None
    seen: dict[str, int] = {}
    settled = []
    for record in records:
        cursor, boot = record.stamped.cursor, record.stamped.boot
        first = seen.setdefault(cursor, record.line) if cursor else record.line
        settled.append(
            replace(
                record,
                duplicate_of=first if first != record.line else None,
                is_stale=boot is not None and boot != current and record.kind != "ignore",
            )
            if cursor or boot
            else record
        )
    return settled
