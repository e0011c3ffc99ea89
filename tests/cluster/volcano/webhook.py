"""What Volcano's webhooks refuse, as far as a mover meets it: changed jobs, closed queues, a minAvailable too large."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from tests.cluster.volcano.api import JOB, POD_GROUP, QUEUE, Kind, Object
from tests.fakes.kube import Call, FakeKube
from tests.fakes.kube_patch import Unfit, json_patched, merged

FIXED = (
    "job updates may not change fields other than "
    "`minAvailable`, `tasks[*].replicas under spec` and `PriorityClassName`"
)
MAY_CHANGE = ("minAvailable", "priorityClassName")
MAY_CHANGE_IN_A_TASK = ("replicas", "minAvailable")


HOOKS = {JOB: "validatejob.volcano.sh", POD_GROUP: "validatepodgroup.volcano.sh"}
QueueState = Callable[[str], str]


def objection(kind: Kind, new: Object, old: Object | None, queue_state: QueueState) -> str | None:
    """Why the webhook refuses the write; None when it does not. Pure, but for the state of queues that it asks."""
    if kind.collection == POD_GROUP.collection:
        return _objection_to_group(new, old, queue_state)
    if kind.collection != JOB.collection:
        return None
    if old is None:
        state = queue_state(new["spec"].get("queue", "default"))
        if state and state != "Open":
            queue = new["spec"].get("queue", "default")
            return f"can only submit job to queue with state `Open`, queue `{queue}` status is `{state}`;"
    text = _sizes(new)
    if text is None and old is not None and _fixed_part(old) != _fixed_part(new):
        text = FIXED
    return text


def _objection_to_group(new: Object, old: Object | None, queue_state: QueueState) -> str | None:
    queue = new["spec"].get("queue", "default")
    state = queue_state(queue)
    if old is not None or state in ("", "Open"):
        return None
    return f"can only submit PodGroup to queue with state `Open`, queue `{queue}` status is `{state}`. "


def _sizes(job: Object) -> str | None:
    for task in job["spec"]["tasks"]:
        if task.get("minAvailable") is not None and task["minAvailable"] > task["replicas"]:
            return f"'minAvailable' must be <= 'replicas' in task: {task['name']}"
    if job["spec"]["minAvailable"] > sum(task["replicas"] for task in job["spec"]["tasks"]):
        return "job 'minAvailable' must not be greater than total replicas"
    return None


def _fixed_part(job: Object) -> Object:
    spec = {name: value for name, value in job["spec"].items() if name not in (*MAY_CHANGE, "tasks")}
    tasks = [
        {name: value for name, value in task.items() if name not in MAY_CHANGE_IN_A_TASK}
        for task in job["spec"]["tasks"]
    ]
    return {**spec, "tasks": tasks}


def denials(kube: FakeKube) -> Callable[[Call], tuple[int, str] | None]:
    """The same as FakeKube's `refuses`."""

    def queue_state(name: str) -> str:
        queue = kube.see(QUEUE.path("", name)) or {}
        return str((queue.get("status") or {}).get("state", ""))

    def refuse(call: Call) -> tuple[int, str] | None:
        kind = next((one for one in (JOB, POD_GROUP) if f"/{one.version}/" in call.path), None)
        if kind is None or call.verb not in ("POST", "PUT", "PATCH") or call.path.endswith("/status"):
            return None
        old = kube.see(call.path) if call.verb != "POST" else None
        new = _after(call, old)
        text = objection(kind, new, old, queue_state) if new is not None and "spec" in new else None
        return (400, f'admission webhook "{HOOKS[kind]}" denied the request: {text}') if text else None

    return refuse


def _after(call: Call, old: Object | None) -> Any:
    if call.verb != "PATCH":
        return call.body
    if old is None:
        return None  # the server itself says that there is none
    try:
        return (
            json_patched(old, list(call.body)) if isinstance(call.body, list) else merged(old, copy.deepcopy(call.body))
        )
    except Unfit:
        return None
