"""Kubernetes objects as the facts that `inspect --json` gives. null = cannot be told from this file."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.collect.kubectl import GPU, KubeNode, KubePod
from trimtab.collect.kubectl_workloads import KubeQueue, KubeWorkload
from trimtab.collect.vendor_pages import number
from trimtab.inspect.cluster_objects import Objects
from trimtab.model.cluster import ClusterSnapshot

Facts = dict[str, object]


def cluster_reading(found: Objects, snapshot: ClusterSnapshot) -> Facts:
    """All facts, by kind and name; kinds that the file lacks are left out."""
    reading: Facts = {}
    if found.nodes:
        reading["nodes"] = {node.name: node_facts(node, found, snapshot) for node in found.nodes}
    shown = [pod for pod in found.pods if pod.gpus or pod.vgpus]
    if shown:
        reading["pods"] = {pod.key: pod_facts(pod) for pod in shown}
    pending = [pod for pod in shown if not pod.holds_gpus and pod.phase in ("Pending", None) and found.nodes]
    if pending:
        reading["pending"] = {pod.name: {"gpus": pod.gpus, "priority": pod.priority} for pod in pending}
    if found.queues:
        reading["queues"] = {queue.name: queue_facts(queue, found.flavors) for queue in found.queues}
    if found.workloads:
        reading["workloads"] = {one.key: workload_facts(one) for one in found.workloads}
        reading |= _fit(found)
    if found.flavors:
        reading["flavors"] = list(found.flavors)
    return reading | {"counts": _counts(found)} | _gpus(found)


def _gpus(found: Objects) -> Facts:
    known = [node.gpus for node in found.nodes if node.gpus is not None]
    if known:
        return {"gpus": sum(known)}
    asked = [pod.gpus for pod in found.pods if pod.gpus] or [one.gpus for one in found.workloads if one.gpus]
    return {"gpus": sum(asked)} if asked and not found.nodes else {}


def node_facts(node: KubeNode, found: Objects, snapshot: ClusterSnapshot) -> Facts:
    """One node."""
    facts: Facts = {
        "gpus": node.gpus,
        "capacity": node.capacity,
        "allocatable": node.allocatable,
        "free": _free(node, found, snapshot),
    }
    extra: Facts = {"slots": node.slots, "slices": node.slices, "slice_memory_mib": node.slice_memory_mib}
    facts |= {key: value for key, value in extra.items() if value is not None}
    if node.slices is not None:
        facts["whole_gpus_usable"] = 0
    if node.hami:
        facts["healthy"] = sum(device.health for device in node.hami)
        facts["devices"] = [
            {"uuid": one.uuid, "count": one.count, "mem_mib": one.mem_mib, "numa": one.numa, "health": one.health}
            for one in node.hami
        ]
    for condition in node.conditions:
        facts["condition"] = {
            "type": condition.type,
            "status": condition.status,
            "xid": condition.xid,
            "pci": condition.pci,
            "age_days": condition.age_days,
        }
    return facts | _held(node, found)


def _free(node: KubeNode, found: Objects, snapshot: ClusterSnapshot) -> int | None:
    if node.capacity and sum(node.capacity.values()) and node.allocatable and not sum(node.allocatable.values()):
        return 0
    if not found.pods or node.slices is not None or node.slots is not None or node.allocatable is None:
        return None
    held = sum(pod.gpus for pod in found.pods if pod.node == node.name and pod.holds_gpus)
    return max(node.allocatable_gpus - held, 0) if node.name in snapshot.node_by_name else None


def _held(node: KubeNode, found: Objects) -> Facts:
    """Who holds GPUs here, told by priority against the highest that waits."""
    here = [pod for pod in found.pods if pod.node == node.name and pod.holds_gpus and pod.gpus]
    if not here:
        return {}
    waiting = [pod.priority for pod in found.pods if pod.gpus and not pod.holds_gpus and pod.phase in ("Pending", None)]
    used: Facts = {"used": sum(pod.gpus for pod in here)}
    if waiting:
        used["high"] = sum(pod.priority >= max(waiting) for pod in here)
        used["low"] = sum(pod.priority < max(waiting) for pod in here)
    return used


def pod_facts(pod: KubePod) -> Facts:
    """One pod that asks accelerators."""
    facts: Facts = {
        "phase": pod.phase,
        "node": pod.node,
        "queue": pod.queue,
        "vgpus": pod.vgpus or None,
        "mem_mib": pod.vgpu_memory_mib,
        "mem_percent": pod.vgpu_memory_percent,
        "cores": pod.vgpu_cores,
        "mode": pod.vgpu_mode,
        "min_distinct_cards": pod.distinct_cards or None,
    }
    facts = {key: value for key, value in facts.items() if value is not None}
    if not pod.vgpus:
        facts |= {"effective_gpus": pod.gpus, "used_gpus": pod.gpus_used}
    if pod.annotated:
        uuid, memory, cores = pod.annotated
        facts |= {"annotated_uuid": uuid, "mem_mib": memory, "cores": cores}
    if pod.annotated or pod.phase in ("Failed", "Succeeded"):
        facts["holds_gpu"] = pod.holds_gpus
    return facts


def queue_facts(queue: KubeQueue, flavors: list[str]) -> Facts:
    """One queue: what it may use of each resource, and by flavor where there are several."""
    facts: Facts = {key.removeprefix("nvidia.com/") if "total-" in key else key: number(value)
                    for key, value in queue.caps.items()}  # fmt: skip
    if queue.kind == "ClusterQueue":
        nominal: Facts = {quota.resource: _quota(quota.nominal) for quota in queue.quotas}
        if len(queue.flavors) > 1:
            nominal = {quota.flavor: _quota(quota.nominal) for quota in queue.quotas if quota.resource == GPU}
        facts |= {"nominal": nominal, "used": {key: number(value) for key, value in queue.used.items()}}
        facts["missing_flavors"] = missing_flavors(queue, flavors)
    return facts


def _quota(nominal: float | None) -> float | int | None:
    return number(nominal)


def missing_flavors(queue: KubeQueue, flavors: list[str]) -> list[str]:
    """Flavors that it refers to and the file does not have; nothing is said where the file has none at all."""
    return [name for name in queue.flavors if flavors and name not in flavors]


def workload_facts(one: KubeWorkload) -> Facts:
    """One workload; only what applies to its kind."""
    facts: Facts = {
        "queue": one.queue,
        "pods": one.pods,
        "gang": one.gang,
        "gpus": one.gpus,
        "on_evict": one.on_evict,
        "cluster_queue": one.cluster_queue,
        "admitted_gpus": one.admitted_gpus,
        "reclaimable": one.reclaimable_pods,
        "in_use_gpus": one.in_use_gpus,
        "gpus_min": one.gpus_min,
        "gpus_max": one.gpus_max,
        "gpus_now": one.gpus if one.gpus_max is not None else None,
        "cpu": number(one.amounts.get("cpu")),
        "blocked_by": _blocked_by(one),
    }
    if one.resource is not None:
        facts |= {"resource": one.resource, "devices": one.gpus, "replicas": one.pods}
    if any("total-" in key for key in one.amounts):
        facts["usage"] = {key.removeprefix("nvidia.com/") if "total-" in key else key: number(value)
                          for key, value in one.amounts.items()}  # fmt: skip
    return {key: value for key, value in facts.items() if value is not None}


def _blocked_by(one: KubeWorkload) -> str | None:
    if one.quota_lacking:
        return one.quota_lacking[0]
    return f"label {one.topology_lacking}" if one.topology_lacking else None


def _fit(found: Objects) -> Facts:
    """Whether a move could help a blocked one (never: quota and labels are no room), and whether one more fits."""
    facts: Facts = {}
    if any(_blocked_by(one) for one in found.workloads):
        facts["movable"] = False
    queues = {queue.name: queue for queue in found.queues}
    fits = [_twice_fits(one, queues[one.queue]) for one in found.workloads if one.queue in queues and one.amounts]
    return facts | ({"second_fits": all(fits)} if fits else {})


def _twice_fits(one: KubeWorkload, queue: KubeQueue) -> bool:
    return all(2 * value <= queue.caps[key] for key, value in one.amounts.items() if key in queue.caps)


def _counts(found: Objects) -> Mapping[str, int]:
    """Totals over the file."""
    nodes, pods, workloads, queues = found.nodes, found.pods, found.workloads, found.queues
    usage = [one.amounts for one in workloads]
    allocatable = [sum(node.allocatable.values()) for node in nodes if node.allocatable is not None]
    gpus = sum(one.gpus for one in workloads) or sum(node.gpus or 0 for node in nodes) or sum(pod.gpus for pod in pods)
    is_shared = any("nvidia.com/total-gpucores" in amounts for amounts in usage)
    return {
        "nodes": len(nodes),
        "pods": sum(one.pods for one in workloads) or len(pods),
        "gpus": gpus,
        "devices": sum(one.gpus for one in workloads),
        "max_gpus": sum(one.gpus_max or one.gpus for one in workloads),
        "vgpus": sum(pod.vgpus for pod in pods) or (sum(one.gpus for one in workloads) if is_shared else 0),
        "mem_mib": sum(pod.vgpu_memory_mib or 0 for pod in pods)
        or sum(int(amounts.get("nvidia.com/total-gpumem", 0)) for amounts in usage),
        "cores": sum(int(amounts.get("nvidia.com/total-gpucores", 0)) for amounts in usage),
        "held": sum(pod.gpus + pod.vgpus for pod in pods if pod.holds_gpus),
        "slots": sum(node.slots or 0 for node in nodes),
        "slices": sum(node.slices or 0 for node in nodes),
        "allocatable": sum(allocatable),
        "healthy": sum(device.health for node in nodes for device in node.hami) or sum(allocatable),
        "queue_gpus": int(sum(queue.caps.get(GPU, 0) for queue in queues)),
        "quota_gpus": int(sum(queue.caps.get(GPU, 0) for queue in queues)),
        "used": int(sum(queue.used.get(GPU, 0) for queue in queues)),
        "gang": sum(one.gang or 0 for one in workloads),
        "admitted": sum(one.admitted_gpus or 0 for one in workloads),
        "in_use": sum(one.in_use_gpus or 0 for one in workloads),
        "flavors": len(found.flavors),
        "missing": sum(len(missing_flavors(queue, found.flavors)) for queue in queues),
        "age_days": max((one.age_days or 0 for node in nodes for one in node.conditions), default=0),
    }
