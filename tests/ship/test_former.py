"""An agent that ran before it was named: what it kept under the old name is no longer in line, and not thrown away."""

from __future__ import annotations

from pathlib import Path

from structlog.testing import capture_logs
from tests.builders import a_report

from trimtab.ship.former import FORMER, leave_former
from trimtab.ship.spool import Spool

BIG = 64 * 1024 * 1024


def named(directory: Path, node: str, *, cluster: str = "hall-a") -> int:
    return leave_former(directory, cluster=cluster, node=node, bytes_max=BIG)


def filled(directory: Path, reports: int) -> str:
    """So many reports, all of which wait; the spool's id."""
    spool = Spool(directory, BIG)
    for _ in range(reports):
        spool.append(a_report(gpus=1, sequence=0, spool_id=""))
    made = spool.spool_id
    spool.close()
    return made


def test_reports_of_another_name_leave_the_line_and_are_kept_and_counted(tmp_path: Path):
    directory = tmp_path / "spool"
    assert named(directory, "localhost") == 0
    former_id = filled(directory, 5)
    with capture_logs() as logged:
        assert named(directory, "gpu-07") == 5
    assert [(line["reports"], line["was"], line["now"]) for line in logged] == [
        (5, "hall-a/localhost", "hall-a/gpu-07")
    ]
    spool = Spool(directory, BIG)
    kept = spool.append(a_report(gpus=1, sequence=0, spool_id=""))
    assert (spool.waiting, spool.set_aside_total, kept.sequence) == (1, 5, 1)
    assert spool.spool_id != former_id, "its sequences begin anew, so the spool is another one"
    spool.close()
    again = Spool(directory / FORMER, BIG)
    assert (again.waiting, again.spool_id) == (5, former_id)
    again.close()


def test_another_cluster_is_another_name(tmp_path: Path):
    directory = tmp_path / "spool"
    named(directory, "gpu-07", cluster="default")
    filled(directory, 2)
    assert named(directory, "gpu-07") == 2


def test_the_same_name_leaves_everything_where_it_is(tmp_path: Path):
    directory = tmp_path / "spool"
    named(directory, "gpu-07")
    spool_id = filled(directory, 3)
    assert named(directory, "gpu-07") == 0
    spool = Spool(directory, BIG)
    assert (spool.waiting, spool.spool_id) == (3, spool_id)
    spool.close()


def test_a_spool_of_before_there_were_names_is_ours(tmp_path: Path):
    directory = tmp_path / "spool"
    filled(directory, 3)
    assert named(directory, "gpu-07") == 0
    spool = Spool(directory, BIG)
    assert spool.waiting == 3
    spool.close()


def test_a_rename_with_nothing_in_line_goes_on_counting(tmp_path: Path):
    directory = tmp_path / "spool"
    named(directory, "localhost")
    filled(directory, 3)
    spool = Spool(directory, BIG)
    spool.acknowledge(spool.backlog(reports_max=10, bytes_max=BIG))
    spool_id = spool.spool_id
    spool.close()
    assert named(directory, "gpu-07") == 0
    spool = Spool(directory, BIG)
    kept = spool.append(a_report(gpus=1, sequence=0, spool_id=""))
    assert (kept.sequence, spool.spool_id) == (4, spool_id)
    spool.close()
