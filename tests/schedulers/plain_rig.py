"""A small hall of plain Kubernetes with the whole path on it: reader, planner, issuer, adapter, by the beat."""

from __future__ import annotations

from typing import Any

from tests.fakes.clock import FakeClock
from tests.fakes.kube import FakeKube
from tests.fakes.ledger import FakeLedger
from tests.schedulers.kueue_world import FakeMirror
from tests.schedulers.plain_hall import PlainHall
from tests.schedulers.rebalancing import Rebalancing

from trimtab.issue.issuer import Issuer
from trimtab.model.advice import OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import AuditLine, Mode, Plan
from trimtab.plan.planner import Planner
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.plain import Plain
from trimtab.schedulers.reader import KubernetesReader
from trimtab.settings import IssueSettings, KubernetesSettings, PlanSettings

BEAT_SECONDS = 5.0
PLAN = PlanSettings(is_finding_needed_to_make_room=False, spares_kept=0)
ISSUE = IssueSettings(mode=Mode.ACT, breaker_ratio=1.0)


class PlainRig(Rebalancing):
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

    def beat(self) -> None:
        """One beat of the daemon, then everybody else acts once."""
        self.clock.advance(BEAT_SECONDS)
        self.decide(self.reader.snapshot())
        self.hall.step()

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
