"""Two racks of five nodes beside Volcano's stand-in on a real API server: reader, planner, issuer and our adapter."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from tests.builders import a_finding
from tests.cluster.client import Json, wait_for
from tests.cluster.plane import Plane
from tests.cluster.volcano.standin import Standin
from tests.cluster.volcano.webhook_server import WebhookServer
from tests.cluster.volcano.world import node
from tests.fakes.ledger import FakeLedger
from tests.schedulers.hands import Desk
from tests.schedulers.volcano_hall import rack_node

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerUnavailable
from trimtab.issue.arrival import is_settled
from trimtab.issue.issuer import Issuer
from trimtab.issue.look import is_held
from trimtab.model.advice import OpenFinding
from trimtab.model.cluster import ClusterSnapshot, Workload
from trimtab.model.command import Budget, Command, CommandState, Mode, Move, Refusal
from trimtab.plan.planner import Planner
from trimtab.schedulers.connect import connect
from trimtab.schedulers.mirror import Mirror
from trimtab.schedulers.reader import KubernetesReader
from trimtab.schedulers.volcano import VolcanoScheduler
from trimtab.settings import IssueSettings, KubernetesSettings, PlanSettings

SPACE = "team-a"
JOBS = "batch.volcano.sh/v1alpha1/jobs"
DEADLINE_SECONDS = 90.0
BEAT_SECONDS = 1.0
RACKS = {f"rack-{rack}": [f"n{5 * rack - 5 + number:02}" for number in range(1, 6)] for rack in (1, 2)}


@dataclass
class Hall:
    """Two racks of five nodes × 8 GPUs, the reader, the adapter, and what drives it as the issuer does."""

    plane: Plane
    standin: Standin
    reader: KubernetesReader
    desk: Desk
    adapter: VolcanoScheduler
    most_retries: dict[str, int] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)

    def snapshot(self) -> ClusterSnapshot:
        """The reader's, as soon as it is whole."""

        def whole() -> ClusterSnapshot | None:
            try:
                return self.reader.snapshot()
            except SchedulerUnavailable:
                return None

        found = wait_for(whole, "a whole snapshot", deadline_seconds=DEADLINE_SECONDS)
        assert found is not None
        for job in self.plane.client.list(JOBS, SPACE):
            retries = int((job.get("status") or {}).get("retryCount", 0))
            name = job["metadata"]["name"]
            self.most_retries[name] = max(self.most_retries.get(name, 0), retries)
        return found

    def run(self, body: Json, *, is_running: bool = True) -> str:
        """Create a job; by default wait until the reader sees it run."""
        self.plane.client.create(JOBS, body)
        workload = f"{SPACE}/vcjob/{body['metadata']['name']}"
        if is_running:
            wanted = sum(task["replicas"] for task in body["spec"]["tasks"])
            self.until(lambda: len(self.seats(workload)) == wanted, f"{workload} runs")
        return workload

    def until(self, is_there: Callable[[], bool], what: str) -> None:
        wait_for(is_there, what, deadline_seconds=DEADLINE_SECONDS)

    def workload(self, workload: str) -> Workload | None:
        return self.snapshot().workload_by_id.get(workload)

    def seats(self, workload: str) -> dict[str, str]:
        """Pod -> node, once it is seen to run."""
        found = self.workload(workload)
        if found is None or found.state.value != "running":
            return {}
        return {placement.pod: placement.node for placement in found.placements}

    def uids(self, name: str) -> dict[str, str]:
        pods = self.plane.client.list("pods", SPACE)
        return {
            pod["metadata"]["name"]: pod["metadata"]["uid"]
            for pod in pods
            if pod["metadata"]["labels"].get("volcano.sh/job-name") == name
        }

    def cordon(self, name: str) -> None:
        """As a person does."""
        self.plane.client.patch("nodes", name, {"spec": {"unschedulable": True}}, fieldManager="kubectl-cordon")

    def run_on(self, body: Json, name: str) -> str:
        """Run a job on one node, by closing the others meanwhile."""
        nodes = {
            one["metadata"]["name"]: one["spec"].get("unschedulable", False) for one in self.plane.client.list("nodes")
        }
        others = [other for other, is_closed in nodes.items() if other != name and not is_closed]
        for other in others:
            self.cordon(other)
        workload = self.run(body)
        for other in others:
            self.plane.client.patch("nodes", other, {"spec": {"unschedulable": None}})
        return workload

    def job(self, name: str = "train") -> Json:
        found: Json = self.plane.client.get(JOBS, name, SPACE)
        return found

    def carry_out(self, command: Command) -> Command:
        """Hold until it is seen, submit every beat until it is seen to be settled, release; the settled command."""
        self.until(lambda: self._went(self.adapter.hold, command), "the hold is written")
        self.until(lambda: is_held(command, self.snapshot()), "the hold is seen")
        command = replace(command, submitted_at=SystemClock().now())

        def is_over() -> bool:
            if is_settled(command, self.snapshot()):
                return True
            self._went(self.adapter.submit, command)
            return False

        self.until(is_over, f"settled; said: {self.said[-2:]}")
        return self.give_back(replace(command, state=CommandState.SETTLED))

    def give_back(self, command: Command) -> Command:
        """Release until no snapshot shows anything of it but what lasts."""

        def is_back() -> bool:
            self._went(self.adapter.release, command)
            snapshot = self.snapshot()
            held = [one for one in snapshot.held if one.mark == command.mark and not one.lasts]
            kept = [one for one in snapshot.reservations if one.command == command.mark]
            stopped = [one for one in snapshot.workloads if one.suspended_by == command.mark]
            return not (held or kept or stopped)

        self.until(is_back, "everything given back")
        return command

    def _went(self, write: Callable[[Command], None], command: Command) -> bool:
        try:
            write(command)
        except (SchedulerBusy, SchedulerConflict, SchedulerUnavailable) as error:
            self.said.append(str(error))
            return False
        return True

    def clear(self) -> None:
        """No jobs, nodes open and bare."""
        client = self.plane.client
        self.standin.start()
        for one in client.list(JOBS, SPACE):
            client.delete(JOBS, one["metadata"]["name"], SPACE)
        for one in client.list("nodes"):
            bare: dict[str, Any] = {"spec": {"unschedulable": None, "taints": None}}
            bare["metadata"] = {"annotations": {"trimtab/hold": None}}
            client.patch("nodes", one["metadata"]["name"], bare)
        self.until(lambda: not client.list("pods", SPACE), "no pods")
        self.until(lambda: not self.snapshot().workloads, "nothing is seen any more")
        self.most_retries.clear()
        self.said.clear()


class Daemon:
    """What the daemon does each beat, in mode act: plan by what the reader sees, and one step of what is agreed."""

    def __init__(self, hall: Hall) -> None:
        self.hall, self.clock = hall, SystemClock()
        plan = PlanSettings(is_finding_needed_to_make_room=False, spares_kept=0)
        self.planner = Planner(plan, adapter_rule=self._opinion)
        self.ledger = FakeLedger()
        issue = IssueSettings(mode=Mode.ACT, breaker_ratio=1.0)
        schedulers = {"volcano": hall.adapter}
        self.issuer = Issuer(ledger=self.ledger, schedulers=schedulers, settings=issue, clock=self.clock)
        self.findings: list[OpenFinding] = []
        self.sentences: list[str] = []
        self._next_seconds = 0.0

    def _opinion(self, move: Move, snapshot: ClusterSnapshot) -> Refusal | None:
        return self.hall.adapter.refusal(move, snapshot)

    @property
    def commands(self) -> Sequence[Command]:
        return self.ledger.commands(live_only=False)

    def bad(self, name: str) -> None:
        """XID 79 on a node, from now on."""
        now = self.clock.now()
        self.findings.append(replace(a_finding(node=name), opened_at=now, changed_at=now, last_seen_at=now))

    def beat(self) -> None:
        snapshot = self.hall.snapshot()
        self.findings = [replace(one, last_seen_at=snapshot.taken_at) for one in self.findings]
        live = self.ledger.commands(live_only=True)
        standing = [one.recommendation for one in live if one.state in (CommandState.PROPOSED, CommandState.APPROVED)]
        plan = self.planner.propose(snapshot, self.findings, Budget(), standing)
        advance = self.issuer.advance(plan, snapshot, findings=self.findings)
        self.sentences.append(" | ".join([advance.sentence, *(one.sentence for one in plan.refusals)]))

    def run_until(self, is_done: Callable[[], object], what: str) -> None:
        """Beats, a second apart, until it is so."""

        def step() -> bool:
            if time.monotonic() >= self._next_seconds:
                self._next_seconds = time.monotonic() + BEAT_SECONDS
                self.beat()
            return bool(is_done())

        try:
            wait_for(step, what, deadline_seconds=DEADLINE_SECONDS)
        except AssertionError as error:
            seen = [f"{one.id} {one.state} {one.nodes} {one.waiting_reason}" for one in self.hall.snapshot().workloads]
            told = [str(error), *seen, *self.sentences[-8:], *self.hall.desk.said[-30:]]
            raise AssertionError("\n".join(told)) from error

    def is_over(self) -> bool:
        """Whether something was begun, and nothing is under way or proposed any more."""
        return any(one.state.is_over for one in self.commands) and all(one.state.is_over for one in self.commands)

    def has_settled(self) -> bool:
        """Whether something was carried out, all of it well."""
        over = [one for one in self.commands if one.state.is_over]
        assert all(one.state is CommandState.SETTLED for one in over), [f"{one.state}: {one.reason}" for one in over]
        return bool(over) and len(over) == len(self.commands)


@contextmanager
def a_hall(plane: Plane) -> Iterator[Hall]:
    """The hall on a plane that has Volcano's kinds and no node yet."""
    client = plane.client
    client.create("namespaces", {"metadata": {"name": SPACE}})
    for rack, names in RACKS.items():
        client.create("topology.volcano.sh/v1alpha1/hypernodes", rack_node(rack, 0, int(names[0][1:]), 5))
        for name in names:
            made = node(name, rack=rack, gpus=8)
            status = made.pop("status")
            client.create("nodes", made)
            client.patch("nodes", name, {"status": status}, kind="strategic", subresource="status")
    settings = KubernetesSettings(kubeconfig=str(plane.admin_kubeconfig))
    standin = Standin(client)
    webhook = WebhookServer(client, standin.api, certificates=plane.certificates)
    standin.start()
    mirror, api = Mirror(connect(settings), settings, SystemClock()), connect(settings)
    mirror.start()
    reader = KubernetesReader(mirror, api=api, settings=settings, cluster="hall-a", clock=SystemClock())
    desk = Desk(api, clock=SystemClock(), settings=settings)
    adapter = VolcanoScheduler(desk.pen, lambda: reader.view, settings, SystemClock())
    yield Hall(plane, standin, reader, desk, adapter)
    mirror.stop()
    api.close()
    webhook.stop()
    standin.stop()


def rack_of(seats: dict[str, str]) -> str:
    """The one rack of these seats."""
    (rack,) = {rack for rack, names in RACKS.items() for node in seats.values() if node in names}
    return rack


def spare_of(seats: dict[str, str]) -> str:
    return next(name for name in RACKS[rack_of(seats)] if name not in seats.values())
