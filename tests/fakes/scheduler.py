"""A scheduler and its cluster in memory: takes writes by mark, once each; gives back by mark; fails once on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace

from tests.fakes.clock import FakeClock
from tests.fakes.ledger import _nothing

from trimtab.errors import SchedulerRefused, SchedulerVetoed
from trimtab.model.cluster import ClusterSnapshot, Held, Node, Placement, Reservation, Workload, WorkloadState
from trimtab.model.command import Command, CommandState, Move, Recommendation, Refusal, Seat, Verb, Way, Write


class FakeScheduler:
    """Reader and scheduler. Time passes in `tick`: stopping jobs stop, those with a seat start."""

    def __init__(
        self,
        snapshot: ClusterSnapshot,
        clock: FakeClock,
        *,
        name: str = "simulated",
        at_point: Callable[[str], None] = _nothing,
    ) -> None:
        self.name = name
        self.cluster = snapshot.cluster
        self.clock = clock
        self.at_point = at_point
        self.nodes = {node.name: node for node in snapshot.nodes}
        self.jobs = {workload.id: workload for workload in snapshot.workloads}
        self.reservations = list(snapshot.reservations)
        self.marks: list[Held] = list(snapshot.held)
        """Whatever else bears a mark: taints, holds of queues, labels."""
        self.pause_reason = snapshot.pause_reason
        self.given: dict[str, tuple[str, tuple[Seat, ...]]] = {}
        self.done: set[tuple[str, str]] = set()
        self.calls: list[str] = []
        self.written: list[str] = []
        self.next_hold_error: Exception | None = None
        self.next_submit_error: Exception | None = None
        self.next_release_error: Exception | None = None
        self.next_snapshot_error: Exception | None = None
        self.refuses: str | None = None
        self.next_way = Way()
        self.next_way_error: Exception | None = None
        self.is_stuck = False
        """Nothing starts any more."""

    # --- the seam

    def snapshot(self) -> ClusterSnapshot:
        self._fail("next_snapshot_error")
        return ClusterSnapshot(
            cluster=self.cluster,
            taken_at=self.clock.now(),
            nodes=tuple(self.nodes.values()),
            workloads=tuple(self.jobs.values()),
            reservations=tuple(self.reservations),
            held=tuple(self.marks),
            pause_reason=self.pause_reason,
        )

    def refusal(self, move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
        return Refusal(rule="fake", sentence=self.refuses) if self.refuses else None

    def way(self, recommendation: Recommendation, snapshot: ClusterSnapshot) -> Way:
        self._fail("next_way_error")
        return self.next_way

    def hold(self, command: Command) -> None:
        self.calls.append(f"hold {command.name}")
        self._fail("next_hold_error")
        self._write_all(command, [w for w in command.recommendation.writes if w.verb in (Verb.CORDON, Verb.RESERVE)])

    def submit(self, command: Command) -> None:
        self.calls.append(f"submit {command.name}")
        self._fail("next_submit_error")
        self._write_all(
            command, [w for w in command.recommendation.writes if w.verb not in (Verb.CORDON, Verb.RESERVE)]
        )

    def release(self, command: Command) -> None:
        self.calls.append(f"release {command.name}")
        self._fail("next_release_error")
        mark, lasts = command.mark, [w.node for w in command.recommendation.writes if w.lasts]
        self.at_point("before release of reservations")
        self.reservations = [kept for kept in self.reservations if kept.command != mark]
        self.marks = [one for one in self.marks if one.mark != mark or (_is_settled(command) and one.lasts)]
        self.at_point("before release of cordons")
        for name, node in self.nodes.items():
            stays = _is_settled(command) and name in lasts
            if node.cordoned_by == mark and not stays:
                self.nodes[name] = replace(node, is_cordoned=False, cordoned_by=None)
        self.at_point("before release of jobs")
        for job in list(self.jobs.values()):
            if self.given.get(job.id, ("", ()))[0] == mark:
                del self.given[job.id]
            if job.suspended_by == mark:
                state = WorkloadState.WAITING if job.state is WorkloadState.SUSPENDED else job.state
                self.jobs[job.id] = replace(job, suspended_by=None, state=state, waiting_since=self.clock.now())
        self.done = {(by, text) for by, text in self.done if by != mark}
        self.at_point("after release")

    # --- what a test does to the cluster

    def tick(self, seconds: float = 10.0) -> None:
        self.clock.advance(seconds)
        for job in list(self.jobs.values()):
            if job.state is WorkloadState.STOPPING:
                is_kept = job.suspended_by is not None and job.id not in self.given
                state = WorkloadState.SUSPENDED if is_kept else WorkloadState.WAITING
                self.jobs[job.id] = replace(job, state=state, placements=(), waiting_since=self.clock.now())
        if not self.is_stuck:
            for job in sorted(self.jobs.values(), key=lambda one: (one.id not in self.given, -one.priority, one.id)):
                if job.state is WorkloadState.WAITING:
                    self._start(job)

    def put(self, workload: Workload) -> None:
        self.jobs[workload.id] = workload

    def cordon(self, name: str, by: str = "sofia") -> None:
        self.nodes[name] = replace(self.nodes[name], is_cordoned=True, cordoned_by=by)

    def uncordon(self, name: str) -> None:
        self.nodes[name] = replace(self.nodes[name], is_cordoned=False, cordoned_by=None)

    def held(self) -> list[str]:
        """Everything that bears a mark of ours, in words."""
        found = [f"{one.command} keeps {one.gpus} GPUs of {one.node} for {one.workload}" for one in self.reservations]
        found += [f"{one.cordoned_by} cordons {one.name}" for one in self.nodes.values() if one.is_cordoned]
        found += [f"{one.suspended_by} stops {one.id}" for one in self.jobs.values() if one.suspended_by]
        found += [f"{one.mark} has {one.what}" for one in self.marks]
        return [text for text in found if text.startswith("trimtab:")]

    # --- inside

    def _fail(self, which: str) -> None:
        error = getattr(self, which)
        setattr(self, which, None)
        if error is not None:
            raise error

    def _write_all(self, command: Command, writes: Iterable[Write]) -> None:
        for write in writes:
            self.at_point(f"before {write.text}")
            if (command.mark, write.text) not in self.done:
                self._write(command.mark, write)
                self.done.add((command.mark, write.text))
                self.written.append(f"{command.mark} {write.text}")
            elif write.verb is Verb.CORDON and not self._node(write.node or "").is_cordoned:
                said = f"Somebody uncordoned {write.node} since {command.name} cordoned it: a veto."
                raise SchedulerVetoed(said, node=write.node or "")
            self.at_point(f"after {write.text}")

    def _write(self, mark: str, write: Write) -> None:
        if write.verb is Verb.CORDON:
            node = self._node(write.node or "")
            if not node.is_cordoned:
                self.nodes[node.name] = replace(node, is_cordoned=True, cordoned_by=mark)
        elif write.verb is Verb.UNCORDON:
            node = self._node(write.node or "")
            if node.is_cordoned and write.lifts in (None, node.cordoned_by):
                self.uncordon(node.name)
        elif write.verb is Verb.RESERVE:
            self._reserve(mark, write)
        else:
            self._job_write(mark, write)

    def _node(self, name: str) -> Node:
        if name not in self.nodes:
            raise SchedulerRefused(f"There is no node {name}.")
        return self.nodes[name]

    def _reserve(self, mark: str, write: Write) -> None:
        made = []
        for name, gpus in _by_node(write.seats).items():
            node = self._node(name)
            kept = sum(one.gpus for one in self.reservations if one.node == name and one.workload != write.workload)
            if node.is_cordoned or sum(gpu.is_usable for gpu in node.gpus) - kept < gpus:
                raise SchedulerRefused(f"{name} cannot keep {gpus} GPUs.")
            made.append(Reservation(node=name, gpus=gpus, workload=write.workload or "", command=mark))
        self.reservations.extend(made)

    def _job_write(self, mark: str, write: Write) -> None:
        job = self.jobs.get(write.workload or "")
        if job is None:
            raise SchedulerRefused(f"There is no workload {write.workload}.")
        if write.verb is Verb.SUSPEND:
            if not job.is_running:
                raise SchedulerRefused(f"{job.id} is {job.state}.")
            self.jobs[job.id] = replace(job, state=WorkloadState.STOPPING, suspended_by=mark)
            return
        if job.is_running:
            raise SchedulerRefused(f"{job.id} is {job.state} already.")
        self.given[job.id] = (mark, write.seats)
        if job.state is WorkloadState.SUSPENDED:
            self.jobs[job.id] = replace(job, state=WorkloadState.WAITING)

    def _start(self, job: Workload) -> None:
        seats = self.given.get(job.id, ("", ()))[1] or self._some_seats(job)
        placements: list[Placement] = []
        taken = {(p.node, gpu) for one in self.jobs.values() for p in one.placements for gpu in p.gpus}
        for rank, seat in enumerate(seats):
            node = self.nodes[seat.node]
            free = [gpu.uuid for gpu in node.gpus if gpu.is_usable and (node.name, gpu.uuid) not in taken][: seat.gpus]
            if node.is_cordoned or len(free) < seat.gpus:
                return
            taken.update((node.name, gpu) for gpu in free)
            placements.append(Placement(pod=seat.pod, rank=rank, node=node.name, gpus=tuple(free)))
        if not placements:
            return
        self.given.pop(job.id, None)
        self.reservations = [kept for kept in self.reservations if kept.workload != job.id]
        self.jobs[job.id] = replace(
            job,
            state=WorkloadState.RUNNING,
            placements=tuple(placements),
            suspended_by=None,
            started_at=self.clock.now(),
            waiting_since=None,
        )

    def _some_seats(self, job: Workload) -> tuple[Seat, ...]:
        """Fullest node first; spares only for whom they are kept."""
        held = Counter(p.node for one in self.jobs.values() for p in one.placements for _ in p.gpus)
        room: dict[str, int] = {}
        for node in self.nodes.values():
            ours = any(kept.node == node.name and kept.workload == job.id for kept in self.reservations)
            others = sum(one.gpus for one in self.reservations if one.node == node.name and one.workload != job.id)
            if not node.is_cordoned and (ours or not node.is_spare):
                room[node.name] = sum(gpu.is_usable for gpu in node.gpus) - held[node.name] - others
        seats: list[Seat] = []
        for name in sorted(room, key=lambda one: (room[one], one)):
            while room[name] >= job.gpus_per_pod and len(seats) < job.pods:
                seats.append(Seat(pod=f"{job.name}-{len(seats)}", node=name, gpus=job.gpus_per_pod))
                room[name] -= job.gpus_per_pod
        return tuple(seats) if len(seats) == job.pods else ()


def _by_node(seats: Iterable[Seat]) -> Counter[str]:
    count: Counter[str] = Counter()
    for seat in seats:
        count[seat.node] += seat.gpus
    return count


def _is_settled(command: Command) -> bool:
    return command.state is CommandState.SETTLED
