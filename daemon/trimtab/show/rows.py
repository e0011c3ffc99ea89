"""The rows beside the fleet picture: who waits and why, what to do, what is not seen. Pure; used by board.py."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.clock import age_text, count_text
from trimtab.model.advice import OpenFinding, Severity
from trimtab.model.board import CommandRow, JobRow, NodeRow, Step
from trimtab.model.cluster import ClusterSnapshot, Workload, WorkloadState
from trimtab.model.command import Command, CommandState, Mode, Outcome, RecommendationKind, Refusal, Verb, Write
from trimtab.model.standing import Standing

NAMED_SILENT_NODES_MAX = 3
"""More silent nodes than this are counted, not listed."""

_MODES = tuple(Mode)
_SEVERITIES = tuple(Severity)
"""From what disturbs nobody to what wakes people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RowInput:
    """What the rows are made from."""

    at: datetime
    snapshot: ClusterSnapshot | None
    commands: Sequence[Command]
    outcomes: Mapping[int, Outcome]
    records: Mapping[str, str]
    refusals: Sequence[Refusal]
    mode: Mode
    rule_modes: Mapping[str, Mode]
    notice_seconds: float = 0.0
    """How long before a move its owner is told."""
    breakers: Sequence[Standing] = ()
    """Rules that are stopped: what rests on them waits."""


def command_rows(given: RowInput) -> tuple[CommandRow, ...]:
    """The commands with what people need beside them, in the order given."""
    return tuple(_command_row(given, command) for command in given.commands)


def urgent_first(commands: Iterable[Command], findings: Iterable[OpenFinding]) -> tuple[Command, ...]:
    """Live ones first, by the worst severity of what they rest on, then by net GPU-hours; those over by number."""
    severity = {item.id: _SEVERITIES.index(item.finding.severity) for item in findings}

    def key(command: Command) -> tuple[bool, int, float, int]:
        if not command.is_live:
            return True, 0, 0.0, -command.id
        recommendation = command.recommendation
        worst = max((severity.get(number, 0) for number in recommendation.findings), default=-1)
        return False, -worst, recommendation.cost.gpu_hours - recommendation.gain.gpu_hours, -command.id

    return tuple(sorted(commands, key=key))


def mode_of(rule: str, *, mode: Mode, rule_modes: Mapping[str, Mode]) -> Mode:
    """The mode of one rule: its own, capped by the daemon's."""
    return min(mode, rule_modes.get(rule, mode), key=_MODES.index)


def steps_of(command: Command) -> tuple[Step, ...]:
    """Each write of the command with whether it is done, read off the command's state."""
    return tuple(Step(text=write.text, state=_step_state(write, command)) for write in command.recommendation.writes)


_KEPT = (Verb.CORDON, Verb.RESERVE, Verb.TAINT_DEVICE)
"""Done first, to keep new work off."""
_LASTING_WHILE = (Verb.RESUME, Verb.REPLACE, Verb.UNCORDON, Verb.UNTAINT_DEVICE)
"""Under way until the command has settled."""


def _step_state(write: Write, command: Command) -> str:
    if command.state.is_over:
        return _state_when_over(write, command)
    is_hold = write.verb in _KEPT
    if command.state is CommandState.SUBMITTED:
        return "doing" if write.verb in _LASTING_WHILE else "done"
    if command.state in (CommandState.HELD, CommandState.CONFIRMED):
        if is_hold:
            return "done"
        return "doing" if command.state is CommandState.CONFIRMED else "waiting"
    return "doing" if command.state is CommandState.APPROVED and is_hold else "waiting"


def _state_when_over(write: Write, command: Command) -> str:
    if write.lasts and command.is_holding:
        return "done"
    if command.state is CommandState.SETTLED:
        is_back = write.verb is Verb.RESERVE or (write.lasts and command.given_back_at is not None)
        return "given back" if is_back else "done"
    was_undone = command.state in (CommandState.ABANDONED, CommandState.MISSED, CommandState.UNDONE)
    has_begun = command.attempts > 0 or (was_undone and command.approved_at is not None)
    return "given back" if has_begun else "waiting"


def _command_row(given: RowInput, command: Command) -> CommandRow:
    recommendation = command.recommendation
    return CommandRow(
        command=command,
        name=command.name,
        fingerprint=recommendation.fingerprint,
        is_approvable=_is_approvable(given, command),
        steps=steps_of(command),
        refusal=_refusal_of(given, command),
        outcome=given.outcomes.get(command.id),
        record=given.records.get(recommendation.rule, ""),
        notice_until=_notice_until(given, command),
    )


def _notice_until(given: RowInput, command: Command) -> datetime | None:
    if command.noticed_at is None or command.state is not CommandState.APPROVED:
        return None
    until = command.noticed_at + timedelta(seconds=given.notice_seconds)
    return until if until > given.at else None


def _is_approvable(given: RowInput, command: Command) -> bool:
    recommendation = command.recommendation
    mode = mode_of(recommendation.rule, mode=given.mode, rule_modes=given.rule_modes)
    return (
        command.state is CommandState.PROPOSED
        and not recommendation.kind.is_advice_only
        and bool(recommendation.writes)
        and (recommendation.expires_at > given.at or _is_snoozed(command, given.at))
        and mode in (Mode.APPROVE, Mode.ACT)
    )


def _is_snoozed(command: Command, at: datetime) -> bool:
    return command.snoozed_until is not None and command.snoozed_until > at


def _refusal_of(given: RowInput, command: Command) -> Refusal | None:
    recommendation = command.recommendation
    if command.state is CommandState.REFUSED:
        return Refusal(
            rule=recommendation.rule,
            sentence=command.reason,
            subject=recommendation.subject,
            purpose=recommendation.purpose,
        )
    if command.state.is_over:
        return None
    said = next((refusal for refusal in given.refusals if refusal.purpose == recommendation.purpose), None)
    return said or _stopped_by(given, command)


def _stopped_by(given: RowInput, command: Command) -> Refusal | None:
    """The breaker that keeps it from beginning, if one does; what opens nodes is never stopped."""
    recommendation = command.recommendation
    if command.state.is_begun or recommendation.kind is RecommendationKind.UNCORDON:
        return None
    causes = recommendation.causes or (recommendation.rule,)
    breaker = next((one for one in given.breakers if one.name in causes), None)
    if breaker is None:
        return None
    sentence = f"{command.name} waits: {breaker.why}"
    return Refusal(rule="breaker", sentence=sentence, subject=recommendation.subject, purpose=recommendation.purpose)


def job_rows(given: RowInput, nodes: Sequence[NodeRow]) -> tuple[JobRow, ...]:
    """Workloads that wait (longest first), then those that run; without a scheduler, holders that reports name."""
    if given.snapshot is None:
        return _jobs_of_reports(nodes)
    waiting = given.snapshot.waiting
    gone = (WorkloadState.WAITING, WorkloadState.FINISHED)
    others = [workload for workload in given.snapshot.workloads if workload.state not in gone]
    room = _Room(given.snapshot)
    by_workload = _command_by_workload(given.commands)
    ordered = (*waiting, *sorted(others, key=lambda workload: (-workload.gpus, workload.id)))
    return tuple(_job_row(workload, room, by_workload.get(workload.id)) for workload in ordered)


def _job_row(workload: Workload, room: _Room, recommendation: int | None) -> JobRow:
    return JobRow(
        id=workload.id,
        name=workload.name,
        state=workload.state.value,
        pods=workload.pods,
        gpus_per_pod=workload.gpus_per_pod,
        queue=workload.queue,
        nodes=workload.nodes,
        gpus=tuple(gpu for placement in workload.placements for gpu in placement.gpus),
        priority=workload.priority,
        waiting_since=workload.waiting_since,
        why=why_it_waits(workload, room),
        recommendation=recommendation,
        checkpoint_at=workload.checkpoint.last_at,
    )


class _Room:
    """Free GPUs by node as a waiting workload finds them: spares and what is reserved for others taken off."""

    def __init__(self, snapshot: ClusterSnapshot) -> None:
        self.snapshot = snapshot
        spares = [node for node in snapshot.nodes if node.is_spare and node.name in snapshot.free_gpus]
        self.spares_count = len(spares)
        self._free = {
            name: len(gpus) for name, gpus in snapshot.free_gpus.items() if not snapshot.node_by_name[name].is_spare
        }
        self.held_by_queue: dict[str, int] = defaultdict(int)
        for workload in snapshot.workloads:
            if workload.queue and workload.placements:
                self.held_by_queue[workload.queue] += workload.gpus

    def free_for(self, workload: Workload) -> Mapping[str, int]:
        """Node -> GPUs that it may take there."""
        if not self.snapshot.reservations:
            return self._free
        free = dict(self._free)
        for reservation in self.snapshot.reservations:
            if reservation.workload != workload.id and reservation.node in free:
                free[reservation.node] = max(free[reservation.node] - reservation.gpus, 0)
        return free


def why_it_waits(workload: Workload, room: _Room) -> str:
    """Why a workload has no GPUs, with the numbers that decide; empty for one that runs."""
    if workload.state is WorkloadState.SUSPENDED:
        return f"stopped by {workload.suspended_by}" if workload.suspended_by else "suspended"
    if workload.state is not WorkloadState.WAITING:
        return ""
    if workload.waiting_reason == "quota":
        return _why_quota(workload, room)
    if workload.waiting_reason in (None, "", "placement"):
        return _why_placement(workload, room)
    return workload.waiting_reason or ""


def _why_quota(workload: Workload, room: _Room) -> str:
    quota = next((queue.gpus_quota for queue in room.snapshot.queues if queue.name == workload.queue), None)
    if quota is None:
        return f"quota: queue {workload.queue or 'unknown'} is full"
    held = room.held_by_queue.get(workload.queue or "", 0)
    return f"quota: queue {workload.queue} holds {held} of {count_text(quota, 'GPU')}, {workload.gpus} needed"


def _why_placement(workload: Workload, room: _Room) -> str:
    free, size = room.free_for(workload), workload.gpus_per_pod
    total, most = sum(free.values()), max(free.values(), default=0)
    seats = sum(count // size for count in free.values()) if size else workload.pods
    count = room.spares_count
    spares = f" ({count} {'spare' if count == 1 else 'spares'} kept for faults)" if count else ""
    if total < workload.gpus:
        return f"room: {count_text(total, 'GPU')} free, {workload.gpus} needed{spares}"
    if most < size:
        return f"placement: {total} free, never {size} together{spares}"
    if seats < workload.pods:
        return (
            f"placement: {total} free, seats for {seats} of {workload.pods} pods of {count_text(size, 'GPU')}{spares}"
        )
    return "there is room: its scheduler has not started it yet"


def _command_by_workload(commands: Sequence[Command]) -> Mapping[str, int]:
    """Workload -> the live command that makes room for it or moves it; the former counts first."""
    live = [command for command in commands if command.is_live]
    moved = {move.workload: command.id for command in live for move in command.recommendation.moves if move.workload}
    helped = {
        command.recommendation.for_workload: command.id for command in live if command.recommendation.for_workload
    }
    return {**moved, **helped}


def _jobs_of_reports(nodes: Sequence[NodeRow]) -> tuple[JobRow, ...]:
    held: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for node in nodes:
        for cell in node.cells:
            if cell.workload:
                held[cell.workload].append((node.name, cell.uuid))
    return tuple(
        JobRow(
            id=holder,
            name=holder.rpartition("/")[2],
            state=WorkloadState.RUNNING.value,
            pods=1,
            gpus_per_pod=len(pairs),
            queue=None,
            nodes=tuple(dict.fromkeys(node for node, _ in pairs)),
            gpus=tuple(uuid for _, uuid in pairs),
        )
        for holder, pairs in sorted(held.items())
    )


def blind_sentences(nodes: Sequence[NodeRow], *, at: datetime, is_told_why: bool) -> tuple[str, ...]:
    """What is not seen: silent nodes, by whole racks where they are, and a scheduler, if nobody has named it."""
    said = (
        [] if is_told_why else ["No scheduler is read: who holds a GPU is what the reports say, and nothing is moved."]
    )
    racks: dict[str | None, list[NodeRow]] = defaultdict(list)
    for node in nodes:
        racks[node.rack].append(node)
    single: list[NodeRow] = []
    for rack, members in racks.items():
        silent = [node for node in members if node.is_silent]
        if rack is not None and len(silent) == len(members) > 1:
            said.append(f"No report from rack {rack} ({len(silent)} nodes) {_since(silent, at)}.")
        else:
            single += silent
    if len(single) > NAMED_SILENT_NODES_MAX:
        said.append(f"No report from {len(single)} nodes ({single[0].name} and others) {_since(single, at)}.")
    else:
        said += [f"No report from {node.name} {_since([node], at)}." for node in single]
    return tuple(said)


def _since(silent: Sequence[NodeRow], at: datetime) -> str:
    """For how long the last of them has been silent: at least that long for all."""
    heard = [node.last_report_at for node in silent if node.last_report_at]
    if not heard:
        return "since this daemon started"
    return f"for {age_text((at - max(heard)).total_seconds())}"
