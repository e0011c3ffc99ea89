"""The whole path on the real plane: mirror, reader, planner, issuer and Kueue's adapter, one beat after the other."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

from tests.builders import a_finding
from tests.cluster.client import wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.fakes.ledger import FakeLedger

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerError
from trimtab.issue.issuer import Issuer
from trimtab.model.advice import OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import AuditLine, Budget, Command, CommandState, Mode, Plan
from trimtab.plan.planner import Planner
from trimtab.schedulers.connect import connect
from trimtab.schedulers.kueue import KueueScheduler
from trimtab.schedulers.kueue_check import KueueCheck
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.mirror import Mirror
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.reader import KubernetesReader
from trimtab.settings import IssueSettings, KubernetesSettings, PlanSettings

BEAT_SECONDS = 0.7
REPLACEABLE = {"trimtab/replaceable-pods": "true"}


class Hall:
    """One space and a daemon's rebalancing on it, in mode act unless told otherwise."""

    def __init__(self, plane: Plane, space: Space, *, admission_check: str = "", mode: Mode = Mode.ACT) -> None:
        self.space = space
        self.clock = SystemClock()
        self.settings = KubernetesSettings(
            kubeconfig=str(plane.admin_kubeconfig),
            admission_check=admission_check,
            rack_labels=("topology.trimtab/rack",),
        )
        api = connect(self.settings)
        self.mirror = Mirror(connect(self.settings), self.settings, self.clock)
        self.reader = KubernetesReader(self.mirror, api=api, settings=self.settings, cluster="hall-a", clock=self.clock)
        self.lines: list[AuditLine] = []
        self.pen = Pen(api=api, clock=self.clock, audit=self.lines.append)
        self.kueue = KueueScheduler(self.pen, lambda: self.reader.view, self.settings, self.clock)
        self.check = KueueCheck(pen=self.pen, view=lambda: self.reader.view, settings=self.settings, clock=self.clock)
        plan = PlanSettings(is_finding_needed_to_make_room=False, spares_kept=0)
        self.planner = Planner(plan, adapter_rule=self._opinion)
        self.ledger = FakeLedger()
        issue = IssueSettings(mode=mode, breaker_ratio=1.0, missed_quiet_seconds=3.0, retry_seconds=3.0)
        self.issuer = Issuer(ledger=self.ledger, schedulers={"kueue": self.kueue}, settings=issue, clock=self.clock)
        self.findings: list[OpenFinding] = []
        self.plan: Plan | None = None
        self._last = 0.0
        self._api = api
        self.mirror.start()

    def close(self) -> None:
        self.mirror.stop()
        self._api.close()

    def _opinion(self, move, snapshot):  # type: ignore[no-untyped-def]  # the rule's shape is the planner's
        return self.kueue.refusal(move, snapshot) if move.controller == "kueue" else None

    # --- beats

    def snapshot(self) -> ClusterSnapshot:
        """A whole snapshot, awaited where the mirror has just begun."""

        def whole() -> ClusterSnapshot | None:
            try:
                return self.reader.snapshot()
            except SchedulerError:
                return None

        return wait_for(whole, "a whole snapshot")

    def beat(self) -> None:
        """Look, answer the check, plan, one step."""
        snapshot = self.snapshot()
        self.check.step()
        self.findings = [replace(one, last_seen_at=snapshot.taken_at) for one in self.findings]
        self.plan = self.planner.propose(snapshot, self.findings, Budget(), self._standing())
        self.issuer.advance(self.plan, snapshot, findings=self.findings)

    def _standing(self) -> list:
        live = self.ledger.commands(live_only=True)
        return [one.recommendation for one in live if one.state in (CommandState.PROPOSED, CommandState.APPROVED)]

    def beat_until(
        self, is_done: Callable[[], object], what: str, *, deadline_seconds: float = 90.0, may_fail: bool = False
    ) -> None:
        """Beats until something is so; the deadline's message tells what the commands said."""

        def step() -> bool:
            if is_done():
                return True
            lost = [one for one in self.commands if one.state.is_over and one.state is not CommandState.SETTLED]
            assert not lost or may_fail, f"{what}: a command came to nothing\n{self.told()}"
            if self.is_due:
                self._last = time.monotonic()
                self.beat()
            return False

        try:
            wait_for(step, what, deadline_seconds=deadline_seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.told()}") from error

    @property
    def is_due(self) -> bool:
        """Whether the next look beats."""
        return time.monotonic() - self._last >= BEAT_SECONDS

    def bad(self, node: str) -> None:
        """XID 79 on a node, open from now on."""
        now = self.clock.now()
        found = a_finding(id=len(self.findings) + 1, node=node)
        self.findings.append(replace(found, opened_at=now, changed_at=now, last_seen_at=now))

    # --- what came of it

    @property
    def commands(self) -> Sequence[Command]:
        return self.ledger.commands(live_only=False)

    def only(self) -> Command:
        """The one command that there is."""
        (found,) = self.commands
        return found

    def has_settled(self) -> bool:
        return bool(self.commands) and all(one.state is CommandState.SETTLED for one in self.commands)

    def is_over(self) -> bool:
        return bool(self.commands) and all(one.state.is_over for one in self.commands)

    def seconds_of(self, command: Command) -> float:
        """From the approval until it settled."""
        assert command.approved_at is not None
        assert command.settled_at is not None
        return (command.settled_at - command.approved_at).total_seconds()

    def told(self) -> str:
        """All that was written and decided, for a failure's message."""
        commands = [f"{one.name} {one.state}: {one.reason}" for one in self.commands]
        refusals = [one.sentence for one in self.plan.refusals] if self.plan else []
        written = [
            f"{_clock(line.at)} {line.what}" + (f" ({line.why})" if "not" in line.what else "") for line in self.lines
        ]
        return "\n".join([*commands, *refusals, *written[-60:]])

    def left(self) -> list[str]:
        """Everything of ours that the space still bears, in words; what lasts is in brackets."""
        found: list[str] = []
        for kind in ("nodes", "workloads", "clusterqueues", "localqueues", "jobs", "pods"):
            namespace = self.space.namespace if kind not in ("nodes", "clusterqueues") else None
            for one in self.space.client.list(kind, namespace):
                meta = one["metadata"]
                if not meta["name"].startswith(self.space.namespace) and namespace is None:
                    continue
                for hold in read_holds(meta.get("annotations", {}), "trimtab"):
                    text = f"{kind} {meta['name']}: {' '.join(hold.what) or 'seats'}"
                    found.append(f"({text})" if hold.lasts else text)
                if kind == "workloads" and one["spec"].get("active") is False:
                    found.append(f"{meta['name']} inactive")
                if "queues" in kind and one["spec"].get("stopPolicy", "None") != "None":
                    found.append(f"{meta['name']} on {one['spec']['stopPolicy']}")
        return found


def _clock(at: datetime) -> str:
    return at.strftime("%M:%S.%f")[:-3]
