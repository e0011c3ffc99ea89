"""Scenes for the issuer: a small cluster behind the fake scheduler, its findings, and the real planner in front."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import timedelta

from tests.builders import a_finding, a_node, a_snapshot, a_workload
from tests.fakes.clock import START, FakeClock
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeScheduler

from trimtab.issue import decisions
from trimtab.issue.issuer import Advance, Issuer
from trimtab.issue.owners import Asker
from trimtab.model.advice import Action, FindingState, OpenFinding
from trimtab.model.cluster import Checkpoint, ClusterSnapshot
from trimtab.model.command import Budget, Command, CommandState, Mode, Plan
from trimtab.plan.planner import Planner
from trimtab.plan.restore import TakenOut
from trimtab.settings import IssueSettings, PlanSettings

FRESH = Checkpoint(last_at=START, interval_seconds=3 * 3600.0)


@dataclass
class Scene:
    """One daemon's rebalance beat over a fake cluster."""

    snapshot: ClusterSnapshot
    findings: tuple[OpenFinding, ...] = ()
    settings: IssueSettings = field(default_factory=lambda: IssueSettings(mode=Mode.APPROVE))
    clock: FakeClock = field(default_factory=FakeClock)
    ledger: FakeLedger = field(default_factory=FakeLedger)
    scheduler: FakeScheduler = field(init=False)
    planner: Planner = field(default_factory=lambda: Planner(PlanSettings(is_finding_needed_to_make_room=False)))
    budget: Budget = field(default_factory=lambda: Budget(spares_kept=1))
    issuer: Issuer = field(init=False)
    asker: Asker | None = None
    told: list[str] = field(default_factory=list)
    why_not_write: str | None = None
    """Another daemon is the one that acts, in words."""
    closed: tuple[OpenFinding, ...] = ()
    """Findings that have ended."""

    def __post_init__(self) -> None:
        self.scheduler = FakeScheduler(self.snapshot, self.clock)
        self.restart()

    def restart(self, settings: IssueSettings | None = None) -> None:
        """A new daemon: nothing is kept but the ledger and the cluster."""
        self.settings = settings or self.settings
        self.issuer = Issuer(
            ledger=self.ledger,
            schedulers={"simulated": self.scheduler},
            settings=self.settings,
            clock=self.clock,
            asker=self.asker,
            notify=self.notify,
            why_not_write=lambda: self.why_not_write,
        )

    def beat(self, *, seconds: float = 10.0, plan: Plan | None = None) -> Advance:
        """Time passes in the cluster, then one rebalance beat."""
        self.scheduler.tick(seconds)
        snapshot = self.scheduler.snapshot()
        standing = [
            command.recommendation
            for command in self.ledger.commands(live_only=True)
            if command.state in (CommandState.PROPOSED, CommandState.APPROVED)
        ]
        plan = plan or self.planner.propose(snapshot, self.findings, self.budget, standing, self.taken_out())
        return self.issuer.advance(plan, snapshot, self.budget, self.findings)

    def notify(self, command: Command, workload: str, sentence: str) -> None:
        self.told.append(f"{workload}: {sentence}")

    def taken_out(self) -> list[TakenOut]:
        """Nodes that commands which are over hold, with what they rested on."""
        known = {one.id: one for one in (*self.findings, *self.closed)}
        return [
            TakenOut(
                node=node,
                mark=command.mark,
                command=command.name,
                findings=[known[one] for one in command.recommendation.findings if one in known],
            )
            for command in self.ledger.holding()
            for node in command.lasting_nodes
            if node in self.scheduler.nodes and self.scheduler.nodes[node].cordoned_by == command.mark
        ]

    def close_findings(self) -> None:
        """Every open finding ends by its rule."""
        now = self.clock.now()
        self.closed += tuple(
            replace(one, state=FindingState.CLOSED, closed_at=now, close_reason="well for 10 min")
            for one in self.findings
        )
        self.findings = ()

    @property
    def mark(self) -> str:
        """The first command's."""
        return f"trimtab:{self.ledger.ledger}:R1"

    def beats(self, count: int) -> None:
        for _ in range(count):
            self.beat()

    def command(self, number: int = 1) -> Command:
        found = self.ledger.command(number)
        assert found is not None
        return found

    def approve(self, number: int = 1) -> Command:
        command = self.command(number)
        return decisions.approve(
            self.ledger,
            number,
            fingerprint=command.recommendation.fingerprint,
            who="mei",
            now=self.clock.now(),
            settings=self.settings,
        )

    def states(self) -> list[str]:
        """The life of the first command, from the audit."""
        return [line.what.removeprefix("R1 ") for line in self.ledger.lines if line.what.startswith("R1 ")]


def evacuation(**changes) -> Scene:
    """gpu-02 lost a GPU under a gang of four nodes; gpu-22 is a spare."""
    nodes = [*(a_node(f"gpu-0{n}") for n in range(4)), a_node("gpu-22", is_spare=True)]
    gang = a_workload("llama-70b", on={f"gpu-0{n}": range(8) for n in range(4)}, checkpoint=FRESH)
    finding = a_finding(node="gpu-02", workloads_hit=(gang.id,), loss_gpus=32.0)
    return Scene(snapshot=a_snapshot(nodes, [gang]), findings=(finding,), **changes)


def room_making(*, checkpoint: Checkpoint = FRESH, **changes) -> Scene:
    """eval-9 waits for 8 GPUs; gpu-03 holds two small jobs that fit elsewhere."""
    jobs = [
        a_workload("a", on={"gpu-03": [0]}, checkpoint=checkpoint),
        a_workload("b", on={"gpu-03": [1]}, checkpoint=checkpoint),
        a_workload("c", on={"gpu-04": range(7)}, is_preemptible=False),
        a_workload("d", on={"gpu-05": range(6)}, is_preemptible=False),
        a_workload("eval-9", waiting_since=START - timedelta(hours=2)),
    ]
    return Scene(snapshot=a_snapshot([a_node(f"gpu-0{n}") for n in (3, 4, 5)], jobs), **changes)


def relocation(**changes) -> Scene:
    """gpu-02's fan failed and slows a gang of three; gpu-03 is free."""
    nodes = [a_node(f"gpu-0{n}") for n in range(4)]
    gang = a_workload("vision-3", on={f"gpu-0{n}": range(8) for n in range(3)}, checkpoint=FRESH)
    finding = a_finding(
        node="gpu-02", rule="hotspot", action=Action.RESET_AFTER_DRAIN, workloads_hit=(gang.id,), loss_gpus=12.0
    )
    scene = Scene(snapshot=a_snapshot(nodes, [gang]), findings=(finding,), **changes)
    scene.budget = Budget(spares_kept=0)
    return scene


def to(scene, state, number=1, beats=12):
    """Approve and beat until the command is in this state."""
    scene.beat()
    if scene.command(number).state is CommandState.PROPOSED:
        scene.approve(number)
    for _ in range(beats):
        if scene.command(number).state is state:
            return scene.command(number)
        scene.beat()
    raise AssertionError(f"{scene.command(number).state}: {scene.command(number).reason}")
