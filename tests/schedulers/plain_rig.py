"""A small hall of plain Kubernetes with the whole path on it: reader, planner, issuer, adapter, by the beat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tests.builders import a_finding
from tests.fakes.clock import FakeClock
from tests.fakes.kube import FakeKube
from tests.fakes.ledger import FakeLedger
from tests.schedulers.kueue_world import FakeMirror, Kept
from tests.schedulers.plain_hall import PlainHall

from trimtab.issue.issuer import Issuer
from trimtab.model.advice import OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import AuditLine, Budget, Command, CommandState, Mode, Plan
from trimtab.plan.planner import Planner
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.plain import Plain
from trimtab.schedulers.reader import KubernetesReader
from trimtab.settings import IssueSettings, KubernetesSettings, PlanSettings

BEAT_SECONDS = 5.0
PLAN = PlanSettings(is_finding_needed_to_make_room=False, spares_kept=0)
ISSUE = IssueSettings(mode=Mode.ACT, breaker_ratio=1.0)


class PlainRig:
    """Nodes n1 … of eight GPUs; a daemon in mode act."""

    def __init__(self, *, nodes: int = 4) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(clock=self.clock)
        self.hall = PlainHall([f"n{number + 1}" for number in range(nodes)], self.kube)
        self.settings = KubernetesSettings()
        self.ledger = FakeLedger()
        self.lines: list[AuditLine] = []
        self.findings: list[OpenFinding] = []
        self.plan: Plan | None = None
        self.start()

    def start(self) -> None:
        """A daemon that remembers nothing but its ledger."""
        self.reader = KubernetesReader(
            FakeMirror(self.kube), api=self.kube, settings=self.settings, cluster="hall-a", clock=self.clock
        )
        self.pen = Pen(api=self.kube, clock=self.clock, audit=self.lines.append)
        self.adapter = Plain(self.pen, lambda: self.reader.view, self.settings, self.clock)
        self.planner = Planner(PLAN, adapter_rule=self._opinion)
        self.issuer = Issuer(
            ledger=self.ledger, schedulers={"kubernetes": self.adapter}, settings=ISSUE, clock=self.clock
        )

    def _opinion(self, move: Any, snapshot: ClusterSnapshot) -> Any:
        return self.adapter.refusal(move, snapshot) if move.controller == "kubernetes" else None

    def keep(self) -> Kept:
        """The cluster as it is, to be begun from again."""
        return Kept(self.kube.snapshot(), self.clock.now(), tuple(self.findings))

    def again(self, kept: Kept) -> None:
        """The cluster as it was, and a daemon with an empty ledger."""
        self.kube.restore(kept.state)
        self.clock.jump((kept.at - self.clock.now()).total_seconds())
        self.findings, self.lines, self.ledger = list(kept.findings), [], FakeLedger()
        self.start()

    def bad(self, node: str) -> None:
        """XID 79 on a node, open from now on."""
        self.findings.append(a_finding(id=len(self.findings) + 1, node=node))

    def beat(self) -> None:
        """One beat of the daemon, then everybody else acts once."""
        self.clock.advance(BEAT_SECONDS)
        self.decide(self.reader.snapshot())
        self.hall.step()

    def decide(self, snapshot: ClusterSnapshot) -> None:
        """What the daemon makes of a snapshot."""
        self.findings = [replace(one, last_seen_at=snapshot.taken_at) for one in self.findings]
        live = self.ledger.commands(live_only=True)
        standing = [one.recommendation for one in live if one.state in (CommandState.PROPOSED, CommandState.APPROVED)]
        self.plan = self.planner.propose(snapshot, self.findings, Budget(), standing)
        self.issuer.advance(self.plan, snapshot, findings=self.findings)

    def beat_until(self, is_done: Callable[[], object], *, beats_max: int = 60) -> None:
        """Beats until it is so; else what was said."""
        for _ in range(beats_max):
            if is_done():
                return
            self.beat()
        raise AssertionError(f"not in {beats_max} beats\n{self.told()}")

    @property
    def commands(self) -> Sequence[Command]:
        """All of the ledger."""
        return self.ledger.commands(live_only=False)

    def has_settled(self) -> bool:
        """Whether there was something to do and all of it has come true."""
        return bool(self.commands) and all(one.state is CommandState.SETTLED for one in self.commands)

    def told(self) -> str:
        """Commands, refusals and writes, for a failing test."""
        commands = [f"{one.name} {one.state}: {one.reason}" for one in self.commands]
        refusals = [one.sentence for one in self.plan.refusals] if self.plan else []
        return "\n".join([*commands, *refusals, *(f"{line.what} ({line.why})" for line in self.lines)])

    def left(self) -> list[str]:
        """Everything of ours that the cluster bears; what lasts is in brackets."""
        found: list[str] = []
        for kind in self.kube.kinds:
            for one in self.kube.all(kind):
                meta, spec = one["metadata"], one.get("spec") or {}
                for hold in read_holds(meta.get("annotations") or {}, "trimtab"):
                    text = f"{meta['name']}: {' '.join(hold.what) or 'seats'}"
                    found.append(f"({text})" if hold.lasts else text)
                found += [f"{meta['name']} suspended"] if spec.get("suspend") else []
                taints = spec.get("taints") or () if kind == "nodes" else ()
                found += [f"{meta['name']} tainted" for taint in taints if taint["key"].startswith("trimtab/")]
        return found
