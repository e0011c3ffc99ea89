"""The cluster's objects as far as they are read: only these fields are decoded, whatever else the server sends."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct, field


class Named(Struct, frozen=True, rename="camel"):
    """A Kubernetes object's parts keep their names, in camel case on the wire."""


class OwnerReference(Named, frozen=True):
    """Who made an object."""

    kind: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    controller: bool = False


class Metadata(Named, frozen=True):
    """What every object has."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    owner_references: list[OwnerReference] = []

    @property
    def owner(self) -> OwnerReference | None:
        """The controlling owner."""
        return next((one for one in self.owner_references if one.controller), None)

    @property
    def key(self) -> str:
        """`namespace/name`, or the name alone."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Condition(Named, frozen=True):
    """One entry of `status.conditions`."""

    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class Taint(Named, frozen=True):
    """One taint of a node."""

    key: str = ""
    value: str = ""
    effect: str = ""


class Toleration(Named, frozen=True):
    """One toleration of a pod."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""

    def covers(self, taint: Taint) -> bool:
        """Whether it lets a pod onto a node with this taint."""
        if self.effect not in ("", taint.effect):
            return False
        if not self.key:
            return self.operator == "Exists"
        return self.key == taint.key and (self.operator == "Exists" or self.value == taint.value)


class NodeSpec(Named, frozen=True):
    """A node's wishes."""

    unschedulable: bool = False
    taints: list[Taint] = []


class NodeStatus(Named, frozen=True):
    """A node's state."""

    capacity: dict[str, str] = {}
    allocatable: dict[str, str] = {}
    conditions: list[Condition] = []


class NodeObject(Named, frozen=True):
    """v1 Node."""

    metadata: Metadata = Metadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Resources(Named, frozen=True):
    """A container's requests and limits."""

    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    claims: list[dict[str, Any]] = []


class Container(Named, frozen=True):
    """A container of a pod; `restart_policy` Always in an init container makes it a sidecar."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[dict[str, Any]] = []


class PodSpec(Named, frozen=True):
    """A pod's wishes."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    priority_class_name: str = ""
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] = {}
    tolerations: list[Toleration] = []
    containers: list[Container] = []
    init_containers: list[Container] = []
    scheduling_gates: list[dict[str, str]] = []
    termination_grace_period_seconds: int = 30
    resource_claims: list[dict[str, Any]] = []


class PodStatus(Named, frozen=True):
    """A pod's state."""

    phase: str = ""
    reason: str = ""
    conditions: list[Condition] = []
    start_time: datetime | None = None
    nominated_node_name: str = ""
    resource_claim_statuses: list[dict[str, Any]] = []


class Pod(Named, frozen=True):
    """v1 Pod."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_over(self) -> bool:
        """Whether it holds nothing any more."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_terminating(self) -> bool:
        """Whether somebody deleted it; until it is gone it still holds its GPUs."""
        return self.metadata.deletion_timestamp is not None


class Loose(Named, frozen=True):
    """Any other object: what is not looked into often stays a plain JSON value."""

    metadata: Metadata = Metadata()
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}
    kind: str = ""
    api_version: str = ""

    @property
    def conditions(self) -> dict[str, Condition]:
        """Conditions by type."""
        found = msgspec.convert(self.status.get("conditions") or [], list[Condition])
        return {one.type: one for one in found}


class ListMetadata(Named, frozen=True):
    """Where a list ends and a watch begins."""

    resource_version: str = ""
    continue_: str = field(default="", name="continue")
