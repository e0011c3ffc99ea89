"""A user of a node cannot make the kernel say something: neither by /dev/kmsg, nor by the journal, nor by odd lines."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.builders import a_report, gpu_uuid
from tests.fakes.clock import FakeClock
from tests.security.hall import Hall
from tests.system.processes import CLUSTER, eventually

from trimtab.clock import SystemClock
from trimtab.collect.kernel_log import HostTime, KernelLogFollower
from trimtab.model.advice import Finding
from trimtab.model.reading import Event, EventSource
from trimtab.outbound import session
from trimtab.ship.wire import MSGPACK, ZSTD, encode_reports

FALLEN = "NVRM: Xid (PCI:0000:10:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
STEERS = "\\x1b]0;owned\\x07\\x1b[2J\\x0alevel=error event=\\x22forged\\x22"
"""As the kernel writes what it was given: escaped."""


def heard(folder: Path, *records: bytes) -> list[Event]:
    """What an agent makes of records of /dev/kmsg."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "kmsg"
    log.write_bytes(b"".join(records))
    host = HostTime(boot_id="boot-a", uptime_seconds=600.0)
    clock = FakeClock(SystemClock().now())
    follower = KernelLogFollower(str(log), clock=clock, state_directory=folder, host_time=lambda: host)
    return [*follower.events(), *follower.events()]


def kmsg(facility: int, text: str, *, sequence: int = 1) -> bytes:
    return f"{facility * 8 + 3},{sequence},{sequence * 1000},-;{text}\n".encode()


def tell(hall: Hall, node: str, sequence: int, events: list[Event]) -> None:
    """A report of the node with these events, as its agent would send it."""
    now = SystemClock().now()
    made = a_report(
        node, cluster=CLUSTER, spool_id="forged", boot_id="boot-a", sequence=sequence, sampled_at=now, gpus=1,
        events=tuple(replace(one, at=now, gpu=gpu_uuid(node, 0)) for one in events),
    )  # fmt: skip
    headers = {"Content-Type": MSGPACK, "Content-Encoding": ZSTD}
    with session(timeout_seconds=20.0, token=hall.daemon.token_of(node)) as peer:
        answer = peer.post(f"{hall.daemon.ingest_url}/v1/reports", data=encode_reports([made]), headers=headers)
    assert answer.status_code == 200, answer.text


@pytest.fixture(scope="module")
def hall(shared_hall: Hall) -> Hall:
    return shared_hall


def about(hall: Hall, node: str) -> list[Finding]:
    found = hall.daemon.board().findings
    return [item.finding for item in found if item.finding.subject.node == node]


def test_what_a_user_writes_to_kmsg_takes_no_node_out_and_what_the_kernel_writes_does(
    hall: Hall, tmp_path: Path
) -> None:
    forged = heard(tmp_path / "forged", kmsg(1, FALLEN))
    assert [event.source for event in forged] in ([], [EventSource.USERSPACE])
    tell(hall, "victim", 1, forged)
    told = heard(tmp_path / "told", kmsg(0, FALLEN))
    assert [event.source for event in told] == [EventSource.KERNEL]
    tell(hall, "broken", 1, told)
    (true,) = eventually(lambda: about(hall, "broken"), said=hall.daemon.tail)
    assert true.is_corroborated
    for finding in about(hall, "victim"):
        assert not finding.is_corroborated, finding
        assert "No move rests on it" in finding.against[0].text
    recommended = {row.command.recommendation.subject.node for row in hall.daemon.board().commands}
    assert "victim" not in recommended


def test_the_journal_says_kernel_of_what_a_user_wrote_and_is_not_believed(tmp_path: Path) -> None:
    """journald stamps whatever comes from /dev/kmsg as kernel transport; the facility tells."""
    from trimtab.collect.kernel_records import read_line

    now = SystemClock().now()
    for stamps in (
        {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "1"},
        {"_TRANSPORT": "kernel"},
        {"_TRANSPORT": "syslog", "SYSLOG_FACILITY": "0"},
        {"_TRANSPORT": "stdout", "SYSLOG_FACILITY": "0", "SYSLOG_IDENTIFIER": "kernel"},
        {"_TRANSPORT": "journal", "SYSLOG_FACILITY": "0"},
    ):
        assert not read_line(json.dumps({"MESSAGE": FALLEN, **stamps}), now=now).is_kernel, stamps


def test_a_kernel_line_makes_no_second_line_and_steers_nothing(hall: Hall, tmp_path: Path) -> None:
    line = FALLEN.replace("fallen off the bus.", f"fallen off the bus.{STEERS}")
    events = heard(tmp_path, kmsg(0, line))
    loud = [replace(one, text="raw \x1b[2J\x07\nlevel=error\r\u202eabc " + one.text) for one in events]
    tell(hall, "loud", 1, loud)
    eventually(lambda: about(hall, "loud"), said=hall.daemon.tail)
    page = hall.daemon.ask("GET", "/api/v1/findings").text
    assert "\\u001b" not in page
    assert "\u202e" not in page
    log = hall.daemon.text()
    assert "\x1b]0;" not in log
    assert not [one for one in log.splitlines() if one.startswith("level=error")]
