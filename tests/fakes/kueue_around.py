"""Around the stand-in of Kueue: a Job controller, TAS's ungater, a kube-scheduler, a kubelet, taints of cordons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from tests.fakes.kube import FakeKube
from tests.fakes.kueue_room import CORDONED, GPU, HOSTNAME, Seen, assignment_of, gpus_of, is_true

Json = dict[str, Any]
ROOT = "/apis/kueue.x-k8s.io/v1beta2"
GATE = {"name": "kueue.x-k8s.io/topology"}
WORKLOAD = "kueue.x-k8s.io/workload"
OVER = ("Succeeded", "Failed")


class Around:
    """The other controllers; `acts` in their order."""

    def __init__(self, kube: FakeKube, seen: Seen) -> None:
        self.kube, self.seen = kube, seen
        self.acts: tuple[Callable[[], str | None], ...] = (
            self._taint_cordoned,
            self._suspend,
            self._delete_pods,
            self._end_pods,
            self._count_failures,
            self._start,
            self._make_pods,
            self._pin,
            self._bind,
            self._run,
        )

    # --- pods of a job

    def pods_of(self, job: Json) -> list[Json]:
        """Its pods, over or not."""
        uid = job["metadata"]["uid"]
        return [
            pod
            for pod in self.seen.all("pods")
            if any(one["uid"] == uid for one in pod["metadata"].get("ownerReferences") or [])
        ]

    def active(self, job: Json) -> list[Json]:
        """Pods that neither are over nor go."""
        return [pod for pod in self.pods_of(job) if not self.goes(pod)]

    @staticmethod
    def is_over(pod: Json) -> bool:
        return (pod.get("status") or {}).get("phase") in OVER

    def goes(self, pod: Json) -> bool:
        """Over, or told to end."""
        return self.is_over(pod) or "deletionTimestamp" in pod["metadata"]

    def is_going(self, pod: Json) -> bool:
        """Told to end, and still there."""
        return not self.is_over(pod) and "deletionTimestamp" in pod["metadata"]

    @staticmethod
    def host(pod: Json) -> str:
        """The node that a pod is on, or pinned to."""
        return str(pod["spec"].get("nodeName") or (pod["spec"].get("nodeSelector") or {}).get(HOSTNAME) or "")

    def fail(self, pod: Json, kind: str, reason: str) -> None:
        """Its phase becomes Failed, with a condition."""
        found = (pod.get("status") or {}).get("conditions") or []
        condition = {"type": kind, "status": "True", "reason": reason}
        self._edit_pod(pod, {"status": {"phase": "Failed", "conditions": [*found, condition]}})

    # --- acts

    def _taint_cordoned(self) -> str | None:
        for node in self.seen.all("nodes"):
            taints = (node.get("spec") or {}).get("taints") or []
            is_tainted = any(one["key"] == CORDONED for one in taints)
            is_cordoned = bool((node.get("spec") or {}).get("unschedulable"))
            if is_tainted is is_cordoned:
                continue
            mine = {"key": CORDONED, "effect": "NoSchedule"}
            left = [*taints, mine] if is_cordoned else [one for one in taints if one["key"] != CORDONED]
            path = f"/api/v1/nodes/{node['metadata']['name']}"
            self.kube.edit(path, {"spec": {"taints": left}}, by="node-lifecycle")
            return f"{node['metadata']['name']} {'tainted' if is_cordoned else 'untainted'}"
        return None

    def _queued(self) -> list[tuple[Json, Json | None]]:
        """Jobs of Kueue's with their Workloads."""
        found = self.seen.all("workloads.kueue.x-k8s.io")
        by_owner = {one["metadata"]["ownerReferences"][0]["uid"]: one for one in found}
        jobs = [
            job for job in self.seen.all("jobs.batch") if not is_true(job, "Complete") and not is_true(job, "Failed")
        ]
        return [(job, by_owner.get(job["metadata"]["uid"])) for job in jobs]

    def _suspend(self) -> str | None:
        for job, workload in self._queued():
            runs = workload is not None and is_true(workload, "Admitted") and not is_true(workload, "Evicted")
            if not job["spec"].get("suspend") and not runs:
                self._edit_job(job, {"spec": {"suspend": True, "template": {"spec": {"nodeSelector": None}}}})
                return f"job {job['metadata']['name']} suspended"
        return None

    def _delete_pods(self) -> str | None:
        for job, _ in self._queued():
            for pod in self.active(job) if job["spec"].get("suspend") else []:
                self.kube.delete(_pod_path(pod))
                return f"pod {pod['metadata']['name']} told to end"
        return None

    def _end_pods(self) -> str | None:
        for pod in self.seen.all("pods"):
            if self.is_going(pod):
                self._edit_pod(pod, {"status": {"phase": "Failed"}})
                return f"pod {pod['metadata']['name']} failed"
            if "deletionTimestamp" in pod["metadata"]:
                self.kube.remove(_pod_path(pod))
                return f"pod {pod['metadata']['name']} gone"
        return None

    def _count_failures(self) -> str | None:
        """A failed pod that nobody deleted counts, unless the Job ignores disruptions and it was one."""
        for job, _ in self._queued():
            for pod in self.pods_of(job):
                if self.is_over(pod) and "deletionTimestamp" not in pod["metadata"]:
                    failed = int((job.get("status") or {}).get("failed") or 0) + 1
                    self._edit_job(job, {"status": {"failed": failed}})
                    self.kube.remove(_pod_path(pod))
                    return f"job {job['metadata']['name']}: {failed} failed"
        return None

    def _start(self) -> str | None:
        for job, workload in self._queued():
            runs = workload is not None and is_true(workload, "Admitted") and not is_true(workload, "Evicted")
            if job["spec"].get("suspend") and runs and workload is not None:
                selector = self._selector(workload)
                self._edit_job(job, {"spec": {"suspend": False, "template": {"spec": {"nodeSelector": selector}}}})
                return f"job {job['metadata']['name']} started"
        return None

    def _selector(self, workload: Json) -> Json:
        assigned = workload["status"]["admission"]["podSetAssignments"][0]
        flavor = self.seen.see(f"{ROOT}/resourceflavors/{assigned['flavors'][GPU]}") or {"spec": {}}
        selector = dict(flavor["spec"].get("nodeLabels") or {})
        for check in workload["status"].get("admissionChecks") or []:
            for update in check.get("podSetUpdates") or []:
                selector |= update.get("nodeSelector") or {}
        return selector

    def _make_pods(self) -> str | None:
        for job, workload in self._queued():
            pods = self.pods_of(job)
            if job["spec"].get("suspend") or any(self.is_going(pod) for pod in pods):
                continue
            taken = {pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] for pod in self.active(job)}
            for index in range(job["spec"].get("parallelism", 1)):
                if str(index) not in taken:
                    return self._make_pod(job, workload, index)
        return None

    def _make_pod(self, job: Json, workload: Json | None, index: int) -> str:
        meta, template = job["metadata"], job["spec"]["template"]
        labels = {"batch.kubernetes.io/job-name": meta["name"], "batch.kubernetes.io/job-completion-index": str(index)}
        annotations = dict((template.get("metadata") or {}).get("annotations") or {})
        spec = {key: value for key, value in template["spec"].items() if value is not None}
        if workload is not None:
            annotations[WORKLOAD] = workload["metadata"]["name"]
            labels["kueue.x-k8s.io/podset"] = "main"
            spec |= {"schedulingGates": [GATE]} if assignment_of(workload) else {}
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
        name = f"{meta['name']}-{index}-"
        made = self.kube.post(
            f"/api/v1/namespaces/{meta['namespace']}/pods",
            {
                "metadata": {
                    "generateName": name,
                    "labels": {**((template.get("metadata") or {}).get("labels") or {}), **labels},
                    "annotations": annotations,
                    "ownerReferences": [owner],
                },
                "spec": spec,
            },
            {"fieldManager": "job-controller"},
        )
        return f"pod {made['metadata']['name']} made"

    def _pin(self) -> str | None:
        """Gated pods get their nodes, by rank, where no pod of the gang sits already."""
        for job, workload in self._queued():
            gated = [pod for pod in self.active(job) if pod["spec"].get("schedulingGates")]
            if workload is None or not gated:
                continue
            seats: Counter[str] = assignment_of(workload)
            seats.subtract(Counter(self.host(pod) for pod in self.active(job) if self.host(pod)))
            node = next((name for name, count in sorted(seats.items()) if count > 0), None)
            if node is None:
                continue
            pod = min(gated, key=lambda one: one["metadata"]["name"])
            selector = {**(pod["spec"].get("nodeSelector") or {}), HOSTNAME: node}
            self._edit_pod(pod, {"spec": {"nodeSelector": selector, "schedulingGates": None}})
            return f"pod {pod['metadata']['name']} pinned to {node}"
        return None

    def _bind(self) -> str | None:
        for pod in self.seen.all("pods"):
            if pod["spec"].get("nodeName") or pod["spec"].get("schedulingGates") or self.goes(pod):
                continue
            node = self._node_for(pod)
            if node is not None:
                bound = {"type": "PodScheduled", "status": "True"}
                self._edit_pod(pod, {"spec": {"nodeName": node}, "status": {"conditions": [bound]}})
                return f"pod {pod['metadata']['name']} bound to {node}"
        return None

    def _node_for(self, pod: Json) -> str | None:
        """The emptiest node that takes it: kube-scheduler spreads."""
        free: list[tuple[int, str]] = []
        for node in self.seen.all("nodes"):
            name, labels = node["metadata"]["name"], node["metadata"].get("labels") or {}
            if not (pod["spec"].get("nodeSelector") or {}).items() <= labels.items() or not is_true(node, "Ready"):
                continue
            if any(not _is_tolerated(taint, pod) for taint in (node.get("spec") or {}).get("taints") or []):
                continue
            here = [
                one for one in self.seen.all("pods") if one["spec"].get("nodeName") == name and not self.is_over(one)
            ]
            left = int(node["status"]["allocatable"].get(GPU, 0)) - sum(gpus_of(one["spec"]) for one in here)
            if left >= gpus_of(pod["spec"]):
                free.append((-left, name))
        return min(free)[1] if free else None

    def _run(self) -> str | None:
        for pod in self.seen.all("pods"):
            is_new = (pod.get("status") or {}).get("phase", "Pending") == "Pending"
            if pod["spec"].get("nodeName") and is_new and "deletionTimestamp" not in pod["metadata"]:
                ready = [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Ready")]
                start = self.kube._now_text()
                self._edit_pod(pod, {"status": {"phase": "Running", "conditions": ready, "startTime": start}})
                return f"pod {pod['metadata']['name']} runs"
        return None

    def _edit_pod(self, pod: Json, change: Json) -> None:
        self.kube.edit(_pod_path(pod), change, by="kubelet")

    def _edit_job(self, job: Json, change: Json) -> None:
        meta = job["metadata"]
        self.kube.edit(f"/apis/batch/v1/namespaces/{meta['namespace']}/jobs/{meta['name']}", change, by="kueue")


def _pod_path(pod: Json) -> str:
    return f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"


def _is_tolerated(taint: Json, pod: Json) -> bool:
    if taint.get("effect") not in ("NoSchedule", "NoExecute"):
        return True
    return any(
        one.get("key", taint["key"]) == taint["key"]
        and (one.get("operator") == "Exists" or one.get("value", "") == taint.get("value", ""))
        for one in pod["spec"].get("tolerations") or []
    )
