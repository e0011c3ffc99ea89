"""Volcano's scheduler, stood in: one cycle a step, from a whole picture, with what it writes afterwards."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

from tests.cluster.volcano.api import HYPER_NODE, NODE, POD, POD_GROUP, PRIORITY_CLASS, QUEUE, Api, Object, Refused
from tests.cluster.volcano.cycle import Choose, Cycle, Outcome
from tests.cluster.volcano.objects import condition, key_of, text_of, uid_of, with_condition
from tests.cluster.volcano.placement import Weights, hyper_nodes
from tests.cluster.volcano.session import (
    ALLOCATED,
    HAS_RESOURCES,
    PENDING,
    PIPELINED,
    Gang,
    Session,
    Task,
    open_session,
)
from tests.cluster.volcano.store import CONFLICT, Mirror, Store

from trimtab.clock import Clock

SCHEDULED_REASON = "tasks in gang are ready to be scheduled"
PREEMPTED = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "PreemptionByScheduler",
    "message": "volcano: preempting to accommodate a higher priority pod",
}


class Scheduler:
    """Made anew at each start, as a process is."""

    def __init__(
        self,
        api: Api,
        clock: Clock,
        *,
        weights: Weights | None = None,
        choose: Choose | None = None,
        is_mine: Callable[[Object], bool] = lambda _: True,
    ) -> None:
        """`is_mine` leaves out nodes that others test with."""
        self._store = Store(api, component="volcano")
        self._clock = clock
        self._weights = weights or Weights()
        self._is_mine = is_mine
        self._choose = choose or random.Random(17).choice
        self._mirrors = {
            kind: Mirror(api.follow(kind.collection))
            for kind in (POD, NODE, POD_GROUP, QUEUE, HYPER_NODE, PRIORITY_CLASS)
        }
        self._told: set[tuple[str, str]] = set()
        self._make_queues()

    def step(self) -> bool:
        """One cycle; True when it wrote anything."""
        for mirror in self._mirrors.values():
            mirror.take()
        there = {kind: list(mirror.objects.values()) for kind, mirror in self._mirrors.items()}
        there[NODE] = [node for node in there[NODE] if self._is_mine(node)]
        session = open_session(
            nodes=there[NODE],
            pods=there[POD],
            groups=there[POD_GROUP],
            queues=there[QUEUE],
            priorities={one["metadata"]["name"]: int(one.get("value", 0)) for one in there[PRIORITY_CLASS]},
        )
        topology = hyper_nodes(there[HYPER_NODE], there[NODE])
        outcome = Cycle(session, hyper_nodes=topology, weights=self._weights, choose=self._choose).run()
        wrote = [self._bind(outcome), self._evict(session, outcome), self._tell_over_quota(outcome)]
        wrote += [self._close(gang) for gang in session.gangs]
        wrote += [self._count(session, name) for name in session.queues]
        return any(wrote)

    def due_seconds(self) -> float | None:
        return None  # it runs by its cycle

    def close(self) -> None:
        for mirror in self._mirrors.values():
            mirror.close()

    def _make_queues(self) -> None:
        for name, spec in (("root", {}), ("default", {"parent": "root"})):
            try:
                self._store.create(
                    QUEUE, {"metadata": {"name": name}, "spec": {"weight": 1, "reclaimable": True, **spec}}
                )
            except Refused as refusal:
                if refusal.code != CONFLICT:
                    raise

    def _bind(self, outcome: Outcome) -> bool:
        for task, node in outcome.bindings:
            try:
                self._store.bind(*key_of(task.pod), node)
            except Refused as refusal:
                text = f"failed to bind to node {node}: {refusal.answer.message}"
                self._store.record(POD, task.pod, reason="FailedScheduling", message=text, is_warning=True)
        return bool(outcome.bindings)

    def _evict(self, session: Session, outcome: Outcome) -> bool:
        text = "Pod is evicted, because of reclaim"
        for task in outcome.evictions:
            ready = {"type": "Ready", "status": "False", "reason": "Evict", "message": text}
            conditions = (task.pod.get("status") or {}).get("conditions") or []
            stamped = [{**one, "lastTransitionTime": self._now()} for one in (ready, PREEMPTED)]
            for one in stamped:
                conditions = with_condition(conditions, one)
            group = session.gang_of(task).group
            self._store.record(POD_GROUP, group, reason="Evict", message="reclaim")
            self._store.record(POD, task.pod, reason="Evict", message=text, is_warning=True)
            self._patch_pod(task.pod, {"conditions": conditions})
            self._store.delete(POD, *key_of(task.pod))
        return bool(outcome.evictions)

    def _tell_over_quota(self, outcome: Outcome) -> bool:
        for gang, text in outcome.over_quota:
            known = (uid_of(gang.group), text)
            if known not in self._told:
                self._told.add(known)
                self._store.record(POD_GROUP, gang.group, reason="Unschedulable", message=text)
        return False

    # --- the end of a cycle

    def _close(self, gang: Gang) -> bool:
        before = gang.group.get("status") or {}
        if gang.tasks:
            self._conclude(gang)
        counts = Counter(task.status for task in gang.tasks)
        status = {
            "phase": gang.next_phase(),
            "conditions": gang.conditions or None,
            "running": counts["Running"] or None,
            "failed": counts["Failed"] or None,
            "succeeded": counts["Succeeded"] or None,
        }
        wrote = False
        if _without_times(status) != _without_times({name: before.get(name) for name in status}):
            wrote = self._write_group(gang.group, status)
        told = [self._tell(gang, task) for task in gang.with_status(ALLOCATED, PENDING, PIPELINED)]
        return wrote or any(told)

    def _conclude(self, gang: Gang) -> None:
        if gang.is_ready:
            new = {"type": "Scheduled", "status": "True", "reason": SCHEDULED_REASON}
        else:
            schedulable = gang.ready_count + sum(
                1 for task in gang.with_status(PENDING) if task.last and task.last[0] == ALLOCATED
            )
            text = f"{gang.min_member - schedulable}/{len(gang.tasks)} tasks in gang unschedulable: {fit_message(gang)}"
            new = {"type": "Unschedulable", "status": "True", "reason": "NotEnoughResources", "message": text}
            gang.is_unschedulable = True
        gang.conditions = with_condition(gang.conditions, {**new, "lastTransitionTime": self._now()})

    def _write_group(self, group: Object, status: Object) -> bool:
        patch = {"metadata": {"uid": uid_of(group)}, "status": status}
        try:
            self._store.merge(POD_GROUP, *key_of(group), patch, sub="status")
        except Refused:
            return False  # it was made anew meanwhile: the next cycle sees the new one
        return True

    def _tell(self, gang: Gang, task: Task) -> bool:
        """Says on the pod why it has no place yet; True when that is news."""
        if task.pod["spec"].get("schedulingGates"):
            return False
        reason, text = pod_verdict(gang, task)
        there = condition(task.pod, "PodScheduled") or {}
        nominated = task.node if task.is_making_room else (task.pod.get("status") or {}).get("nominatedNodeName")
        is_news = (there.get("status"), there.get("reason"), there.get("message")) != ("False", reason, text)
        if not is_news and nominated == (task.pod.get("status") or {}).get("nominatedNodeName"):
            return False
        new = {
            "type": "PodScheduled",
            "status": "False",
            "reason": reason,
            "message": text,
            "lastTransitionTime": self._now(),
        }
        conditions = with_condition((task.pod.get("status") or {}).get("conditions") or [], new)
        self._store.record(POD, task.pod, reason="FailedScheduling", message=text, is_warning=True)
        return self._patch_pod(task.pod, {"conditions": conditions, "nominatedNodeName": nominated})

    def _patch_pod(self, pod: Object, status: Object) -> bool:
        try:
            self._store.merge(POD, *key_of(pod), {"metadata": {"uid": uid_of(pod)}, "status": status}, sub="status")
        except Refused:
            return False
        return True

    def _count(self, session: Session, name: str) -> bool:
        """The queue's use, one cycle late as Volcano's is."""
        queue = session.queues[name]
        gangs = [gang for gang in session.gangs if gang.queue == name]
        held: Counter[str] = Counter()
        for gang in gangs:
            held.update({one: int(value) for one, value in gang.allocated.items()})
            held["pods"] += len(gang.with_status(*HAS_RESOURCES))
        allocated = {
            one: text_of(value)
            for one, value in {"cpu": 0, "memory": 0, **held}.items()
            if value or one in ("cpu", "memory")
        }
        there = (queue.get("status") or {}).get("allocated") or {}
        if {one: str(value) for one, value in there.items()} == allocated:
            return False
        gone = {one: None for one in there if one not in allocated}
        self._store.merge(QUEUE, "", name, {"status": {"allocated": {**allocated, **gone}}}, sub="status")
        return True

    def _now(self) -> str:
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")


def fit_message(gang: Gang) -> str:
    """How the gang stands, and the first reason why: the text of Volcano's condition."""
    counts = Counter(task.status for task in gang.tasks)
    lines = sorted(f"{count} {name}" for name, count in {**counts, "minAvailable": gang.min_member}.items())
    text = f"pod group is {'ready' if gang.is_ready else 'not ready'}, {', '.join(lines)}"
    pending = Counter(pod_verdict_reason(task) for task in gang.with_status(PENDING))
    if pending:
        text += f"; Pending: {', '.join(sorted(f'{count} {reason}' for reason, count in pending.items()))}"
    first = next((task for task in gang.tasks if task.uid in gang.fit_errors), None)
    return f"{text}. Origin reason is {first.name}: {gang.fit_errors[first.uid]}" if first else text


def pod_verdict_reason(task: Task) -> str:
    """Schedulable when a place was found and given back because the gang was not whole."""
    status = task.last[0] if task.last else task.status
    return "Schedulable" if status == ALLOCATED else "Unschedulable"


def pod_verdict(gang: Gang, task: Task) -> tuple[str, str]:
    """Reason and message of PodScheduled=False."""
    status, node = task.last or (task.status, task.node)
    namespace, name = key_of(task.pod)
    if status in (ALLOCATED, PIPELINED):
        what = "" if status == ALLOCATED else "resource is released and "
        text = f"Pod {namespace}/{name} can possibly be assigned to {node}, once {what}minAvailable is satisfied"
        return pod_verdict_reason(task), text
    return "Unschedulable", gang.fit_errors.get(task.uid) or fit_message(gang)


def _without_times(status: Object) -> Object:
    conditions = [
        {name: text for name, text in one.items() if name != "lastTransitionTime"}
        for one in status.get("conditions") or []
    ]
    return {**status, "conditions": conditions}
