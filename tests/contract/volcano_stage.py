"""What a scenario may do to a cluster with Volcano in it, the same on every plane; and what it sees."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from tests.cluster.volcano.api import (
    COMMAND,
    EVENT,
    HYPER_NODE,
    JOB,
    JSON,
    JSON_PATCH,
    MERGE,
    NODE,
    PDB,
    POD,
    POD_GROUP,
    QUEUE,
    Answer,
    Api,
    Feed,
    Kind,
    Object,
)
from tests.cluster.volcano.objects import is_terminating, phase_of, uid_of
from tests.contract.volcano_bodies import a_hyper_node, a_job, a_pod
from tests.contract.volcano_story import Event, PlaceWords, Story, Teller, plain_text, watched

Found = TypeVar("Found")
HOLD = "trimtab.example.com/hold"
WATCHED = (JOB, POD, POD_GROUP, COMMAND, QUEUE, EVENT)


class Plane(Protocol):
    """A cluster that a stage stands on."""

    api: Api
    has_webhooks: bool

    def let_pass(self, seconds: float) -> None:
        """Lets so many seconds of a plane with a cycle of one second pass."""

    def until(self, predicate: Callable[[], Found], what: str) -> Found:
        """Lets time pass until it holds; AssertionError at the deadline."""

    def stop(self, name: str) -> None:
        """Kills `scheduler` or `controller`."""

    def start(self, name: str) -> None:
        """Starts it again."""

    def silence(self, node: str) -> None:
        """Nothing starts or ends on the node any more."""


class Stage:
    """A namespace of its own on a plane, and the verbs of the scenarios."""

    def __init__(self, plane: Plane, namespace: str) -> None:
        self.plane = plane
        self.namespace = namespace
        self.refusals: list[tuple[int, str]] = []
        self._feeds: list[tuple[Kind, Feed]] = []
        self._before: list[Event] = []

    # --- what is told

    def record(self) -> None:
        """From here on it is told what happens: what is there now is the beginning."""
        self._feeds = [(kind, self.plane.api.follow(kind.collection)) for kind in WATCHED]
        self._before = [
            watched("INITIAL", kind.name, change.object)
            for kind, feed in self._feeds
            for change in feed.drain()
            if self._is_here(change.object)
        ]

    def story(self, *, place: PlaceWords) -> Story:
        """What happened since, once the feeds have told it."""
        self.let_pass(1)
        told = [(kind, change) for kind, feed in self._feeds for change in feed.drain() if self._is_here(change.object)]
        told.sort(key=lambda one: int(one[1].object["metadata"]["resourceVersion"]))
        events = [watched(change.type, kind.name, change.object) for kind, change in told]
        return Teller(place=place).tell([*self._before, *events], has_whole_objects=True)

    def close(self) -> None:
        """Nothing is told any more."""
        for _, feed in self._feeds:
            feed.close()

    def _is_here(self, obj: Object) -> bool:
        return obj["metadata"].get("namespace", self.namespace) == self.namespace and not _is_filler(obj)

    # --- requests

    def request(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> Answer:
        """One of our calls; a refusal is kept, not raised."""
        answer = self.plane.api.call(method, path, body, content_type=content_type)
        if not answer.is_ok:
            self.refusals.append((answer.code, plain_text(answer.message)))
        return answer

    def must(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> Object:
        """A call that has to succeed."""
        answer = self.plane.api.call(method, path, body, content_type=content_type)
        assert answer.is_ok, f"{method} {path}: {answer.code} {answer.message}"
        return answer.body

    def get(self, kind: Kind, name: str) -> Object:
        return self.must("GET", kind.path(self.namespace, name))

    def find(self, kind: Kind, name: str) -> Object | None:
        answer = self.plane.api.call("GET", kind.path(self.namespace, name))
        return answer.body if answer.is_ok else None

    def objects(self, kind: Kind) -> list[Object]:
        return list(self.must("GET", kind.path(self.namespace))["items"])

    # --- jobs and pods

    def create_job(self, name: str = "j", *, tasks: Sequence[Object] | None = None, **options: Any) -> Answer:
        """A vcjob; options as `a_job` has them."""
        return self.request("POST", JOB.path(self.namespace), a_job(name, self.namespace, tasks=tasks, **options))

    def run_job(self, name: str = "j", **options: Any) -> None:
        """A vcjob that runs."""
        answer = self.create_job(name, **options)
        assert answer.is_ok, answer.message
        self.until_running(name)

    def create_pod(self, name: str, *, gpus: int = 1, **options: Any) -> Object:
        """A bare pod that Volcano is to place."""
        return self.must("POST", POD.path(self.namespace), a_pod(name, self.namespace, gpus=gpus, **options))

    def fill(self, *nodes: str, gpus: int = 8) -> None:
        """Occupies nodes with pods of Volcano's that no story tells of."""
        for node in nodes:
            spec = a_pod(f"filler-{node}-{gpus}", self.namespace, gpus=gpus)
            spec["spec"]["nodeName"] = node
            self.must("POST", POD.path(self.namespace), spec)
        self.plane.until(
            lambda: all(phase_of(pod) == "Running" for pod in self.objects(POD) if _is_filler(pod)), "the fillers run"
        )
        self.plane.until(lambda: len(self._queue_use()) > 0, "the fillers are counted")
        self.let_pass(2)

    def _queue_use(self) -> Object:
        queue = self.find(QUEUE, "default") or {}
        return (queue.get("status") or {}).get("allocated") or {}

    def pod(self, name: str) -> Object:
        return self.get(POD, name)

    def node_of(self, name: str) -> str:
        return str(self.pod(name)["spec"].get("nodeName", ""))

    def evict(self, name: str, *, uid: str = "", is_dry: bool = False) -> Answer:
        """Evicts by uid, as trimtab does."""
        uid = uid or uid_of(self.pod(name))
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": self.namespace},
            "deleteOptions": {"preconditions": {"uid": uid}},
        }
        return self.request(
            "POST", POD.path(self.namespace, name, "eviction") + ("?dryRun=All" if is_dry else ""), body
        )

    def command(self, job: str, action: str, *, is_dry: bool = False, name: str = "", **target: str) -> Answer:
        """A Command on a vcjob, owned by it as vcctl's are; `target` overrides what it names."""
        found = self.find(JOB, job)
        uid = uid_of(found) if found else ""
        named = {"apiVersion": JOB.version, "kind": "Job", "name": job, "uid": uid, **target}
        owner: Object = {**named, "controller": True, "blockOwnerDeletion": True}
        metadata: Object = {"namespace": self.namespace, "ownerReferences": [owner]}
        metadata |= {"name": name} if name else {"generateName": f"{job}-{action.lower()}-"}
        return self.post_command(metadata, {**named, "controller": True}, action, is_dry=is_dry)

    def command_queue(self, queue: str, action: str) -> Answer:
        """A Command on a queue."""
        there = self.get(QUEUE, queue)
        metadata = {"namespace": self.namespace, "generateName": f"{queue}-{action.removesuffix('Queue').lower()}-"}
        target = {"apiVersion": QUEUE.version, "kind": "Queue", "name": queue, "uid": uid_of(there), "controller": True}
        return self.post_command(metadata, target, action, is_dry=False)

    def post_command(self, metadata: Object, target: Object, action: str, *, is_dry: bool = False) -> Answer:
        body = {
            "apiVersion": COMMAND.version,
            "kind": "Command",
            "metadata": metadata,
            "target": target,
            "action": action,
        }
        return self.request(
            "POST", COMMAND.path(self.namespace) + ("?dryRun=All" if is_dry else ""), {**body, "reason": "Trimtab"}
        )

    def resize(
        self,
        job: str,
        replicas: Sequence[int | None],
        min_available: int | None,
        *,
        version: str = "",
        per_task: bool = False,
    ) -> Answer:
        """A JSON patch of replicas and minAvailable, guarded by the job's version."""
        guard = version or self.get(JOB, job)["metadata"]["resourceVersion"]
        patch: list[Object] = [{"op": "test", "path": "/metadata/resourceVersion", "value": guard}]
        for index, count in enumerate(replicas):
            if count is not None:
                patch.append({"op": "replace", "path": f"/spec/tasks/{index}/replicas", "value": count})
                if per_task:
                    patch.append({"op": "replace", "path": f"/spec/tasks/{index}/minAvailable", "value": count})
        if min_available is not None:
            patch.append({"op": "replace", "path": "/spec/minAvailable", "value": min_available})
        return self.patch_job(job, patch)

    def patch_job(self, job: str, patch: list[Object], *, is_dry: bool = False) -> Answer:
        path = JOB.path(self.namespace, job) + ("?dryRun=All" if is_dry else "")
        return self.request("PATCH", path, patch, content_type=JSON_PATCH)

    def annotate(self, pod: str, **annotations: str) -> None:
        """Steers the fake kubelet: `term_s=600` writes `fake/term-s`."""
        noted = {f"fake/{name.replace('_', '-')}": text for name, text in annotations.items()}
        self.must("PATCH", POD.path(self.namespace, pod), {"metadata": {"annotations": noted}}, content_type=MERGE)

    def tolerate(self, pod: str, value: str) -> None:
        """Adds our toleration to a pod that waits: it may go where our taint keeps others out."""
        toleration = {"key": HOLD, "operator": "Equal", "value": value, "effect": "NoSchedule"}
        there = self.pod(pod)
        patch: list[Object] = [{"op": "test", "path": "/metadata/uid", "value": uid_of(there)}]
        patch.append({"op": "add", "path": "/spec/tolerations/-", "value": toleration})
        self.must("PATCH", POD.path(self.namespace, pod), patch, content_type=JSON_PATCH)

    def nominate(self, pod: str, node: str) -> None:
        """Writes a pod's nominatedNodeName."""
        body = {"metadata": {"uid": uid_of(self.pod(pod))}, "status": {"nominatedNodeName": node}}
        self.must("PATCH", POD.path(self.namespace, pod, "status"), body, content_type=MERGE)

    def force_delete(self, pod: str) -> None:
        self.must("DELETE", POD.path(self.namespace, pod), {"gracePeriodSeconds": 0})

    def budget(self, **spec: int) -> None:
        """A PDB `pdb` on the pods of job j."""
        selector = {"matchLabels": {"volcano.sh/job-name": "j"}}
        body = {
            "apiVersion": PDB.version,
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "pdb"},
            "spec": {**spec, "selector": selector},
        }
        self.must("POST", PDB.path(self.namespace), body)
        self.plane.until(
            lambda: "disruptionsAllowed" in (self.get(PDB, "pdb").get("status") or {}), "the PDB is counted"
        )

    # --- nodes, queues

    def cordon(self, *nodes: str, is_cordoned: bool = True) -> None:
        for node in nodes:
            spec = {"spec": {"unschedulable": True if is_cordoned else None}}
            self.must("PATCH", NODE.path("", node), spec, content_type=MERGE)
        self.plane.until(
            lambda: all(self._has_cordon_taint(node) is is_cordoned for node in nodes), "the taint follows"
        )

    def _has_cordon_taint(self, node: str) -> bool:
        taints = self.must("GET", NODE.path("", node))["spec"].get("taints") or []
        return any(taint["key"] == "node.kubernetes.io/unschedulable" for taint in taints)

    def uncordon(self, *nodes: str) -> None:
        self.cordon(*nodes, is_cordoned=False)

    def taint(self, node: str, value: str, *, key: str = HOLD, effect: str = "NoSchedule") -> None:
        there = self.must("GET", NODE.path("", node))["spec"].get("taints") or []
        self._write_taints(node, [*there, {"key": key, "value": value, "effect": effect}])

    def untaint(self, *nodes: str, key: str = HOLD) -> None:
        for node in nodes:
            there = self.must("GET", NODE.path("", node))["spec"].get("taints") or []
            self._write_taints(node, [taint for taint in there if taint["key"] != key])

    def _write_taints(self, node: str, taints: list[Object]) -> None:
        self.must("PATCH", NODE.path("", node), {"spec": {"taints": taints or None}}, content_type=MERGE)

    def queue(self, name: str, **spec: Any) -> None:
        """A queue that is open."""
        body = {
            "apiVersion": QUEUE.version,
            "kind": "Queue",
            "metadata": {"name": name},
            "spec": {"weight": 1, "reclaimable": True, **spec},
        }
        self.must("POST", QUEUE.path("", ""), body)
        self.plane.until(
            lambda: (self.get(QUEUE, name).get("status") or {}).get("state") == "Open", f"queue {name} is open"
        )

    def topology(self, racks: int = 3, per_rack: int = 4) -> None:
        """HyperNodes: one a rack in tier 1, the spine over them in tier 2."""
        for rack in range(1, racks + 1):
            names = [f"n{(rack - 1) * per_rack + number:02}" for number in range(1, per_rack + 1)]
            self.must("POST", HYPER_NODE.collection, a_hyper_node(f"rack-r{rack}", 1, "Node", names))
        names = [f"rack-r{rack}" for rack in range(1, racks + 1)]
        self.must("POST", HYPER_NODE.collection, a_hyper_node("spine", 2, "HyperNode", names))

    # --- time

    def let_pass(self, seconds: float) -> None:
        self.plane.let_pass(seconds)

    def until(self, predicate: Callable[[], Found], what: str) -> Found:
        return self.plane.until(predicate, what)

    def until_running(self, job: str = "j") -> None:
        """Until all that the job wants runs and nothing of it leaves, and its PodGroup has seen it for two cycles."""
        self.until(lambda: self._is_running(job), f"job {job} runs whole")
        self.let_pass(2.2)

    def _is_running(self, job: str) -> bool:
        there = self.get(JOB, job)
        wanted = sum(task["replicas"] for task in there["spec"]["tasks"])
        pods = self.pods_of(job)
        are_running = all(phase_of(pod) == "Running" and not is_terminating(pod) for pod in pods)
        status = there.get("status") or {}
        return (
            len(pods) == wanted == status.get("running", 0)
            and are_running
            and self.group_phase(job) in ("Running", "Completed")
        )

    def until_phase(self, phase: str, job: str = "j", *, retries: int | None = None) -> None:
        """Until the job's phase is this one."""

        def is_there() -> bool:
            status = self.get(JOB, job).get("status") or {}
            is_phase = (status.get("state") or {}).get("phase") == phase
            return is_phase and retries in (None, status.get("retryCount", 0))

        self.until(is_there, f"job {job} is {phase}")

    def until_gone(self, pod: str, uid: str) -> None:
        """Until the pod object of that uid is gone."""
        self.until(lambda: (there := self.find(POD, pod)) is None or uid_of(there) != uid, f"pod {pod} is gone")

    def until_remade(self, pod: str, uid: str) -> None:
        """Until another pod has its name."""
        self.until(lambda: (there := self.find(POD, pod)) is not None and uid_of(there) != uid, f"pod {pod} is remade")

    def until_placed(self, *pods: str) -> None:
        """Until the pods run."""
        self.until(lambda: all(self._runs(pod) for pod in pods), f"{', '.join(pods)} run")
        self.let_pass(2.2)

    def _runs(self, pod: str) -> bool:
        there = self.find(POD, pod)
        return there is not None and phase_of(there) == "Running" and not is_terminating(there)

    def until_waiting(self, *pods: str) -> None:
        """Until the pods say that there is no place for them."""

        def is_told(name: str) -> bool:
            there = self.find(POD, name)
            conditions = ((there or {}).get("status") or {}).get("conditions") or []
            return any(one["type"] == "PodScheduled" and one["status"] == "False" for one in conditions)

        self.until(lambda: all(is_told(pod) for pod in pods), f"{', '.join(pods)} wait for a place")

    def pods_of(self, job: str) -> list[Object]:
        return [
            pod for pod in self.objects(POD) if (pod["metadata"].get("labels") or {}).get("volcano.sh/job-name") == job
        ]

    def group_phase(self, job: str) -> str:
        """The phase of the job's PodGroup; empty without one."""
        groups = [one for one in self.objects(POD_GROUP) if one["metadata"]["name"].startswith(f"{job}-")]
        return phase_of(groups[0]) if groups else ""

    def until_no_commands(self) -> None:
        self.until(lambda: not self.objects(COMMAND), "no Command is left")


def _is_filler(obj: Object) -> bool:
    owners = obj["metadata"].get("ownerReferences") or []
    return any(
        str(name).startswith("filler-") for name in [obj["metadata"]["name"], *(owner["name"] for owner in owners)]
    )
