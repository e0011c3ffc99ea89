from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest
from tests.builders import a_node, a_snapshot, a_workload
from tests.fakes.clock import START

from trimtab.model.cluster import Checkpoint, Queue, Reservation, WorkloadState
from trimtab.model.command import Budget, Plan, RecommendationKind, Verb
from trimtab.plan.displace import displacement
from trimtab.plan.planner import Planner
from trimtab.settings import PlanSettings

NOW = START + timedelta(minutes=41)
FRESH = Checkpoint(last_at=NOW, interval_seconds=1800.0)
E24 = Path(__file__).parent.parent / "fixtures" / "field-cases" / "e-k8s" / "E24-fragmentation-5x8.json"


def plan_for(snapshot, *, budget=None, standing=(), findings=()) -> Plan:
    return Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(
        snapshot, findings, budget or Budget(spares_kept=1), standing
    )


def scattered(*, waiting=None, more=(), **changes):
    """gpu-03 has 6 free and two small jobs; the other nodes have 1 or 2 free."""
    jobs = [
        a_workload("a", on={"gpu-03": [0]}, checkpoint=FRESH),
        a_workload("b", on={"gpu-03": [1]}, checkpoint=FRESH),
        a_workload("c", on={"gpu-04": range(7)}, checkpoint=FRESH),
        a_workload("d", on={"gpu-05": range(6)}, checkpoint=FRESH),
        waiting or a_workload("eval-9"),
        *more,
    ]
    return a_snapshot([a_node(name) for name in ("gpu-03", "gpu-04", "gpu-05")], jobs, taken_at=NOW, **changes)


def test_small_jobs_leave_one_node_so_that_the_waiting_one_starts():
    plan = plan_for(scattered())
    (found,) = plan.recommendations
    assert plan.refusals == ()
    assert found.sentence == "Move 2 jobs off gpu-03 so that eval-9 starts"
    assert (found.purpose, found.kind) == ("make-room:research/eval-9", RecommendationKind.CONSOLIDATE)
    assert [(move.workload, [seat.node for seat in move.after]) for move in found.moves] == [
        ("research/a", ["gpu-04"]),
        ("research/b", ["gpu-05"]),
        ("research/eval-9", ["gpu-03"]),
    ]
    assert [write.verb for write in found.writes] == [
        *[Verb.RESERVE] * 3,
        Verb.SUSPEND,
        Verb.RESUME,
        Verb.SUSPEND,
        Verb.RESUME,
    ]
    assert not any(write.lasts for write in found.writes)
    assert found.for_workload == "research/eval-9"
    assert (found.gain.gpus_unlocked, found.gain.gpu_hours) == (8, 8.0)
    assert found.cost.gpu_hours == pytest.approx(2 * 120 / 3600)
    assert found.reason.endswith(
        "Moving a and b to gpu-04 and gpu-05 frees 2 GPUs on gpu-03 (6 are free there): seat 1 of 1."
    )


def test_the_cheapest_work_lost_decides_which_node_is_emptied():
    def on(name, node, gpu, minutes):
        saved = Checkpoint(last_at=NOW - timedelta(minutes=minutes))
        return a_workload(name, on={node: [gpu]}, checkpoint=saved)

    nodes = [a_node("gpu-03"), a_node("gpu-04")]
    jobs = [on("old", "gpu-03", 0, 40), on("new", "gpu-04", 0, 2), a_workload("eval-9")]
    third, filler = a_node("gpu-05"), a_workload("filler", on={"gpu-05": range(7)}, is_preemptible=False)
    (found,) = plan_for(a_snapshot([*nodes, third], [*jobs, filler], taken_at=NOW)).recommendations
    assert found.sentence == "Move 1 job off gpu-04 so that eval-9 starts"


def test_it_waits_for_the_victims_checkpoint_when_that_is_cheaper():
    late = Checkpoint(last_at=NOW - timedelta(minutes=29), interval_seconds=1800.0)
    jobs = [
        a_workload("a", on={"gpu-03": range(4)}, checkpoint=late),
        a_workload("b", on={"gpu-04": range(4)}, is_preemptible=False),
        a_workload("eval-9"),
    ]
    (found,) = plan_for(a_snapshot([a_node("gpu-03"), a_node("gpu-04")], jobs, taken_at=NOW)).recommendations
    assert found.not_before == NOW + timedelta(minutes=1)
    assert found.cost.gpu_hours == pytest.approx(4 * 120 / 3600)


def test_advice_that_stands_is_kept_until_another_is_clearly_cheaper():
    def snapshot(minutes):
        saved = Checkpoint(last_at=NOW - timedelta(minutes=minutes))
        jobs = [
            a_workload("a", on={"gpu-03": [0]}, checkpoint=Checkpoint(last_at=NOW - timedelta(minutes=4))),
            a_workload("b", on={"gpu-04": [0]}, checkpoint=saved),
            a_workload("c", on={"gpu-05": range(7)}, is_preemptible=False),
            a_workload("eval-9"),
        ]
        return a_snapshot([a_node(f"gpu-0{n}") for n in (3, 4, 5)], jobs, taken_at=NOW)

    (old,) = plan_for(snapshot(5)).recommendations
    assert "gpu-03" in old.sentence
    assert "gpu-04" in plan_for(snapshot(3)).recommendations[0].sentence
    assert plan_for(snapshot(3), standing=[old]).recommendations[0].fingerprint == old.fingerprint
    free = [a_workload("b", on={"gpu-04": [0]}, checkpoint=FRESH)]
    much_cheaper = a_snapshot(
        snapshot(3).nodes,
        [
            *(w for w in snapshot(3).workloads if w.name not in ("a", "b")),
            *free,
            a_workload("a", on={"gpu-03": [0]}, checkpoint=Checkpoint(last_at=NOW - timedelta(minutes=30))),
        ],
        taken_at=NOW,
    )
    assert "gpu-04" in plan_for(much_cheaper, standing=[old]).recommendations[0].sentence


def test_a_gang_gets_a_node_for_each_pod():
    more = [
        a_workload("e", on={"gpu-06": range(2)}, checkpoint=FRESH),
        a_workload("f", on={"gpu-07": range(4)}, is_preemptible=False),
        a_workload("g", on={"gpu-08": range(4)}, is_preemptible=False),
    ]
    base = scattered(waiting=a_workload("eval-9", pods=2, gpus_per_pod=8), more=more)
    snapshot = a_snapshot([*base.nodes, *(a_node(f"gpu-0{n}") for n in (6, 7, 8))], base.workloads, taken_at=NOW)
    (found,) = plan_for(snapshot).recommendations
    assert {seat.node for seat in found.moves[-1].after} == {"gpu-03", "gpu-06"}
    assert {seat.node for move in found.moves[:-1] for seat in move.after}.isdisjoint({"gpu-03", "gpu-06"})


def test_quota_is_never_answered_by_a_move():
    quota = plan_for(scattered(waiting=a_workload("eval-9", waiting_reason="quota")))
    assert [refusal.rule for refusal in quota.refusals] == ["quota"]
    full = plan_for(scattered(queues=(Queue(name="research", gpus_quota=20),)))
    assert full.recommendations == ()
    assert full.refusals[0].sentence == (
        "Not moved: eval-9 needs 8 GPUs and queue research has 15 of 20 in use; a move gives no quota."
    )


def test_an_unknown_reason_is_no_reason_to_move():
    plan = plan_for(scattered(waiting=a_workload("eval-9", waiting_reason=None)))
    assert [refusal.sentence for refusal in plan.refusals] == ["Not moved: why eval-9 waits is not known."]


def test_what_fits_already_needs_nothing():
    plan = plan_for(scattered(waiting=a_workload("small", gpus_per_pod=2)))
    assert (plan.recommendations, plan.refusals) == ((), ())


def test_spare_nodes_stay_spare_for_the_one_who_waits_and_for_those_who_would_leave():
    jobs = [
        a_workload("a", on={"gpu-03": [0]}, checkpoint=FRESH),
        a_workload("b", on={"gpu-04": range(8)}, is_preemptible=False),
        a_workload("eval-9"),
    ]
    nodes = [a_node("gpu-03"), a_node("gpu-04"), a_node("gpu-22", is_spare=True)]
    plan = plan_for(a_snapshot(nodes, jobs, taken_at=NOW))
    assert plan.recommendations == ()
    assert plan.refusals[0].sentence == (
        "Not moved: eval-9 needs 1 × 8 GPUs; 7 are free, never more than 7 together (gpu-03). "
        "gpu-22 is kept for faults. No move makes GPUs."
    )


def test_a_node_whose_jobs_would_fit_nowhere_is_not_emptied():
    jobs = [
        a_workload("a", on={"gpu-03": [0, 1]}, checkpoint=FRESH),
        a_workload("b", on={"gpu-04": range(7)}, is_preemptible=False),
        a_workload("c", on={"gpu-05": range(7)}, is_preemptible=False),
        a_workload("eval-9"),
    ]
    plan = plan_for(a_snapshot([a_node(f"gpu-0{n}") for n in (3, 4, 5)], jobs, taken_at=NOW))
    assert plan.recommendations == ()
    assert plan.refusals[0].sentence == (
        "Not moved: eval-9 needs 1 × 8 GPUs; 8 are free, never more than 6 together (gpu-03). "
        "1 node could be emptied, but not all who leave would have a seat."
    )


def test_protected_jobs_are_no_victims():
    jobs = [
        a_workload("a", on={"gpu-03": [0]}, is_preemptible=False),
        a_workload("b", on={"gpu-04": [0]}, state=WorkloadState.STARTING),
        a_workload("eval-9"),
    ]
    plan = plan_for(a_snapshot([a_node("gpu-03"), a_node("gpu-04")], jobs, taken_at=NOW))
    assert plan.recommendations == ()
    assert plan.refusals[0].sentence == (
        "Not moved: eval-9 needs 1 × 8 GPUs; 14 are free, never more than 7 together (gpu-03). "
        "No node can be emptied: nobody there may be moved."
    )


def test_reserved_room_is_no_seat_and_who_has_a_reservation_is_left_to_it():
    kept = (
        Reservation(node="gpu-04", gpus=1, workload="research/x", command="trimtab:R9"),
        Reservation(node="gpu-05", gpus=1, workload="research/x", command="trimtab:R9"),
    )
    plan = plan_for(scattered(reservations=kept))
    assert plan.recommendations == ()
    ours = (Reservation(node="gpu-03", gpus=8, workload="research/eval-9", command="trimtab:R9"),)
    assert plan_for(scattered(reservations=ours)) == Plan(made_at=NOW)


def test_what_is_not_worth_it_is_refused_with_its_numbers():
    old = Checkpoint(last_at=NOW - timedelta(hours=9))
    jobs = [
        a_workload("a", on={"gpu-03": range(4)}, checkpoint=old),
        a_workload("b", on={"gpu-04": range(4)}, checkpoint=old),
        a_workload("eval-9"),
    ]
    plan = plan_for(a_snapshot([a_node("gpu-03"), a_node("gpu-04")], jobs, taken_at=NOW))
    assert plan.refusals[0].sentence == (
        "Not moved: room for eval-9 would stop 1 job at 36.1 GPU-h and gives 8.0 GPU-h."
    )


def test_a_budget_that_is_too_small_is_named_with_its_number():
    plan = plan_for(scattered(), budget=Budget(moves_left=1))
    assert plan.recommendations == ()
    assert plan.refusals[0].sentence == "Not moved: 2 moves needed, 1 left of those allowed at once."
    assert plan.refusals[0].purpose == "make-room:research/eval-9"


def e24_snapshot():
    given = json.loads(E24.read_text())
    jobs = []
    for node in given["nodes"]:
        for index, pod in enumerate(node["pods"]):
            jobs.append(a_workload(pod["name"], on={node["node"]: [index]}, priority=pod["priority"], is_gang=False))
    for pod in given["pending"]:
        jobs.append(a_workload(pod["name"], gpus_per_pod=pod["gpu"], priority=pod["priority"]))
    return a_snapshot([a_node(node["node"], gpus=node["gpus"]) for node in given["nodes"]], jobs, taken_at=NOW)


def test_e24_eight_evictions_and_five_moves_would_free_one_node_and_nobody_is_evicted_without_a_seat():
    snapshot = e24_snapshot()
    forced = displacement(snapshot, snapshot.workload_by_id["research/wide-fir"])
    assert forced is not None
    expected = json.loads(E24.with_name(E24.name + ".expected.json").read_text())["plan"]
    assert {
        "evictions": len(forced.evictions),
        "moves": len(forced.moves),
        "freed_on_one_node": forced.gpus_freed,
    } == expected
    assert forced.lower_priority == 15
    assert {snapshot.workload_by_id[one].priority for one in forced.evictions} == {40}
    plan = plan_for(snapshot)
    assert plan.recommendations == ()
    (refusal,) = plan.refusals
    assert refusal.sentence == (
        "Not moved: wide-fir needs 1 × 8 GPUs; 0 are free. Evicting all 15 of lower priority where they are would free "
        "no more than 3 together. 8 on one node would take 8 evictions without a seat (3 on kestrel-80, 5 elsewhere) "
        "and 5 moves: trimtab evicts nobody without a seat."
    )


def test_nobody_is_moved_for_a_job_that_no_finding_speaks_for() -> None:
    nodes = [a_node("gpu-00"), a_node("gpu-01")]
    held = [a_workload("a", on={"gpu-00": [0]}), a_workload("b", on={"gpu-01": range(7)})]
    plan = Planner(PlanSettings()).propose(a_snapshot(nodes, [*held, a_workload("eval-9")]), (), Budget())
    assert plan.recommendations == ()
    assert [one.rule for one in plan.refusals] == ["no_finding"]
