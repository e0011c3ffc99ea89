"""Whole snapshot or nothing, the same plan for the same input, and no seat given twice."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders import a_finding, a_node, a_snapshot, a_workload
from tests.fakes.clock import START

from trimtab.model.advice import Action
from trimtab.model.cluster import Checkpoint, ClusterSnapshot, Reservation
from trimtab.model.command import Budget, Plan, Verb
from trimtab.plan.planner import Planner
from trimtab.settings import PlanSettings


def test_an_empty_snapshot_proposes_nothing_and_leaves_proposals_alone():
    plan = Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(a_snapshot(), (), Budget())
    assert not plan.is_whole
    assert [one.sentence for one in plan.refusals] == ["Nothing proposed: the snapshot has no node."]


def test_a_snapshot_with_pods_on_nodes_that_it_lacks_is_not_whole():
    plan = Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(
        a_snapshot([a_node("gpu-01")], [a_workload(on={"gpu-02": range(8)})]), (), Budget()
    )
    assert not plan.is_whole
    assert plan.refusals[0].rule == "snapshot"


def test_a_snapshot_older_than_the_findings_is_stale():
    finding = replace(a_finding(), last_seen_at=START + timedelta(seconds=95))
    plan = Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(
        a_snapshot([a_node()]), [finding], Budget()
    )
    assert (plan.is_whole, plan.recommendations) == (False, ())
    assert plan.refusals[0].sentence == "Nothing proposed: the snapshot is 2 min older than the findings."


@st.composite
def clusters(draw: st.DrawFn) -> ClusterSnapshot:
    """Nodes of 8 with jobs of all sizes packed at random, gangs, reservations, cordons and spares."""
    names = [f"gpu-{n:02d}" for n in range(draw(st.integers(2, 7)))]
    nodes = [
        a_node(
            name,
            rack=f"r{index % 2}",
            is_spare=draw(st.integers(0, 5)) == 0,
            is_cordoned=draw(st.integers(0, 9)) == 0,
            is_ready=draw(st.integers(0, 9)) > 0,
        )
        for index, name in enumerate(names)
    ]
    free = {name: list(range(8)) for name in names}
    jobs = []
    for number in range(draw(st.integers(2, 3 * len(names)))):
        size = draw(st.sampled_from((1, 1, 1, 2, 2, 4, 8)))
        able = [name for name in draw(st.permutations(names)) if len(free[name]) >= size]
        hosts = sorted(able[: draw(st.sampled_from((1, 1, 1, 2, 3)))])
        if hosts:
            on = {host: [free[host].pop() for _ in range(size)] for host in hosts}
            checkpoint = Checkpoint(
                last_at=START - timedelta(minutes=draw(st.integers(0, 50))), interval_seconds=1800.0
            )
            jobs.append(
                a_workload(
                    f"job-{number:02d}",
                    on=on,
                    checkpoint=checkpoint,
                    is_preemptible=draw(st.integers(0, 5)) > 0,
                    priority=draw(st.integers(0, 3)),
                )
            )
    for number in range(draw(st.integers(1, 3))):
        pods, size = draw(st.integers(1, 2)), draw(st.sampled_from((4, 8)))
        jobs.append(a_workload(f"wait-{number}", pods=pods, gpus_per_pod=size))
    reserved = tuple(
        Reservation(node=name, gpus=draw(st.integers(1, 3)), workload="other/x", command="trimtab:R99")
        for name in names
        if len(free[name]) >= 3 and draw(st.integers(0, 4)) == 0
    )
    return a_snapshot(nodes, jobs, reservations=reserved, taken_at=START)


@st.composite
def findings(draw: st.DrawFn, snapshot: ClusterSnapshot):
    found = []
    for number, node in enumerate(snapshot.nodes):
        rule = draw(st.sampled_from((*[None] * 7, "device_fault", "straggler")))
        if rule is not None:
            hit = tuple(job.id for job in snapshot.workloads if node.name in job.nodes)
            action = Action.CORDON_REBOOT if rule == "device_fault" else Action.RESET_AFTER_DRAIN
            loss = float(draw(st.integers(0, 32)))
            found.append(
                a_finding(id=number + 1, node=node.name, rule=rule, action=action, workloads_hit=hit, loss_gpus=loss)
            )
    return tuple(found)


@st.composite
def fragmented(draw: st.DrawFn) -> ClusterSnapshot:
    """Every node holds a few small jobs and is never empty; somebody waits for whole nodes."""
    nodes = [a_node(f"gpu-{n:02d}", rack=f"r{n % 2}") for n in range(draw(st.integers(3, 7)))]
    jobs = []
    for node in nodes:
        index = 0
        for size in draw(st.lists(st.sampled_from((1, 1, 2, 3)), min_size=1, max_size=4)):
            if index + size <= 8:
                saved = Checkpoint(last_at=START - timedelta(minutes=draw(st.integers(0, 30))), interval_seconds=1800.0)
                on = {node.name: range(index, index + size)}
                jobs.append(a_workload(f"job-{len(jobs):02d}", on=on, checkpoint=saved))
                index += size
    waits = [a_workload(f"wait-{n}", pods=draw(st.integers(1, 2))) for n in range(draw(st.integers(1, 2)))]
    return a_snapshot(nodes, [*jobs, *waits], taken_at=START)


@st.composite
def cases(draw: st.DrawFn):
    snapshot = draw(clusters() | fragmented())
    budget = Budget(
        moves_left=draw(st.sampled_from((None, None, 1, 2, 4))),
        nodes_cordonable=draw(st.sampled_from((None, None, 0, 1))),
        moves_left_by_workload={job.id: 0 for job in snapshot.workloads if draw(st.integers(0, 7)) == 0},
        spares_kept=draw(st.integers(0, 1)),
    )
    return snapshot, draw(findings(snapshot)), budget


@given(cases())
@settings(max_examples=300, deadline=None)
def test_every_victim_has_a_seat_and_no_gpu_is_given_twice(case):
    snapshot, open_findings, budget = case
    plan = Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(snapshot, open_findings, budget)
    assert plan.is_whole
    for recommendation in plan.recommendations:
        for move in recommendation.moves:
            job = snapshot.workload_by_id[move.workload]
            assert len(move.after) == job.pods
            assert all(seat.gpus == job.gpus_per_pod for seat in move.after)
            assert len({seat.pod for seat in move.after}) == job.pods
    _everybody_fits_at_once(snapshot, plan)


def _everybody_fits_at_once(snapshot: ClusterSnapshot, plan: Plan) -> None:
    """All recommendations done together: count every node anew, from the GPUs up."""
    moved = {move.workload for one in plan.recommendations for move in one.moves}
    assert len(moved) == sum(len(one.moves) for one in plan.recommendations), "a workload is in two recommendations"
    load: Counter[str] = Counter()
    for job in snapshot.workloads:
        if job.id not in moved:
            load.update(placement.node for placement in job.placements for _ in placement.gpus)
    for kept in snapshot.reservations:
        load[kept.node] += kept.gpus
    taken = {seat.node for one in plan.recommendations for move in one.moves for seat in move.after}
    for one in plan.recommendations:
        for move in one.moves:
            for seat in move.after:
                load[seat.node] += seat.gpus
    cordoned = {write.node for one in plan.recommendations for write in one.writes if write.verb is Verb.CORDON}
    for name in taken:
        node = snapshot.node_by_name[name]
        assert node.is_schedulable
        assert name not in cordoned
        assert load[name] <= len(node.gpus)


@given(cases())
@settings(max_examples=150, deadline=None)
def test_budgets_are_never_exceeded(case):
    snapshot, open_findings, budget = case
    plan = Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(snapshot, open_findings, budget)
    victims = [move.workload for one in plan.recommendations for move in one.moves if move.before]
    cordons = [write.node for one in plan.recommendations for write in one.writes if write.verb is Verb.CORDON]
    assert budget.moves_left is None or len(victims) <= budget.moves_left
    assert budget.nodes_cordonable is None or len(cordons) <= budget.nodes_cordonable
    assert not set(victims) & set(budget.moves_left_by_workload)


@given(cases())
@settings(max_examples=100, deadline=None)
def test_consolidation_and_relocation_leave_the_spares_of_faults_alone(case):
    snapshot, open_findings, budget = case
    plan = Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(snapshot, open_findings, budget)
    for one in plan.recommendations:
        if one.rule == "consolidate":
            used = {seat.node for move in one.moves for seat in move.after if move.before}
            new = used - {seat.node for move in one.moves for seat in move.before}
            assert not any(snapshot.node_by_name[name].is_spare for name in new)


@given(cases(), st.randoms())
@settings(max_examples=100, deadline=None)
def test_the_same_cluster_in_another_order_gives_the_same_plan(case, random):
    snapshot, open_findings, budget = case
    shuffled = [random.sample(part, len(part)) for part in (snapshot.nodes, snapshot.workloads, open_findings)]
    other = replace(snapshot, nodes=tuple(shuffled[0]), workloads=tuple(shuffled[1]))
    assert Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(
        snapshot, open_findings, budget
    ) == Planner(PlanSettings(is_finding_needed_to_make_room=False)).propose(other, shuffled[2], budget)


@given(cases())
@settings(max_examples=100, deadline=None)
def test_a_plan_that_stands_is_made_again(case):
    """Nothing has changed: every recommendation keeps its exact writes."""
    snapshot, open_findings, budget = case
    planner = Planner(PlanSettings(is_finding_needed_to_make_room=False))
    first = planner.propose(snapshot, open_findings, budget)
    again = planner.propose(snapshot, open_findings, budget, first.recommendations)
    assert [one.fingerprint for one in again.recommendations] == [one.fingerprint for one in first.recommendations]


def test_what_a_person_said_no_to_keeps_no_seat_from_others():
    nodes = [a_node(name) for name in ("gpu-00", "gpu-01", "gpu-02")]
    jobs = [a_workload("a", on={"gpu-00": range(8)}), a_workload("b", on={"gpu-01": range(8)})]
    snapshot = a_snapshot(nodes, jobs)
    faults = [a_finding(id=1, node="gpu-00", loss_gpus=8.0), a_finding(id=2, node="gpu-01", loss_gpus=4.0)]
    planner = Planner(PlanSettings(spares_kept=0, cordoned_max=3, cordoned_ratio_max=1.0))

    def moved(**options) -> dict[str, bool]:
        plan = planner.propose(snapshot, faults, Budget(), **options)
        return {one.purpose: bool(one.moves) for one in plan.recommendations}

    assert moved() == {"evacuate:gpu-00": True, "evacuate:gpu-01": False}
    assert moved(quiet=["evacuate:gpu-00"]) == {"evacuate:gpu-00": True, "evacuate:gpu-01": True}
