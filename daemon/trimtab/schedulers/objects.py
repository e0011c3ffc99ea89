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


class SpecFields(Named, frozen=True):
    """Of a manager's fields of a spec, those that we ask about."""

    unschedulable: dict[str, Any] | None = field(default=None, name="f:unschedulable")


class ManagedFields(Named, frozen=True):
    """Which fields one writer set last."""

    spec: SpecFields = field(default=SpecFields(), name="f:spec")


class Manager(Named, frozen=True):
    """One entry of `metadata.managedFields`; all but a few fields are skipped when it is decoded."""

    manager: str = ""
    fields_v1: ManagedFields = field(default=ManagedFields(), name="fieldsV1")


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


class NodeMetadata(Metadata, frozen=True):
    """A node's metadata, with who wrote what."""

    managed_fields: list[Manager] = []


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

    metadata: NodeMetadata = NodeMetadata()
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def closer(self) -> str | None:
        """The field manager that cordoned it, where the server says."""
        found = (one.manager for one in self.metadata.managed_fields if one.fields_v1.spec.unschedulable is not None)
        return next(found, None)


Amount = str | int | float
"""A quantity: text from Kubernetes itself, and plain numbers too in what others' kinds carry."""


class Resources(Named, frozen=True):
    """A container's requests and limits."""

    requests: dict[str, Amount] = {}
    limits: dict[str, Amount] = {}
    claims: list[dict[str, Any]] = []


class Env(Named, frozen=True):
    """One variable of a container's environment; only a few names are ever looked at."""

    name: str = ""
    value: str = ""


class Container(Named, frozen=True):
    """A container of a pod; `restart_policy` Always in an init container makes it a sidecar."""

    name: str = ""
    resources: Resources = Resources()
    restart_policy: str = ""
    command: list[str] = []
    args: list[str] = []
    env: list[Env] = []


class PodSpec(Named, frozen=True):
    """A pod's wishes."""

    node_name: str = ""
    scheduler_name: str = "default-scheduler"
    priority: int = 0
    node_selector: dict[str, str] = {}
    affinity: dict[str, Any] = {}
    tolerations: list[Toleration] = []
    containers: list[Container] = []
    init_containers: list[Container] = []
    scheduling_gates: list[dict[str, str]] = []
    termination_grace_period_seconds: int = 30
    resource_claims: list[dict[str, Any]] = []
    topology_spread_constraints: list[dict[str, Any]] = []


class PodTemplate(Named, frozen=True):
    """What a controller makes pods from."""

    metadata: Metadata = Metadata()
    spec: PodSpec = PodSpec()


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
    data: dict[str, str] = {}
    """Of a ConfigMap."""
    value: int | None = None
    """Of a PriorityClass."""
    action: str = ""
    """Of a Volcano Command."""
    target: dict[str, Any] = {}
    """Of a Volcano Command: whom it is for."""
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
