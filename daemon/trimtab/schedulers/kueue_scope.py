"""Who could take quota or room that a move frees: queues of the same cohort or on the same nodes, and who waits there.

Made of one snapshot, once, whoever asks. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from trimtab.schedulers.kueue_objects import (
    CLUSTER_QUEUES,
    COHORTS,
    FLAVORS,
    LOCAL_QUEUES,
    WORKLOADS,
    KueueWorkload,
    cohort_of,
    flavors_of,
)
from trimtab.schedulers.objects import Loose
from trimtab.schedulers.pods import quantity
from trimtab.schedulers.view import View


@dataclass(frozen=True, kw_only=True)
class Scope:
    """Kueue's queues and what waits in them, by one snapshot."""

    view: View
    gpu_resource: str

    @cached_property
    def workloads(self) -> Mapping[str, KueueWorkload]:
        """Kueue Workloads by `namespace/name`."""
        return {key: KueueWorkload.of(one) for key, one in self.view.kind(WORKLOADS).items()}

    @cached_property
    def id_of(self) -> Mapping[str, str]:
        """`namespace/name` of a Kueue Workload -> id of the workload of the snapshot."""
        return {one.metadata.key: workload for workload, one in self.view.kueue_of.items()}

    def of(self, workload: str) -> KueueWorkload | None:
        """The Kueue Workload of a workload of the snapshot."""
        found = self.view.kueue_of.get(workload)
        return None if found is None else KueueWorkload.of(found)

    def queue_of(self, workload: KueueWorkload) -> str | None:
        """The ClusterQueue that a Workload is in, or would be."""
        local = self.view.kind(LOCAL_QUEUES).get(workload.local_queue)
        return workload.cluster_queue or (str(local.spec.get("clusterQueue")) if local is not None else None)

    @cached_property
    def by_queue(self) -> Mapping[str, tuple[KueueWorkload, ...]]:
        """ClusterQueue -> its Workloads that are not over, in the order in which they are served."""
        found: dict[str, list[KueueWorkload]] = {}
        for one in self.workloads.values():
            queue = self.queue_of(one)
            if queue and not one.is_finished:
                found.setdefault(queue, []).append(one)
        return {queue: tuple(sorted(all_, key=lambda one: one.order)) for queue, all_ in found.items()}

    @cached_property
    def _pending(self) -> Mapping[str, tuple[KueueWorkload, ...]]:
        return {queue: tuple(one for one in all_ if one.is_pending) for queue, all_ in self.by_queue.items()}

    def pending(self, queue: str) -> tuple[KueueWorkload, ...]:
        """Who waits in a ClusterQueue, in order."""
        return self._pending.get(queue, ())

    @cached_property
    def unsettled(self) -> Mapping[str, tuple[KueueWorkload, ...]]:
        """ClusterQueue -> its Workloads that a Hold would hurt: reserved and not admitted, or with a lost node."""
        found = {
            queue: tuple(one for one in all_ if one.unhealthy_nodes or (one.has_quota and not one.is_admitted))
            for queue, all_ in self.by_queue.items()
        }
        return {queue: some for queue, some in found.items() if some}

    @cached_property
    def _roots(self) -> Mapping[str, str]:
        """ClusterQueue -> the cohort at the root of its tree."""
        parents = {name: str(one.spec.get("parentName") or "") for name, one in self.view.kind(COHORTS).items()}
        roots = {}
        for name, queue in self.view.kind(CLUSTER_QUEUES).items():
            cohort, seen = cohort_of(queue), set[str]()
            while cohort and parents.get(cohort) and cohort not in seen:
                seen.add(cohort)
                cohort = parents[cohort]
            if cohort:
                roots[name] = cohort
        return roots

    @cached_property
    def _reach(self) -> Mapping[str, frozenset[str]]:
        """ClusterQueue -> nodes that its flavors of GPUs reach."""
        of_flavor = {name: self._nodes_like(one) for name, one in self.view.kind(FLAVORS).items()}
        return {
            name: frozenset[str]().union(*(of_flavor.get(one, ()) for one in flavors_of(queue, self.gpu_resource)))
            for name, queue in self.view.kind(CLUSTER_QUEUES).items()
        }

    def _nodes_like(self, flavor: Loose) -> frozenset[str]:
        wanted = (flavor.spec.get("nodeLabels") or {}).items()
        return frozenset(name for name, node in self.view.nodes.items() if wanted <= node.metadata.labels.items())

    @cached_property
    def _led_to(self) -> frozenset[str]:
        """ClusterQueues that some LocalQueue leads to."""
        return frozenset(str(one.spec.get("clusterQueue")) for one in self.view.kind(LOCAL_QUEUES).values())

    def rivals(self, own: Iterable[str], nodes: Iterable[str]) -> tuple[str, ...]:
        """ClusterQueues, `own` left out, whose jobs could take the quota (same cohort) or the room on these nodes.

        One that no LocalQueue leads to admits nobody.
        """
        mine, wanted = set(own), frozenset(nodes)
        cohorts = {self._roots[name] for name in mine if name in self._roots}
        return tuple(
            name
            for name, reach in sorted(self._reach.items())
            if name not in mine
            and name in self._led_to
            and (self._roots.get(name) in cohorts or not wanted.isdisjoint(reach))
        )

    def ahead_of(self, one: KueueWorkload, queue: str) -> tuple[KueueWorkload, ...]:
        """Who waits in the same ClusterQueue and is served before this Workload, once it waits there too."""
        return tuple(other for other in self.pending(queue) if other.key != one.key and other.order < one.order)

    @cached_property
    def _used(self) -> Mapping[str, int]:
        return {
            queue: sum(one.gpus(self.gpu_resource) for one in all_ if one.has_quota)
            for queue, all_ in self.by_queue.items()
        }

    def free_quota(self, queue: str) -> int | None:
        """GPUs of a ClusterQueue's own quota that nobody has reserved; None where it has none in GPUs."""
        found = self.view.kind(CLUSTER_QUEUES).get(queue)
        if found is None:
            return None
        quota = [
            int(quantity(resource.get("nominalQuota") or 0))
            for group in found.spec.get("resourceGroups") or ()
            for flavor in group.get("flavors") or ()
            for resource in flavor.get("resources") or ()
            if resource.get("name") == self.gpu_resource
        ]
        return sum(quota) - self._used.get(queue, 0) if quota else None
