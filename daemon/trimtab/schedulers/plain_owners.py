"""Owners of pods that plain Kubernetes moves: how each is addressed, which pods are its own now, how many it wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from trimtab.errors import SchedulerGone
from trimtab.schedulers.budgets import selector_text
from trimtab.schedulers.kubernetes import Api, Resource
from trimtab.schedulers.objects import Loose, Pod
from trimtab.schedulers.view import View

PODS = Resource(group="", version="v1", plural="pods")
JOB_LABEL = "batch.kubernetes.io/job-name"
JOBSET_LABEL = "jobset.sigs.k8s.io/jobset-name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of owner. `is_stopped_whole`: by `spec.suspend`; else its pods are evicted and it makes new ones."""

    name: str
    group: str
    version: str
    plural: str
    is_stopped_whole: bool = False

    @property
    def key(self) -> str:
        """`jobs.batch`."""
        return f"{self.plural}.{self.group}"

    def resource(self, view: View) -> Resource:
        """Its address in the version that the cluster is read in."""
        return Resource(group=self.group, version=view.served.get(self.key, self.version), plural=self.plural)


JOB = Kind(name="job", group="batch", version="v1", plural="jobs", is_stopped_whole=True)
JOBSET = Kind(name="jobset", group="jobset.x-k8s.io", version="v1alpha2", plural="jobsets", is_stopped_whole=True)
DEPLOYMENT = Kind(name="deployment", group="apps", version="v1", plural="deployments")
REPLICASET = Kind(name="replicaset", group="apps", version="v1", plural="replicasets")
STATEFULSET = Kind(name="statefulset", group="apps", version="v1", plural="statefulsets")
BARE = Kind(name="pod", group="", version="v1", plural="pods")
"""A pod of its own: let onto a seat while it waits, never stopped."""
KINDS: Mapping[str, Kind] = {one.name: one for one in (JOB, JOBSET, DEPLOYMENT, REPLICASET, STATEFULSET)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A workload's id taken apart: `team-a/job/train`."""

    namespace: str
    kind: str
    name: str

    @property
    def text(self) -> str:
        """`job/train` as kubectl takes it."""
        return f"{self.kind}/{self.name}"


def address_of(workload: str) -> Address:
    """The parts of a workload's id."""
    namespace, kind, name = (*workload.split("/", 2), "", "")[:3]
    return Address(namespace=namespace, kind=kind, name=name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """An owner as it is now, with its pods that are not over."""

    kind: Kind
    address: Address
    path: str
    body: Mapping[str, Any]
    pods: tuple[Pod, ...] = ()

    @property
    def is_suspended(self) -> bool:
        """Whether `spec.suspend` keeps it from running."""
        return bool(self.spec.get("suspend"))

    def is_suspended_by(self, manager: str) -> bool:
        """Whether this field manager suspended it last, as far as the server says; a person may have done so since."""
        return self.is_suspended and self._switched_by in ([], [manager])

    def is_surely_suspended_by(self, manager: str) -> bool:
        """Whether the server says that this field manager, and nobody else, suspended it."""
        return self.is_suspended and self._switched_by == [manager]

    @property
    def _switched_by(self) -> list[Any]:
        return [
            one.get("manager")
            for one in self.metadata.get("managedFields") or ()
            if "f:suspend" in ((one.get("fieldsV1") or {}).get("f:spec") or {})
        ]

    @property
    def spec(self) -> Mapping[str, Any]:
        """Its wishes."""
        return self.body.get("spec") or {}

    @property
    def status(self) -> Mapping[str, Any]:
        """Its state."""
        return self.body.get("status") or {}

    @property
    def metadata(self) -> Mapping[str, Any]:
        """What every object has."""
        return self.body.get("metadata") or {}

    @property
    def is_over(self) -> bool:
        """Whether it has ended for good."""
        ends = ("Complete", "Failed", "Completed", "SuccessCriteriaMet", "FailureTarget")
        return any(
            one.get("type") in ends and one.get("status") == "True" for one in self.status.get("conditions") or ()
        )

    @property
    def pods_wanted(self) -> int:
        """How many pods it wants to run now."""
        if self.kind is JOB:
            parallelism = int(self.spec.get("parallelism", 1))
            completions = self.spec.get("completions")
            if completions is None:
                return parallelism
            return max(min(parallelism, int(completions) - int(self.status.get("succeeded") or 0)), 0)
        if self.kind is JOBSET:
            return sum(_pods_of(one) for one in self.spec.get("replicatedJobs") or ())
        return int(self.spec.get("replicas", 1))


def _pods_of(replicated: Mapping[str, Any]) -> int:
    job = (replicated.get("template") or {}).get("spec") or {}
    return int(replicated.get("replicas", 1)) * int(job.get("parallelism", 1))


def is_serving(pod: Pod) -> bool:
    """Whether a pod runs, is ready, and nobody has deleted it."""
    is_ready = any(one.type == "Ready" and one.status == "True" for one in pod.status.conditions)
    return pod.status.phase == "Running" and is_ready and not pod.is_terminating


def is_homeless(pod: Pod) -> bool:
    """Whether a pod waits for a node."""
    return not (pod.spec.node_name or pod.is_terminating or pod.is_over or pod.spec.scheduling_gates)


def read_owner(api: Api, view: View, workload: str) -> Owner | None:
    """The owner as the server has it now; None when it is gone or of a kind that we do not write."""
    address = address_of(workload)
    kind = KINDS.get(address.kind)
    if kind is None:
        return None
    path = kind.resource(view).path(address.namespace, address.name)
    try:
        body = api.get(path)
    except SchedulerGone:
        return None
    owner = Owner(kind=kind, address=address, path=path, body=body)
    items = api.get(PODS.path(address.namespace), {"labelSelector": _selector_of(owner)}).get("items") or ()
    pods = msgspec.convert(items, tuple[Pod, ...])
    mine = sorted((pod for pod in pods if not pod.is_over and _is_own(pod, owner)), key=_order)
    return replace(owner, pods=tuple(mine))


def _selector_of(owner: Owner) -> str:
    if owner.kind is JOB:
        return f"{JOB_LABEL}={owner.address.name}"
    if owner.kind is JOBSET:
        return f"{JOBSET_LABEL}={owner.address.name}"
    return selector_text(owner.spec.get("selector"))


def _is_own(pod: Pod, owner: Owner) -> bool:
    """Its direct owner is this one; pods of Deployments and JobSets have another owner in between."""
    controller = pod.metadata.owner
    if controller is None:
        return False
    return owner.kind in (DEPLOYMENT, JOBSET) or controller.uid == owner.metadata.get("uid")


def _order(pod: Pod) -> tuple[int, str, str]:
    """By rank where the controller numbers its pods, else by name."""
    index = pod.metadata.annotations.get("batch.kubernetes.io/job-completion-index", "")
    number = index or pod.metadata.labels.get("apps.kubernetes.io/pod-index", "")
    return (int(number) if number.isdigit() else 0, pod.metadata.name, pod.metadata.uid)


def ignores_disruption(job: Loose | Owner) -> bool:
    """Whether a Job's podFailurePolicy leaves evicted pods out of its count of failures."""
    rules: Sequence[Mapping[str, Any]] = (job.spec.get("podFailurePolicy") or {}).get("rules") or ()
    return any(
        rule.get("action") == "Ignore"
        and any(one.get("type") == "DisruptionTarget" for one in rule.get("onPodConditions") or ())
        for rule in rules
    )


def steering(spec: Mapping[str, Any], key: str, value: str) -> list[dict[str, Any]]:
    """JSON patch operations that give a Job's template our toleration and a preference for nodes with our label.

    Neither can be taken away while the Job runs. Both name a value that dies with the command: inert from then on; an
    older one of ours goes.
    """
    pod = (spec.get("template") or {}).get("spec") or {}
    tolerations = [one for one in pod.get("tolerations") or () if one.get("key") != key]
    tolerations.append({"key": key, "operator": "Equal", "value": value, "effect": "NoSchedule"})
    return [
        {"op": "add", "path": "/spec/template/spec/tolerations", "value": tolerations},
        {"op": "add", "path": "/spec/template/spec/affinity", "value": _preferring(pod.get("affinity"), key, value)},
    ]


def _preferring(affinity: Mapping[str, Any] | None, key: str, value: str) -> dict[str, Any]:
    affinity = dict(affinity or {})
    node = dict(affinity.get("nodeAffinity") or {})
    name = "preferredDuringSchedulingIgnoredDuringExecution"
    terms = [one for one in node.get(name) or () if not _is_seat_wish(one, key)]
    wish = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    node[name] = [*terms, {"weight": 100, "preference": wish}]
    return {**affinity, "nodeAffinity": node}


def _is_seat_wish(term: Mapping[str, Any], key: str) -> bool:
    expressions: Sequence[Mapping[str, Any]] = (term.get("preference") or {}).get("matchExpressions") or ()
    return any(one.get("key") == key for one in expressions)
