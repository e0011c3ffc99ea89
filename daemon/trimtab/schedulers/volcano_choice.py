"""How a move of a Volcano workload is carried out, and every reason not to. Pure: judged on one view."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cached_property

import msgspec

from trimtab.model.command import Move, Recommendation, Verb
from trimtab.schedulers.budgets import budgets_of, why_not_evict, why_not_stop
from trimtab.schedulers.objects import Loose, Pod
from trimtab.schedulers.view import View
from trimtab.schedulers.volcano_health import why_controller_silent, why_kubelet_silent, why_scheduler_silent
from trimtab.schedulers.volcano_jobs import (
    FINISHED,
    RESTARTING,
    TASK,
    Ref,
    VolcanoJob,
    pod_name,
    ref_of,
    running_by_task,
)
from trimtab.schedulers.volcano_policies import Harm, on_eviction, on_stop, retries_of
from trimtab.schedulers.volcano_room import (
    Claim,
    Domain,
    claim_of,
    claims_of,
    cluster_total,
    domains,
    hard_tier,
    why_locked_out,
    why_not_together,
    why_queue_closed,
)

JOB_KIND = "vcjob"
HYPER_NODES, POD_GROUPS = "hypernodes.topology.volcano.sh", "podgroups.scheduling.volcano.sh"
LEFT = "left"
"""Name of the taint that keeps pods from coming back to a node that they leave and that nobody cordons."""
SCHEDULER_SECONDS = 2.0
"""One cycle to see a node, one to place a pod."""
BACK_OFF_SECONDS = 10.0
"""A batch/v1 Job makes the replacement of an evicted pod so much later."""


class How(StrEnum):
    """The ways."""

    EVICT = "evict"
    """Single pods, one after the other; their controller makes new ones."""
    ZERO = "zero"
    """All tasks to no replicas, and back: costs no retry, keeps the PodGroup."""
    RESTART = "RestartJob"
    """One Command: everything stops and starts at once, for one retry."""
    ABORT = "AbortJob"
    """One Command to stop; the ResumeJob that brings it back costs a retry."""
    STEER = "steer"
    """Nothing is stopped: pods that wait are let onto their seats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The way for one workload and the reason; `why_not` ends a sentence where there is no way."""

    how: How
    reason: str = ""
    why_not: str | None = None


@dataclass(frozen=True, kw_only=True)
class Facts:
    """What is the same for all moves judged on one view, worked out once: the planner asks about hundreds a beat."""

    view: View
    now: datetime

    @cached_property
    def domains(self) -> tuple[Domain, ...]:
        """HyperNodes, narrowest first."""
        return domains(self.view.kind(HYPER_NODES), self.view.nodes)

    @cached_property
    def total(self) -> Mapping[str, float]:
        """What all nodes together allow."""
        return cluster_total(self.view.nodes.values())

    @cached_property
    def claims(self) -> Mapping[str, tuple[Claim, ...]]:
        """Queue -> what its PodGroups ask for."""
        return claims_of(self.view.kind(POD_GROUPS).values())

    @cached_property
    def dead_part(self) -> str | None:
        """A part of Volcano that shows no life, as the end of a sentence."""
        return why_scheduler_silent(self.view, self.now) or why_controller_silent(self.view, self.now)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One move with what the cluster says about its workload."""

    move: Move
    facts: Facts
    prefix: str

    @property
    def view(self) -> View:
        """The view that it is judged on."""
        return self.facts.view

    @property
    def ref(self) -> Ref:
        """The workload."""
        return ref_of(self.move.workload or "//")

    @property
    def job(self) -> VolcanoJob | None:
        """Its Volcano Job, where it is one."""
        if self.ref.kind != JOB_KIND:
            return None
        found = self.view.kind("jobs.batch.volcano.sh").get(self.ref.text)
        return None if found is None else job_of(found, self.prefix)

    @property
    def pods(self) -> tuple[Pod, ...]:
        """Its pods that are not over."""
        return self.view.pods_of.get(self.move.workload or "", ())

    @property
    def group(self) -> Loose | None:
        """Its PodGroup."""
        return self.view.pod_group_of.get(self.move.workload or "")

    @property
    def stopped(self) -> tuple[Pod, ...]:
        """The pods that the move stops."""
        if not self.move.before:
            return ()
        if self.move.replaced:
            names = {pod_name(one) for one in self.move.replaced}
            return tuple(pod for pod in self.pods if pod.metadata.name in names)
        return self.pods if self.job is not None else leaving(self.move, self.pods)


def job_of(found: Loose, prefix: str) -> VolcanoJob:
    """A Job out of the view, in the shape of the server's answer."""
    metadata = msgspec.to_builtins(found.metadata)
    return VolcanoJob(raw={"metadata": metadata, "spec": found.spec, "status": found.status}, prefix=prefix)


def leaving(move: Move, pods: Sequence[Pod]) -> tuple[Pod, ...]:
    """Pods of a workload without a gang's restart that sit where the move does not want them.

    By node, not by name: what its controller makes anew has another name, and what has moved already stays.
    """
    if move.replaced:
        at = {pod_name(seat.pod): seat.node for seat in move.before}
        names = {pod_name(one) for one in move.replaced}
        return tuple(
            pod for pod in pods if pod.metadata.name in names and pod.spec.node_name == at.get(pod.metadata.name)
        )
    kept = [seat.node for seat in move.after]
    found = []
    for pod in pods:
        if pod.spec.node_name in kept:
            kept.remove(pod.spec.node_name)
        elif pod.spec.node_name in {seat.node for seat in move.before}:
            found.append(pod)
    return tuple(found)


def left_nodes(recommendation: Recommendation, moves: Sequence[Move]) -> list[str]:
    """Nodes that pods of these moves leave for good and that nothing else of the advice closes."""
    writes = recommendation.writes
    closed = {write.node for write in writes if write.verb is Verb.CORDON}
    closed |= {seat.node for write in writes if write.verb is Verb.RESERVE for seat in write.seats}
    left: dict[str, None] = {}
    for move in moves:
        stays = {seat.node for seat in move.after}
        left.update(dict.fromkeys(seat.node for seat in move.before if seat.node not in stays | closed))
    return list(left)


def choose(job: VolcanoJob | None, move: Move, pods: Sequence[Pod], *, resumes: bool = True) -> Choice:
    """The way that costs the job least, by its policies. `resumes`: the same command lets it start again."""
    if not move.before:
        return Choice(how=How.STEER, reason="it waits, and is let onto its seats")
    if job is None:
        return Choice(how=How.EVICT, reason="its controller makes a new pod for each that is evicted")
    if move.replaced:
        return _one_by_one(job, move, pods)
    reaction, retries = on_stop(job.spec), retries_of(job.raw)
    if reaction.harm is Harm.NONE:
        return Choice(how=How.ZERO, reason=f"{reaction.sentence}, so it is scaled to zero and back, at no retry")
    how = How.RESTART if resumes else How.ABORT
    reason = f"{reaction.sentence}, so one {how} stops all of it at once; {retries.sentence}"
    return Choice(how=how, reason=reason, why_not=None if retries.has_room else retries.sentence)


def _one_by_one(job: VolcanoJob, move: Move, pods: Sequence[Pod]) -> Choice:
    running = running_by_task(pods)
    by_name = {pod.metadata.name: pod for pod in pods}
    for text in move.replaced:
        pod = by_name.get(pod_name(text))
        task = pod.metadata.labels.get(TASK, "") if pod else ""
        reaction = on_eviction(job.spec, task, pods_running=running.get(task, 0))
        if reaction.harm is not Harm.NONE:
            why_not = f"evicting {pod_name(text)} would not replace that pod alone: {reaction.sentence}"
            return Choice(how=How.EVICT, why_not=f"{why_not}. Move the whole job instead")
    return Choice(how=How.EVICT, reason="no policy reacts to a lost pod, so each is replaced alone, at no retry")


# --- every reason not to, in the order in which it is said


def why_not(case: Case) -> str | None:
    """Why the move cannot be carried out now, as the end of a sentence; None = it can."""
    return next((text for reason in REASONS if (text := reason(case)) is not None), None)


def why_never(case: Case) -> str | None:
    """The same for what does not pass by waiting."""
    job = case.job
    if job is not None and job.phase in RESTARTING:
        return None
    return next((text for reason in FOR_GOOD if (text := reason(case)) is not None), None)


def _nothing_brings_it_back(case: Case) -> str | None:
    if case.ref.kind == "pod":
        return "it is a bare pod, and nothing makes it anew once it is evicted"
    if case.ref.kind == "podgroup" and any(pod.metadata.owner is None for pod in case.pods):
        return "its pods have no owner that would make them anew"
    return None


def _not_at_work(case: Case) -> str | None:
    job = case.job
    if job is None:
        return None if case.ref.kind != JOB_KIND else "its Volcano Job is not there"
    if job.phase in FINISHED:
        return f"it is {job.phase}, and no command brings it back"
    if job.phase in RESTARTING and case.move.before:
        return f"it is {job.phase} now"
    return None


def _no_way(case: Case) -> str | None:
    return choose(case.job, case.move, case.pods).why_not


def _budget(case: Case) -> str | None:
    """A whole stop does not go through budgets, so they are asked here, as an eviction would ask them."""
    pods = [pod for pod in case.stopped if not pod.is_terminating]
    if case.ref.kind in (JOB_KIND, "job"):
        hopeless = _hopeless_budget(case, pods)
        if hopeless is not None:
            return hopeless
    return why_not_evict(pods, case.view) if _is_eviction(case) else why_not_stop(pods, case.view)


def _hopeless_budget(case: Case, pods: Sequence[Pod]) -> str | None:
    """A budget that needs the owner's scale, which neither kind of Job has: it allows nothing, ever."""
    for pod in pods:
        for budget in budgets_of(pod, case.view):
            spec = budget.spec
            if spec.get("maxUnavailable") is not None or str(spec.get("minAvailable", "")).endswith("%"):
                name, cure = budget.metadata.name, "give it `minAvailable` as a number"
                return f"unevictable by PDB error: {name} counts in a way that a Job does not offer; {cure}"
    return None


def _is_eviction(case: Case) -> bool:
    return case.job is None or bool(case.move.replaced)


def _kubelet(case: Case) -> str | None:
    return why_kubelet_silent(
        dict.fromkeys(pod.spec.node_name for pod in case.stopped if pod.spec.node_name), case.view
    )


def _topology(case: Case) -> str | None:
    group, job = case.group, case.job
    asked = group.spec.get("networkTopology") if group is not None else None
    tier = hard_tier(asked or (job.spec.get("networkTopology") if job else None), case.view.kind(HYPER_NODES))
    nodes = {seat.node for seat in case.move.after}
    return why_not_together(nodes, tier, case.facts.domains) if tier is not None else None


def _queue(case: Case) -> str | None:
    """A job that will have no running pod is enqueued anew: its queue must be open and keep its quota for it."""
    group = case.group
    if group is None or (case.move.before and _keeps_some(case)):
        return None
    name = str(group.spec.get("queue") or "default")
    queue = case.view.kind("queues.scheduling.volcano.sh").get(name)
    closed = why_queue_closed(queue, name)
    if closed is not None or queue is None:
        return closed
    own = claim_of(group)
    others = [one for one in case.facts.claims.get(name, ()) if one.name != own.name]
    if not case.move.before:
        others = [one for one in others if one.phase == "Inqueue"]
    return why_locked_out(queue, own, others, case.facts.total, is_allocated=bool(case.move.before))


def _keeps_some(case: Case) -> bool:
    return _is_eviction(case) and len(case.pods) > 1


def _dead_parts(case: Case) -> str | None:
    return case.facts.dead_part


REASONS: tuple[Callable[[Case], str | None], ...] = (
    _nothing_brings_it_back,
    _not_at_work,
    _no_way,
    _budget,
    _kubelet,
    _topology,
    _queue,
    _dead_parts,
)
FOR_GOOD = (_nothing_brings_it_back, _not_at_work, _no_way)
