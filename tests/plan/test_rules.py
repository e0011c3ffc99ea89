from __future__ import annotations

from datetime import timedelta

import pytest
from tests.builders import a_node, a_snapshot, a_workload
from tests.fakes.clock import START

from trimtab.model.cluster import Checkpoint, OwnerWishes, Reservation, WorkloadState
from trimtab.model.command import MoveKind, Refusal
from trimtab.plan.draft import move_of
from trimtab.plan.planner import Planner
from trimtab.plan.rules import first_refusal
from trimtab.settings import PlanSettings

HOUR = START + timedelta(hours=1)


def refusal_of(kind=MoveKind.CONSOLIDATE, *, nodes=(), reservations=(), **changes) -> Refusal | None:
    workload = a_workload("a", on={"gpu-03": [0]}, **changes)
    snapshot = a_snapshot(nodes or [a_node("gpu-03")], [workload], reservations=reservations)
    return first_refusal(move_of(workload, kind, "gpu-03", ()), snapshot)


def test_a_running_job_without_wishes_may_be_moved():
    assert refusal_of() is None


@pytest.mark.parametrize(
    ("changes", "rule", "sentence"),
    [
        ({"state": WorkloadState.STARTING}, "not_running", "Not moved: research/a is starting."),
        ({"state": WorkloadState.STOPPING}, "not_running", "Not moved: research/a is stopping."),
        ({"suspended_by": "trimtab:R12"}, "under_way", "Not moved: R12 has a in hand."),
        ({"wishes": OwnerWishes(is_opted_out=True)}, "opted_out", "Not moved: the owner of a does not want it moved."),
        (
            {"wishes": OwnerWishes(not_before=HOUR)},
            "not_before",
            "Not moved: the owner of a asked for no move before 10:00 UTC.",
        ),
        ({"is_preemptible": False}, "not_preemptible", "Not moved: a may not be interrupted."),
        (
            {"started_at": None, "checkpoint": Checkpoint()},
            "unknown_work",
            "Not moved: neither start nor checkpoint of a is known, so its loss is not.",
        ),
    ],
)
def test_every_no_has_a_name_and_a_sentence(changes, rule, sentence):
    found = refusal_of(**changes)
    assert found is not None
    assert (found.rule, found.sentence) == (rule, sentence)


def test_a_wish_that_has_passed_binds_nobody():
    assert refusal_of(wishes=OwnerWishes(not_before=START)) is None


def test_a_drain_asks_only_what_concerns_a_fault():
    changes = {"is_preemptible": False, "wishes": OwnerWishes(not_before=HOUR), "state": WorkloadState.STARTING}
    assert refusal_of(MoveKind.DRAIN, **changes) is None


def test_who_has_seats_reserved_is_left_to_that_command():
    kept = (Reservation(node="gpu-04", gpus=1, workload="research/a", command="trimtab:R12"),)
    found = refusal_of(reservations=kept)
    assert found is not None
    assert found.rule == "under_way"


def test_another_mover_at_either_end_keeps_us_away():
    found = refusal_of(nodes=[a_node("gpu-03", other_mover="a driver upgrade")])
    assert found is not None
    assert found.sentence == "Not moved: a driver upgrade is at work on gpu-03."


def test_the_adapters_opinion_is_one_more_rule():
    def no_gangs(move, snapshot):
        return Refusal(rule="fake", sentence="Not moved: this scheduler moves nothing today.")

    jobs = [a_workload("a", on={"gpu-03": [0]}), a_workload("b", on={"gpu-04": range(7)}), a_workload("eval-9")]
    snapshot = a_snapshot([a_node("gpu-03"), a_node("gpu-04")], jobs)
    from trimtab.model.command import Budget

    assert (
        len(Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(snapshot, (), Budget()).recommendations)
        == 1
    )
    assert (
        Planner(PlanSettings(is_finding_needed_to_make_room=False), adapter_rule=no_gangs)
        .propose(snapshot, (), Budget())
        .recommendations
        == ()
    )
