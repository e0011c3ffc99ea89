"""Where a gang's pods go: alone where its controller replaces them, in one rack where they must be together."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import a_finding, a_node, a_snapshot, a_workload
from tests.fakes.clock import START

from trimtab.model.advice import Action
from trimtab.model.cluster import Elastic, WorkloadState
from trimtab.model.command import Budget, RecommendationKind, Verb
from trimtab.plan.planner import Planner
from trimtab.settings import PlanSettings


def propose(nodes, workloads, *, hit=(), rule="device_fault", loss_gpus=0.0):
    finding = a_finding(
        rule=rule,
        node="r1-0",
        action=Action.CORDON_REBOOT,
        is_corroborated=True,
        workloads_hit=tuple(hit),
        loss_gpus=loss_gpus,
    )
    return Planner(PlanSettings(spares_kept=0)).propose(a_snapshot(nodes, workloads), [finding], Budget())


def racks(*names: str, size: int = 5, **changes):
    return [a_node(f"{rack}-{place}", rack=rack, **changes) for rack in names for place in range(size)]


def gang(**changes):
    on = {f"r1-{place}": range(8) for place in range(4)}
    return a_workload(
        "train", on=on, **{"can_replace_pod": True, "replace_seconds": 12.0, "together": "rack", **changes}
    )


def test_one_pod_is_replaced_in_its_rack_and_the_others_are_left_alone():
    plan = propose(racks("r1", "r2"), [gang()], hit=["train"], loss_gpus=32)
    (advice,) = plan.recommendations
    (move,) = advice.moves
    assert move.replaced == ("train-0",)
    assert [seat.node for seat in move.after] == ["r1-4", "r1-1", "r1-2", "r1-3"]
    assert [write.text for write in advice.writes] == [
        "cordon r1-0",
        "reserve research/train: 8 GPUs on r1-4 for train-0",
        "replace research/train: 8 GPUs on r1-4 for train-0",
    ]
    assert advice.cost.pods_disturbed == 1
    assert "32 GPUs × 12 s replacement" in advice.cost.formula


def test_a_gang_that_does_not_declare_it_restarts_whole():
    plan = propose(racks("r1", "r2"), [gang(can_replace_pod=False)], hit=["train"], loss_gpus=32)
    (advice,) = plan.recommendations
    assert [write.verb for write in advice.writes] == [Verb.CORDON, Verb.RESERVE, Verb.SUSPEND, Verb.RESUME]


def test_whole_is_better_where_a_replacement_takes_longer_than_a_restart():
    plan = propose(racks("r1", "r2"), [gang(replace_seconds=600.0, restart_seconds=5.0)], hit=["train"], loss_gpus=32)
    assert plan.recommendations[0].moves[0].replaced == ()


def test_without_a_seat_in_its_rack_the_gang_goes_to_another_whole():
    nodes = racks("r1", "r2")
    blocker = a_workload("blocker", on={"r1-4": range(8)})
    plan = propose(nodes, [gang(), blocker], hit=["train"], loss_gpus=32)
    (move,) = plan.recommendations[0].moves
    assert move.replaced == ()
    assert {seat.node[:2] for seat in move.after} == {"r2"}


def test_no_rack_that_holds_all_of_it_is_a_refusal_with_its_reason():
    nodes = racks("r1", size=4) + racks("r2", size=3) + racks("r3", size=3)
    plan = propose(nodes, [gang(can_replace_pod=False)], hit=["train"], loss_gpus=32)
    assert any("elsewhere in one rack" in refusal.sentence for refusal in plan.refusals)
    assert all(not advice.moves for advice in plan.recommendations)


@pytest.mark.parametrize(
    ("changes", "goes_to"),
    [({}, "r1-1"), ({"pool": "b200"}, "r1-2"), ({"tolerates": ("taint team=x",), "pool": "x"}, "r1-3")],
)
def test_pool_and_taints_bound_where_work_may_go(changes, goes_to):
    nodes = [
        a_node("r1-0", pool="h100"),
        a_node("r1-1", pool="h100"),
        a_node("r1-2", pool="b200"),
        a_node("r1-3", pool="x", why_closed="taint team=x"),
    ]
    plan = propose(nodes, [a_workload("a", on={"r1-0": range(4)}, **changes)], hit=["a"])
    assert [seat.node for seat in plan.recommendations[0].moves[0].after] == [goes_to]


def test_what_nothing_brings_back_is_not_stopped():
    fixed = a_workload("a", on={"r1-0": range(4)}, why_fixed="is a bare pod: no controller brings it back")
    plan = propose(racks("r1"), [fixed], hit=["a"])
    assert "Not moved: a is a bare pod: no controller brings it back." in [one.sentence for one in plan.refusals]
    assert all(not advice.moves for advice in plan.recommendations)


def test_a_waiting_gang_that_must_be_together_gets_its_room_in_one_rack():
    nodes = racks("r1", "r2", size=2)
    small = [
        replace(
            a_workload(f"s{place}", on={f"{rack}-0": range(place, place + 1)}, restart_seconds=5.0),
            started_at=START - timedelta(hours=2),
        )
        for place, rack in enumerate(("r1", "r2"))
    ]
    waiting = a_workload("big", pods=2, gpus_per_pod=8, together="rack", waiting_since=START - timedelta(hours=3))
    assert waiting.state is WorkloadState.WAITING
    settings = PlanSettings(spares_kept=0, is_finding_needed_to_make_room=False)
    plan = Planner(settings).propose(a_snapshot(nodes, [*small, waiting]), [], Budget())
    (advice,) = plan.recommendations
    (beneficiary,) = [move for move in advice.moves if not move.before]
    assert len({seat.node[:2] for seat in beneficiary.after}) == 1
    victims = [move for move in advice.moves if move.before]
    assert len(victims) == 1


def resizes(plan):
    return [one for one in plan.recommendations if one.kind is RecommendationKind.RESIZE]


def test_an_elastic_job_without_a_seat_is_advised_to_shrink():
    elastic = gang(elastic=Elastic(pods_min=3, pods_max=4, by="torchrun"), can_replace_pod=False)
    plan = propose(racks("r1", size=4), [elastic], hit=["train"], loss_gpus=32)
    (advice,) = resizes(plan)
    assert advice.sentence == "Shrink train to 3 pods, so that it runs on without r1-0"
    assert "there is no seat" in advice.reason
    assert advice.writes == () == advice.moves


@pytest.mark.parametrize(
    ("by", "pods_min", "restart_seconds", "is_advised"),
    [
        ("kueue", 3, 3600.0, True),  # 8 GPU-h missing against a restart of 32 GPUs for an hour
        ("kueue", 3, 60.0, False),  # a restart costs less than an hour with a pod fewer
        ("torchrun", 3, 3600.0, False),  # all workers start again whatever is done
        ("kueue", 4, 3600.0, False),  # it may not be smaller
    ],
)
def test_shrinking_is_advised_where_it_costs_less_than_a_restart(by, pods_min, restart_seconds, is_advised):
    elastic = gang(
        elastic=Elastic(pods_min=pods_min, pods_max=4, by=by), can_replace_pod=False, restart_seconds=restart_seconds
    )
    plan = propose(racks("r1", "r2"), [elastic], hit=["train"], loss_gpus=32)
    assert bool(resizes(plan)) is is_advised
