"""Simulated clusters for tests: small ones with named jobs, and the demo's whole one."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta

from tests.fakes.clock import START

from trimtab.model.command import Seat, Verb, Write
from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.jobs import Job, JobSpec
from trimtab.sim.scenario import Cast, populate, spares_of


def a_spec(name: str = "a", *, pods: int = 1, gpus_per_pod: int = 4, **changes) -> JobSpec:
    values = {"queue": "research", "owner": "mei", "checkpoint_seconds": 300.0, "restart_seconds": 60.0}
    return JobSpec(name=name, pods=pods, gpus_per_pod=gpus_per_pod, **(values | changes))


def a_cluster(nodes: int = 4, *, spares: int = 0, seed: int = 0, **changes) -> SimulatedCluster:
    return SimulatedCluster(name="hall-a", nodes=nodes, spares=spares, seed=seed, start=START, **changes)


def running(cluster: SimulatedCluster, spec: JobSpec, *nodes: str, unsaved_ratio: float = 0.0) -> Job:
    """A job that works on these nodes, one pod a node, saved `unsaved_ratio` of an interval ago."""
    job = cluster.submit(spec)
    cluster.seat(job, seats(spec, *nodes))
    cluster.settle(job, worked_seconds=7200.0, unsaved_ratio=unsaved_ratio)
    return job


def seats(spec: JobSpec, *nodes: str) -> tuple[Seat, ...]:
    return tuple(Seat(pod=spec.pod(rank), node=node, gpus=spec.gpus_per_pod) for rank, node in enumerate(nodes))


def the_demo(*, nodes: int = 24, seed: int = 0, **changes) -> tuple[SimulatedCluster, Cast]:
    cluster = SimulatedCluster(nodes=nodes, spares=spares_of(nodes), seed=seed, start=START, **changes)
    return cluster, populate(cluster, seed=seed)


def forward(cluster: SimulatedCluster, seconds: float) -> None:
    cluster.advance(cluster.now + timedelta(seconds=seconds))


def suspend(job: Job) -> Write:
    return Write(verb=Verb.SUSPEND, workload=job.id)


def resume(job: Job, *nodes: str) -> Write:
    return Write(verb=Verb.RESUME, workload=job.id, seats=seats(job.spec, *nodes))


def reserve(job: Job, *nodes: str) -> Write:
    return Write(verb=Verb.RESERVE, workload=job.id, seats=seats(job.spec, *nodes))


def cordon(node: str, *, lasts: bool = False) -> Write:
    return Write(verb=Verb.CORDON, node=node, lasts=lasts)


def doubly_held(cluster: SimulatedCluster) -> list[tuple[str, str]]:
    """GPUs that two jobs hold at once: must be none, whatever is written."""
    snapshot = cluster.snapshot()
    held = Counter(
        (seat.node, gpu) for workload in snapshot.workloads for seat in workload.placements for gpu in seat.gpus
    )
    return [gpu for gpu, count in held.items() if count > 1]
