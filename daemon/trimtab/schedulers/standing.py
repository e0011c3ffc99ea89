"""Where a workload stands: by its pods and its owner's own words; why it waits, and since when. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from trimtab.model.cluster import WorkloadState
from trimtab.schedulers.objects import Condition, Loose, Pod
from trimtab.schedulers.owners import DEPLOYMENTS, JOBS, REPLICA_SETS, STATEFUL_SETS
from trimtab.schedulers.pods import is_working, unplaced

QUOTA, PLACEMENT = "quota", "placement"
WORDS_MAX = 240
_ENDS_WELL = ("Complete", "Completed", "Succeeded")
_SCALED = (DEPLOYMENTS, STATEFUL_SETS, REPLICA_SETS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A workload's state, and why it waits."""

    state: WorkloadState
    since: datetime | None = None
    """Since when it waits, or (over) when it ended."""
    reason: str | None = None


def of_pods(pods: Sequence[Pod], *, wanted: int, gpu: str) -> Standing:
    """By the pods alone; those that are over are not among them. `wanted`: how many must work for it to run."""
    alive = [pod for pod in pods if not pod.is_terminating]
    if not alive:
        return Standing(state=WorkloadState.STOPPING if pods else WorkloadState.WAITING)
    if sum(is_working(pod) for pod in alive) >= max(wanted, 1):
        return Standing(state=WorkloadState.RUNNING)
    since, reason = why_unplaced(alive, gpu=gpu)
    is_placed = any(pod.spec.node_name for pod in alive)
    if is_placed:
        return Standing(state=WorkloadState.STARTING, reason=reason, since=since)
    return Standing(state=WorkloadState.WAITING, since=since or _made_at(alive), reason=reason)


def why_unplaced(pods: Sequence[Pod], *, gpu: str) -> tuple[datetime | None, str | None]:
    """Since when and why pods have no node: `placement` where GPUs are short on the nodes, else in its words."""
    found = [one for pod in pods if (one := unplaced(pod)) is not None]
    if not found:
        return None, None
    moments = [at for _, _, at in found if at is not None]
    since = min(moments, default=None)
    if any(f"Insufficient {gpu}" in message for _, message, _ in found):
        return since, PLACEMENT
    reason, message, _ = found[0]
    return since, words(message or reason)


def words(text: str) -> str | None:
    """A scheduler's own words, cut to a length that a table can show."""
    text = " ".join(text.split())
    return (f"{text[: WORDS_MAX - 1]}…" if len(text) > WORDS_MAX else text) or None


def _made_at(pods: Sequence[Pod]) -> datetime | None:
    return min((pod.metadata.creation_timestamp for pod in pods if pod.metadata.creation_timestamp), default=None)


def of_owner(plural: str, item: Loose | None, pods: Sequence[Pod], *, wanted: int, gpu: str) -> Standing:
    """By a plain owner: what it says of its end and of its suspension, else by its pods."""
    if item is None:
        return of_pods(pods, wanted=wanted, gpu=gpu)
    end = ended(item)
    if end is not None and not pods:
        return end
    if is_stopped(plural, item):
        return Standing(state=WorkloadState.STOPPING if pods else WorkloadState.SUSPENDED)
    standing = of_pods(pods, wanted=wanted, gpu=gpu)
    if end is not None:
        return Standing(state=WorkloadState.STOPPING)
    if not pods:
        return Standing(
            state=WorkloadState.WAITING, since=_waits_since(item), reason="its controller has made no pods yet"
        )
    return standing


def ended(item: Loose) -> Standing | None:
    """How a Job, JobSet or training job ended; None where it has not."""
    for one in conditions(item):
        if one.status == "True" and one.type in (*_ENDS_WELL, "Failed"):
            state = WorkloadState.FAILED if one.type == "Failed" else WorkloadState.FINISHED
            return Standing(state=state, since=one.last_transition_time)
    return None


def is_stopped(plural: str, item: Loose) -> bool:
    """Whether its spec keeps it from running: suspended, or scaled to nothing."""
    if plural in _SCALED:
        return item.spec.get("replicas") == 0
    return item.spec.get("suspend") is True or (plural == JOBS and item.spec.get("parallelism") == 0)


def _waits_since(item: Loose) -> datetime | None:
    resumed = [one for one in conditions(item) if one.type == "Suspended" and one.status == "False"]
    return (resumed[0].last_transition_time if resumed else None) or item.metadata.creation_timestamp


def conditions(item: Loose) -> Sequence[Condition]:
    """Its conditions; none where what it calls so is something else."""
    found = item.status.get("conditions")
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        return ()
    return tuple(_condition(one) for one in found)


def _condition(raw: dict[str, object]) -> Condition:
    return Condition(
        type=str(raw.get("type") or ""),
        status=str(raw.get("status") or ""),
        reason=str(raw.get("reason") or ""),
        message=str(raw.get("message") or ""),
        last_transition_time=moment(raw.get("lastTransitionTime")),
    )


def moment(text: object) -> datetime | None:
    """A moment in an object that is kept as plain JSON; None where it is none."""
    if not isinstance(text, str):
        return None
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return None
