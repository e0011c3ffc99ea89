"""Reads one driver event: what it is, what to do, what proof it wants, in words. Pure; the table is data."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from trimtab.detect.nvlink import NVLINK4, NVLINK5, LinkVerdict, read_registers, read_words
from trimtab.detect.xid_table import FaultClass, Row, Tier, XidTable
from trimtab.model.advice import Action
from trimtab.model.reading import Event, EventKind

RECOVERY = 154
_RECOVERY_TO = re.compile(r"\bto (0[xX][0-9a-fA-F]+)")
_PLACE = re.compile(r"GPC \d+, ?TPC \d+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """One event as read. `again` is its action once it has repeated; `key` is equal for events of one fault."""

    label: str
    """`XID 79`, `SXid 24007`, or empty where the driver printed no code."""
    code: int | None
    row: Row
    action: Action
    tier: Tier
    says: str
    advice: str = ""
    again: Action = Action.NONE
    against: tuple[str, ...] = ()
    key: str = ""
    recovery: int | None = None
    """What XID 154 says: the driver's recovery action, 0 = none."""
    is_switch: bool = False

    @property
    def takes_part_of_node(self) -> bool:
        """Whether the GPU or node must be reset, rebooted or replaced."""
        return self.action.rank >= Action.RESET_AFTER_DRAIN.rank

    @property
    def sentence(self) -> str:
        """The predicate, to follow a subject: `fell off the bus (XID 79)`."""
        return f"{self.says} ({self.label})" if self.label else self.says


def read_event(event: Event, table: XidTable, *, driver: str | None = None) -> Sign | None:
    """What one event means; None for those that are no fault (a return, a boot)."""
    if event.kind is EventKind.SXID:
        return _read_sxid(event, table)
    if event.kind is EventKind.XID and event.code is not None:
        return _read_xid(event, table, driver)
    row = table.by_kind.get(event.kind)
    return None if row is None else _sign(row, label="", code=None)


def recovery_of(event: Event) -> int | None:
    """The recovery action that an XID 154 line changed to; None when the line is cut."""
    text = event.details.get("recovery_action") or event.details.get("action") or ""
    if not text:
        found = _RECOVERY_TO.search(event.text)
        text = found[1] if found else ""
    try:
        return int(text, 0)
    except ValueError:
        return None


def _sign(row: Row, *, label: str, code: int | None) -> Sign:
    return Sign(label=label, code=code, row=row, action=row.action, tier=row.tier, says=row.says, advice=row.advice)


def _read_xid(event: Event, table: XidTable, driver: str | None) -> Sign:
    code = event.code or 0
    sign = _sign(table.by_code.get(code, table.unknown), label=f"XID {code}", code=code)
    if code == NVLINK4:
        return _with_link(sign, read_registers(event, table))
    if code in NVLINK5:
        return _with_link(sign, read_words(event, table, driver=driver))
    if code == RECOVERY:
        return _with_recovery(sign, recovery_of(event), table)
    place = _PLACE.search(event.engine or "") if code == 13 else None
    return replace(sign, key=place[0]) if place else sign


def _with_link(sign: Sign, found: LinkVerdict) -> Sign:
    advice = "Look at the peer GPU first: it may be the cause." if found.is_at_peer else sign.advice
    return replace(
        sign,
        action=found.action,
        again=found.again,
        tier=Tier.CORDON if found.action.rank >= Action.RESET_AFTER_DRAIN.rank else Tier.TICKET,
        says=f"{sign.says}: {found.says}",
        advice=advice,
        against=(found.against,) if found.against else (),
        key=found.key,
    )


def _with_recovery(sign: Sign, value: int | None, table: XidTable) -> Sign:
    if value is None:
        return sign
    known = table.recovery.get(value)
    if known is None:
        return replace(sign, says=f"asks for recovery action {value}, which this version does not know", recovery=value)
    return replace(sign, action=known.action, tier=known.tier, says=known.says, advice="", recovery=value)


_SXID_FATAL = Row(
    name="fatal NVSwitch fault",
    says="has a fatal NVSwitch fault",
    fault_class=FaultClass.FATAL_NODE,
    action=Action.CORDON_REBOOT,
    tier=Tier.PAGE,
    is_self_sufficient=True,
    rank=97,
    advice="Cordon the node, move its jobs, reset fabric and GPUs together (reboot): all behind the switch are hit.",
)
_SXID_WATCH = Row(
    name="NVSwitch event",
    says="logged an NVSwitch event that work survives",
    fault_class=FaultClass.DEGRADED,
    action=Action.WATCH,
    tier=Tier.TICKET,
    rank=20,
    is_link=True,
    advice="Keep it as a trend of that link.",
)
_SXID_UNSEEN = replace(_SXID_WATCH, says="logged an NVSwitch event that no table knows", advice="It wants a look.")
_SXID_NOTE = replace(_SXID_WATCH, action=Action.NONE, tier=Tier.STORE, rank=0)


def _read_sxid(event: Event, table: XidTable) -> Sign:
    code = event.code or 0
    row = _sxid_row(code, _is_fatal_word(event.severity), table)
    sign = _sign(row, label=f"SXid {code}", code=code)
    return replace(sign, key=f"{event.pci} {event.link}", is_switch=True)


def _sxid_row(code: int, is_fatal: bool | None, table: XidTable) -> Row:  # noqa: FBT001 - three-valued
    sxids = table.sxids
    if code in sxids.always_fatal or (is_fatal and code not in sxids.non_fatal):
        return _SXID_FATAL
    if code in sxids.log_only:
        return _SXID_NOTE
    if code in sxids.may_be_fatal or code in sxids.non_fatal:
        return _SXID_WATCH
    return _SXID_UNSEEN


def _is_fatal_word(word: str | None) -> bool | None:
    normal = (word or "").lower().replace("-", "").strip()
    return {"fatal": True, "1": True, "nonfatal": False, "0": False}.get(normal)
