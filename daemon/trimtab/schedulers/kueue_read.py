"""What a Kueue Workload says of its job: where it stands, why it waits, where it may go; and the queues. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from trimtab.model.cluster import Queue, WorkloadState
from trimtab.schedulers.kueue_objects import HELD, cohort_of
from trimtab.schedulers.kueue_objects import flavors_of as offered_by
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.objects import Condition, Loose, Pod
from trimtab.schedulers.pods import quantity
from trimtab.schedulers.standing import PLACEMENT, QUOTA, Standing, conditions, of_pods, words

CLUSTER_QUEUES, LOCAL_QUEUES = "clusterqueues.kueue.x-k8s.io", "localqueues.kueue.x-k8s.io"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
WORKLOAD_ANNOTATION = "kueue.x-k8s.io/workload"
ELASTIC_JOB = "kueue.x-k8s.io/elastic-job"
SOMEBODY = "somebody"
_REQUIRED = (
    ("required", "kueue.x-k8s.io/podset-required-topology"),
    ("podSetSliceRequiredTopology", "kueue.x-k8s.io/podset-slice-required-topology"),
)
_REASONS: Mapping[str, str] = {
    "TopologyPlacementFailed": PLACEMENT,
    "WaitingForQuota": QUOTA,
    "ExceedsMaxQuota": QUOTA,
}
"""Reasons that newer versions give (gate UnadmittedWorkloadsObservability)."""
_OF_PLACEMENT = ("allows to fit only", "doesn't allow to fit any", "no topology domains at level")
_OF_QUOTA = ("insufficient quota", "insufficient unused quota", "> maximum capacity", "exceeds the quota")


def by_type(item: Loose) -> Mapping[str, Condition]:
    """Conditions by type."""
    return {one.type: one for one in conditions(item)}


def is_true(found: Mapping[str, Condition], kind: str) -> bool:
    """Whether a condition is there and True."""
    return kind in found and found[kind].status == "True"


def standing_of(item: Loose, pods: Sequence[Pod], *, wanted: int, gpu: str) -> Standing:
    """Where the job stands by its Workload and its pods."""
    found = by_type(item)
    if is_true(found, "Finished") and not pods:
        end = found["Finished"]
        state = WorkloadState.FAILED if end.reason == "Failed" else WorkloadState.FINISHED
        return Standing(state=state, since=end.last_transition_time)
    if item.spec.get("active") is False:
        return Standing(state=WorkloadState.STOPPING if pods else WorkloadState.SUSPENDED)
    if is_true(found, "Admitted") and not is_true(found, "Evicted"):
        return _admitted(item, pods, found, wanted=wanted, gpu=gpu)
    if pods or is_true(found, "Finished"):
        return Standing(state=WorkloadState.STOPPING)
    return Standing(state=WorkloadState.WAITING, since=_waits_since(item, found), reason=why_waiting(item, found))


def _admitted(item: Loose, pods: Sequence[Pod], found: Mapping[str, Condition], *, wanted: int, gpu: str) -> Standing:
    """Admitted: its pods are made, or run, or (without topology) wait for a node that no quota gives."""
    if not pods:
        return Standing(state=WorkloadState.STARTING)
    standing = of_pods(pods, wanted=wanted, gpu=gpu)
    if standing.state is WorkloadState.WAITING and standing.reason is None:
        return Standing(state=WorkloadState.STARTING)
    if standing.state is WorkloadState.WAITING and standing.since is None:
        since = found["Admitted"].last_transition_time or item.metadata.creation_timestamp
        return Standing(state=standing.state, since=since, reason=standing.reason)
    return standing


def _waits_since(item: Loose, found: Mapping[str, Condition]) -> datetime | None:
    """Since it was made, or thrown out, whichever is later."""
    moments = [item.metadata.creation_timestamp]
    if "QuotaReserved" in found and found["QuotaReserved"].status == "False":
        moments.append(found["QuotaReserved"].last_transition_time)
    known = [moment for moment in moments if moment is not None]
    return max(known, default=None)


def why_waiting(item: Loose, found: Mapping[str, Condition]) -> str | None:
    """`placement`, `quota`, or Kueue's own words led by "quota:", since no move helps what its queue does not admit.

    None while Kueue has said nothing yet.
    """
    reserved = found.get("QuotaReserved")
    if reserved is None:
        return None
    if reserved.status == "True":
        open_checks = [
            str(one.get("name")) for one in item.status.get("admissionChecks") or () if one.get("state") != "Ready"
        ]
        return f"quota: reserved, and not admitted before its checks are ready ({', '.join(open_checks)})"
    named = _REASONS.get(reserved.reason)
    return named or _by_message(reserved.message)


def _by_message(message: str) -> str | None:
    is_placement = any(text in message for text in _OF_PLACEMENT)
    is_quota = any(text in message for text in _OF_QUOTA)
    if is_placement != is_quota:
        return PLACEMENT if is_placement else QUOTA
    text = words(message)
    return None if text is None else text if "quota" in text.lower() else f"quota: {text}"


def required_levels(item: Loose) -> tuple[str, ...]:
    """Node labels within one value of which all pods of a pod set, or of a slice of it, must be."""
    levels: list[str] = []
    for pod_set in item.spec.get("podSets") or ():
        request = pod_set.get("topologyRequest") or {}
        annotations = ((pod_set.get("template") or {}).get("metadata") or {}).get("annotations") or {}
        asked = [request.get(field) or annotations.get(key) for field, key in _REQUIRED]
        levels += [str(level) for level in asked if level]
    return tuple(levels)


def flavors_of(item: Loose, gpu: str) -> tuple[str, ...]:
    """Flavors that an admitted Workload's GPUs come from."""
    admitted = (item.status.get("admission") or {}).get("podSetAssignments") or ()
    names = (str((one.get("flavors") or {}).get(gpu) or "") for one in admitted)
    return tuple(dict.fromkeys(name for name in names if name))


def flavors_of_queue(queue: Loose | None, gpu: str) -> tuple[str, ...]:
    """Flavors by which a ClusterQueue gives out GPUs."""
    return () if queue is None else offered_by(queue, gpu)


def queue_of(item: Loose, local_queues: Mapping[str, Loose]) -> str | None:
    """The ClusterQueue that it is in."""
    admitted = (item.status.get("admission") or {}).get("clusterQueue")
    if admitted:
        return str(admitted)
    local = local_queues.get(f"{item.metadata.namespace}/{item.spec.get('queueName') or ''}")
    found = local.spec.get("clusterQueue") if local is not None else None
    return str(found) if found else None


def local_queue_of(item: Loose) -> str | None:
    """The LocalQueue by name, where its ClusterQueue is not known."""
    return str(item.spec["queueName"]) if item.spec.get("queueName") else None


def newest(items: Iterable[Loose]) -> Loose:
    """Of several Workloads of one job (slices, or one left over) the one that speaks for it."""

    def order(item: Loose) -> tuple[bool, bool, str]:
        found = by_type(item)
        made = item.metadata.creation_timestamp
        return not is_true(found, "Finished"), is_true(found, "Admitted"), made.isoformat() if made else ""

    return max(items, key=order)


def queues(others: Mapping[str, Mapping[str, Loose]], *, gpu: str, prefix: str) -> tuple[Queue, ...]:
    """The ClusterQueues with their quota of GPUs."""
    return tuple(
        Queue(
            name=item.metadata.name,
            gpus_quota=_quota(item, gpu),
            cohort=cohort_of(item),
            held_by=_held_by(item, prefix),
        )
        for _, item in sorted(others.get(CLUSTER_QUEUES, {}).items())
    )


def _quota(item: Loose, gpu: str) -> int | None:
    found = [
        quantity(resource.get("nominalQuota") or 0)
        for group in item.spec.get("resourceGroups") or ()
        for flavor in group.get("flavors") or ()
        for resource in flavor.get("resources") or ()
        if resource.get("name") == gpu
    ]
    return int(sum(found)) if found else None


def _held_by(item: Loose, prefix: str) -> str | None:
    if item.spec.get("stopPolicy") not in HELD:
        return None
    holds = read_holds(item.metadata.annotations, prefix)
    return holds[0].mark if holds else SOMEBODY
