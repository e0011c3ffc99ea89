"""What we write on the objects that we touch: one annotation `<prefix>/hold`, a JSON list with an entry a command.

Adapters write it in the same patch as the change itself; the reader makes the snapshot's cordons, stops, reservations
and held things out of it, and after a crash it is all that is known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from trimtab.model.command import mark_of, read_mark

CORDON = "cordon"
"""In `what` of a node: its cordon is ours."""
CLAIM = "claim"
"""In `what` of a node: we want it closed, and it is somebody else's cordon that closes it."""
SUSPEND = "suspend"
"""In `what` of a Workload, Job, Deployment …: that it does not run is ours. `before` says what to put back."""
SEAT = "seat"
"""Suffix of the taint (and label) that keeps a seat: `trimtab/seat`."""
UNREADABLE = "unreadable"
"""The mark of an annotation of ours that cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptSeat:
    """Room for one pod of a workload. On a node's annotation `node` is that node and may be left out."""

    workload: str
    pod: str
    gpus: int
    node: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What one command did to one object.

    `what` holds words: `cordon`, `suspend`, or anything else that must be given back, as it is to be shown
    (`taint:trimtab/seat=3fa9c1.R12:NoSchedule`, `label:…`, `stopPolicy`, `podSetUpdates`).
    """

    mark: str
    what: tuple[str, ...] = ()
    why: str = ""
    at: str = ""
    until: str = ""
    lasts: bool = False
    """What of it lasts once the command has settled (a cordon of a bad node)."""
    seats: tuple[KeptSeat, ...] = ()
    """Room that is kept: read back as reservations, from whatever object it is written on."""
    before: Mapping[str, Any] = field(default_factory=dict)
    """What was there before and is to be put back (`{"replicas": 4}`)."""

    @property
    def is_empty(self) -> bool:
        """Whether nothing is held by it."""
        return not self.what and not self.seats

    def with_what(self, *what: str) -> Entry:
        """The entry with these held as well, each once."""
        return replace(self, what=tuple(dict.fromkeys((*self.what, *what))))

    def without(self, *what: str) -> Entry:
        """The entry without these."""
        return replace(self, what=tuple(one for one in self.what if one not in what))


def hold_key(prefix: str) -> str:
    """`trimtab/hold`."""
    return f"{prefix}/hold"


def entries_of(annotations: Mapping[str, str], prefix: str) -> tuple[Entry, ...]:
    """The entries on an object; a text that is none of ours to understand comes back under the mark UNREADABLE."""
    text = annotations.get(hold_key(prefix))
    if not text:
        return ()
    try:
        return msgspec.json.decode(text, type=tuple[Entry, ...])
    except msgspec.MsgspecError:
        return (Entry(mark=UNREADABLE, what=(f"annotation {hold_key(prefix)}",)),)


def entry_of(entries: Iterable[Entry], mark: str) -> Entry | None:
    """The entry of one command."""
    return next((one for one in entries if one.mark == mark), None)


def with_entry(entries: Iterable[Entry], entry: Entry) -> tuple[Entry, ...]:
    """The entries with this one in the place of the same command's; an empty one goes."""
    kept = [one for one in entries if one.mark != entry.mark]
    return tuple(kept if entry.is_empty else [*kept, entry])


def entries_text(entries: Sequence[Entry]) -> str | None:
    """The annotation's value; None (which removes it in a merge patch) where nothing is left."""
    kept = [_plain(one) for one in entries if not one.is_empty]
    return msgspec.json.encode(kept).decode() if kept else None


def _plain(entry: Entry) -> dict[str, Any]:
    plain: dict[str, Any] = msgspec.to_builtins(entry)
    return {key: value for key, value in plain.items() if value not in ("", [], {}, False)}


def value_of(mark: str) -> str:
    """A mark as the value of a taint or label, where no colon may stand: `3fa9c1.R12`."""
    known = read_mark(mark)
    if known is None:
        return mark.replace(":", ".")
    ledger, number = known
    return f"{ledger}.R{number}" if ledger else f"R{number}"


def mark_of_value(value: str) -> str | None:
    """The mark that a taint's or label's value stands for; None where it is none of ours."""
    ledger, _, number = value.rpartition(".")
    known = read_mark(mark_of(ledger, int(number[1:]))) if number[:1] == "R" and number[1:].isdigit() else None
    return None if known is None else mark_of(*known)


def taint_text(taint: Mapping[str, Any]) -> str:
    """`key=value:effect`."""
    return f"{taint.get('key', '')}={taint.get('value') or ''}:{taint.get('effect', '')}"
