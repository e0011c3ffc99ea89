"""A node comes back when everything that it was taken out for has ended; until then the plan says what is missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import a_finding, a_node, a_snapshot, a_workload
from tests.fakes.clock import START

from trimtab.model.advice import UNPROVED, Action, FindingState
from trimtab.model.cluster import WorkloadState
from trimtab.model.command import Budget, RecommendationKind, Verb, Write
from trimtab.plan.planner import Planner
from trimtab.plan.restore import TakenOut
from trimtab.settings import PlanSettings

MARK = "trimtab:3fa9c1:R11"
GATE = "well for 10 min, and the driver asks for nothing"
FAULT = replace(a_finding(id=31, node="gpu-07", action=Action.CORDON_REBOOT, is_corroborated=True), gate=GATE)
CLOSED = replace(FAULT, state=FindingState.CLOSED, closed_at=START, close_reason=GATE)


HOT = replace(CLOSED, id=4, finding=replace(CLOSED.finding, facts={UNPROVED: "nothing ran on it"}))


def propose(*rested_on, still_open=(), jobs=()):
    nodes = [a_node("gpu-07", is_cordoned=True, cordoned_by=MARK), a_node("gpu-08")]
    out = TakenOut(node="gpu-07", mark=MARK, command="R11", findings=rested_on)
    return Planner(PlanSettings()).propose(a_snapshot(nodes, jobs), still_open, Budget(), taken_out=[out])


def test_a_met_gate_gives_the_node_back_by_lifting_exactly_that_cordon():
    (advice,) = propose(CLOSED).recommendations
    assert (advice.kind, advice.rule, advice.purpose) == (RecommendationKind.UNCORDON, "restore", "restore:gpu-07")
    assert advice.writes == (Write(verb=Verb.UNCORDON, node="gpu-07", lifts=MARK),)
    assert advice.reason == f"R11 took it out for F31, which has ended: {GATE}."
    assert advice.gain.gpus_unlocked == 8


@pytest.mark.parametrize(("pods", "used"), [(0, 0), (4, 4), (12, 8)])
def test_it_is_worth_what_would_use_it(pods, used):
    waits = a_workload("eval-9", pods=pods, gpus_per_pod=1, state=WorkloadState.WAITING)
    plan = propose(CLOSED, jobs=[waits] if pods else [])
    (advice,) = [one for one in plan.recommendations if one.rule == "restore"]
    assert advice.gain.gpu_hours == used * advice.gain.horizon_hours


@pytest.mark.parametrize(
    ("rested_on", "still_open", "said"),
    [
        ((FAULT,), (FAULT,), f"gpu-07 stays out: F31 is open; its gate is: {GATE}."),
        ((CLOSED,), (replace(FAULT, id=40),), "gpu-07 stays out: another finding about it is open."),
        (
            (CLOSED, HOT),
            (),
            "gpu-07 stays out: F4 ended while nothing ran on it, which proves nothing. "
            "Once it is repaired, or tried under load, give it back: trimtab undo R11.",
        ),
        ((), (), "gpu-07 stays out: nobody knows what R11 rested on."),
    ],
)
def test_a_gate_not_met_keeps_it_out_and_says_why(rested_on, still_open, said):
    plan = propose(*rested_on, still_open=still_open)
    assert [one.sentence for one in plan.refusals if one.rule == "gate"] == [said]
    assert all(one.kind is not RecommendationKind.UNCORDON for one in plan.recommendations)


def test_a_node_that_the_cluster_let_go_is_not_given_back():
    out = TakenOut(node="gpu-99", mark=MARK, command="R11", findings=(CLOSED,))
    plan = Planner(PlanSettings()).propose(a_snapshot([a_node()]), (), Budget(), taken_out=[out])
    assert plan.recommendations == () == plan.refusals
