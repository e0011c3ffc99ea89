"""Whom a standing finding hits is who holds its places now; and what ends on an empty node proves nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import a_node, a_snapshot, a_workload, gpu_uuid
from tests.detect.beats import NODE, Beats, a_finding, window_at
from tests.detect.faults import judge, live, xid

from trimtab.detect.incident import MEMBERS, members_text
from trimtab.detect.tracker import Tracker
from trimtab.model.advice import UNPROVED
from trimtab.model.cluster import WorkloadState

NODES = [a_node(NODE), a_node("gpu-08"), a_node("gpu-09")]
JOB = a_workload("llama-70b", on={NODE: range(8), "gpu-08": range(8)})
ELSEWHERE = a_workload("llama-70b", on={"gpu-09": range(8), "gpu-08": range(8)})
WAITING = replace(JOB, placements=(), state=WorkloadState.WAITING)
PARTLY = replace(ELSEWHERE, placements=ELSEWHERE.placements[:1])


def of(*jobs):
    return a_snapshot(NODES, jobs)


def opened() -> Tracker:
    """XID 79 while the job held the GPU."""
    tracker = Tracker()
    window = live(xid(79), snapshot=of(JOB))
    tracker.commit(tracker.update(window, judge(window)))
    return tracker


def later(tracker: Tracker, seconds: float, snapshot):
    window = window_at(seconds, snapshot=snapshot)
    changes = tracker.update(window, judge(window))
    tracker.commit(changes)
    (found,) = changes.after
    return found.finding, changes


def test_a_job_that_runs_again_elsewhere_is_no_longer_hit():
    tracker = opened()
    (found,) = tracker.open_findings
    assert (found.finding.workloads_hit, found.finding.loss_gpus) == ((JOB.id,), 16)
    finding, changes = later(tracker, 1800, of(ELSEWHERE))
    assert (finding.workloads_hit, finding.loss_gpus, finding.gpus_hit) == ((), 1, 1)
    assert finding.impact == "1 GPU out of service"
    assert [one.id for one in changes.touched] == [1], "a restart must know it too"


@pytest.mark.parametrize("job", [WAITING, PARTLY])
def test_a_job_that_waits_to_run_again_is_hit_until_all_of_it_runs(job):
    finding, _ = later(opened(), 1800, of(job))
    assert (finding.workloads_hit, finding.loss_gpus) == ((JOB.id,), 17)
    assert finding.impact == "1 GPU out of service; llama-70b waits to run again: 16 GPUs"


def test_who_holds_it_since_is_hit():
    finding, _ = later(opened(), 1800, of(ELSEWHERE, a_workload("eval-9", on={NODE: range(8)})))
    assert finding.workloads_hit == ("research/eval-9",)
    assert finding.loss_gpus == 8


@pytest.mark.parametrize("seconds", [30, 1800])
def test_without_a_snapshot_the_last_known_stays_and_is_said(seconds):
    tracker = opened()
    was = tracker.open_findings[0].finding
    for beat in range(2):
        finding, _ = later(tracker, seconds + beat, None)
        assert (finding.workloads_hit, finding.loss_gpus) == (was.workloads_hit, 16)
        assert finding.impact == f"{was.impact} (last known: the scheduler cannot be read)"
    finding, _ = later(tracker, seconds + 10, of(ELSEWHERE))
    assert finding.impact == "1 GPU out of service"


# ---- what needs load ----


@pytest.mark.parametrize(
    ("jobs", "doubt"),
    [
        ([], "nothing ran on it"),
        ([replace(JOB, state=WorkloadState.STOPPING)], "nothing ran on it"),
        ([JOB], None),
    ],
)
@pytest.mark.parametrize("rule", ["hotspot", "straggler"])
def test_only_a_quiet_under_load_proves_a_node_well(rule, jobs, doubt):
    beats = Beats()
    beats.beat(a_finding(rule))
    assert "with work on it" in beats.open[0].gate
    (closed,) = beats.quiet(120, window=lambda seconds: window_at(seconds, snapshot=of(*jobs)))
    assert closed.finding.facts.get(UNPROVED) == doubt


def test_what_comes_back_under_load_is_judged_anew():
    beats = Beats()
    beats.beat(a_finding())
    beats.quiet(30, window=lambda seconds: window_at(seconds, snapshot=of()))
    assert UNPROVED in beats.open[0].finding.facts
    beats.beat(a_finding(), after=5)
    assert UNPROVED not in beats.open[0].finding.facts


@pytest.mark.parametrize(("indexes", "doubt"), [(range(4), None), (range(4, 8), "nothing ran on it")])
def test_work_on_the_nodes_other_gpus_proves_nothing_of_those_that_were_slow(indexes, doubt):
    slow = members_text(f"slow:{NODE}/{gpu_uuid(NODE, index)}" for index in range(4))
    beats = Beats()
    beats.beat(replace(a_finding(), facts={**a_finding().facts, MEMBERS: slow}))
    job = a_workload("tune-2", on={NODE: indexes})
    (closed,) = beats.quiet(120, window=lambda seconds: window_at(seconds, snapshot=of(job)))
    assert closed.finding.facts.get(UNPROVED) == doubt
