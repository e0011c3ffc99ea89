from __future__ import annotations

from datetime import timedelta

from tests.builders import a_finding, a_node, a_snapshot, a_workload
from tests.fakes.clock import START

from trimtab.model.advice import Action
from trimtab.model.cluster import Checkpoint, OwnerWishes, Reservation, WorkloadState
from trimtab.model.command import Budget, Plan, RecommendationKind, Verb
from trimtab.plan.planner import Planner
from trimtab.settings import PlanSettings

NOW = START + timedelta(minutes=20)


def plan_for(snapshot, *findings, budget=None, standing=()) -> Plan:
    return Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(
        snapshot, findings, budget or Budget(spares_kept=1), standing
    )


def gang(**changes):
    return a_workload("llama-70b", on={f"gpu-0{n}": range(8) for n in range(4)}, **changes)


def fleet(*more, gang_changes=None, **spare):
    nodes = [a_node(f"gpu-0{n}") for n in range(4)]
    return a_snapshot(
        [*nodes, a_node("gpu-22", **{"is_spare": True, "rack": "r3", **spare})],
        [gang(**(gang_changes or {})), *more],
        taken_at=NOW,
    )


def fault(**changes):
    hit = {"workloads_hit": ("research/llama-70b",), "loss_gpus": 32.0, "gpus_hit": 32}
    return a_finding(id=31, node="gpu-02", **{**hit, **changes})


def test_a_lost_gpu_cordons_its_node_and_brings_the_gang_back_with_the_spare():
    plan = plan_for(fleet(), fault())
    (found,) = plan.recommendations
    assert plan.refusals == ()
    assert found.sentence == "Cordon gpu-02, bring llama-70b back with spare gpu-22"
    assert (found.purpose, found.kind, found.rule) == ("evacuate:gpu-02", RecommendationKind.DRAIN, "evacuate")
    assert [write.text for write in found.writes] == [
        "cordon gpu-02",
        "reserve research/llama-70b: 8 GPUs on gpu-00 for llama-70b-0, 8 GPUs on gpu-01 for llama-70b-1, "
        "8 GPUs on gpu-22 for llama-70b-2, 8 GPUs on gpu-03 for llama-70b-3",
        "suspend research/llama-70b",
        "resume research/llama-70b: 8 GPUs on gpu-00 for llama-70b-0, 8 GPUs on gpu-01 for llama-70b-1, "
        "8 GPUs on gpu-22 for llama-70b-2, 8 GPUs on gpu-03 for llama-70b-3",
    ]
    assert [write.lasts for write in found.writes] == [True, False, False, False]
    assert found.gain.gpu_hours == 32 * 24
    assert found.not_before is None
    assert found.findings == (31,)


def test_a_gang_that_stands_still_loses_only_its_restart():
    (found,) = plan_for(fleet(), fault()).recommendations
    assert found.cost.gpu_hours == 32 * 120 / 3600
    assert "stands still" in found.cost.formula
    (alive,) = plan_for(fleet(), fault(loss_gpus=1.0)).recommendations
    assert alive.cost.gpu_hours == 32 * 120 / 3600
    assert found.not_before is None


def test_what_still_works_is_stopped_after_its_next_checkpoint_the_sooner_the_graver_the_fault():
    (waits,) = plan_for(fleet(), fault(loss_gpus=1.0)).recommendations
    (gang,) = [one for one in fleet().workloads if one.name == "llama-70b"]
    assert waits.not_before == gang.checkpoint.last_at + timedelta(seconds=gang.checkpoint.interval_seconds)
    (grave,) = plan_for(fleet(), fault(loss_gpus=1.0, action=Action.HARDWARE_RMA)).recommendations
    assert grave.not_before is None  # its checkpoint is farther off than such a fault is left standing


def test_without_a_seat_the_node_is_cordoned_all_the_same_and_the_refusal_says_what_is_missing():
    plan = plan_for(fleet(is_ready=False), fault())
    (found,) = plan.recommendations
    assert found.kind is RecommendationKind.CORDON
    assert [write.text for write in found.writes] == ["cordon gpu-02"]
    assert found.against == ("llama-70b stays on gpu-02 until it ends; repair waits for it.",)
    (refusal,) = plan.refusals
    assert refusal.rule == "no_room"
    assert refusal.sentence == "Not moved: llama-70b needs 1 seat of 8 GPUs elsewhere; nothing is free."


def test_reset_after_drain_only_cordons_and_waits_for_the_jobs():
    (found,) = plan_for(fleet(), fault(action=Action.RESET_AFTER_DRAIN)).recommendations
    assert [write.text for write in found.writes] == ["cordon gpu-02"]
    assert found.moves == ()


def test_doubt_moves_nothing_and_says_so():
    for changes, rule in (
        ({"is_corroborated": False}, "uncorroborated"),
        ({"is_history_only": True}, "history_only"),
    ):
        plan = plan_for(fleet(), fault(**changes))
        assert plan.recommendations == ()
        assert [refusal.rule for refusal in plan.refusals] == [rule]
        assert plan.refusals[0].purpose == "evacuate:gpu-02"


def test_a_watched_node_is_left_alone():
    plan = plan_for(fleet(), fault(action=Action.WATCH))
    assert (plan.recommendations, plan.refusals) == ((), ())


def test_another_mover_on_the_node_keeps_us_away():
    snapshot = fleet()
    nodes = [a_node("gpu-02", other_mover="NVSentinel") if n.name == "gpu-02" else n for n in snapshot.nodes]
    plan = plan_for(a_snapshot(nodes, snapshot.workloads, taken_at=NOW), fault())
    assert plan.recommendations == ()
    assert plan.refusals[0].sentence == "Not moved: NVSentinel is at work on gpu-02 (F31)."


def test_the_owners_opt_out_stands_even_in_a_fault_and_asking_first_is_said():
    plan = plan_for(fleet(gang_changes={"wishes": OwnerWishes(is_opted_out=True)}), fault())
    assert [found.kind for found in plan.recommendations] == [RecommendationKind.CORDON]
    assert [refusal.rule for refusal in plan.refusals] == ["opted_out"]
    (asked,) = plan_for(fleet(gang_changes={"wishes": OwnerWishes(is_ask_first=True)}), fault()).recommendations
    assert asked.against == ("The owner of llama-70b wants to be asked first.",)


def test_what_may_not_be_interrupted_is_brought_back_when_the_fault_stopped_it():
    (found,) = plan_for(fleet(gang_changes={"is_preemptible": False}), fault()).recommendations
    assert found.kind is RecommendationKind.DRAIN


def test_a_neighbour_on_the_bad_node_is_moved_too_but_its_rules_count():
    small = {"gpu-05": range(2)}
    nodes = [a_node("gpu-05"), a_node("gpu-06")]
    runs = a_workload("eval-3", on=small)
    stays = a_workload("notebook", on={"gpu-05": [4]}, is_preemptible=False)
    plan = plan_for(a_snapshot(nodes, [runs, stays], taken_at=NOW), a_finding(id=7, node="gpu-05"))
    (found,) = plan.recommendations
    assert found.sentence == "Cordon gpu-05, move eval-3 to gpu-06"
    assert [refusal.rule for refusal in plan.refusals] == ["not_preemptible"]
    assert found.against == ("notebook stays on gpu-05 until it ends; repair waits for it.",)


def test_a_gang_thrown_back_into_the_queue_gets_its_seats_too():
    snapshot = fleet()
    waits = a_workload("llama-70b", pods=4, gpus_per_pod=8, waiting_reason="capacity")
    plan = plan_for(a_snapshot(snapshot.nodes, [waits], taken_at=NOW), fault())
    (found,) = plan.recommendations
    assert found.sentence == "Cordon gpu-02, bring llama-70b back to gpu-00, gpu-01, gpu-03 and gpu-22"
    assert [write.verb for write in found.writes] == [Verb.CORDON, Verb.RESERVE, Verb.RESUME]
    assert {seat.node for seat in found.moves[0].after} == {"gpu-00", "gpu-01", "gpu-03", "gpu-22"}


def test_a_node_that_is_out_and_empty_needs_nothing_more():
    nodes = [a_node("gpu-02", is_cordoned=True, cordoned_by="trimtab:R1"), a_node("gpu-03")]
    plan = plan_for(a_snapshot(nodes, taken_at=NOW), fault())
    assert (plan.recommendations, plan.refusals) == ((), ())


def test_seats_are_neither_reserved_ones_nor_on_nodes_in_doubt():
    spares = [a_node("gpu-21", is_spare=True), a_node("gpu-22", is_spare=True), a_node("gpu-23", is_spare=True)]
    base = fleet()
    snapshot = a_snapshot(
        [*base.nodes[:4], *spares],
        base.workloads,
        taken_at=NOW,
        reservations=(Reservation(node="gpu-21", gpus=8, workload="research/other", command="trimtab:R9"),),
    )
    silent = a_finding(id=40, node="gpu-22", gpu=None, rule="node_silent", action=Action.WATCH)
    (found,) = plan_for(snapshot, fault(), silent).recommendations
    assert {seat.node for seat in found.moves[0].after} == {"gpu-00", "gpu-01", "gpu-03", "gpu-23"}


def test_what_a_command_has_in_hand_is_not_planned_again():
    stopped = gang(state=WorkloadState.RUNNING, suspended_by="trimtab:R11")
    base = fleet()
    (found,) = plan_for(a_snapshot(base.nodes, [stopped], taken_at=NOW), fault()).recommendations
    assert found.moves == ()


def test_standing_seats_are_kept_though_another_would_be_chosen_today():
    two = [a_node("gpu-21", is_spare=True, rack="r1"), a_node("gpu-22", is_spare=True, rack="r3")]
    base = fleet()
    (old,) = plan_for(a_snapshot([*base.nodes[:4], two[1]], base.workloads, taken_at=NOW), fault()).recommendations
    both = a_snapshot([*base.nodes[:4], *two], base.workloads, taken_at=NOW)
    (kept,) = plan_for(both, fault(), standing=[old]).recommendations
    (new,) = plan_for(both, fault()).recommendations
    assert kept.fingerprint == old.fingerprint
    assert new.fingerprint != old.fingerprint


def test_two_faults_never_share_a_seat():
    other = a_workload("bert", on={"gpu-04": range(8)})
    base = fleet(other)
    snapshot = a_snapshot([*base.nodes, a_node("gpu-04")], base.workloads, taken_at=NOW)
    second = a_finding(id=32, node="gpu-04", workloads_hit=("research/bert",), loss_gpus=8.0)
    plan = plan_for(snapshot, fault(), second)
    assert [found.sentence for found in plan.recommendations] == [
        "Cordon gpu-02, bring llama-70b back with spare gpu-22",
        "Cordon gpu-04",
    ]
    assert [refusal.rule for refusal in plan.refusals] == ["no_room"]


def test_a_budget_of_cordons_is_kept_with_its_number():
    plan = plan_for(fleet(), fault(), budget=Budget(nodes_cordonable=0))
    assert plan.recommendations == ()
    assert plan.refusals[0].sentence == (
        "Not moved: 1 cordon needed, 0 left of the nodes that may stand cordoned by trimtab."
    )


def test_unknown_start_and_checkpoint_do_not_keep_a_stopped_gang_down():
    changes = {"checkpoint": Checkpoint(), "started_at": None}
    (found,) = plan_for(fleet(gang_changes=changes), fault()).recommendations
    assert found.kind is RecommendationKind.DRAIN
