"""What a snapshot says about a command: is its room held, is it lost to others, has it come true. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from trimtab.model.cluster import ClusterSnapshot, Workload, WorkloadState
from trimtab.model.command import Command, CommandState, Move, Seat, Verb, Write

HOLDS = (Verb.CORDON, Verb.RESERVE)
"""Verbs that keep room and stop nothing; the others are for `submit`."""


def gpus_by_node(seats: Iterable[Seat]) -> Counter[str]:
    """Node -> GPUs of the seats on it."""
    count: Counter[str] = Counter()
    for seat in seats:
        count[seat.node] += seat.gpus
    return count


def is_held(command: Command, snapshot: ClusterSnapshot) -> bool:
    """Whether everything that the command holds is seen to be held."""
    return all(_is_in_place(write, command, snapshot) for write in command.recommendation.writes if write.verb in HOLDS)


def _is_in_place(write: Write, command: Command, snapshot: ClusterSnapshot) -> bool:
    if write.verb is Verb.CORDON:
        node = snapshot.node_by_name.get(write.node or "")
        return node is not None and node.is_cordoned
    kept: Counter[str] = Counter()
    for reservation in snapshot.reservations:
        if reservation.command == command.mark and reservation.workload == write.workload:
            kept[reservation.node] += reservation.gpus
    return all(kept[node] >= gpus for node, gpus in gpus_by_node(write.seats).items())


def why_off(command: Command, snapshot: ClusterSnapshot) -> tuple[CommandState, str] | None:
    """Why a command that has stopped nothing yet must not go on: its state then, and the sentence."""
    for move in command.recommendation.moves:
        sentence = _why_changed(move, snapshot)
        if sentence is not None:
            return CommandState.ABANDONED, sentence
    sentence = _why_taken(command, snapshot)
    return None if sentence is None else (CommandState.MISSED, sentence)


def _why_changed(move: Move, snapshot: ClusterSnapshot) -> str | None:
    """Whether the workload still is what the plan says: running where it was, or waiting."""
    workload = snapshot.workload_by_id.get(move.workload or "")
    if move.workload is None:
        return None
    if workload is None:
        return f"{move.workload} is gone."
    if not move.before:
        is_waiting = workload.state is WorkloadState.WAITING
        return None if is_waiting else f"{workload.name} is {workload.state} and needs no room any more."
    if not workload.is_running:
        return f"{workload.name} is {workload.state} and does not run where the plan says."
    if held_by_node(workload) != gpus_by_node(move.before):
        return f"{workload.name} runs on other nodes than when the plan was made."
    return None


def _why_taken(command: Command, snapshot: ClusterSnapshot) -> str | None:
    """The first seat that is no longer there, as a sentence."""
    moves = command.recommendation.moves
    ours = {move.workload for move in moves}
    taken: Counter[str] = Counter()
    for workload in snapshot.workloads:
        if workload.id not in ours:
            taken.update(held_by_node(workload))
    taken.update(_kept_for_others(command, snapshot, ours))
    for name, gpus in gpus_by_node(seat for move in moves for seat in move.after).items():
        node = snapshot.node_by_name.get(name)
        if node is None or not node.is_schedulable:
            return f"{name} takes no new work any more."
        room = sum(1 for gpu in node.gpus if gpu.is_usable) - taken[name]
        if room < gpus:
            return f"{gpus} GPUs are needed on {name} and {max(room, 0)} are left: somebody else took the seat."
    return None


def _kept_for_others(command: Command, snapshot: ClusterSnapshot, ours: set[str | None]) -> Counter[str]:
    kept: Counter[str] = Counter()
    for one in snapshot.reservations:
        if one.command != command.mark and one.workload not in ours:
            holder = snapshot.workload_by_id.get(one.workload)
            kept[one.node] += max(one.gpus - (held_by_node(holder)[one.node] if holder else 0), 0)
    return kept


def held_by_node(workload: Workload) -> Counter[str]:
    """Node -> GPUs that the workload holds there."""
    count: Counter[str] = Counter()
    for placement in workload.placements:
        count[placement.node] += len(placement.gpus)
    return count


def is_settled(command: Command, snapshot: ClusterSnapshot) -> bool:
    """Whether the snapshot shows all that the command was for."""
    writes = command.recommendation.writes
    cordoned = all(
        _is_in_place(write, command, snapshot) for write in writes if write.verb is Verb.CORDON and write.lasts
    )
    opened = all(
        node is not None and not node.is_cordoned
        for node in (snapshot.node_by_name.get(write.node or "") for write in writes if write.verb is Verb.UNCORDON)
    )
    return cordoned and opened and all(_has_arrived(move, command, snapshot) for move in command.recommendation.moves)


def _has_arrived(move: Move, command: Command, snapshot: ClusterSnapshot) -> bool:
    """Works on its seats; or elsewhere, but off what it had to leave; or has come to its end by itself."""
    workload = snapshot.workload_by_id.get(move.workload or "")
    if workload is None or workload.state is WorkloadState.FINISHED:
        return True
    if workload.state is not WorkloadState.RUNNING:
        return False
    if not move.before or is_as_planned(move, workload):
        return True
    left = {seat.node for seat in move.before} - {seat.node for seat in move.after}
    if move.replaced:  # the others never stopped, so the workload is no newer than it was
        return len(workload.placements) == workload.pods and left.isdisjoint(workload.nodes)
    since = command.submitted_at
    is_new = since is not None and workload.started_at is not None and workload.started_at >= since
    return is_new and left.isdisjoint(workload.nodes)


def is_as_planned(move: Move, workload: Workload) -> bool:
    """Whether the workload holds exactly the seats of the plan."""
    return held_by_node(workload) == gpus_by_node(move.after)


def lasting_nodes(command: Command) -> tuple[str, ...]:
    """Nodes that the command leaves cordoned once it has settled."""
    return tuple(
        write.node
        for write in command.recommendation.writes
        if write.verb is Verb.CORDON and write.lasts and write.node is not None
    )


def marks(snapshot: ClusterSnapshot, *, prefix: str = "trimtab:R") -> frozenset[str]:
    """Every mark of ours that the cluster bears."""
    seen = [node.cordoned_by for node in snapshot.nodes if node.is_cordoned]
    seen += [workload.suspended_by for workload in snapshot.workloads]
    seen += [reservation.command for reservation in snapshot.reservations]
    return frozenset(mark for mark in seen if mark is not None and mark.startswith(prefix))


def owes(mark: str, command: Command | None, snapshot: ClusterSnapshot) -> bool:
    """Whether what bears this mark must be given back: its command is over, never began, or nobody knows it."""
    if command is None or not (command.state.is_begun or command.state is CommandState.SETTLED):
        return True
    if command.state.is_begun:
        return False
    lasting = lasting_nodes(command)
    stray = any(node.cordoned_by == mark and node.name not in lasting for node in snapshot.nodes if node.is_cordoned)
    stopped = any(workload.suspended_by == mark for workload in snapshot.workloads)
    return stray or stopped or any(one.command == mark for one in snapshot.reservations)
