"""What a board says of GPUs, as roll-ups keep it: whose, what for, under which finding, how much is lost."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from tests.builders import CLUSTER, a_finding, a_node, a_snapshot, a_workload, gpu_uuid
from tests.store.rolled import a_cell_board

from trimtab.model.advice import FindingState, OpenFinding, Severity, Subject
from trimtab.model.board import Board, CellState, JobRow
from trimtab.model.rollup import Standing, Tenure
from trimtab.store.rollup_claims import JobFact, claims, facts, losses
from trimtab.store.rollup_facts import BOARD, JOB, NODE, PLACEMENT

A, B = "research/a", "research/b"
JOBS = (
    JobRow(id=A, name="a", state="running", pods=1, gpus_per_pod=2, queue="research"),
    JobRow(id=B, name="b", state="waiting", pods=2, gpus_per_pod=8, queue="eval", why="placement: 9 free"),
)


def board(*findings: OpenFinding) -> Board:
    cells = [
        ("gpu-00", gpu_uuid("gpu-00", 0), CellState.WORKING, A),
        ("gpu-00", gpu_uuid("gpu-00", 1), CellState.HELD_IDLE, "research/c"),
        ("gpu-00", gpu_uuid("gpu-00", 2), CellState.STRANDED, B),
        ("gpu-01", gpu_uuid("gpu-01", 0), CellState.UNUSABLE, None),
        ("gpu-01", gpu_uuid("gpu-01", 1), CellState.SILENT, None),
        ("gpu-01", gpu_uuid("gpu-01", 2), CellState.SILENT, A),
    ]
    return replace(a_cell_board(0, cells, jobs=JOBS), findings=findings)


def about(rule: str, *, node: str | None = None, gpu: int | None = None, **changes: object) -> OpenFinding:
    uuid = None if node is None or gpu is None else gpu_uuid(node, gpu)
    return a_finding(rule=rule, subject=Subject(cluster=CLUSTER, node=node, gpu=uuid), **changes)


def causes(*findings: OpenFinding) -> list[str]:
    return [claim.tenure.cause for claim in claims(board(*findings), None).values()]


def test_whose_a_gpu_is_and_what_it_is_for() -> None:
    said = [(claim.tenure.workload, claim.tenure.queue, claim.standing) for claim in claims(board(), None).values()]
    assert said == [
        (A, "research", Standing.HELD),
        ("research/c", "", Standing.HELD),
        ("", "", Standing.STRANDED),  # the workload on the cell is the one that it is no use to
        ("", "", Standing.OUT_OF_SERVICE),
        ("", "", None),  # nothing is known of it: what stood before goes on
        (A, "research", Standing.HELD),
    ]


def test_the_owner_is_the_schedulers_word() -> None:
    snapshot = a_snapshot([a_node()], [a_workload("a", on={"gpu-00": [0]}, owner="ann")])
    (first, *_) = claims(board(), snapshot).values()
    assert first.tenure == Tenure(workload=A, queue="research", owner="ann")


def test_a_gpus_own_finding_is_its_cause() -> None:
    assert causes(about("device_fault", node="gpu-00", gpu=1)) == ["", "device_fault", "", "", "", ""]


def test_a_workloads_finding_is_the_cause_of_all_its_gpus() -> None:
    assert causes(about("straggler", node="gpu-01", gpu=2, workloads_hit=(A,))) == [
        "straggler", "", "", "", "", "straggler",
    ]  # fmt: skip


def test_a_nodes_finding_leaves_workloads_alone_that_it_does_not_hit() -> None:
    assert causes(about("hotspot", node="gpu-00", workloads_hit=(A,))) == [
        "hotspot", "", "hotspot", "", "", "hotspot",
    ]  # fmt: skip
    assert causes(about("node_silent", node="gpu-01")) == ["", "", "", "node_silent", "node_silent", "node_silent"]


def test_of_several_findings_the_worst_is_the_cause() -> None:
    mild = about("hotspot", id=1, node="gpu-00", gpu=0, severity=Severity.WARNING)
    bad = about("device_fault", id=2, node="gpu-00", gpu=0, severity=Severity.CRITICAL)
    assert causes(bad, mild)[0] == causes(mild, bad)[0] == "device_fault"


def test_a_finding_that_is_over_or_only_history_is_no_cause() -> None:
    over = replace(about("device_fault", node="gpu-00", gpu=0), state=FindingState.CLOSED)
    old = about("device_fault", node="gpu-00", gpu=0, is_history_only=True)
    assert set(causes(over, old)) == {""}


def test_of_several_findings_about_one_loss_the_largest_counts_and_who_waits_loses_nothing() -> None:
    slow = about("straggler", id=1, node="gpu-01", gpu=2, workloads_hit=(A,), loss_gpus=0.5)
    hot = about("hotspot", id=2, node="gpu-01", workloads_hit=(A, "research/c"), loss_gpus=3.0)
    waits = about("fragmentation", id=3, workloads_hit=(B,), loss_gpus=16.0)
    found = losses(board(slow, hot, waits))
    assert {name: (loss.cause, loss.loss_gpus) for name, loss in found.items()} == {
        A: ("hotspot", 1.5),
        "research/c": ("hotspot", 1.5),
    }


@pytest.mark.parametrize(("kind", "name"), [(NODE, "gpu-00"), (JOB, B), (BOARD, ""), (PLACEMENT, "research/a")])
def test_what_else_a_past_board_needs_is_a_fact(kind: str, name: str) -> None:
    snapshot = a_snapshot([a_node()], [a_workload("a", on={"gpu-00": [0]})])
    said = facts(board(), snapshot, {})
    assert (kind, name) in said
    job = msgspec.json.decode(said[JOB, B], type=JobFact)
    assert (job.state, job.queue, job.why) == ("waiting", "eval", "placement: 9 free")
    assert msgspec.json.decode(said[PLACEMENT, A]) == [[0, "a-0", "gpu-00", [gpu_uuid("gpu-00", 0)]]]
