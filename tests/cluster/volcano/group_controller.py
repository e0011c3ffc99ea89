"""The PodGroup controller (a group for every pod that has none and is not a vcjob's), and the Queue controller."""

from __future__ import annotations

from tests.cluster.volcano.api import (
    COMMAND,
    CORE_JOB,
    POD,
    POD_GROUP,
    QUEUE,
    REPLICA_SET,
    Kind,
    Object,
    Refused,
)
from tests.cluster.volcano.objects import annotation, controller_of, key_of, owned_by, requests_of, uid_of
from tests.cluster.volcano.store import CONFLICT, Mirror, Store
from tests.cluster.volcano.vcjobs import GROUP, min_resources

MIN_MEMBER = "scheduling.volcano.sh/group-min-member"
QUEUE_NAME = "scheduling.volcano.sh/queue-name"
HANDED_DOWN = ("volcano.sh/preemptable", "volcano.sh/cooldown-time", "volcano.sh/revocable-zone")
OWNER_KINDS = {("batch/v1", "Job"): CORE_JOB, ("apps/v1", "ReplicaSet"): REPLICA_SET}


class GroupController:
    """Gives foreign pods their PodGroup and the annotation that names it."""

    def __init__(self, store: Store, *, scheduler_name: str = "volcano") -> None:
        self._store = store
        self._scheduler_name = scheduler_name
        self._pods = Mirror(store.api.follow(POD.collection))
        self._waiting: list[Object] = []

    def step(self) -> bool:
        """True when there was anything to do."""
        took = self._pods.take(self._on_pod)
        waiting, self._waiting = self._waiting, []
        for pod in waiting:
            self._give_group(pod)
        return took

    def close(self) -> None:
        self._pods.close()

    def _on_pod(self, type_: str, before: Object | None, pod: Object) -> None:
        is_ours = pod["spec"].get("schedulerName") == self._scheduler_name
        if type_ == "ADDED" and before is None and is_ours and not annotation(pod, GROUP):
            self._waiting.append(pod)

    def _give_group(self, pod: Object) -> None:
        owner = controller_of(pod)
        name = f"podgroup-{owner['uid'] if owner else uid_of(pod)}"
        try:
            self._store.create(POD_GROUP, self._group(pod, owner, name))
        except Refused as refusal:
            if refusal.code != CONFLICT:
                raise
        try:
            self._store.merge(POD, *key_of(pod), {"metadata": {"annotations": {GROUP: name}}})
        except Refused:
            return  # the pod is gone: its group goes with it

    def _group(self, pod: Object, owner: Object | None, name: str) -> Object:
        said = self._said_by_owner(pod, owner)
        min_member = int(said.get(MIN_MEMBER, 1))
        noted = {one: text for one in HANDED_DOWN if (text := annotation(pod, one) or said.get(one))}
        spec: Object = {
            "minMember": min_member,
            "queue": annotation(pod, QUEUE_NAME) or said.get(QUEUE_NAME) or "default",
            "minResources": min_resources([(min_member, requests_of(pod["spec"]))], min_member),
        }
        if pod["spec"].get("priorityClassName"):
            spec["priorityClassName"] = pod["spec"]["priorityClassName"]
        owners = [owner] if owner else owned_by(pod, api_version="v1", kind="Pod")
        metadata = {
            "name": name,
            "namespace": pod["metadata"]["namespace"],
            "ownerReferences": owners,
            "annotations": noted,
        }
        return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}

    def _said_by_owner(self, pod: Object, owner: Object | None) -> Object:
        kind: Kind | None = OWNER_KINDS.get((owner["apiVersion"], owner["kind"])) if owner else None
        if owner is None or kind is None:
            return {}
        there = self._store.get(kind, pod["metadata"]["namespace"], owner["name"])
        return (there or {"metadata": {}})["metadata"].get("annotations") or {}


class QueueController:
    """Opens and closes queues, by Commands that name one."""

    def __init__(self, store: Store) -> None:
        self._store = store
        api = store.api
        self._queues = Mirror(api.follow(QUEUE.collection))
        self._groups = Mirror(api.follow(POD_GROUP.collection))
        self._commands = Mirror(api.follow(COMMAND.collection))
        self._wanted: list[tuple[str, str]] = []

    def step(self) -> bool:
        """True when there was anything to do."""
        took = [self._queues.take(), self._groups.take(), self._commands.take(self._on_command)]
        wanted, self._wanted = self._wanted, []
        for name, action in wanted:
            self._carry_out(name, action)
        if any(took):
            for _, name in list(self._queues.objects):
                self._level(name)
        return any(took)

    def close(self) -> None:
        for mirror in (self._queues, self._groups, self._commands):
            mirror.close()

    def _on_command(self, type_: str, before: Object | None, command: Object) -> None:
        target = command.get("target") or {}
        if (
            type_ == "DELETED"
            or before is not None
            or target.get("kind") != "Queue"
            or target.get("apiVersion") != QUEUE.version
        ):
            return
        if self._store.delete(COMMAND, *key_of(command)):
            self._wanted.append((target["name"], command["action"]))

    def _carry_out(self, name: str, action: str) -> None:
        queue = self._queues.objects.get(("", name))
        if queue is None or action not in ("OpenQueue", "CloseQueue"):
            return
        self._write(queue, "Open" if action == "OpenQueue" else self._closed(name))

    def _level(self, name: str) -> None:
        queue = self._queues.objects[("", name)]
        state = (queue.get("status") or {}).get("state", "")
        if state == "":
            self._write(queue, "Open")
        elif state in ("Closing", "Closed"):
            self._write(queue, self._closed(name))

    def _closed(self, name: str) -> str:
        is_used = any(group["spec"].get("queue", "default") == name for group in self._groups.objects.values())
        return "Closing" if is_used else "Closed"

    def _write(self, queue: Object, state: str) -> None:
        if (queue.get("status") or {}).get("state") != state:
            written = self._store.merge(
                QUEUE, "", queue["metadata"]["name"], {"status": {"state": state}}, sub="status"
            )
            self._queues.objects[("", queue["metadata"]["name"])] = written
