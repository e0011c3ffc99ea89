"""Decodes NVLink events: the registers of XID 74 and the words of XID 144 to 150. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass

from trimtab.detect.xid_table import LinkReason, Unit, XidTable
from trimtab.model.advice import Action
from trimtab.model.reading import Event

NVLINK4 = 74
NVLINK5 = range(144, 151)
_NUMBER = re.compile(r"0[xX][0-9a-fA-F]+")
_BRACKET = re.compile(r"\((0[xX][0-9a-fA-F]+[0-9a-fA-FxX, ]*)\)")
_V2_DRIVER_MAJOR = 575
_RESET_FATAL = LinkReason(says="link down", action=Action.CORDON_RESET)


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkVerdict:
    """What a link event means: action now and once repeated, in words, what speaks against, and whose fault."""

    action: Action
    again: Action
    says: str
    against: str = ""
    is_at_peer: bool = False
    key: str = ""
    """Equal for events of one fault: unit and reason, or the register set."""


def numbers_of(event: Event, detail: str) -> tuple[int, ...]:
    """The hexadecimal numbers of an event: from its details, else from the last bracket of its raw line."""
    text = event.details.get(detail, "")
    if not text:
        brackets = _BRACKET.findall(event.text)
        text = brackets[-1] if brackets else ""
    return tuple(int(number, 16) for number in _NUMBER.findall(text))


def read_registers(event: Event, table: XidTable) -> LinkVerdict:
    """XID 74 by the set bits of its registers; the reading with the worst action decides."""
    registers = numbers_of(event, "registers")
    found = {
        table.registers.get((index, bit), "unknown")
        for index, value in enumerate(registers)
        for bit in range(32)
        if value >> bit & 1
    }
    readings = [table.register_readings[name] for name in sorted(found or {"unknown"})]
    worst = max(readings, key=lambda reading: (reading.action.rank, reading.again.rank))
    return LinkVerdict(
        action=worst.action,
        again=worst.again,
        says=worst.says,
        is_at_peer=worst.name == "echo",
        key=" ".join(f"{value:#x}" for value in registers),
    )


def read_words(event: Event, table: XidTable, *, driver: str | None = None) -> LinkVerdict:
    """XID 144 to 150 by unit and status where the encoding is known, else by the printed word."""
    words = numbers_of(event, "words")
    printed = _printed(event)
    unit = _unit_of(event, words, table, driver)
    if unit is None or len(words) < 2:
        return _by_word(event, printed)
    action, says, is_at_peer = _status(unit, words, table)
    reason = words[0] >> 20 & 0x3F
    key = f"{unit.name} {reason} {words[1]:#x}"
    says = f"{says} ({unit.name}, status {words[1]:#x})"
    if _contradicts(action, printed) and not _is_branch_known(driver):
        word = "Nonfatal" if printed is False else "Fatal"
        return LinkVerdict(
            action=Action.WATCH,
            again=Action.WATCH,
            says=f"{says}: the table and the printed word {word} disagree",
            against=f"The driver printed {word}, the table says {action}: ask its recovery action.",
            key=key,
        )
    return LinkVerdict(action=action, again=action, says=says, is_at_peer=is_at_peer, key=key)


def _printed(event: Event) -> bool | None:
    """True = Fatal, False = Nonfatal, None = not printed."""
    word = (event.severity or "").lower().replace("-", "")
    return {"fatal": True, "nonfatal": False}.get(word)


def _by_word(event: Event, printed: bool | None) -> LinkVerdict:  # noqa: FBT001 - three-valued
    action = Action.CORDON_RESET if printed else Action.WATCH
    unit = event.subcode or "unit unknown"
    word = {True: "Fatal", False: "Nonfatal", None: "no severity printed"}[printed]
    return LinkVerdict(action=action, again=action, says=f"{unit}, {word}", key=unit)


def _unit_of(event: Event, words: tuple[int, ...], table: XidTable, driver: str | None) -> Unit | None:
    units = [unit for unit in table.units if unit.xid == event.code]
    if words:
        by_v1 = [unit for unit in units if words[0] & 0x3FF == unit.v1]
        by_v2 = [unit for unit in units if words[0] & 0x7F in unit.v2]
        if _is_branch_known(driver):
            known = by_v2 if _is_v2(driver) else by_v1
            if len(known) == 1:
                return known[0]
        fits = {unit.name: unit for unit in (*by_v1, *by_v2)}
        if len(fits) == 1:
            return next(iter(fits.values()))
    printed = [unit for unit in units if (event.subcode or "").split(" ")[0].startswith(unit.name)]
    return max(printed, key=lambda unit: len(unit.name), default=None)


def _status(unit: Unit, words: tuple[int, ...], table: XidTable) -> tuple[Action, str, bool]:
    if unit.is_by_reason:
        reason = table.link_reasons.get(words[0] >> 20 & 0x3F, _RESET_FATAL)
        return reason.action, reason.says, reason.is_at_peer
    if unit.reset is None or words[1] in unit.reset:
        return Action.CORDON_RESET, "the link is dead until a reset", False
    if words[1] in unit.follow:
        return Action.WATCH, "as the driver's recovery action says", False
    return Action.WATCH, "a fault that the link survives", False


def _contradicts(action: Action, printed: bool | None) -> bool:  # noqa: FBT001 - three-valued
    if printed is None:
        return False
    return (action is Action.CORDON_RESET) != printed and (action is Action.CORDON_RESET or action is Action.WATCH)


def _is_branch_known(driver: str | None) -> bool:
    return bool(driver) and (driver or "").split(".")[0].isdigit()


def _is_v2(driver: str | None) -> bool:
    return int((driver or "0").split(".")[0]) >= _V2_DRIVER_MAJOR
