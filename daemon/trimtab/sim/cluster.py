"""A cluster that isn't there: nodes, GPUs, jobs and a scheduler that move on with simulated time."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

import numpy as np

from trimtab.model.cluster import (
    ClusterSnapshot,
    Gpu,
    Node,
    Placement,
    Queue,
    Reservation,
    WorkloadState,
)
from trimtab.model.command import Seat
from trimtab.sim.fleet import GPU_MODEL, SimGpu, SimNode, build_fleet
from trimtab.sim.jobs import Job, JobSpec
from trimtab.sim.kernel_file import KernelFiles
from trimtab.sim.loads import load_of, set_pace
from trimtab.sim.physics import Bools, Physics, Telemetry
from trimtab.sim.placement import Room, queue_order

STEP_SECONDS = 2.0
HANG_SECONDS_MAX = 1800.0
"""A collective that stands still this long is ended by its own watchdog, and the job starts again."""
_UNUSABLE_AFTER_SECONDS = 20.0
"""The device plugin notices a lost GPU this long after it fell."""
_FINISHED_SHOWN_SECONDS = 120.0
_WARM_UP_STEPS = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTruth:
    """What really is with a job, which no report says: for the demo's books and for tests."""

    id: str
    state: WorkloadState
    nodes: tuple[str, ...]
    gpus: int
    pace_ratio: float
    done_gpu_seconds: float
    """Work that stayed; falls when a job falls back to its checkpoint."""
    suspended_by: str | None
    restarts: int


class SimulatedCluster:
    """The cluster. Every public method holds its lock; the telemetry is replaced whole and read without."""

    def __init__(
        self,
        *,
        name: str = "hall-a",
        nodes: int = 24,
        spares: int = 2,
        seed: int = 0,
        start: datetime,
        kernel: KernelFiles | None = None,
    ) -> None:
        """An empty cluster at `start`; `scenario.populate` fills it."""
        self.name = name
        self.lock = threading.RLock()
        self.now = start
        self.nodes: dict[str, SimNode] = {
            node.name: node for node in build_fleet(nodes=nodes, spares=spares, seed=seed, start=start)
        }
        self.node_list = list(self.nodes.values())
        self.jobs: dict[str, Job] = {}
        self.quotas: dict[str, int] = {}
        self.reservations: list[Reservation] = []
        self.successors: list[tuple[datetime, JobSpec]] = []
        self.physics = Physics(gpus=sum(len(node.gpus) for node in self.node_list), seed=seed)
        self.kernel = kernel
        self._random = random.Random(f"cluster {seed}")
        if kernel is not None:
            for node in self.node_list:
                kernel.boot(node)

    @property
    def telemetry(self) -> Telemetry:
        """What the GPUs show now."""
        return self.physics.telemetry

    def advance(self, to: datetime) -> int:
        """Move on in whole steps up to `to`; returns how many were made."""
        steps = 0
        with self.lock:
            while (to - self.now).total_seconds() >= STEP_SECONDS:
                self._step()
                steps += 1
            if steps:
                self.physics.publish()
        return steps

    def submit(self, spec: JobSpec) -> Job:
        """A job joins the queue."""
        with self.lock:
            job = Job(spec=spec, state=WorkloadState.WAITING, submitted_at=self.now)
            job.wait(self.now)
            self.jobs[job.id] = job
            return job

    def seat(self, job: Job, seats: Iterable[Seat]) -> None:
        """Put a job on these seats now; it begins to start."""
        with self.lock:
            room = self.room()
            placements, columns = self._take(job, tuple(seats), room)
            job.start(self.now, placements, columns)
            self.reservations[:] = [kept for kept in self.reservations if kept.workload != job.id]

    def settle(self, job: Job, *, worked_seconds: float, unsaved_ratio: float) -> None:
        """Make a job that was just seated one that has run for `worked_seconds` without a fault."""
        with self.lock:
            job.run(self.now)
            job.started_at = job.submitted_at = self.now - timedelta(seconds=worked_seconds)
            unsaved_seconds = unsaved_ratio * (job.spec.checkpoint_seconds or 0.0)
            job.saved_at = self.now - timedelta(seconds=unsaved_seconds)
            is_counted = job.spec.duration_seconds is None
            job.done_seconds = worked_seconds if is_counted else 0.0
            job.saved_seconds = max(job.done_seconds - unsaved_seconds, 0.0)

    def warm_up(self) -> None:
        """Let power and heat come to rest under the present load; no time passes."""
        with self.lock:
            set_pace(self.jobs.values(), self.physics.clock_ratio, self._lost())
            for _ in range(_WARM_UP_STEPS):
                self.physics.step(load_of(self.jobs.values(), self.physics.clock_ratio), STEP_SECONDS)
            self.physics.publish()

    def room(self) -> Room:
        """What is free now."""
        return Room(nodes=self.nodes, jobs=self.jobs.values(), reservations=self.reservations, quotas=self.quotas)

    def gpu_of_column(self, column: int) -> tuple[SimNode, SimGpu]:
        """The GPU at one place of the arrays."""
        node = self.node_list[column // len(self.node_list[0].gpus)]
        return node, node.gpus[column % len(node.gpus)]

    def truth(self) -> Mapping[str, JobTruth]:
        """Every job as it really is, by name."""
        with self.lock:
            return {job.spec.name: _truth(job) for job in self.jobs.values()}

    def snapshot(self) -> ClusterSnapshot:
        """The cluster as its scheduler shows it."""
        with self.lock:
            return ClusterSnapshot(
                cluster=self.name,
                taken_at=self.now,
                nodes=tuple(self._as_node(node) for node in self.node_list),
                workloads=tuple(job.as_workload() for job in self.jobs.values()),
                queues=tuple(Queue(name=name, gpus_quota=quota) for name, quota in self.quotas.items()),
                reservations=tuple(self.reservations),
            )

    def _step(self) -> None:
        self.now += timedelta(seconds=STEP_SECONDS)
        is_lost = self._lost()
        running = list(self.jobs.values())
        set_pace(running, self.physics.clock_ratio, is_lost)
        self.physics.step(load_of(running, self.physics.clock_ratio), STEP_SECONDS)
        for job in running:
            self._step_job(job)
        self._arrive()
        self._schedule()
        self._forget_finished()

    def _step_job(self, job: Job) -> None:
        if job.state is WorkloadState.STARTING and job.ready_at is not None and self.now >= job.ready_at:
            job.run(self.now)
        elif job.state is WorkloadState.STOPPING and job.stopped_at is not None and self.now >= job.stopped_at:
            self._stopped(job)
        elif job.state is WorkloadState.RUNNING:
            self._run_job(job)

    def _stopped(self, job: Job) -> None:
        job.restarts += 1
        if job.is_resume_wanted or job.suspended_by is None:
            job.wait(self.now)
        else:
            job.rest()

    def _run_job(self, job: Job) -> None:
        job.work(self.now, STEP_SECONDS)
        if job.pace_ratio > 0:
            job.stalled_since = None
        elif job.stalled_since is None:
            job.stalled_since = self.now
        elif (self.now - job.stalled_since).total_seconds() >= HANG_SECONDS_MAX:
            job.stop(self.now, by=None)
        duration = job.spec.duration_seconds
        if duration is not None and job.done_seconds >= duration:
            job.finish(self.now)
            self.successors.append((self.now + timedelta(seconds=self._random.uniform(20, 60)), _next(job.spec)))

    def _arrive(self) -> None:
        due = [spec for at, spec in self.successors if at <= self.now]
        self.successors = [(at, spec) for at, spec in self.successors if at > self.now]
        for spec in due:
            self.submit(spec)

    def _schedule(self) -> None:
        """First in, first out; one that does not fit lets the next ones pass."""
        waiting = queue_order(job for job in self.jobs.values() if job.state is WorkloadState.WAITING)
        for job in waiting:
            room = self.room()
            seats = room.seats(job)
            if seats:
                self.seat(job, seats)
            else:
                job.waiting_reason = room.why_waiting(job)

    def _forget_finished(self) -> None:
        over = [
            job.id
            for job in self.jobs.values()
            if job.finished_at and (self.now - job.finished_at).total_seconds() > _FINISHED_SHOWN_SECONDS
        ]
        for job_id in over:
            del self.jobs[job_id]

    def _lost(self) -> Bools:
        lost = np.zeros(len(self.physics.clock_ratio), bool)
        for node in self.node_list:
            for index in node.lost:
                lost[node.gpus[index].column] = True
        return lost

    def _take(self, job: Job, seats: tuple[Seat, ...], room: Room) -> tuple[tuple[Placement, ...], tuple[int, ...]]:
        taken: set[str] = set()
        placements: list[Placement] = []
        columns: list[int] = []
        for rank, seat in enumerate(seats):
            free = [gpu for gpu in room.free(self.nodes[seat.node]) if gpu.uuid not in taken][: seat.gpus]
            taken.update(gpu.uuid for gpu in free)
            columns.extend(gpu.column for gpu in free)
            uuids = tuple(gpu.uuid for gpu in free)
            placements.append(Placement(pod=job.spec.pod(rank), rank=rank, node=seat.node, gpus=uuids))
        return tuple(placements), tuple(columns)

    def _as_node(self, node: SimNode) -> Node:
        return Node(
            name=node.name,
            rack=node.rack,
            gpus=tuple(
                Gpu(uuid=gpu.uuid, index=gpu.index, model=GPU_MODEL, is_usable=self._is_usable(node, gpu.index))
                for gpu in node.gpus
            ),
            is_cordoned=node.is_cordoned,
            cordoned_by=node.cordoned_by,
            is_spare=node.is_spare,
            labels={"is_spare": "true"} if node.is_spare else {},
        )

    def _is_usable(self, node: SimNode, index: int) -> bool:
        since = node.lost.get(index)
        return since is None or (self.now - since).total_seconds() < _UNUSABLE_AFTER_SECONDS


def _truth(job: Job) -> JobTruth:
    return JobTruth(
        id=job.id,
        state=job.state,
        nodes=tuple(dict.fromkeys(seat.node for seat in job.placements)),
        gpus=job.spec.gpus,
        pace_ratio=job.pace_ratio,
        done_gpu_seconds=job.done_seconds * job.spec.gpus,
        suspended_by=job.suspended_by,
        restarts=job.restarts,
    )


def _next(spec: JobSpec) -> JobSpec:
    """The job that follows a finished one: `sweep-17` after `sweep-16`."""
    stem, _, number = spec.name.rpartition("-")
    return replace(spec, name=f"{stem}-{int(number) + 1}" if number.isdecimal() else f"{spec.name}-2")
