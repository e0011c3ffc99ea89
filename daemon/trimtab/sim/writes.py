"""What may be written to the simulated scheduler: every write carries a mark, and a mark's writes can be given back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from trimtab.errors import SchedulerRefused
from trimtab.model.cluster import Reservation, WorkloadState
from trimtab.model.command import Seat, Verb, Write
from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.fleet import SimNode
from trimtab.sim.jobs import Job

LASTING = " (lasting)"
"""How `marks_held` says that a write is meant to stay."""


class WriteDesk:
    """Takes writes and gives them back. The same write under the same mark is done once."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        """Nothing written yet."""
        self._cluster = cluster
        self._done: dict[str, dict[str, Write]] = {}
        self.writes_total: Counter[str] = Counter()
        self._by_verb: dict[Verb, Callable[[str, Write], None]] = {
            Verb.CORDON: self._cordon,
            Verb.UNCORDON: self._uncordon,
            Verb.RESERVE: self._reserve,
            Verb.SUSPEND: self._suspend,
            Verb.RESUME: self._resume,
        }

    def write(self, mark: str, write: Write) -> None:
        """Do one write. Raises SchedulerRefused with a sentence; nothing was changed then."""
        with self._cluster.lock:
            done = self._done.setdefault(mark, {})
            if write.text in done:
                return
            self._by_verb[write.verb](mark, write)
            done[write.text] = write
            self.writes_total[write.verb] += 1

    def release(self, mark: str, *, keep_lasting: bool) -> None:
        """Give back what the mark still holds; jobs that it stopped go back into the queue. Safe to repeat."""
        cluster = self._cluster
        with cluster.lock:
            cluster.reservations[:] = [kept for kept in cluster.reservations if kept.command != mark]
            for node in cluster.node_list:
                if node.cordoned_by == mark and not (keep_lasting and node.does_cordon_last):
                    _open(node)
            for job in cluster.jobs.values():
                self._release_job(job, mark)
            done = self._done.pop(mark, {})
            if keep_lasting:
                self._done[mark] = {text: write for text, write in done.items() if write.lasts}

    def marks_held(self) -> dict[str, list[str]]:
        """Mark -> what it holds now, in words: for tests and for whoever looks after a crash."""
        held: dict[str, list[str]] = {}
        cluster = self._cluster
        with cluster.lock:
            for kept in cluster.reservations:
                held.setdefault(kept.command, []).append(f"{kept.gpus} GPUs of {kept.node} for {kept.workload}")
            for node in cluster.node_list:
                if node.cordoned_by:
                    lasting = LASTING if node.does_cordon_last else ""
                    held.setdefault(node.cordoned_by, []).append(f"cordon of {node.name}{lasting}")
            for job in cluster.jobs.values():
                if job.suspended_by:
                    held.setdefault(job.suspended_by, []).append(f"{job.id} stopped")
        return held

    def _release_job(self, job: Job, mark: str) -> None:
        if job.given_by == mark:
            job.given_seats, job.given_by, job.is_resume_wanted = (), None, False
        if job.suspended_by != mark:
            return
        job.suspended_by = None
        if job.state is WorkloadState.SUSPENDED:
            job.wait(self._cluster.now)
        # One that still stops goes into the queue by itself when it has: nobody keeps it any more.

    def _cordon(self, mark: str, write: Write) -> None:
        node = self._node(write.node)
        if node.is_cordoned:
            return  # somebody else's cordon stays theirs
        node.is_cordoned, node.cordoned_by, node.does_cordon_last = True, mark, write.lasts

    def _uncordon(self, mark: str, write: Write) -> None:  # noqa: ARG002 - one shape for all verbs
        _open(self._node(write.node))

    def _reserve(self, mark: str, write: Write) -> None:
        """Keep room, free now or later: a node that is being emptied is reserved while it still works."""
        job = self._job(write.workload)
        made = []
        for name, gpus in _by_node(write.seats).items():
            node = self._node(name)
            room = self._usable(node) - self._reserved(name, not_for=job.id)
            if node.is_cordoned or gpus > room:
                state = "is cordoned" if node.is_cordoned else f"has room for {max(room, 0)} GPUs beside what is kept"
                raise SchedulerRefused(f"{name} {state}; {gpus} were asked for {job.id}.")
            made.append(Reservation(node=name, gpus=gpus, workload=job.id, command=mark))
        self._cluster.reservations.extend(made)

    def _suspend(self, mark: str, write: Write) -> None:
        job = self._job(write.workload)
        if job.state is WorkloadState.FINISHED:
            raise SchedulerRefused(f"{job.id} has finished; there is nothing to stop.")
        if job.state in (WorkloadState.STOPPING, WorkloadState.SUSPENDED):
            raise SchedulerRefused(f"{job.id} is being stopped already, by {job.suspended_by or 'its own watchdog'}.")
        job.stop(self._cluster.now, by=mark)

    def _resume(self, mark: str, write: Write) -> None:
        job = self._job(write.workload)
        if job.state in (WorkloadState.FINISHED, WorkloadState.STARTING, WorkloadState.RUNNING):
            raise SchedulerRefused(f"{job.id} is {job.state}; there is nothing to start.")
        self._check_seats(job, write.seats)
        job.given_seats, job.given_by = write.seats, mark
        if job.state is WorkloadState.SUSPENDED:
            job.wait(self._cluster.now)
        job.is_resume_wanted = True

    def _check_seats(self, job: Job, seats: tuple[Seat, ...]) -> None:
        if seats and len(seats) != job.spec.pods:
            raise SchedulerRefused(f"{job.id} has {job.spec.pods} pods; {len(seats)} seats were given.")
        for name, gpus in _by_node(seats).items():
            node = self._node(name)
            room = self._usable(node) - self._kept_by_others(node, job)
            if node.is_cordoned or gpus > room:
                state = "is cordoned" if node.is_cordoned else f"has {max(room, 0)} GPUs free"
                raise SchedulerRefused(f"{name} {state}; {gpus} were asked for {job.id}.")

    def _kept_by_others(self, node: SimNode, job: Job) -> int:
        """GPUs that run others' work or are reserved for others; those of jobs that stop are as good as free."""
        dead = {node.gpus[index].uuid for index in node.lost}
        held = sum(
            len(set(seat.gpus) - dead)
            for other in self._cluster.jobs.values()
            if other.holds_gpus and other is not job and other.state is not WorkloadState.STOPPING
            for seat in other.placements
            if seat.node == node.name
        )
        return held + self._reserved(node.name, not_for=job.id)

    def _reserved(self, node: str, *, not_for: str) -> int:
        return sum(kept.gpus for kept in self._cluster.reservations if kept.node == node and kept.workload != not_for)

    def _node(self, name: str | None) -> SimNode:
        node = self._cluster.nodes.get(name or "")
        if node is None:
            raise SchedulerRefused(f"There is no node {name!r}.")
        return node

    def _job(self, workload: str | None) -> Job:
        job = self._cluster.jobs.get(workload or "")
        if job is None:
            raise SchedulerRefused(f"There is no workload {workload!r}; it may have finished.")
        return job

    @staticmethod
    def _usable(node: SimNode) -> int:
        return len(node.gpus) - len(node.lost)


def _open(node: SimNode) -> None:
    node.is_cordoned, node.cordoned_by, node.does_cordon_last = False, None, False


def _by_node(seats: tuple[Seat, ...]) -> Counter[str]:
    wanted: Counter[str] = Counter()
    for seat in seats:
        wanted[seat.node] += seat.gpus
    return wanted
