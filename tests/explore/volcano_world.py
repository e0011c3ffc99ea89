"""The whole path over Volcano's stand-in, to be explored: reader, planner, issuer, adapter on the fake API."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tests.builders import a_finding
from tests.cluster.volcano.world import Saved as Parts
from tests.explore.kueue_world import KueueWorld
from tests.fakes.kube_store import State
from tests.fakes.ledger import FakeLedger
from tests.schedulers.kueue_world import FakeMirror
from tests.schedulers.rebalancing import Rebalancing
from tests.schedulers.volcano_hall import SPACE, Hall, vcjob

from trimtab.issue.issuer import Issuer
from trimtab.model.advice import OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Mode
from trimtab.plan.planner import Planner
from trimtab.schedulers.reader import KubernetesReader
from trimtab.settings import IssueSettings, PlanSettings

GO_ON_SECONDS = 5.0


@dataclass(frozen=True)
class KeptHall:
    """A hall to be begun from again."""

    parts: Parts
    at: datetime
    findings: tuple[OpenFinding, ...]

    @property
    def state(self) -> State:
        return self.parts.objects


class VolcanoRig(Rebalancing):
    """A gang of four whole nodes in one of the racks, a bad node under it, and a daemon in mode act."""

    def __init__(self, *, policies: Sequence[Any] = (), racks: int = 2, per_rack: int = 5) -> None:
        self.hall = Hall(racks=racks, per_rack=per_rack)
        self.kube, self.clock, self.settings = self.hall.kube, self.hall.world.clock, self.hall.desk.settings
        self.ledger = FakeLedger()
        self.findings: list[OpenFinding] = []
        self._kept: KeptHall | None = None
        """What the rig was taken up from, until Volcano has gone on from there."""
        self.hall.run(vcjob("train", policies=policies))
        self.bad_node = self.hall.nodes_of()["train-worker-0"]
        self.findings.append(a_finding(id=1, node=self.bad_node))
        self.start()

    def start(self) -> None:
        """A daemon that remembers nothing but its ledger."""
        mirror = FakeMirror(self.kube)
        self.reader = KubernetesReader(
            mirror, api=self.kube, settings=self.settings, cluster="hall-a", clock=self.clock
        )
        adapter = type(self.hall.adapter)(self.hall.desk.pen, lambda: self.reader.view, self.settings, self.clock)
        plan = PlanSettings(is_finding_needed_to_make_room=False, spares_kept=0)

        def opinion(move: Any, snapshot: ClusterSnapshot) -> Any:
            return adapter.refusal(move, snapshot) if move.controller == "volcano" else None

        self.planner = Planner(plan, adapter_rule=opinion)
        issue = IssueSettings(mode=Mode.ACT, breaker_ratio=1.0)
        self.issuer = Issuer(ledger=self.ledger, schedulers={"volcano": adapter}, settings=issue, clock=self.clock)

    def keep(self) -> KeptHall:
        """The cluster as it is, to be begun from again. What Volcano has in mind changes only while it goes on."""
        if self._kept is None:
            return KeptHall(self.hall.world.save(), self.clock.now(), tuple(self.findings))
        moment = (self.clock.monotonic_seconds(), self._kept.parts.moment[1])
        parts = Parts(self.kube.snapshot(), self._kept.parts.parts, moment)
        return KeptHall(parts, self.clock.now(), tuple(self.findings))

    def again(self, kept: KeptHall) -> None:
        """The cluster as it was, and a daemon with an empty ledger."""
        self._kept = kept
        self.kube.restore(kept.state)
        self.clock.advance(kept.parts.moment[0] - self.clock.monotonic_seconds())
        self.clock.jump((kept.at - self.clock.now()).total_seconds())
        self.findings, self.ledger = list(kept.findings), FakeLedger()
        self.start()

    def go_on(self) -> None:
        """Volcano and the kubelets act for a while, with in mind what they had when this was kept."""
        if self._kept is not None:
            present, at, seconds = self.kube.snapshot(), self.clock.now(), self.clock.monotonic_seconds()
            self.hall.world.restore(self._kept.parts)
            self.kube.restore(present)
            self.clock.advance(seconds - self.clock.monotonic_seconds())
            self.clock.jump((at - self.clock.now()).total_seconds())
            self._kept = None
        self.hall.advance(GO_ON_SECONDS)

    def left(self) -> list[str]:
        """Everything of ours that the cluster bears; a cordon, which may last, is in brackets."""
        found = []
        for one in self.hall.ours():
            node = self.kube.see(f"/api/v1/nodes/{one.partition(':')[0]}")
            signed = ((node or {}).get("metadata", {}).get("annotations") or {}).get("trimtab/hold", "")
            is_cordon = '"lasts":true' in signed and "trimtab/hold" in one
            found.append(f"({one})" if is_cordon else one)
        specs = [one["spec"] for one in self.kube.all("jobs.batch.volcano.sh")]
        return found + ["train is at zero" for one in specs if not sum(task["replicas"] for task in one["tasks"])]


class VolcanoWorld(KueueWorld):
    """One state, on the rig that all of them share."""

    keeps_log = True
    """Volcano's parts read it, as they would a watch."""

    def go_on(self) -> None:
        self.rig.go_on()

    def jobs(self) -> Iterator[tuple[str, str]]:
        path = f"/apis/batch.volcano.sh/v1alpha1/namespaces/{SPACE}/jobs/train"
        if self.rig.kube.see(path) is not None:
            yield "train", path
