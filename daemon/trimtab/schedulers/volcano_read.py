"""What Volcano's objects say of a job: where it stands, why it waits, how it may be broken up; and the queues. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from trimtab.model.cluster import Queue, WorkloadState
from trimtab.schedulers.budgets import selects
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.objects import Condition, Loose, Pod
from trimtab.schedulers.pods import quantity
from trimtab.schedulers.standing import PLACEMENT, QUOTA, Standing, conditions, moment, of_pods, words
from trimtab.schedulers.volcano_policies import can_replace_pod, sizes_of

SCHEDULERS = ("volcano",)
POD_GROUPS, QUEUES = "podgroups.scheduling.volcano.sh", "queues.scheduling.volcano.sh"
GROUP_ANNOTATION = "scheduling.k8s.io/group-name"
TASK_LABEL = "volcano.sh/task-spec"
SOMEBODY = "somebody"
_OVER: Mapping[str, WorkloadState] = {
    "Completed": WorkloadState.FINISHED,
    "Failed": WorkloadState.FAILED,
    "Terminated": WorkloadState.FAILED,
}
_ENDING = ("Aborting", "Terminating", "Completing")
_CLOSED = ("Closed", "Closing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Around:
    """What else a job's standing depends on."""

    group: Loose | None
    queue: Loose | None
    gpu: str


def phase_of(job: Loose) -> str:
    """`Running`, `Restarting` …; empty where the controller has not seen the job yet."""
    return str((job.status.get("state") or {}).get("phase") or "")


def standing_of_job(job: Loose, pods: Sequence[Pod], around: Around) -> Standing:
    """Where a Volcano Job stands."""
    phase, sizes = phase_of(job), sizes_of(job.spec)
    if phase in _OVER and not pods:
        return Standing(state=_OVER[phase], since=_moment_of_phase(job))
    if sizes.pods_max == 0 or phase == "Aborted":
        return Standing(state=WorkloadState.STOPPING if pods else WorkloadState.SUSPENDED)
    if phase in _ENDING or phase in _OVER or (phase == "Restarting" and pods):
        return Standing(state=WorkloadState.STOPPING)
    return standing_of_pods(pods, around, wanted=sizes.pods_min or sizes.pods_max, made=job)


def standing_of_pods(pods: Sequence[Pod], around: Around, *, wanted: int, made: Loose | None) -> Standing:
    """By the pods; where none has a place, by what the PodGroup says."""
    standing = of_pods(pods, wanted=wanted, gpu=around.gpu)
    if standing.state is not WorkloadState.WAITING:
        return standing
    created = made.metadata.creation_timestamp if made is not None else None
    why = _why_waiting(around)
    if standing.reason == PLACEMENT and not (why or "").startswith(QUOTA):
        why = PLACEMENT
    return Standing(state=standing.state, since=standing.since or created, reason=why or standing.reason)


def _moment_of_phase(job: Loose) -> datetime | None:
    return moment((job.status.get("state") or {}).get("lastTransitionTime"))


def _why_waiting(around: Around) -> str | None:
    """`placement`, `quota`, or words; None where the PodGroup says nothing and the pods must."""
    group, queue = around.group, around.queue
    if queue is not None and queue.status.get("state") in _CLOSED:
        return f"quota: queue {queue.metadata.name} is closed"
    if group is None:
        return None
    phase = group.status.get("phase")
    if phase in (None, "", "Pending"):
        # Not enqueued: no pods are made, and over its quota Volcano sets no condition, only an Event.
        return QUOTA if _is_over_quota(group, queue, around.gpu) else "quota: Volcano has not enqueued it yet"
    newest = _newest(conditions(group))
    if newest is None or newest.type != "Unschedulable":
        return None
    return PLACEMENT if f"Insufficient {around.gpu}" in newest.message else words(newest.message or newest.reason)


def _is_over_quota(group: Loose, queue: Loose | None, gpu: str) -> bool:
    if queue is None:
        return False
    capability = (queue.spec.get("capability") or {}).get(gpu)
    wanted = (group.spec.get("minResources") or {}).get(gpu)
    if capability is None or wanted is None:
        return False
    allocated = (queue.status.get("allocated") or {}).get(gpu) or 0
    return quantity(allocated) + quantity(wanted) > quantity(capability)


def _newest(found: Iterable[Condition]) -> Condition | None:
    """The newest of Scheduled and Unschedulable: the latter stays True after a success, and means nothing then."""
    ours = [
        one
        for one in found
        if one.type in ("Scheduled", "Unschedulable") and one.status == "True" and one.last_transition_time is not None
    ]
    return max(ours, key=lambda one: (one.last_transition_time, one.type == "Scheduled"), default=None)


def group_of(namespace: str, job: Loose | None, pods: Iterable[Pod], groups: Mapping[str, Loose]) -> Loose | None:
    """The PodGroup of a workload: of a Volcano Job by its uid, else the one that its pods name."""
    if job is not None:
        found = groups.get(f"{namespace}/{job.metadata.name}-{job.metadata.uid}")
        if found is not None:
            return found
    names = (pod.metadata.annotations.get(GROUP_ANNOTATION) for pod in pods)
    return next((groups[key] for name in names if name and (key := f"{namespace}/{name}") in groups), None)


def queue_name(job: Loose | None, group: Loose | None) -> str | None:
    """The Volcano queue of a workload."""
    spec = job.spec if job is not None else group.spec if group is not None else {}
    return str(spec.get("queue") or "default") if spec else None


def can_replace(job: Loose, pods: Iterable[Pod]) -> bool:
    """Whether no policy of the job or its tasks reacts to the loss of a pod."""
    running: dict[str, int] = {}
    for pod in pods:
        if pod.status.phase == "Running" and not pod.is_terminating:
            task = pod.metadata.labels.get(TASK_LABEL, "")
            running[task] = running.get(task, 0) + 1
    return can_replace_pod(job.spec, running_by_task=running)


def hard_tier(job: Loose | None, group: Loose | None) -> int | None:
    """The highest HyperNode tier that the pods may be spread over; None where nothing is hard."""
    for item in (job, group):
        topology = item.spec.get("networkTopology") if item is not None else None
        if topology and topology.get("mode", "hard") == "hard":
            tier = topology.get("highestTierAllowed")
            return tier if isinstance(tier, int) else 1
    return None


def dead_budget(pods: Iterable[Pod], budgets: Iterable[Loose]) -> Loose | None:
    """A disruption budget over a Volcano Job's pods that never works: one by `maxUnavailable`, which the kind lacks."""
    hopeless = [one for one in budgets if one.spec.get("maxUnavailable") is not None]
    if not hopeless:
        return None
    labels = [pod.metadata.labels for pod in pods]
    return next((one for one in hopeless if any(selects(one.spec.get("selector"), each) for each in labels)), None)


def queues(others: Mapping[str, Mapping[str, Loose]], *, gpu: str, prefix: str) -> tuple[Queue, ...]:
    """The queues with their quota of GPUs: what they may have at most, else what they deserve."""
    return tuple(
        Queue(
            name=item.metadata.name,
            gpus_quota=_quota(item, gpu),
            cohort=_parent(item),
            held_by=_held_by(item, prefix),
        )
        for name, item in sorted(others.get(QUEUES, {}).items())
        if name != "root"
    )


def _quota(item: Loose, gpu: str) -> int | None:
    for field in ("capability", "deserved"):
        amount = (item.spec.get(field) or {}).get(gpu)
        if amount is not None:
            return int(quantity(amount))
    return None


def _parent(item: Loose) -> str | None:
    parent = item.spec.get("parent")
    return str(parent) if parent and parent != "root" else None


def _held_by(item: Loose, prefix: str) -> str | None:
    if item.status.get("state") not in _CLOSED:
        return None
    holds = read_holds(item.metadata.annotations, prefix)
    return holds[0].mark if holds else SOMEBODY
