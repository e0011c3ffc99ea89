"""Why Kueue's adapter does not carry a move out, each reason with its sentence. Pure; explicit lists, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from trimtab.model.command import Move, MoveKind
from trimtab.schedulers.budgets import why_not_evict, why_not_stop
from trimtab.schedulers.kueue_objects import (
    CLUSTER_QUEUES,
    GATE,
    HELD,
    HOSTNAME,
    LOCAL_QUEUES,
    KueueWorkload,
)
from trimtab.schedulers.kueue_scope import Scope
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.objects import Loose, NodeObject, Pod
from trimtab.settings import KubernetesSettings

QUEUES_HELD_MAX = 16
"""More queues than this are not stopped for one move: then it is recommended only."""
SWAP_SECONDS = 11.0
"""From an eviction until the replaced pod runs, at the first time; the Job controller doubles its share of 10 s."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One move of a workload that Kueue runs, and what is known about it."""

    move: Move
    one: KueueWorkload
    scope: Scope
    settings: KubernetesSettings
    can_replace_pod: bool = True
    """Whether its owner declares that it can lose one pod."""
    beneficiary: str | None = None
    """Id of the workload that room is made for, where the whole command is known."""
    mark: str | None = None
    """The command that asks; its own holds do not stand in its way."""

    @property
    def id(self) -> str:
        """Its id in the snapshot."""
        return self.move.workload or ""

    @property
    def name(self) -> str:
        """Its plain name."""
        return self.id.rsplit("/", 1)[-1]

    @property
    def queue(self) -> str:
        """Its ClusterQueue."""
        return self.scope.queue_of(self.one) or ""

    @property
    def is_exact(self) -> bool:
        """Whether our AdmissionCheck can tell it where to sit."""
        return is_exact(self.one, self.settings)

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Its pods that are not over."""
        return self.scope.view.pods_of.get(self.id, ())

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes that it leaves or comes to."""
        return frozenset(seat.node for seat in (*self.move.before, *self.move.after))

    def ahead(self) -> list[KueueWorkload]:
        """Who is served before it and cannot be kept out by a Hold, since it waits in the same LocalQueue."""
        here = self.one.local_queue
        found = [one for one in self.scope.ahead_of(self.one, self.queue) if one.local_queue == here]
        return [one for one in found if self.scope.id_of.get(one.key) != self.beneficiary]


Rule = Callable[[Case], str | None]


def is_exact(one: KueueWorkload, settings: KubernetesSettings) -> bool:
    """Whether our AdmissionCheck stands on a Workload."""
    return bool(settings.admission_check) and one.check(settings.admission_check) is not None


def stopped(case: Case) -> str | None:
    """A person's `active: false` is theirs."""
    return None if case.one.is_active else f"{case.name} is deactivated by {_switcher(case)}"


def _switcher(case: Case) -> str:
    mark = next((hold.mark for hold in read_holds(case.one.annotations, case.settings.prefix)), None)
    return mark or "somebody"


def not_admitted(case: Case) -> str | None:
    """A pending Workload that is deactivated changes no condition: nobody could tell how far it came."""
    if case.one.is_finished:
        return f"{case.name} has finished"
    return None if case.one.is_admitted else f"Kueue has not admitted {case.name}; only what runs is stopped"


def evicting(case: Case) -> str | None:
    """What Kueue moves itself is left to it."""
    if case.one.is_evicted:
        return f"Kueue is evicting {case.name} itself ({case.one.condition('Evicted')[1]})"
    if case.one.unhealthy_nodes:
        return f"Kueue is replacing {', '.join(case.one.unhealthy_nodes)} under {case.name} itself"
    return None


def recovering(case: Case) -> str | None:
    """With waitForPodsReady Kueue evicts by itself what does not recover."""
    if case.one.condition("PodsReady") == ("False", "WaitForRecovery"):
        return f"Kueue waits for the pods of {case.name} to recover, and evicts it itself if they do not"
    return None


def sliced(case: Case) -> str | None:
    """An elastic job's slice is not ours to place."""
    if not case.one.is_sliced:
        return None
    return f"{case.name} is an elastic job in slices; it is better made smaller than moved"


def queue_stopped(case: Case) -> str | None:
    """A person's Hold on the queue would keep out what we stop."""
    is_ours = False
    for kind, key in ((CLUSTER_QUEUES, case.queue), (LOCAL_QUEUES, case.one.local_queue)):
        queue = case.scope.view.kind(kind).get(key)
        if queue is None:
            return f"queue {key or '(none)'} of {case.name} is not there"
        marks = [hold.mark for hold in read_holds(queue.metadata.annotations, case.settings.prefix)]
        if case.mark is not None and case.mark in marks:
            is_ours = True  # and a LocalQueue follows its ClusterQueue
            continue
        policy = str(queue.spec.get("stopPolicy") or "None")
        if policy in HELD:
            by = marks[0] if marks else "somebody"
            return f"queue {key} is on {policy} by {by}; {case.name} would not come back"
        active = queue.conditions.get("Active")
        if active is not None and active.status == "False" and not is_ours:
            return f"queue {key} admits nothing ({active.reason}); {case.name} would not come back"
    return None


def holding_hurts(case: Case) -> str | None:
    """A Hold takes reservations that wait for somebody's check, and breaks a node replacement that is under way."""
    for queue in queues_to_hold(case.scope, [case.queue], case.nodes):
        for other in case.scope.unsettled.get(queue, ()):
            waits = [check.name for check in other.checks if check.state != "Ready"]
            foreign = [name for name in waits if name != case.settings.admission_check]
            if other.has_quota and not other.is_admitted and foreign:
                return f"a Hold on queue {queue} would take the quota of {other.key}, which waits for {foreign[0]}"
            if other.unhealthy_nodes:
                return f"a Hold on queue {queue} would break Kueue's replacement of a node under {other.key}"
    return None


def too_many_queues(case: Case) -> str | None:
    """Where half the cluster would have to stand still, the move is only recommended."""
    found = queues_to_hold(case.scope, [case.queue], case.nodes)
    if len(found) <= QUEUES_HELD_MAX:
        return None
    return (
        f"{len(found)} queues where jobs wait could take the quota or the room of {case.name}; "
        f"more than {QUEUES_HELD_MAX} are not held for one move"
    )


def served_before(case: Case) -> str | None:
    """Who waits for quota in front of it takes the quota that it gives up, whatever is held."""
    free = case.scope.free_quota(case.queue)
    for other in case.ahead():
        room = None if free is None else free + case.one.gpus(case.settings.gpu_resource)
        is_small = room is None or other.gpus(case.settings.gpu_resource) <= room
        if is_small and _waits_for_quota(other):
            return f"{other.key} waits for quota in front of {case.name} in the same queue and would take it"
    return None


def strict_order(case: Case) -> str | None:
    """In a StrictFIFO queue whoever is served later waits behind a head that does not fit."""
    queue = case.scope.view.kind(CLUSTER_QUEUES).get(case.queue)
    if queue is None or queue.spec.get("queueingStrategy") != "StrictFIFO":
        return None
    ahead = case.ahead()
    if case.beneficiary is None and case.move.kind is MoveKind.CONSOLIDATE and case.is_exact:
        ahead = ahead[1:]  # the head may be the one that room is made for; the whole command is asked again
    if case.beneficiary is not None and not case.is_exact:
        head = case.scope.of(case.beneficiary)
        ahead += [head] if head is not None and head.order < case.one.order else []
    if not ahead:
        return None
    return f"{case.queue} is StrictFIFO and {ahead[0].key} would be served before {case.name}, which waits behind"


def budget(case: Case) -> str | None:
    """A deactivation asks no disruption budget: so we do."""
    if case.move.replaced:
        return why_not_evict([pod for pod in case.pods if pod.metadata.name in case.move.replaced], case.scope.view)
    return why_not_stop(case.pods, case.scope.view)


def for_quota(case: Case) -> str | None:
    """A move gives no quota."""
    why = case.one.why_pending
    if case.one.has_quota or "quota" not in why or "topology" in why:
        return None
    return f"{case.name} waits for quota ({why}); a move gives none"


def not_first(case: Case) -> str | None:
    """The room goes to whoever is served first."""
    largest = max((seat.gpus for seat in case.move.after), default=0)
    for other in case.ahead():
        per_pod = other.gpus(case.settings.gpu_resource) // max(other.pods, 1)
        if per_pod <= largest and not _waits_for_quota(other):
            return f"{other.key} is served before {case.name} and would take the room"
    return None


def no_topology(case: Case) -> str | None:
    """Only where Kueue pins pods to nodes can it replace one."""
    if case.one.is_pinned_by_host:
        return None
    return f"Kueue does not choose the nodes of {case.name} one by one, so it cannot replace one pod"


def not_declared(case: Case) -> str | None:
    """Its owner says that it can lose one pod, or it moves whole."""
    return None if case.can_replace_pod else f"{case.name} does not declare that it can lose one pod"


def several_nodes(case: Case) -> str | None:
    """With two nodes excluded under it Kueue evicts the whole gang."""
    left = {seat.node for seat in case.move.before if seat.pod in case.move.replaced}
    if len(left) != 1:
        return f"{len(left)} nodes would be replaced under {case.name} at once; Kueue replaces one"
    other = second_excluded(case.scope, case.id, left)
    if other is not None:
        return f"{other} under {case.name} is excluded too; Kueue would evict the whole gang"
    return None


def unbound(case: Case) -> str | None:
    """A pod that is pinned and not bound fails when its node is excluded."""
    if len(case.pods) < case.one.pods:
        return f"{len(case.pods)} of {case.one.pods} pods of {case.name} are there"
    found = next((pod for pod in case.pods if not pod.spec.node_name), None)
    return f"pod {found.metadata.name} is not bound to its node yet" if found is not None else None


def no_retries(case: Case) -> str | None:
    """Each lost pod counts against backoffLimit unless the Job says otherwise."""
    owner = case.scope.view.owner_of.get(case.id)
    if owner is None or owner.kind not in ("Job", "") or ignores_disruption(owner):
        return None
    limit = owner.spec.get("backoffLimit")
    left = int(6 if limit is None else limit) - int(owner.status.get("failed") or 0)
    if left > len(case.move.replaced):
        return None
    return f"{case.name} has no podFailurePolicy for disruptions and {max(left, 0)} failures left"


def too_slow(case: Case) -> str | None:
    """A hot swap slower than waitForPodsReady's recoveryTimeout costs the whole gang."""
    if case.one.condition("PodsReady")[0] == "":
        return None
    limit = case.settings.kueue_recovery_seconds
    if limit > 2 * SWAP_SECONDS:
        return None
    said = f"after {limit:.0f} s" if limit else "after a time that is not known here"
    return f"Kueue evicts {case.name} whole {said} without a pod; one takes {SWAP_SECONDS:.0f} s at best"


RUNNING: tuple[Rule, ...] = (
    stopped,  # first: who stopped it decides
    sliced,
    not_admitted,
    evicting,
    recovering,
    queue_stopped,  # it would not come back, and no node is replaced
)
"""Asked of whatever runs; alone while it has no seats yet, and so nobody knows whether it moves whole."""
VICTIM: tuple[Rule, ...] = (
    *RUNNING,
    budget,
    strict_order,  # it would wait behind somebody
    served_before,  # somebody would take its quota
    too_many_queues,
    holding_hurts,
)
REPLACED: tuple[Rule, ...] = (
    *RUNNING,
    not_declared,
    no_topology,
    several_nodes,
    unbound,
    no_retries,
    too_slow,
    budget,
)
WAITING: tuple[Rule, ...] = (
    stopped,
    for_quota,
    queue_stopped,
    not_first,
)


def first_no(case: Case) -> tuple[str, str] | None:
    """Name and sentence of the first reason against a move, or None."""
    for rule in _rules_for(case.move):
        why = rule(case)
        if why is not None:
            return f"kueue_{rule.__name__}", f"Not moved: {why}."
    return None


def _rules_for(move: Move) -> tuple[Rule, ...]:
    if not move.before:
        return WAITING
    if not move.after:
        return RUNNING
    return REPLACED if move.replaced else VICTIM


def queues_to_hold(scope: Scope, own: Iterable[str], nodes: Iterable[str]) -> tuple[str, ...]:
    """The workloads' own ClusterQueues, and those where somebody waits who could take the quota or the room."""
    mine = tuple(dict.fromkeys(own))
    return (*mine, *(name for name in scope.rivals(mine, nodes) if scope.pending(name)))


def second_excluded(scope: Scope, workload: str, left: Iterable[str]) -> str | None:
    """A node under a workload, besides `left`, that takes no new pods."""
    for pod in scope.view.pods_of.get(workload, ()):
        node = scope.view.nodes.get(pod.spec.node_name)
        if node is not None and node.metadata.name not in left and _is_excluded(node, pod):
            return node.metadata.name
    return None


def why_cordon_harms(scope: Scope, node: str, moved: Iterable[str]) -> tuple[str, bool] | None:
    """Why a cordon of this node would hurt a workload that is not moved whole, and whether that passes by itself."""
    away = frozenset(moved)
    for workload, pods in scope.view.pods_of.items():
        one = scope.of(workload)
        if one is None or workload in away or not one.is_pinned_by_host:
            continue
        waiting = next((pod for pod in pods if not pod.spec.node_name and _pinned_to(pod, node)), None)
        if waiting is not None:
            return f"pod {waiting.metadata.key} is pinned to {node} and not bound yet: a cordon would fail it", True
        if any(pod.spec.node_name == node for pod in pods):
            other = second_excluded(scope, workload, [node])
            if other is not None:
                why = f"{other} under {workload} is excluded already; with {node} too the next lost pod costs the gang"
                return why, False
    return None


def ignores_disruption(owner: Loose) -> bool:
    """Whether a Job's podFailurePolicy does not count evicted pods as failures."""
    rules = (owner.spec.get("podFailurePolicy") or {}).get("rules") or ()
    return any(
        rule.get("action") == "Ignore"
        and any(one.get("type") == "DisruptionTarget" for one in rule.get("onPodConditions") or ())
        for rule in rules
    )


def _pinned_to(pod: Pod, node: str) -> bool:
    gated = any(gate.get("name") == GATE for gate in pod.spec.scheduling_gates)
    return not gated and pod.spec.node_selector.get(HOSTNAME) == node


def _is_excluded(node: NodeObject, pod: Pod) -> bool:
    ready = next((one.status for one in node.status.conditions if one.type == "Ready"), "True")
    closed = [taint for taint in node.spec.taints if taint.effect in ("NoSchedule", "NoExecute")]
    is_tainted = any(not any(one.covers(taint) for one in pod.spec.tolerations) for taint in closed)
    return node.spec.unschedulable or ready != "True" or is_tainted


def _waits_for_quota(other: KueueWorkload) -> bool:
    """Unknown counts as quota: doubt means no move."""
    return "topology" not in other.why_pending or "quota" in other.why_pending
