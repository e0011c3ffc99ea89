"""Scenarios of topology, steering, holding and races for a seat."""

from __future__ import annotations

from typing import Any

from tests.cluster.volcano.api import CORE_JOB, POD, POD_GROUP
from tests.cluster.volcano.objects import is_terminating, phase_of, uid_of
from tests.contract.volcano_bodies import a_pod, a_task
from tests.contract.volcano_scenes import Act, Scene, evict_and_wait, policy
from tests.contract.volcano_stage import Stage
from tests.contract.volcano_story import moved_place, named_place, rack_place

NODES = [f"n{number:02}" for number in range(1, 13)]
HARD = {"mode": "hard", "highestTierAllowed": 1}
VICTIMS = ("p6-worker-0", "p7-worker-0")


# --- g: topology


def _gang_in_rack(rack: int, *, replicas: int = 4, topology: dict[str, object], **options: Any) -> Act:
    """Job j runs in one rack of three."""

    def prepare(stage: Stage) -> None:
        stage.topology()
        others = [node for at, node in enumerate(NODES) if at // 4 != rack - 1]
        stage.cordon(*others)
        stage.run_job("j", replicas=replicas, networkTopology=topology, **options)
        stage.uncordon(*others)
        stage.let_pass(1.5)

    return prepare


def _g2(stage: Stage) -> None:
    there = stage.pod("j-worker-1")
    node = there["spec"]["nodeName"]
    stage.cordon(node)
    stage.evict("j-worker-1")
    stage.until_waiting("j-worker-1")
    stage.let_pass(4)
    assert stage.group_phase("j") == "Unknown"
    stage.uncordon(node)
    stage.until_running()


def _g6(stage: Stage) -> None:
    there = stage.pod("j-worker-1")
    stage.cordon(there["spec"]["nodeName"])
    stage.evict("j-worker-1")
    stage.until_waiting("j-worker-1")
    stage.let_pass(2)
    stage.command("j", "RestartJob")
    stage.until_phase("Running", retries=1)
    stage.until_running()


# --- h: consolidation and seats


def two_to_move(*, filled: tuple[int, int], has_waiting: bool = True, **options: Any) -> Act:
    """p6 and p7, a GPU each, sit on n03; n01 and n02 are filled in part, the rest whole; job big waits for 8 GPUs."""

    def prepare(stage: Stage) -> None:
        stage.fill(*NODES[3:])
        for node, gpus in zip(NODES, filled, strict=False):
            if gpus:
                stage.fill(node, gpus=gpus)
        stage.cordon("n01", "n02")
        for name in ("p6", "p7"):
            stage.run_job(name, tasks=[a_task("worker", 1, gpus=1, **options)])
        stage.uncordon(*(node for node, gpus in zip(NODES, filled, strict=False) if gpus))
        if has_waiting:
            stage.create_job("big", replicas=1)
            stage.until_waiting("big-worker-0")
            stage.let_pass(1.5)

    return prepare


def evict_victims(stage: Stage) -> list[str]:
    uids = [uid_of(stage.pod(pod)) for pod in VICTIMS]
    for pod in VICTIMS:
        stage.evict(pod)
    return uids


def until_victims_return(stage: Stage, uids: list[str]) -> None:
    for pod, uid in zip(VICTIMS, uids, strict=True):
        stage.until_remade(pod, uid)


def _h1(stage: Stage) -> None:
    stage.cordon("n03")
    uids = evict_victims(stage)
    until_victims_return(stage, uids)
    stage.until_placed(*VICTIMS)
    stage.uncordon("n03")
    stage.until_placed("big-worker-0")


def _h3(stage: Stage) -> None:
    uid = uid_of(stage.pod("p6-worker-0"))
    stage.cordon("n01", "n02", "n03")
    stage.evict("p6-worker-0")
    stage.until_remade("p6-worker-0", uid)
    stage.until_waiting("p6-worker-0")
    stage.nominate("p6-worker-0", "n03")
    stage.uncordon("n01", "n02", "n03")
    stage.until_placed("p6-worker-0")


def _h9_before(stage: Stage) -> None:
    stage.fill(*NODES[3:])
    stage.taint("n03", "gang")
    stage.run_job("gang", tasks=[a_task("worker", 2, minAvailable=2)])
    stage.create_job("wait", tasks=[a_task("worker", 1, minAvailable=1)])
    stage.until_waiting("wait-worker-0")
    stage.let_pass(1.5)


def _h9(stage: Stage) -> None:
    there = stage.pod("gang-worker-1")
    stage.cordon(there["spec"]["nodeName"])
    stage.evict("gang-worker-1")
    stage.until_remade("gang-worker-1", uid_of(there))
    stage.tolerate("gang-worker-1", "gang")
    stage.until_running("gang")
    assert stage.node_of("gang-worker-1") == "n03"
    stage.untaint("n03")
    stage.let_pass(2)


def _reserved_rack(stage: Stage) -> None:
    """j runs on n01 to n04; n05 to n08 are held for it; wait waits for a node."""
    stage.fill(*NODES[8:])
    stage.cordon(*NODES[4:8])
    stage.run_job("j", tasks=[a_task("worker", 4, minAvailable=4)])
    for node in NODES[4:8]:
        stage.taint(node, "j")
    stage.uncordon(*NODES[4:8])
    stage.create_job("wait", tasks=[a_task("worker", 1, minAvailable=1)])
    stage.until_waiting("wait-worker-0")
    stage.let_pass(1.5)


def _h12(stage: Stage) -> None:
    uids = [uid_of(stage.pod(f"j-worker-{index}")) for index in range(4)]
    stage.cordon(*NODES[:4])
    stage.command("j", "RestartJob")
    _tolerate_all_and_release(stage, uids)


def _h13(stage: Stage) -> None:
    uids = [uid_of(stage.pod(f"j-worker-{index}")) for index in range(4)]
    stage.cordon(*NODES[:4])
    stage.resize("j", [0], 0, per_task=True)
    stage.until(lambda: not stage.pods_of("j"), "all pods are gone")
    stage.let_pass(1)
    stage.resize("j", [4], 4, per_task=True)
    _tolerate_all_and_release(stage, uids)


def _tolerate_all_and_release(stage: Stage, uids: list[str]) -> None:
    for index, uid in enumerate(uids):
        stage.until_remade(f"j-worker-{index}", uid)
        stage.tolerate(f"j-worker-{index}", "j")
    stage.until_running()
    assert {stage.node_of(f"j-worker-{index}") for index in range(4)} == set(NODES[4:8])
    assert not stage.node_of("wait-worker-0")
    stage.untaint(*NODES[4:8])
    stage.uncordon(*NODES[:4])
    stage.until_placed("wait-worker-0")


def _f_before(stage: Stage) -> None:
    stage.create_pod("bare1", gpus=2)
    stage.create_pod("bare2", gpus=2, annotations={"volcano.sh/preemptable": "true"})
    stage.create_pod("grp1", annotations={"scheduling.k8s.io/group-name": "nosuch"})
    stage.until_placed("bare1", "bare2")


def _f(stage: Stage) -> None:
    """A bare pod has a group of its own, which goes with it; a pod that names a missing group waits for ever."""
    uid = uid_of(stage.pod("bare1"))
    stage.evict("bare1")
    stage.until_gone("bare1", uid)
    stage.let_pass(3)
    assert not stage.node_of("grp1")
    owners = [group["metadata"]["ownerReferences"][0]["name"] for group in stage.objects(POD_GROUP)]
    assert owners == ["bare2"]


def _f3_before(stage: Stage) -> None:
    """A Job of Kubernetes' own with three pods, which is to be placed whole."""
    template = a_pod("unnamed", stage.namespace, gpus=8)
    body = {
        "apiVersion": CORE_JOB.version,
        "kind": "Job",
        "metadata": {"name": "bj", "annotations": {"scheduling.volcano.sh/group-min-member": "3"}},
        "spec": {"parallelism": 3, "completions": 3, "template": {"spec": template["spec"]}},
    }
    stage.must("POST", CORE_JOB.path(stage.namespace), body)
    _until_three_run(stage)


def _until_three_run(stage: Stage) -> None:
    def are_running() -> bool:
        running = [pod for pod in stage.objects(POD) if phase_of(pod) == "Running" and not is_terminating(pod)]
        return len(running) == len(stage.objects(POD)) == 3

    stage.until(are_running, "the Job's three pods run")
    stage.let_pass(2.2)


def _f3(stage: Stage) -> None:
    """Ten seconds pass before Kubernetes replaces the pod: the gang is short and Unknown meanwhile."""
    pod = stage.objects(POD)[0]
    stage.cordon(pod["spec"]["nodeName"])
    stage.evict(pod["metadata"]["name"])
    stage.until(lambda: phase_of(stage.objects(POD_GROUP)[0]) == "Unknown", "the group is Unknown")
    _until_three_run(stage)


ONE_POD_GROUP = ("Pending", "Inqueue", "Completed")
"""Phases of a group whose only pod is replaced: which of them a cycle sees hangs on the moment."""

WHILE_TOLERATED = ("no place: *", "Unschedulable*")
"""Said when a cycle comes while some pods of the gang have their toleration and others have not."""

SCENES = (
    Scene(
        "f-batchjob-barepods",
        _f_before,
        _f,
        of=("Pod bare1", "Pod bare2", "Pod grp1", "PodGroup of bare1", "PodGroup of bare2"),
    ),
    Scene("f3-batchjob-long", _f3_before, _f3, of=("PodGroup of bj",), needs_server=True),
    Scene("g-topology-room", _gang_in_rack(1, replicas=3, topology=HARD), evict_and_wait, rack_place),
    Scene("g2-topology-noroom", _gang_in_rack(1, topology=HARD), _g2, rack_place),
    Scene("g3-topology-soft", _gang_in_rack(1, topology={"mode": "soft"}), evict_and_wait, rack_place),
    Scene(
        "g5-topology-restart",
        _gang_in_rack(3, topology=HARD, policies=policy("PodEvicted")),
        evict_and_wait,
        rack_place,
    ),
    Scene("g6-topology-stuck-cure", _gang_in_rack(3, topology=HARD), _g6, rack_place),
    Scene("h1-consolidate-cordon", two_to_move(filled=(2, 6)), _h1, named_place, passing=ONE_POD_GROUP),
    Scene(
        "h3-nominated",
        two_to_move(filled=(2, 6), has_waiting=False),
        _h3,
        named_place,
        passing=(*ONE_POD_GROUP, *WHILE_TOLERATED),
    ),
    Scene("h9-gang-reserved-by-taint-patch-toleration", _h9_before, _h9, moved_place, passing=WHILE_TOLERATED),
    Scene(
        "h12-whole-gang-to-reserved-rack",
        _reserved_rack,
        _h12,
        rack_place,
        but=("Job wait",),
        passing=WHILE_TOLERATED,
        has_webhooks=True,
    ),
    Scene(
        "h13-whole-gang-zero-and-back-to-reserved-rack",
        _reserved_rack,
        _h13,
        rack_place,
        but=("Job wait",),
        passing=("minMember 0", "Inqueue", *WHILE_TOLERATED),
        has_webhooks=True,
    ),
)
