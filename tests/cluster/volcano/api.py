"""The seam under the stand-in: calls and feeds of changes, so that it runs on a real API server and in memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

Object = dict[str, Any]

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"


@dataclass(frozen=True)
class Answer:
    """What the API server said to one request."""

    code: int
    body: Object

    @property
    def is_ok(self) -> bool:
        return self.code < 300

    @property
    def reason(self) -> str:
        return str(self.body.get("reason", ""))

    @property
    def message(self) -> str:
        return str(self.body.get("message", ""))


class Change(NamedTuple):
    """One watch event."""

    type: str
    object: Object


class Feed(Protocol):
    """The changes of one collection since it was opened; the objects that were there come first, as ADDED."""

    def drain(self) -> list[Change]: ...

    def close(self) -> None: ...


class Api(Protocol):
    """A Kubernetes API, real or in process."""

    def call(self, method: str, path: str, body: object = None, *, content_type: str = JSON) -> Answer: ...

    def follow(self, collection: str) -> Feed: ...


@dataclass(frozen=True)
class Kind:
    """Where the objects of a kind live."""

    name: str
    version: str
    plural: str
    is_namespaced: bool = True
    is_kept: bool = True
    """False: nobody follows its objects."""

    @property
    def root(self) -> str:
        return f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"

    @property
    def collection(self) -> str:
        """Path of all objects of the kind, in every namespace."""
        return f"{self.root}/{self.plural}"

    def path(self, namespace: str = "", name: str = "", sub: str = "") -> str:
        """Path of a namespace's objects, one object or its subresource."""
        parts = [self.root, *(["namespaces", namespace] if self.is_namespaced else []), self.plural, name, sub]
        return "/".join(part for part in parts if part)


POD = Kind("Pod", "v1", "pods")
NODE = Kind("Node", "v1", "nodes", is_namespaced=False)
EVENT = Kind("Event", "v1", "events", is_kept=False)
NAMESPACE = Kind("Namespace", "v1", "namespaces", is_namespaced=False)
CORE_JOB = Kind("Job", "batch/v1", "jobs")
REPLICA_SET = Kind("ReplicaSet", "apps/v1", "replicasets")
PDB = Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets")
PRIORITY_CLASS = Kind("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", is_namespaced=False)
JOB = Kind("Job", "batch.volcano.sh/v1alpha1", "jobs")
COMMAND = Kind("Command", "bus.volcano.sh/v1alpha1", "commands")
POD_GROUP = Kind("PodGroup", "scheduling.volcano.sh/v1beta1", "podgroups")
QUEUE = Kind("Queue", "scheduling.volcano.sh/v1beta1", "queues", is_namespaced=False)
HYPER_NODE = Kind("HyperNode", "topology.volcano.sh/v1alpha1", "hypernodes", is_namespaced=False)

KINDS = (
    POD,
    NODE,
    EVENT,
    NAMESPACE,
    CORE_JOB,
    REPLICA_SET,
    PDB,
    PRIORITY_CLASS,
    JOB,
    COMMAND,
    POD_GROUP,
    QUEUE,
    HYPER_NODE,
)


class Refused(Exception):
    """The API server said no."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"{answer.code} {answer.reason}: {answer.message}")
        self.answer = answer

    @property
    def code(self) -> int:
        return self.answer.code
