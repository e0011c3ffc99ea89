"""A Volcano Job as it is now, its pods, and the patches that stop it and start it again. Pure but for the reads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace as changed

from trimtab.errors import SchedulerGone, SchedulerRefused
from trimtab.model.command import Seat
from trimtab.schedulers.face import Operation, map_operations
from trimtab.schedulers.kubernetes import Api, Resource
from trimtab.schedulers.marks import (
    SUSPEND,
    UNREADABLE,
    Hold,
    annotation,
    hold_of,
    hold_text,
    read_holds,
    with_hold,
    without_hold,
)
from trimtab.schedulers.objects import Loose, Pod

JOBS = Resource(group="batch.volcano.sh", version="v1alpha1", plural="jobs")
POD_GROUPS = Resource(group="scheduling.volcano.sh", version="v1beta1", plural="podgroups")
QUEUES = Resource(group="scheduling.volcano.sh", version="v1beta1", plural="queues", is_namespaced=False)
PODS = Resource(group="", version="v1", plural="pods")
JOB_NAME = "volcano.sh/job-name"
TASK = "volcano.sh/task-spec"
MOVE = "move"
"""In `what` of a Job: it works again, or is about to, and we still remember how we moved it."""
FINISHED = ("Completed", "Failed", "Terminated")
RESTARTING = ("Restarting", "Aborting", "Aborted", "Terminating", "Completing")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ref:
    """A workload's id in parts: `team-a/vcjob/train`."""

    namespace: str
    kind: str
    name: str

    @property
    def path(self) -> str:
        """Of a Volcano Job."""
        return JOBS.path(self.namespace, self.name)

    @property
    def text(self) -> str:
        """As a person names it."""
        return f"{self.namespace}/{self.name}"


def ref_of(workload: str) -> Ref:
    """The parts of a workload's id."""
    namespace, kind, name = workload.split("/", 2)
    return Ref(namespace=namespace, kind=kind, name=name)


def pod_name(text: str) -> str:
    """A pod's name, whether it was written with its namespace or not."""
    return text.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True, kw_only=True)
class VolcanoJob:
    """One Job as the server sent it."""

    raw: Mapping[str, Any]
    prefix: str

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Its metadata."""
        found: Mapping[str, Any] = self.raw.get("metadata") or {}
        return found

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its wishes."""
        found: Mapping[str, Any] = self.raw.get("spec") or {}
        return found

    @property
    def status(self) -> Mapping[str, Any]:
        """Its state."""
        found: Mapping[str, Any] = self.raw.get("status") or {}
        return found

    @property
    def uid(self) -> str:
        """Who it is; the next one of its name is another."""
        return str(self.metadata.get("uid", ""))

    @property
    def name(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.get('namespace', '')}/{self.metadata.get('name', '')}"

    @property
    def phase(self) -> str:
        """`Running`, `Restarting` …; empty where the controller has not seen it yet."""
        return str((self.status.get("state") or {}).get("phase") or "")

    @property
    def queue(self) -> str:
        """Its queue."""
        return str(self.spec.get("queue") or "default")

    @property
    def group_name(self) -> str:
        """Name of its PodGroup."""
        return f"{self.metadata.get('name', '')}-{self.uid}"

    @property
    def tasks(self) -> Sequence[Mapping[str, Any]]:
        """Its tasks."""
        return tuple(self.spec.get("tasks") or ())

    @property
    def pods_wanted(self) -> int:
        """Sum of the replicas."""
        return sum(int(task.get("replicas") or 0) for task in self.tasks)

    @property
    def retry_count(self) -> int:
        """Restarts so far."""
        return int(self.status.get("retryCount") or 0)

    @property
    def holds(self) -> tuple[Hold, ...]:
        """What commands of ours hold on it."""
        return read_holds(self.metadata.get("annotations") or {}, self.prefix)

    @property
    def is_signed(self) -> bool:
        """Whether any command of ours holds anything on it that can be read."""
        return any(one.mark != UNREADABLE for one in self.holds)

    @property
    def is_zeroed_by_us(self) -> bool:
        """Whether it wants no pods, and the server says that it was we who wrote that."""
        managers = [
            one.get("manager")
            for one in self.metadata.get("managedFields") or ()
            if "f:tasks" in ((one.get("fieldsV1") or {}).get("f:spec") or {})
        ]
        return is_at_zero(self) and managers == [self.prefix]

    def hold(self, mark: str) -> Hold | None:
        """What one command holds on it."""
        return hold_of(self.metadata.get("annotations") or {}, self.prefix, mark)

    def test(self) -> list[Operation]:
        """Operations that fail where it is no longer this job in this state."""
        return [
            {"op": "test", "path": "/metadata/uid", "value": self.uid},
            {"op": "test", "path": "/metadata/resourceVersion", "value": self.metadata.get("resourceVersion")},
        ]

    def signed(self, hold: Hold) -> list[Operation]:
        """Operations that write a command's entry into the annotation."""
        return self._annotated(with_hold(self.holds, hold))

    def unsigned(self, mark: str) -> list[Operation]:
        """Operations that take a command's entry out."""
        return self._annotated(without_hold(self.holds, mark))

    def _annotated(self, holds: Sequence[Hold]) -> list[Operation]:
        key, text = annotation(self.prefix), hold_text(holds)
        if text is None:
            return [{"op": "remove", "path": f"/metadata/annotations/{key.replace('/', '~1')}"}]
        return map_operations(self.metadata.get("annotations"), "/metadata/annotations", {key: text})


def read_job(api: Api, ref: Ref, prefix: str) -> VolcanoJob | None:
    """The Job as it is now; None when it is gone."""
    try:
        return VolcanoJob(raw=api.get(ref.path), prefix=prefix)
    except SchedulerGone:
        return None


def read_pods(api: Api, ref: Ref) -> tuple[Pod, ...]:
    """The Job's pods as they are now, by name; those that are over too."""
    listed = api.get(PODS.path(ref.namespace), {"labelSelector": f"{JOB_NAME}={ref.name}"})
    pods = msgspec.convert(listed.get("items") or [], list[Pod])
    mine = [pod for pod in pods if pod.metadata.labels.get(JOB_NAME) == ref.name]
    return tuple(sorted(mine, key=lambda pod: pod.metadata.name))


def new_pods(api: Api, ref: Ref, since: str, *, seconds: int) -> Generator[Pod, None, None]:
    """The Job's pods as they are made after a moment (a list's resourceVersion), for so long at most."""
    params = {
        "watch": "1",
        "labelSelector": f"{JOB_NAME}={ref.name}",
        "resourceVersion": since,
        "timeoutSeconds": str(seconds),
    }
    lines = api.watch(PODS.path(ref.namespace), params, quiet_seconds_max=seconds + 3.0)
    try:
        for line in lines:
            event = msgspec.json.decode(line)
            found = event.get("object") or {}
            labels = (found.get("metadata") or {}).get("labels") or {}
            if event.get("type") == "ADDED" and labels.get(JOB_NAME) == ref.name:
                yield msgspec.convert(found, Pod)
    finally:
        close = getattr(lines, "close", None)
        if close is not None:
            close()


def pods_version(api: Api, ref: Ref) -> str:
    """The moment from which a watch of the Job's pods misses none."""
    listed = api.get(PODS.path(ref.namespace), {"labelSelector": f"{JOB_NAME}={ref.name}", "limit": "1"})
    return str((listed.get("metadata") or {}).get("resourceVersion") or "")


def read_group(api: Api, job: VolcanoJob) -> Loose | None:
    """The Job's PodGroup as it is now."""
    try:
        found = api.get(POD_GROUPS.path(str(job.metadata.get("namespace")), job.group_name))
    except SchedulerGone:
        return None
    return msgspec.convert(found, Loose)


def running_by_task(pods: Sequence[Pod]) -> Counter[str]:
    """Task -> pods that work and are not on their way out."""
    return Counter(
        pod.metadata.labels.get(TASK, "")
        for pod in pods
        if not pod.is_over and not pod.is_terminating and pod.status.phase == "Running"
    )


# --- to zero and back

Number = Annotated[int, Meta(ge=0)]


class Note(Struct, frozen=True, kw_only=True, rename="camel"):
    """A hold's `before`. Whoever may write the job may have changed it, so every field is checked when it is read."""

    how: str = ""
    """`zero` or a Command's action; empty where the note cannot be read."""
    tasks: tuple[tuple[str | None, Number | None, Number | None], ...] = ()
    min_available: Number | None = None
    command: Annotated[str, Meta(pattern=r"^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")] | None = None
    """Name of the Command that was posted."""
    tries: Number = 1
    retry_count: Number = 0
    version: Number = 0


def note_of(hold: Hold) -> Note:
    """What a hold says about how the job was stopped; an empty note where it is not what we write."""
    try:
        return msgspec.convert(hold.before, Note)
    except msgspec.ValidationError:
        return Note()


def zero_hold(job: VolcanoJob, mark: str, why: str, at: datetime) -> Hold:
    """What must be known to bring the job back: every task's numbers, and the job's own."""
    before = {
        "how": "zero",
        "tasks": [[task.get("name"), task.get("replicas"), task.get("minAvailable")] for task in job.tasks],
        "minAvailable": job.spec.get("minAvailable"),
    }
    return Hold(mark=mark, what=(SUSPEND,), why=why, at=at, before=before)


def to_zero(job: VolcanoJob, hold: Hold) -> list[Operation]:
    """One patch: all tasks, the job's minimum, and what to put back. The webhook wants all three fields at once."""
    numbers: list[Operation] = []
    for index, _ in enumerate(job.tasks):
        numbers += [
            {"op": "add", "path": f"/spec/tasks/{index}/replicas", "value": 0},
            {"op": "add", "path": f"/spec/tasks/{index}/minAvailable", "value": 0},
        ]
    return [*job.test(), *job.signed(hold), *numbers, {"op": "add", "path": "/spec/minAvailable", "value": 0}]


def is_at_zero(job: VolcanoJob) -> bool:
    """Whether it wants no pods at all."""
    return job.pods_wanted == 0


def back(job: VolcanoJob, note: Note) -> list[Operation]:
    """The numbers of before, without saying what becomes of the hold. Refused where they do not fit the job."""
    numbers: list[Operation] = []
    if [name for name, _, _ in note.tasks] != [task.get("name") for task in job.tasks]:
        known = ", ".join(f"{name}: {replicas}" for name, replicas, _ in note.tasks)
        raise SchedulerRefused(f"{job.name} has other tasks than when it was stopped; its numbers were {known}.")
    for index, (_, replicas, least) in enumerate(note.tasks):
        numbers.append(_put(f"/spec/tasks/{index}/replicas", replicas))
        numbers.append(_put(f"/spec/tasks/{index}/minAvailable", least))
    return [*numbers, _put("/spec/minAvailable", note.min_available)]


def rebuilt(job: VolcanoJob, pods: Sequence[str]) -> Note:
    """The numbers of a job whose note is gone, by the names of the pods that it had when the move was planned.

    Each pod was needed, as far as is known: the smallest number with which it may run is lost.
    """
    short, names = str(job.metadata.get("name")), [task.get("name") for task in job.tasks]
    found = Counter(pod_name(pod).removeprefix(f"{short}-").rpartition("-")[0] for pod in pods)
    counts = [len(pods)] if len(names) == 1 else [found[str(name)] for name in names]
    if not all(counts) or sum(counts) != len(pods):
        where = job.metadata.get("namespace")
        raise SchedulerRefused(
            f"{job.name} stands at zero and our note of its numbers is gone. Put replicas and minAvailable back: "
            f"kubectl -n {where} edit jobs.batch.volcano.sh {short}"
        )
    tasks = tuple((name, count, count) for name, count in zip(names, counts, strict=True))
    return Note(how="zero", tasks=tasks, min_available=sum(counts))


def _put(path: str, value: int | None) -> Operation:
    """A number as it was, or absent as it was (without Volcano's webhook it may be)."""
    return {"op": "remove", "path": path} if value is None else {"op": "add", "path": path, "value": value}


def moved(hold: Hold) -> Hold:
    """The entry once the job is on its way back."""
    return changed(hold, what=(MOVE,))


# --- seats


def assigned(pods: Sequence[Pod], seats: Sequence[Seat]) -> list[tuple[Pod, Seat]]:
    """Each pod that waits for a place, with the seat it is to have: its own by name, else one that is left.

    Seats on which a pod of the workload already sits are taken first; pods of fixed names keep theirs. One that is on
    its way out takes none: the seat's taint keeps its room.
    """
    left = list(seats)
    waiting = [pod for pod in pods if not pod.spec.node_name and not pod.is_terminating and not pod.is_over]
    named = {pod_name(seat.pod): seat for seat in seats}
    for pod in pods:
        if pod.spec.node_name and not pod.is_over and not pod.is_terminating:
            _take(left, named.get(pod.metadata.name), pod.spec.node_name)
    found = []
    for pod in sorted(waiting, key=lambda one: (one.metadata.name not in named, one.metadata.name)):
        mine = named.get(pod.metadata.name)
        seat = mine if mine in left else next(iter(left), None)
        if seat is not None:
            left.remove(seat)
            found.append((pod, seat))
    return found


def _take(left: list[Seat], named: Seat | None, node: str) -> None:
    """A pod sits on a node: its own seat is taken, or another one there."""
    if named in left and named is not None and named.node == node:
        left.remove(named)
        return
    other = next((seat for seat in left if seat.node == node), None)
    if other is not None:
        left.remove(other)
