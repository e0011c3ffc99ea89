"""The spool on a real disk: nothing that was kept is lost, and no sequence is given twice."""

from __future__ import annotations

import os
import random
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from tests.builders import a_report

from trimtab.errors import SettingsError
from trimtab.model.reading import Report
from trimtab.ship.segment import pack
from trimtab.ship.spool import Spool, Waiting

ROOT = Path(__file__).parent.parent.parent
MANY = 10**6
BIG = 64 * 1024 * 1024


_opened: list[Spool] = []


@pytest.fixture(autouse=True)
def _close_spools() -> Iterator[None]:
    yield
    for spool in _opened:
        spool.close()
    _opened.clear()


def opened(directory: Path, bytes_max: int = BIG) -> Spool:
    spool = Spool(directory / "spool", bytes_max)
    _opened.append(spool)
    return spool


def fill(spool: Spool, reports: int, *, errors: dict[str, str] | None = None) -> list[Report]:
    return [
        spool.append(a_report(gpus=1, sequence=0, spool_id="", errors=errors or {"n": str(n)}))
        for n in range(reports)
    ]  # fmt: skip


def everything(spool: Spool) -> list[Waiting]:
    return spool.backlog(reports_max=MANY, bytes_max=BIG)


def sequences(waiting: list[Waiting]) -> list[int]:
    return [one.sequence for one in waiting]


def the_segment(directory: Path) -> Path:
    (path,) = (directory / "spool").glob("*.segment")
    return path


def test_a_report_gets_its_sequence_and_comes_back_whole(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    kept = fill(spool, 3)
    live = spool.live()
    assert [report.sequence for report in kept] == [1, 2, 3]
    assert {report.spool_id for report in kept} == {spool.spool_id}
    assert live is not None
    assert msgspec.msgpack.decode(live.encoded, type=Report) == kept[2]
    assert [msgspec.msgpack.decode(one.encoded, type=Report) for one in everything(spool)] == kept[:2]
    assert spool.waiting == 3


def test_the_sequence_goes_on_and_what_waited_still_waits_after_a_restart(tmp_path: Path) -> None:
    first = opened(tmp_path)
    fill(first, 3)
    first.acknowledge(everything(first))
    first.close()
    second = opened(tmp_path)
    assert second.spool_id == first.spool_id
    assert second.live() is None  # the newest of an earlier process is backlog, not news
    assert sequences(everything(second)) == [3]
    assert fill(second, 1)[0].sequence == 4


def test_the_sequence_goes_on_when_all_was_acknowledged_and_its_files_are_gone(tmp_path: Path) -> None:
    spool = opened(tmp_path, 4096)
    fill(spool, 30)
    spool.acknowledge([*everything(spool), spool.live() or pytest.fail("no live report")])
    spool.close()
    again = opened(tmp_path, 4096)
    assert (again.waiting, again.dropped_total > 0, again.damaged_total) == (0, True, 0)
    assert fill(again, 1)[0].sequence == 31


def test_backlog_is_bounded_by_reports_and_bytes(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    fill(spool, 10)
    one = len(everything(spool)[0].encoded)
    assert sequences(spool.backlog(reports_max=4, bytes_max=BIG)) == [1, 2, 3, 4]
    assert sequences(spool.backlog(reports_max=MANY, bytes_max=2 * one)) == [1, 2]


def test_live_reports_may_overtake_and_that_survives_a_restart(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    for _ in range(6):
        fill(spool, 1)
        live = spool.live()
        assert live is not None
        if live.sequence in (3, 5, 6):
            spool.acknowledge([live])
    assert (sequences(everything(spool)), spool.waiting) == ([1, 2, 4], 3)
    spool.close()
    assert sequences(everything(opened(tmp_path))) == [1, 2, 4]


def test_beyond_its_bound_the_oldest_are_dropped_and_counted_over_restarts(tmp_path: Path) -> None:
    spool = opened(tmp_path, 8192)
    fill(spool, 200)
    left = sequences(everything(spool))
    assert left == list(range(left[0], 200))  # the newest, 200, is the live one
    assert 0 < spool.dropped_total == left[0] - 1
    assert spool.size_bytes <= 8192
    spool.close()
    again = opened(tmp_path, 8192)
    assert (again.dropped_total, again.damaged_total, again.waiting) == (left[0] - 1, 0, 201 - left[0])


@pytest.mark.parametrize("bytes_max", [0, 1, 700])
def test_a_spool_too_small_for_anything_keeps_the_newest(tmp_path: Path, bytes_max: int) -> None:
    spool = opened(tmp_path, bytes_max)
    fill(spool, 5)
    assert (spool.waiting, spool.dropped_total) == (1, 4)
    spool.close()
    assert sequences(everything(opened(tmp_path, bytes_max))) == [5]


def test_half_a_record_is_cut_off_wherever_the_write_ended(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    fill(spool, 3)
    spool.close()
    path = the_segment(tmp_path)
    whole = path.read_bytes()
    record = pack(4, b"payload of the fourth")
    for length in range(len(record)):
        path.write_bytes(whole + record[:length])
        again = opened(tmp_path)
        assert sequences(everything(again)) == [1, 2, 3]
        assert fill(again, 1)[0].sequence == 4
        assert again.damaged_total == 0
        again.close()
        path.write_bytes(whole)


def test_a_damaged_record_costs_only_itself_and_is_counted(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    fill(spool, 5)
    spool.close()
    path = the_segment(tmp_path)
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF  # within the third of five equal records
    path.write_bytes(content)
    again = opened(tmp_path)
    assert sequences(everything(again)) == [1, 2, 4, 5]
    assert (again.damaged_total, again.waiting) == (1, 4)
    assert fill(again, 1)[0].sequence == 6
    again.acknowledge(everything(again))
    again.close()
    assert opened(tmp_path).damaged_total == 1


def test_a_damaged_newest_record_that_was_sent_never_gives_its_sequence_again(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    fill(spool, 3)
    live = spool.live()
    assert live is not None
    spool.acknowledge([live])
    spool.close()
    path = the_segment(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 0xFF]))
    again = opened(tmp_path)
    assert fill(again, 1)[0].sequence == 4
    assert (sequences(everything(again)), again.damaged_total) == ([1, 2], 0)


def test_files_that_someone_removed_are_counted_as_damaged(tmp_path: Path) -> None:
    spool = opened(tmp_path, 100_000)
    long = os.urandom(2000).hex()
    fill(spool, 40, errors={"nvml": long})
    first, *_ = sorted((tmp_path / "spool").glob("*.segment"))
    held = sequences(everything(spool))
    first.unlink()
    left = sequences(everything(spool))
    assert 0 < len(left) < len(held)
    assert spool.damaged_total == len(held) - len(left)
    assert spool.waiting == len(left) + 1  # and the live one


def test_an_emptied_directory_is_a_new_spool_with_a_new_id(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    fill(spool, 3)
    spool.close()
    the_segment(tmp_path).unlink()
    again = opened(tmp_path)
    assert again.spool_id != spool.spool_id
    assert (fill(again, 1)[0].sequence, again.waiting) == (1, 1)


def test_an_unreadable_position_sends_all_again_rather_than_nothing(tmp_path: Path) -> None:
    spool = opened(tmp_path)
    fill(spool, 3)
    spool.acknowledge(everything(spool))
    spool.close()
    (tmp_path / "spool" / "position.json").write_text("{", encoding="ascii")
    again = opened(tmp_path)
    assert sequences(everything(again)) == [1, 2, 3]
    assert again.damaged_total == 0


def test_two_agents_do_not_share_a_spool(tmp_path: Path) -> None:
    first = opened(tmp_path)
    with pytest.raises(SettingsError, match="another agent"):
        opened(tmp_path)
    first.close()
    opened(tmp_path)


def test_a_directory_that_cannot_be_made_keeps_the_last_report_in_memory(tmp_path: Path) -> None:
    (tmp_path / "spool").write_text("a file is in the way", encoding="ascii")
    spool = opened(tmp_path)
    assert "cannot be used" in spool.trouble
    first, second = fill(spool, 2)
    live = spool.live()
    assert live is not None
    assert msgspec.msgpack.decode(live.encoded, type=Report) == second
    assert (spool.waiting, spool.lost_total, live.is_on_disk) == (1, 1, False)
    assert first.spool_id == second.spool_id != ""
    spool.acknowledge([live])
    assert (spool.waiting, spool.live()) == (0, None)
    (tmp_path / "spool").unlink()
    kept = fill(spool, 1)[0]
    assert (kept.sequence, kept.spool_id != second.spool_id, spool.trouble) == (1, True, "")


def test_a_full_disk_is_a_state_and_leaves_no_half_record(tmp_path: Path) -> None:
    # RLIMIT_FSIZE makes the kernel refuse a write half way, as a full disk does.
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    spool = opened(tmp_path)
    fill(spool, 3)
    size_bytes = the_segment(tmp_path).stat().st_size
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes + 100, before[1]))
        (memory,) = fill(spool, 1)
        assert "File too large" in spool.trouble
        assert memory.sequence == 1
        assert sequences(everything(spool)) == [1, 2]  # 3 is still the newest on disk
        assert the_segment(tmp_path).stat().st_size == size_bytes + 100
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
    assert fill(spool, 1)[0].sequence == 4
    assert (spool.trouble, spool.waiting) == ("", 5)  # four on disk, and the one from the time without
    spool.close()
    assert sequences(everything(opened(tmp_path))) == [1, 2, 3, 4]


def test_set_aside_is_kept_with_its_reason_counted_and_bounded(tmp_path: Path) -> None:
    spool = opened(tmp_path, 64 * 1024)
    fill(spool, 20, errors={"nvml": os.urandom(400).hex()})
    for waiting in everything(spool):
        spool.set_aside(waiting, status=422, sentence="$[0].node: empty.")
    kept = sorted((tmp_path / "spool" / "aside").glob("*.msgpack.zst"))
    reasons = sorted((tmp_path / "spool" / "aside").glob("*.txt"))
    assert spool.set_aside_total == 19
    assert kept[-1].name == f"{19:020d}-422.msgpack.zst"
    assert sum(path.stat().st_size for path in kept) <= 64 * 1024 // 16
    assert len(reasons) == len(kept) < 19
    assert reasons[-1].read_text() == "$[0].node: empty.\n"
    assert (everything(spool), spool.waiting) == ([], 1)
    spool.close()
    assert opened(tmp_path).set_aside_total == 19


def run_and_kill(directory: Path, *, after_seconds: float, bytes_max: int) -> tuple[list[int], str]:
    """The sequences that the process said it kept before it was killed."""
    command = [sys.executable, "-m", "tests.ship.spooler", str(directory), str(bytes_max)]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'daemon'}{os.pathsep}{ROOT}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment) as process:
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        try:
            process.wait(after_seconds)
        except subprocess.TimeoutExpired:
            process.kill()
        lines += process.stdout.readlines()
    assert process.returncode == -signal.SIGKILL
    said = [line.split() for line in lines if line.endswith("\n")]
    return [int(sequence) for sequence, _ in said], said[0][1]


def test_kill_9_of_the_writer_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    chance = random.Random(3)
    said: list[int] = []
    ids: set[str] = set()
    for _ in range(6):
        found, spool_id = run_and_kill(tmp_path / "spool", after_seconds=chance.uniform(0, 0.08), bytes_max=BIG)
        said += found
        ids.add(spool_id)
    spool = opened(tmp_path)
    held = sequences(everything(spool))
    assert len(ids) == 1
    assert said == sorted(set(said))  # no sequence was given twice
    assert set(said) <= set(held)
    assert held == list(range(1, len(held) + 1))
    assert len(held) - len(said) <= 6  # one a kill may have been kept and not said
    assert spool.damaged_total == 0
