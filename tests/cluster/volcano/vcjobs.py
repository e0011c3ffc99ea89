"""The controller's hands: what it writes to bring a vcjob's pods, PodGroup and status in line."""

from __future__ import annotations

import copy

from tests.cluster.volcano.api import JOB, POD, POD_GROUP, Kind, Object, Refused
from tests.cluster.volcano.objects import (
    Resources,
    annotation,
    is_terminating,
    owned_by,
    phase_of,
    plus,
    requests_of,
    text_of,
    times,
    uid_of,
)
from tests.cluster.volcano.policies import Counts, Reaction, next_phase
from tests.cluster.volcano.store import CONFLICT, NOT_FOUND, Mirror, Store

OUT_OF_SYNC = "volcano.sh/controller-out-of-sync"
GROUP = "scheduling.k8s.io/group-name"
ENDED = ("Succeeded", "Failed")
STATUS_COUNTS = ("pending", "running", "succeeded", "failed", "terminating")


def is_out_of_sync(pod: Object) -> bool:
    return annotation(pod, OUT_OF_SYNC) == "true"


def group_name(job: Object) -> str:
    return f"{job['metadata']['name']}-{uid_of(job)}"


def min_resources(per_task: list[tuple[int, Resources]], min_member: int) -> Object:
    """What a PodGroup asks for: its first minMember pods, in the spelling of Volcano."""
    total: Resources = {}
    left = min_member
    for count, resources in per_task:
        taken = min(left, count)
        total = plus(total, times(taken, resources))
        left -= taken
    pods = min_member - left
    if not pods:
        return {}
    result = {"count/pods": str(pods), "pods": str(pods)}
    for name, value in total.items():
        result[name] = result[f"requests.{name}"] = text_of(value)
    return result


class JobHands:
    """Kills, syncs and writes down; says by an exception when the API server refused."""

    def __init__(self, store: Store, *, pods: Mirror, groups: Mirror) -> None:
        self._store = store
        self._pods = pods
        self._groups = groups
        self._believed: set[str] = set()
        """Jobs whose PodGroup we deleted, when the first look afterwards still believes in it."""

    def _group(self, job: Object) -> Object | None:
        return self._groups.objects.get((job["metadata"]["namespace"], group_name(job)))

    def group_of(self, job: Object) -> Object:
        """The PodGroup that the job should have."""
        spec = job["spec"]
        members = {task["name"]: int(task.get("minAvailable", task["replicas"])) for task in spec["tasks"]}
        asked = [(members[task["name"]], requests_of(task["template"]["spec"])) for task in spec["tasks"]]
        group: Object = {"minTaskMember": members, "queue": spec.get("queue", "default")}
        if spec["minAvailable"]:
            group["minMember"] = int(spec["minAvailable"])
            group["minResources"] = min_resources(asked, int(spec["minAvailable"]))
        for name in ("priorityClassName", "networkTopology"):
            if spec.get(name):
                group[name] = spec[name]
        return group

    def ensure_group(self, job: Object) -> None:
        """Makes the PodGroup, or brings its size in line."""
        if uid_of(job) in self._believed:
            self._believed.discard(uid_of(job))
            return
        group, wanted = self._group(job), self.group_of(job)
        if group is None:
            metadata = {
                "name": group_name(job),
                "namespace": job["metadata"]["namespace"],
                "ownerReferences": owned_by(job, api_version=JOB.version, kind="Job"),
                "annotations": dict(job["metadata"].get("annotations") or {}),
                "labels": dict(job["metadata"].get("labels") or {}),
            }
            self._make(POD_GROUP, self._groups, {"metadata": metadata, "spec": wanted, "status": {}})
            return
        there = group["spec"]
        if any(there.get(name) != wanted.get(name) for name in ("minMember", "minTaskMember", "minResources")):
            kept = {name: value for name, value in there.items() if name not in ("minMember", "minResources")}
            self._groups.put(self._store.replace(POD_GROUP, {**group, "spec": {**kept, **wanted}}))

    def write_status(self, job: Object, status: Object) -> Object:
        """The job with its new status; unchanged when there is nothing to say."""
        kept = {name: value for name, value in status.items() if value not in (0, None)}
        if kept == job.get("status"):
            return job
        return self._store.replace(JOB, {**job, "status": kept}, sub="status")

    def initiate(self, job: Object) -> Object:
        """A new job becomes Pending."""
        if (job.get("status") or {}).get("state", {}).get("phase"):
            return job
        return self.write_status(job, {"state": {"phase": "Pending"}, "minAvailable": job["spec"]["minAvailable"]})

    def kill(self, job: Object, pods: list[Object], how: Reaction, *, target: list[Object] | None) -> Object:
        """Marks and deletes the pods, then says so in the status, then takes the PodGroup away."""
        status = copy.deepcopy(job.get("status") or {"state": {"phase": "Pending"}})
        retry_count = int(status.get("retryCount", 0))
        keeps_ended = how.keeps_ended_pods or retry_count >= int(job["spec"].get("maxRetry", 3)) - 1
        counts = Counts()
        if target is None:
            status["version"] = int(status.get("version", 0)) + 1
            victims = [pod for pod in pods if is_terminating(pod) or not (keeps_ended and phase_of(pod) in ENDED)]
        else:
            victims = target
        self._take_down(job, victims, counts, is_marking_all=target is not None)
        before = status["state"]["phase"]
        if how.becomes:
            status["state"] = {"phase": how.becomes}
        else:
            available = int(status.get("minAvailable", 0))
            status["state"] = {
                "phase": next_phase(job, before, counts, retry_count=retry_count, min_available=available)
            }
        if how.is_retry:
            status["retryCount"] = retry_count + 1
        status |= {name: getattr(counts, name) for name in STATUS_COUNTS}
        written = self.write_status(job, status)
        group = self._group(job)
        if group is not None and self._store.delete(POD_GROUP, *_key(group)) and target is None:
            # after a narrow restart the pod is remade while the old group is still believed in
            self._believed.add(uid_of(job))
            self._groups.remove(group)
        return written

    def _take_down(self, job: Object, victims: list[Object], counts: Counts, *, is_marking_all: bool) -> None:
        marked = [pod for pod in victims if is_marking_all or not is_terminating(pod)]
        for pod in marked:
            self._mark(pod)
        for pod in victims:
            if not is_terminating(pod):
                self._delete(pod)
            counts.terminating += 1

    def _delete(self, pod: Object) -> None:
        self._store.delete(POD, *_key(pod))
        known = self._pods.objects.get(_key(pod))
        if known is not None:
            self._pods.put({**known, "metadata": {**known["metadata"], "deletionTimestamp": "now"}})

    def mark_all(self, pods: list[Object]) -> None:
        """Marks the pods that are not on their way out as out of sync."""
        for pod in pods:
            if not is_terminating(pod):
                self._mark(pod)

    def _mark(self, pod: Object) -> None:
        try:
            self._pods.put(self._store.merge(POD, *_key(pod), {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}}))
        except Refused as refusal:
            if refusal.code != NOT_FOUND:
                raise

    def sync(self, job: Object, pods: list[Object]) -> Object:
        """Makes missing pods, deletes those too many, counts the rest, and takes the phase that follows."""
        group = self._group(job)
        status = copy.deepcopy(job.get("status") or {})
        phase, retry_count = status["state"]["phase"], int(status.get("retryCount", 0))
        if group is None or phase_of(group) in ("", "Pending"):
            counts = Counts()
            for name in STATUS_COUNTS:
                setattr(counts, name, int(status.get(name, 0)))
            available = int(status.get("minAvailable", 0))
            status["state"] = {
                "phase": next_phase(job, phase, counts, retry_count=retry_count, min_available=available)
            }
            return self.write_status(job, status)
        counts = self._level(job, pods, group)
        available = int(job["spec"]["minAvailable"])
        status["minAvailable"] = available
        status |= {name: getattr(counts, name) for name in STATUS_COUNTS}
        status["state"] = {"phase": next_phase(job, phase, counts, retry_count=retry_count, min_available=available)}
        return self.write_status(job, status)

    def _level(self, job: Object, pods: list[Object], group: Object) -> Counts:
        counts = Counts()
        there = {pod["metadata"]["name"]: pod for pod in pods}
        leaving: list[Object] = []
        for task in job["spec"]["tasks"]:
            for index in range(int(task["replicas"])):
                pod = there.pop(f"{job['metadata']['name']}-{task['name']}-{index}", None)
                if pod is None:
                    made = self._make(POD, self._pods, pod_of(job, task, index, group))
                    if made is not None:
                        counts.add(made)
                elif is_terminating(pod):
                    counts.terminating += 1
                else:
                    leaving += [pod] if is_out_of_sync(pod) else []
                    counts.add(pod)
        for pod in [*leaving, *there.values()]:
            self._delete(pod)
            counts.terminating += 1
        return counts

    def _make(self, kind: Kind, mirror: Mirror, body: Object) -> Object | None:
        """What was made; None when it is there already."""
        try:
            made = self._store.create(kind, body)
        except Refused as refusal:
            if refusal.code != CONFLICT:
                raise
            return None
        mirror.put(made)
        return made


def pod_of(job: Object, task: Object, index: int, group: Object) -> Object:
    """The pod of one seat of a task: its name is fixed, whatever its life."""
    template = copy.deepcopy(task["template"])
    metadata = template.get("metadata") or {}
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    status = job.get("status") or {}
    common = {
        "volcano.sh/job-name": name,
        "volcano.sh/queue-name": job["spec"].get("queue", "default"),
        "volcano.sh/task-spec": task["name"],
        "volcano.sh/task-index": str(index),
    }
    annotations = {
        **(metadata.get("annotations") or {}),
        **common,
        GROUP: group["metadata"]["name"],
        "volcano.sh/job-version": str(status.get("version", 0)),
        "volcano.sh/job-retry-count": str(status.get("retryCount", 0)),
        "volcano.sh/template-uid": f"{name}-{task['name']}",
    }
    spec = template["spec"]
    spec.setdefault("schedulerName", job["spec"].get("schedulerName", "volcano"))
    if job["spec"].get("priorityClassName"):
        spec.setdefault("priorityClassName", job["spec"]["priorityClassName"])
    return {
        "metadata": {
            "name": f"{name}-{task['name']}-{index}",
            "namespace": namespace,
            "labels": {**(metadata.get("labels") or {}), **common, "volcano.sh/job-namespace": namespace},
            "annotations": annotations,
            "ownerReferences": owned_by(job, api_version=JOB.version, kind="Job"),
        },
        "spec": spec,
    }


def _key(obj: Object) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]
