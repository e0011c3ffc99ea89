"""What the rest of a cluster does around Volcano: kubelets; in memory also node taints, their evictions and garbage."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable

from tests.cluster.volcano.api import KINDS, NODE, POD, Api, Kind, Object, Refused
from tests.cluster.volcano.objects import annotation, is_terminating, key_of, phase_of, uid_of, with_condition
from tests.cluster.volcano.placement import UNSCHEDULABLE_TAINT
from tests.cluster.volcano.store import Mirror, Store

from trimtab.clock import Clock

START_SECONDS, TERM_SECONDS = 1.0, 1.5
"""A pod takes longer to end than a cycle lasts, so that every one is seen on its way out."""
VANISH_SECONDS = 0.02
"""Between a pod's terminal phase and the end of its object: controllers look at the phase first."""
EXIT_ON_TERM = 143
DELETED_BY_TAINT = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "DeletionByTaintManager",
    "message": "Taint manager: deleting due to NoExecute taint",
}


class Kubelets:
    """Runs and ends the pods of all nodes.

    Annotations of a pod steer it, in seconds of the scale: `fake/start-s`, `fake/term-s`, `fake/run-s` (then it
    succeeds), and `fake/term-exit`: a code, or `none` for a pod that vanishes without a terminal phase.
    """

    def __init__(self, api: Api, clock: Clock, *, scale: float = 1.0, silent: set[str] | None = None) -> None:
        self._store = Store(api, component="kubelet")
        self._clock = clock
        self._scale = scale
        self._pods = Mirror(api.follow(POD.collection))
        self._due: list[tuple[float, int, str, str]] = []
        self._numbers = itertools.count()
        self._begun: set[tuple[str, str]] = set()
        self.silent = set() if silent is None else silent
        """Nodes on which nothing starts or ends any more."""

    def step(self) -> bool:
        """Begins what is new and does what is due; True when it wrote anything."""
        took = self._pods.take(self._on_pod)
        did = False
        while self._due and self._due[0][0] <= self._clock.monotonic_seconds():
            _, _, uid, act = heapq.heappop(self._due)
            pod = next((one for one in self._pods.objects.values() if uid_of(one) == uid), None)
            if pod is not None and pod["spec"].get("nodeName") not in self.silent:
                did = True
                self._act(pod, act)
        return took or did

    def due_seconds(self) -> float | None:
        """When the next pod starts or ends, on the clock's monotonic seconds."""
        return self._due[0][0] if self._due else None

    def close(self) -> None:
        self._pods.close()

    def _on_pod(self, type_: str, before: Object | None, pod: Object) -> None:
        if type_ == "DELETED" or not pod["spec"].get("nodeName"):
            return
        if is_terminating(pod):
            self._begin(pod, "end", "fake/term-s", TERM_SECONDS)
        elif phase_of(pod) in ("", "Pending"):
            self._begin(pod, "start", "fake/start-s", START_SECONDS)
        elif phase_of(pod) == "Running" and annotation(pod, "fake/run-s"):
            self._begin(pod, "finish", "fake/run-s", 0.0)

    def _begin(self, pod: Object, act: str, name: str, default: float) -> None:
        if (uid_of(pod), act) in self._begun:
            return
        self._begun.add((uid_of(pod), act))
        self._after(pod, act, float(annotation(pod, name, str(default))))

    def _after(self, pod: Object, act: str, seconds: float) -> None:
        after = seconds * self._scale
        heapq.heappush(self._due, (self._clock.monotonic_seconds() + after, next(self._numbers), uid_of(pod), act))

    def _act(self, pod: Object, act: str) -> None:
        acts: dict[str, Callable[[Object], None]] = {
            "start": self._start,
            "finish": self._finish,
            "end": self._end,
            "vanish": self._vanish,
        }
        try:
            acts[act](pod)
        except Refused:
            return  # it is gone, or another under its name

    def _start(self, pod: Object) -> None:
        if not is_terminating(pod):
            self._write(pod, "Running", "True", {"running": {}})

    def _finish(self, pod: Object) -> None:
        if not is_terminating(pod):
            self._write(pod, "Succeeded", "False", {"terminated": {"exitCode": 0}})

    def _end(self, pod: Object) -> None:
        code = annotation(pod, "fake/term-exit", str(EXIT_ON_TERM))
        if code != "none" and phase_of(pod) not in ("Succeeded", "Failed"):
            phase = "Succeeded" if int(code) == 0 else "Failed"
            self._write(pod, phase, "False", {"terminated": {"exitCode": int(code)}})
        self._after(pod, "vanish", VANISH_SECONDS)

    def _vanish(self, pod: Object) -> None:
        answer = self._store.api.call(
            "DELETE", POD.path(*key_of(pod)), {"gracePeriodSeconds": 0, "preconditions": {"uid": uid_of(pod)}}
        )
        if not answer.is_ok:
            raise Refused(answer)

    def _write(self, pod: Object, phase: str, ready: str, state: Object) -> None:
        there = (pod.get("status") or {}).get("conditions") or []
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        new = {"type": "Ready", "status": ready, "lastTransitionTime": now}
        names = [container["name"] for container in pod["spec"]["containers"]]
        states = [
            {"name": name, "state": state, "ready": ready == "True", "restartCount": 0, "image": "x", "imageID": "x"}
            for name in names
        ]
        status = {"phase": phase, "conditions": with_condition(there, new), "containerStatuses": states}
        self._store.merge(POD, *key_of(pod), {"metadata": {"uid": uid_of(pod)}, "status": status}, sub="status")


class Surroundings:
    """In memory, in place of kube-controller-manager: cordon taints, NoExecute evictions, garbage."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._store = Store(api, component="node-controller")
        self._clock = clock
        self._mirrors: dict[Kind, Mirror] = {
            kind: Mirror(api.follow(kind.collection)) for kind in KINDS if kind.is_kept
        }

    def step(self) -> bool:
        """True when it wrote anything."""
        took = [mirror.take() for mirror in self._mirrors.values()]
        if not any(took):
            return False
        return any([self._taint(), self._evict(), self._collect()])

    def due_seconds(self) -> float | None:
        return None

    def close(self) -> None:
        for mirror in self._mirrors.values():
            mirror.close()

    def _taint(self) -> bool:
        did = False
        for node in list(self._mirrors[NODE].objects.values()):
            spec = node.get("spec") or {}
            taints = spec.get("taints") or []
            others = [one for one in taints if one["key"] != UNSCHEDULABLE_TAINT["key"]]
            wanted = [*others, UNSCHEDULABLE_TAINT] if spec.get("unschedulable") else others
            if wanted != taints:
                self._store.merge(NODE, "", node["metadata"]["name"], {"spec": {"taints": wanted or None}})
                did = True
        return did

    def _evict(self) -> bool:
        did = False
        nodes = self._mirrors[NODE].objects
        for pod in list(self._mirrors[POD].objects.values()):
            node = nodes.get(("", pod["spec"].get("nodeName", "")))
            taints = [
                one for one in ((node or {}).get("spec") or {}).get("taints") or [] if one["effect"] == "NoExecute"
            ]
            if not taints or is_terminating(pod) or _tolerates(pod, taints):
                continue
            conditions = with_condition((pod.get("status") or {}).get("conditions") or [], DELETED_BY_TAINT)
            self._store.merge(POD, *key_of(pod), {"status": {"conditions": conditions}}, sub="status")
            self._store.delete(POD, *key_of(pod))
            did = True
        return did

    def _collect(self) -> bool:
        alive = {
            (kind.version, kind.name, uid_of(obj))
            for kind, mirror in self._mirrors.items()
            for obj in mirror.objects.values()
        }
        did = False
        for kind, mirror in self._mirrors.items():
            for obj in list(mirror.objects.values()):
                owners = obj["metadata"].get("ownerReferences") or []
                if owners and not is_terminating(obj) and not any(_reference(owner) in alive for owner in owners):
                    did = self._store.delete(kind, *key_of(obj)) or did
        return did


def _reference(owner: Object) -> tuple[str, str, str]:
    return owner["apiVersion"], owner["kind"], owner["uid"]


def _tolerates(pod: Object, taints: list[Object]) -> bool:
    there = [(one.get("key"), one.get("effect")) for one in pod["spec"].get("tolerations") or []]
    return all((taint["key"], taint["effect"]) in there for taint in taints)
