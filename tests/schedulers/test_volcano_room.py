"""Room made for somebody who waits, pods of other controllers, quota, and what the adapter says."""

from __future__ import annotations

from typing import Any

import pytest
from tests.schedulers.volcano_hall import (
    EVICTED_RESTARTS,
    RACK_1,
    RACK_2,
    Hall,
    a_move,
    command_of,
    recommendation_of,
    refusal_of,
    settled,
    vcjob,
    whole_away,
)

from trimtab.model.command import MoveKind

# --- room for somebody who waits


@pytest.mark.parametrize("policies", [[], [EVICTED_RESTARTS]])
def test_victims_take_their_seats_and_the_waiting_job_the_node_though_small_jobs_keep_coming(
    policies: list[Any],
) -> None:
    hall = Hall(racks=2, per_rack=4, has_racks=False)
    hall.close("n05", "n06", "n07", "n08")
    for node in ("n03", "n04"):
        hall.run_on(vcjob(f"full-{node}", pods=1), node)
    hall.run_on(vcjob("half", pods=1, gpus=4), "n02")
    victims = [hall.run_on(vcjob(name, pods=1, gpus=2, policies=policies), "n01") for name in ("a", "b")]
    waits = hall.run(vcjob("big", pods=1), seconds=3)
    assert hall.nodes_of("big") == {}
    moves = [
        a_move(victim, {f"{name}-worker-0": "n01"}, {f"{name}-worker-0": "n02"}, gpus=2, kind=MoveKind.CONSOLIDATE)
        for victim, name in zip(victims, "ab", strict=True)
    ]
    moves.append(a_move(waits, {}, {"big-worker-0": "n01"}, kind=MoveKind.CONSOLIDATE))
    command = command_of(moves)
    assert [refusal_of(hall, move) for move in moves] == ["", "", ""]
    small: list[str] = []

    def is_there() -> bool:
        small.extend([f"small-{len(small) + more}" for more in range(4)])
        for name in small[-4:]:
            hall.run(vcjob(name, pods=1, gpus=1), seconds=0)
        hall.advance(2)
        where = (hall.nodes_of("big"), hall.nodes_of("a"), hall.nodes_of("b"))
        return where == ({"big-worker-0": "n01"}, {"a-worker-0": "n02"}, {"b-worker-0": "n02"})

    hall.carry_out(command, is_there, beat_seconds=3.0)
    assert any(hall.nodes_of(name) == {} for name in small)  # they wanted the room, and did not get it
    hall.adapter.release(settled(command))
    assert hall.ours() == []


def test_pods_of_a_batch_job_are_evicted_one_by_one_onto_their_seats() -> None:
    hall = Hall(racks=1, has_racks=False)
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "lab", "uid": "job-uid", "controller": True}
    hall.kube.add(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"name": "lab", "namespace": "team-a", "uid": "job-uid"},
            "spec": {"parallelism": 2},
        }
    )

    def make(name: str) -> None:
        container = {"name": "c", "image": "x", "resources": {"requests": {"nvidia.com/gpu": "8"}}}
        body = {
            "metadata": {"name": name, "namespace": "team-a", "ownerReferences": [job], "labels": {}},
            "spec": {"schedulerName": "volcano", "containers": [container], "terminationGracePeriodSeconds": 30},
        }
        hall.kube.post("/api/v1/namespaces/team-a/pods", body)
        hall.advance(6)

    def seats() -> list[str]:
        return sorted(pod.spec.node_name for pod in hall.view().pods_of.get("team-a/job/lab", ()) if pod.spec.node_name)

    make("lab-1")
    make("lab-2")
    first, second = (hall.view().pods[f"team-a/lab-{number}"].spec.node_name for number in (1, 2))
    free = [node for node in RACK_1 if node not in (first, second)]
    hall.close(free[1], free[2])
    before, after = {"lab-1": first, "lab-2": second}, {"lab-1": free[0], "lab-2": second}
    move = a_move("team-a/job/lab", before, after)
    command = command_of([move], cordons=[first])
    assert refusal_of(hall, move) == ""
    way = hall.adapter.way(command.recommendation, hall.snapshot())
    assert "placed anew after about 17 s" in way.sentence
    assert any("10 s after its eviction" in text for text in way.against)
    hall.adapter.hold(command)
    hall.beat(command)
    assert seats() == [second]
    make("lab-3")
    assert seats() == [second]
    hall.beat(command)
    assert seats() == sorted([second, free[0]])
    hall.beat(command)
    assert [line for line in hall.kube.writes if line.endswith("/eviction")] == [
        "POST /api/v1/namespaces/team-a/pods/lab-1/eviction"
    ]


def test_a_bare_pod_is_refused() -> None:
    hall = Hall(racks=1)
    move = a_move("team-a/pod/alone", {"alone": "n01"}, {"alone": "n02"})
    assert "it is a bare pod, and nothing makes it anew" in refusal_of(hall, move)


def test_quota_that_a_waiting_job_would_take_while_ours_is_stopped_forbids_the_stop() -> None:
    hall = Hall(racks=2)
    queue = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "Queue",
        "metadata": {"name": "small"},
        "spec": {"weight": 1, "capability": {"nvidia.com/gpu": "40"}},
        "status": {"state": "Open", "allocated": {"nvidia.com/gpu": "32"}},
    }
    hall.kube.add(queue)
    workload = hall.run(vcjob("train", queue="small"))
    hall.run(vcjob("other", pods=2, queue="small"), seconds=3)
    command, _ = whole_away(hall, workload, cordons=[])
    sentence = refusal_of(hall, command.recommendation.moves[0])
    assert "team-a/other-" in sentence
    assert "would take its quota" in sentence


def test_a_closed_queue_forbids_the_stop() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.kube.edit("/apis/scheduling.volcano.sh/v1beta1/queues/default", {"status": {"state": "Closed"}})
    assert "queue default is Closed" in refusal_of(hall, command.recommendation.moves[0])


# --- words


def test_the_way_is_the_same_twice_and_names_path_time_and_lines() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, _ = whole_away(hall, workload, cordons=["n01"])
    recommendation = recommendation_of(command.recommendation.moves, cordons=["n01"])
    way = hall.adapter.way(recommendation, hall.snapshot())
    assert way == hall.adapter.way(recommendation, hall.snapshot())
    assert "scaled to zero and back, at no retry; placed anew after about 12 s" in way.sentence
    assert way.steps[0] == "kubectl cordon n01"
    others = sorted(set(hall.nodes_of().values()) - {seat.node for seat in recommendation.moves[0].after} - {"n01"})
    for node in others:
        assert f"kubectl taint nodes {node} trimtab/left=:NoSchedule" in way.steps
        assert f"kubectl taint nodes {node} trimtab/left-" in way.steps
    verbs = [line.split(" ")[1] for line in way.steps if "trimtab/left" not in line]
    assert verbs == ["cordon", *["taint"] * 4, "patch", "wait", *["patch"] * 5, *["taint"] * 4]


def test_the_way_of_a_gang_with_a_policy_names_the_policy_and_the_retry() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, _ = whole_away(hall, workload, cordons=[])
    way = hall.adapter.way(command.recommendation, hall.snapshot())
    assert (
        "“job: PodEvicted → RestartJob” restarts the whole job, so one RestartJob stops all of it at once"
        in way.sentence
    )
    assert "it has used 0 of 3 retries and a restart costs one" in way.sentence
    assert any('"action": "RestartJob"' in line and line.endswith("kubectl create -f -") for line in way.steps)
    assert any("loses one of its retries" in text for text in way.against)


def test_a_job_that_waits_is_only_steered_and_called_by_its_own_pods_names() -> None:
    hall = Hall(racks=2)
    hall.close(*RACK_2)
    hall.run(vcjob("full", pods=5))
    workload = hall.run(vcjob("train", pods=1))
    move = a_move(workload, {}, {"train-0": "n01"}, kind=MoveKind.CONSOLIDATE)  # as the planner calls who has no seat
    way = hall.adapter.way(recommendation_of([move]), hall.snapshot())
    assert "it waits, and is let onto its seats" in way.sentence
    assert [line for line in way.steps if line.startswith("kubectl patch pod train-worker-0 -n team-a")]
