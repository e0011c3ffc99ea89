"""What the scheduler contract runs on: the fake, a dry run around it, and the simulated cluster over real HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Protocol

from tests.builders import a_node, a_snapshot, a_workload
from tests.fakes.clock import START, FakeClock
from tests.fakes.scheduler import FakeScheduler

from trimtab.model.advice import Subject
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import (
    Command,
    CommandState,
    Cost,
    Gain,
    Move,
    MoveKind,
    Recommendation,
    RecommendationKind,
    Seat,
    Verb,
    Write,
)
from trimtab.schedulers.dry_run import DryRun
from trimtab.schedulers.scheduler import Scheduler
from trimtab.schedulers.simulated import SimulatedScheduler
from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.control import ControlServer
from trimtab.sim.jobs import JobSpec
from trimtab.sim.writes import WriteDesk

JOB = "research/a"
SEAT = Seat(pod="a-0", node="gpu-01", gpus=4)


class Rig(Protocol):
    """A cluster of four nodes; job `a` holds four GPUs of gpu-00, the rest is free."""

    scheduler: Scheduler
    writes: bool

    def snapshot(self) -> ClusterSnapshot: ...

    def pass_time(self) -> None: ...


@dataclass
class FakeRig:
    inner: FakeScheduler
    scheduler: Scheduler
    writes: bool = True

    def snapshot(self) -> ClusterSnapshot:
        return self.inner.snapshot()

    def pass_time(self) -> None:
        for _ in range(30):
            self.inner.tick()


@dataclass
class SimulatedRig:
    cluster: SimulatedCluster
    scheduler: SimulatedScheduler
    writes: bool = True

    def snapshot(self) -> ClusterSnapshot:
        return self.scheduler.snapshot()

    def pass_time(self) -> None:
        self.cluster.advance(self.cluster.now + timedelta(minutes=5))


def _fake() -> FakeScheduler:
    job = a_workload("a", on={"gpu-00": range(4)})
    return FakeScheduler(a_snapshot([a_node(f"gpu-0{n}") for n in range(4)], [job]), FakeClock())


@contextmanager
def fake_rig() -> Iterator[Rig]:
    inner = _fake()
    yield FakeRig(inner, inner)


@contextmanager
def dry_rig() -> Iterator[Rig]:
    inner = _fake()
    yield FakeRig(inner, DryRun(inner), writes=False)


@contextmanager
def simulated_rig() -> Iterator[Rig]:
    cluster = SimulatedCluster(name="hall-a", nodes=4, spares=0, start=START)
    spec = JobSpec(name="a", queue="research", pods=1, gpus_per_pod=4, owner="mei", restart_seconds=60.0)
    job = cluster.submit(spec)
    cluster.seat(job, [Seat(pod=spec.pod(0), node="gpu-00", gpus=4)])
    cluster.settle(job, worked_seconds=3600.0, unsaved_ratio=0.5)
    server = ControlServer(cluster, WriteDesk(cluster))
    server.start()
    try:
        yield SimulatedRig(cluster, SimulatedScheduler(server.url, timeout_seconds=5.0))
    finally:
        server.stop()


def a_command(*writes: Write, state: CommandState = CommandState.HELD, id: int = 11) -> Command:
    """A command of these writes; without any, the move of `a` off gpu-00, which stays cordoned."""
    made = writes or (
        Write(verb=Verb.CORDON, node="gpu-00", lasts=True),
        Write(verb=Verb.RESERVE, workload=JOB, seats=(SEAT,)),
        Write(verb=Verb.SUSPEND, workload=JOB),
        Write(verb=Verb.RESUME, workload=JOB, seats=(SEAT,)),
    )
    move = Move(
        kind=MoveKind.DRAIN,
        node="gpu-00",
        workload=JOB,
        controller="simulated",
        before=(replace(SEAT, node="gpu-00"),),
        after=(SEAT,),
    )
    return Command(
        id=id,
        state=state,
        changed_at=START,
        recommendation=Recommendation(
            kind=RecommendationKind.DRAIN,
            rule="evacuate",
            purpose="evacuate:gpu-00",
            subject=Subject(cluster="hall-a", node="gpu-00"),
            sentence="",
            reason="",
            findings=(),
            moves=(move,),
            writes=made,
            gain=Gain(gpu_hours=1.0, horizon_hours=1.0),
            cost=Cost(gpu_hours=0.1),
            created_at=START,
            expires_at=START + timedelta(hours=1),
        ),
    )
