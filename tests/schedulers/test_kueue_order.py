"""Who would be served before whom under Kueue, which queues are held for it, and the way that is told beforehand."""

from __future__ import annotations

from typing import Any

from tests.cluster import objects
from tests.schedulers.kueue_world import SPACE, World
from tests.schedulers.test_kueue_rules import edit, move_of, swap, why_not, world

from trimtab.model.command import MoveKind
from trimtab.schedulers.kueue_objects import KueueWorkload
from trimtab.schedulers.kueue_seats import seat_key

__all__ = ["swap", "world"]  # pytest finds fixtures by name here


def test_a_quota_reason_is_not_answered_by_a_move():
    world = World(nodes=4, per_rack=4, gpus=8)
    world.run_gang("train", pods=1)
    world.gang("late", pods=1)
    world.settle()
    move = move_of(world, "late", "n3", kind=MoveKind.CONSOLIDATE)
    assert str(why_not(world, move)).startswith("Not moved: late waits for quota (couldn't assign flavors")


def test_room_for_one_who_is_not_served_first_is_refused():
    world = World(nodes=2, per_rack=2)
    for index in range(2):
        world.run_gang(f"v{index}", pods=1, gpus=5)
    for name in ("first", "second"):
        world.gang(name, pods=1, gpus=8)
        world.settle()
    move = move_of(world, "second", "n1", kind=MoveKind.CONSOLIDATE)
    first = world.workload("first")["metadata"]["name"]
    assert why_not(world, move) == f"Not moved: team-a/{first} is served before second and would take the room."
    assert why_not(world, move_of(world, "first", "n1", kind=MoveKind.CONSOLIDATE)) is None


def an_older_one_waits_for_quota(**options: Any) -> World:
    """`older` waits in front of `train`, in the same queue, and would fit into its quota."""
    world = World(nodes=4, per_rack=4, gpus=16)
    if options:
        edit(world, "clusterqueues", "tas", {"spec": options})
    world.gang("older", pods=2)
    world.kube.edit(f"/apis/batch/v1/namespaces/{SPACE}/jobs/older", {"spec": {"parallelism": 3}})
    world.settle()
    if not options:
        world.run_gang("train", pods=1)
    return world


def test_an_older_one_that_waits_for_quota_in_the_same_queue_is_a_refusal():
    world = an_older_one_waits_for_quota()
    pod_set = {**world.workload("older")["spec"]["podSets"][0], "count": 2}
    world.kube.edit(world.path("older"), {"spec": {"podSets": [pod_set]}})
    older = world.workload("older")["metadata"]["name"]
    said = why_not(world, move_of(world, "train", "n3"))
    assert said == f"Not moved: team-a/{older} waits for quota in front of train in the same queue and would take it."


def test_in_a_strict_queue_nobody_moves_behind_a_blocked_head(world: World):
    edit(world, "clusterqueues", "tas", {"spec": {"queueingStrategy": "StrictFIFO"}})
    priority = {"apiVersion": "kueue.x-k8s.io/v1beta2", "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}}
    world.kube.add({**priority, "value": 10})
    world.gang("head", pods=20, labels={objects.PRIORITY_CLASS: "high"})
    world.settle()
    head = world.workload("head")["metadata"]["name"]
    assert why_not(world, move_of(world, "train", "n3", "n4")) == (
        f"Not moved: tas is StrictFIFO and team-a/{head} would be served before train, which waits behind."
    )


def test_a_hold_that_would_take_a_reservation_of_another_check_is_a_refusal(world: World):
    world.add_queue("peer", checks=["provisioning"])
    world.kube.add(objects.admission_check("provisioning", controller="else.example/p"))
    said = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    edit(world, "admissionchecks", "provisioning", {"status": {"conditions": [said]}})
    world.gang("waits", pods=1, queue="peer")
    world.gang("also", pods=30, queue="peer")
    world.settle()
    waits = world.workload("waits")["metadata"]["name"]
    assert why_not(world, move_of(world, "train", "n3", "n4")) == (
        f"Not moved: a Hold on queue peer would take the quota of team-a/{waits}, which waits for provisioning."
    )


def test_more_queues_than_are_held_for_one_move_are_a_refusal(world: World):
    for index in range(17):
        world.add_queue(f"q{index}")
        world.gang(f"w{index}", pods=30, queue=f"q{index}")
    world.settle()
    assert why_not(world, move_of(world, "train", "n3", "n4")) == (
        "Not moved: 18 queues where jobs wait could take the quota or the room of train; "
        "more than 16 are not held for one move."
    )


def test_queues_of_other_nodes_and_cohorts_are_left_alone(world: World):
    world.kube.add(objects.flavor("far", node_labels={objects.POOL: "b"}, topology_name="dc"))
    world.add_queue("far", flavor="far")
    world.gang("waits", pods=1, queue="far")
    world.settle()
    world.bad("n1")
    world.beat_until(world.has_settled)
    assert "hold ClusterQueue far" not in world.said


def test_the_way_of_a_whole_move_is_lines_to_copy(world: World):
    world.bad("n1")
    world.beat()
    advice = world.commands[0].recommendation
    name = world.workload("train")["metadata"]["name"]
    assert advice.steps == (
        "kubectl cordon n1",
        """kubectl patch clusterqueue tas --type=merge -p '{"spec": {"stopPolicy": "Hold"}}'""",
        f"""kubectl -n team-a patch workload {name} --type=merge -p '{{"spec": {{"active": false}}}}'""",
        f"kubectl -n team-a wait workload/{name} --for=condition=QuotaReserved=False --timeout=10m",
        "# and until none of their pods is left",
        f"""kubectl -n team-a patch workload {name} --type=merge -p '{{"spec": {{"active": true}}}}'""",
        """kubectl patch clusterqueue tas --type=merge -p '{"spec": {"stopPolicy": "None"}}'""",
    )
    assert advice.way == (
        "Whole gang by deactivate and reactivate, on seats that Kueue chooses, their queues held meanwhile; "
        "about 34 s until all of it runs."
    )


def test_the_same_cluster_gives_the_same_steps(world: World):
    world.bad("n1")
    world.beat()
    first = world.commands[0].recommendation
    world.gang("other", pods=30)
    world.settle()
    way = world.adapter.way(first, world.reader.snapshot())
    assert way.steps == first.steps
    assert way.against == ()


def test_the_way_of_a_swap_is_an_eviction(swap: World):
    pod = next(one for one in swap.pods("train") if one["spec"]["nodeName"] == "n1")["metadata"]["name"]
    swap.bad("n1")
    swap.beat()
    advice = swap.commands[0].recommendation
    assert advice.steps[0] == "kubectl cordon n1"
    assert advice.steps[1].endswith(f"| kubectl create --raw /api/v1/namespaces/team-a/pods/{pod}/eviction -f -")
    assert advice.way.startswith("Hot swap of 1 pod: evicted off the cordoned node, the others run on; about ")


def test_with_our_check_the_way_names_the_seats():
    world = World(has_check=True)
    world.run_gang("train", pods=2, queue="seats")
    world.bad("n1")
    world.beat()
    steps = world.commands[0].recommendation.steps
    key = seat_key("trimtab", KueueWorkload(world.workload("train")))
    assert f"kubectl label node n10 n6 {key}=kept" in steps
    assert "on the seats of the plan by our AdmissionCheck" in world.commands[0].recommendation.way
