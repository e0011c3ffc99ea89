"""Everything that one snapshot was made of, as the server said it. Adapters look here, and read afresh to write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.schedulers.objects import Loose, NodeObject, Pod

Key = str
"""`namespace/name`, or the name alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Objects by key; a kind that the cluster does not serve is an empty mapping, and `served` says which are.

    `plural.group` names a kind: `jobs.batch`, `workloads.kueue.x-k8s.io`, `jobs.batch.volcano.sh`.
    """

    nodes: Mapping[Key, NodeObject] = field(default_factory=dict)
    pods: Mapping[Key, Pod] = field(default_factory=dict)
    others: Mapping[str, Mapping[Key, Loose]] = field(default_factory=dict)
    served: Mapping[str, str] = field(default_factory=dict)
    """Kind -> API version that is read."""
    pods_of: Mapping[str, tuple[Pod, ...]] = field(default_factory=dict)
    """Workload id (of the snapshot) -> its pods that are not over, in rank order."""
    owner_of: Mapping[str, Loose] = field(default_factory=dict)
    """Workload id -> the top owner (a Job, a Deployment, a Volcano Job …), where there is one."""
    kueue_of: Mapping[str, Loose] = field(default_factory=dict)
    """Workload id -> its Kueue Workload."""
    pod_group_of: Mapping[str, Loose] = field(default_factory=dict)
    """Workload id -> its Volcano PodGroup."""

    def kind(self, name: str) -> Mapping[Key, Loose]:
        """Objects of a kind; empty where there are none or the cluster does not serve it."""
        return self.others.get(name, {})
