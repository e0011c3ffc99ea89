"""Records become events: merged, dated, attributed, capped."""

from __future__ import annotations

from datetime import timedelta

from tests.builders import an_xid
from tests.fakes.clock import START
from tests.field_cases import case

from trimtab.collect.kernel_events import StormCap, events_of
from trimtab.collect.kernel_records import parse_kernel_log
from trimtab.model.reading import EventKind, EventSource


def events(text, **changes):
    return events_of(parse_kernel_log(text.splitlines(), now=START), received_at=START, **changes)


def test_the_uuid_named_earlier_is_on_later_events():
    (event,) = events(case("B02").text)
    assert (event.code, event.gpu) == (14, "GPU-20be34de-0c90-4a69-98ed-fbe3a3f2e96e")


def test_a_stamp_since_boot_is_dated_by_the_boot():
    boot_at = START - timedelta(seconds=3600)
    (event,) = events("3,1,90500000,-;NVRM: Xid (PCI:0000:01:00): 79", boot_at=boot_at)
    assert event.at == boot_at + timedelta(seconds=90.5)
    assert event.source is EventSource.KERNEL
    assert event.cursor == "kmsg:1"


def test_without_a_boot_time_the_last_line_was_said_on_receipt():
    first, last = events("[10.0] NVRM: Xid (PCI:0000:01:00): 13\n[70.0] NVRM: Xid (PCI:0000:01:00): 79")
    assert (last.at, first.at) == (START, START - timedelta(seconds=60))


def test_three_lines_of_a_switch_event_are_one_event():
    found = events(case("B34").text)
    assert [(event.code, event.link, event.severity) for event in found] == [
        (22013, 12, "Non-fatal"),
        (22013, 13, "Non-fatal"),
    ]
    assert all("Severity 0" in event.text and "Data {" in event.text for event in found)
    assert all(event.gpu is None for event in found)


def test_both_lines_of_a_failed_initialisation_are_one_event():
    found = events(case("B48").text)
    assert [event.kind for event in found] == [EventKind.RM_INIT] * 5
    assert {event.pci for event in found} == {"0000:c7:00.0", "0000:07:01.0", "0000:07:02.0"}
    by_pci = {event.pci: event.details for event in found}
    assert by_pci["0000:c7:00.0"] == {"rm_init_code": "0x25:0x40:1519", "minor": "3"}
    assert by_pci["0000:07:02.0"]["section"] == "1"


def test_duplicates_and_earlier_boots_are_left_out():
    found = events(case("B49").text)
    assert [(event.code, event.boot_id) for event in found] == [(79, "boot-b"), (154, "boot-b")]
    assert found[1].details["action"] == "0x2"


def test_text_of_userspace_is_marked_unless_a_person_vouches_for_it():
    (event,) = events(case("B17").text)
    assert event.source is EventSource.USERSPACE
    assert event.details["host"] == "gpu-w07"
    (vouched,) = events(case("B17").text, source=EventSource.KERNEL)
    assert vouched.source is EventSource.KERNEL


def test_a_required_reset_is_an_event_without_a_gpu():
    (event,) = events(case("B33").text)
    assert (event.kind, event.pci, event.code) == (EventKind.RESET_REQUIRED, None, None)


def test_nvlink_words_are_kept_for_the_judge():
    found = events(case("B27").text)
    assert found[2].details["words"].split()[0] == "0x025041c6"
    assert found[3].link == -1


def test_a_storm_is_capped_and_loses_no_count():
    cap = StormCap()
    storm = [an_xid(95, at=START + timedelta(milliseconds=index * 10)) for index in range(5000)]
    kept = cap.cap(storm)
    assert sum(event.count for event in kept) == 5000
    assert len(kept) == 60 + 5 + 1
    assert kept[0].at == START
    assert kept[-1].at == storm[-2].at  # the 5000th line is kept whole
    other = cap.cap([an_xid(79, at=START + timedelta(seconds=50))])
    assert [event.count for event in other] == [1]


def test_after_a_minute_lines_are_whole_again():
    cap = StormCap(lines_per_minute=1)
    assert len(cap.cap([an_xid(95), an_xid(95)])) == 2
    later = START + timedelta(seconds=61)
    assert [event.count for event in cap.cap([an_xid(95, at=later)])] == [1]
