"""What a snapshot says about a command before its stop, and whose marks the cluster bears. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from trimtab.model.cluster import ClusterSnapshot, Node, Workload, WorkloadState
from trimtab.model.command import Command, CommandState, Move, Seat, Verb, Write, read_mark

HOLDS = (Verb.CORDON, Verb.TAINT_DEVICE, Verb.RESERVE)
"""Verbs that keep room and stop nothing; the others are for `submit`."""


def gpus_by_node(seats: Iterable[Seat]) -> Counter[str]:
    """Node -> GPUs of the seats on it."""
    count: Counter[str] = Counter()
    for seat in seats:
        count[seat.node] += seat.gpus
    return count


def is_held(command: Command, snapshot: ClusterSnapshot) -> bool:
    """Whether everything that the command holds is seen to be held."""
    return all(is_in_place(write, command, snapshot) for write in command.recommendation.writes if write.verb in HOLDS)


def is_in_place(write: Write, command: Command, snapshot: ClusterSnapshot) -> bool:
    """Whether the snapshot shows a cordon or a reservation."""
    if write.verb is Verb.CORDON:
        node = snapshot.node_by_name.get(write.node or "")
        return node is not None and node.is_cordoned
    if write.verb in (Verb.TAINT_DEVICE, Verb.UNTAINT_DEVICE):
        node = snapshot.node_by_name.get(write.node or "")
        marks = {gpu.uuid: gpu.tainted_by for gpu in node.gpus} if node is not None else {}
        is_tainted = marks.get(write.gpu or "") is not None
        return is_tainted if write.verb is Verb.TAINT_DEVICE else not is_tainted
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
    sentence = why_taken(command, snapshot, command.recommendation.moves)
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


def why_taken(command: Command, snapshot: ClusterSnapshot, wanted: Iterable[Move]) -> str | None:
    """The first seat of these moves that is no longer there, as a sentence. `wanted` is some of the command's moves."""
    ours = {move.workload for move in command.recommendation.moves}
    taken: Counter[str] = Counter()
    for workload in snapshot.workloads:
        if workload.id not in ours:
            taken.update(held_by_node(workload))
    taken.update(_kept_for_others(command, snapshot, ours))
    for name, gpus in gpus_by_node(seat for move in wanted for seat in move.after).items():
        node = snapshot.node_by_name.get(name)
        if node is None or _is_shut(node, command):
            return f"{name} takes no new work any more."
        room = sum(1 for gpu in node.gpus if gpu.is_usable) - taken[name]
        if room < gpus:
            return f"{gpus} GPUs are needed on {name} and {max(room, 0)} are left: somebody else took the seat."
    return None


def _is_shut(node: Node, command: Command) -> bool:
    """Whether its seats can't be used; a cordon of the command's own keeps others out, not its own work."""
    return not node.is_ready or (node.is_cordoned and node.cordoned_by != command.mark)


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


def marks(snapshot: ClusterSnapshot) -> Mapping[str, tuple[str, ...]]:
    """Every mark of a trimtab that the cluster bears, of whatever ledger, and what bears it, in words."""
    seen = [(node.cordoned_by, f"cordon of {node.name}") for node in snapshot.nodes if node.is_cordoned]
    seen += [(workload.suspended_by, f"{workload.id} stopped") for workload in snapshot.workloads]
    seen += [(kept.command, f"{kept.gpus} GPUs of {kept.node} for {kept.workload}") for kept in snapshot.reservations]
    seen += [(queue.held_by, f"hold of queue {queue.name}") for queue in snapshot.queues]
    seen += [(one.mark, one.what) for one in snapshot.held]
    found: dict[str, dict[str, None]] = {}
    for mark, what in seen:
        if mark is not None and read_mark(mark) is not None:
            found.setdefault(mark, {})[what] = None
    return {mark: tuple(found[mark]) for mark in sorted(found)}


def unexplained(snapshot: ClusterSnapshot) -> tuple[str, ...]:
    """What is under our names and says no command: an annotation that cannot be read, a taint that nobody signed."""
    return tuple(dict.fromkeys(one.what for one in snapshot.held if read_mark(one.mark) is None))


def is_ours(mark: str, ledger: str, command: Command | None) -> bool:
    """Whether a mark is this ledger's: it names it, or it is of the time before ids and is a known command's own."""
    read = read_mark(mark)
    if read is None:
        return False
    return (read[0] == ledger and bool(ledger)) or (command is not None and command.mark == mark)


def _lasts(command: Command) -> bool:
    """Whether what is to last stays, though it keeps no node out: the notes of a gang that runs on its seats."""
    return command.state is CommandState.SETTLED and command.given_back_at is None


def owes(mark: str, command: Command | None, snapshot: ClusterSnapshot) -> bool:
    """Whether what bears this mark of ours must be given back: its command is over, never began, or nobody knows it.

    Of one that settled, what lasts stays: it may serve the next move of the same work.
    """
    if command is None:
        return True
    if command.state.is_begun:
        return False
    if not command.is_holding and not _lasts(command):
        return True
    lasting = command.lasting_nodes
    return (
        any(node.is_cordoned and node.cordoned_by == mark and node.name not in lasting for node in snapshot.nodes)
        or any(workload.suspended_by == mark for workload in snapshot.workloads)
        or any(kept.command == mark for kept in snapshot.reservations)
        or any(queue.held_by == mark for queue in snapshot.queues)
        or any(one.mark == mark and not one.lasts for one in snapshot.held)
    )
