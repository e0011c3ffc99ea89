"""Every shape of kernel log line, against the field cases and beyond them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fakes.clock import START
from tests.field_cases import case, field_cases

from trimtab.collect.kernel_lines import read_line
from trimtab.collect.kernel_records import KernelLogParser, parse_kernel_log
from trimtab.collect.pci import canonical_pci


def records(text: str) -> list[dict[str, object]]:
    return [record.as_dict() for record in parse_kernel_log(text.splitlines(), now=START)]


@pytest.mark.parametrize("found", field_cases("b-kernel"), ids=str)
def test_each_kernel_log_reads_as_its_sidecar_says(found):
    assert records(found.text) == found.expected, found.reading


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("0000:01:00", "0000:01:00.0"),
        ("0000:01:00.0", "0000:01:00.0"),
        ("PCI:0000:01:00.0", "0000:01:00.0"),
        ("00000000:01:00.0", "0000:01:00.0"),
        ("0003:00", "0000:03:00.0"),
        ("GPU0000:07:00.0", "0000:07:00.0"),
        ("00000018:01:00.0", "0018:01:00.0"),
        ("PCI:0018:01:00", "0018:01:00.0"),
        ("0000:00:1c", "0000:00:1c.0"),
        ("0000:B1:00.0", "0000:b1:00.0"),
        ("PCI:...", None),
        ("000:1A:40.0", None),
        ("0123:00", None),
        ("", None),
        ("17000000.gpu", None),
    ],
)
def test_a_pci_address_has_one_canonical_form(spelling, canonical):
    assert canonical_pci(spelling) == canonical


@pytest.mark.parametrize(
    "prefix",
    [
        "[430954.509105] ",
        "[Tue Mar 11 06:02:43 2025] ",
        "May 19 07:08:57 gpu-07 kernel: ",
        "May 19 07:08:57 gpu-07 kernel: [  430.509105] ",
        "2026-05-19T07:08:57.123456+02:00 gpu-07 kernel: ",
        "2026-05-19T07:08:57,123456+00:00 ",
        "3,5126,418330291,-;",
        "<3>[  430.509105] ",
        "kern  :err   : [  430.509105] ",
        "[  430.509105] [  T1234] ",
        "kernel: ",
        "gpu-07 kernel: ",
        "",
    ],
)
def test_each_log_shape_gives_the_same_xid(prefix):
    (record,) = records(prefix + "NVRM: Xid (PCI:0000:b3:00): 79, pid='<unknown>', name=<unknown>, fell off.")
    assert (record["kind"], record["code"], record["pci"]) == ("xid", 79, "0000:b3:00.0")


def test_a_mig_instance_is_read_from_the_address():
    (record,) = records("NVRM: Xid (PCI:0000:07:00 GPU-I:04 GPU-CI:00): 43, pid=12, name=python3, Ch 0000000a")
    assert record == {
        "line": 1, "kind": "xid", "code": 43, "pci": "0000:07:00.0", "gi": 4, "pid": 12, "name": "python3",
    }  # fmt: skip


def test_three_lines_without_stamps_or_with_them_tell_one_fallen_gpu():
    found = records(
        "[ 1.0] NVRM: The NVIDIA GPU 0000:d6:00.0\n"
        "[ 1.0] NVRM: (PCI ID: 10de:2335) installed in this system has\n"
        "[ 1.0] NVRM: fallen off the bus and is not responding to commands.\n"
    )
    assert [(record["kind"], record.get("continuation_of")) for record in found] == [
        ("fallen_off", None), ("ignore", 1), ("ignore", 1),
    ]  # fmt: skip


def test_an_unsupported_gpu_opens_the_same_way_and_has_not_fallen_off():
    found = records(
        "[ 1.0] NVRM: The NVIDIA GPU 0000:d6:00.0 (PCI ID: 10de:0de1)\n"
        "[ 1.0] NVRM: installed in this system is not supported by the\n"
        "[ 1.0] NVRM: NVIDIA 550.127.05 driver release.\n"
    )
    assert [record["kind"] for record in found] == ["other", "ignore", "ignore"]


def test_a_one_line_message_of_a_fallen_gpu_is_read():
    (record,) = records(
        "NVRM: The NVIDIA GPU 0000:d6:00.0 (PCI ID: 10de:2335) installed in this system has fallen off the bus and is"
    )
    assert (record["kind"], record["pci"], record["device_id"]) == ("fallen_off", "0000:d6:00.0", "10de:2335")


def test_a_torn_line_is_counted_and_the_next_good_one_is_read():
    found = records("NVRM: Xid (PCI:0000:2d:0\nNVRM: Xid (PCI:0000:0e:00): 31, pid=4410, name=python")
    assert [(record["kind"], record.get("malformed")) for record in found] == [("other", True), ("xid", None)]


def test_a_syslog_stamp_without_a_year_is_never_in_the_future():
    stamped = read_line("Dec 31 23:59:58 gpu-07 kernel: NVRM: x", now=datetime(2026, 1, 1, 0, 0, 5, tzinfo=UTC))
    assert stamped.at == datetime(2025, 12, 31, 23, 59, 58, tzinfo=UTC)


def test_only_a_journal_entry_of_kernel_transport_and_facility_0_speaks_for_the_kernel():
    def is_kernel(**fields: str) -> bool:
        import json

        return read_line(json.dumps({"MESSAGE": "NVRM: Xid", **fields}), now=START).is_kernel

    assert is_kernel(_TRANSPORT="kernel", SYSLOG_FACILITY="0")
    assert not is_kernel(_TRANSPORT="kernel", SYSLOG_FACILITY="1")
    assert not is_kernel(_TRANSPORT="kernel")
    assert not is_kernel(_TRANSPORT="syslog", SYSLOG_FACILITY="0")


def test_a_kmsg_record_of_another_facility_is_userspace():
    assert read_line("3,1,2,-;NVRM: Xid (PCI:0000:01:00): 79", now=START).is_kernel
    assert not read_line("11,1,2,-;NVRM: Xid (PCI:0000:01:00): 79", now=START).is_kernel


def test_userspace_cannot_end_what_the_kernel_began():
    opening = "3,1,99,-;NVRM: The NVIDIA GPU 0000:d6:00.0 (PCI ID: 10de:0de1)\n"
    ending = ",2,100,-;NVRM: fallen off the bus and is not responding to commands.\n"
    assert [record["kind"] for record in records(f"{opening}3{ending}")] == ["fallen_off", "ignore"]
    assert records(f"{opening}11{ending}")[0]["kind"] == "other"


def test_a_held_opening_is_given_at_the_end():
    parser = KernelLogParser(now=START)
    parser.feed("NVRM: The NVIDIA GPU 0000:d6:00.0")
    assert parser.take() == []
    parser.feed("NVRM: (PCI ID: 10de:2335) installed in this system has")
    assert parser.take() == []
    parser.feed("NVRM: fallen off the bus and is not responding to commands.")
    assert [record.kind for record in parser.take()] == ["fallen_off", "ignore", "ignore"]


_LINES = [line for found in field_cases("b-kernel") for line in found.text.splitlines() if "NVRM" in line]


@given(st.lists(st.one_of(st.text(max_size=80), st.sampled_from(_LINES)), max_size=12), st.integers(0, 200))
def test_no_text_raises_and_each_line_gives_one_record(lines, cut):
    lines = [*lines, *(line[:cut] for line in _LINES[:5])]
    found = parse_kernel_log(lines, now=START)
    assert [record.line for record in found] == list(range(1, len(lines) + 1))


def test_digits_of_another_script_are_no_code():
    (record,) = records("NVRM: Xid (PCI:0000:2d:00): ٣١, pid=1")
    assert record["malformed"] is True


def test_case_b49_reads_the_boot_it_ended_in():
    found = records(case("B49").text)
    assert [bool(record.get("stale")) for record in found] == [True, False, False, False]
