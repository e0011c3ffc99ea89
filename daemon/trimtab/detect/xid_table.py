"""The table of driver events (xid.toml), read and checked once; device_fault and `explain` look codes up in it."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, TypeVar

from trimtab.errors import SettingsError
from trimtab.model.advice import Action
from trimtab.model.reading import EventKind

CODES = range(1, 174)
"""Every code that the table must hold exactly once."""


class FaultClass(StrEnum):
    """What an event says about the GPU."""

    APP = "app"
    INFO = "info"
    DEGRADED = "degraded"
    FATAL_GPU = "fatal_gpu"
    FATAL_NODE = "fatal_node"


class Tier(StrEnum):
    """Who is disturbed, and whether a node may be taken out."""

    STORE = "store"
    OWNER = "owner"
    TICKET = "ticket"
    CORDON = "cordon"
    PAGE = "page"

    @property
    def rank(self) -> int:
        """Place in the order; higher disturbs more."""
        return list(Tier).index(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Repeat:
    """When an event that comes back becomes the operator's: bursts within seconds, of the same code, place or job."""

    bursts: int
    seconds: float
    same: str
    advice: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One meaning: what it is, what to do, who is told, and what proof it wants."""

    name: str
    says: str
    fault_class: FaultClass
    action: Action
    tier: Tier
    is_self_sufficient: bool = False
    proof_codes: frozenset[int] = frozenset()
    rank: int = 0
    is_echo: bool = False
    is_link: bool = False
    repeat: Repeat | None = None
    advice: str = ""
    nvidia: str = ""
    disagreement: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovery:
    """What one value of the driver's recovery action asks for."""

    value: int
    says: str
    action: Action
    tier: Tier


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterReading:
    """What a set bit of an XID 74 register means; `again` is the action once it came twice within a day."""

    name: str
    says: str
    action: Action
    again: Action


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One NVLink 5 unit: its encodings in the first word and what values of the second word mean."""

    xid: int
    name: str
    v1: int
    v2: frozenset[int]
    reset: frozenset[int] | None
    """None = every value."""
    follow: frozenset[int]
    is_by_reason: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkReason:
    """Why an NVLink 5 link went down."""

    says: str
    action: Action
    is_at_peer: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Sxids:
    """NVSwitch codes by severity."""

    always_fatal: frozenset[int]
    may_be_fatal: frozenset[int]
    non_fatal: frozenset[int]
    log_only: frozenset[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class XidTable:
    """All of xid.toml."""

    by_code: Mapping[int, Row]
    by_kind: Mapping[EventKind, Row]
    unknown: Row
    recovery: Mapping[int, Recovery]
    registers: Mapping[tuple[int, int], str]
    register_readings: Mapping[str, RegisterReading]
    units: tuple[Unit, ...]
    link_reasons: Mapping[int, LinkReason]
    sxids: Sxids


@cache
def load_table() -> XidTable:
    """The table that ships with trimtab. Raises SettingsError that names the faulty row."""
    return parse_table(files("trimtab.detect").joinpath("xid.toml").read_text(encoding="utf-8"))


def parse_table(text: str) -> XidTable:
    """The table of a TOML text. Raises SettingsError that names the faulty row."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"xid.toml: not TOML: {error}") from error
    table = XidTable(
        by_code=_by_code(raw),
        by_kind={EventKind(key): row for key, row in _each(raw, "event", _kind_row)},
        unknown=_named("[unknown_xid]", _row, raw.get("unknown_xid", {})),
        recovery={row.value: row for row in _each(raw, "recovery", _recovery)},
        registers={key: reading for found in _each(raw, "register", _register) for key, reading in found.items()},
        register_readings=dict(_register_readings(raw)),
        units=tuple(_each(raw, "unit", _unit)),
        link_reasons={number: reason for found in _each(raw, "link_reason", _reasons) for number, reason in found},
        sxids=_named("[sxid]", _sxids, raw.get("sxid", {})),
    )
    _check_registers(table)
    return table


T = TypeVar("T")


def _each(raw: Mapping[str, Any], section: str, read: Callable[[dict[str, Any]], T]) -> Iterator[T]:
    for number, given in enumerate(raw.get(section, ()), start=1):
        title = given.get("codes", given.get("name", given.get("kind", given.get("value", ""))))
        yield _named(f"[[{section}]] number {number} ({title})", read, given)


def _named(where: str, read: Callable[[dict[str, Any]], T], given: dict[str, Any]) -> T:
    try:
        return read(given)
    except (KeyError, ValueError, TypeError) as error:
        what = f"lacks {error}" if isinstance(error, KeyError) else str(error)
        raise SettingsError(f"xid.toml: {where}: {what}") from error


def _by_code(raw: Mapping[str, Any]) -> dict[int, Row]:
    rows: dict[int, Row] = {}
    for codes, row in _each(raw, "xid", lambda given: (_numbers(given["codes"]), _row(given))):
        for code in codes:
            if code in rows:
                raise SettingsError(f"xid.toml: code {code} stands in two rows; keep one.")
            rows[code] = row
    missing = [code for code in CODES if code not in rows]
    if missing:
        raise SettingsError(f"xid.toml: codes {missing} stand in no row; add them.")
    return rows


def _numbers(given: list[int | str]) -> list[int]:
    found: list[int] = []
    for item in given:
        if isinstance(item, int):
            found.append(item)
        else:
            first, last = (int(part) for part in item.split("-"))
            found.extend(range(first, last + 1))
    return found


_ROW_KEYS = frozenset(
    (
        *("codes", "kind", "name", "says", "class", "action", "tier", "self_sufficient", "proof_codes", "rank"),
        *("echo", "link", "repeat", "advice", "nvidia", "disagreement"),
    )
)


def _row(given: dict[str, Any]) -> Row:
    unknown = set(given) - _ROW_KEYS
    if unknown:
        raise ValueError(f"unknown keys {sorted(unknown)}; known are {sorted(_ROW_KEYS)}")
    return Row(
        name=given["name"],
        says=given["says"],
        fault_class=FaultClass(given["class"]),
        action=Action(given["action"]),
        tier=Tier(given["tier"]),
        is_self_sufficient=given.get("self_sufficient", False),
        proof_codes=frozenset(given.get("proof_codes", ())),
        rank=given.get("rank", 0),
        is_echo=given.get("echo", False),
        is_link=given.get("link", False),
        repeat=Repeat(**given["repeat"]) if "repeat" in given else None,
        advice=given.get("advice", ""),
        nvidia=given.get("nvidia", ""),
        disagreement=given.get("disagreement", ""),
    )


def _kind_row(given: dict[str, Any]) -> tuple[str, Row]:
    return EventKind(given["kind"]), _row(given)


def _recovery(given: dict[str, Any]) -> Recovery:
    return Recovery(value=given["value"], says=given["says"], action=Action(given["action"]), tier=Tier(given["tier"]))


def _register(given: dict[str, Any]) -> dict[tuple[int, int], str]:
    return {(given["register"], bit): given["reading"] for bit in given["bits"]}


def _register_readings(raw: Mapping[str, Any]) -> Iterator[tuple[str, RegisterReading]]:
    for name, given in raw.get("register_reading", {}).items():
        yield name, _named(f"[register_reading] {name}", _register_reading, {"name": name, **given})


def _register_reading(given: dict[str, Any]) -> RegisterReading:
    return RegisterReading(
        name=given["name"], says=given["says"], action=Action(given["action"]), again=Action(given["again"])
    )


def _unit(given: dict[str, Any]) -> Unit:
    reset = given.get("reset", [])
    return Unit(
        xid=given["xid"],
        name=given["name"],
        v1=given["v1"],
        v2=frozenset(given["v2"]),
        reset=None if reset == "all" else frozenset(reset),
        follow=frozenset(given.get("follow", ())),
        is_by_reason=given.get("by_reason", False),
    )


def _reasons(given: dict[str, Any]) -> list[tuple[int, LinkReason]]:
    reason = LinkReason(says=given["says"], action=Action(given["action"]), is_at_peer=given.get("at_peer", False))
    return [(number, reason) for number in given["reasons"]]


def _sxids(given: dict[str, Any]) -> Sxids:
    sets = {
        name: frozenset(_numbers(given[name])) for name in ("always_fatal", "may_be_fatal", "non_fatal", "log_only")
    }
    twice = (sets["always_fatal"] & sets["may_be_fatal"]) | (sets["non_fatal"] & sets["always_fatal"])
    if twice:
        raise ValueError(f"codes {sorted(twice)} stand in two severities")
    return Sxids(**sets)


def _check_registers(table: XidTable) -> None:
    unknown = set(table.registers.values()) - set(table.register_readings)
    if unknown or "unknown" not in table.register_readings:
        raise SettingsError(f"xid.toml: [register_reading] lacks {sorted(unknown) or ['unknown']}; add it.")
