"""Volcano's jobs as recorded before a scene began, and what is made of phases, policies, queues and words."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.schedulers.reading import (
    GPU,
    RECORDED,
    Cluster,
    a_cluster,
    a_metadata,
    annotated,
    containers,
    gone_soon,
    marked,
    moment,
    node,
    pod,
    unschedulable,
)
from tests.schedulers.test_reader import MARK, held

from trimtab.model.cluster import Elastic, WorkloadState
from trimtab.schedulers.marks import SUSPEND, Hold

VERSIONS = {
    "Job": ("Job", "batch.volcano.sh/v1alpha1"),
    "batch/Job": ("Job", "batch/v1"),
    "PodGroup": ("PodGroup", "scheduling.volcano.sh/v1beta1"),
    "Pod": ("Pod", "v1"),
}
J = "team-a/vcjob/j"


def scene(name: str) -> Cluster:
    """What stood in the cluster before a scene's first write."""
    lines = [json.loads(line) for line in (RECORDED / "volcano-initial.jsonl").read_text().splitlines()]
    nodes = [node(f"n{index:02}") for index in range(12)]
    return a_cluster(*nodes, *(as_served(line) for line in lines if line["scene"] == name))


def as_served(line: dict[str, Any]) -> dict[str, Any]:
    """A recorded object in the shape in which the server sends it."""
    kind, version = VERSIONS[line["kind"]]
    spec, status = dict(line.get("spec", {})), dict(line.get("status", {}))
    if kind == "Pod":
        spec["containers"] = containers(int(spec.pop("gpu")))
    if line["kind"] == "Job":
        spec["tasks"] = [{**task, "template": {"spec": {"containers": containers(8)}}} for task in spec["tasks"]]
    if line["kind"] == "batch/Job":
        spec["template"] = {"spec": {"containers": containers(8)}}
    if isinstance(status.get("conditions"), dict):
        found = {one: text.partition("/") for one, text in status["conditions"].items()}
        status["conditions"] = [
            {"type": one, "status": parts[0], "message": parts[2], "lastTransitionTime": moment()}
            for one, parts in found.items()
        ]
    metadata = {**a_metadata(line["name"]), **line["metadata"]}
    return {"kind": kind, "apiVersion": version, "metadata": metadata, "spec": spec, "status": status}


def test_a_recorded_gang_runs_in_its_queue_and_a_policy_forbids_to_take_a_pod():
    cluster = scene("b-evict-restartjob")
    found = cluster.workload(J)
    assert (found.controller, found.queue, found.state) == ("volcano", "default", WorkloadState.RUNNING)
    assert (found.pods, found.gpus_per_pod, found.is_gang, found.elastic) == (4, 8, True, None)
    assert [(one.pod, one.rank, one.node) for one in found.placements] == [
        ("j-worker-0", 0, "n05"), ("j-worker-1", 1, "n10"), ("j-worker-2", 2, "n09"), ("j-worker-3", 3, "n04"),
    ]  # fmt: skip
    view = cluster.reader.view
    assert view.pod_group_of[J].metadata.name.startswith("j-0b38d1b3")
    assert view.owner_of[J].spec["maxRetry"] == 3
    declared = marked(as_served_job("b-evict-restartjob"), replaceable_pods="true")
    assert not cluster.put(declared).workload(J).can_replace_pod


def as_served_job(name: str) -> dict[str, Any]:
    lines = (json.loads(line) for line in (RECORDED / "volcano-initial.jsonl").read_text().splitlines())
    return as_served(next(line for line in lines if line["scene"] == name and line["kind"] == "Job"))


def test_without_a_policy_a_declared_gang_may_lose_a_pod_and_slack_is_elastic():
    cluster = scene("a8-elastic-gang")
    assert not cluster.workload(J).can_replace_pod
    found = cluster.put(marked(as_served_job("a8-elastic-gang"), replaceable_pods="true")).workload(J)
    assert (found.can_replace_pod, found.replace_seconds) == (True, 30.0)
    assert found.elastic == Elastic(pods_min=2, pods_max=4, by="volcano")


def test_other_kinds_that_volcano_places_are_volcanos_and_bare_pods_are_fixed():
    cluster = scene("f-batchjob-barepods")
    found = cluster.workload("team-a/job/bj")
    assert (found.controller, found.queue, found.pods, found.state) == ("volcano", "default", 3, WorkloadState.RUNNING)
    assert cluster.reader.view.pod_group_of[found.id].spec["minMember"] == 3
    bare = cluster.workload("team-a/pod/bare1")
    assert bare.why_fixed == "is made of bare pods, and no controller brings them back"


# --- phases


def vcjob(phase: str = "Running", *, replicas: int = 2, least: int | None = None, **more: Any) -> dict[str, Any]:
    task = {"name": "worker", "replicas": replicas, "template": {"spec": {"containers": containers(8)}}}
    return {
        "kind": "Job",
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "metadata": a_metadata("j", **more.pop("metadata", {})),
        "spec": {"minAvailable": replicas if least is None else least, "queue": "q", "tasks": [task], **more},
        "status": {"state": {"phase": phase, "lastTransitionTime": moment()}},
    }


def worker(index: int, on: str, **more: Any) -> dict[str, Any]:
    owners = [{"kind": "Job", "name": "j", "apiVersion": "batch.volcano.sh/v1alpha1", "controller": True}]
    labels = {"volcano.sh/task-spec": "worker", "volcano.sh/task-index": str(index)}
    return pod(f"j-worker-{index}", on, owners=owners, metadata={"labels": labels}, **more)


def group(phase: str, *conditions: dict[str, Any], gpus: int = 16) -> dict[str, Any]:
    return {
        "kind": "PodGroup",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": a_metadata("j-uid-team-a-j"),
        "spec": {"minMember": 2, "queue": "q", "minResources": {GPU: str(gpus)}},
        "status": {"phase": phase, "conditions": list(conditions)},
    }


def queue(**more: Any) -> dict[str, Any]:
    return {
        "kind": "Queue",
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "metadata": a_metadata("q", ""),
        "spec": {"capability": {GPU: "32"}, **more.get("spec", {})},
        "status": {"state": "Open", "allocated": {GPU: "24"}, **more.get("status", {})},
    }


def pair(*bodies: dict[str, Any]) -> Cluster:
    return a_cluster(node("n0"), node("n1"), *bodies)


@pytest.mark.parametrize(
    ("phase", "pods", "state"),
    [
        ("Running", [worker(0, "n0"), worker(1, "n1")], WorkloadState.RUNNING),
        ("Running", [worker(0, "n0"), worker(1, "n1", phase="Pending")], WorkloadState.STARTING),
        ("Pending", [worker(0, ""), worker(1, "")], WorkloadState.WAITING),
        ("Pending", [], WorkloadState.WAITING),
        ("Restarting", [gone_soon(worker(0, "n0"))], WorkloadState.STOPPING),
        ("Restarting", [], WorkloadState.WAITING),
        ("Aborting", [gone_soon(worker(0, "n0"))], WorkloadState.STOPPING),
        ("Aborted", [], WorkloadState.SUSPENDED),
        ("Completed", [], WorkloadState.FINISHED),
        ("Terminated", [], WorkloadState.FAILED),
        ("Failed", [], WorkloadState.FAILED),
    ],
)
def test_a_jobs_state_is_its_phase_and_its_pods(phase: str, pods: list[dict[str, Any]], state: WorkloadState):
    assert pair(vcjob(phase), *pods).workload(J).state is state


def test_with_slack_it_runs_while_enough_do():
    cluster = pair(vcjob(least=1), worker(0, "n0"), worker(1, "", status=unschedulable()))
    assert cluster.workload(J).state is WorkloadState.RUNNING


def test_a_job_scaled_to_nothing_by_us_is_suspended_by_us():
    stopped = vcjob(replicas=0)
    assert pair(stopped).workload(J).state is WorkloadState.SUSPENDED
    ours = pair(held(stopped, Hold(mark=MARK, what=(SUSPEND,), before={"how": "zero"}))).snapshot()
    assert (ours.workload_by_id[J].suspended_by, ours.held) == (MARK, ())


def test_a_stop_that_volcano_has_not_begun_is_held():
    (one,) = pair(held(vcjob(), Hold(mark=MARK, what=(SUSPEND,))), worker(0, "n0"), worker(1, "n1")).snapshot().held
    assert (one.mark, one.what) == (MARK, "suspend on job team-a/j")


# --- why it waits


def condition(kind: str, message: str, at: float) -> dict[str, Any]:
    return {"type": kind, "status": "True", "message": message, "lastTransitionTime": moment(at)}


SHORT = f"2/2 tasks in gang unschedulable: 0/12 nodes are unavailable: 11 Insufficient {GPU}."


@pytest.mark.parametrize(
    ("bodies", "reason"),
    [
        ([group("Pending"), queue()], "quota"),  # 24 + 16 > 32
        ([group("Pending", gpus=8), queue()], "quota: Volcano has not enqueued it yet"),
        ([group("Inqueue"), queue(status={"state": "Closed"})], "quota: queue q is closed"),
        ([group("Inqueue", condition("Unschedulable", SHORT, 5)), queue()], "placement"),
        (
            [group("Inqueue", condition("Unschedulable", "pod group is not ready", 5)), queue()],
            "pod group is not ready",
        ),
        # Unschedulable stays True after a success: the newest counts.
        ([group("Inqueue", condition("Unschedulable", SHORT, 5), condition("Scheduled", "ready", 9)), queue()], None),
    ],
)
def test_it_waits_for_what_its_pod_group_says(bodies: list[dict[str, Any]], reason: str | None):
    assert pair(vcjob("Pending"), *bodies, worker(0, "")).workload(J).waiting_reason == reason


def test_the_pods_own_word_on_gpus_counts_where_the_group_says_less():
    bodies = [group("Inqueue", condition("Unschedulable", "pod group is not ready", 5)), queue()]
    waiting = pair(vcjob("Pending"), *bodies, worker(0, "", status=unschedulable()))
    assert waiting.workload(J).waiting_reason == "placement"


def test_queues_have_a_quota_and_a_closed_one_is_held_by_somebody():
    deserved = queue(spec={"capability": None, "deserved": {GPU: "16"}, "parent": "org"}, status={"state": "Closing"})
    deserved["spec"].pop("capability")
    (found,) = pair(deserved).snapshot().queues
    assert (found.name, found.gpus_quota, found.cohort, found.held_by) == ("q", 16, "org", "somebody")


# --- what keeps it where it is


@pytest.mark.parametrize(
    ("topology", "tiers", "together"),
    [
        ({"mode": "hard", "highestTierAllowed": 1}, [1, 1], "rack"),
        ({"mode": "soft", "highestTierAllowed": 1}, [1, 1], None),
        ({"mode": "hard", "highestTierAllowed": 2}, [1, 1, 2], None),  # one domain of tier 2: anywhere in it
        ({"mode": "hard", "highestTierAllowed": 2}, [1, 1, 2, 2], "rack"),  # narrower than it asks for, and safe
    ],
)
def test_hard_topology_keeps_a_gang_in_one_rack(topology: dict[str, Any], tiers: list[int], together: str | None):
    kind = {"kind": "HyperNode", "apiVersion": "topology.volcano.sh/v1alpha1"}
    names = [(a_metadata(f"h{index}", ""), tier) for index, tier in enumerate(tiers)]
    hypers = [{**kind, "metadata": metadata, "spec": {"tier": tier}} for metadata, tier in names]
    assert pair(vcjob(networkTopology=topology), *hypers).workload(J).together == together


def test_a_budget_by_max_unavailable_never_works_over_a_volcano_job():
    selector = {"matchLabels": {"volcano.sh/task-spec": "worker"}}

    def budget(**spec: Any) -> dict[str, Any]:
        return {
            "kind": "PodDisruptionBudget",
            "apiVersion": "policy/v1",
            "metadata": a_metadata("keep"),
            "spec": {"selector": selector, **spec},
        }

    cluster = pair(vcjob(), worker(0, "n0"), worker(1, "n1"), budget(minAvailable=1))
    assert cluster.workload(J).why_fixed is None
    why = cluster.put(budget(maxUnavailable=1)).workload(J).why_fixed
    assert why == "cannot be evicted: the disruption budget keep by maxUnavailable never allows it"


def test_who_is_not_preemptible_has_opted_out():
    body = annotated(vcjob(), **{"volcano.sh/preemptable": "false"})
    found = pair(body, worker(0, "n0"), worker(1, "n1")).workload(J)
    assert (found.is_preemptible, found.wishes.opt_out_reason) == (False, "volcano.sh/preemptable=false on job j")
