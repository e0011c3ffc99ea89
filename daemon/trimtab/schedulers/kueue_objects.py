"""Kueue's objects as far as a mover looks at them: a Workload's state, who switched it, its checks; queues. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.schedulers.kubernetes import Resource
from trimtab.schedulers.objects import Loose
from trimtab.schedulers.pods import quantity
from trimtab.schedulers.view import View

Json = Mapping[str, Any]

GROUP = "kueue.x-k8s.io"
WORKLOADS = f"workloads.{GROUP}"
CLUSTER_QUEUES = f"clusterqueues.{GROUP}"
LOCAL_QUEUES = f"localqueues.{GROUP}"
COHORTS = f"cohorts.{GROUP}"
FLAVORS = f"resourceflavors.{GROUP}"
CHECKS = f"admissionchecks.{GROUP}"
HOSTNAME = "kubernetes.io/hostname"
GATE = "kueue.x-k8s.io/topology"
"""Scheduling gate of a pod that Kueue has not pinned to a node yet."""
HELD = ("Hold", "HoldAndDrain")
_CLUSTER_WIDE = (CLUSTER_QUEUES, COHORTS, FLAVORS, CHECKS)


def path_of(view: View, kind: str, key: str, subresource: str | None = None) -> str:
    """The address of one object of Kueue's, in the version that the snapshot was read in."""
    version = view.served.get(kind, "v1beta2").rsplit("/", 1)[-1]
    namespace, _, name = key.rpartition("/")
    resource = Resource(
        group=GROUP, version=version, plural=kind.split(".", maxsplit=1)[0], is_namespaced=kind not in _CLUSTER_WIDE
    )
    return resource.path(namespace or None, name, subresource)


def body_of(one: Loose) -> Json:
    """An object of the snapshot in the shape in which the server sends it (without managedFields)."""
    meta = one.metadata
    return {
        "metadata": {
            "name": meta.name,
            "namespace": meta.namespace,
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "creationTimestamp": meta.creation_timestamp.isoformat() if meta.creation_timestamp else "",
            "labels": meta.labels,
            "annotations": meta.annotations,
        },
        "spec": one.spec,
        "status": one.status,
    }


def owner_of_field(body: Json, *path: str) -> str | None:
    """The field manager of a field under `spec`, where the server says."""
    for managed in (body.get("metadata") or {}).get("managedFields") or ():
        fields: Any = managed.get("fieldsV1") or {}
        for part in ("spec", *path):
            fields = fields.get(f"f:{part}") if isinstance(fields, Mapping) else None
        if fields is not None:
            return str(managed.get("manager") or "")
    return None


@dataclass(frozen=True, slots=True)
class CheckState:
    """One admission check of a Workload."""

    name: str
    state: str
    updates: Sequence[Json]

    def selects(self, key: str) -> bool:
        """Whether its podSetUpdates ask for nodes with this label."""
        return any(key in (update.get("nodeSelector") or {}) for update in self.updates)


@dataclass(frozen=True, slots=True)
class KueueWorkload:
    """A Kueue Workload, of the snapshot or read afresh."""

    body: Json

    @classmethod
    def of(cls, one: Loose) -> KueueWorkload:
        """That of a snapshot."""
        return cls(body_of(one))

    @property
    def _meta(self) -> Json:
        return self.body.get("metadata") or {}

    @property
    def _spec(self) -> Json:
        return self.body.get("spec") or {}

    @property
    def _status(self) -> Json:
        return self.body.get("status") or {}

    @property
    def name(self) -> str:
        """Its name."""
        return str(self._meta.get("name") or "")

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self._meta.get('namespace')}/{self.name}"

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self._meta.get("uid") or "")

    @property
    def version(self) -> str:
        """Its resourceVersion."""
        return str(self._meta.get("resourceVersion") or "")

    @property
    def annotations(self) -> Mapping[str, str]:
        """Its annotations."""
        return self._meta.get("annotations") or {}

    @property
    def local_queue(self) -> str:
        """`namespace/name` of its LocalQueue."""
        return f"{self._meta.get('namespace')}/{self._spec.get('queueName') or ''}"

    @property
    def order(self) -> tuple[int, str]:
        """Its place in a queue: higher priority first, then the older."""
        return -int(self._spec.get("priority") or 0), str(self._meta.get("creationTimestamp") or "")

    @property
    def is_active(self) -> bool:
        """Whether nobody has deactivated it."""
        return self._spec.get("active") is not False

    @property
    def switched_by(self) -> str | None:
        """The field manager that set `spec.active` last, where the server says."""
        return owner_of_field(self.body, "active")

    @property
    def pods(self) -> int:
        """How many pods it asks for."""
        return sum(int(one.get("count") or 1) for one in self._spec.get("podSets") or ())

    @property
    def why_pending(self) -> str:
        """Why it has no quota, in Kueue's words; empty where it has, or nothing was said yet."""
        for one in self._status.get("conditions") or ():
            if one.get("type") == "QuotaReserved" and one.get("status") == "False":
                return str(one.get("message") or "")
        return ""

    def condition(self, kind: str) -> tuple[str, str]:
        """Status and reason of a condition; empty where there is none."""
        for one in self._status.get("conditions") or ():
            if one.get("type") == kind:
                return str(one.get("status") or ""), str(one.get("reason") or "")
        return "", ""

    def _is(self, kind: str) -> bool:
        return self.condition(kind)[0] == "True"

    @property
    def has_quota(self) -> bool:
        """Whether quota is reserved for it."""
        return self._is("QuotaReserved")

    @property
    def is_admitted(self) -> bool:
        """Whether its pods may run."""
        return self._is("Admitted")

    @property
    def is_evicted(self) -> bool:
        """Whether Kueue has taken its place from it and it has no new one yet."""
        return self._is("Evicted")

    @property
    def is_finished(self) -> bool:
        """Whether it has come to its end."""
        return self._is("Finished")

    @property
    def is_pending(self) -> bool:
        """Whether it waits in its queue."""
        return self.is_active and not self.has_quota and not self.is_finished

    @property
    def is_stopped_fully(self) -> bool:
        """Whether a deactivation went all the way in Kueue's books; its pods are looked at besides.

        Switched back before that, nothing moves and nothing says so.
        """
        requeued, _ = self.condition("Requeued")
        return not self.is_active and self.is_evicted and not self.has_quota and requeued == "False"

    @property
    def is_back_in_line(self) -> bool:
        """Whether Kueue has taken note that it was reactivated."""
        return self.is_active and (self.has_quota or self.condition("Requeued")[0] == "True")

    @property
    def cluster_queue(self) -> str | None:
        """The ClusterQueue that admitted it."""
        admission = self._status.get("admission") or {}
        return admission.get("clusterQueue")

    @property
    def pod_sets(self) -> tuple[str, ...]:
        """Names of its pod sets."""
        return tuple(str(one.get("name") or "") for one in self._spec.get("podSets") or ())

    def gpus(self, resource: str) -> int:
        """How much of a resource all its pods ask for together."""
        return sum(
            int(one.get("count") or 1) * _asked(one.get("template") or {}, resource)
            for one in self._spec.get("podSets") or ()
        )

    @property
    def unhealthy_nodes(self) -> tuple[str, ...]:
        """Nodes that Kueue is replacing under it at this moment."""
        return tuple(str(one.get("name") or "") for one in self._status.get("unhealthyNodes") or ())

    @property
    def is_sliced(self) -> bool:
        """Whether it is a slice of an elastic job."""
        return any(name.startswith("kueue.x-k8s.io/workload-slice") for name in self.annotations)

    @property
    def topologies(self) -> tuple[str, ...]:
        """The lowest level of the topology assignment of each pod set; empty text where there is none."""
        found = (self._status.get("admission") or {}).get("podSetAssignments") or ()
        levels = [(one.get("topologyAssignment") or {}).get("levels") or () for one in found]
        return tuple(str(one[-1]) if one else "" for one in levels)

    @property
    def has_topology(self) -> bool:
        """Whether Kueue chose its nodes."""
        return any(self.topologies)

    @property
    def is_pinned_by_host(self) -> bool:
        """Whether Kueue chose its nodes one by one."""
        return bool(self.topologies) and all(level == HOSTNAME for level in self.topologies)

    def check(self, name: str) -> CheckState | None:
        """One of its admission checks."""
        return next((one for one in self.checks if one.name == name), None)

    @property
    def checks(self) -> Iterator[CheckState]:
        """Its admission checks."""
        for one in self._status.get("admissionChecks") or ():
            yield CheckState(str(one.get("name")), str(one.get("state")), one.get("podSetUpdates") or ())


def stop_policy(queue: Json) -> str:
    """`None`, `Hold` or `HoldAndDrain` of a ClusterQueue or LocalQueue."""
    return str((queue.get("spec") or {}).get("stopPolicy") or "None")


def is_inactive(queue: Json) -> bool:
    """Whether Kueue says that a ClusterQueue admits nothing."""
    found = [one for one in (queue.get("status") or {}).get("conditions") or () if one.get("type") == "Active"]
    return bool(found) and found[0].get("status") == "False"


def cohort_of(queue: Loose) -> str | None:
    """A ClusterQueue's cohort, in either version of the API."""
    found = queue.spec.get("cohortName") or queue.spec.get("cohort")
    return str(found) if found else None


def flavors_of(queue: Loose, resource: str) -> tuple[str, ...]:
    """Flavors by which a ClusterQueue gives out a resource."""
    return tuple(
        str(flavor.get("name"))
        for group in queue.spec.get("resourceGroups") or ()
        if resource in (group.get("coveredResources") or ())
        for flavor in group.get("flavors") or ()
    )


def _asked(template: Json, resource: str) -> int:
    total = 0
    for container in (template.get("spec") or {}).get("containers") or ():
        resources = container.get("resources") or {}
        asked = (resources.get("requests") or {}).get(resource) or (resources.get("limits") or {}).get(resource)
        total += int(quantity(asked or 0))
    return total
