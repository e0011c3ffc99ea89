"""Scenarios of queues, taints, wrong uses, budgets, and of Volcano's parts being down."""

from __future__ import annotations

from tests.cluster.volcano.api import JOB, PDB, POD, Object
from tests.cluster.volcano.objects import phase_of, uid_of
from tests.contract.volcano_bodies import a_task
from tests.contract.volcano_scenes import Scene, gang, policy
from tests.contract.volcano_stage import Stage
from tests.contract.volcano_story import moved_place

QUARANTINE = "trimtab.example.com/quarantine"
NOBODY = "11111111-1111-1111-1111-111111111111"


def _nothing(stage: Stage) -> None:
    """The recording begins with nothing there."""


# --- j: queues


def _j(stage: Stage) -> None:
    stage.queue(
        "q1", capability={"nvidia.com/gpu": "32", "cpu": "1000"}, deserved={"nvidia.com/gpu": "16", "cpu": "100"}
    )
    stage.queue("q2", deserved={"nvidia.com/gpu": "16", "cpu": "100"})
    stage.let_pass(1.5)
    stage.create_job("over", queue="q1", replicas=5)
    stage.let_pass(3)
    assert not stage.pods_of("over"), "over the queue's capability no pod is made"
    stage.must("DELETE", JOB.path(stage.namespace, "over"), {"propagationPolicy": "Background"})
    stage.until(lambda: not stage.group_phase("over"), "the job's PodGroup is gone")
    stage.let_pass(1)
    for name in ("b1", "b2"):
        stage.create_job(name, queue="q1", replicas=2, min_available=1)
    for name in ("b1", "b2"):
        stage.until_running(name)
    stage.run_job("full", replicas=8)
    stage.create_job("r", queue="q2", replicas=2)
    stage.until_placed("r-worker-0", "r-worker-1")
    _until_two_wait(stage)
    stage.let_pass(2)


def _until_two_wait(stage: Stage) -> None:
    """Whose pods are taken is open: of the gang whose queue deserves nothing, or of q1, above what it deserves."""
    names = ("full", "b1", "b2")
    stage.until(lambda: sum(len(stage.pods_of(name)) for name in names) == 12, "what was taken is made anew")
    waiting = [name for name in names for pod in stage.pods_of(name) if phase_of(pod) != "Running"]
    assert len(waiting) == 2
    if "full" in waiting:
        stage.until(lambda: stage.group_phase("full") == "Unknown", "Volcano itself broke the gang")


# --- k: taints


def _k(stage: Stage) -> None:
    there = stage.pod("j-worker-1")
    node = there["spec"]["nodeName"]
    stage.taint(node, "xid79", key=QUARANTINE)
    stage.let_pass(4)
    assert uid_of(stage.pod("j-worker-1")) == uid_of(there), "NoSchedule leaves running pods alone"
    stage.untaint(node, key=QUARANTINE)
    stage.taint(node, "xid79", key=QUARANTINE, effect="NoExecute")
    stage.until_remade("j-worker-1", uid_of(there))
    stage.until_running()


# --- l: wrong uses


def _l(stage: Stage) -> None:
    stage.run_job()
    assert stage.evict("j-worker-0", uid="00000000-0000-0000-0000-000000000000").code == 409
    missing = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "nosuch", "namespace": stage.namespace},
    }
    assert stage.request("POST", POD.path(stage.namespace, "nosuch", "eviction"), missing).code == 404
    stage.budget(minAvailable=4)
    assert stage.evict("j-worker-0").code == 429
    assert stage.evict("j-worker-0", is_dry=True).code == 429
    stage.must("DELETE", PDB.path(stage.namespace, "pdb"))
    stage.command("j", "AbortJob", is_dry=True)
    stage.let_pass(1.5)
    for retries in (1, 2):
        _restart_by_wrong_uid(stage, retries=retries)
    for action, version in (("EvictPod", JOB.version), ("AbortJob", "batch/v1")):
        stage.command("j", action, apiVersion=version)
        stage.until_no_commands()
        stage.let_pass(3)
    stage.command("nosuch", "AbortJob", uid="22222222-2222-2222-2222-222222222222")
    stage.until_no_commands()
    stage.let_pass(1.5)
    stage.command("j", "ResumeJob")
    stage.until_no_commands()
    stage.let_pass(2)


def _restart_by_wrong_uid(stage: Stage, *, retries: int) -> None:
    """The uid of a Command's target is not compared: it is obeyed (if owned, a race with the garbage collector)."""
    target = {"apiVersion": JOB.version, "kind": "Job", "name": "j", "uid": NOBODY, "controller": True}
    metadata: Object = {"namespace": stage.namespace, "generateName": "j-restartjob-"}
    stage.post_command(metadata, target, "RestartJob")
    stage.until_phase("Running", retries=retries)
    stage.until_running()


def _l2(stage: Stage) -> None:
    stage.run_job(maxRetry=10)
    for _ in range(2):
        stage.command("j", "RestartJob")
    stage.until_phase("Running", retries=1)
    stage.until_running()
    for _ in range(2):
        stage.until_no_commands()
        stage.command("j", "AbortJob", name="fixed")
    stage.until_phase("Aborted")
    stage.let_pass(0.5)
    stage.command("j", "AbortJob")
    stage.let_pass(2)
    for _ in range(2):
        stage.command("j", "ResumeJob")
    stage.until_phase("Running", retries=2)
    stage.until_running()
    for index in range(4):
        stage.annotate(f"j-worker-{index}", run_s="1")
    stage.until_phase("Completed")
    stage.let_pass(1)
    for action in ("RestartJob", "ResumeJob", "AbortJob"):
        stage.command("j", action)
        stage.let_pass(2)
        stage.until_phase("Completed")


def _l3(stage: Stage) -> None:
    """What a patch of a job may change: with webhooks sizes and priority, without them everything."""
    elsewhere = {"op": "add", "path": "/spec/tasks/0/template/spec/nodeSelector", "value": {"rack": "r3"}}
    tried: list[Object] = [
        elsewhere,
        {"op": "replace", "path": "/spec/queue", "value": "other"},
        {"op": "replace", "path": "/spec/maxRetry", "value": 9},
        {"op": "add", "path": "/spec/policies", "value": policy("PodEvicted")},
        {"op": "replace", "path": "/spec/minAvailable", "value": 9},
        {"op": "add", "path": "/spec/priorityClassName", "value": "system-cluster-critical"},
        {"op": "add", "path": "/metadata/annotations", "value": {"trimtab.example.com/x": "1"}},
        {"op": "add", "path": "/status/retryCount", "value": 0},
    ]
    for one in tried:
        stage.patch_job("j", [one], is_dry=True)
    stage.patch_job("j", [elsewhere])
    stage.let_pass(1)
    uid = uid_of(stage.pod("j-worker-1"))
    stage.evict("j-worker-1")
    stage.until_remade("j-worker-1", uid)
    stage.until_running()
    has_new_template = stage.pod("j-worker-1")["spec"].get("nodeSelector") == {"rack": "r3"}
    assert has_new_template is not stage.plane.has_webhooks


def _l4(stage: Stage) -> None:
    there = stage.pod("j-worker-0")
    stage.budget(minAvailable=3)
    stage.evict("j-worker-0")
    assert stage.evict("j-worker-1").code == 429
    stage.until_remade("j-worker-0", uid_of(there))
    assert stage.evict("j-worker-1").code == 429, "not before the replacement runs"
    stage.until_running()
    stage.command("j", "RestartJob")  # no budget is asked
    stage.until_phase("Running", retries=1)
    stage.until_running()


# --- n: parts that are down


def _n(stage: Stage) -> None:
    there = stage.pod("j-worker-1")
    stage.plane.stop("scheduler")
    stage.cordon(there["spec"]["nodeName"])
    stage.evict("j-worker-1")
    stage.until_remade("j-worker-1", uid_of(there))
    stage.let_pass(5)
    assert not (stage.pod("j-worker-1")["status"].get("conditions") or []), "nobody says why it waits"
    assert stage.group_phase("j") == "Running", "the last phase that was written stays"
    stage.plane.start("scheduler")
    stage.until_running()


def _n2(stage: Stage) -> None:
    uid = uid_of(stage.pod("j-worker-1"))
    stage.plane.stop("controller")
    stage.evict("j-worker-1")
    stage.command("j", "AbortJob")
    stage.until_gone("j-worker-1", uid)
    stage.let_pass(4)
    assert stage.find(POD, "j-worker-1") is None, "nobody makes it anew"
    stage.plane.start("controller")
    stage.until_phase("Aborted")
    stage.let_pass(2)


def _n3(stage: Stage) -> None:
    uid = uid_of(stage.pod("j-worker-1"))
    stage.plane.stop("controller")
    stage.evict("j-worker-1")
    stage.until_gone("j-worker-1", uid)
    stage.let_pass(3)
    stage.plane.start("controller")
    stage.until_remade("j-worker-1", uid)
    stage.until_running()


# --- p: masters


def _with_master(stage: Stage) -> None:
    """A master whose end is the job's, as most training jobs have it; all pods exit 0 on SIGTERM."""
    ending: Object = {"annotations": {"fake/term-exit": "0"}}
    master = a_task("master", 1, minAvailable=1, policies=policy("TaskCompleted", "CompleteJob"), **ending)
    stage.run_job("j", tasks=[master, a_task("worker", 3, minAvailable=3, **ending)])


def _p1(stage: Stage) -> None:
    stage.evict("j-master-0")
    stage.until_phase("Completed")
    stage.let_pass(2)


def _p4(stage: Stage) -> None:
    stage.resize("j", [0, 0], 0, per_task=True)
    stage.until(lambda: not stage.pods_of("j"), "all pods are gone")
    stage.let_pass(2.2)
    stage.resize("j", [1, 3], 4, per_task=True)
    stage.until(lambda: len(stage.pods_of("j")) == 4, "the pods are back")
    stage.until_running()


SCENES = (
    Scene(
        "j-queues",
        _nothing,
        _j,
        of=(*("Job over", "PodGroup over", "Job r", "PodGroup r", "Pod r-worker-0", "Pod r-worker-1"),),
        passing=("no place: may go once minAvailable is satisfied",),
    ),
    Scene("k-taints", gang(), _k, moved_place),
    Scene("l-wrong-uses", _nothing, _l),
    Scene("l2-duplicates-finished", _nothing, _l2),
    Scene("l3-patches-webhook-off", gang(), _l3),
    Scene("l3-patches-webhook-on", gang(per_task=4), _l3, has_webhooks=True),
    Scene("l4-pdb", gang(per_task=4, maxRetry=5), _l4, has_webhooks=True),
    Scene("n-scheduler-down", gang(per_task=4), _n, moved_place, has_webhooks=True),
    # the controller that comes back makes the pod anew and then stops it: it may be placed in between
    Scene(
        "n2-controller-down",
        gang(policies=policy("PodEvicted"), per_task=4),
        _n2,
        but=("Pod j-worker-1",),
        passing=("Pending",),
        has_webhooks=True,
    ),
    Scene("n3-controller-down-evict", gang(policies=policy("PodEvicted"), per_task=4), _n3, has_webhooks=True),
    Scene("p1-master-exit-zero-taskcompleted", _with_master, _p1, has_webhooks=True),
    Scene("p4-two-tasks-zero-exit-zero", _with_master, _p4, passing=("Inqueue",), has_webhooks=True),
)
