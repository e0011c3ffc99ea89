"""How Volcano's adapter carries advice out, in a sentence with the expected time and as lines to copy. Pure.

The lines are what an approval binds to: the same advice on the same cluster gives the same lines.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from typing import Any

from trimtab.model.cluster import ClusterSnapshot, Workload
from trimtab.model.command import Move, Recommendation, Seat, Verb, Way
from trimtab.schedulers.volcano_choice import (
    BACK_OFF_SECONDS,
    LEFT,
    SCHEDULER_SECONDS,
    Case,
    Choice,
    How,
    choose,
    leaving,
    left_nodes,
)
from trimtab.schedulers.volcano_jobs import VolcanoJob, assigned, pod_name

BEAT_SECONDS = 5.0
"""Between two looks of ours: at the end of the stop, and at the new pods that are to be let onto their seats."""
NO_SCHEDULE = "NoSchedule"


def way_of(
    recommendation: Recommendation,
    cases: Sequence[Case],
    snapshot: ClusterSnapshot,
    *,
    prefix: str,
    suffix: Callable[[str], str],
) -> Way:
    """The way for all moves that are this adapter's."""
    steps = [
        f"kubectl cordon {write.node}"
        for write in recommendation.writes
        if write.verb is Verb.CORDON and write.node and cases
    ]
    left = left_nodes(recommendation, [case.move for case in cases])
    steps += [f"kubectl taint nodes {node} {prefix}/{LEFT}=:{NO_SCHEDULE}" for node in left]
    sentences, seconds = [], []
    against: list[str] = []
    for case in cases:
        choice = choose(case.job, case.move, case.pods)
        workload = snapshot.workload_by_id.get(case.move.workload or "")
        key = _Key(prefix=prefix, suffix=suffix, value=case.ref.name)
        steps += _steps(case, choice, key, _new_seats(recommendation, case.move))
        one = _seconds(case, choice, workload)
        sentences.append(f"{case.ref.name}: {choice.why_not or choice.reason}{_time_text(one, workload)}.")
        seconds.append(one)
        against += _against(case, choice, snapshot)
    steps += [f"kubectl taint nodes {node} {prefix}/{LEFT}-" for node in left]
    steps += [
        f"kubectl uncordon {write.node}"
        for write in recommendation.writes
        if cases and (write.verb is Verb.UNCORDON or (write.verb is Verb.CORDON and not write.lasts))
    ]
    return Way(
        steps=tuple(steps),
        sentence=" ".join(sentences),
        seconds=max(seconds) if seconds else None,
        against=tuple(dict.fromkeys(against)),
    )


class _Key:
    """How a seat's taint is written in a line to copy; the adapter's own bears the command's number as its value."""

    def __init__(self, *, prefix: str, suffix: Callable[[str], str], value: str) -> None:
        self._prefix, self._suffix, self._value = prefix, suffix, value

    def key(self, node: str) -> str:
        return f"{self._prefix}/{self._suffix(node)}"

    def taint(self, node: str) -> str:
        return f"kubectl taint nodes {node} {self.key(node)}={self._value}:{NO_SCHEDULE}"

    def untaint(self, node: str) -> str:
        return f"kubectl taint nodes {node} {self.key(node)}-"

    def toleration(self, node: str) -> dict[str, str]:
        return {"key": self.key(node), "operator": "Equal", "value": self._value, "effect": NO_SCHEDULE}


def _new_seats(recommendation: Recommendation, move: Move) -> list[Seat]:
    return [
        seat
        for write in recommendation.writes
        if write.verb is Verb.RESERVE and write.workload == move.workload
        for seat in write.seats
    ]


def _steps(case: Case, choice: Choice, key: _Key, seats: Sequence[Seat]) -> list[str]:
    nodes = list(dict.fromkeys(seat.node for seat in seats))
    steps = [key.taint(node) for node in nodes]
    steps += _stop_lines(case, choice)
    steps += [_tolerate_line(case, name, seat, key) for name, seat in _named(case, seats)]
    return [*steps, *(key.untaint(node) for node in nodes)]


def _named(case: Case, seats: Sequence[Seat]) -> list[tuple[str, Seat]]:
    """Each seat with the pod that it is for: one that waits by its own name, else as the plan calls it."""
    waiting = {seat: pod.metadata.name for pod, seat in assigned(case.pods, seats)} if not case.move.before else {}
    return [(waiting.get(seat, pod_name(seat.pod)), seat) for seat in seats]


def _tolerate_line(case: Case, name: str, seat: Seat, key: _Key) -> str:
    operation = [{"op": "add", "path": "/spec/tolerations/-", "value": key.toleration(seat.node)}]
    return _patch_line(f"pod {name}", case.ref.namespace, operation)


def _stop_lines(case: Case, choice: Choice) -> list[str]:
    job, namespace = case.job, case.ref.namespace
    if choice.how is How.EVICT:
        names = [pod_name(one) for one in case.move.replaced] if job else _names(case)
        return [_evict_line(namespace, name) for name in names]
    if job is None or choice.how is How.STEER:
        return []
    if choice.how is How.ZERO:
        target = f"jobs.batch.volcano.sh {case.ref.name}"
        return [
            _patch_line(target, namespace, _numbers(job, is_zero=True)),
            f"kubectl wait pod -n {namespace} -l volcano.sh/job-name={case.ref.name} --for=delete --timeout=10m",
            _patch_line(target, namespace, _numbers(job, is_zero=False)),
        ]
    return [_command_line(job, choice.how)]


def _names(case: Case) -> list[str]:
    return [pod.metadata.name for pod in leaving(case.move, case.pods)]


def _numbers(job: VolcanoJob, *, is_zero: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for index, task in enumerate(job.tasks):
        replicas = int(task.get("replicas") or 0)
        least = task.get("minAvailable")
        found.append(_put(f"/spec/tasks/{index}/replicas", 0 if is_zero else replicas))
        found.append(
            _put(f"/spec/tasks/{index}/minAvailable", 0 if is_zero else int(replicas if least is None else least))
        )
    return [*found, _put("/spec/minAvailable", 0 if is_zero else int(job.spec.get("minAvailable") or job.pods_wanted))]


def _put(path: str, value: int) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def _patch_line(target: str, namespace: str, body: object) -> str:
    return f"kubectl patch {target} -n {namespace} --type=json -p {shlex.quote(json.dumps(body))}"


def _evict_line(namespace: str, name: str) -> str:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": namespace}}
    path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
    return f"echo {shlex.quote(json.dumps(body))} | kubectl create --raw {path} -f -"


def _command_line(job: VolcanoJob, action: str) -> str:
    name, namespace = str(job.metadata["name"]), str(job.metadata["namespace"])
    owner = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "name": name,
        "uid": job.uid,
        "controller": True,
    }
    body = {
        "apiVersion": "bus.volcano.sh/v1alpha1",
        "kind": "Command",
        "metadata": {"generateName": f"{name}-", "namespace": namespace, "ownerReferences": [owner]},
        "target": owner,
        "action": str(action),
    }
    return f"echo {shlex.quote(json.dumps(body))} | kubectl create -f -"


# --- time and doubts


def _seconds(case: Case, choice: Choice, workload: Workload | None) -> float:
    """From the first stop until all run again, without their own start, which Volcano does not know."""
    if choice.how is How.STEER:
        return SCHEDULER_SECONDS
    stop = workload.stop_seconds if workload is not None else 0.0
    once = stop + BEAT_SECONDS + SCHEDULER_SECONDS
    if choice.how is How.ZERO:
        return once + BEAT_SECONDS
    if choice.how is How.EVICT:
        back_off = BACK_OFF_SECONDS if case.ref.kind == "job" else 0.0
        return (once + back_off) * max(len(case.move.replaced) or len(_names(case)), 1)
    return once


def _time_text(seconds: float, workload: Workload | None) -> str:
    stop = workload.stop_seconds if workload is not None else 0.0
    stops = f" ({stop:.0f} s of it to stop)" if stop else ""
    return f"; placed anew after about {seconds:.0f} s{stops}, then its own start"


def _against(case: Case, choice: Choice, snapshot: ClusterSnapshot) -> list[str]:
    found = []
    if case.ref.kind == "job" and choice.how is How.EVICT:
        found.append(
            f"{case.ref.name} is a batch/v1 Job: each replacement comes {BACK_OFF_SECONDS:.0f} s after its eviction, "
            "and the eviction counts as a failure unless its podFailurePolicy ignores DisruptionTarget"
        )
    if choice.how in (How.RESTART, How.ABORT):
        found.append(f"{case.ref.name} loses one of its retries for good, and its place in the queue")
    over = sum(1 for pod in case.pods if pod.status.phase == "Succeeded")
    if over and choice.how in (How.ZERO, How.RESTART):
        found.append(f"{over} pods of {case.ref.name} have finished and run again")
    room = _open_elsewhere(case, snapshot)
    if room is not None and choice.how is not How.STEER:
        found.append(
            f"{room} is open to all and has room: a pod of {case.ref.name} may start there before it is let onto a seat"
        )
    return found


def _open_elsewhere(case: Case, snapshot: ClusterSnapshot) -> str | None:
    """A node that is no seat, is not left, takes anybody, and has a whole pod's room: first by name."""
    mine = {seat.node for seat in (*case.move.before, *case.move.after)}
    needed = max((seat.gpus for seat in case.move.after), default=0)
    for node in sorted(snapshot.nodes, key=lambda one: one.name):
        is_open = node.is_schedulable and node.why_closed is None and node.name not in mine
        if is_open and needed and len(snapshot.free_gpus.get(node.name, ())) >= needed:
            return node.name
    return None
