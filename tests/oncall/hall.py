"""On-call over a real history, a clock that stands still, and targets that take what they are told to take."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from random import Random
from typing import Any

from tests.builders import CLUSTER, a_finding
from tests.fakes.clock import FakeClock

from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.oncall import Incident, Message, Pager, Target, Thread, Verb
from trimtab.settings.oncall import OnCallSettings
from trimtab.show.oncall.bell import Bell
from trimtab.show.oncall.delivery import Deliverer, DeliveryCounts
from trimtab.show.oncall.letters import Letters
from trimtab.show.oncall.pager import Arbiter
from trimtab.show.oncall.routes import Router
from trimtab.show.oncall.sender import Dead, Delivered, TryAgain
from trimtab.show.oncall.wording import Frame
from trimtab.store.database import open_database
from trimtab.store.history import History


class FakeSender:
    """Takes messages, or does what it is told to do first."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.name = target.name
        self.taken: list[Message] = []
        self.threads: list[Thread | None] = []
        self.first: list[Exception] = []
        self.down: Exception | None = None

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        if self.first:
            error = self.first.pop(0)
            if getattr(error, "may_have_arrived", False):
                self.taken.append(message)
            raise error
        if self.down is not None:
            raise self.down
        self.taken.append(message)
        self.threads.append(thread)
        root = thread or Thread(root=f"{self.name}-{len(self.taken)}")
        return Delivered(remote_id=f"{self.name}-{len(self.taken)}", thread=root)

    @property
    def pages(self) -> list[Message]:
        return [message for message in self.taken if message.verb is Verb.OPEN]

    def story(self, incident: str | None = None) -> list[str]:
        """`open I1`, `update I1 loud` …, in order."""
        said = []
        for message in self.taken:
            name = message.facts["incident"]
            if incident in (None, name):
                said.append(f"{message.verb} {name}{' loud' if message.is_loud else ''}")
        return said


@dataclass(frozen=True)
class Judged:
    at: datetime
    after: Sequence[OpenFinding] = ()
    opened: Sequence[OpenFinding] = ()
    changed: Sequence[OpenFinding] = ()
    closed: Sequence[OpenFinding] = ()
    touched: Sequence[OpenFinding] = ()


class Silences:
    """Keeps quiet what it was told to."""

    def __init__(self) -> None:
        self.why: dict[str, str] = {}

    def why_quiet(self, incident: Incident, now: datetime) -> str | None:
        return self.why.get(incident.incident) or self.why.get("*")


PAGER = Target(name="pd", kind="pagerduty", is_pager=True, is_repeat_visible=False)
CHAT = Target(name="chat", kind="slack")


class Hall:
    """One daemon's on-call. `judge` is a beat: the findings that stand, and those that closed."""

    def __init__(
        self, directory: Path, *targets: Target, settings: OnCallSettings | None = None, url: str | None = None
    ) -> None:
        self.clock = FakeClock()
        self.directory = directory
        self.settings = settings or OnCallSettings(quiet_update_seconds=0.0)
        self.senders = {target.name: FakeSender(target) for target in (targets or (PAGER,))}
        self.quiet = Silences()
        self.counts = DeliveryCounts()
        self.url = url or f"sqlite:///{directory}/trimtab.db"
        self.nexts: dict[str, str] = {}
        self.start()

    def start(self) -> None:
        """A daemon starts: memory, bell and deliverers anew."""
        self.database = open_database(self.url, state_directory=self.directory)
        self.history = History(self.database, cluster=CLUSTER)
        targets = {name: sender.target for name, sender in self.senders.items()}
        self.arbiter = Arbiter(setting=self.settings.pager, switch=self.history)
        frame = Frame(page_url="https://trimtab.example")
        self.bell = Bell(
            cluster=CLUSTER,
            settings=self.settings,
            memory=self.history,
            router=Router(self.settings, targets),
            letters=Letters(lambda: frame, targets, quiet_update_seconds=self.settings.quiet_update_seconds),
            arbiter=self.arbiter,
            quiet=self.quiet,
        )
        self.deliverers = [self.deliverer(sender) for sender in self.senders.values()]

    def start_over(self) -> None:
        """The same with another clock or other settings."""
        self.stop()
        self.start()

    def deliverer(self, sender: Any, *, owner: str = "here/1") -> Deliverer:
        return Deliverer(
            sender,
            outbox=self.history,
            settings=self.settings,
            clock=self.clock,
            owner=owner,
            counts=self.counts,
            next_target=self.nexts.get(sender.name, ""),
            per_minute_max=6000,
            random=Random(7),
        )

    def judge(
        self, *standing: OpenFinding, closed: Iterable[OpenFinding] = (), snapshot: ClusterSnapshot | None = None
    ) -> None:
        judged = Judged(at=self.clock.now(), after=standing, opened=standing, closed=tuple(closed))
        self.history.record_findings(judged, self.bell.hear(judged, snapshot))

    def deliver(self) -> None:
        for deliverer in self.deliverers:
            deliverer.tick()

    def beat(self, *standing: OpenFinding, closed: Iterable[OpenFinding] = (), seconds: float = 5.0) -> None:
        """Judge, deliver, and let time pass."""
        self.judge(*standing, closed=closed)
        self.deliver()
        self.clock.advance(seconds)

    def end(self, *findings: OpenFinding, standing: Sequence[OpenFinding] = (), seconds: float = 5.0) -> None:
        """These findings close."""
        now = self.clock.now()
        closed = [
            replace(one, state=FindingState.CLOSED, closed_at=now, close_reason="well for 10 min") for one in findings
        ]
        self.beat(*standing, closed=closed, seconds=seconds)

    def stop(self) -> None:
        self.database.close()

    @property
    def pd(self) -> FakeSender:
        return self.senders["pd"]

    @property
    def chat(self) -> FakeSender:
        return self.senders["chat"]

    def flip(self, pager: Pager) -> None:
        self.arbiter.flip(pager, who="ann", why="test", at=self.clock.now())


def a_fault(number: int = 1, **changes: Any) -> OpenFinding:
    """A critical fault that hits nobody unless said otherwise."""
    return a_finding(id=number, **{"incident": f"device:gpu-00/{number}", **changes})


REFUSED = "answered 503"


def down() -> TryAgain:
    return TryAgain(REFUSED)


def lost_answer() -> TryAgain:
    return TryAgain("no answer: ReadTimeout", may_have_arrived=True)


def dead() -> Dead:
    return Dead("answered 400")
