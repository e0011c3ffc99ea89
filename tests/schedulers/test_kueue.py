"""Kueue's adapter on the stand-in: what is written in which order, who is kept out, what is asked of our check."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cluster import objects
from tests.schedulers.kueue_world import CHECK, IN_A_RACK, REPLACEABLE, World

from trimtab.model.command import CommandState


def verbs(world: World, *about: str) -> list[str]:
    """First words of the writes that name one of these."""
    return [what.split(" ")[0] for what in world.said if any(name in what for name in about)]


def a_crowd(world: World, queue: str = "tas", nodes: int = 6) -> None:
    """A job of one GPU and one of two on every node, five GPUs left on each."""
    names = [f"n{number + 1}" for number in range(nodes)]
    for index, node in enumerate(names):
        for other in names:
            is_shut = {"spec": {"unschedulable": True if other != node else None}}
            world.kube.edit(f"/api/v1/nodes/{other}", is_shut)
        world.run_gang(f"v{index}a", pods=1, gpus=1, queue=queue)
        world.run_gang(f"v{index}b", pods=1, gpus=2, queue=queue)
    for name in names:
        world.kube.edit(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
    world.settle()


def end_job(world: World, name: str) -> None:
    done = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
    world.kube.edit(f"/apis/batch/v1/namespaces/team-a/jobs/{name}", done)
    world.settle()


def test_a_gang_moves_whole_off_a_bad_node():
    world = World()
    before = world.run_gang("train", topology=IN_A_RACK)
    world.bad(before[0])
    world.beat_until(world.has_settled)
    assert before[0] not in world.seats("train")
    assert len(world.seats("train")) == 4
    assert world.left() == [f"({before[0]}: cordon)"]
    name = world.workload("train")["metadata"]["name"]
    wanted = ["hold", "reserve", "deactivate", "reactivate", "open", "let"]
    assert verbs(world, name, "ClusterQueue") == wanted


def test_a_gang_that_declares_it_loses_one_pod():
    world = World()
    before = world.run_gang("train", topology=IN_A_RACK, can_replace_pods=True, annotations=REPLACEABLE)
    uids = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in world.pods("train")}
    world.bad(before[0])
    world.beat_until(world.has_settled)
    after = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in world.pods("train")}
    assert {uid for uid, node in uids.items() if node != before[0]} <= set(after)
    assert set(after.values()) == {"n2", "n3", "n4", "n5"}
    assert world.left() == [f"({before[0]}: cordon)"]
    assert verbs(world, "deactivate", "hold") == []


def test_where_no_node_of_the_rack_is_free_kueue_moves_the_gang():
    """The plan's seat is gone when the pod is evicted: Kueue throws the whole gang out and brings it back elsewhere."""
    world = World()
    world.run_gang("train", topology=IN_A_RACK, can_replace_pods=True, annotations=REPLACEABLE)
    world.bad("n1")
    while not verbs(world, "evict"):
        world.beat(is_settled=False)
    world.kube.edit("/api/v1/nodes/n5", {"spec": {"unschedulable": True}})
    world.beat_until(world.has_settled)
    assert world.seats("train") == ["n10", "n6", "n7", "n8"] or set(world.seats("train")) <= {
        "n6",
        "n7",
        "n8",
        "n9",
        "n10",
    }
    assert world.left() == ["(n1: cordon)"]


@pytest.mark.parametrize("has_check", [False, True])
def test_room_is_made_and_a_stream_of_small_jobs_takes_none_of_it(has_check: bool):
    world = World(nodes=6, per_rack=6, has_check=has_check)
    queue = "seats" if has_check else "tas"
    a_crowd(world, queue)
    world.gang("big", pods=1, gpus=8, queue=queue)
    world.settle()
    number = 0
    while not world.has_settled():
        assert number < 40, world.told()
        world.gang(f"s{number}", pods=1, gpus=1, queue=queue)
        number += 1
        world.beat()
    assert world.seats("big")
    assert [one for one in world.left() if not one.startswith("(")] == []
    outcome = world.ledger.results[world.commands[0].id]
    if has_check:
        assert outcome.seats_hit == outcome.seats_planned == 3
    world.settle()
    assert all(world.seats(f"s{index}") for index in range(number)), "the stream goes on when it is over"


def test_a_swap_waits_until_the_queue_is_open_again():
    """On one node a gang that loses one pod, and a job that moves whole: in a held queue Kueue swaps nothing."""
    world = World()
    world.run_gang("train", topology=IN_A_RACK, can_replace_pods=True, annotations=REPLACEABLE, gpus=5)
    node = world.seats("train")[0]
    others = [f"n{number}" for number in range(1, 11) if f"n{number}" != node]
    for name in others:
        world.kube.edit(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}})
    world.run_gang("small", pods=1, gpus=2)
    for name in others:
        world.kube.edit(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})
    world.settle()
    uids = {pod["metadata"]["uid"] for pod in world.pods("train") if pod["spec"]["nodeName"] != node}
    world.bad(node)
    world.beat_until(world.has_settled)
    assert uids <= {pod["metadata"]["uid"] for pod in world.pods("train")}
    assert node not in (*world.seats("train"), *world.seats("small"))
    evicted = next(index for index, what in enumerate(world.said) if what.startswith("evict"))
    assert world.said.index("open ClusterQueue tas") < evicted


def test_freed_quota_is_not_stolen():
    """The queue is full and a job waits for quota: held meanwhile, the victim is served first, being older."""
    world = World(nodes=4, per_rack=4, gpus=16)
    before = world.run_gang("train", pods=2)
    world.gang("thief", pods=1)
    world.settle()
    world.bad(before[0])
    world.beat_until(world.has_settled)
    assert len(world.seats("train")) == 2
    assert world.seats("thief") == []


def test_whoever_waits_in_a_peer_queue_of_the_cohort_is_held_too():
    world = World(nodes=4, per_rack=4)
    for name in ("a", "b"):
        world.add_queue(name, gpus=8, cohort="pair")
    before = world.run_gang("train", pods=2, queue="a")
    world.gang("thief", pods=1, queue="b")
    world.settle()
    world.bad(before[0])
    world.beat_until(world.has_settled)
    assert len(world.seats("train")) == 2
    assert world.seats("thief") == []
    assert {"hold ClusterQueue a", "hold ClusterQueue b", "open ClusterQueue a", "open ClusterQueue b"} <= set(
        world.said
    )
    assert world.said.index("open ClusterQueue a") < world.said.index("open ClusterQueue b")


def test_an_older_job_in_another_local_queue_is_held_by_that():
    world = World(nodes=4, per_rack=4, gpus=16)
    world.add_local("other", "tas")
    world.gang("older", pods=3, queue="other")  # waits: 24 GPUs are more than there are
    world.settle()
    before = world.run_gang("train", pods=2)
    world.kube.edit(
        world.path("older"), {"spec": {"podSets": [{**world.workload("older")["spec"]["podSets"][0], "count": 1}]}}
    )
    world.bad(before[0])
    world.beat_until(world.has_settled)
    assert len(world.seats("train")) == 2
    assert world.seats("older") == []
    assert "hold LocalQueue team-a/other" in world.said
    assert world.left() == [f"({before[0]}: cordon)"]


def test_exact_seats_stay_signed_until_the_job_is_gone():
    world = World(has_check=True)
    world.run_gang("train", pods=2, queue="seats", topology=IN_A_RACK)
    world.bad("n1")
    world.beat_until(world.has_settled)
    labels = {one["metadata"]["name"] for one in world.kube.all("nodes") if "seat-" in str(one["metadata"]["labels"])}
    assert labels == set(world.seats("train")) == {"n2", "n3"}
    assert [one for one in world.left() if "podSetUpdates" in one or "label" in one] != []
    assert all(one.startswith("(") for one in world.left())
    world.kube.edit(
        "/apis/batch/v1/namespaces/team-a/jobs/train",
        {"status": {"conditions": [{"type": "Complete", "status": "True"}]}},
    )
    world.settle()
    world.beat()
    assert world.left() == ["(n1: cordon)"]
    assert "seat-" not in str(world.kube.all("nodes"))


def test_undone_a_running_job_keeps_its_label_unsigned_until_it_ends():
    """Without the label its next pod would wait for ever; nothing of ours is left that says it is owed."""
    world = World(has_check=True)
    world.run_gang("train", pods=2, queue="seats", topology=IN_A_RACK)
    world.bad("n1")
    world.beat_until(world.has_settled)
    world.findings.clear()
    command = world.commands[0]
    world.ledger.stored[command.id] = replace(command, undo_requested_by="kim")
    world.beat_until(lambda: world.commands[0].state is CommandState.UNDONE)
    assert world.left() == []
    pod = world.pods("train")[0]["metadata"]["name"]
    world.kube.delete(f"/api/v1/namespaces/team-a/pods/{pod}")
    world.settle()
    assert len(world.seats("train")) == 2, "the pod found its seat again"
    end_job(world, "train")
    world.beat()
    assert "seat-" not in str(world.kube.all("nodes"))


def test_a_job_that_moves_again_takes_its_seat_label_along():
    world = World(has_check=True)
    world.run_gang("train", pods=2, queue="seats", topology=IN_A_RACK)
    for _ in range(2):
        world.bad(world.seats("train")[0])
        world.beat_until(lambda: len(world.commands) == len(world.findings) and world.has_settled())
    labels = {one["metadata"]["name"] for one in world.kube.all("nodes") if "seat-" in str(one["metadata"]["labels"])}
    assert labels == set(world.seats("train"))
    assert len([one for one in world.left() if "podSetUpdates" in one]) == 1
    assert not [one for one in world.left() if not one.startswith("(")]


def test_a_job_with_seats_whose_node_fails_is_let_in_anywhere():
    """Kueue keeps what the check asked for; answered without taking it back, the pods would wait for ever."""
    world = World(has_check=True)
    world.run_gang("train", pods=2, queue="seats", can_replace_pods=True)
    world.bad("n1")
    world.beat_until(world.has_settled)
    world.findings.clear()
    node = world.seats("train")[0]
    world.kube.edit(f"/api/v1/nodes/{node}", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
    pod = next(one for one in world.pods("train") if one["spec"]["nodeName"] == node)
    world.kube.delete(f"/api/v1/namespaces/team-a/pods/{pod['metadata']['name']}")
    world.settle()
    assert len(world.seats("train")) == 2
    assert node not in world.seats("train")
    check = world.workload("train")["status"]["admissionChecks"][0]
    assert check["podSetUpdates"] == []
    world.beat()
    assert "seat-" not in str(world.kube.all("nodes"))


def test_the_check_closes_its_queue_while_no_daemon_runs_and_opens_when_it_is_back():
    world = World(has_check=True)
    running = world.run_gang("train", pods=2, queue="seats")
    world.is_read_by_daemon = False
    world.gang("late", pods=1, queue="seats")
    world.settle()
    assert world.seats("late") == []
    assert world.seats("train") == running, "what runs goes on"
    world.is_read_by_daemon = True
    world.start()
    world.settle()
    assert len(world.seats("late")) == 1


def test_a_check_of_somebody_else_is_not_answered():
    world = World(has_check=True)
    world.kube.remove("/apis/kueue.x-k8s.io/v1beta2/admissionchecks/trimtab")
    world.kube.add(objects.admission_check(CHECK, controller="else.example/check"))
    world.gang("train", pods=1, queue="seats")
    world.settle()
    assert world.seats("train") == []
    assert world.check.step() == (
        "AdmissionCheck trimtab belongs to else.example/check, not to trimtab/seats: it is not answered."
    )


def test_a_command_that_ends_before_the_stop_leaves_nothing():
    world = World()
    world.run_gang("train", topology=IN_A_RACK)
    world.bad("n1")
    while not verbs(world, "reserve"):
        world.beat()
    world.kube.edit("/api/v1/nodes/n5", {"spec": {"unschedulable": True}})
    for node in ("n6", "n7", "n8", "n9", "n10"):
        world.kube.edit(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    world.findings.clear()
    world.beat_until(world.is_over)
    assert world.commands[0].state is not CommandState.SETTLED
    assert world.left() == []
    assert world.seats("train") == ["n1", "n2", "n3", "n4"]
