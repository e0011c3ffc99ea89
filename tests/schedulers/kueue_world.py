"""The stand-in of Kueue with the whole path on it: reader, planner, issuer, adapter, check; one thread, by the beat."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from tests.cluster import objects
from tests.fakes.clock import FakeClock
from tests.fakes.kube import FakeKube
from tests.fakes.kueue import Kueue
from tests.fakes.ledger import FakeLedger
from tests.schedulers.rebalancing import Rebalancing

from trimtab.errors import SchedulerError
from trimtab.issue.issuer import Issuer
from trimtab.model.advice import OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import AuditLine, Mode, Plan
from trimtab.plan.planner import Planner
from trimtab.schedulers.kueue import KueueScheduler
from trimtab.schedulers.kueue_check import KueueCheck
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.mirror import Mirrored
from trimtab.schedulers.objects import Loose, NodeObject, Pod
from trimtab.schedulers.pen import Pen
from trimtab.schedulers.reader import KubernetesReader
from trimtab.settings import IssueSettings, KubernetesSettings, PlanSettings

Json = dict[str, Any]
SPACE = "team-a"
KUEUE = "/apis/kueue.x-k8s.io/v1beta2"
IN_A_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}
REPLACEABLE = {"trimtab/replaceable-pods": "true"}
CHECK = "trimtab"
BEAT_SECONDS = 5.0
UNREAD = ("selfsubjectaccessreviews", "leases", "events")


class FakeMirror:
    """The objects of the fake server as the mirror would have them."""

    def __init__(self, kube: FakeKube) -> None:
        self.kube = kube

    def doubt(self) -> None:
        """What it has is always of now."""

    def objects(self) -> Mirrored:
        """All of them as they are now."""
        others: dict[str, dict[str, Loose]] = {}
        for kind in self.kube.kinds:
            if kind not in ("nodes", "pods") and not kind.startswith(UNREAD):
                others[kind] = _keyed(self.kube.all(kind), Loose)
        return Mirrored(
            nodes=_keyed(self.kube.all("nodes"), NodeObject),
            pods=_keyed(self.kube.all("pods"), Pod),
            others=others,
            served={kind: served.versions[0] for kind, served in self.kube.kinds.items()},
        )


class World(Rebalancing):
    """Nodes n1 … in racks of `per_rack`, a queue `tas` and, with a check, a queue `seats`; a daemon in mode act."""

    def __init__(self, *, nodes: int = 10, per_rack: int = 5, gpus: int = 1000, has_check: bool = False) -> None:
        self.clock = FakeClock()
        self.kube = FakeKube(clock=self.clock)
        self.kueue = Kueue(self.kube)
        for number in range(nodes):
            self._add_node(f"n{number + 1}", f"r{number // per_rack + 1}")
        self.kube.add(objects.topology("dc"))
        self.kube.add(objects.flavor("tas", node_labels={objects.POOL: "a"}, topology_name="dc"))
        self.add_queue("tas", gpus=gpus)
        if has_check:
            self.kube.add(objects.admission_check(CHECK, controller="trimtab/seats"))
            self.add_queue("seats", gpus=gpus, checks=[CHECK])
        self.settings = KubernetesSettings(admission_check=CHECK if has_check else "", rack_labels=(objects.RACK,))
        self.ledger = FakeLedger()
        self.lines: list[AuditLine] = []
        self.findings: list[OpenFinding] = []
        self.plan: Plan | None = None
        self.is_read_by_daemon = True
        self.start()

    def _add_node(self, name: str, rack: str) -> None:
        made = objects.node(name, labels={objects.POOL: "a", objects.RACK: rack})
        self.kube.add({**made, **objects.node_status()})

    def start(self) -> None:
        """A daemon that remembers nothing but its ledger."""
        self.reader = KubernetesReader(
            FakeMirror(self.kube), api=self.kube, settings=self.settings, cluster="hall-a", clock=self.clock
        )
        self.pen = Pen(api=self.kube, clock=self.clock, audit=self.lines.append)
        self.adapter = KueueScheduler(self.pen, lambda: self.reader.view, self.settings, self.clock)
        self.check = KueueCheck(pen=self.pen, view=lambda: self.reader.view, settings=self.settings, clock=self.clock)
        plan = PlanSettings(is_finding_needed_to_make_room=False, spares_kept=0)
        self.planner = Planner(plan, adapter_rule=self._opinion)
        issue = IssueSettings(mode=Mode.ACT, breaker_ratio=1.0)
        self.issuer = Issuer(ledger=self.ledger, schedulers={"kueue": self.adapter}, settings=issue, clock=self.clock)

    def _opinion(self, move: Any, snapshot: ClusterSnapshot) -> Any:
        return self.adapter.refusal(move, snapshot) if move.controller == "kueue" else None

    # --- the cluster

    def add_queue(self, name: str, *, gpus: int = 1000, flavor: str = "tas", **options: Any) -> None:
        """A ClusterQueue and the LocalQueue of the same name."""
        made = objects.cluster_queue(name, flavors=[flavor], gpus=gpus, **options)
        self.kube.add(made)
        self.add_local(name, name)

    def add_local(self, name: str, queue: str) -> None:
        self.kube.add(objects.local_queue(name, SPACE, cluster_queue=queue))

    def gang(self, name: str, *, queue: str = "tas", **options: Any) -> None:
        """Create a job; Kueue sees it at the next step."""
        made = objects.gang(name, SPACE, queue=queue, **options)
        self.clock.advance(1)  # so that jobs have an age
        self.kube.post(f"/apis/batch/v1/namespaces/{SPACE}/jobs", made)

    def run_gang(self, name: str, **options: Any) -> list[str]:
        """The same, and all its pods run."""
        self.gang(name, **options)
        self.settle()
        assert self.seats(name), f"{name} does not run: {self.workload(name)}"
        return self.seats(name)

    def settle(self) -> None:
        """Kueue and its neighbours come to rest; where a check is asked for, the daemon answers."""
        self.kueue.settle()
        if self.settings.admission_check and self.is_read_by_daemon:
            for _ in range(4):
                self.reader.snapshot()
                self.check.step()
                self.kueue.settle()

    def seats(self, name: str) -> list[str]:
        """Nodes of its running pods."""
        pods = [pod for pod in self.pods(name) if pod["status"].get("phase") == "Running"]
        return sorted(pod["spec"]["nodeName"] for pod in pods if "deletionTimestamp" not in pod["metadata"])

    def pods(self, name: str) -> list[Json]:
        return [pod for pod in self.kube.all("pods") if pod["metadata"]["name"].startswith(f"{name}-")]

    def workload(self, name: str) -> Json:
        """Kueue's Workload of a job."""
        found = [
            one
            for one in self.kube.all("workloads.kueue.x-k8s.io")
            if one["metadata"]["ownerReferences"][0]["name"] == name
        ]
        return found[0]

    def path(self, name: str) -> str:
        """The address of a job's Workload."""
        return f"{KUEUE}/namespaces/{SPACE}/workloads/{self.workload(name)['metadata']['name']}"

    def queue(self, name: str, kind: str = "clusterqueues") -> Json:
        where = f"{KUEUE}/{kind}/{name}" if kind == "clusterqueues" else f"{KUEUE}/namespaces/{SPACE}/{kind}/{name}"
        found = self.kube.see(where)
        assert found is not None
        return found

    # --- the daemon

    def beat(self, *, is_settled: bool = True) -> None:
        """One beat of the daemon, then Kueue's world goes on until it rests."""
        self.clock.advance(BEAT_SECONDS)
        snapshot = self.reader.snapshot()
        if self.is_read_by_daemon:
            self.check.step()
        self.decide(snapshot)
        if is_settled:
            self.kueue.settle()

    @property
    def said(self) -> list[str]:
        """What was written, in order."""
        return [line.what for line in self.lines]

    def left(self) -> list[str]:
        """Everything of ours that the cluster bears; what lasts is in brackets."""
        found: list[str] = []
        for kind in self.kube.kinds:
            for one in self.kube.all(kind):
                meta, spec = one["metadata"], one.get("spec") or {}
                for hold in read_holds(meta.get("annotations") or {}, "trimtab"):
                    text = f"{meta['name']}: {' '.join(hold.what) or 'seats'}"
                    found.append(f"({text})" if hold.lasts else text)
                found += [f"{meta['name']} inactive"] if spec.get("active") is False else []
                found += [f"{meta['name']} held"] if spec.get("stopPolicy", "None") != "None" else []
        return found


def _keyed(items: Sequence[Json], kind: type[Any]) -> dict[str, Any]:
    found = msgspec.convert(items, tuple[kind, ...])  # type: ignore[valid-type]
    return {one.metadata.key: one for one in found}


def went(write: Callable[[], None]) -> str | None:
    """What a write was refused with, or None."""
    try:
        write()
    except SchedulerError as error:
        return str(error)
    return None
