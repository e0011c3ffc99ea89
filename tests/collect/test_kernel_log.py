"""The follower: each line once, over restarts, rotation and overwritten buffers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.fakes.clock import FakeClock
from tests.fakes.kmsg import FakeKmsg

from trimtab.collect.kernel_log import FileSource, KernelLogFollower, KmsgDevice, KmsgSource, read_host_time
from trimtab.errors import CollectError, NoData

XID = "NVRM: Xid (PCI:0000:b3:00): {code}, pid='<unknown>', name=<unknown>, text"


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    root = tmp_path / "proc"
    (root / "sys/kernel/random").mkdir(parents=True)
    (root / "sys/kernel/random/boot_id").write_text("11111111-2222-3333-4444-555555555555\n")
    (root / "uptime").write_text("100000.00 1.0\n")
    return root


def follow(log: Path, proc: Path, tmp_path: Path) -> KernelLogFollower:
    return KernelLogFollower(
        str(log), clock=FakeClock(), state_directory=tmp_path / "state", host_time=lambda: read_host_time(proc)
    )


def kmsg_line(sequence: int, seconds: float, code: int) -> str:
    return f"3,{sequence},{int(seconds * 1e6)},-;{XID.format(code=code)}\n"


def test_each_line_is_given_once_over_restarts(tmp_path, proc):
    log = tmp_path / "kmsg.log"
    log.write_text(kmsg_line(1, 99_000, 31) + kmsg_line(2, 99_001, 79))
    first = follow(log, proc, tmp_path)
    assert [event.code for event in first.events()] == [31, 79]
    assert first.events() == []
    with log.open("a") as file:
        file.write(kmsg_line(3, 99_500, 48))
    assert [event.code for event in follow(log, proc, tmp_path).events()] == [48]


def test_what_was_not_committed_is_given_again(tmp_path, proc):
    log = tmp_path / "kmsg.log"
    log.write_text(kmsg_line(1, 99_000, 79))
    (lost,) = follow(log, proc, tmp_path).events()
    again = follow(log, proc, tmp_path)
    (repeated,) = again.events()
    assert (repeated.cursor, repeated.at, repeated.boot_id) == (lost.cursor, lost.at, lost.boot_id)
    again.commit()
    assert follow(log, proc, tmp_path).events() == []


def test_the_first_start_looks_back_two_hours_once(tmp_path, proc):
    log = tmp_path / "kmsg.log"
    log.write_text(kmsg_line(1, 100_000 - 7300, 31) + kmsg_line(2, 100_000 - 7100, 79))
    assert [event.code for event in follow(log, proc, tmp_path).events()] == [79]


def test_half_a_line_waits_for_its_end(tmp_path, proc):
    log = tmp_path / "kmsg.log"
    line = kmsg_line(1, 99_990, 79)
    log.write_text(line[:60])
    follower = follow(log, proc, tmp_path)
    assert follower.events() == []
    log.write_text(line)
    assert [event.code for event in follower.events()] == [79]


def test_a_rotated_file_is_read_from_its_start(tmp_path, proc):
    log = tmp_path / "kern.log"
    log.write_text(kmsg_line(1, 99_990, 31))
    follower = follow(log, proc, tmp_path)
    follower.events()
    log.rename(tmp_path / "kern.log.1")
    log.write_text(kmsg_line(2, 99_995, 79))
    assert [event.code for event in follower.events()] == [79]


def test_a_file_that_is_not_there_yet_is_no_error(tmp_path, proc):
    log = tmp_path / "later.log"
    follower = follow(log, proc, tmp_path)
    with pytest.raises(NoData, match=r"later\.log"):
        follower.events()
    log.write_text(kmsg_line(1, 99_990, 79))
    assert [event.code for event in follower.events()] == [79]


def test_a_journal_export_delivered_twice_counts_once(tmp_path, proc):
    entry = {
        "__CURSOR": "s=7;i=77", "_BOOT_ID": "b", "__REALTIME_TIMESTAMP": "1793610000000000",
        "_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0", "MESSAGE": XID.format(code=79),
    }  # fmt: skip
    log = tmp_path / "journal.json"
    log.write_text(f"{json.dumps(entry)}\n{json.dumps(entry)}\n")
    follower = follow(log, proc, tmp_path)
    assert [event.cursor for event in follower.events()] == ["s=7;i=77"]
    with log.open("a") as file:
        file.write(json.dumps(entry) + "\n")
    assert follower.events() == []
    follower.commit()
    with log.open("a") as file:
        file.write(json.dumps(entry) + "\n")
    assert follow(log, proc, tmp_path).events() == []


def test_a_fallen_gpu_told_in_two_reads_is_told_once(tmp_path, proc):
    log = tmp_path / "kmsg.log"
    log.write_text("3,1,99990000000,-;NVRM: The NVIDIA GPU 0000:d6:00.0\n")
    follower = follow(log, proc, tmp_path)
    assert follower.events() == []
    with log.open("a") as file:
        file.write("3,2,99990000001,-;NVRM: (PCI ID: 10de:2335) installed in this system has\n")
        file.write("3,3,99990000002,-;NVRM: fallen off the bus and is not responding to commands.\n")
    (event,) = follower.events()
    assert (event.kind, event.pci) == ("fallen_off", "0000:d6:00.0")
    assert "fallen off the bus" in event.text


def test_a_damaged_state_file_costs_a_look_back_and_no_crash(tmp_path, proc):
    log = tmp_path / "kmsg.log"
    log.write_text(kmsg_line(1, 99_990, 79))
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "kernel-log.json").write_text("{torn")
    assert [event.code for event in follow(log, proc, tmp_path).events()] == [79]


def test_none_is_no_data_and_a_missing_device_says_what_to_grant(tmp_path):
    def made(source: str) -> KernelLogFollower:
        return KernelLogFollower(source, clock=FakeClock(), state_directory=tmp_path, kmsg=tmp_path / "no-kmsg")

    with pytest.raises(NoData, match="switched off"):
        made("none").events()
    with pytest.raises(NoData, match="DeviceAllow"):
        made("auto").events()
    with pytest.raises(CollectError, match=r"DeviceAllow.*in a container.*privileged: true"):
        made("kmsg")


def test_kmsg_gives_each_record_once_and_counts_what_was_overwritten():
    device = FakeKmsg([b"6,4,1,-;a\n", b"6,5,2,-;b\n X=y\n", BrokenPipeError(), b"6,9,3,-;c\n"])
    reader = KmsgSource(device)
    assert list(reader.lines("boot")) == ["6,4,1,-;a", "6,5,2,-;b", " X=y", "6,9,3,-;c"]
    assert reader.records_lost == 3
    assert reader.position() == {"sequence": 9}
    assert list(reader.lines("boot")) == []


def test_kmsg_goes_on_after_its_kept_number_in_the_same_boot_only():
    reader = KmsgSource(FakeKmsg([b"6,4,1,-;a\n", b"6,5,2,-;b\n"]))
    assert not reader.resume({"sequence": 4, "boot_id": "old"}, "new")
    assert reader.resume({"sequence": 4, "boot_id": "new"}, "new")
    assert list(reader.lines("new")) == ["6,5,2,-;b"]


def test_the_real_kmsg_is_read_without_waiting_or_refused_with_the_fix():
    try:
        device = KmsgDevice()
    except CollectError as error:
        assert "DeviceAllow" in str(error)
        return
    try:
        assert all("\n" not in line for line in KmsgSource(device).lines("boot"))
    except CollectError as error:
        assert "/dev/kmsg" in str(error)
    finally:
        device.close()


def test_a_directory_is_refused_with_its_name(tmp_path):
    with pytest.raises(CollectError, match=str(tmp_path)):
        list(FileSource(tmp_path).lines("boot"))
