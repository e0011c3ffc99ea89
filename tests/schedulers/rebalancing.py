"""What every small hall with the whole path on it shares: a beat's decision, waiting by the beat, and what was said."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from tests.builders import a_finding
from tests.fakes.clock import FakeClock
from tests.fakes.kube import FakeKube
from tests.fakes.ledger import FakeLedger

from trimtab.issue.issuer import Issuer
from trimtab.model.advice import OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import AuditLine, Budget, Command, CommandState, Plan
from trimtab.plan.planner import Planner


@dataclass(frozen=True)
class Kept:
    """A cluster that can be begun from again."""

    state: Any
    at: datetime
    findings: tuple[OpenFinding, ...]


class Rebalancing:
    """A daemon's rebalance beat over a cluster in memory; the hall says who else acts, and makes the daemon."""

    clock: FakeClock
    kube: FakeKube
    ledger: FakeLedger
    lines: list[AuditLine]
    findings: list[OpenFinding]
    plan: Plan | None
    planner: Planner
    issuer: Issuer

    def start(self) -> None:
        """A daemon that remembers nothing but its ledger."""
        raise NotImplementedError

    def beat(self) -> None:
        """One beat of the daemon, then of everybody else."""
        raise NotImplementedError

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

    def is_over(self) -> bool:
        """Whether there was something to do and nothing of it is under way."""
        return bool(self.commands) and all(one.state.is_over for one in self.commands)

    def told(self) -> str:
        """Commands, refusals and writes, for a failing test."""
        commands = [f"{one.name} {one.state}: {one.reason}" for one in self.commands]
        refusals = [one.sentence for one in self.plan.refusals] if self.plan else []
        return "\n".join([*commands, *refusals, *(f"{line.what} ({line.why})" for line in self.lines)])
