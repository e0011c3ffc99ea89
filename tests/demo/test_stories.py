"""The books of a story: found, advised and settled when they were, lost and saved by the stated formula."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import a_finding
from tests.fakes.clock import START

from trimtab.demo.stories import HORIZON_HOURS, Plot, Story, Summary, numbers_of
from trimtab.demo.telling import summary_lines
from trimtab.model.advice import OpenFinding, Subject
from trimtab.model.board import Board, CommandRow, Strip
from trimtab.model.cluster import WorkloadState
from trimtab.model.command import (
    Command,
    CommandState,
    Cost,
    Gain,
    Mode,
    Move,
    MoveKind,
    Recommendation,
    RecommendationKind,
)
from trimtab.sim.cluster import JobTruth

JOB, NODE = "research/llama-70b", "gpu-03"
NO_GPUS = Strip(
    gpus_total=0,
    gpus_reporting=0,
    gpus_working=0,
    gpus_held_idle=0,
    gpus_free=0,
    gpus_spare=0,
    gpus_out_of_service=0,
    gpus_unknown=0,
)


def a_story() -> Story:
    plot = Plot(
        name="fallen_gpu",
        begins_at_seconds=60.0,
        sentence="a GPU falls",
        job="llama-70b",
        workload=JOB,
        node=NODE,
        begin=lambda: None,
    )
    story = Story(plot=plot)
    story.start(wall_seconds=3.0, at=START, truth=truth())
    return story


def truth(*, pace=1.0, done=0.0, state=WorkloadState.RUNNING, others=()):
    own = JobTruth(
        id=JOB,
        state=state,
        nodes=(NODE,),
        gpus=32,
        pace_ratio=pace,
        done_gpu_seconds=done,
        suspended_by=None,
        restarts=0,
    )
    return {"llama-70b": own, **{other.id: other for other in others}}


def a_found(*, rule="device_fault", opened_at=START, node=NODE, workload=None, hits=()):
    made = a_finding(node=node, workloads_hit=hits)
    subject = Subject(cluster="hall-a", node=node, workload=workload)
    return OpenFinding(
        id=31,
        finding=replace(made.finding if isinstance(made, OpenFinding) else made, rule=rule, subject=subject),
        opened_at=opened_at,
        changed_at=opened_at,
        last_seen_at=opened_at,
    )


def a_row(state=CommandState.PROPOSED, *, findings=(31,), created_at=START, moves=()):
    advice = Recommendation(
        kind=RecommendationKind.DRAIN,
        rule="evacuate",
        purpose="evacuate:gpu-03",
        subject=Subject(cluster="hall-a", node=NODE),
        sentence="Cordon gpu-03",
        reason="it fell",
        findings=findings,
        moves=moves,
        writes=(),
        gain=Gain(gpu_hours=10.0, horizon_hours=24.0),
        cost=Cost(gpu_hours=1.0),
        created_at=created_at,
        expires_at=created_at + timedelta(hours=1),
    )
    command = Command(id=11, recommendation=advice, state=state, changed_at=created_at)
    return CommandRow(command=command, name="R11", fingerprint="f", is_approvable=True)


def a_board(findings=(), rows=()):
    return Board(
        cluster="hall-a", at=START, mode=Mode.APPROVE, is_paused=False, strip=NO_GPUS, findings=findings, commands=rows
    )


def test_times_are_wall_seconds_since_the_story_began_and_the_first_sight_counts():
    story = a_story()
    story.see_board(a_board(), wall_seconds=4.0)
    story.see_board(a_board([a_found()]), wall_seconds=5.0)
    story.see_board(a_board([a_found()], [a_row()]), wall_seconds=6.5)
    story.see_board(a_board([a_found()], [a_row()]), wall_seconds=9.0)
    assert (story.found_s, story.recommended_s, story.settled_s) == (2.0, 3.5, None)


@pytest.mark.parametrize(
    "found",
    [
        a_found(opened_at=START - timedelta(seconds=1)),
        a_found(node="gpu-09"),
        a_found(rule="node_silent"),
    ],
    ids=["opened before the story", "of another node", "a silence, which a killed daemon causes itself"],
)
def test_other_findings_are_not_the_storys(found):
    story = a_story()
    story.see_board(a_board([found]), wall_seconds=5.0)
    assert story.found_s is None


@pytest.mark.parametrize("found", [a_found(node="gpu-09", hits=(JOB,)), a_found(node=None, workload=JOB)])
def test_a_finding_that_hits_its_job_is_the_storys(found):
    story = a_story()
    story.see_board(a_board([found]), wall_seconds=5.0)
    assert story.found_s == 2.0


def test_advice_for_other_findings_or_from_before_is_not_the_storys():
    story = a_story()
    rows = [a_row(findings=(7,)), a_row(created_at=START - timedelta(seconds=1))]
    story.see_board(a_board([a_found()], rows), wall_seconds=5.0)
    assert story.recommended_s is None


def test_lost_is_gpus_times_time_less_the_work_that_stayed_until_it_is_settled():
    story = a_story()
    story.see_truth(truth(pace=0.0), wall_seconds=4.0, at=START + timedelta(seconds=60))
    story.see_board(a_board([a_found()], [a_row(CommandState.SUBMITTED)]), wall_seconds=5.0)
    half_hour = START + timedelta(minutes=30)
    story.see_truth(truth(pace=1.0, done=32 * 600.0), wall_seconds=8.0, at=half_hour)
    assert story.settled_s == 5.0
    assert story.lost_gpu_hours == pytest.approx(32 * (1800 - 600) / 3600)
    assert story.saved_gpu_hours == pytest.approx(32 * HORIZON_HOURS - 32 * (1800 - 600) / 3600)
    story.see_truth(truth(pace=0.0), wall_seconds=20.0, at=half_hour + timedelta(hours=5))
    assert story.lost_gpu_hours == pytest.approx(32 * (1800 - 600) / 3600)


def test_work_that_was_rolled_back_counts_as_lost():
    story = a_story()
    story.see_truth(truth(pace=0.0, done=-32 * 300.0), wall_seconds=4.0, at=START + timedelta(seconds=100))
    assert story.lost_gpu_hours == pytest.approx(32 * 400 / 3600)


def test_a_jobs_own_recovery_before_anything_was_done_is_no_mending():
    story = a_story()
    story.see_board(a_board([a_found()], [a_row()]), wall_seconds=5.0)
    story.see_truth(truth(pace=1.0), wall_seconds=8.0, at=START + timedelta(seconds=100))
    assert (story.settled_s, story.saved_gpu_hours) == (None, 0.0)


def test_it_is_settled_only_when_those_that_were_moved_work_again_and_their_loss_counts():
    story = a_story()
    moved = Move(kind=MoveKind.MIGRATE, workload="research/tune-1")
    story.see_board(a_board([a_found()], [a_row(CommandState.SUBMITTED, moves=(moved,))]), wall_seconds=5.0)
    other = JobTruth(
        id="research/tune-1",
        state=WorkloadState.STARTING,
        nodes=(),
        gpus=2,
        pace_ratio=0.0,
        done_gpu_seconds=0.0,
        suspended_by=None,
        restarts=1,
    )
    at = START + timedelta(seconds=90)
    story.see_truth(truth(done=32 * 90.0, others=[other]), wall_seconds=8.0, at=at)
    assert (story.settled_s, story.lost_gpu_hours) == (None, pytest.approx(2 * 90 / 3600))
    running = replace(other, state=WorkloadState.RUNNING, pace_ratio=1.0)
    story.see_truth(truth(done=32 * 90.0, others=[running]), wall_seconds=9.0, at=at)
    assert story.settled_s == 6.0


def test_a_story_that_never_began_has_no_numbers_and_the_summary_says_never():
    plot = a_story().plot
    numbers = numbers_of([Story(plot=plot)])
    assert (numbers[0].found_s, numbers[0].settled_s, numbers[0].gpu_hours_lost) == (None, None, 0.0)
    summary = Summary(stories=numbers, reports_acknowledged=5, reports_lost=0, commands={"settled": 1})
    text = "\n".join(summary_lines(summary))
    assert "never" in text
    assert "5 acknowledged, 0 of them lost" in text
    assert "1 settled" in text
