"""The simulated scheduler's judgement: who may sit where, and why a job waits. Queues, quotas, gangs, reservations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trimtab.model.cluster import Reservation
from trimtab.model.command import Seat
from trimtab.sim.fleet import SimGpu, SimNode
from trimtab.sim.jobs import Job, JobSpec


@dataclass(slots=True, kw_only=True)
class Room:
    """What is free, for one pass over the queue: nodes, who holds what, what is reserved and the quotas."""

    nodes: Mapping[str, SimNode]
    jobs: Iterable[Job]
    reservations: list[Reservation]
    quotas: Mapping[str, int]
    held: set[tuple[str, str]] = field(init=False)
    used: Counter[str] = field(init=False)

    def __post_init__(self) -> None:
        """Count once."""
        holding = [job for job in self.jobs if job.holds_gpus]
        self.held = {(seat.node, gpu) for job in holding for seat in job.placements for gpu in seat.gpus}
        self.used = Counter()
        for job in holding:
            self.used[job.spec.queue] += job.spec.gpus

    def free(self, node: SimNode) -> list[SimGpu]:
        """GPUs of a node that work and that nobody holds."""
        return [gpu for gpu in node.gpus if not node.is_lost(gpu.index) and (node.name, gpu.uuid) not in self.held]

    def reserved(self, node: str, *, not_for: str) -> int:
        """GPUs of a node that are kept for other workloads."""
        return sum(kept.gpus for kept in self.reservations if kept.node == node and kept.workload != not_for)

    def room(self, node: SimNode, job: Job) -> int:
        """GPUs of a node that this job could take now without being told to."""
        is_kept = any(kept.node == node.name and kept.workload == job.id for kept in self.reservations)
        if node.is_cordoned or (node.is_spare and not is_kept):
            return 0
        return max(0, len(self.free(node)) - self.reserved(node.name, not_for=job.id))

    def seats(self, job: Job) -> tuple[Seat, ...]:
        """Seats for every pod of a waiting job, or none: a gang starts whole."""
        if job.given_seats:
            return job.given_seats if self._fit(job.given_seats) else ()
        if self.is_over_quota(job.spec):
            return ()
        return self._gang_seats(job)

    def is_over_quota(self, spec: JobSpec) -> bool:
        """Whether the queue would hold more than it may."""
        quota = self.quotas.get(spec.queue)
        return quota is not None and self.used[spec.queue] + spec.gpus > quota

    def why_waiting(self, job: Job) -> str:
        """`quota`, `capacity` (not enough free in all) or `placement` (enough, but not together)."""
        if self.is_over_quota(job.spec) and not job.given_seats:
            return "quota"
        free = sum(self.room(node, job) for node in self.nodes.values())
        return "placement" if free >= job.spec.gpus else "capacity"

    def _fit(self, seats: tuple[Seat, ...]) -> bool:
        wanted: Counter[str] = Counter()
        for seat in seats:
            wanted[seat.node] += seat.gpus
        return all(
            not self.nodes[name].is_cordoned and len(self.free(self.nodes[name])) >= gpus
            for name, gpus in wanted.items()
        )

    def _gang_seats(self, job: Job) -> tuple[Seat, ...]:
        """Fullest node first, so that whole nodes stay whole; a gang of whole nodes stays in few racks."""
        spec = job.spec
        room = {node.name: self.room(node, job) for node in self.nodes.values()}
        by_rack: Counter[str] = Counter()
        for name, gpus in room.items():
            by_rack[self.nodes[name].rack] += gpus // spec.gpus_per_pod
        order = sorted(
            (name for name, gpus in room.items() if gpus >= spec.gpus_per_pod),
            key=lambda name: (-by_rack[self.nodes[name].rack] if spec.pods > 1 else 0, room[name], name),
        )
        seats: list[Seat] = []
        for name in order:
            for _ in range(room[name] // spec.gpus_per_pod):
                if len(seats) < spec.pods:
                    seats.append(Seat(pod=spec.pod(len(seats)), node=name, gpus=spec.gpus_per_pod))
        return tuple(seats) if len(seats) == spec.pods else ()


def queue_order(jobs: Iterable[Job]) -> list[Job]:
    """Those told where to start, then by priority, then first come first served."""
    return sorted(
        jobs,
        key=lambda job: (not job.given_seats, -job.spec.priority, job.waiting_since or job.submitted_at, job.id),
    )
