"""The stand-in of Kueue: who gets quota and seats, in which order, and what becomes of a lost node."""

from __future__ import annotations

from collections.abc import Mapping

from tests.fakes.kueue_life import QUEUES, ROOT, Json, Life
from tests.fakes.kueue_room import (
    GPU,
    Wish,
    assignment_of,
    conditions,
    free_gpus,
    gpus_of,
    is_open,
    is_true,
    place,
    topology_of,
)


class Admission(Life):
    """What Kueue's scheduler does, first and second pass."""

    # --- admission

    def _admit(self) -> str | None:
        for one in self.workloads():
            checks = (one.get("status") or {}).get("admissionChecks") or []
            is_ready = all(check["state"] == "Ready" for check in checks)
            is_new = is_true(one, "QuotaReserved") and not is_true(one, "Admitted") and not is_true(one, "Evicted")
            if is_new and is_ready and checks:
                self._write(one, {}, told={"Admitted": ("True", "Admitted", "The workload is admitted")})
                return f"{one['metadata']['name']} admitted"
        return None

    def _finish(self) -> str | None:
        for one in self.workloads():
            job = self.job_of(one)
            done = conditions(job) if job else {}
            end = next((kind for kind in ("Complete", "Failed") if done.get(kind, ("",))[0] == "True"), None)
            if end and not is_true(one, "Finished"):
                reason = "Succeeded" if end == "Complete" else "Failed"
                self._write(one, {}, told={"Finished": ("True", reason, "")})
                return f"{one['metadata']['name']} finished"
        return None

    def _reserve(self) -> str | None:
        """The next in each queue's order that fits; who does not fit says why, and lets others pass."""
        for queue in self.seen.all(QUEUES):
            if not is_true(queue, "Active"):
                continue
            for one in self._pending(queue):
                found = self._fits(one, queue)
                if isinstance(found, str):
                    said = self._preempt(one, queue, found) or self._say_why(one, found)
                    if said is not None:
                        return said
                    if queue["spec"].get("queueingStrategy") == "StrictFIFO":
                        break
                    continue
                self._take(one, queue, found)
                return f"{one['metadata']['name']} has quota in {queue['metadata']['name']}"
        return None

    def _preempt(self, one: Json, queue: Json, why: str) -> str | None:
        """In a queue that preempts: the youngest of lower priority goes, one after the other, until it fits."""
        policy = (queue["spec"].get("preemption") or {}).get("withinClusterQueue")
        if policy != "LowerPriority" or "quota" not in why:
            return None
        name, priority = queue["metadata"]["name"], one["spec"].get("priority", 0)
        holders = [
            other
            for other in self.workloads()
            if is_true(other, "QuotaReserved")
            and ((other["status"].get("admission") or {}).get("clusterQueue") == name)
            and other["spec"].get("priority", 0) < priority
        ]
        if not holders or any(is_true(other, "Evicted") for other in holders):
            return None
        victim = max(holders, key=lambda other: (-other["spec"].get("priority", 0), other["metadata"]["uid"]))
        message = f"Preempted to accommodate a workload (UID: {one['metadata']['uid']})"
        self._evict(victim, "Preempted", message, Preempted=("True", "InClusterQueue", message))
        return f"{victim['metadata']['name']} evicted: Preempted"

    def _pending(self, queue: Json) -> list[Json]:
        def order(one: Json) -> tuple[int, str, str]:
            meta = one["metadata"]
            return -one["spec"].get("priority", 0), meta["creationTimestamp"], meta["uid"]

        name = queue["metadata"]["name"]
        return sorted((one for one in self.workloads() if self._waits_in(one, name)), key=order)

    def _waits_in(self, one: Json, queue: str) -> bool:
        if one["spec"].get("active") is False or is_true(one, "QuotaReserved") or is_true(one, "Finished"):
            return False
        found = self._queue_of(one)
        is_held = conditions(one).get("Requeued", ("",))[0] == "False" or self._stopped_by(one) is not None
        return not is_held and found is not None and found["metadata"]["name"] == queue

    def _fits(self, one: Json, queue: Json) -> Mapping[str, int] | str | None:
        """Seats by topology, None without one, or why not."""
        flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]
        wish = self._wish(one)
        missing = wish.pods * wish.gpus - self._quota_left(queue)
        head = "couldn't assign flavors to pod set main: "
        if missing > 0:
            return f"{head}insufficient unused quota for {GPU} in flavor {flavor['name']}, {missing} more needed"
        made = self.seen.see(f"{ROOT}/resourceflavors/{flavor['name']}")
        if made is None or not made["spec"].get("topologyName"):
            return None
        found = place(wish, self.seen.all("nodes"), self._free(without=one))
        return f"{head}{found}" if isinstance(found, str) else found

    def _wish(self, one: Json) -> Wish:
        pod_set, queue = one["spec"]["podSets"][0], self._queue_of(one)
        flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]["name"] if queue else ""
        made = self.seen.see(f"{ROOT}/resourceflavors/{flavor}") or {"spec": {}}
        selector = {**(made["spec"].get("nodeLabels") or {}), **_asked_for(one)}
        return Wish(
            pods=pod_set["count"],
            gpus=gpus_of(pod_set["template"]["spec"]),
            selector=selector,
            required=(pod_set.get("topologyRequest") or {}).get("required"),
        )

    def _free(self, *, without: Json | None) -> dict[str, int]:
        uid = without["metadata"]["uid"] if without else ""
        others = [one for one in self.workloads() if one["metadata"]["uid"] != uid and is_true(one, "QuotaReserved")]
        return free_gpus(self.seen.all("nodes"), others, self.seen.all("pods"))

    def _quota_left(self, queue: Json) -> int:
        """With a cohort all of it counts together: whoever is first borrows."""
        cohort = queue["spec"].get("cohortName")
        mine = [
            one
            for one in self.seen.all(QUEUES)
            if one["metadata"]["name"] == queue["metadata"]["name"]
            or (cohort and one["spec"].get("cohortName") == cohort)
        ]
        names = {one["metadata"]["name"] for one in mine}
        flavor = [one["spec"]["resourceGroups"][0]["flavors"][0]["resources"] for one in mine]
        quota = sum(int(item["nominalQuota"]) for items in flavor for item in items if item["name"] == GPU)
        holders = [one for one in self.workloads() if is_true(one, "QuotaReserved")]
        used = 0
        for one in holders:
            found = self._queue_of(one)
            if found is not None and found["metadata"]["name"] in names:
                pod_set = one["spec"]["podSets"][0]
                used += pod_set["count"] * gpus_of(pod_set["template"]["spec"])
        return quota - used

    def _say_why(self, one: Json, message: str) -> str | None:
        found = [item for item in (one.get("status") or {}).get("conditions") or [] if item["type"] == "QuotaReserved"]
        if found and found[0]["message"] == message and found[0]["reason"] == "Pending":
            return None
        self._write(one, {}, told={"QuotaReserved": ("False", "Pending", message)})
        return f"{one['metadata']['name']} waits: {message}"

    def _take(self, one: Json, queue: Json, seats: Mapping[str, int] | None) -> None:
        name = queue["metadata"]["name"]
        flavor = queue["spec"]["resourceGroups"][0]["flavors"][0]["name"]
        assigned: Json = {"name": "main", "flavors": {GPU: flavor}, "count": one["spec"]["podSets"][0]["count"]}
        if seats is not None:
            assigned["topologyAssignment"] = topology_of(seats)
        told = {"QuotaReserved": ("True", "QuotaReserved", f"Quota reserved in ClusterQueue {name}")}
        if is_true(one, "Evicted"):
            told["Evicted"] = ("False", "QuotaReserved", "Previously: evicted")
        checks = (one.get("status") or {}).get("admissionChecks") or []
        if all(check["state"] == "Ready" for check in checks):
            told["Admitted"] = ("True", "Admitted", "The workload is admitted")
        self._write(one, {"admission": {"clusterQueue": name, "podSetAssignments": [assigned]}}, told=told)

    # --- node replacement

    def _see_unhealthy(self) -> str | None:
        for one in self.workloads():
            if not is_true(one, "Admitted") or is_true(one, "Evicted") or one["status"].get("unhealthyNodes"):
                continue
            lost = [node for node in sorted(assignment_of(one)) if self._is_lost(one, node)]
            if len(lost) > 1:
                nodes = ", ".join(lost)
                message = f"Workload eviction triggered due to multiple TAS assigned node failures, including: {nodes}"
                self._evict(one, "NodeFailures", message)
                return f"{one['metadata']['name']} evicted: NodeFailures"
            if lost:
                self._write(one, {"unhealthyNodes": [{"name": lost[0]}]})
                self._fail_unbound(one, lost[0])
                return f"{one['metadata']['name']}: {lost[0]} is unhealthy"
        return None

    def _is_lost(self, workload: Json, node: str) -> bool:
        """An excluded node counts once a pod there goes, or one that is pinned there is not bound yet."""
        found = self.seen.see(f"/api/v1/nodes/{node}")
        if found is not None and is_open(found):
            return False
        job = self.job_of(workload)
        pods = [pod for pod in self.around.pods_of(job) if self.around.host(pod) == node] if job else []
        return found is None or any(self.around.goes(pod) or not pod["spec"].get("nodeName") for pod in pods)

    def _fail_unbound(self, workload: Json, node: str) -> None:
        job = self.job_of(workload)
        for pod in self.around.pods_of(job) if job else []:
            if self.around.host(pod) == node and not pod["spec"].get("nodeName"):
                self.around.fail(pod, "TerminatedByKueue", "UnschedulableOnAssignedNode")

    def _replace_node(self) -> str | None:
        """Once the pod is over: another node in the same domain, or the whole gang goes."""
        for one in self.workloads():
            unhealthy = [item["name"] for item in (one.get("status") or {}).get("unhealthyNodes") or []]
            job = self.job_of(one)
            if not unhealthy or job is None or any(self.around.is_going(pod) for pod in self.around.pods_of(job)):
                continue
            seats = assignment_of(one)
            kept = {node: count for node, count in seats.items() if node not in unhealthy}
            found = self._other_nodes(one, kept, seats[unhealthy[0]])
            if found is None:
                message = f"Workload was evicted as there was no replacement for unhealthy node(s): {unhealthy[0]}"
                self._evict(one, "NodeFailures", message)
                return f"{one['metadata']['name']} evicted: NodeFailures"
            assigned = one["status"]["admission"]["podSetAssignments"][0]
            changed = {**assigned, "topologyAssignment": topology_of({**kept, **found})}
            self._write(one, {"unhealthyNodes": None, "admission": {"podSetAssignments": [changed]}})
            return f"{one['metadata']['name']}: {unhealthy[0]} replaced"
        return None

    def _other_nodes(self, workload: Json, kept: Mapping[str, int], pods: int) -> Mapping[str, int] | None:
        nodes = {one["metadata"]["name"]: one for one in self.seen.all("nodes")}
        if self._stopped_by(workload) or not all(is_open(nodes[name]) for name in kept):
            return None
        wish = self._wish(workload)
        able = list(nodes.values())
        if wish.required and kept:
            domain = nodes[next(iter(kept))]["metadata"]["labels"].get(wish.required)
            able = [one for one in able if one["metadata"]["labels"].get(wish.required) == domain]
        found = place(Wish(pods, wish.gpus, wish.selector), able, self._free(without=None))
        return None if isinstance(found, str) else found


def _asked_for(workload: Json) -> dict[str, str]:
    """Labels that Ready checks ask for."""
    found: dict[str, str] = {}
    for check in (workload.get("status") or {}).get("admissionChecks") or []:
        for update in check.get("podSetUpdates") or [] if check["state"] == "Ready" else []:
            found |= update.get("nodeSelector") or {}
    return found
