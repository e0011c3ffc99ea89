"""What the daemon's account must be allowed, and what goes without it; `doctor --cluster` asks for each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.schedulers.resources import RESOURCES
from trimtab.settings import KubernetesSettings

KUEUE, VOLCANO_JOBS, RESOURCE = "kueue.x-k8s.io", "batch.volcano.sh", "resource.k8s.io"
NOTHING = "No snapshot is whole, so nothing is planned."


@dataclass(frozen=True, slots=True, kw_only=True)
class Right:
    """One permission and what is lost without it; it matters only where its API group is served."""

    verb: str
    group: str
    resource: str
    costs: str
    namespace: str = ""
    name: str = ""
    is_for_acting: bool = False
    is_for_check: bool = False

    @property
    def text(self) -> str:
        """As `kubectl auth can-i` takes it: `list workloads.kueue.x-k8s.io`."""
        return f"{self.verb} {self.resource}" + (f".{self.group}" if self.group else "")


_UNKNOWN_OWNER = "Their pods are not moved: what they belong to is not known."
_NO_KAI = "Gangs of KAI are not told from single pods; they are not moved either way."
# What goes without a kind that a whole snapshot does not need.
_OPTIONAL: Mapping[str, str] = {
    "leaderworkersets.leaderworkerset.x-k8s.io": _UNKNOWN_OWNER,
    "trainjobs.trainer.kubeflow.org": _UNKNOWN_OWNER,
    "pytorchjobs.kubeflow.org": _UNKNOWN_OWNER,
    "mpijobs.kubeflow.org": _UNKNOWN_OWNER,
    "rayjobs.ray.io": _UNKNOWN_OWNER,
    "rayclusters.ray.io": _UNKNOWN_OWNER,
    "resourceslices.resource.k8s.io": "GPUs that are handed out by DRA come from the agents alone.",
    "resourceclaims.resource.k8s.io": "Which pod holds which GPU under DRA comes from the agents alone.",
    "devicetaintrules.resource.k8s.io": "GPUs that were taken out alone are not seen as such.",
    "nodeclaims.karpenter.sh": "Nodes that Karpenter is about to take away are not stood back from.",
    "podgroups.scheduling.run.ai": _NO_KAI,
    "queues.scheduling.run.ai": _NO_KAI,
}
# Verb, group, resource, what goes without it.
_TELL: tuple[tuple[str, str, str, str], ...] = (
    ("create", "events.k8s.io", "events", "Owners do not see on their jobs what was recommended and done."),
    ("create", "authentication.k8s.io", "tokenreviews", "A DaemonSet's agents cannot sign in."),
)
_ACT: tuple[tuple[str, str, str, str], ...] = (
    ("patch", "", "nodes", "No node is cordoned."),
    ("create", "", "pods/eviction", "No single pod is moved."),
    ("patch", "", "pods", "Waiting pods cannot be let onto a seat that is kept."),
    ("patch", "", "pods/status", "Waiting pods choose among the seats themselves."),
    ("patch", "batch", "jobs", "Jobs without a queue are not suspended."),
    ("patch", "batch", "jobs/status", "Jobs without a queue start where room is, and only then go to their seats."),
    ("patch", "jobset.x-k8s.io", "jobsets", "JobSets without a queue are not suspended."),
    ("patch", KUEUE, "workloads", "Gangs under Kueue are not moved."),
    ("patch", KUEUE, "clusterqueues", "No quota is kept during a move: where others wait, moves stay advice."),
    ("patch", KUEUE, "localqueues", "Other queues cannot be held while a node is emptied."),
    ("patch", VOLCANO_JOBS, "jobs", "Volcano's gangs are not moved to zero and back."),
    ("create", "bus.volcano.sh", "commands", "Volcano's gangs are not restarted."),
    ("delete", "bus.volcano.sh", "commands", "A command that nobody took cannot be withdrawn, so none is sent."),
    ("create", RESOURCE, "devicetaintrules", "A bad GPU takes its whole node out."),
    ("delete", RESOURCE, "devicetaintrules", "A GPU that was taken out cannot be given back."),
)
_CHECK: tuple[tuple[str, str, str, str], ...] = (
    ("patch", KUEUE, "workloads/status", "No exact seats: our admission check cannot answer."),
    ("patch", KUEUE, "admissionchecks/status", "The check never becomes active, and its queues admit nothing."),
)


def rights_of(kubernetes: KubernetesSettings, *, may_act: bool) -> tuple[Right, ...]:
    """Every permission that these settings need."""
    found = [
        Right(
            verb=verb,
            group=kind.group,
            resource=kind.plural,
            costs=NOTHING if kind.is_needed else _OPTIONAL[kind.name],
            namespace=kubernetes.namespace if kind.is_ours else "",
        )
        for kind in RESOURCES
        for verb in ("list", "watch")
    ]
    found += [Right(verb=verb, group=group, resource=one, costs=costs) for verb, group, one, costs in _TELL]
    if not may_act:
        return tuple(found)
    found.append(
        Right(
            verb="update",
            group="coordination.k8s.io",
            resource="leases",
            namespace=kubernetes.namespace,
            name=kubernetes.lease_name,
            costs="Nothing is written: without its Lease nobody knows who may.",
            is_for_acting=True,
        )
    )
    found += [
        Right(verb=verb, group=group, resource=one, costs=costs, is_for_acting=True) for verb, group, one, costs in _ACT
    ]
    if kubernetes.admission_check:
        found += [
            Right(verb=verb, group=group, resource=one, costs=costs, is_for_acting=True, is_for_check=True)
            for verb, group, one, costs in _CHECK
        ]
    return tuple(found)
