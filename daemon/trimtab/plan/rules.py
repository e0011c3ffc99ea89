"""Every reason not to make a move, by name and with its sentence. Pure; one literal list, in order."""

from __future__ import annotations

from collections.abc import Callable

from trimtab.model.advice import Subject
from trimtab.model.cluster import ClusterSnapshot, Workload, WorkloadState
from trimtab.model.command import Move, MoveKind, Refusal
from trimtab.plan.phrase import moment_text

Rule = Callable[[Move, ClusterSnapshot], Refusal | None]

VOLUNTARY = (MoveKind.MIGRATE, MoveKind.CONSOLIDATE)
"""Moves of work that could go on where it is; a drain brings back what a fault stopped."""


def _refuse(rule: str, sentence: str, move: Move, snapshot: ClusterSnapshot) -> Refusal:
    subject = Subject(
        cluster=snapshot.cluster, node=move.node if move.workload is None else None, workload=move.workload
    )
    return Refusal(rule=rule, sentence=f"Not moved: {sentence}", subject=subject)


def _workload(move: Move, snapshot: ClusterSnapshot) -> Workload | None:
    return snapshot.workload_by_id.get(move.workload) if move.workload else None


def is_victim(move: Move) -> bool:
    """Whether the move stops something that holds GPUs."""
    return move.workload is not None and bool(move.before)


def not_running(move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
    """Only what holds GPUs is moved; work that is still starting is moved for a fault alone."""
    workload = _workload(move, snapshot)
    if not is_victim(move):
        return None
    is_at_work = workload is not None and workload.state is WorkloadState.RUNNING
    if is_at_work or (workload is not None and workload.is_running and move.kind not in VOLUNTARY):
        return None
    state = workload.state if workload else "gone"
    return _refuse("not_running", f"{move.workload} is {state}.", move, snapshot)


def under_way(move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
    """What another command has reserved seats for, or anybody has stopped, is left alone."""
    workload = _workload(move, snapshot)
    if workload is None:
        return None
    mark = command_at_work(workload, snapshot)
    if mark:
        return _refuse("under_way", f"{mark.removeprefix('trimtab:')} has {workload.name} in hand.", move, snapshot)
    if workload.state is WorkloadState.SUSPENDED:
        return _refuse("suspended", f"{workload.name} was stopped by somebody else.", move, snapshot)
    return None


def command_at_work(workload: Workload, snapshot: ClusterSnapshot) -> str | None:
    """The mark of the command that has this workload in hand, or None."""
    if workload.suspended_by:
        return workload.suspended_by
    return next((kept.command for kept in snapshot.reservations if kept.workload == workload.id), None)


def opted_out(move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
    """The owner's opt-out stands."""
    workload = _workload(move, snapshot)
    if not is_victim(move) or workload is None or not workload.wishes.is_opted_out:
        return None
    mark = f" ({workload.wishes.opt_out_reason})" if workload.wishes.opt_out_reason else ""
    return _refuse("opted_out", f"the owner of {workload.name} does not want it moved{mark}.", move, snapshot)


def fixed(move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
    """What nothing brings back is not stopped."""
    workload = _workload(move, snapshot)
    if not is_victim(move) or workload is None or workload.why_fixed is None:
        return None
    return _refuse("fixed", f"{workload.name} {workload.why_fixed}.", move, snapshot)


def not_before(move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
    """The owner's "not before" stands while the work goes on."""
    workload = _workload(move, snapshot)
    wish = workload.wishes.not_before if workload else None
    if move.kind not in VOLUNTARY or not is_victim(move) or workload is None or wish is None:
        return None
    if wish <= snapshot.taken_at:
        return None
    return _refuse(
        "not_before", f"the owner of {workload.name} asked for no move before {moment_text(wish)}.", move, snapshot
    )


def not_preemptible(move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
    """Work that may not be interrupted is not interrupted; bringing back what a fault stopped is no interruption."""
    workload = _workload(move, snapshot)
    if move.kind not in VOLUNTARY or not is_victim(move) or workload is None or workload.is_preemptible:
        return None
    return _refuse("not_preemptible", f"{workload.name} may not be interrupted.", move, snapshot)


def unknown_work(move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
    """Where nobody knows since when it runs, nobody knows what a move would lose."""
    workload = _workload(move, snapshot)
    if move.kind not in VOLUNTARY or not is_victim(move) or workload is None:
        return None
    if workload.started_at or workload.checkpoint.last_at:
        return None
    return _refuse(
        "unknown_work", f"neither start nor checkpoint of {workload.name} is known, so its loss is not.", move, snapshot
    )


def other_mover(move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
    """Where another mover is at work we stand back."""
    names = [move.node, *(seat.node for seat in (*move.before, *move.after))]
    for name in names:
        node = snapshot.node_by_name.get(name) if name else None
        if node is not None and node.other_mover:
            return _refuse("other_mover", f"{node.other_mover} is at work on {node.name}.", move, snapshot)
    return None


RULES: tuple[Rule, ...] = (
    not_running,  # first: the others speak of something that is there
    under_way,  # two commands on one workload would undo each other
    fixed,  # nobody would bring it back
    opted_out,  # the owner's word comes before ours
    not_before,
    not_preemptible,
    other_mover,  # two movers on one node: neither knows what the other counts on
    unknown_work,  # doubt means no move
)


def first_refusal(move: Move, snapshot: ClusterSnapshot, rules: tuple[Rule, ...] = RULES) -> Refusal | None:
    """The first no of the rules, or None."""
    return next((refusal for rule in rules if (refusal := rule(move, snapshot)) is not None), None)
