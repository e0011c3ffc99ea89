from __future__ import annotations

from datetime import timedelta

from tests.builders import a_finding, a_node, a_snapshot, a_workload
from tests.fakes.clock import START

from trimtab.model.advice import Action
from trimtab.model.cluster import Checkpoint
from trimtab.model.command import Budget, Plan, RecommendationKind
from trimtab.plan.planner import Planner
from trimtab.settings import PlanSettings

NOW = START + timedelta(minutes=20)


def plan_for(*findings, nodes=None, budget=None, **changes) -> Plan:
    gang = a_workload("vision-3", on={"gpu-10": range(4), "gpu-11": range(4), "gpu-12": range(4)}, **changes)
    hosts = [a_node(f"gpu-1{n}") for n in range(3)]
    more = [a_node("gpu-20")] if nodes is None else nodes
    return Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(
        a_snapshot([*hosts, *more], [gang], taken_at=NOW), findings, budget or Budget(spares_kept=0)
    )


def slow(**changes):
    return a_finding(
        **{
            "id": 29,
            "node": "gpu-12",
            "gpu": None,
            "rule": "straggler",
            "action": Action.RESET_AFTER_DRAIN,
            "sentence": "gpu-12 holds vision-3 back, at 55 % of its clock.",
            "workloads_hit": ("research/vision-3",),
            "loss_gpus": 6.0,
            **changes,
        }
    )


def test_the_gang_leaves_the_bad_node_and_keeps_its_others():
    (found,) = plan_for(slow()).recommendations
    assert found.sentence == "Move vision-3 off gpu-12 to its other nodes, cordon gpu-12"
    assert found.writes[0].text == "cordon gpu-12"
    (move,) = found.moves
    assert [(seat.pod, seat.node) for seat in move.after] == [
        ("vision-3-0", "gpu-10"),
        ("vision-3-1", "gpu-11"),
        ("vision-3-2", "gpu-10"),
    ]
    assert found.kind is RecommendationKind.MIGRATE
    assert "stays cordoned" in found.reason


def test_it_waits_for_a_checkpoint_when_waiting_is_cheaper():
    (found,) = plan_for(slow()).recommendations
    # 12 GPUs, 20 of 30 minutes since the checkpoint: 4 GPU-h at once; waiting 10 min costs 1.
    assert found.not_before == START + timedelta(minutes=30)
    assert found.cost.gpu_hours == 12 * 120 / 3600
    assert found.expires_at == found.not_before + timedelta(seconds=900)


def test_it_does_not_wait_when_the_loss_while_waiting_is_larger():
    plan = plan_for(slow(loss_gpus=30.0))
    assert plan.recommendations[0].not_before is None


def test_it_does_not_wait_longer_than_the_cap_nor_for_what_is_unknown():
    far = Checkpoint(last_at=START, interval_seconds=4 * 3600.0)
    assert plan_for(slow(), checkpoint=far).recommendations[0].not_before is None
    unknown = Checkpoint(last_at=START)
    assert plan_for(slow(), checkpoint=unknown).recommendations[0].not_before is None


def test_a_late_checkpoint_gets_a_little_grace_and_no_more():
    late = Checkpoint(last_at=NOW - timedelta(seconds=1810), interval_seconds=1800.0)
    assert plan_for(slow(), checkpoint=late).recommendations[0].not_before == NOW + timedelta(seconds=170)
    overdue = Checkpoint(last_at=NOW - timedelta(seconds=2100), interval_seconds=1800.0)
    assert plan_for(slow(), checkpoint=overdue).recommendations[0].not_before is None


def test_what_costs_more_than_it_gives_is_refused_with_both_numbers():
    plan = plan_for(slow(loss_gpus=0.01), checkpoint=Checkpoint(last_at=START))
    assert plan.recommendations == ()
    assert plan.refusals[0].sentence == (
        "Not moved: moving vision-3 off gpu-12 costs 4.4 GPU-h and gives 0.24 GPU-h in 24 h."
    )


def test_hotspot_and_straggler_of_one_node_are_one_recommendation():
    hot = slow(id=28, rule="hotspot", sentence="gpu-12: 4 of 8 GPUs throttle on heat")
    (found,) = plan_for(slow(), hot).recommendations
    assert found.findings == (28, 29)
    assert found.reason.startswith("F28 and F29: gpu-12: 4 of 8 GPUs throttle on heat")


def test_spares_kept_for_faults_are_left_alone():
    nodes = [a_node("gpu-20", is_spare=True)]
    small = a_workload("vision-3", on={"gpu-10": range(8), "gpu-11": range(8), "gpu-12": range(8)})
    snapshot = a_snapshot([*(a_node(f"gpu-1{n}") for n in range(3)), *nodes], [small], taken_at=NOW)
    planner = Planner(PlanSettings(is_finding_needed_to_make_room=False))
    kept = planner.propose(snapshot, [slow(loss_gpus=12.0)], Budget(spares_kept=1))
    assert kept.recommendations == ()
    assert kept.refusals[0].sentence == (
        "Not moved: vision-3 needs 1 seat of 8 GPUs elsewhere; the most free together are 8 on gpu-20 "
        "(1 whole free node, 1 kept for faults)."
    )
    (used,) = planner.propose(snapshot, [slow(loss_gpus=12.0)], Budget(spares_kept=0)).recommendations
    assert used.sentence == "Move vision-3 off gpu-12 with spare gpu-20, cordon gpu-12"


def test_what_may_not_be_interrupted_stays():
    plan = plan_for(slow(), is_preemptible=False)
    assert plan.recommendations == ()
    assert [refusal.rule for refusal in plan.refusals] == ["not_preemptible"]
