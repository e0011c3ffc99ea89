"""Scenarios of closed queues, quota, and races for a seat."""

from __future__ import annotations

from tests.cluster.volcano.api import POD, Object
from tests.cluster.volcano.objects import uid_of
from tests.contract.volcano_bodies import a_task
from tests.contract.volcano_scenes import Act, Scene
from tests.contract.volcano_scenes_seats import (
    NODES,
    ONE_POD_GROUP,
    VICTIMS,
    WHILE_TOLERATED,
    evict_victims,
    two_to_move,
    until_victims_return,
)
from tests.contract.volcano_stage import Stage
from tests.contract.volcano_story import any_place, moved_place, named_place

# --- i: quota and races


def _i3_before(*, has_webhooks: bool) -> Act:
    def prepare(stage: Stage) -> None:
        more: Object = {"minAvailable": 1} if has_webhooks else {}
        stage.queue("qa")
        stage.fill(*NODES[3:])
        stage.fill("n01", gpus=4)
        stage.fill("n02", gpus=5)
        stage.cordon("n01", "n02")
        for name in ("p6", "p7"):
            stage.run_job(name, tasks=[a_task("worker", 1, gpus=1, **more)])
        stage.uncordon("n02")
        stage.run_job("run", queue="qa", maxRetry=5, tasks=[a_task("worker", 1, gpus=2, **more)])
        stage.uncordon("n01")
        stage.create_job("pend", queue="qa", tasks=[a_task("worker", 1, **more)])
        stage.until_waiting("pend-worker-0")
        stage.let_pass(1.5)

    return prepare


def _i3_hold(stage: Stage) -> None:
    """The queue is closed: what it has runs on, nothing of it is placed or made anew; other queues go on."""
    uid = uid_of(stage.pod("run-worker-0"))
    stage.command_queue("qa", "CloseQueue")
    stage.let_pass(2.5)
    stage.create_job("late", queue="qa", tasks=[a_task("worker", 1, gpus=1)])
    stage.let_pass(2.5)
    stage.evict("run-worker-0")
    stage.until_gone("run-worker-0", uid)
    stage.let_pass(3)
    assert stage.find(POD, "run-worker-0") is None
    stage.cordon("n03")
    uids = evict_victims(stage)
    until_victims_return(stage, uids)
    stage.until_placed(*VICTIMS)
    stage.uncordon("n03")
    stage.let_pass(3)
    assert not stage.node_of("pend-worker-0")
    stage.command("run", "RestartJob")
    stage.until_phase("Pending", "run", retries=1)
    stage.let_pass(5)
    stage.command_queue("qa", "OpenQueue")


def _i3(stage: Stage) -> None:
    _i3_hold(stage)
    stage.until_placed("pend-worker-0", "run-worker-0", "late-worker-0")


def _i3_webhook(stage: Stage) -> None:
    _i3_hold(stage)
    stage.until_placed("pend-worker-0")
    stage.until(lambda: stage.find(POD, "run-worker-0") is not None, "the pod of job run is made anew")


def _i4_before(stage: Stage) -> None:
    two_to_move(filled=(4, 4), has_waiting=False, annotations={"fake/term-s": "4"})(stage)
    stage.fill("n03", gpus=6)
    stage.create_job("big", replicas=1)
    stage.until_waiting("big-worker-0")
    stage.let_pass(1.5)


def _i4(stage: Stage) -> None:
    """A placeholder keeps the node but takes quota: small pods that wait are let in before the victims are again."""
    for index in range(8):
        stage.create_pod(f"intruder{index}")
    stage.let_pass(1.5)
    uids = evict_victims(stage)
    for pod, uid in zip(VICTIMS, uids, strict=True):
        stage.until_gone(pod, uid)
    stage.let_pass(3)
    missing = [pod for pod in VICTIMS if stage.find(POD, pod) is None]
    assert missing, "quota is used up by the placeholder and by the job that waits"
    stage.force_delete("filler-n03-6")
    stage.until_placed(*VICTIMS)


def _i5_before(stage: Stage) -> None:
    stage.fill(*NODES[2:])
    stage.run_job("gang", replicas=2)
    stage.create_job("wait", replicas=1)
    stage.let_pass(2.5)
    assert stage.find(POD, "wait-worker-0") is None, "all quota is used: no pod is made for it"


def _i5(stage: Stage) -> None:
    stage.evict("gang-worker-1")
    stage.until_placed("wait-worker-0")
    stage.let_pass(3)
    assert stage.group_phase("gang") == "Unknown"


def _i10_before(stage: Stage) -> None:
    stage.queue("qb")
    stage.run_job("run", queue="qb", maxRetry=5, tasks=[a_task("worker", 1, gpus=1, minAvailable=1)])


def _i10(stage: Stage) -> None:
    stage.command_queue("qb", "CloseQueue")
    stage.let_pass(2)
    stage.command("run", "RestartJob")
    stage.until_phase("Terminated", "run")


SLOW: Object = {"annotations": {"fake/term-s": "5"}}


def _race(stage: Stage) -> None:
    """Small pods keep coming while two victims leave and a job waits for their node."""
    for index in range(8):
        stage.create_pod(f"intruder{index}")
        stage.let_pass(0.5)


def _i11(stage: Stage) -> None:
    uids = evict_victims(stage)
    _race(stage)
    until_victims_return(stage, uids)
    stage.until_placed(*VICTIMS)
    assert not stage.node_of("big-worker-0")


def _i12(stage: Stage) -> None:
    stage.cordon("n03")
    uids = evict_victims(stage)
    _race(stage)
    until_victims_return(stage, uids)
    stage.let_pass(3)
    assert not stage.node_of(VICTIMS[0])
    stage.uncordon("n03")
    stage.until_placed(*VICTIMS)
    assert not stage.node_of("big-worker-0")


def _i14(stage: Stage) -> None:
    stage.nominate("big-worker-0", "n03")
    _i11(stage)


def _hold_both(stage: Stage) -> None:
    stage.taint("n03", "big")
    stage.taint("n02", "seats")
    stage.tolerate("big-worker-0", "big")


def _i17(stage: Stage) -> None:
    _hold_both(stage)
    uids = evict_victims(stage)
    _race(stage)
    for pod, uid in zip(VICTIMS, uids, strict=True):
        stage.until_remade(pod, uid)
        stage.tolerate(pod, "seats")
    stage.until_placed(*VICTIMS, "big-worker-0")
    assert not any(stage.node_of(f"intruder{index}") for index in range(8))
    stage.untaint("n03", "n02")
    stage.until(lambda: any(stage.node_of(f"intruder{index}") for index in range(8)), "the small pods get the rest")
    stage.let_pass(2)


def _i18_before(stage: Stage) -> None:
    stage.fill(*NODES[3:])
    stage.cordon("n01", "n03")
    stage.create_pod("elbow", gpus=6)
    stage.until_placed("elbow")
    stage.uncordon("n03")
    stage.create_pod("elbow3", gpus=6)
    stage.until_placed("elbow3")
    tasks = [a_task("worker", 2, gpus=2, annotations={"fake/term-s": "5"}, minAvailable=2)]
    stage.run_job("g", tasks=tasks)
    for pod in ("elbow", "elbow3"):
        uid = uid_of(stage.pod(pod))
        stage.force_delete(pod)
        stage.until_gone(pod, uid)
    stage.create_job("big", replicas=1)
    stage.until_waiting("big-worker-0")
    stage.let_pass(1.5)


def _i18(stage: Stage) -> None:
    """The gang's pod on one node moves to its peer's; big gets the node."""
    there = stage.pod("g-worker-1")
    seat = stage.node_of("g-worker-0")
    stage.taint(there["spec"]["nodeName"], "big")
    stage.taint(seat, "seats")
    stage.tolerate("big-worker-0", "big")
    stage.evict("g-worker-1")
    _race(stage)
    stage.until_remade("g-worker-1", uid_of(there))
    stage.tolerate("g-worker-1", "seats")
    stage.until_placed("g-worker-1", "big-worker-0")
    assert stage.node_of("g-worker-1") == seat
    stage.untaint(there["spec"]["nodeName"], seat)
    stage.let_pass(3)


CONTESTED = ("Pod p6-worker-0", "Pod p7-worker-0", "Job p6", "Job p7")

SCENES = (
    Scene("i3-close-queue", _i3_before(has_webhooks=False), _i3, named_place, passing=ONE_POD_GROUP),
    Scene(
        "i3-close-queue-webhook",
        _i3_before(has_webhooks=True),
        _i3_webhook,
        any_place,
        but=("PodGroup run",),  # the recording begins while it still becomes Running
        passing=ONE_POD_GROUP,
        is_cut=True,
        has_webhooks=True,
    ),
    Scene("i4-placeholder", _i4_before, _i4, of=("Job p6", "Job p7")),
    Scene("i5-halfgang-vs-pending", _i5_before, _i5, passing=WHILE_TOLERATED),
    Scene("i10-restart-in-closed-queue", _i10_before, _i10, has_webhooks=True),
    Scene("i11-phantom-no-hold", two_to_move(filled=(0, 4), **SLOW), _i11, named_place, of=CONTESTED),
    Scene("i12-phantom-cordon", two_to_move(filled=(0, 4), **SLOW), _i12, named_place, of=CONTESTED),
    Scene("i14-phantom-nominate-only", two_to_move(filled=(0, 4), **SLOW), _i14, named_place, of=CONTESTED),
    Scene(
        "i17-phantom-two-taints",
        two_to_move(filled=(0, 4), **SLOW),
        _i17,
        named_place,
        of=(*CONTESTED, "Pod big-worker-0", "Job big", "PodGroup big"),
        passing=WHILE_TOLERATED,
    ),
    Scene(
        "i18-phantom-two-taints-gang",
        _i18_before,
        _i18,
        moved_place,
        of=("Pod g-worker-0", "Pod g-worker-1", "Job g", "PodGroup g", "Pod big-worker-0", "Job big"),
        passing=WHILE_TOLERATED,
    ),
)
