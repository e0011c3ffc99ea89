"""The scenarios of the Volcano contract: each does what its recording did, call by call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.cluster.volcano.objects import uid_of
from tests.contract.volcano_bodies import a_task
from tests.contract.volcano_stage import Stage
from tests.contract.volcano_story import PlaceWords, any_place, moved_place

Act = Callable[[Stage], None]


@dataclass(frozen=True)
class Scene:
    """A recording's name, what is there before it begins, and our calls in order."""

    name: str
    prepare: Act
    act: Act
    place: PlaceWords = any_place
    of: tuple[str, ...] = ()
    """Subjects that are compared; all that the recording has when empty."""
    but: tuple[str, ...] = ()
    """Subjects that are not compared: a comment says why."""
    orders: tuple[tuple[str, str], ...] = ()
    """Milestones of which the first comes before the second."""
    passing: tuple[str, ...] = ()
    """Words of a story that hang on the moment (`*` stands for anything): not compared, unless they are its end."""
    is_cut: bool = False
    """The recording ends before everything is at rest: its stories are beginnings of ours."""
    has_webhooks: bool = False
    needs_server: bool = False
    """Kubernetes' own controllers take part: not to be had in memory."""


def gang(*, policies: list[dict[str, Any]] | None = None, per_task: int = 0, **options: Any) -> Act:
    """Job j of four pods with 8 GPUs each runs; `per_task` is its task's minAvailable, which the webhook fills in."""

    def prepare(stage: Stage) -> None:
        more = {"minAvailable": per_task} if per_task else {}
        annotations = options.get("annotations")
        task = a_task("worker", options.get("replicas", 4), gpus=8, annotations=annotations, **more)
        spec = {name: value for name, value in options.items() if name not in ("replicas", "annotations")}
        stage.run_job("j", tasks=[task], policies=policies or [], **spec)

    return prepare


def policy(event: str, action: str = "RestartJob", **more: Any) -> list[dict[str, Any]]:
    return [{"event": event, "action": action, **more}]


def evict_and_wait(stage: Stage, *, is_cordoned: bool = True, pod: str = "j-worker-1") -> None:
    """Cordons the pod's node, evicts it, and waits until the job runs whole again."""
    there = stage.pod(pod)
    if is_cordoned:
        stage.cordon(there["spec"]["nodeName"])
    stage.evict(pod)
    stage.until_remade(pod, uid_of(there))
    stage.until_running()


def evict_without_cordon(stage: Stage) -> None:
    evict_and_wait(stage, is_cordoned=False)


# --- a: no policy


def _a(stage: Stage) -> None:
    stage.run_job()
    there = stage.pod("j-worker-1")
    stage.cordon(there["spec"]["nodeName"])
    stage.evict("j-worker-1", is_dry=True)
    stage.let_pass(1)
    evict_and_wait(stage, is_cordoned=False)


def _a4_before(stage: Stage) -> None:
    stage.run_job()
    taken = {stage.node_of(f"j-worker-{index}") for index in range(4)}
    stage.fill(*[name for name in (f"n{number:02}" for number in range(1, 13)) if name not in taken])


def _a4(stage: Stage) -> None:
    node = stage.node_of("j-worker-1")
    uid = uid_of(stage.pod("j-worker-1"))
    stage.cordon(node)
    stage.evict("j-worker-1")
    stage.until_remade("j-worker-1", uid)
    stage.until_waiting("j-worker-1")
    stage.let_pass(3)
    assert stage.group_phase("j") == "Unknown"
    stage.uncordon(node)
    stage.until_running()


def _a10(stage: Stage) -> None:
    stage.plane.silence(stage.node_of("j-worker-1"))
    stage.evict("j-worker-1")
    stage.let_pass(6)
    assert stage.group_phase("j") == "Unknown"


# --- b: policies


def _b5(stage: Stage) -> None:
    uids = [uid_of(stage.pod(f"j-worker-{index}")) for index in (1, 2)]
    stage.evict("j-worker-1")
    stage.evict("j-worker-2")
    stage.until_remade("j-worker-1", uids[0])
    stage.until_running()


def _b10(stage: Stage) -> None:
    there = stage.pod("j-worker-1")
    stage.cordon(there["spec"]["nodeName"])
    stage.evict("j-worker-1")
    stage.until_gone("j-worker-1", uid_of(there))
    stage.let_pass(3)
    assert len(stage.pods_of("j")) == 3, "no replacement before the policy's timeout"
    stage.until_remade("j-worker-1", uid_of(there))
    stage.until_running()


def _b15(stage: Stage) -> None:
    stage.annotate("j-worker-2", term_s="600")
    dead = uid_of(stage.pod("j-worker-2"))
    stage.evict("j-worker-1")
    stage.until_phase("Restarting")
    stage.let_pass(8)
    stage.until_phase("Restarting")
    stage.force_delete("j-worker-2")
    stage.until_remade("j-worker-2", dead)
    stage.until_running()


# --- c: Commands


def _c(stage: Stage) -> None:
    stage.command("j", "AbortJob")
    stage.until_phase("Aborted")
    stage.let_pass(2)
    stage.command("j", "ResumeJob")
    stage.until_phase("Running")
    stage.until_running()


def _c2(stage: Stage) -> None:
    stage.command("j", "AbortJob")
    stage.until_phase("Aborting")
    stage.let_pass(1)
    stage.command("j", "ResumeJob")
    stage.until_phase("Running")
    stage.until_running()


def _c3(stage: Stage) -> None:
    stage.command("j", "RestartJob")
    stage.until_phase("Running", retries=1)
    stage.until_running()


# --- d: the limit of retries


def _d(stage: Stage) -> None:
    for retries in (1, 2):
        stage.evict("j-worker-1")
        stage.until_phase("Running", retries=retries)
        stage.until_running()
    stage.evict("j-worker-1")
    stage.until_phase("Failed")
    stage.let_pass(3)


def _d3(stage: Stage) -> None:
    stage.evict("j-worker-1")
    stage.until_phase("Failed")
    stage.let_pass(3)


# --- e: sizes


def _e_before(stage: Stage) -> None:
    """Nothing is there: the recording begins with the job."""


def _e(stage: Stage) -> None:
    stage.create_job("j", replicas=6, gpus=4, min_available=4)
    stage.until_running()
    for replicas, needed in ((4, 3), (6, 6)):
        stage.resize("j", [replicas], needed)
        stage.until(lambda: len(stage.pods_of("j")) == replicas, "the pods follow the size")  # noqa: B023
        stage.until_running()
    stage.resize("j", [4], None)
    stage.until(lambda: len(stage.pods_of("j")) == 4, "two pods are gone")
    stage.let_pass(2.2)
    assert stage.resize("j", [4], None, version="1").code == 422
    stage.resize("j", [None], 2)
    stage.until_running()
    _zero_and_back(stage, per_task=False)


def _zero_and_back(stage: Stage, *, per_task: bool) -> None:
    stage.resize("j", [0], 0, per_task=per_task)
    stage.until(lambda: not stage.pods_of("j"), "all pods are gone")
    stage.let_pass(2.2)
    stage.resize("j", [4], 4, per_task=per_task)
    stage.until(lambda: len(stage.pods_of("j")) == 4, "the pods are back")
    stage.until_running()


def _e2(stage: Stage) -> None:
    for _ in range(3):
        _zero_and_back(stage, per_task=False)


def _e3(stage: Stage) -> None:
    assert stage.resize("j", [0], 0).code == 400
    stage.resize("j", [0], 0, per_task=True)
    stage.until_phase("Failed")
    stage.let_pass(2)
    stage.resize("j", [4], 4, per_task=True)
    stage.let_pass(2)


def _e4(stage: Stage) -> None:
    stage.patch_job("j", [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 3}])
    stage.until_phase("Running", retries=1)
    stage.until_running()


def _e5(stage: Stage) -> None:
    _zero_and_back(stage, per_task=True)


def _e6(stage: Stage) -> None:
    _resize_min_available(stage, 3)
    stage.let_pass(1.5)
    evict_and_wait(stage)
    _resize_min_available(stage, 4)
    stage.let_pass(2)


def _resize_min_available(stage: Stage, needed: int) -> None:
    paths = ("/spec/minAvailable", "/spec/tasks/0/minAvailable")
    stage.patch_job("j", [{"op": "replace", "path": path, "value": needed} for path in paths])


EVICTED_GONE = "Pod j-worker-1: gone"
RESTARTING = "Job j: Restarting retry 1"
AFTER_GONE = ((EVICTED_GONE, RESTARTING), (RESTARTING, "PodGroup j: gone"), ("PodGroup j: gone", "PodGroup j: made"))
BY_UNKNOWN = (("PodGroup j: Unknown", "Pod j-worker-0: marked out of sync"),)
ONE_POD = (("PodGroup j: Unknown", EVICTED_GONE), (EVICTED_GONE, "Pod j-worker-1: made"))

REMADE_GROUP = ("Unknown", "Pending", "Inqueue")
"""How a group begins that is made anew around running pods: which pods are there then hangs on the moment."""

SCENES = (
    Scene("a-evict-no-policy", _e_before, _a, moved_place, orders=ONE_POD[:1]),
    Scene("a4-no-room", _a4_before, _a4, moved_place, orders=ONE_POD),
    Scene("a6-unknown-policy", gang(policies=policy("Unknown")), evict_without_cordon, orders=BY_UNKNOWN),
    Scene("a8-elastic-gang", gang(min_available=2), evict_without_cordon),
    Scene("a10-dead-node-no-policy", gang(per_task=4), _a10, has_webhooks=True),
    Scene("b-evict-restartjob", gang(policies=policy("PodEvicted")), evict_and_wait, orders=AFTER_GONE),
    Scene(
        "b2-podfailed-restartjob",
        gang(policies=policy("PodFailed")),
        evict_and_wait,
    ),
    Scene("b4-any-event", gang(policies=policy("*")), evict_and_wait, orders=BY_UNKNOWN),
    Scene("b5-two-evictions", gang(policies=policy("PodEvicted")), _b5),
    Scene(
        "b6-slow-term",
        gang(policies=policy("PodEvicted"), annotations={"fake/term-s": "5"}),
        evict_and_wait,
        orders=AFTER_GONE,
    ),
    Scene(
        "b7-restartpod-policy",
        gang(policies=policy("PodEvicted", "RestartPod")),
        evict_and_wait,
        moved_place,
        passing=REMADE_GROUP,
    ),
    Scene(
        "b9-podfailed-exit-none",
        gang(policies=policy("PodFailed"), annotations={"fake/term-exit": "none"}),
        evict_and_wait,
        moved_place,
    ),
    Scene("b10-timeout", gang(policies=policy("PodEvicted", timeout="5s")), _b10),
    Scene("b15-dead-node-peer", gang(policies=policy("PodEvicted"), per_task=4), _b15, has_webhooks=True),
    Scene("c-abort-resume", gang(), _c, orders=(("Command j-abortjob 1: gone", "Job j: Aborting retry 0"),)),
    Scene("c2-resume-while-aborting", gang(annotations={"fake/term-s": "4"}), _c2),
    Scene("c3-restartjob-command", gang(), _c3),
    Scene("d-retry-exhaustion", gang(policies=policy("PodEvicted")), _d),
    Scene("d3-maxretry1", gang(policies=policy("PodEvicted"), maxRetry=1), _d3),
    Scene("e-elastic", _e_before, _e, passing=("Inqueue",)),
    Scene("e2-scale-to-zero-and-back", gang(maxRetry=1), _e2, passing=("Inqueue",)),
    Scene(
        "e3-scale-to-zero-webhook",
        gang(policies=policy("PodEvicted"), maxRetry=1, per_task=4),
        _e3,
        has_webhooks=True,
    ),
    Scene(
        "e4-shrink-with-policy-webhook",
        gang(policies=policy("PodEvicted"), per_task=2, min_available=2),
        _e4,
        has_webhooks=True,
    ),
    Scene(
        "e5-scale-to-zero-nopolicy-webhook", gang(maxRetry=1, per_task=4), _e5, passing=("Inqueue",), has_webhooks=True
    ),
    Scene("e6-lower-minavailable-first", gang(policies=policy("Unknown"), per_task=4), _e6, has_webhooks=True),
)
