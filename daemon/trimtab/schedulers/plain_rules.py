"""Why a move cannot be carried out in plain Kubernetes, each with its sentence. Pure; one literal list, in order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.model.advice import Subject
from trimtab.model.cluster import ClusterSnapshot, Workload
from trimtab.model.command import Move, Refusal, Seat
from trimtab.schedulers.budgets import why_not_evict, why_not_stop
from trimtab.schedulers.objects import Loose, Pod
from trimtab.schedulers.plain_owners import (
    DEPLOYMENT,
    JOB,
    KINDS,
    REPLICASET,
    Kind,
    address_of,
    ignores_disruption,
)
from trimtab.schedulers.view import View

MIRROR = "kubernetes.io/config.mirror"
QUEUE_NAME = "kueue.x-k8s.io/queue-name"
FAILURES_OF_INDEX = "batch.kubernetes.io/job-index-failure-count"


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A move with all that is known of its workload."""

    move: Move
    snapshot: ClusterSnapshot
    view: View
    workload: Workload
    pods: tuple[Pod, ...]
    owner: Loose | None

    @property
    def kind(self) -> Kind | None:
        """Kind of its owner, where it is one that we write."""
        return KINDS.get(address_of(self.workload.id).kind)

    @property
    def leavers(self) -> tuple[Pod, ...]:
        """The pods that the move takes off."""
        names = {name_of(seat) for seat in leaving_seats(self.move, is_whole=self.is_whole)}
        return tuple(pod for pod in self.pods if pod.metadata.name in names)

    @property
    def is_whole(self) -> bool:
        """Whether all of it stops and starts again."""
        return stops_whole(self.kind, self.move)


def stops_whole(kind: Kind | None, move: Move) -> bool:
    """Whether a move stops an owner of this kind as one; else single pods are evicted."""
    return kind is not None and kind.is_stopped_whole and not move.replaced


def name_of(seat: Seat) -> str:
    """The pod's own name; ids of pods may carry the namespace."""
    return seat.pod.rpartition("/")[2]


def leaving_seats(move: Move, *, is_whole: bool) -> tuple[Seat, ...]:
    """The seats that are given up: all, those of the replaced pods, or those that are elsewhere afterwards."""
    if is_whole:
        return move.before
    if move.replaced:
        return tuple(seat for seat in move.before if seat.pod in move.replaced)
    after = {seat.pod: seat.node for seat in move.after}
    return tuple(seat for seat in move.before if after.get(seat.pod) != seat.node)


def arriving_seats(move: Move, *, is_whole: bool) -> tuple[Seat, ...]:
    """The seats that are taken anew."""
    gone = {seat.pod for seat in leaving_seats(move, is_whole=is_whole)}
    return tuple(seat for seat in move.after if not move.before or seat.pod in gone)


def refusal_of(move: Move, snapshot: ClusterSnapshot, view: View) -> Refusal | None:
    """The first reason against a move; None = it can be carried out."""
    workload = snapshot.workload_by_id.get(move.workload or "")
    if move.workload is None:
        return None
    subject = Subject(cluster=snapshot.cluster, workload=move.workload)
    if workload is None:
        return Refusal(rule="gone", sentence=f"Not moved: {move.workload} is gone.", subject=subject)
    case = Case(
        move=move,
        snapshot=snapshot,
        view=view,
        workload=workload,
        pods=view.pods_of.get(workload.id, ()),
        owner=view.owner_of.get(workload.id),
    )
    for name, rule in RULES:
        sentence = rule(case)
        if sentence is not None:
            return Refusal(rule=name, sentence=f"Not moved: {sentence}", subject=subject)
    return None


def static_pod(case: Case) -> str | None:
    """A kubelet runs it from a file of its node; nothing in the API moves it."""
    fixed = [pod for pod in case.pods if _is_static(pod)]
    if not fixed:
        return None
    node = fixed[0].spec.node_name
    return f"{case.workload.name} is a static pod of node {node}: its kubelet would start it again there."


def _is_static(pod: Pod) -> bool:
    owner = pod.metadata.owner
    return MIRROR in pod.metadata.annotations or (owner is not None and owner.kind == "Node")


def orphan(case: Case) -> str | None:
    """An evicted pod without a controller is lost."""
    if not case.move.before or any(pod.metadata.owner is not None for pod in case.pods):
        return None
    if address_of(case.workload.id).kind not in ("pod", "podgroup"):
        return None
    return f"no controller brings {case.workload.name} back: it is a pod of its own, and evicted it would be lost."


def owner_kind(case: Case) -> str | None:
    """Only kinds whose way of coming back is known are stopped."""
    if not case.move.before or case.kind is not None:
        return None
    kind = address_of(case.workload.id).kind
    if kind == "daemonset":
        return f"{case.workload.name} is a DaemonSet: it belongs on its node and would come back there."
    known = ", ".join(KINDS)
    return f"how a {kind} brings its pods back is not known; plain Kubernetes moves {known}."


def queued_by_kueue(case: Case) -> str | None:
    """What Kueue admits it alone may suspend and resume."""
    owner = case.owner
    if owner is None or QUEUE_NAME not in owner.metadata.labels or not case.move.before:
        return None
    queue = owner.metadata.labels[QUEUE_NAME]
    return f"{case.workload.name} bears Kueue's queue {queue}, and Kueue would undo what is done to it from outside."


def suspended_by_somebody(case: Case) -> str | None:
    """A person's suspension is theirs."""
    if case.owner is None or not case.owner.spec.get("suspend") or case.workload.suspended_by is not None:
        return None
    return f"somebody suspended {case.workload.name}."


def gang(case: Case) -> str | None:
    """Without a queueing controller nobody keeps the ranks of a gang together while one of them is replaced."""
    workload = case.workload
    if case.is_whole or not case.move.before or not workload.is_gang or workload.pods < 2 or workload.can_replace_pod:
        return None
    stays = workload.pods - len(leaving_seats(case.move, is_whole=False))
    return (
        f"{workload.name} is a gang of {workload.pods} pods: with {workload.pods - stays} evicted the other {stays} "
        "lose their peers, and no queueing controller stops and starts them together. It does not declare that a pod "
        "may be replaced (annotation trimtab/replaceable-pods)."
    )


def backoff_limit(case: Case) -> str | None:
    """Each evicted pod counts as a failure of its Job unless the Job says otherwise."""
    if case.kind is not JOB or case.owner is None or case.is_whole or not case.move.before:
        return None
    if ignores_disruption(case.owner):
        return None
    limit = case.owner.spec.get("backoffLimitPerIndex")
    if limit is not None:
        return _limit_of_index(case, int(limit))
    failed, limit = int(case.owner.status.get("failed") or 0), int(case.owner.spec.get("backoffLimit", 6))
    count = failed + len(case.leavers)
    if count <= limit:
        return None
    return (
        f"the Job {case.workload.name} counts an evicted pod as a failure (no podFailurePolicy ignores "
        f"DisruptionTarget): it would have {count} of {limit} and fail for good."
    )


def _limit_of_index(case: Case, limit: int) -> str | None:
    for pod in case.leavers:
        failed = int(pod.metadata.annotations.get(FAILURES_OF_INDEX) or 0) + 1
        if failed > limit:
            return (
                f"the Job {case.workload.name} counts an evicted pod as a failure of its index: {pod.metadata.name} "
                f"would have {failed} of {limit} and its index fail for good."
            )
    return None


def disruption_budget(case: Case) -> str | None:
    """Budgets are asked for whole stops too, though Kubernetes does not ask them there."""
    if not case.move.before:
        return None
    why = why_not_stop(case.pods, case.view) if case.is_whole else why_not_evict(case.leavers, case.view)
    return None if why is None else f"{why}."


def second_seat(case: Case) -> str | None:
    """A Deployment makes the new pod at once, while the old one holds its GPUs: it needs both seats for a time."""
    if case.kind not in (DEPLOYMENT, REPLICASET) or not case.move.before:
        return None
    needed: Counter[str] = Counter()
    for seat in arriving_seats(case.move, is_whole=False):
        needed[seat.node] += seat.gpus
    for node, gpus in needed.items():
        free = len(case.snapshot.free_gpus.get(node, ()))
        if free < gpus:
            return (
                f"a Deployment's new pod is made before the old one is gone: {case.workload.name} needs {gpus} free "
                f"GPUs on {node} now and {free} are free."
            )
    return None


def neighbour_by_topology(case: Case) -> str | None:
    """Kueue counts a node with a taint of ours as failed for the gangs that it has placed there by topology."""
    targets = {seat.node for seat in arriving_seats(case.move, is_whole=case.is_whole)}
    for workload in case.snapshot.workloads:
        if workload.controller != "kueue" or not targets.intersection(workload.nodes):
            continue
        if _is_placed_by_topology(case.view.kueue_of.get(workload.id)):
            node = sorted(targets.intersection(workload.nodes))[0]
            return (
                f"on {node} runs {workload.name}, which Kueue has placed by topology: the taint that would keep the "
                "seat there counts as a failed node for it."
            )
    return None


def _is_placed_by_topology(kueue: Loose | None) -> bool:
    admission = (kueue.status.get("admission") or {}) if kueue is not None else {}
    return any(one.get("topologyAssignment") for one in admission.get("podSetAssignments") or ())


RULES: tuple[tuple[str, Callable[[Case], str | None]], ...] = (
    ("static_pod", static_pod),  # nothing in the API can move it
    ("orphan", orphan),  # evicted is lost
    ("owner_kind", owner_kind),  # unknown ways back
    ("queued_by_kueue", queued_by_kueue),  # two masters
    ("suspended", suspended_by_somebody),  # a person's act
    ("gang", gang),  # ranks that lose their peers
    ("backoff_limit", backoff_limit),  # a failure too many
    ("disruption_budget", disruption_budget),  # the owner's own limit
    ("second_seat", second_seat),  # surge
    ("neighbour_by_topology", neighbour_by_topology),  # harm to a third party
)
