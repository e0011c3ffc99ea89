from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import a_finding, a_node, a_snapshot, a_workload
from tests.fakes.clock import START

from trimtab.model.command import Budget, Command, CommandState
from trimtab.plan.budget import budget_of
from trimtab.plan.planner import Planner
from trimtab.settings import PlanSettings

SETTINGS = PlanSettings(
    is_finding_needed_to_make_room=False,
    moves_max=4,
    cordoned_ratio_max=0.1,
    moves_per_workload_per_day=2,
    node_attempts_per_day=2,
)
SNAPSHOT = a_snapshot(
    [a_node(f"gpu-{n:02d}") for n in range(30)], [a_workload("eval-3", on={"gpu-00": range(8)})], taken_at=START
)


def a_command(state=CommandState.HELD, *, attempts=1, changed_at=START):
    plan = Planner(SETTINGS).propose(SNAPSHOT, [a_finding(node="gpu-00", loss_gpus=8.0)], Budget())
    return Command(id=1, recommendation=plan.recommendations[0], state=state, changed_at=changed_at, attempts=attempts)


def test_nothing_under_way_leaves_everything():
    assert budget_of(SNAPSHOT, (), SETTINGS, START) == Budget(
        moves_left=4,
        nodes_cordonable=3,
        spares_kept=1,
        moves_left_this_hour=30,
        cordons_left_this_hour=10,
        nodes_cordonable_by_rack={"r1": 15},
    )


def test_what_has_begun_is_counted_and_what_is_only_approved_is_not():
    begun = budget_of(SNAPSHOT, [a_command()], SETTINGS, START)
    assert (begun.moves_left, begun.nodes_cordonable) == (3, 2)
    assert dict(begun.moves_left_by_workload) == {"research/eval-3": 1}
    assert dict(begun.node_attempts_left) == {"gpu-00": 1}
    approved = budget_of(SNAPSHOT, [a_command(CommandState.APPROVED, attempts=0)], SETTINGS, START)
    assert approved == budget_of(SNAPSHOT, (), SETTINGS, START)


def test_tries_of_the_last_day_count_and_older_ones_do_not():
    over = [a_command(CommandState.ABANDONED), a_command(CommandState.SETTLED)]
    day = budget_of(SNAPSHOT, over, SETTINGS, START + timedelta(hours=1))
    assert dict(day.moves_left_by_workload) == {"research/eval-3": 0}
    assert dict(day.node_attempts_left) == {"gpu-00": 0}
    later = budget_of(SNAPSHOT, over, SETTINGS, START + timedelta(hours=25))
    assert dict(later.moves_left_by_workload) == {}


def test_nodes_that_stand_cordoned_by_us_count_and_a_persons_do_not():
    nodes = list(SNAPSHOT.nodes)
    nodes[3] = replace(nodes[3], is_cordoned=True, cordoned_by="trimtab:R8")
    nodes[4] = replace(nodes[4], is_cordoned=True, cordoned_by="sofia")
    assert budget_of(a_snapshot(nodes), (), SETTINGS, START).nodes_cordonable == 2


def test_a_small_cluster_may_lose_one_node():
    assert budget_of(a_snapshot([a_node("gpu-00")]), (), SETTINGS, START).nodes_cordonable == 1


def test_a_workload_moved_often_enough_and_a_node_tried_often_enough_are_refused():
    finding = a_finding(node="gpu-00", loss_gpus=8.0)
    tired = Planner(SETTINGS).propose(SNAPSHOT, [finding], Budget(moves_left_by_workload={"research/eval-3": 0}))
    assert [one.sentence for one in tired.refusals] == [
        "Not moved: eval-3 has been moved as often as allowed in one day."
    ]
    tried = Planner(SETTINGS).propose(SNAPSHOT, [finding], Budget(node_attempts_left={"gpu-00": 0}))
    assert [one.sentence for one in tried.refusals] == [
        "Not moved: gpu-00 has been tried as often as allowed in one day; a person must look."
    ]


def test_a_queues_own_budget_is_kept():
    plan = Planner(SETTINGS).propose(
        SNAPSHOT, [a_finding(node="gpu-00", loss_gpus=8.0)], Budget(moves_left_by_queue={"research": 0})
    )
    assert [one.sentence for one in plan.refusals] == ["Not moved: 1 move needed in queue research, 0 left."]


# --- percent and absolute, by place, queue and hour


def places(**by_name):
    """Nodes of pool h100 (r1, r2) and a100 (r3), some cordoned by a mark."""
    nodes = [
        a_node(f"gpu-{n:02d}", rack="r1" if n < 5 else "r2" if n < 10 else "r3", pool="h100" if n < 10 else "a100")
        for n in range(20)
    ]
    return a_snapshot(
        [
            replace(one, is_cordoned=True, cordoned_by=by_name[one.name.replace("-", "_")])
            if one.name.replace("-", "_") in by_name
            else one
            for one in nodes
        ]
    )


def test_pools_and_racks_have_their_own_share_of_cordons_and_one_node_at_least():
    settings = PlanSettings(cordoned_ratio_max_per_pool=0.2, cordoned_ratio_max_per_rack=0.4, cordoned_max_per_rack=2)
    budget = budget_of(places(gpu_00="trimtab:abc:R1"), (), settings, START)
    assert dict(budget.nodes_cordonable_by_pool) == {"h100": 1, "a100": 2}
    assert dict(budget.nodes_cordonable_by_rack) == {"r1": 1, "r2": 2, "r3": 2}
    none = budget_of(places(), (), PlanSettings(cordoned_max_per_pool=0, cordoned_max=0), START)
    assert (none.nodes_cordonable, set(none.nodes_cordonable_by_pool.values())) == (0, {0})


def test_another_ledgers_cordons_are_somebody_elses():
    snapshot = places(gpu_00="trimtab:abc:R1", gpu_01="trimtab:def:R1", gpu_02="trimtab:R1")
    settings = PlanSettings(cordoned_ratio_max=0.25)
    assert budget_of(snapshot, (), settings, START, ledger="abc").nodes_cordonable == 3
    assert budget_of(snapshot, (), settings, START).nodes_cordonable == 2


def test_what_began_within_the_hour_counts_against_the_hour():
    settings = PlanSettings(moves_per_hour_max=2, cordons_per_hour_max=2)
    over = [a_command(CommandState.SETTLED)]
    assert [
        (budget.moves_left_this_hour, budget.cordons_left_this_hour)
        for minutes in (30, 61)
        for budget in [budget_of(SNAPSHOT, over, settings, START + timedelta(minutes=minutes))]
    ] == [(1, 1), (2, 2)]


def test_queues_and_gpus_have_a_share_of_their_own():
    settings = PlanSettings(moves_ratio_max_per_queue=0.5, moves_max_per_queue=3, moved_gpus_ratio_max=0.5)
    jobs = [a_workload(f"j{n}", on={f"gpu-{n:02d}": range(8)}) for n in range(1, 5)]
    snapshot = replace(SNAPSHOT, workloads=(*SNAPSHOT.workloads, *jobs))
    free = budget_of(snapshot, (), settings, START)
    assert (dict(free.moves_left_by_queue), free.gpus_movable) == ({"research": 2}, 20)
    busy = budget_of(snapshot, [a_command()], settings, START)
    assert (dict(busy.moves_left_by_queue), busy.gpus_movable) == ({"research": 1}, 12)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (Budget(gpus_movable=7), "8 GPUs needed, 7 left of those whose work may stop at once."),
        (Budget(moves_left_this_hour=0), "1 move needed, 0 left of those allowed in one hour."),
        (Budget(cordons_left_this_hour=0), "1 cordon needed, 0 left of those allowed in one hour."),
        (
            Budget(nodes_cordonable_by_rack={"r1": 0}),
            "1 cordon needed, 0 left of the nodes of rack r1 that may stand cordoned by trimtab.",
        ),
    ],
)
def test_each_limit_says_no_with_its_number(budget, said):
    plan = Planner(SETTINGS).propose(SNAPSHOT, [a_finding(node="gpu-00", loss_gpus=8.0)], budget)
    assert [(one.rule, one.sentence) for one in plan.refusals] == [("budget", f"Not moved: {said}")]
