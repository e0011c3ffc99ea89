"""Up to the top owner; where a workload stands; what its owner wrote; what may be done with it."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from tests.schedulers.reading import (
    a_cluster,
    a_metadata,
    annotated,
    containers,
    gone_soon,
    job,
    job_pods,
    marked,
    moment,
    node,
    owned_by,
    pod,
    recorded,
    unschedulable,
)

from trimtab.model.cluster import Elastic, OwnerWishes, WorkloadState

IGNORES = {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
TRAIN = "team-a/job/train"
JOB_SET, TRAIN_JOB = "jobset.x-k8s.io/v1alpha2", "trainer.kubeflow.org/v1alpha1"
INDEX = "batch.kubernetes.io/job-completion-index"


def thing(kind: str, version: str, name: str, *, owners=None, spec=None, **more):
    metadata = a_metadata(name, ownerReferences=owners or [], **more.pop("metadata", {}))
    return {"kind": kind, "apiVersion": version, "metadata": metadata, "spec": spec or {}, **more}


def running(*bodies, pods: int = 2, **more):
    """A Job of two pods on two nodes, and whatever else."""
    nodes = [node(f"n{index}") for index in range(4)]
    return a_cluster(*nodes, job("train", pods=pods, **more), *job_pods("train", *["n0", "n1"][:pods]), *bodies)


# --- owners


@pytest.mark.parametrize(
    ("owners", "labels", "id_"),
    [
        ([], {}, "team-a/pod/p-0"),
        ([], {"kueue.x-k8s.io/pod-group-name": "g"}, "team-a/podgroup/g"),
        (owned_by("ReplicaSet", "serve-5f6", "apps/v1"), {"pod-template-hash": "5f6"}, "team-a/deployment/serve"),
        (owned_by("ReplicaSet", "own", "apps/v1"), {}, "team-a/replicaset/own"),
        (owned_by("Job", "j", "batch.volcano.sh/v1alpha1"), {}, "team-a/vcjob/j"),
        (owned_by("Job", "j", "example.com/v1"), {}, "team-a/job.example.com/j"),
        (owned_by("MyTraining", "m", "example.com/v1"), {}, "team-a/mytraining/m"),
        (owned_by("Node", "n0", "v1"), {}, "team-a/pod/p-0"),
        (owned_by("DaemonSet", "d", "apps/v1"), {}, "team-a/daemonset/d"),
    ],
)
def test_a_pod_belongs_to_its_top_owner_even_where_that_cannot_be_read(owners, labels, id_):
    body = pod("p-0", "n0", owners=owners, metadata={"labels": labels})
    assert [one.id for one in a_cluster(node("n0"), body).snapshot().workloads] == [id_]


def test_the_chain_is_followed_to_the_top():
    cluster = a_cluster(
        node("n0"),
        node("n1"),
        thing("TrainJob", TRAIN_JOB, "llama"),
        thing(
            "JobSet",
            JOB_SET,
            "llama",
            owners=owned_by("TrainJob", "llama", TRAIN_JOB),
        ),
        *(
            each
            for index in range(2)
            for each in (
                job(
                    f"llama-w-{index}",
                    metadata={"ownerReferences": owned_by("JobSet", "llama", JOB_SET)},
                ),
                pod(f"llama-w-{index}-0", f"n{index}", owners=owned_by("Job", f"llama-w-{index}")),
            )
        ),
    )
    found = cluster.workload("team-a/trainjob/llama")
    assert (found.pods, found.nodes, found.state) == (2, ("n0", "n1"), WorkloadState.RUNNING)
    assert cluster.reader.view.owner_of[found.id].kind == "TrainJob"


def test_each_run_of_a_cron_job_is_a_workload_of_its_own():
    owners = owned_by("CronJob", "nightly")
    run = job("nightly-1", metadata={"ownerReferences": owners})
    cluster = a_cluster(node("n0"), run, *job_pods("nightly-1", "n0"))
    assert [one.id for one in cluster.snapshot().workloads] == ["team-a/job/nightly-1"]


def test_work_without_gpus_is_left_out_but_a_gangs_launcher_is_among_its_pods():
    launcher = pod("train-l", "n3", gpus=0, owners=owned_by("Job", "train"))
    cluster = running(launcher, pod("web", "n0", gpus=0), job("cpu", gpus=0))
    (found,) = cluster.snapshot().workloads
    assert found.nodes == ("n0", "n1")
    assert len(cluster.reader.view.pods_of[TRAIN]) == 3


def test_ranks_follow_the_index_and_not_the_name():
    bodies = [
        pod(
            f"p-{name}",
            "n0",
            gpus=1,
            owners=owned_by("Job", "train"),
            metadata={"labels": {"batch.kubernetes.io/job-completion-index": str(index)}},
        )
        for name, index in (("a", 10), ("b", 2), ("c", 0))
    ]
    found = a_cluster(node("n0"), job("train", pods=3, gpus=1), *bodies).workload(TRAIN)
    assert [(one.pod, one.rank) for one in found.placements] == [("p-c", 0), ("p-b", 1), ("p-a", 2)]


# --- states


def test_a_job_runs_when_all_its_pods_do():
    cluster = running()
    found = cluster.workload(TRAIN)
    assert (found.state, found.started_at) == (WorkloadState.RUNNING, datetime(2026, 11, 2, 9, 0, 5, tzinfo=UTC))
    cluster.put(job_pods("train", "n0", phase="Pending")[0])
    assert cluster.workload(TRAIN).state is WorkloadState.STARTING
    cluster.put(gone_soon(job_pods("train", "n0")[0]))
    assert cluster.workload(TRAIN).state is WorkloadState.STARTING
    cluster.put(*(gone_soon(one) for one in job_pods("train", "n0", "n1")))
    assert cluster.workload(TRAIN).state is WorkloadState.STOPPING


def test_a_pod_that_is_not_ready_does_not_work():
    cluster = running()
    cluster.put(job_pods("train", "n0", status={"conditions": [{"type": "Ready", "status": "False"}]})[0])
    assert cluster.workload(TRAIN).state is WorkloadState.STARTING


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ("0/6 nodes are available: 2 Insufficient nvidia.com/gpu, 4 node(s) were unschedulable.", "placement"),
        ("0/6 nodes are available: 6 node(s) didn't match Pod's node affinity/selector.",
         "0/6 nodes are available: 6 node(s) didn't match Pod's node affinity/selector."),
    ],
)  # fmt: skip
def test_a_pod_without_a_node_waits_for_what_its_scheduler_says(message: str, reason: str):
    waiting = a_cluster(node("n0"), job("train"), *job_pods("train", "", status=unschedulable(message)))
    found = waiting.workload(TRAIN)
    assert (found.state, found.waiting_reason) == (WorkloadState.WAITING, reason)
    assert found.waiting_since == datetime(2026, 11, 2, 9, 0, 7, tzinfo=UTC)


def test_a_gang_of_which_one_pod_has_no_place_is_starting_and_says_why():
    cluster = running(pods=2)
    cluster.put(job_pods("train", "n0", "", status=unschedulable())[1])
    found = cluster.workload(TRAIN)
    assert (found.state, found.waiting_reason) == (WorkloadState.STARTING, "placement")


def test_a_job_between_two_pods_waits_for_its_controller():
    found = a_cluster(node("n0"), job("train")).workload(TRAIN)
    assert (found.state, found.waiting_reason) == (WorkloadState.WAITING, "its controller has made no pods yet")


@pytest.mark.parametrize(
    ("condition", "state"), [("Complete", WorkloadState.FINISHED), ("Failed", WorkloadState.FAILED)]
)
def test_a_job_that_ended_is_over(condition: str, state: WorkloadState):
    status = {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": moment()}]}
    assert a_cluster(node("n0"), job("train", status=status)).workload(TRAIN).state is state


def test_a_suspended_job_is_a_persons_unless_it_bears_our_mark():
    cluster = running(spec={"suspend": True})
    assert cluster.workload(TRAIN).state is WorkloadState.STOPPING
    cluster.drop("pods", "team-a/train-0-x").drop("pods", "team-a/train-1-x")
    found = cluster.workload(TRAIN)
    assert (found.state, found.suspended_by, found.placements) == (WorkloadState.SUSPENDED, None, ())


# --- wishes


@pytest.mark.parametrize(
    ("mark", "reason"),
    [
        ({"karpenter.sh/do-not-disrupt": "true"}, "karpenter.sh/do-not-disrupt on pod train-0-x"),
        ({"karpenter.sh/do-not-disrupt": "false"}, None),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"},
         "cluster-autoscaler.kubernetes.io/safe-to-evict=false on pod train-0-x"),
        ({"cluster-autoscaler.kubernetes.io/safe-to-evict": "true"}, None),
        ({"descheduler.alpha.kubernetes.io/prefer-no-eviction": ""},
         "descheduler.alpha.kubernetes.io/prefer-no-eviction on pod train-0-x"),
        ({"volcano.sh/preemptable": "false"}, "volcano.sh/preemptable=false on pod train-0-x"),
        ({"kai.scheduler/preemptibility": "non-preemptible"},
         "kai.scheduler/preemptibility=non-preemptible on pod train-0-x"),
        ({"trimtab/do-not-move": "true"}, "trimtab/do-not-move on pod train-0-x"),
        ({"trimtab/do-not-move": "yes please"}, "trimtab/do-not-move on pod train-0-x"),
        ({"trimtab/do-not-move": "false"}, None),
        ({"trimtab/not-before": "tomorrow"},
         'trimtab/not-before on pod train-0-x is no moment like 2030-01-31T12:00:00Z: "tomorrow"'),
        ({"trimtab/not-before": "2030-01-31T12:00:00"},
         'trimtab/not-before on pod train-0-x is no moment like 2030-01-31T12:00:00Z: "2030-01-31T12:00:00"'),
        ({"trimtab/ask-first": "maybe"},
         'trimtab/ask-first on pod train-0-x is neither "true" nor an address: "maybe"'),
    ],
)  # fmt: skip
def test_opt_outs_are_honoured_and_doubt_is_one(mark, reason):
    cluster = running()
    cluster.put(annotated(job_pods("train", "n0")[0], **mark))
    found = cluster.workload(TRAIN)
    assert (found.wishes.is_opted_out, found.wishes.opt_out_reason) == (reason is not None, reason or "")
    assert found.is_preemptible is not ("preempt" in next(iter(mark)))


def test_owners_may_say_when_whom_to_ask_and_who_they_are():
    body = marked(
        job("train", pods=2),
        not_before="2030-01-31T12:00:00+01:00",
        ask_first="https://hook.example/train",
        owner="mei",
    )
    found = running().put(body).workload(TRAIN)
    assert found.wishes == OwnerWishes(
        not_before=datetime(2030, 1, 31, 11, tzinfo=UTC), is_ask_first=True, ask_url="https://hook.example/train"
    )
    assert found.owner == "mei"


def test_a_whole_namespace_may_opt_out_and_the_nearest_mark_is_named_first():
    space = marked({"kind": "Namespace", "metadata": a_metadata("team-a", "")}, do_not_move="true", owner="ops")
    cluster = running(space)
    found = cluster.workload(TRAIN)
    assert (found.wishes.opt_out_reason, found.owner) == ("trimtab/do-not-move on namespace team-a", "ops")
    cluster.put(marked(job("train", pods=2), do_not_move=""))
    assert cluster.workload(TRAIN).wishes.opt_out_reason == "trimtab/do-not-move on job train"


def test_what_waits_under_kueue_has_the_wishes_of_its_template():
    body = recorded("workload-pending-quota")
    body["spec"]["podSets"][0]["template"]["metadata"]["annotations"]["trimtab/do-not-move"] = "true"
    found = a_cluster(node("n0"), body).workload("a/job/huge")
    assert found.wishes.opt_out_reason == "trimtab/do-not-move on the pod template of huge"


def test_another_prefix_reads_other_marks():
    cluster = a_cluster(
        node("n0"), annotated(job("train"), **{"hall-b/do-not-move": "", "trimtab/owner": "x"}), prefix="hall-b"
    )
    found = cluster.workload(TRAIN)
    assert (found.wishes.is_opted_out, found.owner) == (True, None)


# --- checkpoints and times


def test_the_newest_checkpoint_counts_whoever_tells_of_it():
    cluster = running()
    assert cluster.workload(TRAIN).checkpoint.last_at is None
    cluster.put(annotated(job_pods("train", "n0")[0], **{"volcano.sh/last-checkpoint-time": "2026-11-02T08:30:00Z"}))
    cluster.put(
        marked(job("train", pods=2), last_checkpoint_time="2026-11-02T08:00:00Z", checkpoint_interval_seconds="900")
    )
    found = cluster.workload(TRAIN).checkpoint
    assert (found.last_at, found.interval_seconds) == (datetime(2026, 11, 2, 8, 30, tzinfo=UTC), 900.0)


def test_a_train_jobs_trainer_may_report_its_checkpoint():
    metrics = [{"name": "last_checkpoint_timestamp_seconds", "value": "1793610000"}]
    train = thing("TrainJob", TRAIN_JOB, "llama", status={"trainerStatus": {"metrics": metrics}})
    owners = owned_by("TrainJob", "llama", TRAIN_JOB)
    found = a_cluster(node("n0"), train, pod("llama-0", "n0", owners=owners)).workload("team-a/trainjob/llama")
    assert found.checkpoint.last_at == datetime.fromtimestamp(1793610000, UTC)


@pytest.mark.parametrize(("text", "seconds"), [("120", 120.0), ("soon", None), ("-1", None)])
def test_restart_seconds_are_what_the_owner_says(text: str, seconds: float | None):
    assert running().put(marked(job("train", pods=2), restart_seconds=text)).workload(TRAIN).restart_seconds == seconds


# --- what may be done with it


@pytest.mark.parametrize(
    ("declared", "policy", "can"),
    [
        ("true", IGNORES, True),
        ("true", {}, False),
        ("yes", IGNORES, False),
        (None, IGNORES, False),
        ("true", {"rules": [{"action": "FailJob", "onExitCodes": {"values": [143]}}, *IGNORES["rules"]]}, False),
        ("true", {"rules": [{"action": "Count", "onPodConditions": [{"type": "DisruptionTarget"}]}]}, False),
    ],
)
def test_a_job_may_lose_one_pod_only_where_it_says_so_and_survives_it(declared, policy, can):
    body = job(
        "train",
        pods=2,
        spec={"podFailurePolicy": policy, "backoffLimit": 6},
        pod_spec={"terminationGracePeriodSeconds": 5},
    )
    found = running().put(body if declared is None else marked(body, replaceable_pods=declared)).workload(TRAIN)
    assert found.can_replace_pod is can
    assert found.replace_seconds == (40.0 if can else None)  # the pods' 30 s to end, and the controller's 10 s
    assert found.is_gang


def test_a_job_set_needs_it_of_all_its_jobs():
    jobs = [
        {
            "replicas": 1,
            "template": {"spec": {"podFailurePolicy": IGNORES, "template": {"spec": {"containers": containers(8)}}}},
        }
    ]
    body = marked(thing("JobSet", JOB_SET, "set", spec={"replicatedJobs": jobs}), replaceable_pods="true")
    assert a_cluster(node("n0"), body).workload("team-a/jobset/set").can_replace_pod
    body["spec"]["replicatedJobs"] = [*jobs, {"replicas": 1, "template": {"spec": {}}}]
    assert not a_cluster(node("n0"), body).workload("team-a/jobset/set").can_replace_pod


def test_a_deployments_pods_each_stand_for_themselves():
    owners = owned_by("ReplicaSet", "serve-5f6", "apps/v1")
    pods = [
        pod(f"serve-{index}", on, gpus=1, owners=owners, metadata={"labels": {"pod-template-hash": "5f6"}})
        for index, on in enumerate(["n0", "n0", ""])
    ]
    cluster = a_cluster(node("n0"), thing("Deployment", "apps/v1", "serve", spec={"replicas": 3}), *pods)
    found = cluster.workload("team-a/deployment/serve")
    assert (found.controller, found.is_gang, found.can_replace_pod) == ("kubernetes", False, True)
    assert (found.pods, found.gpus_per_pod, found.state) == (3, 1, WorkloadState.RUNNING)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (pod("bare", "n0"), "is made of bare pods, and no controller brings them back"),
        (pod("static", "n0", owners=owned_by("Node", "n0", "v1")), "is a static pod of its node"),
        (
            pod("ds", "n0", owners=owned_by("DaemonSet", "d", "apps/v1")),
            "belongs to a DaemonSet, whose pods stay on their nodes",
        ),
        (
            pod("kai", "n0", owners=owned_by("Job", "k"), spec={"schedulerName": "kai-scheduler"}),
            "is placed by kai-scheduler, which moves its own",
        ),
        (pod("fine", "n0", owners=owned_by("Job", "f")), None),
    ],
)
def test_what_cannot_be_moved_says_why_and_holds_its_gpus_all_the_same(body, why):
    snapshot = a_cluster(node("n0"), body).snapshot()
    (found,) = snapshot.workloads
    assert found.why_fixed == why
    assert snapshot.free_gpus["n0"] == ()


@pytest.mark.parametrize(
    ("more", "elastic"),
    [
        (
            {"pod_spec": {"containers": [{"command": ["torchrun", "--nnodes=1:2"], **containers(8)[0]}]}},
            Elastic(pods_min=1, pods_max=2, by="torchrun"),
        ),
        (
            {"metadata": {"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}},
            Elastic(pods_min=1, pods_max=2, by="kueue"),
        ),
        ({}, None),
    ],
)
def test_elastic_jobs_are_known(more, elastic):
    assert a_cluster(node("n0"), job("train", pods=2, **more)).workload(TRAIN).elastic == elastic


HERE = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
NEVER = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("gpus", "spec", "is_fixed"),
    [
        (8, {"affinity": {"podAntiAffinity": {NEVER: [HERE]}}}, False),  # two of 8 GPUs share no node anyway
        (2, {"affinity": {"podAntiAffinity": {NEVER: [HERE]}}}, True),
        (8, {"affinity": {"podAntiAffinity": {NEVER: [{**HERE, "topologyKey": "rack"}]}}}, True),
        (8, {"affinity": {"podAffinity": {NEVER: [HERE]}}}, True),
        (8, {"affinity": {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{}]}}}, False),
        (8, {"topologySpreadConstraints": [{"whenUnsatisfiable": "DoNotSchedule"}]}, True),
        (8, {"topologySpreadConstraints": [{"whenUnsatisfiable": "ScheduleAnyway"}]}, False),
    ],
)
def test_what_depends_on_where_other_pods_are_is_not_planned_for(gpus, spec, is_fixed):
    found = a_cluster(node("n0"), job("train", gpus=gpus, pod_spec=spec)).workload(TRAIN)
    assert (found.why_fixed is not None) is is_fixed
