from __future__ import annotations

from importlib.resources import files

import pytest
from tests.builders import an_xid

from trimtab.detect.xid import read_event
from trimtab.detect.xid_table import CODES, FaultClass, Tier, load_table, parse_table
from trimtab.errors import SettingsError
from trimtab.model.advice import Action
from trimtab.model.reading import EventKind

TEXT = files("trimtab.detect").joinpath("xid.toml").read_text(encoding="utf-8")


def numbers(text: str) -> list[int]:
    found: list[int] = []
    for part in text.split():
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    return found


def test_every_code_is_in_the_table_once():
    assert set(load_table().by_code) == set(CODES)


@pytest.mark.parametrize(
    ("tier", "codes"),
    [
        (Tier.PAGE, "79 167 173 95 140 143 158 54"),
        (Tier.CORDON, "46 48 62 64 110 119 120 136 151 155 169 109"),
        (Tier.TICKET, "63 74 78 92 93 94 144-150 154 156 157 159 161 164 165 166 168 170"),
        (Tier.OWNER, "8 11 13 25 31 32 39-41 43 45 60 68-72 75-77 80 82-86 88 89 96-105 126-135 137 139"),
        (Tier.STORE, "14 37 38 44 66 67 106-108 121 141 142 152 153 160 162 163 171 172"),
    ],
)
def test_codes_stand_in_their_tier(tier: Tier, codes: str):
    table = load_table()
    assert {code for code in numbers(codes) if table.by_code[code].tier is not tier} == set()


@pytest.mark.parametrize(
    ("action", "codes"),
    [
        (Action.CORDON_REBOOT, "79 167 173 54 151"),
        (Action.CORDON_RESET, "46 48 62 64 95 110 119 120 140 143 158 169"),
        (Action.RESET_AFTER_DRAIN, "63 109 136 155 156"),
        (Action.WATCH, "78 92 93 157 159 161 164-166 168 170 1-7 56-58 61 65 73 81 122-125"),
        (Action.ALERT_OWNER, "8 13 31 32 43 45 68 69 94 137"),
        (Action.NONE, "14 37 38 44 66 67 121 142 171 172"),
    ],
)
def test_codes_have_their_action(action: Action, codes: str):
    table = load_table()
    assert {code for code in numbers(codes) if table.by_code[code].action is not action} == set()


def test_a_self_sufficient_code_is_one_that_wants_no_corroboration():
    table = load_table()
    alone = {code for code, row in table.by_code.items() if row.is_self_sufficient and row.tier is not Tier.TICKET}
    assert alone == {54, 62, 79, 95, 110, 140, 143, 151, 158, 167}


def test_an_application_code_never_takes_a_node_out():
    rows = [row for row in load_table().by_code.values() if row.fault_class is FaultClass.APP]
    assert rows
    assert not any(row.action.takes_node_out for row in rows)


def test_vendor_disagreement_is_kept_where_lists_differ():
    table = load_table()
    without = [code for code in (38, 44, 68, 69, 121, 32, 60, 63, 64, 94, 109, 92, 62, 74)
               if not table.by_code[code].disagreement]  # fmt: skip
    assert without == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (('action = "cordon_reboot"', 'action = "cordon_boot"'), r"\[\[xid\]\] number 1 .*79.*cordon_boot"),
        (('says = "fell off the bus"\nclass', "class"), r"\[\[xid\]\] number 1 .*lacks 'says'"),
        (("codes = [167]", "codes = [79]"), r"code 79 stands in two rows"),
        (("codes = [167]", "codes = []"), r"codes \[167\] stand in no row"),
        (("rank = 100", "rnak = 100"), r"unknown keys \['rnak'\]"),
        (('reading = "echo"', 'reading = "eco"'), r"\[register_reading\] lacks \['eco'\]"),
        (("[unknown_xid]", "[[unknown_xid"), r"not TOML"),
    ],
)
def test_a_data_error_names_its_row(change: tuple[str, str], named: str):
    assert change[0] in TEXT
    with pytest.raises(SettingsError, match=named):
        parse_table(TEXT.replace(*change, 1))


def test_a_return_or_a_boot_is_no_fault():
    table = load_table()
    for kind in (EventKind.GPU_RETURNED, EventKind.BOOT, EventKind.DRIVER_CHANGED, EventKind.UUID_CHANGED):
        assert read_event(an_xid(kind=kind, code=None), table) is None


def test_an_unknown_code_is_unknown_and_takes_nothing_out():
    sign = read_event(an_xid(987), load_table())
    assert sign is not None
    assert (sign.label, sign.action, sign.tier) == ("XID 987", Action.UNKNOWN, Tier.TICKET)


@pytest.mark.parametrize(
    ("details", "text", "action", "tier"),
    [
        ({"recovery_action": "0x1"}, "", Action.CORDON_RESET, Tier.CORDON),
        ({"action": "0x2"}, "", Action.CORDON_REBOOT, Tier.PAGE),
        ({}, "changed from 0x0 (None) to 0x3 (Drain P2P)", Action.RESET_AFTER_DRAIN, Tier.CORDON),
        ({}, "changed from 0x0 (None) to 0x4 (whatever it says)", Action.CORDON_RESET, Tier.CORDON),
        ({}, "changed from 0x1 (Reset) to 0x0 (None)", Action.NONE, Tier.STORE),
        ({}, "154 (", Action.UNKNOWN, Tier.TICKET),
        ({"action": "0x9"}, "", Action.UNKNOWN, Tier.TICKET),
    ],
)
def test_the_recovery_action_goes_by_its_number(details, text, action, tier):
    sign = read_event(an_xid(154, details=details, text=text), load_table())
    assert sign is not None
    assert (sign.action, sign.tier) == (action, tier)


@pytest.mark.parametrize(
    ("code", "word", "action"),
    [
        (12020, "Non-fatal", Action.CORDON_REBOOT),
        (23005, None, Action.CORDON_REBOOT),
        (24007, "Fatal", Action.CORDON_REBOOT),
        (24007, "Non-fatal", Action.WATCH),
        (24007, None, Action.WATCH),
        (20009, "Non-fatal", Action.WATCH),
        (22013, "Non-fatal", Action.NONE),
        (28002, "Non-fatal", Action.NONE),
        (28006, "Non-fatal", Action.WATCH),
        (29999, "Fatal", Action.CORDON_REBOOT),
        (29999, "1", Action.CORDON_REBOOT),
    ],
)
def test_an_sxid_goes_by_its_set_and_word(code: int, word: str | None, action: Action):
    sign = read_event(an_xid(code, kind=EventKind.SXID, severity=word, gpu=None), load_table())
    assert sign is not None
    assert sign.action is action
