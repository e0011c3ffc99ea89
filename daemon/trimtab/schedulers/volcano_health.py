"""Whether Volcano's parts are alive, as far as the cluster shows it, and whether pods can end. Pure but for Leases."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from trimtab.errors import SchedulerError
from trimtab.schedulers.kubernetes import Api, Resource
from trimtab.schedulers.objects import NodeObject, Pod
from trimtab.schedulers.view import View

LEASES = Resource(group="coordination.k8s.io", version="v1", plural="leases")
NAMESPACE = "volcano-system"
SCHEDULER_LEASE, CONTROLLER_LEASE = "volcano", "vc-controller-manager"
GROUP = "scheduling.k8s.io/group-name"
SILENT_SECONDS = 15.0
"""Volcano looks at every pod once a second; one without a word for so long is looked at by nobody."""
LEASE_SECONDS = 60.0
"""A Lease is renewed every few seconds; clocks of two machines may differ."""
UNREACHABLE = "node.kubernetes.io/unreachable"


def why_scheduler_silent(view: View, now: datetime) -> str | None:
    """A waiting pod of Volcano's that no scheduler has said a word about, as a sentence, or None."""
    for key, pod in view.pods.items():
        made = pod.metadata.creation_timestamp
        if made is None or not _waits_for_volcano(pod) or (now - made).total_seconds() < SILENT_SECONDS:
            continue
        if all(one.type != "PodScheduled" for one in pod.status.conditions):
            return f"Volcano's scheduler seems to be down: it has said nothing of pod {key}"
    return None


def _waits_for_volcano(pod: Pod) -> bool:
    is_waiting = not pod.spec.node_name and not pod.is_terminating and not pod.is_over
    return is_waiting and GROUP in pod.metadata.annotations and not pod.spec.scheduling_gates


def why_controller_silent(view: View, now: datetime) -> str | None:
    """A Command that nobody takes, or a new job that nobody has looked at, as a sentence, or None."""
    for key, one in view.kind("commands.bus.volcano.sh").items():
        made = one.metadata.creation_timestamp
        if made is not None and (now - made).total_seconds() >= SILENT_SECONDS:
            return f"Volcano's controller-manager seems to be down: it does not take Command {key}"
    for key, one in view.kind("jobs.batch.volcano.sh").items():
        made = one.metadata.creation_timestamp
        is_new = made is not None and (now - made).total_seconds() >= SILENT_SECONDS
        if is_new and not (one.status.get("state") or {}).get("phase"):
            return f"Volcano's controller-manager seems to be down: it has not looked at vcjob {key}"
    return None


def why_lease_old(api: Api, now: datetime) -> str | None:
    """A Lease of Volcano's that its holder has not renewed, as a sentence; None where it is fresh or not to be read."""
    for name, part in ((SCHEDULER_LEASE, "scheduler"), (CONTROLLER_LEASE, "controller-manager")):
        try:
            spec = api.get(LEASES.path(NAMESPACE, name)).get("spec") or {}
            renewed = datetime.fromisoformat(str(spec.get("renewTime") or ""))
        except (SchedulerError, ValueError):
            continue
        age_seconds = (now - renewed).total_seconds()
        if spec.get("holderIdentity") and age_seconds > LEASE_SECONDS:
            return f"Volcano's {part} seems to be down: its Lease was renewed {age_seconds:.0f} s ago"
    return None


def why_kubelet_silent(nodes: Iterable[str], view: View) -> str | None:
    """A node whose pods cannot end, since its kubelet does not answer: as a sentence with the cure, or None."""
    for name in nodes:
        node = view.nodes.get(name)
        if node is None:
            return f"there is no node {name} any more"
        if not _answers(node):
            cure = "its pods never end, and Volcano waits for their names. Delete them by force first"
            return f"the kubelet of {name} is silent: {cure}"
    return None


def _answers(node: NodeObject) -> bool:
    is_ready = any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)
    return is_ready and all(one.key != UNREACHABLE for one in node.spec.taints)
