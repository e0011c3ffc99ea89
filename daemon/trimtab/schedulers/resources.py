"""The kinds that are read from a cluster: one literal table, a reason beside each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


def pause_config_map(prefix: str) -> str:
    """Name of the ConfigMap by which somebody pauses us with kubectl alone, in our own namespace."""
    return f"{prefix}-pause"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind that is read where the cluster serves it, in the first of `versions` that it serves.

    `is_needed`: what it says decides whether a move is safe, so a cluster that serves it and does not let us read it
    is not seen whole. The others are absent with a note.
    """

    name: str
    """`plural.group`, or `plural` for the core."""
    versions: tuple[str, ...]
    why: str
    is_needed: bool = True
    is_ours: bool = False
    """Read in our own namespace alone, and of it only the pause ConfigMap."""
    is_slim: bool = False
    """Of the spec only what counts replicas is kept: there are thousands, with whole pod templates in them."""

    @property
    def plural(self) -> str:
        """`jobs`."""
        return self.name.partition(".")[0]

    @property
    def group(self) -> str:
        """`batch`; empty for the core."""
        return self.name.partition(".")[2]

    def path(self, version: str, namespace: str) -> str:
        """Where its list is; `namespace` is our own, for what is read there alone."""
        root = f"/apis/{self.group}/{version}" if self.group else f"/api/{version}"
        return f"{root}/namespaces/{namespace}/{self.plural}" if self.is_ours else f"{root}/{self.plural}"

    def selection(self, prefix: str) -> Mapping[str, str]:
        """What of it is read, as parameters of list and watch."""
        return {"fieldSelector": f"metadata.name={pause_config_map(prefix)}"} if self.is_ours else {}


KUEUE = ("v1beta2", "v1beta1")
"""From 0.15 on, and before."""

RESOURCES: tuple[Kind, ...] = (
    Kind(name="nodes", versions=("v1",), why="room, health, cordons, taints, topology labels, other movers' marks"),
    Kind(name="pods", versions=("v1",), why="who holds and who waits for GPUs"),
    Kind(name="namespaces", versions=("v1",), why="opt-outs of a whole namespace"),
    Kind(
        name="configmaps",
        versions=("v1",),
        is_ours=True,
        why="the pause that somebody sets with kubectl; no other ConfigMap is read",
    ),
    Kind(name="poddisruptionbudgets.policy", versions=("v1",), why="whole-job stops do not ask them, so we must"),
    # Owners, to the top: a workload is what its top owner is.
    Kind(name="jobs.batch", versions=("v1",), why="owner: completions, failure policy, suspension"),
    Kind(name="replicasets.apps", versions=("v1",), is_slim=True, why="owner between Deployment and pod"),
    Kind(name="deployments.apps", versions=("v1",), is_slim=True, why="owner: replicas"),
    Kind(name="statefulsets.apps", versions=("v1",), is_slim=True, why="owner: replicas"),
    Kind(name="daemonsets.apps", versions=("v1",), is_slim=True, why="owner: its pods are never moved"),
    Kind(name="jobsets.jobset.x-k8s.io", versions=("v1alpha2",), why="owner of Jobs: one gang, restarts"),
    Kind(name="leaderworkersets.leaderworkerset.x-k8s.io", versions=("v1",), is_needed=False, why="owner: groups"),
    Kind(name="trainjobs.trainer.kubeflow.org", versions=("v1alpha1",), is_needed=False, why="owner; its progress"),
    Kind(name="pytorchjobs.kubeflow.org", versions=("v1",), is_needed=False, why="owner: one gang"),
    Kind(name="mpijobs.kubeflow.org", versions=("v2beta1", "v1"), is_needed=False, why="owner: one gang"),
    Kind(name="rayjobs.ray.io", versions=("v1",), is_needed=False, why="owner; its head is not to be moved"),
    Kind(name="rayclusters.ray.io", versions=("v1",), is_needed=False, why="owner; never evicted pod by pod"),
    # Kueue
    Kind(name="workloads.kueue.x-k8s.io", versions=KUEUE, why="what is admitted, where, and why not"),
    Kind(name="clusterqueues.kueue.x-k8s.io", versions=KUEUE, why="quota, holds, admission checks"),
    Kind(name="localqueues.kueue.x-k8s.io", versions=KUEUE, why="which queue a namespace's jobs go to; holds"),
    Kind(name="cohorts.kueue.x-k8s.io", versions=KUEUE, why="who may borrow freed quota"),
    Kind(name="resourceflavors.kueue.x-k8s.io", versions=KUEUE, why="pools of nodes; whether topology is used"),
    Kind(name="topologies.kueue.x-k8s.io", versions=KUEUE, why="which labels are racks"),
    Kind(name="admissionchecks.kueue.x-k8s.io", versions=KUEUE, why="our own and others' gates"),
    Kind(name="workloadpriorityclasses.kueue.x-k8s.io", versions=KUEUE, why="priority where the Workload has none"),
    # Volcano
    Kind(name="jobs.batch.volcano.sh", versions=("v1alpha1",), why="owner: policies, retries, tasks"),
    Kind(name="podgroups.scheduling.volcano.sh", versions=("v1beta1",), why="gangs, and why they wait"),
    Kind(name="queues.scheduling.volcano.sh", versions=("v1beta1",), why="quota, open or closed"),
    Kind(name="hypernodes.topology.volcano.sh", versions=("v1alpha1",), why="which nodes are a rack"),
    Kind(name="commands.bus.volcano.sh", versions=("v1alpha1",), why="ours that nobody consumed"),
    # Devices
    Kind(name="resourceslices.resource.k8s.io", versions=("v1", "v1beta2"), is_needed=False, why="GPUs under DRA"),
    Kind(name="resourceclaims.resource.k8s.io", versions=("v1", "v1beta2"), is_needed=False, why="who holds them"),
    Kind(
        name="devicetaintrules.resource.k8s.io",
        versions=("v1", "v1beta2", "v1alpha3"),
        is_needed=False,
        why="single GPUs taken out, by us or others",
    ),
    # Other movers
    Kind(
        name="nodeclaims.karpenter.sh",
        versions=("v1", "v1beta1"),
        is_needed=False,
        why="nodes that Karpenter is about to take away: we stand back",
    ),
    # KAI
    Kind(name="podgroups.scheduling.run.ai", versions=("v2alpha2",), is_needed=False, why="gangs of KAI: not ours"),
    Kind(name="queues.scheduling.run.ai", versions=("v2",), is_needed=False, why="their queues"),
)
