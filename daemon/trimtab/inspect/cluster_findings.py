"""What Kubernetes objects say is wrong by themselves: settings that cannot work, GPUs that the plugin lost."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from trimtab.collect.kubectl import KubeNode
from trimtab.collect.kubectl_workloads import KubeQueue, KubeWorkload
from trimtab.inspect.cluster_objects import Objects
from trimtab.inspect.cluster_reading import missing_flavors
from trimtab.inspect.inspection import remark
from trimtab.model.advice import Action, Finding


def cluster_findings(found: Objects) -> Iterator[Finding]:
    """One finding a cause."""
    for node in found.nodes:
        yield from _node(node)
    for queue in found.queues:
        yield from _queue(queue, found.flavors)
    for workload in found.workloads:
        yield from _workload(workload, found.nodes)


def _node(node: KubeNode) -> Iterator[Finding]:
    if node.is_layout_invalid:
        yield remark(
            "mig_layout",
            node.name,
            Action.CONFIG_PROBLEM,
            f"{node.name}: its MIG layout and the device plugin's strategy disagree, so that no GPU is offered",
            advice="Give the plugin strategy `mixed`, or cut all cards alike. The GPUs themselves are not in doubt.",
        )
    else:
        yield from _unhealthy(node)
    bad = [device for device in node.hami if not device.health]
    if bad:
        yield remark(
            "vgpu_health",
            node.name,
            Action.WATCH,
            f"{node.name}: {len(bad)} of {len(node.hami)} cards are registered as unhealthy ({bad[0].uuid})",
            advice="Look in the node's kernel log before a cordon: this says no cause.",
        )
    for condition in node.conditions:
        age = f" for {condition.age_days} days" if condition.age_days is not None else ""
        what = f"XID {condition.xid} on {condition.pci}" if condition.xid else condition.message[:80]
        yield remark(
            "node_condition",
            node.name,
            Action.WATCH,
            f"{node.name}: condition {condition.type} stands at True{age} ({what})",
            advice="Such conditions are never cleared by themselves: confirm with live data before a cordon.",
        )


def _unhealthy(node: KubeNode) -> Iterator[Finding]:
    capacity, allocatable = sum((node.capacity or {}).values()), sum((node.allocatable or {}).values())
    if not node.capacity or node.allocatable is None or allocatable >= capacity:
        return
    if allocatable == 0:
        yield remark(
            "device_plugin",
            node.name,
            Action.CONFIG_PROBLEM,
            f"{node.name}: all {capacity} GPUs are marked unhealthy (allocatable 0), which is not `all in use`",
            advice="Look at the device plugin first (restarted without devices?), then at the kernel log. "
            "No cordon before that.",
        )
        return
    yield remark(
        "device_plugin",
        node.name,
        Action.WATCH,
        f"{node.name}: {capacity - allocatable} of {capacity} GPUs are marked unhealthy by the device plugin",
        advice="The plugin's log and the kernel log say why.",
    )


def _queue(queue: KubeQueue, flavors: list[str]) -> Iterator[Finding]:
    missing = missing_flavors(queue, flavors)
    empty = [quota for quota in queue.quotas if quota.is_empty]
    if not missing and not empty:
        return
    parts = []
    for name in missing:
        nearest = difflib.get_close_matches(name, flavors, n=1)
        parts.append(f"flavor {name} does not exist" + (f" (nearest: {nearest[0]})" if nearest else ""))
    parts += [f"the quota of {quota.resource} in {quota.flavor} is empty" for quota in empty]
    yield remark(
        "queue_settings",
        queue.name,
        Action.CONFIG_PROBLEM,
        f"Queue {queue.name}: {'; '.join(parts)}",
        advice="Correct the queue; until then its quota is not counted on.",
    )


def _workload(workload: KubeWorkload, nodes: list[KubeNode]) -> Iterator[Finding]:
    lacking, level = workload.quota_lacking, workload.topology_lacking
    if lacking is not None:
        resource, limit = lacking
        yield remark(
            "quota",
            workload.key,
            Action.CONFIG_PROBLEM if limit == 0 else Action.NONE,
            f"{workload.key} can never start: quota of {resource} is {limit:g}, whatever GPUs are free",
            advice="Give the queue that quota, or take the resource out of the job. No move helps.",
        )
    if level is not None:
        without = [node.name for node in nodes if level not in node.labels]
        where = f"; {', '.join(without[:3])} lack it" if without else ""
        yield remark(
            "topology_label",
            workload.key,
            Action.CONFIG_PROBLEM,
            f"{workload.key} waits for nodes with label {level}, and none has it{where}",
            advice=f"Label the nodes with {level}, or ask a level that exists. It is not a lack of GPUs.",
        )
