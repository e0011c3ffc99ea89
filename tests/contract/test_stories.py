"""The demo's three stories through the real planner and issuer, over HTTP, against the simulated cluster."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from tests.builders import a_finding
from tests.fakes.clock import START
from tests.fakes.ledger import FakeLedger

from trimtab.issue.issuer import Issuer
from trimtab.model.advice import Action, OpenFinding
from trimtab.model.cluster import WorkloadState
from trimtab.model.command import CommandState, Mode
from trimtab.plan.budget import budget_of
from trimtab.plan.planner import Planner
from trimtab.schedulers.simulated import SimulatedScheduler
from trimtab.settings import IssueSettings, PlanSettings
from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.control import ControlServer
from trimtab.sim.faults import Fault, inject
from trimtab.sim.scenario import Cast, populate, spares_of
from trimtab.sim.writes import WriteDesk

PLAN = PlanSettings(
    cordoned_ratio_max=0.25, is_finding_needed_to_make_room=False
)  # two of eight nodes, in the small cluster


class ClusterClock:
    """The simulated cluster's own time."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self._cluster = cluster

    def now(self) -> datetime:
        return self._cluster.now

    def monotonic_seconds(self) -> float:
        return (self._cluster.now - START).total_seconds()

    def wall_seconds(self, seconds: float) -> float:
        return 0.0


class Stage:
    """A populated cluster behind HTTP, and a daemon's rebalance beat in front of it, mode act."""

    def __init__(self, *, nodes: int, seed: int) -> None:
        self.cluster = SimulatedCluster(nodes=nodes, spares=spares_of(nodes), seed=seed, start=START)
        self.cast: Cast = populate(self.cluster, seed=seed)
        self.desk = WriteDesk(self.cluster)
        self.server = ControlServer(self.cluster, self.desk)
        self.server.start()
        self.scheduler = SimulatedScheduler(self.server.url)
        self.ledger = FakeLedger()
        self.issuer = Issuer(
            ledger=self.ledger,
            schedulers={"simulated": self.scheduler},
            settings=IssueSettings(mode=Mode.ACT),
            clock=ClusterClock(self.cluster),
        )

    def beats(self, count: int, findings: tuple[OpenFinding, ...]) -> None:
        for _ in range(count):
            self.cluster.advance(self.cluster.now + timedelta(seconds=10))
            snapshot = self.scheduler.snapshot()
            recent = self.ledger.commands(live_only=False, since=snapshot.taken_at - timedelta(days=1))
            budget = budget_of(snapshot, recent, PLAN, snapshot.taken_at)
            standing = [
                one.recommendation for one in recent if one.state in (CommandState.PROPOSED, CommandState.APPROVED)
            ]
            seen = tuple(
                OpenFinding(id=one.id, finding=one.finding, opened_at=START, changed_at=START, last_seen_at=START)
                for one in findings
            )
            plan = Planner(PLAN).propose(snapshot, seen, budget, standing)
            self.issuer.advance(plan, snapshot, budget)

    def states(self) -> dict[str, CommandState]:
        return {one.recommendation.purpose: one.state for one in self.ledger.stored.values()}

    def job(self, name: str):
        return next(one for one in self.cluster.snapshot().workloads if one.name == name)


@pytest.fixture(params=[(24, 0), (24, 3), (8, 1)], ids=lambda given: f"{given[0]} nodes, seed {given[1]}")
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    made = Stage(nodes=request.param[0], seed=request.param[1])
    yield made
    made.server.stop()


def test_all_three_stories_end_well_side_by_side(stage):
    cast, cluster = stage.cast, stage.cluster
    inject(cluster, Fault(kind="gpu_falls_off", node=cast.big_gang_node, gpus=(3,)))
    inject(cluster, Fault(kind="fan_failure", node=cast.slow_gang_node, gpus=cast.slow_gang_gpus))
    cluster.submit(cast.waiting)
    fault = a_finding(
        id=1, node=cast.big_gang_node, gpu=None, workloads_hit=(f"research/{cast.big_gang}",), loss_gpus=32.0
    )
    slow = a_finding(
        id=2,
        node=cast.slow_gang_node,
        gpu=None,
        rule="straggler",
        action=Action.RESET_AFTER_DRAIN,
        workloads_hit=(f"research/{cast.slow_gang}",),
        loss_gpus=7.0,
    )
    stage.beats(90, (fault, slow))
    wanted = {
        f"evacuate:{cast.big_gang_node}": CommandState.SETTLED,
        f"relocate:{cast.slow_gang_node}": CommandState.SETTLED,
        f"make-room:eval/{cast.waiting.name}": CommandState.SETTLED,
    }
    states = stage.states()
    assert {purpose: states.get(purpose) for purpose in wanted} == wanted
    assert stage.job(cast.big_gang).state is WorkloadState.RUNNING
    assert cast.big_gang_node not in stage.job(cast.big_gang).nodes
    assert cast.slow_gang_node not in stage.job(cast.slow_gang).nodes
    assert stage.job(cast.waiting.name).state is WorkloadState.RUNNING
    assert sorted(text for held in stage.desk.marks_held().values() for text in held) == sorted(
        [f"cordon of {cast.big_gang_node} (lasting)", f"cordon of {cast.slow_gang_node} (lasting)"]
    )
    assert all(outcome.is_good for outcome in stage.ledger.results.values())
