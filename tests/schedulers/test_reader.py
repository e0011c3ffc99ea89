"""The snapshot as a whole: Kueue's recorded objects, gangs, what is not whole, pause, what is held."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.schedulers.reading import (
    Cluster,
    a_cluster,
    a_metadata,
    annotated,
    devices,
    gone_soon,
    job,
    job_pods,
    node,
    owned_by,
    pod,
    recorded,
    unschedulable,
)

from trimtab.errors import SchedulerUnavailable
from trimtab.model.cluster import Held, Reservation, WorkloadState
from trimtab.model.command import Seat
from trimtab.schedulers.marks import CORDON, SUSPEND, Hold, hold_text

MARK = "trimtab:3fa9c1:R12"


def held(body, *holds: Hold):
    text = hold_text(holds)
    assert text is not None
    return annotated(body, **{"trimtab/hold": text})


def kueue_world(*workloads: str) -> Cluster:
    """Six nodes in racks of four, a topology queue with 96 GPUs, and recorded Workloads."""
    nodes = [node(f"n{index}", labels={"pool": "tas", "topology.trimtab/rack": f"r{index // 4}"}) for index in range(6)]
    kinds = ("topology", "resourceflavor", "clusterqueue", "localqueue")
    return a_cluster(*nodes, *(recorded(name) for name in (*kinds, *workloads)))


# --- not whole


def test_a_server_that_does_not_answer_gives_no_snapshot():
    cluster = a_cluster(node("n0"))
    cluster.api.error = SchedulerUnavailable("no answer within 10 s")
    with pytest.raises(SchedulerUnavailable, match="no answer within 10 s"):
        cluster.snapshot()


def test_what_is_not_whole_gives_no_snapshot_and_its_reason():
    cluster = a_cluster(node("n0"))
    cluster.now = replace(cluster.now, why_not_whole="pods could not be read yet")
    with pytest.raises(SchedulerUnavailable, match="The cluster is not seen whole: pods could not be read yet"):
        cluster.snapshot()
    cluster.now = replace(cluster.now, why_not_whole=None)
    assert cluster.snapshot().nodes[0].name == "n0"
    assert cluster.api.paths == ["/version", "/version"]


def test_an_unchanged_cluster_gives_the_same_snapshot_of_a_later_moment():
    cluster = kueue_world("workload-admitted-tas")
    before = cluster.snapshot()
    cluster.clock.advance(5)
    after = cluster.snapshot()
    assert after == replace(before, taken_at=cluster.clock.now())
    assert after.workloads is before.workloads  # nothing was made anew
    cluster.says["n0"] = devices("n0")
    assert cluster.node("n0").gpus[0].uuid == "GPU-n0-0"
    cluster.put(node("n9"))
    assert "n9" in cluster.snapshot().node_by_name


# --- Kueue, as recorded


def test_an_admitted_gang_with_its_pods_runs_where_its_pods_are():
    cluster = kueue_world("workload-admitted-tas", "job-running").put(recorded("pod-running-tas"))
    second = recorded("pod-running-tas")
    second["metadata"] |= {"name": "train-1-zzzzz", "uid": "another", "labels": {
        **second["metadata"]["labels"], "batch.kubernetes.io/job-completion-index": "1"}}  # fmt: skip
    second["spec"] |= {"nodeName": "n1"}
    cluster.put(second)
    train = cluster.workload("a/job/train")
    assert (train.controller, train.queue, train.tenant) == ("kueue", "tas", "a")
    assert (train.state, train.pods, train.gpus_per_pod) == (WorkloadState.RUNNING, 2, 8)
    assert [(one.pod, one.rank, one.node, one.gpus) for one in train.placements] == [
        ("train-0-6r6sj", 0, "n0", tuple(f"n0#{index}" for index in range(8))),
        ("train-1-zzzzz", 1, "n1", tuple(f"n1#{index}" for index in range(8))),
    ]
    assert (train.together, train.pool, train.stop_seconds) == ("rack", "tas", 5.0)
    view = cluster.reader.view
    assert [one.metadata.name for one in view.pods_of["a/job/train"]] == ["train-0-6r6sj", "train-1-zzzzz"]
    assert view.kueue_of["a/job/train"].metadata.name == "job-train-7b2dc"
    assert view.owner_of["a/job/train"].spec["backoffLimit"] == 6


@pytest.mark.parametrize(
    ("name", "id_", "reason", "pods"),
    [
        ("workload-pending-quota", "a/job/huge", "quota", 13),
        ("workload-pending-topology", "a/job/tight", "placement", 5),
    ],
)
def test_a_pending_workload_waits_for_what_kueue_says(name: str, id_: str, reason: str, pods: int):
    waiting = kueue_world(name).workload(id_)
    assert (waiting.state, waiting.waiting_reason) == (WorkloadState.WAITING, reason)
    assert (waiting.pods, waiting.gpus_per_pod, waiting.queue) == (pods, 8, "tas")
    assert waiting.waiting_since is not None
    assert waiting.waiting_since.isoformat() == "2026-11-30T03:06:29+00:00"


def test_a_workload_whose_check_is_open_is_no_matter_of_placement():
    waiting = kueue_world("workload-reserved-check-pending").workload("a/job/chk")
    assert waiting.state is WorkloadState.WAITING
    assert waiting.waiting_reason == "quota: reserved, and not admitted before its checks are ready (gpu-health)"


def test_a_deactivated_workload_is_suspended_and_by_us_where_our_mark_says_so():
    cluster = kueue_world("workload-deactivated", "job-suspended")
    stopped = cluster.workload("a/job/train")
    assert (stopped.state, stopped.suspended_by) == (WorkloadState.SUSPENDED, None)
    cluster.put(held(recorded("workload-deactivated"), Hold(mark=MARK, what=(SUSPEND,))))
    snapshot = cluster.snapshot()
    assert snapshot.workload_by_id["a/job/train"].suspended_by == MARK
    assert snapshot.held == ()


def test_a_deactivated_workload_whose_pods_still_end_is_stopping():
    cluster = kueue_world("workload-deactivated", "job-suspended").put(recorded("pod-evicting"))
    stopping = cluster.workload("a/job/train")
    assert stopping.state is WorkloadState.STOPPING
    assert len(stopping.placements) == 1


def test_our_stop_of_what_runs_again_is_still_held():
    cluster = kueue_world("job-running").put(held(recorded("workload-admitted-tas"), Hold(mark=MARK, what=(SUSPEND,))))
    snapshot = cluster.snapshot()
    assert snapshot.workload_by_id["a/job/train"].suspended_by is None
    assert snapshot.held == (Held(mark=MARK, what="suspend on workload a/job-train-7b2dc"),)


def test_a_job_of_kueues_whose_workload_is_not_seen_is_kueues_and_left_alone():
    bodies = [recorded("job-running"), recorded("pod-running-tas")]
    assert a_cluster(node("n0"), *bodies).workload("a/job/train").controller == "kubernetes"  # there is no Kueue
    cluster = kueue_world("workload-finished", "job-running").put(recorded("pod-running-tas"))
    found = cluster.workload("a/job/train")
    assert (found.controller, found.why_fixed) == ("kueue", "is Kueue's, and its Workload is not known")
    cluster.put(recorded("workload-admitted-tas"))
    assert cluster.workload("a/job/train").why_fixed is None


def test_an_old_version_of_the_api_reads_the_same():
    new = kueue_world("workload-admitted-tas").workload("a/job/train")
    assert kueue_world("workload-admitted-tas.v1beta1").workload("a/job/train") == new
    assert new.state is WorkloadState.STARTING


def test_a_finished_workload_is_remembered_for_an_hour():
    cluster = kueue_world("workload-finished")
    cluster.clock.advance(27 * 86400 + 18.5 * 3600)  # the recording is of 27 days and 18 hours later
    assert cluster.workload("a/job/done").state is WorkloadState.FINISHED
    cluster.clock.advance(3600)
    assert cluster.snapshot().workloads == ()


def test_a_flat_queue_that_admits_what_no_node_holds_shows_it_waiting_for_placement():
    cluster = kueue_world("workload-admitted-flat")
    owners = owned_by("Job", "flatjob", uid="773185d7-3d1f-4ee0-afb7-2a4524e1b323")
    cluster.put(pod("flatjob-0", namespace="a", owners=owners, status=unschedulable()))
    flat = cluster.workload("a/job/flatjob")
    assert (flat.state, flat.waiting_reason, flat.queue) == (WorkloadState.WAITING, "placement", "flat")
    assert flat.waiting_since is not None
    assert flat.waiting_since.second == 7


def test_queues_have_their_quota_and_say_who_holds_them():
    cluster = kueue_world()
    (queue,) = cluster.snapshot().queues
    assert (queue.name, queue.gpus_quota, queue.cohort, queue.held_by) == ("tas", 96, None, None)
    stopped = recorded("clusterqueue")
    stopped["spec"] |= {"stopPolicy": "Hold", "cohortName": "all"}
    (queue,) = cluster.put(stopped).snapshot().queues
    assert (queue.cohort, queue.held_by) == ("all", "somebody")
    (queue,) = cluster.put(held(stopped, Hold(mark=MARK, what=("stopPolicy",)))).snapshot().queues
    assert queue.held_by == MARK


def test_the_rack_is_the_level_above_the_node_in_kueues_topology():
    snapshot = kueue_world().snapshot()
    assert [one.rack for one in snapshot.nodes] == ["r0", "r0", "r0", "r0", "r1", "r1"]
    assert {one.pool for one in snapshot.nodes} == {"tas"}


# --- pods that hold


def test_a_terminating_pod_still_holds_its_gpus_and_one_that_is_over_holds_none():
    cluster = a_cluster(node("n0"), job("train"), gone_soon(job_pods("train", "n0", gpus=4)[0]))
    assert cluster.workload("team-a/job/train").state is WorkloadState.STOPPING
    assert len(cluster.snapshot().free_gpus["n0"]) == 4
    cluster.put(job_pods("train", "n0", gpus=4, phase="Failed")[0])
    assert len(cluster.snapshot().free_gpus["n0"]) == 8


def test_the_agents_say_which_gpu_a_pod_holds():
    says = {"n0": devices("n0", {5: "team-a/train-0-x", 2: "team-a/train-0-x"})}
    cluster = a_cluster(node("n0"), job("train"), *job_pods("train", "n0", gpus=2), says=says)
    (placement,) = cluster.workload("team-a/job/train").placements
    assert placement.gpus == ("GPU-n0-2", "GPU-n0-5")
    assert [one.uuid for one in cluster.node("n0").gpus] == [f"GPU-n0-{index}" for index in range(8)]


def test_a_pod_keeps_the_gpus_that_it_was_dealt_while_others_come_and_go():
    cluster = a_cluster(node("n0"), *(each for name in "abc" for each in (job(name), *job_pods(name, "n0", gpus=2))))
    before = cluster.workload("team-a/job/c").placements[0].gpus
    assert before == ("n0#4", "n0#5")
    cluster.drop("pods", "team-a/a-0-x")
    assert cluster.workload("team-a/job/c").placements[0].gpus == before
    cluster.put(job("d"), *job_pods("d", "n0", gpus=4))
    assert cluster.workload("team-a/job/d").placements[0].gpus == ("n0#0", "n0#1", "n0#6", "n0#7")


# --- what is ours


def test_a_cordon_is_ours_only_while_nobody_has_set_it_anew():
    def cordoned(manager: str):
        managed = [{"manager": manager, "fieldsV1": {"f:spec": {"f:unschedulable": {}}}}]
        body = node("n0", spec={"unschedulable": True}, metadata={"managedFields": managed})
        return held(body, Hold(mark=MARK, what=(CORDON,), lasts=True))

    cluster = a_cluster(cordoned("trimtab"))
    assert cluster.node("n0").cordoned_by == MARK
    assert cluster.snapshot().held == ()
    cluster.put(cordoned("kubectl-cordon"))
    snapshot = cluster.snapshot()
    assert snapshot.node_by_name["n0"].cordoned_by == "kubectl-cordon"
    assert snapshot.held == (Held(mark=MARK, what="cordon on node n0", lasts=True, node="n0"),)


def test_a_node_that_a_person_opened_again_is_open_and_our_entry_is_left_to_clear():
    snapshot = a_cluster(held(node("n0"), Hold(mark=MARK, what=(CORDON,)))).snapshot()
    assert (snapshot.node_by_name["n0"].is_cordoned, snapshot.node_by_name["n0"].cordoned_by) == (False, None)
    assert snapshot.held == (Held(mark=MARK, what="cordon on node n0", node="n0"),)


def test_two_commands_on_one_node_are_both_seen_and_of_a_lasting_one_only_the_cordon_lasts():
    other = "trimtab:3fa9c1:R13"
    body = node("n0", spec={"unschedulable": True})
    holds = (
        Hold(mark=MARK, what=(CORDON, "label trimtab/x=y"), lasts=True),
        Hold(mark=MARK, workload="team-a/job/train", what=("label trimtab/seat=kept",), lasts=True),
        Hold(mark=other, what=(CORDON,)),
    )
    snapshot = a_cluster(held(body, *holds)).snapshot()
    assert snapshot.node_by_name["n0"].cordoned_by == MARK
    assert snapshot.held == (
        Held(mark=MARK, what="label trimtab/x=y on node n0", node="n0"),
        Held(mark=MARK, what="label trimtab/seat=kept on node n0", lasts=True, node="n0"),
        Held(mark=other, what="cordon on node n0", node="n0"),
    )


def test_the_real_servers_word_on_who_cordoned_a_node_is_read():
    assert a_cluster(recorded("node-cordoned")).node("n0").cordoned_by == "python-requests"


def test_seats_are_reservations_counted_once_wherever_they_are_written():
    seats = (Seat(pod="train-0", node="n0", gpus=4), Seat(pod="train-1", node="n1", gpus=4))
    hold = Hold(mark=MARK, workload="team-a/job/train", seats=seats)
    cluster = a_cluster(
        held(node("n0"), Hold(mark=MARK, workload="team-a/job/train", seats=seats[:1])),
        node("n1"),
        held(job("train", pods=2, gpus=4), hold),
    )
    assert cluster.snapshot().reservations == (
        Reservation(node="n0", gpus=4, workload="team-a/job/train", command=MARK),
        Reservation(node="n1", gpus=4, workload="team-a/job/train", command=MARK),
    )


def test_our_taint_closes_the_node_for_all_but_the_workload_that_it_keeps_room_for():
    taint = {"key": "trimtab/seat", "value": "3fa9c1-R12", "effect": "NoSchedule"}
    seats = (Seat(pod="train-0", node="n0", gpus=8),)
    holds = (
        Hold(mark=MARK, what=("taint trimtab/seat=3fa9c1-R12:NoSchedule",)),
        Hold(mark=MARK, workload="team-a/job/train", seats=seats),
    )
    cluster = a_cluster(held(node("n0", taints=[taint]), *holds), job("train"), job("other"))
    snapshot = cluster.snapshot()
    assert snapshot.node_by_name["n0"].why_closed == "taint trimtab/seat=3fa9c1-R12"
    assert snapshot.workload_by_id["team-a/job/train"].tolerates == ("taint trimtab/seat=3fa9c1-R12",)
    assert snapshot.workload_by_id["team-a/job/other"].tolerates == ()
    assert snapshot.held == (Held(mark=MARK, what="taint trimtab/seat=3fa9c1-R12:NoSchedule on node n0", node="n0"),)


def test_a_taint_of_ours_whose_annotation_was_wiped_is_held_by_its_value():
    taint = {"key": "trimtab/seat", "value": "3fa9c1-R12", "effect": "NoSchedule"}
    (one,) = a_cluster(node("n0", taints=[taint])).snapshot().held
    assert (one.mark, one.what) == (MARK, "taint trimtab/seat=3fa9c1-R12:NoSchedule on node n0")


def test_an_annotation_of_ours_that_cannot_be_read_is_said():
    (one,) = a_cluster(annotated(node("n0"), **{"trimtab/hold": "{"})).snapshot().held
    assert one.what == "annotation trimtab/hold on node n0, which cannot be read"


def test_a_command_of_ours_that_nobody_took_is_held():
    command = {
        "kind": "Command",
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "metadata": a_metadata("j-restart-1"),
        "action": "RestartJob",
    }
    (one,) = a_cluster(node("n0"), held(command, Hold(mark=MARK, what=("Command RestartJob",)))).snapshot().held
    assert (one.mark, one.what) == (MARK, "Command RestartJob on command team-a/j-restart-1")


def test_a_job_that_we_scaled_to_nothing_is_in_the_snapshot_though_it_has_no_pods():
    body = {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": a_metadata("serve"),
        "spec": {"replicas": 0},
    }
    stopped = held(body, Hold(mark=MARK, what=(SUSPEND,), before={"replicas": 2}))
    found = a_cluster(node("n0"), stopped).workload("team-a/deployment/serve")
    assert (found.state, found.suspended_by) == (WorkloadState.SUSPENDED, MARK)


def test_what_a_controller_copied_onto_its_own_objects_is_no_word_of_ours():
    hold = Hold(mark=MARK, what=("move",))
    owners = owned_by("Deployment", "serve", "apps/v1")
    copy = {"kind": "ReplicaSet", "apiVersion": "apps/v1", "metadata": a_metadata("serve-5f6", ownerReferences=owners)}
    serve = {"kind": "Deployment", "apiVersion": "apps/v1", "metadata": a_metadata("serve"), "spec": {"replicas": 1}}
    snapshot = a_cluster(node("n0"), held(serve, hold), held(copy, hold)).snapshot()
    assert snapshot.held == (Held(mark=MARK, what="move on deployment team-a/serve"),)


# --- pause


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        ({"reason": "maintenance of the spine"}, "maintenance of the spine"),
        ({}, "somebody made ConfigMap trimtab/trimtab-pause"),
        ({"paused": "false", "reason": "over"}, None),
        ({"paused": "no idea"}, "somebody made ConfigMap trimtab/trimtab-pause"),
    ],
)
def test_a_config_map_pauses(data: dict[str, str], reason: str | None):
    pause = {"kind": "ConfigMap", "metadata": a_metadata("trimtab-pause", "trimtab"), "data": data}
    assert a_cluster(node("n0"), pause).snapshot().pause_reason == reason
