"""The stand-in of Kueue: Workloads made, deactivated, evicted, requeued; queues told; checks asked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import Any

from tests.fakes.kube import FakeKube
from tests.fakes.kueue_around import Around
from tests.fakes.kueue_room import Seen, conditions, is_true

Json = dict[str, Any]
ROOT = "/apis/kueue.x-k8s.io/v1beta2"
WORKLOADS, QUEUES, LOCALS = "workloads.kueue.x-k8s.io", "clusterqueues.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io"
QUEUE_NAME, PRIORITY_CLASS = "kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"
REQUIRED = "kueue.x-k8s.io/podset-required-topology"
DEACTIVATED = "The workload is deactivated"


class Life:
    """What Kueue's workload and queue controllers do."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube
        self.seen = Seen(kube)
        self.around = Around(kube, self.seen)

    # --- objects

    def workloads(self) -> list[Json]:
        return self.seen.all(WORKLOADS)

    def workload_of(self, job: Json) -> Json | None:
        uid = job["metadata"]["uid"]
        return next((one for one in self.workloads() if one["metadata"]["ownerReferences"][0]["uid"] == uid), None)

    def job_of(self, workload: Json) -> Json | None:
        meta = workload["metadata"]
        return self.seen.see(f"/apis/batch/v1/namespaces/{meta['namespace']}/jobs/{meta['ownerReferences'][0]['name']}")

    def _queue_of(self, workload: Json) -> Json | None:
        meta = workload["metadata"]
        local = self.seen.see(f"{ROOT}/namespaces/{meta['namespace']}/localqueues/{workload['spec']['queueName']}")
        return self.seen.see(f"{ROOT}/clusterqueues/{local['spec']['clusterQueue']}") if local else None

    def _write(self, workload: Json, status: Json, *, told: Mapping[str, tuple[str, str, str]] | None = None) -> None:
        """Merge into a Workload's status; `told`: condition -> status, reason, message."""
        meta = workload["metadata"]
        found = {one["type"]: one for one in (workload.get("status") or {}).get("conditions") or []}
        for kind, (value, reason, message) in (told or {}).items():
            found[kind] = {"type": kind, "status": value, "reason": reason, "message": message}
        body = {"status": {**status, **({"conditions": list(found.values())} if told else {})}}
        self.kube.edit(f"{ROOT}/namespaces/{meta['namespace']}/workloads/{meta['name']}", body, by="kueue")

    # --- a Workload's life

    def _make_workload(self) -> str | None:
        for job in self.seen.all("jobs.batch"):
            meta = job["metadata"]
            if QUEUE_NAME not in (meta.get("labels") or {}) or self.workload_of(job) is not None:
                continue
            name = f"job-{meta['name']}-{hashlib.sha256(meta['uid'].encode()).hexdigest()[:5]}"
            template = job["spec"]["template"]
            level = ((template.get("metadata") or {}).get("annotations") or {}).get(REQUIRED)
            pod_set = {"name": "main", "count": job["spec"].get("parallelism", 1), "template": template}
            self.kube.add(
                {
                    "apiVersion": "kueue.x-k8s.io/v1beta2",
                    "kind": "Workload",
                    "metadata": {
                        "name": name,
                        "namespace": meta["namespace"],
                        "ownerReferences": [
                            {
                                "apiVersion": "batch/v1",
                                "kind": "Job",
                                "name": meta["name"],
                                "uid": meta["uid"],
                                "controller": True,
                            }
                        ],
                    },
                    "spec": {
                        "active": True,
                        "priority": self._priority(meta["labels"].get(PRIORITY_CLASS)),
                        "queueName": meta["labels"][QUEUE_NAME],
                        "podSets": [{**pod_set, **({"topologyRequest": {"required": level}} if level else {})}],
                    },
                },
                by="kueue",
            )
            return f"{name} made"
        return None

    def _priority(self, name: str | None) -> int:
        found = self.seen.see(f"{ROOT}/workloadpriorityclasses/{name}") if name else None
        return int(found["value"]) if found else 0

    def _tell_queues(self) -> str | None:
        for queue in self.seen.all(QUEUES):
            wanted = self._state_of(queue)
            if conditions(queue).get("Active") != wanted:
                self._say_active(f"{ROOT}/clusterqueues/{queue['metadata']['name']}", *wanted)
                return f"ClusterQueue {queue['metadata']['name']} {wanted[1]}"
        for local in self.seen.all(LOCALS):
            queue = self.seen.see(f"{ROOT}/clusterqueues/{local['spec']['clusterQueue']}")
            wanted = ("True", "Ready")
            if local["spec"].get("stopPolicy", "None") != "None":
                wanted = ("False", "Stopped")
            elif queue is None or not is_true(queue, "Active"):
                wanted = ("False", "ClusterQueueIsInactive")
            if conditions(local).get("Active") != wanted:
                meta = local["metadata"]
                self._say_active(f"{ROOT}/namespaces/{meta['namespace']}/localqueues/{meta['name']}", *wanted)
                return f"LocalQueue {meta['name']} {wanted[1]}"
        return None

    def _say_active(self, path: str, status: str, reason: str) -> None:
        condition = {"type": "Active", "status": status, "reason": reason, "message": ""}
        self.kube.edit(path, {"status": {"conditions": [condition]}}, by="kueue")

    def _state_of(self, queue: Json) -> tuple[str, str]:
        if queue["spec"].get("stopPolicy", "None") != "None":
            return "False", "Stopped"
        for name in _checks_of(queue):
            check = self.seen.see(f"{ROOT}/admissionchecks/{name}")
            if check is None or not is_true(check, "Active"):
                return "False", "AdmissionCheckInactive"
        return "True", "Ready"

    def _ask_checks(self) -> str | None:
        for one in self.workloads():
            queue = self._queue_of(one)
            there = (one.get("status") or {}).get("admissionChecks") or []
            missing = set(_checks_of(queue) if queue else ()) - {check["name"] for check in there}
            if missing and not is_true(one, "Finished"):
                asked = [{"name": name, "state": "Pending", "message": ""} for name in sorted(missing)]
                self._write(one, {"admissionChecks": [*there, *asked]})
                return f"{one['metadata']['name']} waits for {', '.join(sorted(missing))}"
        return None

    def _drop_reservation(self) -> str | None:
        for one in self.workloads():
            stopped = self._stopped_by(one)
            if stopped and is_true(one, "QuotaReserved") and not is_true(one, "Admitted"):
                told = {"QuotaReserved": ("False", "Inadmissible", f"{stopped} is stopped")}
                self._write(one, {"admission": None}, told=told)
                return f"{one['metadata']['name']} loses its reservation"
        return None

    def _say_inadmissible(self) -> str | None:
        """Who waits in a stopped queue is told so, stopped itself or not."""
        for one in self.workloads():
            stopped, said = self._stopped_by(one), conditions(one).get("QuotaReserved", ("", ""))
            if stopped and said[0] != "True" and said[1] != "Inadmissible" and not is_true(one, "Finished"):
                self._write(one, {}, told={"QuotaReserved": ("False", "Inadmissible", f"{stopped} is inactive")})
                return f"{one['metadata']['name']} waits: {stopped} is inactive"
        return None

    def _stopped_by(self, workload: Json) -> str | None:
        queue = self._queue_of(workload)
        meta, name = workload["metadata"], workload["spec"]["queueName"]
        local = self.seen.see(f"{ROOT}/namespaces/{meta['namespace']}/localqueues/{name}")
        if queue is None or local is None:
            return f"LocalQueue {name}"
        if local["spec"].get("stopPolicy", "None") != "None":
            return f"LocalQueue {name}"
        if queue["spec"].get("stopPolicy", "None") != "None":
            return f"ClusterQueue {queue['metadata']['name']}"
        return None

    def _deactivate(self) -> str | None:
        for one in self.workloads():
            if one["spec"].get("active") is not False or is_true(one, "Evicted") or is_true(one, "Finished"):
                continue
            if conditions(one) or is_true(one, "QuotaReserved"):
                self._evict(one, "Deactivated", DEACTIVATED)
                return f"{one['metadata']['name']} evicted: Deactivated"
        return None

    def _evict(self, workload: Json, reason: str, message: str, **more: tuple[str, str, str]) -> None:
        status = workload.get("status") or {}
        checks = [_reset(one) for one in status.get("admissionChecks") or []]
        stats = {one["reason"]: one for one in (status.get("schedulingStats") or {}).get("evictions") or []}
        count = stats.get(reason, {}).get("count", 0) + 1
        stats[reason] = {"reason": reason, "underlyingCause": "", "count": count}
        change: Json = {"schedulingStats": {"evictions": list(stats.values())}}
        change |= {"admissionChecks": checks} if checks else {}
        change |= {"unhealthyNodes": None} if status.get("unhealthyNodes") else {}
        self._write(workload, change, told={"Evicted": ("True", reason, message), **more})

    def _judge_checks(self) -> str | None:
        for one in self.workloads():
            states = [check["state"] for check in (one.get("status") or {}).get("admissionChecks") or []]
            if "Retry" in states and is_true(one, "QuotaReserved") and not is_true(one, "Evicted"):
                self._evict(one, "AdmissionCheck", "At least one admission check is false")
                return f"{one['metadata']['name']} evicted: AdmissionCheck"
            if "Rejected" in states and one["spec"].get("active") is not False:
                meta = one["metadata"]
                path = f"{ROOT}/namespaces/{meta['namespace']}/workloads/{meta['name']}"
                self.kube.edit(path, {"spec": {"active": False}}, by="kueue")
                return f"{meta['name']} deactivated: rejected"
        return None

    def _give_up_quota(self) -> str | None:
        """Evicted: once its job is suspended and none of its pods is active the quota is free; pods may still end."""
        for one in self.workloads():
            if not is_true(one, "Evicted") or not is_true(one, "QuotaReserved"):
                continue
            job = self.job_of(one)
            if job is not None and (not job["spec"].get("suspend") or self.around.active(job)):
                continue
            evicted = next(item for item in one["status"]["conditions"] if item["type"] == "Evicted")
            reason, message = evicted["reason"], evicted["message"]
            has_checks = bool(one["status"].get("admissionChecks"))
            told = {
                "QuotaReserved": ("False", "Pending", message),
                "Admitted": ("False", "NoReservationUnsatisfiedChecks" if has_checks else "NoReservation", ""),
                "Requeued": ("False" if reason in ("Deactivated", "AdmissionCheck") else "True", reason, message),
            }
            self._write(one, {"admission": None}, told=told)
            return f"{one['metadata']['name']} gives its quota up"
        return None

    def _requeue(self) -> str | None:
        for one in self.workloads():
            requeued = conditions(one).get("Requeued")
            if requeued == ("False", "Deactivated") and one["spec"].get("active") is not False:
                self._write(one, {}, told={"Requeued": ("True", "Reactivated", "The workload was reactivated")})
                return f"{one['metadata']['name']} reactivated"
            if requeued == ("False", "AdmissionCheck"):
                told = {"Requeued": ("True", "BackoffFinished", "The workload backoff was finished")}
                self._write(one, {}, told=told)
                return f"{one['metadata']['name']} back in line"
        return None


def _checks_of(queue: Json) -> Iterable[str]:
    return [one["name"] for one in (queue["spec"].get("admissionChecksStrategy") or {}).get("admissionChecks") or []]


def _reset(check: Json) -> Json:
    if check["state"] == "Pending":
        return check
    kept = {key: check[key] for key in ("name", "requeueAfterSeconds", "retryCount") if key in check}
    if check["state"] == "Retry":
        kept["retryCount"] = kept.get("retryCount", 0) + 1
    return {**kept, "state": "Pending", "message": f"Reset to Pending after eviction. Previously: {check['state']}"}
