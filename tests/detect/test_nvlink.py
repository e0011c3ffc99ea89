from __future__ import annotations

import pytest
from tests.builders import an_xid

from trimtab.detect.nvlink import numbers_of, read_registers, read_words
from trimtab.detect.xid_table import load_table
from trimtab.model.advice import Action

TABLE = load_table()


def registers(**bits: int):
    values = [0] * 7
    for name, bit in bits.items():
        values[int(name[1:])] |= 1 << bit
    return an_xid(74, details={"registers": " ".join(hex(value) for value in values)})


def words(code: int, first: int, second: int, *, unit: str = "", severity: str | None = None):
    text = f"{first:#010x} {second:#010x} 0x0 0x0 0x0 0x0"
    return an_xid(code, subcode=unit or None, severity=severity, details={"words": text})


def test_registers_are_read_from_the_raw_line_too():
    event = an_xid(74, text="NVLink: fatal error detected on link 14(0x0, 0x0, 0x10000, 0x0, 0x0, 0x0, 0x0)")
    assert numbers_of(event, "registers") == (0, 0, 0x10000, 0, 0, 0, 0)


@pytest.mark.parametrize(
    ("bits", "action", "again", "is_at_peer"),
    [
        ({"r0": 0}, Action.WATCH, Action.WATCH, False),
        ({"r0": 20}, Action.WATCH, Action.WATCH, True),
        ({"r0": 4}, Action.WATCH, Action.RESET_AFTER_DRAIN, False),
        ({"r0": 28}, Action.RESET_AFTER_DRAIN, Action.CORDON_RESET, False),
        ({"r0": 20, "r4": 18}, Action.RESET_AFTER_DRAIN, Action.CORDON_RESET, False),
        ({"r2": 16}, Action.WATCH, Action.CORDON_RESET, False),
        ({"r3": 18}, Action.RESET_AFTER_DRAIN, Action.CORDON_RESET, False),
        ({"r4": 20}, Action.WATCH, Action.WATCH, False),
        ({"r6": 31}, Action.WATCH, Action.WATCH, False),
        ({}, Action.WATCH, Action.WATCH, False),
    ],
)
def test_xid_74_goes_by_its_bits(bits, action, again, is_at_peer):
    found = read_registers(registers(**bits), TABLE)
    assert (found.action, found.again, found.is_at_peer) == (action, again, is_at_peer)


def test_both_encodings_of_the_first_word_are_known():
    for first in (0x82, 0x04):
        found = read_words(words(145, first, 0x40, unit="RLW_REMAP", severity="Fatal"), TABLE)
        assert found.action is Action.CORDON_RESET, hex(first)


def test_a_word_that_contradicts_the_table_is_shown_and_not_picked():
    found = read_words(words(145, 0x04, 0x40, unit="RLW_REMAP", severity="Nonfatal"), TABLE)
    assert found.action is Action.WATCH
    assert "Nonfatal" in found.against


def test_with_the_driver_branch_known_the_table_decides():
    event = words(145, 0x04, 0x40, unit="RLW_REMAP", severity="Nonfatal")
    assert read_words(event, TABLE, driver="580.65.06").action is Action.CORDON_RESET


@pytest.mark.parametrize(
    ("reason", "action", "is_at_peer"),
    [(0, Action.WATCH, False), (2, Action.RESET_AFTER_DRAIN, False), (37, Action.CORDON_RESET, True),
     (40, Action.WATCH, False), (43, Action.RESET_AFTER_DRAIN, False), (5, Action.CORDON_RESET, False)],
)  # fmt: skip
def test_a_link_event_goes_by_its_reason(reason: int, action: Action, is_at_peer):
    found = read_words(words(149, reason << 20 | 0x1C6, 0, unit="NETIR_LINK_EVT"), TABLE)
    assert (found.action, found.is_at_peer) == (action, is_at_peer)


@pytest.mark.parametrize(("severity", "action"), [("Fatal", Action.CORDON_RESET), ("Nonfatal", Action.WATCH),
                                                  (None, Action.WATCH)])  # fmt: skip
def test_without_words_the_printed_word_decides(severity, action):
    assert read_words(an_xid(145, subcode="RLW_RXPIPE", severity=severity), TABLE).action is action


def test_an_unknown_encoding_falls_back_to_the_printed_unit():
    found = read_words(words(146, 0x3FF, 0x4, unit="TLW_RX PIPE1", severity="Fatal"), TABLE)
    assert found.action is Action.CORDON_RESET
    assert "TLW_RX" in found.says


def test_a_watchdog_is_a_reset_whatever_its_status():
    assert read_words(words(150, 0x0, 0x1234, severity="Fatal"), TABLE).action is Action.CORDON_RESET


def test_faults_of_one_unit_reason_and_status_have_one_key():
    first = read_words(words(149, 0x025041C6, 0), TABLE)
    assert first.key == read_words(words(149, 0x065041C6, 0), TABLE).key
    assert first.key != read_words(words(149, 0x028041C6, 0), TABLE).key
