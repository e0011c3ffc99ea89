"""The adapter on a Volcano cluster in memory: single pods replaced and whole gangs moved, each on its seat."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.schedulers.volcano_hall import (
    EVICTED_RESTARTS,
    HARD,
    RACK_1,
    Hall,
    a_move,
    a_task,
    command_of,
    one_pod_away,
    refusal_of,
    settled,
    vcjob,
    whole_away,
)

from trimtab.errors import SchedulerBusy, SchedulerRefused

# --- one pod


@pytest.mark.parametrize("beat_seconds", [1.0, 5.0, 12.0])
def test_one_pod_is_replaced_on_its_seat_though_a_competitor_waits_for_it(beat_seconds: float) -> None:
    hall = Hall(racks=1)
    workload = hall.run(vcjob("train", networkTopology=HARD))
    uids = hall.uids()
    command, after, left = one_pod_away(hall, workload)
    hall.adapter.hold(command)
    hall.run(vcjob("rival", pods=1), seconds=1)
    hall.carry_out(command, lambda: hall.nodes_of() == after, beat_seconds=beat_seconds)
    assert hall.status() == ("Running", 0)
    kept = [pod for pod, uid in hall.uids().items() if uids[pod] == uid]
    assert kept == ["train-worker-0", "train-worker-2", "train-worker-3"]
    assert hall.nodes_of("rival") == {}
    hall.adapter.release(settled(command))
    assert hall.ours() == [f"{left}: trimtab/hold"]  # the bad node stays cordoned


def test_without_a_kept_seat_the_competitor_takes_it_and_the_gang_stands() -> None:
    """What the seat is for: the same eviction with a cordon alone."""
    hall = Hall(racks=1)
    hall.run(vcjob("train", networkTopology=HARD))
    command, _, left = one_pod_away(hall, "team-a/vcjob/train")
    hall.desk.nodes.cordon(command, left)
    hall.run(vcjob("rival", pods=1), seconds=3)
    hall.desk.nodes.evict(command, hall.view().pods["team-a/train-worker-1"])
    hall.advance(20)
    assert len(hall.nodes_of("rival")) == 1
    assert len(hall.nodes_of()) == 3


def test_two_pods_are_replaced_one_after_the_other() -> None:
    hall = Hall(racks=1, per_rack=4, has_racks=False)
    workload = hall.run(vcjob("train", pods=4, gpus=4))
    before = hall.nodes_of()
    left = before["train-worker-0"]
    gone = [pod for pod, node in before.items() if node == left]
    spares = [node for node in RACK_1[:4] if node not in before.values()]
    after = {**before, **dict(zip(gone, spares, strict=True))}
    command = command_of([a_move(workload, before, after, replaced=gone, gpus=4)], cordons=[left])
    short: list[int] = []

    def is_there() -> bool:
        short.append(len(hall.nodes_of()))
        return hall.nodes_of() == after

    hall.carry_out(command, is_there, beat_seconds=1.0)
    assert min(short) == 3
    assert hall.said == []


def test_a_policy_that_reacts_to_a_lost_pod_forbids_to_replace_it_alone() -> None:
    hall = Hall(racks=1)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, _, _ = one_pod_away(hall, workload)
    sentence = refusal_of(hall, command.recommendation.moves[0])
    assert "evicting train-worker-1" in sentence
    assert "“job: PodEvicted → RestartJob” restarts the whole job" in sentence
    hall.adapter.hold(command)
    with pytest.raises(SchedulerRefused, match="PodEvicted → RestartJob"):
        hall.adapter.submit(command)
    hall.advance(10)
    assert hall.status() == ("Running", 0)


def test_the_last_pod_of_a_master_task_is_never_evicted() -> None:
    """It would exit with 0, and the job would be Completed with its work undone."""
    hall = Hall(racks=1)
    done = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    tasks = [a_task("master", 1, policies=done), a_task("worker", 3)]
    workload = hall.run(vcjob("train", tasks=tasks))
    command, _, _ = one_pod_away(hall, workload, "train-master-0")
    sentence = refusal_of(hall, command.recommendation.moves[0])
    assert "task master has one running pod left" in sentence
    whole = a_move(workload, hall.nodes_of(), hall.nodes_of())
    assert refusal_of(hall, whole) == ""
    worker, after, _ = one_pod_away(hall, workload, "train-worker-0")
    hall.carry_out(worker, lambda: hall.nodes_of() == after)
    assert hall.status() == ("Running", 0)


def test_a_disruption_budget_is_asked_and_one_that_cannot_work_is_named() -> None:
    hall = Hall(racks=1)
    workload = hall.run(vcjob("train"))
    command, _, _ = one_pod_away(hall, workload)
    selector = {"matchLabels": {"volcano.sh/job-name": "train"}}
    hall.kube.add(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": "team-a"},
            "spec": {"minAvailable": 4, "selector": selector},
        }
    )
    assert "the disruption budget keep" in refusal_of(hall, command.recommendation.moves[0])
    hall.adapter.hold(command)
    with pytest.raises(SchedulerBusy, match="disruption budget keep"):
        hall.adapter.submit(command)
    path = "/apis/policy/v1/namespaces/team-a/poddisruptionbudgets/keep"
    hall.kube.edit(path, {"spec": {"minAvailable": None, "maxUnavailable": 1}})
    assert "unevictable by PDB error: keep counts in a way" in refusal_of(hall, command.recommendation.moves[0])


def test_a_pod_on_a_silent_node_is_not_evicted_and_the_cure_is_said() -> None:
    hall = Hall(racks=1)
    workload = hall.run(vcjob("train"))
    command, _, left = one_pod_away(hall, workload)
    hall.kube.edit(f"/api/v1/nodes/{left}", {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}})
    sentence = refusal_of(hall, command.recommendation.moves[0])
    assert f"the kubelet of {left} is silent" in sentence
    assert "Delete them by force first" in sentence


def test_nothing_is_evicted_from_a_node_that_takes_it_back() -> None:
    hall = Hall(racks=1)
    workload = hall.run(vcjob("train"))
    command, _, left = one_pod_away(hall, workload)
    hall.adapter.hold(command)
    hall.kube.edit(f"/api/v1/nodes/{left}", {"spec": {"unschedulable": None}}, by="kubectl-uncordon")
    with pytest.raises(SchedulerBusy, match=f"{left} is open"):
        hall.adapter.submit(command)
    assert hall.status() == ("Running", 0)


# --- the whole gang


def test_a_gang_without_policies_goes_to_zero_and_back_on_the_seats_of_another_rack_at_no_retry() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", maxRetry=1, networkTopology=HARD))
    bad = hall.nodes_of()["train-worker-0"]
    command, after = whole_away(hall, workload, cordons=[bad])
    hall.adapter.hold(command)
    hall.run(vcjob("rival", pods=2), seconds=1)
    hall.carry_out(command, lambda: hall.nodes_of() == after)
    assert hall.status() == ("Running", 0)
    assert hall.job()["spec"]["minAvailable"] == 4
    hall.adapter.release(settled(command))
    assert hall.ours() == [f"{bad}: trimtab/hold"]


def test_a_gang_with_a_restart_policy_is_moved_by_one_command_for_one_retry() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS], networkTopology=HARD))
    bad = hall.nodes_of()["train-worker-0"]
    command, after = whole_away(hall, workload, cordons=[bad])
    hall.adapter.hold(command)
    hall.run(vcjob("rival", pods=2), seconds=1)
    hall.carry_out(command, lambda: hall.nodes_of() == after)
    assert hall.status() == ("Running", 1)
    assert len([line for line in hall.kube.writes if line.startswith("POST") and "/commands" in line]) == 1
    hall.adapter.release(settled(command))
    assert hall.ours() == [f"{bad}: trimtab/hold"]


def test_a_gang_keeps_the_seats_it_has_while_it_is_stopped() -> None:
    """Three of four pods come back to their own nodes: free for a moment, and wanted by a rival."""
    hall = Hall(racks=1)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS], networkTopology=HARD))
    before = hall.nodes_of()
    left = before["train-worker-2"]
    spare = next(node for node in RACK_1 if node not in before.values())
    after = {**before, "train-worker-2": spare}
    command = command_of([a_move(workload, before, after)], cordons=[left])
    hall.adapter.hold(command)
    hall.run(vcjob("rival", pods=1), seconds=1)
    hall.carry_out(command, lambda: hall.nodes_of() == after)
    assert hall.nodes_of("rival") == {}


def test_two_tasks_go_to_zero_in_one_patch_and_come_back_as_they_were() -> None:
    hall = Hall(racks=2)
    done = [{"event": "TaskCompleted", "action": "CompleteJob"}]
    tasks = [a_task("master", 1, policies=done, annotations={"fake/term-exit": "0"}), a_task("worker", 3)]
    workload = hall.run(vcjob("train", tasks=tasks, maxRetry=1))
    spec = hall.job()["spec"]
    command, after = whole_away(hall, workload, cordons=[])
    hall.carry_out(command, lambda: hall.nodes_of() == after)
    assert hall.job()["spec"] == spec
    assert hall.status() == ("Running", 0)


@pytest.mark.parametrize(("used", "limit"), [(2, 3), (0, 1), (5, 3), (0, 0)])
def test_a_restart_is_refused_where_it_would_be_the_last(used: int, limit: int) -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS], maxRetry=limit))
    path = "/apis/batch.volcano.sh/v1alpha1/namespaces/team-a/jobs/train"
    hall.kube.edit(path, {"status": {"retryCount": used}})
    command, _ = whole_away(hall, workload, cordons=[])
    sentence = refusal_of(hall, command.recommendation.moves[0])
    assert f"it has used {used} of {limit} retries, and restart {used + 1} fails it for good" in sentence
    hall.adapter.hold(command)
    with pytest.raises(SchedulerRefused, match="fails it for good"):
        hall.adapter.submit(command)
    assert not [line for line in hall.kube.writes if "/commands" in line]


def test_a_job_is_restarted_no_oftener_than_its_retries_allow_however_often_we_want() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    refused = 0
    for number in range(11, 16):
        command, after = whole_away(hall, workload, cordons=[])
        command = replace(command, id=number)
        if refusal_of(hall, command.recommendation.moves[0]):
            refused += 1
            continue
        hall.carry_out(command, lambda after=after: hall.nodes_of() == after)
        hall.adapter.release(settled(command))
    assert (hall.status(), hall.most_retries, refused) == (("Running", 2), 2, 3)
    assert hall.ours() == []


def test_no_room_in_the_rack_is_no_move_of_a_pod_but_one_of_the_gang() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", networkTopology=HARD))
    before = hall.nodes_of()
    away = "n06" if set(before.values()) <= set(RACK_1) else "n01"
    after = {**before, "train-worker-1": away}
    sentence = refusal_of(hall, a_move(workload, before, after, replaced=["train-worker-1"]))
    assert f"it must stay within one HyperNode of tier 1 and {away} is outside of rack-" in sentence
    whole, _ = whole_away(hall, workload, cordons=[])
    assert refusal_of(hall, whole.recommendation.moves[0]) == ""
