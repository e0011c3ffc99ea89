"""From a pod up to what a person made: the workload that it belongs to, even where a link cannot be read. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.schedulers.objects import Loose, Metadata, OwnerReference

JOBS = "jobs.batch"
DEPLOYMENTS = "deployments.apps"
REPLICA_SETS = "replicasets.apps"
STATEFUL_SETS = "statefulsets.apps"
JOB_SETS = "jobsets.jobset.x-k8s.io"
VOLCANO_JOBS = "jobs.batch.volcano.sh"
POD_GROUP_LABEL = "kueue.x-k8s.io/pod-group-name"

PLURALS: Mapping[tuple[str, str], str] = {
    ("batch", "Job"): JOBS,
    ("apps", "Deployment"): DEPLOYMENTS,
    ("apps", "ReplicaSet"): REPLICA_SETS,
    ("apps", "StatefulSet"): STATEFUL_SETS,
    ("apps", "DaemonSet"): "daemonsets.apps",
    ("jobset.x-k8s.io", "JobSet"): JOB_SETS,
    ("trainer.kubeflow.org", "TrainJob"): "trainjobs.trainer.kubeflow.org",
    ("kubeflow.org", "PyTorchJob"): "pytorchjobs.kubeflow.org",
    ("kubeflow.org", "MPIJob"): "mpijobs.kubeflow.org",
    ("leaderworkerset.x-k8s.io", "LeaderWorkerSet"): "leaderworkersets.leaderworkerset.x-k8s.io",
    ("ray.io", "RayJob"): "rayjobs.ray.io",
    ("ray.io", "RayCluster"): "rayclusters.ray.io",
    ("batch.volcano.sh", "Job"): VOLCANO_JOBS,
}
"""(group, kind) -> the name under which the cluster's objects are kept."""
_KINDS: Mapping[str, tuple[str, str]] = {plural: key for key, plural in PLURALS.items()}
_STOPS_AT = frozenset({("batch", "CronJob"), ("", "Node")})
"""Owners above which we do not go: each run of a CronJob is a workload of its own, and a node owns its static pods."""
_WORDS = {("batch.volcano.sh", "Job"): "vcjob"}
_PLAIN_GROUPS = frozenset(group for group, _ in PLURALS)
_DEPTH_MAX = 8
HASH_LABEL = "pod-template-hash"


@dataclass(frozen=True, slots=True, kw_only=True)
class Top:
    """The top owner: a workload's identity. `kind` is as in its id (`vcjob`), `objects` from the top down."""

    namespace: str
    kind: str
    name: str
    plural: str = ""
    """Where its object is kept; empty where the kind is not one that we read."""
    objects: tuple[Loose, ...] = ()
    """The owners that can be read, from the top down."""
    above: str = ""
    """What it belongs to without being a part of it: `CronJob nightly`."""

    @property
    def id(self) -> str:
        """`team-a/jobset/train`."""
        return f"{self.namespace}/{self.kind}/{self.name}"

    @property
    def object(self) -> Loose | None:
        """The top owner itself, where it can be read."""
        found = self.objects[0] if self.objects else None
        return found if found is not None and found.metadata.name == self.name else None


class Owners:
    """Looks owners up among the objects of one moment; the same question is answered once."""

    def __init__(self, others: Mapping[str, Mapping[str, Loose]]) -> None:
        """Climb in these objects, kept by kind and `namespace/name`."""
        self._others = others
        self._known: dict[tuple[str, str, str, str], Top] = {}

    def of_pod(self, metadata: Metadata) -> Top:
        """The workload of a pod: its top owner, else its pod group, else itself."""
        owner = metadata.owner
        if owner is not None and (_group(owner), owner.kind) not in _STOPS_AT:
            return self.of(metadata.namespace, owner, hash_label=metadata.labels.get(HASH_LABEL, ""))
        group = metadata.labels.get(POD_GROUP_LABEL) or metadata.annotations.get(POD_GROUP_LABEL)
        if group:
            return Top(namespace=metadata.namespace, kind="podgroup", name=group)
        return Top(namespace=metadata.namespace, kind="pod", name=metadata.name)

    def of(self, namespace: str, reference: OwnerReference, *, hash_label: str = "") -> Top:
        """The top of what a reference leads to."""
        group = _group(reference)
        key = (namespace, group, reference.kind, reference.name)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._climb(namespace, reference, hash_label)
        return found

    def of_object(self, plural: str, item: Loose) -> Top:
        """The top above an object that can be read, itself where nothing is above it."""
        group, kind = _kind_of(plural)
        version = f"{group}/v1" if group else "v1"
        metadata = item.metadata
        return self.of(metadata.namespace, OwnerReference(kind=kind, name=metadata.name, api_version=version))

    def _climb(self, namespace: str, reference: OwnerReference, hash_label: str) -> Top:
        chain: list[Loose] = []
        above = ""
        for _ in range(_DEPTH_MAX):
            item = self._object(namespace, reference)
            if item is None:
                reference = _guessed(reference, hash_label)
                break
            chain.insert(0, item)
            higher = item.metadata.owner
            if higher is None:
                break
            if (_group(higher), higher.kind) in _STOPS_AT:
                above = f"{higher.kind} {higher.name}"
                break
            reference = higher
        group = _group(reference)
        return Top(
            namespace=namespace,
            kind=_word(group, reference.kind),
            name=reference.name,
            plural=PLURALS.get((group, reference.kind), ""),
            objects=tuple(chain),
            above=above,
        )

    def _object(self, namespace: str, reference: OwnerReference) -> Loose | None:
        plural = PLURALS.get((_group(reference), reference.kind))
        if plural is None:
            return None
        return self._others.get(plural, {}).get(f"{namespace}/{reference.name}")


def _group(reference: OwnerReference) -> str:
    group, slash, _ = reference.api_version.partition("/")
    return group if slash else ""


def plural_of(item: Loose) -> str:
    """The name under which an object's kind is kept; empty where it does not say what it is."""
    group, slash, _ = item.api_version.partition("/")
    return PLURALS.get((group if slash else "", item.kind), "")


def _word(group: str, kind: str) -> str:
    word = _WORDS.get((group, kind))
    if word is not None:
        return word
    is_ambiguous = group not in _PLAIN_GROUPS and any(kind == known for _, known in PLURALS)
    return f"{kind.lower()}.{group}" if is_ambiguous and group else kind.lower()


def _kind_of(plural: str) -> tuple[str, str]:
    return _KINDS.get(plural, ("", plural))


def _guessed(reference: OwnerReference, hash_label: str) -> OwnerReference:
    """A ReplicaSet that cannot be read and is named after a Deployment and the hash of its template."""
    ending = f"-{hash_label}"
    if reference.kind != "ReplicaSet" or not hash_label or not reference.name.endswith(ending):
        return reference
    return OwnerReference(kind="Deployment", name=reference.name.removesuffix(ending), api_version="apps/v1")
