from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

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
    assert budget_of(SNAPSHOT, (), SETTINGS, START) == Budget(moves_left=4, nodes_cordonable=3, spares_kept=1)


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
