"""What the contract does to Kueue and what it sees, the same on the stand-in and on the real control plane."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol

from tests.cluster import objects
from tests.cluster.client import Client, path_of, wait_for
from tests.cluster.space import Space
from tests.fakes.clock import START
from tests.fakes.kube import FakeKube
from tests.fakes.kueue import Kueue

from trimtab.clock import iso
from trimtab.schedulers.kubernetes import Api, PatchKind

Json = dict[str, Any]
RECORDINGS = Path(__file__).parents[1] / "fixtures" / "kueue"
ROOT = "/apis/kueue.x-k8s.io/v1beta2"
IN_A_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}
NOW = iso(START)
Line = frozenset[str]
"""What changed of one Workload in one event."""


class Plane(Protocol):
    """Where the same calls are made."""

    api: Api
    namespace: str
    nodes: Sequence[str]

    def until(self, is_so: Callable[[], Any], what: str) -> None:
        """Time passes until it is so."""

    def rest(self) -> None:
        """Time passes, and nothing in particular is waited for."""

    def story(self) -> list[tuple[str, Json, Json]]:
        """(job, Workload before, Workload after) of every change of a Workload, in order."""

    def name(self, queue: str) -> str:
        """The name of a ClusterQueue or of what has no namespace."""


class StandIn:
    """The stand-in: time passes by its controllers' steps."""

    def __init__(self, *, gpus: int, racks: int, per_rack: int, **queue: Any) -> None:
        self.api = self.kube = FakeKube()
        self.kueue, self.namespace = Kueue(self.kube), "a"
        self.nodes = [f"n{number}" for number in range(racks * per_rack)]
        for number, name in enumerate(self.nodes):
            made = objects.node(name, labels={objects.POOL: "a", objects.RACK: f"r{number // per_rack}"})
            self.kube.add({**made, **objects.node_status()})
        self.kube.add(objects.topology("dc"))
        self.kube.add(objects.flavor("tas", node_labels={objects.POOL: "a"}, topology_name="dc"))
        for check in queue.get("checks", ()):
            self.kube.add(objects.admission_check(check, controller="trimtab/seats"))
        self.kube.add(objects.cluster_queue("q", flavors=["tas"], gpus=gpus, **queue))
        self.kube.add(objects.local_queue("q", "a", cluster_queue="q"))
        self.kueue.settle()

    def until(self, is_so: Callable[[], Any], what: str) -> None:
        for _ in range(500):
            if is_so():
                return
            assert self.kueue.step() is not None, f"never: {what}"

    def rest(self) -> None:
        self.kueue.settle()

    def name(self, queue: str) -> str:
        return queue

    def story(self) -> list[tuple[str, Json, Json]]:
        found = []
        for event in self.kube.snapshot().log:
            if event.key[0] == "workloads.kueue.x-k8s.io" and event.new is not None:
                found.append((job_of(event.new), event.old or {}, event.new))
        return found


class Real:
    """The real control plane: time passes by itself, and a watch tells."""

    def __init__(
        self, api: Api, client: Client, space: Space, *, gpus: int, racks: int, per_rack: int, **queue: Any
    ) -> None:
        self.api, self.client, self.space, self.namespace = api, client, space, space.namespace
        self.nodes = space.add_racks(racks, per_rack)
        self._checks = {check: f"{space.namespace}-{check}" for check in queue.get("checks", ())}
        for check in self._checks.values():
            space.add("admissionchecks", objects.admission_check(check, controller="trimtab/seats"))
        options = {**queue, **({"checks": list(self._checks.values())} if self._checks else {})}
        made = objects.cluster_queue(self.name("q"), flavors=[self.name("tas")], gpus=gpus, **options)
        space.add("clusterqueues", made)
        space.add("localqueues", objects.local_queue("q", space.namespace, cluster_queue=self.name("q")))
        self._since = client.list_whole("workloads", space.namespace)["metadata"]["resourceVersion"]

    def until(self, is_so: Callable[[], Any], what: str) -> None:
        wait_for(is_so, what, deadline_seconds=60.0)

    def rest(self) -> None:
        seen: list[str] = []

        def is_still() -> bool:
            whole = self.client.list_whole("workloads", self.namespace)["items"]
            seen.append(json.dumps([one["metadata"]["resourceVersion"] for one in whole]))
            return len(seen) > 30 and len(set(seen[-30:])) == 1

        wait_for(is_still, "Workloads at rest", deadline_seconds=60.0)

    def name(self, queue: str) -> str:
        return f"{self.namespace}-{queue}"

    def story(self) -> list[tuple[str, Json, Json]]:
        """The watch from the beginning, up to what is there now."""
        now = {one["metadata"]["uid"]: one for one in self.client.list("workloads", self.namespace)}
        before: dict[str, Json] = {}
        found: list[tuple[str, Json, Json]] = []
        with self.client.watch("workloads", self.namespace, resource_version=self._since) as watch:
            for event in watch:
                one = event["object"]
                uid = one["metadata"]["uid"]
                found.append((job_of(one), before.get(uid, {}), one))
                before[uid] = one
                if all(
                    before.get(key, {}).get("metadata", {}).get("resourceVersion") == it["metadata"]["resourceVersion"]
                    for key, it in now.items()
                ):
                    return found
        return found


class Stage:
    """The verbs of the scenarios."""

    def __init__(self, plane: Plane) -> None:
        self.plane, self.api = plane, plane.api

    # --- what is there

    def workload(self, job: str) -> Json:
        found = self.api.get(f"{ROOT}/namespaces/{self.plane.namespace}/workloads")["items"]
        return next((one for one in found if job_of(one) == job), {})

    def pods(self, job: str) -> list[Json]:
        found = self.api.get(path_of("pods", self.plane.namespace))["items"]
        return [pod for pod in found if pod["metadata"]["name"].startswith(f"{job}-")]

    def runs(self, job: str, pods: int) -> Callable[[], bool]:
        """Whether so many of its pods run, and none other is there."""

        def are_running() -> bool:
            found = self.pods(job)
            return len(found) == pods and all(
                pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in found
            )

        return are_running

    def says(self, job: str, *words: str) -> Callable[[], bool]:
        """Whether its Workload has these conditions, as `Evicted=True/Deactivated`."""
        return lambda: set(words) <= set(words_of(self.workload(job)))

    # --- what is done

    def gang(self, job: str, *, pods: int = 2, gpus: int = 8, **options: Any) -> None:
        made = objects.gang(job, self.plane.namespace, queue="q", pods=pods, gpus=gpus, **options)
        self.api.post(path_of("batch/v1/jobs", self.plane.namespace), made)

    def run(self, job: str, *, pods: int = 2, **options: Any) -> None:
        self.gang(job, pods=pods, **options)
        self.plane.until(self.runs(job, pods), f"{job} running")

    def active(self, job: str, *, is_active: bool) -> None:
        path = f"{ROOT}/namespaces/{self.plane.namespace}/workloads/{self.workload(job)['metadata']['name']}"
        self.api.patch(path, {"spec": {"active": is_active}}, PatchKind.MERGE, {"fieldManager": "trimtab"})

    def cordon(self, *indexes: int, is_open: bool = False) -> None:
        for index in indexes:
            body = {"spec": {"unschedulable": None if is_open else True}}
            self.api.patch(path_of("nodes", None, self.plane.nodes[index]), body, PatchKind.MERGE)

    def evict(self, job: str, node: int) -> None:
        pod = next(one for one in self.pods(job) if one["spec"].get("nodeName") == self.plane.nodes[node])
        meta = {"name": pod["metadata"]["name"], "namespace": self.plane.namespace}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        self.api.post(path_of("pods", self.plane.namespace, meta["name"], "eviction"), body)

    def hold(self, *, is_open: bool = False) -> None:
        path = f"{ROOT}/clusterqueues/{self.plane.name('q')}"
        self.api.patch(path, {"spec": {"stopPolicy": "None" if is_open else "Hold"}}, PatchKind.MERGE)

    def is_shut(self) -> bool:
        """Whether Kueue says that the queue admits nothing."""
        queue = self.api.get(f"{ROOT}/clusterqueues/{self.plane.name('q')}")
        return any(one["type"] == "Active" and one["status"] == "False" for one in queue["status"]["conditions"])

    def open_check(self, check: str) -> None:
        condition = {"type": "Active", "status": "True", "reason": "Active", "message": "ok", "lastTransitionTime": NOW}
        path = f"{ROOT}/admissionchecks/{self._check(check)}/status"
        self.api.patch(path, {"status": {"conditions": [condition]}}, PatchKind.MERGE)

    def answer(self, job: str, check: str, *, selector: dict[str, str] | None = None) -> None:
        one = self.workload(job)
        updates = [{"name": "main", "nodeSelector": selector}] if selector else []
        state = {
            "name": self._check(check),
            "state": "Ready",
            "lastTransitionTime": NOW,
            "message": "ok",
            "requeueAfterSeconds": 0,
            "podSetUpdates": updates,
        }
        body = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "metadata": {key: one["metadata"][key] for key in ("name", "namespace", "uid")},
            "status": {"admissionChecks": [state]},
        }
        path = f"{ROOT}/namespaces/{self.plane.namespace}/workloads/{one['metadata']['name']}/status"
        self.api.patch(path, body, PatchKind.APPLY, {"fieldManager": "trimtab", "force": "true"})

    def _check(self, check: str) -> str:
        return check if isinstance(self.plane, StandIn) else self.plane.name(check)

    def label(self, node: int, key: str) -> None:
        body = {"metadata": {"labels": {key: "kept"}}}
        self.api.patch(path_of("nodes", None, self.plane.nodes[node]), body, PatchKind.MERGE)

    def lines(self, job: str) -> list[Line]:
        """What happened to a Workload, event by event."""
        told = [frozenset(changed(old, new)) for name, old, new in self.plane.story() if name == job]
        return [line for line in told if line]


def _version(one: Json | None) -> str:
    return str(one["metadata"]["resourceVersion"]) if one else ""


def job_of(workload: Json) -> str:
    owners = workload["metadata"].get("ownerReferences") or [{"name": ""}]
    return str(owners[0]["name"])


def words_of(workload: Json) -> list[str]:
    """Its state in words."""
    status, spec = workload.get("status") or {}, workload.get("spec") or {}
    found = [f"{one['type']}={one['status']}/{one.get('reason', '')}" for one in status.get("conditions") or []]
    found += [f"check={one['state']}" for one in status.get("admissionChecks") or []]
    found.append(f"unhealthy={len(status.get('unhealthyNodes') or [])}")
    return [*found, f"active={spec.get('active') is not False}"]


def changed(old: Json, new: Json) -> set[str]:
    """Words that are new. What a Workload begins with is active, with all its nodes."""
    return set(words_of(new)) - (set(words_of(old)) if old else {"unhealthy=0"})


def recorded(name: str, job: str) -> list[Line]:
    """The same of a recording; what was there before its first call is left out."""
    found: list[Line] = []
    for text in (RECORDINGS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if line["name"] != job or line["type"] == "INITIAL":
            continue
        words = [f"{kind}={value}" for kind, value in (line.get("conditions") or {}).items() if value]
        words += [f"check={state}" for state in line.get("checks") or ()]
        words += [f"unhealthy={line['unhealthyNodes']}"] if "unhealthyNodes" in line else []
        words += [f"active={line['active']}"] if "active" in line else []
        found.append(frozenset(words))
    return found


def without(lines: Sequence[Line], word: str) -> list[Line]:
    """The lines without a word."""
    return [line - {word} for line in lines if line - {word}]


def same_order(wanted: Sequence[Line], told: Sequence[Line]) -> str | None:
    """None where the same was told in an order that the recording allows; what one event told may come in two."""
    if _count(wanted) != _count(told):
        return f"told {_flat(told)}, recorded {_flat(wanted)}"
    place = {one: index for index, line in enumerate(_numbered(told)) for one in line}
    lines = _numbered(wanted)
    for before, after in pairwise(lines):
        for first in before:
            late = [second for second in after if place[second] < place[first]]
            if late:
                return f"{late[0]} before {first}; told {_flat(told)}, recorded {_flat(wanted)}"
    return None


def _count(lines: Iterable[Line]) -> list[str]:
    return sorted(word for line in lines for word in line)


def _flat(lines: Iterable[Line]) -> str:
    return " | ".join(" ".join(sorted(line)) for line in lines)


def _numbered(lines: Sequence[Line]) -> list[frozenset[tuple[str, int]]]:
    """Words with the number of the time that they are told."""
    times: dict[str, int] = defaultdict(int)
    found = []
    for line in lines:
        for word in line:
            times[word] += 1
        found.append(frozenset((word, times[word]) for word in line))
    return found
