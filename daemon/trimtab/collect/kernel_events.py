"""Kernel log records -> events, and the cap that keeps a storm of lines from filling disks. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from trimtab.collect.kernel_records import KernelRecord
from trimtab.model.reading import Event, EventKind, EventSource

MERGE_SECONDS = 1.0
"""Lines of one NVSwitch event, and the two lines of one failed initialisation, stand this close together."""
TEXT_CHARACTERS_MAX = 2000


@dataclass(slots=True)
class KnownGpus:
    """PCI address -> UUID, as the kernel log itself named them; kept by a follower from line to line."""

    uuid_by_pci: dict[str, str] = field(default_factory=dict)

    def learn(self, record: KernelRecord) -> None:
        """Remember what an address line says."""
        uuid, pci = record.message.facts.get("uuid"), record.message.pci
        if isinstance(uuid, str) and pci is not None:
            self.uuid_by_pci[pci] = uuid


def events_of(
    records: Iterable[KernelRecord],
    *,
    received_at: datetime,
    boot_at: datetime | None = None,
    boot_id: str | None = None,
    source: EventSource | None = None,
    known: KnownGpus | None = None,
) -> list[Event]:
    """What happened, in order; duplicates, earlier boots and mere information left out.

    A line's own moment wins; else `boot_at` plus its stamp; without `boot_at` the last line counts as said at
    `received_at`. `source` overrides what the log proves about who spoke (a file that a person handed over).
    """
    live = [record for record in records if record.duplicate_of is None and not record.is_stale]
    if boot_at is None:
        stamps = [record.stamped.at_us for record in live if record.stamped.at_us is not None]
        boot_at = received_at - timedelta(microseconds=max(stamps)) if stamps else None
    known = known or KnownGpus()
    made: list[Event] = []
    for record in live:
        known.learn(record)
        kind = _kind_of(record)
        if kind is None:
            continue
        made.append(_event(record, kind, boot_at, received_at, known, boot_id=boot_id, source=source))
    return _merge(made)


def _kind_of(record: KernelRecord) -> EventKind | None:
    if record.message.facts.get("reset_required") is True:
        return EventKind.RESET_REQUIRED
    return _KINDS.get(record.kind)


_KINDS: Mapping[str, EventKind] = {
    "xid": EventKind.XID,
    "sxid": EventKind.SXID,
    "fallen_off": EventKind.FALLEN_OFF,
    "rm_init": EventKind.RM_INIT,
}


def _event(
    record: KernelRecord,
    kind: EventKind,
    boot_at: datetime | None,
    received_at: datetime,
    known: KnownGpus,
    *,
    boot_id: str | None,
    source: EventSource | None,
) -> Event:
    message, stamped = record.message, record.stamped
    is_switch = kind is EventKind.SXID  # its address is the switch's, never a GPU's
    return Event(
        kind=kind,
        source=source or (EventSource.KERNEL if stamped.is_kernel else EventSource.USERSPACE),
        at=_moment(record, boot_at, received_at),
        code=message.code if isinstance(message.code, int) else None,
        gpu=None if is_switch or message.pci is None else known.uuid_by_pci.get(message.pci),
        pci=message.pci,
        boot_id=stamped.boot or boot_id,
        cursor=stamped.cursor or (None if stamped.sequence is None else f"kmsg:{stamped.sequence}"),
        severity=message.severity,
        subcode=message.subcode,
        link=message.link,
        engine=message.engine,
        pid=message.pid,
        process_name=message.name,
        gi=message.gi,
        details=_details(record),
        text=stamped.text.strip()[:TEXT_CHARACTERS_MAX],
    )


def _details(record: KernelRecord) -> dict[str, str]:
    message = record.message
    found = {key: str(value) for key, value in message.facts.items() if isinstance(value, (str, int))}
    if isinstance(message.code, str):
        found["rm_init_code"] = message.code
    if message.is_truncated:
        found["truncated"] = "yes"
    if record.stamped.host:
        found["host"] = record.stamped.host
    if record.section:
        found["section"] = str(record.section)
    return found | dict(message.details)


def _moment(record: KernelRecord, boot_at: datetime | None, received_at: datetime) -> datetime:
    stamped = record.stamped
    if stamped.at is not None:
        return stamped.at
    if stamped.at_us is None or boot_at is None:
        return received_at
    try:
        return min(boot_at + timedelta(microseconds=stamped.at_us), received_at)
    except OverflowError:
        return received_at


def _merge(events: Sequence[Event]) -> list[Event]:
    """Fold lines that tell one event: up to three of an NVSwitch event, in any order, and two of RmInit."""
    merged: list[Event] = []
    switches: dict[tuple[object, ...], list[Event]] = {}
    for event in events:
        if event.kind is EventKind.SXID:
            switches.setdefault(_switch_key(event), []).append(event)
            continue
        last = merged[-1] if merged else None
        if last is not None and _is_rest_of_rm_init(event, last):
            merged[-1] = replace(last, details={**event.details, **last.details}, text=f"{last.text} / {event.text}")
            continue
        merged.append(event)
    for lines in switches.values():
        for group in _close_together(lines):
            merged.extend(_merge_switch(group))
    return sorted(merged, key=lambda event: event.at)


def _switch_key(event: Event) -> tuple[object, ...]:
    return (event.code, event.pci, event.details.get("device"), event.details.get("section"))


def _is_rest_of_rm_init(event: Event, last: Event) -> bool:
    return (
        event.kind is EventKind.RM_INIT is last.kind
        and event.pci == last.pci
        and "rm_init_code" not in event.details
        and "minor" not in last.details
        and abs((event.at - last.at).total_seconds()) <= MERGE_SECONDS
    )


def _close_together(lines: Sequence[Event]) -> list[list[Event]]:
    groups: list[list[Event]] = []
    for event in sorted(lines, key=lambda event: event.at):
        if groups and (event.at - groups[-1][-1].at).total_seconds() <= MERGE_SECONDS:
            groups[-1].append(event)
        else:
            groups.append([event])
    return groups


def _merge_switch(group: Sequence[Event]) -> list[Event]:
    """One event per line that carries the severity word and link; Data and Severity lines only add to it."""
    told = {event.link: event for event in reversed(group) if event.severity is not None}
    if not told:
        return [replace(group[0], text=" / ".join(event.text for event in group)[:TEXT_CHARACTERS_MAX])]
    return [
        replace(event, text=" / ".join([event.text, *_rest(event, group)])[:TEXT_CHARACTERS_MAX])
        for event in reversed(told.values())
    ]


def _rest(event: Event, group: Sequence[Event]) -> list[str]:
    """The lines of the group that name the same instance: its link as a number."""
    if event.link is None:
        return []
    marks = (f"instance {event.link:02d} ", f"{{0x{event.link:08x}")
    return [other.text for other in group if other.severity is None and any(mark in other.text for mark in marks)]


@dataclass(slots=True)
class StormCap:
    """Lets 60 lines a minute of one code pass; the rest come as one counted event a call, every 1000th whole."""

    lines_per_minute: int = 60
    whole_every: int = 1000
    _windows: dict[tuple[EventKind, int | None], _Minute] = field(default_factory=dict)

    def cap(self, events: Sequence[Event]) -> list[Event]:
        """The events with those past the cap folded into one per GPU, which carries the last line and the count."""
        passed: list[Event] = []
        folded: dict[tuple[object, ...], Event] = {}
        counts: dict[tuple[object, ...], int] = {}
        for event in events:
            minute = self._minute_of(event)
            minute.lines += 1
            if minute.lines <= self.lines_per_minute or minute.lines % self.whole_every == 0:
                passed.append(event)
                continue
            key = (event.kind, event.code, event.pci, event.gpu)
            folded[key] = event
            counts[key] = counts.get(key, 0) + event.count
        return [*passed, *(replace(event, count=counts[key]) for key, event in folded.items())]

    def _minute_of(self, event: Event) -> _Minute:
        key = (event.kind, event.code)
        minute = self._windows.get(key)
        if minute is None or not 0 <= (event.at - minute.began_at).total_seconds() < 60:
            minute = self._windows[key] = _Minute(began_at=event.at)
        return minute


@dataclass(slots=True)
class _Minute:
    began_at: datetime
    lines: int = 0
