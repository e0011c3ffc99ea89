"""What a snapshot says about a command after its stop: has it come true, or did somebody else take its seats. Pure.

Settled: what it was for is seen. Missed: it can no longer come true, or has come to rest otherwise than planned.

- A **drain** is for getting work off a bad node: it has settled as soon as everything runs off that node, wherever.
- Any other move has a destination: it has settled when what was stopped runs on the seats of the plan, and what room
  was made for runs at all.
- Missed **at once**: a workload runs again on a node that it was to leave, or it does not run and its seats are taken
  or shut. What was held is then given back, so that it can go where it finds room.
- Missed **at rest**: everything runs, but not on the seats of the plan.
- Missed **in the end** (`settle_seconds_max`): all that was stopped runs again, and what room was made for does not.
  Where something that was stopped does not run either, the command is abandoned instead.
"""

from __future__ import annotations

from trimtab.issue.look import gpus_by_node, held_by_node, is_in_place, why_taken
from trimtab.model.cluster import ClusterSnapshot, Workload, WorkloadState
from trimtab.model.command import Command, Move, RecommendationKind, Verb, Write


def is_settled(command: Command, snapshot: ClusterSnapshot) -> bool:
    """Whether the snapshot shows all that the command was for."""
    for write in command.recommendation.writes:
        is_lasting = write.verb is Verb.CORDON and write.lasts
        is_device = write.verb in (Verb.TAINT_DEVICE, Verb.UNTAINT_DEVICE)
        if (is_lasting or is_device) and not _is_gone(write, snapshot) and not is_in_place(write, command, snapshot):
            return False
        if write.verb is Verb.UNCORDON and not _is_lifted(write, snapshot):
            return False
    return all(_has_come_true(move, command, snapshot) for move in command.recommendation.moves)


def why_missed(command: Command, snapshot: ClusterSnapshot) -> str | None:
    """Why a submitted command that has not settled can no longer settle, as a sentence; None = it still may."""
    moves = command.recommendation.moves
    sentences = (_why_back(move, command, snapshot) for move in moves)
    lost = next((said for said in sentences if said), None) or _why_without_seat(command, snapshot)
    if lost is not None:
        return lost
    if moves and all(is_at_rest(move, command, snapshot) for move in moves):
        names = [name for move in moves if (name := astray(move, snapshot)) is not None]
        return f"{', '.join(names)} runs elsewhere than planned." if names else None
    return None


def why_missed_in_the_end(command: Command, snapshot: ClusterSnapshot) -> str | None:
    """After the longest time: whether only what room was made for does not run, as a sentence; else None."""
    stopped = [move for move in command.recommendation.moves if move.before]
    waiting = [move for move in command.recommendation.moves if not move.before]
    if not stopped or not all(is_at_rest(move, command, snapshot) for move in stopped):
        return None
    late = [move.workload or "" for move in waiting if not is_at_rest(move, command, snapshot)]
    known = [snapshot.workload_by_id[name].name for name in late if name in snapshot.workload_by_id]
    return f"{', '.join(known)} did not start in the room that was made." if known else None


def is_at_rest(move: Move, command: Command, snapshot: ClusterSnapshot) -> bool:
    """Whether a workload runs anew, wherever, or has come to its end by itself."""
    workload = snapshot.workload_by_id.get(move.workload or "")
    if workload is None or workload.state is WorkloadState.FINISHED:
        return True
    if workload.state is not WorkloadState.RUNNING:
        return False
    if move.before and len(workload.placements) < workload.pods:
        return False  # a Deployment runs with pods missing, too
    return not move.before or is_as_planned(move, workload) or _is_new(move, command, workload)


def is_as_planned(move: Move, workload: Workload) -> bool:
    """Whether the workload holds exactly the seats of the plan."""
    return held_by_node(workload) == gpus_by_node(move.after)


def astray(move: Move, snapshot: ClusterSnapshot) -> str | None:
    """The name of a workload that runs, but not on the seats of the plan."""
    workload = snapshot.workload_by_id.get(move.workload or "")
    if workload is None or workload.state is WorkloadState.FINISHED or is_as_planned(move, workload):
        return None
    return workload.name


def seats_hit(move: Move, snapshot: ClusterSnapshot) -> int:
    """How many seats of the plan the workload's pods really sit on, counted by node; all of them where it is over."""
    workload = snapshot.workload_by_id.get(move.workload or "")
    if workload is None or workload.state is WorkloadState.FINISHED:
        return len(move.after)
    left = [place.node for place in workload.placements]
    hit = 0
    for seat in move.after:
        if seat.node in left:
            left.remove(seat.node)
            hit += 1
    return hit


def _has_come_true(move: Move, command: Command, snapshot: ClusterSnapshot) -> bool:
    if not is_at_rest(move, command, snapshot):
        return False
    workload = snapshot.workload_by_id.get(move.workload or "")
    if workload is None or workload.state is WorkloadState.FINISHED or not move.before:
        return True
    if command.recommendation.kind is RecommendationKind.DRAIN:
        return _is_off(move, workload)
    return is_as_planned(move, workload)


def _why_back(move: Move, command: Command, snapshot: ClusterSnapshot) -> str | None:
    """That a workload runs again where it was to leave."""
    workload = snapshot.workload_by_id.get(move.workload or "")
    if workload is None or not workload.is_running or not move.before or _is_off(move, workload):
        return None
    is_back = _is_new(move, command, workload)
    return f"{workload.name} runs again on a node that it was to leave." if is_back else None


def _why_without_seat(command: Command, snapshot: ClusterSnapshot) -> str | None:
    """That what waits can't get the seats of the plan, all of it at once."""
    waiting = [
        move
        for move in command.recommendation.moves
        if (known := snapshot.workload_by_id.get(move.workload or "")) and known.state is WorkloadState.WAITING
    ]
    taken = why_taken(command, snapshot, waiting)
    if taken is None:
        return None
    names = [snapshot.workload_by_id[move.workload or ""].name for move in waiting]
    return f"{' and '.join(names)} {'waits' if len(names) == 1 else 'wait'}: {taken}"


def _is_off(move: Move, workload: Workload) -> bool:
    """Whether it sits on none of the nodes that it was to leave."""
    left = {seat.node for seat in move.before} - {seat.node for seat in move.after}
    return left.isdisjoint(workload.nodes)


def _is_new(move: Move, command: Command, workload: Workload) -> bool:
    """Whether what runs is what was started after the stop, and no longer what was to be stopped."""
    if move.replaced:
        # Most controllers give the new pod a new name, a StatefulSet the same one: then only its node tells.
        pods = {place.pod for place in workload.placements}
        is_whole = len(workload.placements) >= len(move.before)
        return is_whole and (pods.isdisjoint(move.replaced) or _is_off(move, workload))
    since = command.submitted_at
    if since is None or workload.started_at is None:
        return False
    # Kubernetes tells moments in whole seconds: within that of the stop, only the node tells old from new.
    return workload.started_at >= since or (
        workload.started_at >= since.replace(microsecond=0) and _is_off(move, workload)
    )


def _is_gone(write: Write, snapshot: ClusterSnapshot) -> bool:
    """Whether its node was deleted meanwhile: nothing lands there any more, which is what it was closed for."""
    return write.node not in snapshot.node_by_name


def _is_lifted(write: Write, snapshot: ClusterSnapshot) -> bool:
    """Open, gone, or closed by somebody else: what was ours to lift is lifted."""
    node = snapshot.node_by_name.get(write.node or "")
    if node is None or not node.is_cordoned:
        return True
    return write.lifts is not None and node.cordoned_by != write.lifts
