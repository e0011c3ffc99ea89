"""The adapter on a Volcano cluster in memory: pods replaced, gangs moved, seats kept, everything given back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.schedulers.volcano_hall import Hall, a_move, a_task, command_of, recommendation_of, vcjob

from trimtab.errors import SchedulerBusy, SchedulerError, SchedulerRefused, SchedulerUnavailable
from trimtab.model.command import Command, CommandState, Move, MoveKind

EVICTED_RESTARTS = {"event": "PodEvicted", "action": "RestartJob"}
HARD = {"mode": "hard", "highestTierAllowed": 1}
RACK_1 = ["n01", "n02", "n03", "n04", "n05"]
RACK_2 = ["n06", "n07", "n08", "n09", "n10"]


def settled(command: Command) -> Command:
    return replace(command, state=CommandState.SETTLED)


def abandoned(command: Command) -> Command:
    return replace(command, state=CommandState.ABANDONED)


def one_pod_away(hall: Hall, workload: str, pod: str = "train-worker-1") -> tuple[Command, dict[str, str], str]:
    """The command that moves one pod alone to the free node of its rack, what is planned, and the node it leaves."""
    before = hall.nodes_of()
    left = before[pod]
    rack = RACK_1 if left in RACK_1 else RACK_2
    spare = next(node for node in rack if node not in before.values())
    after = {**before, pod: spare}
    return command_of([a_move(workload, before, after, replaced=[pod])], cordons=[left]), after, left


def whole_away(hall: Hall, workload: str, *, cordons: list[str]) -> tuple[Command, dict[str, str]]:
    """The command that moves the whole gang to the other rack, and what is planned."""
    before = hall.nodes_of()
    rack = RACK_2 if set(before.values()) <= set(RACK_1) else RACK_1
    after = dict(zip(sorted(before), rack[:4], strict=True))
    return command_of([a_move(workload, before, after)], cordons=cordons), after


def refusal_of(hall: Hall, move: Move) -> str:
    refusal = hall.adapter.refusal(move, hall.snapshot())
    return "" if refusal is None else refusal.sentence


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
    command, _, left = one_pod_away(hall, workload, "train-master-0")
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


# --- Commands


def test_a_command_that_nobody_takes_is_withdrawn_and_never_fires_later() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    hall.world.stop("controller")
    hall.adapter.submit(command)
    assert len(hall.kube.all("commands.bus.volcano.sh")) == 1
    hall.advance(5)
    hall.adapter.submit(command)
    hall.advance(6)
    with pytest.raises(SchedulerRefused, match="did not take RestartJob for team-a/train within 10 s: withdrawn"):
        hall.adapter.submit(command)
    hall.adapter.release(abandoned(command))
    assert hall.ours() == []
    hall.world.start("controller")
    hall.advance(20)
    assert hall.status() == ("Running", 0)


def test_a_command_whose_answer_is_lost_is_not_posted_again() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, after = whole_away(hall, workload, cordons=[])
    hall.kube.fail(SchedulerUnavailable("gone"), "POST /apis/bus.volcano.sh", is_after=True)
    hall.carry_out(command, lambda: hall.nodes_of() == after)
    assert hall.said == ["gone"]
    assert hall.status() == ("Running", 1)


def test_a_command_that_never_arrived_is_posted_again_after_a_while() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, after = whole_away(hall, workload, cordons=[])
    hall.kube.fail(SchedulerUnavailable("gone"), "POST /apis/bus.volcano.sh")
    hall.carry_out(command, lambda: hall.nodes_of() == after)
    assert hall.status() == ("Running", 1)


def test_a_restart_by_somebody_else_meanwhile_takes_the_place_of_ours() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, after = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    hall.world.stop("controller")
    hall.adapter.submit(command)
    pod = hall.view().pods["team-a/train-worker-0"]
    ours = hall.kube.all("commands.bus.volcano.sh")[0]["metadata"]["name"]
    path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/team-a/jobs/{'train'}"
    hall.kube.edit(path, {"status": {"retryCount": 1, "state": {"phase": "Restarting"}}})
    hall.adapter.submit(command)
    assert ours not in [one["metadata"]["name"] for one in hall.kube.all("commands.bus.volcano.sh")]
    assert pod.metadata.uid
    del after


def test_dead_parts_are_noticed_and_said() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.run(vcjob("waits", pods=1, gpus=1), seconds=0)
    hall.world.stop("scheduler")
    hall.advance(1)
    hall.kube.add(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": "late",
                "namespace": "team-a",
                "labels": {},
                "annotations": {"scheduling.k8s.io/group-name": "g"},
                "creationTimestamp": hall.world.clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            "spec": {"schedulerName": "volcano", "containers": []},
            "status": {"phase": "Pending"},
        }
    )
    hall.advance(20)
    sentence = refusal_of(hall, command.recommendation.moves[0])
    assert "Volcano's scheduler seems to be down: it has said nothing of pod team-a/" in sentence


def test_an_old_lease_of_volcanos_keeps_everything_running() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    renewed = hall.world.clock.now().strftime("%Y-%m-%dT%H:%M:%S.000000Z")
    hall.kube.add(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "vc-controller-manager", "namespace": "volcano-system"},
            "spec": {"holderIdentity": "a", "renewTime": renewed, "leaseDurationSeconds": 15},
        }
    )
    hall.advance(70)
    with pytest.raises(SchedulerBusy, match="controller-manager seems to be down: its Lease was renewed 7"):
        hall.adapter.submit(command)
    assert hall.job()["spec"]["minAvailable"] == 4


# --- crash anywhere


def test_a_crash_before_or_after_any_write_restarts_once_and_loses_nothing() -> None:
    """Every write of a gang's move by one Command, killed before it and after it, then begun anew."""
    assert _crash_everywhere([EVICTED_RESTARTS], retries=1) >= 30


def test_a_crash_before_or_after_any_write_brings_a_job_at_zero_back() -> None:
    assert _crash_everywhere([], retries=0) >= 30


class _Killed(BaseException):
    pass


def _crash_everywhere(policies: list[dict[str, Any]], *, retries: int) -> int:
    points = 0
    while True:
        hall = Hall(racks=2)
        workload = hall.run(vcjob("train", policies=policies))
        command, after = whole_away(hall, workload, cordons=[hall.nodes_of()["train-worker-0"]])
        if not _carry_out_killed_at(hall, command, after, points):
            return points
        assert (points, hall.status(), hall.most_retries) == (points, ("Running", retries), retries)
        assert len(hall.ours()) == 1
        points += 1


def _carry_out_killed_at(hall: Hall, command: Command, after: dict[str, str], kill_at: int) -> bool:
    """Whether there was such a point. What is killed is called again, as the daemon does after its start."""
    seen = 0

    def at_point(text: str) -> None:
        nonlocal seen
        if "fieldManager" in text or hall.is_ours:
            seen += 1
            if seen - 1 == kill_at:
                raise _Killed(text)

    hall.kube.at_point = at_point
    hall.do(lambda: hall.adapter.hold(command), _Killed)
    for _ in range(30):
        if hall.nodes_of() == after:
            break
        hall.do(lambda: hall.adapter.submit(command), _Killed)
        hall.advance(5)
    assert hall.nodes_of() == after
    hall.do(lambda: hall.adapter.release(settled(command)), _Killed)
    return seen > kill_at


# --- give back


@pytest.mark.parametrize("policies", [[], [EVICTED_RESTARTS]])
@pytest.mark.parametrize("beats", [0, 1, 2, 3])
def test_released_in_the_middle_the_job_runs_again_and_nothing_of_ours_is_left(policies: list[Any], beats: int) -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=policies))
    spec = hall.job()["spec"]
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    for _ in range(beats):
        hall.beat(command, 1.0)
    hall.adapter.release(abandoned(command))
    hall.advance(20)
    hall.adapter.release(abandoned(command))
    assert hall.ours() == []
    assert hall.job()["spec"] == spec
    assert hall.status()[0] == "Running"
    assert len(hall.nodes_of()) == 4


def test_what_a_person_scaled_meanwhile_is_left_as_it_is() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    hall.beat(command, 1.0)
    path = "/apis/batch.volcano.sh/v1alpha1/namespaces/team-a/jobs/train"
    tasks = hall.job()["spec"]["tasks"]
    hall.kube.edit(path, {"spec": {"minAvailable": 2, "tasks": [{**tasks[0], "replicas": 2, "minAvailable": 2}]}})
    with pytest.raises(SchedulerRefused, match="Somebody scaled team-a/train while it was stopped"):
        hall.adapter.submit(command)
    hall.adapter.release(abandoned(command))
    assert hall.job()["spec"]["tasks"][0]["replicas"] == 2
    assert hall.ours() == []


def test_a_job_that_was_only_stopped_by_abort_is_resumed_on_release() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train", policies=[EVICTED_RESTARTS]))
    command, _ = whole_away(hall, workload, cordons=[])
    stop = [write for write in command.recommendation.writes if write.verb.value != "resume"]
    command = replace(command, recommendation=replace(command.recommendation, writes=tuple(stop)))
    hall.adapter.hold(command)
    hall.beat(command)
    assert hall.status() == ("Aborted", 0)
    for _ in range(5):
        hall.adapter.release(abandoned(command))
        hall.advance(5)
    assert hall.status() == ("Running", 1)
    assert hall.ours() == []


def test_a_taint_that_a_person_took_off_is_a_veto() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, after = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    hall.kube.edit(f"/api/v1/nodes/{after['train-worker-0']}", {"spec": {"taints": None}}, by="kubectl")
    with pytest.raises(SchedulerRefused, match="a veto"):
        hall.adapter.submit(command)
    assert hall.status() == ("Running", 0)


def test_a_node_keeps_seats_for_one_command_at_a_time() -> None:
    hall = Hall(racks=2)
    workload = hall.run(vcjob("train"))
    command, _ = whole_away(hall, workload, cordons=[])
    hall.adapter.hold(command)
    with pytest.raises(SchedulerBusy, match="is kept by 3fa9c1-R11 already"):
        hall.adapter.hold(replace(command, id=12))


# --- room for somebody who waits


def test_victims_take_their_seats_and_the_waiting_job_the_node_though_small_jobs_keep_coming() -> None:
    hall = Hall(racks=1, has_racks=False)
    for name, pods in (("a", 1), ("b", 1)):
        hall.run(vcjob(name, pods=pods, gpus=2, nodes="n01"), seconds=0)
    workload = hall.run(vcjob("big", pods=1, gpus=8), seconds=0)
    del workload


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
    assert [line.split(" ")[1] for line in way.steps] == ["cordon"] + ["taint"] * 4 + ["patch", "wait"] + [
        "patch"
    ] * 5 + ["taint"] * 4


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


def test_a_job_that_waits_is_only_steered() -> None:
    hall = Hall(racks=1)
    workload = hall.run(vcjob("train"), seconds=0)
    move = a_move(workload, {}, {"train-worker-0": "n01"}, kind=MoveKind.CONSOLIDATE)
    assert (
        "it waits, and is let onto its seats" in hall.adapter.way(recommendation_of([move]), hall.snapshot()).sentence
    )


_ = (Callable, SchedulerError)
