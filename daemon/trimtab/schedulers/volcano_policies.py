"""What the policies of a Volcano Job make of one eviction, one stop or one shrink. Pure; asked before anything is done.

The reader asks `can_replace_pod` and `elastic_of`, the adapter all of it, the planner nothing: it is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

Spec = Mapping[str, Any]
"""`spec` of a `batch.volcano.sh/v1alpha1` Job, as the server sends it."""

RETRIES_DEFAULT = 3
"""What Volcano fills in for `maxRetry`."""
LOSING_EVENTS = ("PodEvicted", "PodFailed", "Unknown", "TaskFailed", "*")
"""Each of these follows from one eviction: the pod is evicted, ends with an exit code, the gang is short."""
WIDE = ("RestartJob", "ResumeJob")
NARROW = ("RestartTask", "RestartPod", "RestartPartition")
HARMLESS = ("SyncJob", "EnqueueJob", "")


class Harm(IntEnum):
    """How bad it gets, worst last."""

    NONE = 0
    """Only that pod is replaced, by another one on another node."""
    NARROW = 1
    """A part is restarted, the PodGroup is made anew, and it costs a retry all the same."""
    RESTART = 2
    """All pods are killed and started again, at the cost of a retry."""
    END = 3
    """The job ends for good, or stands still until a person resumes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One lifecycle policy. `task` is empty for one of the whole job."""

    task: str
    events: tuple[str, ...]
    exit_code: int | None
    action: str
    timeout: str = ""

    @property
    def text(self) -> str:
        """`task worker: PodEvicted → RestartJob`."""
        cause = ", ".join(self.events) if self.events else f"exit code {self.exit_code}"
        where = f"task {self.task}" if self.task else "job"
        return f"{where}: {cause} → {self.action}" + (f" after {self.timeout}" if self.timeout else "")

    @property
    def harm(self) -> Harm:
        """What its action does; one that we do not know counts as the worst."""
        if self.action in HARMLESS:
            return Harm.NONE
        if self.action in NARROW:
            return Harm.NARROW
        return Harm.RESTART if self.action in WIDE else Harm.END

    @property
    def is_of_a_loss(self) -> bool:
        """Whether the loss of a single pod can fire it."""
        return self.exit_code is not None or any(event in LOSING_EVENTS for event in self.events)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaction:
    """What would follow, and the sentence with the policy that decides it."""

    harm: Harm
    sentence: str
    policy: Policy | None = None


def policies_of(spec: Spec) -> tuple[Policy, ...]:
    """All policies, those of the job first."""
    found = [_policy(one, "") for one in spec.get("policies") or ()]
    for task in spec.get("tasks") or ():
        found += [_policy(one, str(task.get("name", ""))) for one in task.get("policies") or ()]
    return tuple(found)


def _policy(raw: Mapping[str, Any], task: str) -> Policy:
    events = [*(raw.get("events") or ()), *([raw["event"]] if raw.get("event") else ())]
    code = raw.get("exitCode")
    return Policy(
        task=task,
        events=tuple(dict.fromkeys(events)),
        exit_code=None if code is None else int(code),
        action=str(raw.get("action") or ""),
        timeout=str(raw.get("timeout") or ""),
    )


def task_names(spec: Spec) -> tuple[str, ...]:
    """Names of the tasks, in their order."""
    return tuple(str(task.get("name", "")) for task in spec.get("tasks") or ())


def on_eviction(spec: Spec, task: str, *, pods_running: int) -> Reaction:
    """What one eviction of a pod of this task does; `pods_running` of the task work now, that pod among them.

    A policy of the task stands before one of the job for the same event, but one eviction fires several events, and
    the gang's own trouble (`Unknown`) is the job's: so the worst of all that match is taken.
    """
    mine = [one for one in policies_of(spec) if one.task in ("", task)]
    last = [one for one in mine if "TaskCompleted" in one.events and one.harm > Harm.NONE]
    if last and pods_running <= 1:
        policy = max(last, key=lambda one: one.harm)
        ends = f"its last running pod, if it exits with 0, fires “{policy.text}”"
        return Reaction(harm=Harm.END, policy=policy, sentence=f"task {task} has one running pod left: {ends}")
    return _worst([one for one in mine if one.is_of_a_loss])


def on_stop(spec: Spec) -> Reaction:
    """What scaling all tasks to zero does: the controller's own deletes fire the same policies as evictions.

    TaskCompleted alone does nothing there: nobody counts the tasks of a job that wants no pods.
    """
    return _worst([one for one in policies_of(spec) if one.is_of_a_loss])


def _worst(matching: Sequence[Policy]) -> Reaction:
    policy = max(matching, key=lambda one: one.harm, default=None)
    if policy is None or policy.harm is Harm.NONE:
        return Reaction(harm=Harm.NONE, sentence="no policy reacts to a lost pod")
    does = {
        Harm.NARROW: "restarts a part of it and costs a retry",
        Harm.RESTART: "restarts the whole job",
        Harm.END: "ends the job",
    }[policy.harm]
    return Reaction(harm=policy.harm, policy=policy, sentence=f"“{policy.text}” {does}")


def can_replace_pod(spec: Spec, *, running_by_task: Mapping[str, int]) -> bool:
    """Whether any single pod of it can be evicted with nothing but that pod being replaced."""
    return all(
        on_eviction(spec, task, pods_running=running_by_task.get(task, 0)).harm is Harm.NONE
        for task in task_names(spec)
    )


# --- retries


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """How many restarts a job has had in its whole life, and at which one it fails for good."""

    used: int
    limit: int

    @property
    def has_room(self) -> bool:
        """Whether one restart more is survived."""
        return self.used + 1 < self.limit

    @property
    def sentence(self) -> str:
        """The numbers that decide."""
        if self.has_room:
            return f"it has used {self.used} of {self.limit} retries and a restart costs one"
        return f"it has used {self.used} of {self.limit} retries, and restart {self.used + 1} fails it for good"


def retries_of(job: Mapping[str, Any]) -> Retries:
    """Of a Job as the server sends it. `status.version` rises for other reasons too and says nothing here."""
    limit = (job.get("spec") or {}).get("maxRetry")
    used = (job.get("status") or {}).get("retryCount")
    return Retries(used=int(used or 0), limit=RETRIES_DEFAULT if limit is None else int(limit))


# --- other sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """Between how many pods a job can run."""

    pods_min: int
    pods_max: int

    @property
    def is_elastic(self) -> bool:
        """Whether it works with fewer pods than it wants."""
        return 0 < self.pods_min < self.pods_max


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrink:
    """Whether a job can run on without some of its pods, and what that takes."""

    is_possible: bool
    costs_restart: bool
    sentence: str


def sizes_of(spec: Spec) -> Sizes:
    """`minAvailable` to the sum of the replicas."""
    wanted = sum(int(task.get("replicas") or 0) for task in spec.get("tasks") or ())
    least = spec.get("minAvailable")
    return Sizes(pods_min=wanted if least is None else int(least), pods_max=wanted)


def shrink(spec: Spec, pods: Iterable[tuple[str, int]]) -> Shrink:
    """Going on without these pods, given as task and index (their node is bad and there is no other seat)."""
    lost: dict[str, list[int]] = {}
    for task, index in pods:
        lost.setdefault(task, []).append(index)
    sizes, count = sizes_of(spec), sum(len(one) for one in lost.values())
    if sizes.pods_max - count < sizes.pods_min:
        needed = f"it runs with no fewer than {sizes.pods_min} of its {sizes.pods_max} pods"
        return Shrink(is_possible=False, costs_restart=False, sentence=f"{needed}, and {count} would go")
    short = next((text for task, gone in lost.items() if (text := _too_few(spec, task, len(gone)))), None)
    if short is not None:
        return Shrink(is_possible=False, costs_restart=False, sentence=short)
    reaction = on_stop(spec)
    if reaction.harm is not Harm.NONE:
        ends = f"a pod less fires a policy: {reaction.sentence}"
        return Shrink(is_possible=reaction.harm < Harm.END, costs_restart=True, sentence=ends)
    if all(_are_the_last(spec, task, gone) for task, gone in lost.items()):
        way = "lower `replicas`: Volcano takes away the highest indexes, and those are the ones"
    else:
        way = (
            "cordon the node and evict them: the others run on and the replacements wait for room. Lowering `replicas` "
            "would take the highest indexes, which are others"
        )
    return Shrink(is_possible=True, costs_restart=False, sentence=way)


def _too_few(spec: Spec, task: str, gone: int) -> str | None:
    found = _task(spec, task)
    least = found.get("minAvailable")
    left = int(found.get("replicas") or 0) - gone
    return None if least is None or left >= int(least) else f"task {task} needs {least} pods and would have {left}"


def _are_the_last(spec: Spec, task: str, gone: Sequence[int]) -> bool:
    wanted = int(_task(spec, task).get("replicas") or 0)
    return sorted(gone) == list(range(wanted - len(gone), wanted))


def _task(spec: Spec, name: str) -> Mapping[str, Any]:
    return next((task for task in spec.get("tasks") or () if task.get("name") == name), {})
