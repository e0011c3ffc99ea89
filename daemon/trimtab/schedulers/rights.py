"""What the daemon's account must be allowed, and what goes without it; `doctor --cluster` asks for each."""

from __future__ import annotations

from dataclasses import dataclass

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


# Group, resources, what goes without them.
_READ: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("", ("nodes", "pods"), NOTHING),
    ("", ("namespaces",), "Opt-outs on namespaces are not seen, so nothing in any namespace is moved."),
    ("batch", ("jobs",), "Jobs are seen as pods without an owner, and not moved."),
    (
        "apps",
        ("deployments", "replicasets", "statefulsets"),
        "Their pods are not moved: who made them is not known.",
    ),
    ("policy", ("poddisruptionbudgets",), "No job is stopped: whether its disruption budget allows it is not known."),
    (KUEUE, ("workloads", "clusterqueues", "localqueues"), "Jobs under Kueue are not moved."),
    (KUEUE, ("resourceflavors", "topologies"), "Racks and pools come from labels alone."),
    (KUEUE, ("cohorts", "admissionchecks"), "Who could take a freed quota is not known; moves stay advice."),
    (VOLCANO_JOBS, ("jobs",), "Volcano's jobs are not moved."),
    ("scheduling.volcano.sh", ("podgroups", "queues"), "Volcano's jobs are not moved."),
    ("topology.volcano.sh", ("hypernodes",), "Racks come from labels alone."),
    (RESOURCE, ("resourceslices", "resourceclaims"), "Which pod holds which GPU comes from the agents alone."),
)
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
        Right(verb=verb, group=group, resource=resource, costs=costs)
        for group, resources, costs in _READ
        for resource in resources
        for verb in ("list", "watch")
    ]
    found += [Right(verb=verb, group=group, resource=one, costs=costs) for verb, group, one, costs in _TELL]
    found.append(
        Right(
            verb="list",
            group="",
            resource="configmaps",
            namespace=kubernetes.namespace,
            costs="The pause ConfigMap is not seen.",
        )
    )
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
