"""Which action an event on a vcjob leads to, and which phase follows. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.cluster.volcano.api import Object

SYNC = "SyncJob"
INTERNAL_EVENTS = ("", "OutOfSync", "CommandIssued", "Running")
NARROW = ("RestartTask", "RestartPod", "RestartPartition")


@dataclass(frozen=True, kw_only=True)
class Request:
    """One event, on its way through a job's queue."""

    namespace: str
    job: str
    event: str = ""
    action: str = ""
    job_uid: str = ""
    task: str = ""
    pod: str = ""
    exit_code: int = 0
    version: int = 0


@dataclass(frozen=True)
class Decision:
    """What to do about it, and after how long."""

    action: str
    delay_seconds: float = 0.0


@dataclass
class Counts:
    """A job's pods by what they are."""

    pending: int = 0
    running: int = 0
    succeeded: int = 0
    failed: int = 0
    terminating: int = 0
    by_task: dict[str, dict[str, int]] = field(default_factory=dict)

    def add(self, pod: Object) -> None:
        """Counts a pod by its phase."""
        phase = str((pod.get("status") or {}).get("phase", "Pending"))
        name = phase.lower()
        if name in ("pending", "running", "succeeded", "failed"):
            setattr(self, name, getattr(self, name) + 1)
        task = (pod["metadata"].get("annotations") or {}).get("volcano.sh/task-spec", "")
        phases = self.by_task.setdefault(task, {})
        phases[phase] = phases.get(phase, 0) + 1

    @property
    def alive(self) -> int:
        return self.pending + self.running + self.terminating


def decide(job: Object, request: Request) -> Decision:
    """A command's own action; else the first policy of the task, then of the job, that matches; else a plain sync."""
    if request.action:
        return Decision(request.action)
    is_foreign = request.job_uid not in ("", job["metadata"]["uid"])
    is_outdated = request.version < int((job.get("status") or {}).get("version", 0))
    if request.event in INTERNAL_EVENTS or is_foreign or is_outdated:
        return Decision(SYNC)
    tasks = [task for task in job["spec"]["tasks"] if request.task and task["name"] == request.task]
    policies = [
        *(policy for task in tasks for policy in task.get("policies") or []),
        *(job["spec"].get("policies") or []),
    ]
    for policy in policies:
        if _matches(policy, request):
            return Decision(policy["action"], _seconds(policy.get("timeout")))
    return Decision(SYNC)


def _matches(policy: Object, request: Request) -> bool:
    events = [*(policy.get("events") or []), *([policy["event"]] if policy.get("event") else [])]
    is_named = request.event in events or "*" in events
    if is_named and (request.event != "PodPending" or policy.get("timeout")):
        return True
    return bool(policy.get("exitCode")) and policy["exitCode"] == request.exit_code


def _seconds(text: str | None) -> float:
    if not text:
        return 0.0
    units = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
    unit = next(one for one in ("ms", "s", "m", "h") if text.endswith(one))
    return float(text[: -len(unit)]) * units[unit]


@dataclass(frozen=True)
class Reaction:
    """How a job in some phase answers an action: by `sync`, by `kill` of all its pods, or of the action's `target`."""

    how: str
    becomes: str = ""
    is_retry: bool = False
    keeps_ended_pods: bool = False


_RESTART = Reaction("kill", "Restarting", is_retry=True)
_STOPS = {"AbortJob": "Aborting", "TerminateJob": "Terminating", "CompleteJob": "Completing"}


def reaction(phase: str, action: str) -> Reaction:
    """The controller's state machine: how `phase` answers `action`."""
    if phase in ("", "Pending", "Running"):
        return _of_an_active_job(action)
    if phase == "Restarting":
        return Reaction({SYNC: "sync"}.get(action, "target" if action in NARROW else "kill"))
    if phase in ("Aborting", "Aborted") and action == "ResumeJob":
        return Reaction("kill", "Restarting", is_retry=True, keeps_ended_pods=True)
    return Reaction("kill", keeps_ended_pods=True)


def _of_an_active_job(action: str) -> Reaction:
    if action == "RestartJob":
        return _RESTART
    if action in NARROW:
        return Reaction("target", "Restarting", is_retry=True)
    if action in _STOPS:
        return Reaction("kill", _STOPS[action], keeps_ended_pods=True)
    return Reaction("sync")


def next_phase(job: Object, phase: str, counts: Counts, *, retry_count: int, min_available: int) -> str:
    """The phase that follows from the pods alone, when no action names one."""
    if phase == "Restarting":
        return _after_restarting(job, counts, retry_count=retry_count, min_available=min_available)
    if phase in ("Aborting", "Terminating", "Completing"):
        ended = {"Aborting": "Aborted", "Terminating": "Terminated", "Completing": "Completed"}
        return phase if counts.alive else ended[phase]
    if phase in ("", "Pending"):
        started = counts.running + counts.succeeded + counts.failed
        return "Running" if job["spec"]["minAvailable"] <= started else "Pending"
    return _after_running(job, counts) if phase == "Running" else phase


def _after_restarting(job: Object, counts: Counts, *, retry_count: int, min_available: int) -> str:
    if retry_count >= job["spec"].get("maxRetry", 3):
        return "Failed"
    return "Pending" if replicas_of(job) - counts.terminating >= min_available else "Restarting"


def _after_running(job: Object, counts: Counts) -> str:
    replicas, needed = replicas_of(job), job["spec"]["minAvailable"]
    if replicas == 0:
        return "Running"
    if counts.succeeded + counts.failed == replicas:
        return _ended(job, counts)
    return "Pending" if counts.pending > replicas - needed else "Running"


def _ended(job: Object, counts: Counts) -> str:
    needed = job["spec"]["minAvailable"]
    for task in job["spec"]["tasks"]:
        is_asked = task.get("minAvailable") is not None and task["name"] in counts.by_task
        if is_asked and counts.by_task[task["name"]].get("Succeeded", 0) < task["minAvailable"]:
            return "Failed"
    return "Completed" if counts.succeeded >= needed else "Failed"


def replicas_of(job: Object) -> int:
    """Pods that the job wants."""
    return sum(int(task["replicas"]) for task in job["spec"]["tasks"])
