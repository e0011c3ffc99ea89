from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.fakes.clock import START
from tests.issue.scenes import evacuation, room_making, to

from trimtab.issue.outcome import measure, record_text
from trimtab.model.cluster import Placement
from trimtab.model.command import Budget, CommandState, Outcome


def an_outcome(*, is_good=True, day=0):
    return Outcome(
        command_id=day,
        measured_at=START + timedelta(days=day),
        is_good=is_good,
        sentence="",
        gpu_hours_lost=0.0,
        gpu_hours_saved=1.0,
        gpus_unlocked=0,
        seconds_to_settle=1.0,
    )


def test_a_record_says_how_often_a_rule_was_right_and_when_it_last_was_not():
    assert record_text([]) == ""
    assert record_text([an_outcome(), an_outcome()]) == "right in 2 of 2"
    wrong = [an_outcome(is_good=False, day=3), an_outcome(is_good=False, day=10), an_outcome(day=11)]
    assert record_text(wrong) == "right in 1 of 3, last wrong on 12 Nov"


def test_what_was_really_lost_is_measured_against_the_forecast():
    scene = room_making()
    settled = to(scene, CommandState.SETTLED)
    outcome = scene.ledger.results[1]
    down_seconds = (settled.settled_at - settled.submitted_at).total_seconds()
    saved_at = START  # both victims' last checkpoint
    worked_seconds = (scene.ledger.lines[2].at - saved_at).total_seconds()
    assert outcome.gpu_hours_lost == pytest.approx(2 * (worked_seconds + down_seconds) / 3600)
    assert outcome.gpu_hours_saved == pytest.approx(
        settled.recommendation.gain.gpu_hours - outcome.gpu_hours_lost, 0.05
    )
    assert settled.reason == outcome.sentence


def test_a_job_that_came_to_rest_elsewhere_is_no_success():
    scene = room_making()
    submitted = to(scene, CommandState.SUBMITTED)
    scene.scheduler.tick()
    job = scene.scheduler.jobs["research/a"]
    astray = replace(job, placements=(Placement(pod="a-0", rank=0, node="gpu-05", gpus=("GPU-gpu-05-7",)),))
    scene.scheduler.put(astray)
    outcome = measure(submitted, scene.scheduler.snapshot(), state=CommandState.SETTLED, now=scene.clock.now())
    assert not outcome.is_good
    assert "a runs elsewhere than planned" in outcome.sentence


def test_an_undone_command_counts_against_its_rule_and_its_down_time_ended_when_it_settled():
    scene = evacuation()
    settled = to(scene, CommandState.SETTLED)
    good = scene.ledger.results[1]
    scene.clock.advance(7200)
    bad = measure(settled, scene.scheduler.snapshot(), state=CommandState.UNDONE, now=scene.clock.now())
    assert (bad.is_good, bad.gpu_hours_lost) == (False, pytest.approx(good.gpu_hours_lost))
    assert bad.gpu_hours_saved == pytest.approx(-good.gpu_hours_lost)


def test_a_cordon_alone_is_good_when_it_stands():
    scene = evacuation()
    scene.budget = Budget(spares_kept=1)
    scene.scheduler.nodes.pop("gpu-22")
    to(scene, CommandState.SETTLED)
    outcome = scene.ledger.results[1]
    assert (outcome.is_good, outcome.gpu_hours_lost) == (True, 0.0)
    assert "nothing was stopped" in outcome.sentence
