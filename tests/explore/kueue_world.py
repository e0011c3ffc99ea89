"""The whole path over Kueue's stand-in, as a world to be explored: reader, planner, issuer, adapter on the fake API.

A state is the server's objects, the ledger and the clock; one rig carries them all and takes up whichever is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.explore.faults import Faulty
from tests.fakes.ledger import FakeLedger
from tests.schedulers.kueue_world import SPACE

from trimtab.clock import iso
from trimtab.errors import DecisionRefused, SchedulerGone
from trimtab.issue import decisions
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command

WAIT_SECONDS = 2000.0
PERSON = "kubectl-cordon"
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
UID = re.compile(r"00000000-0000-4000-8000-\d{12}")
POD = re.compile(r"(-\d+)-[0-9a-z]{5}(?=[\"\\ ])")


@dataclass
class Saved:
    """Everything that a daemon and its cluster are made of."""

    kept: Any
    """What the rig keeps and takes up again; its `state` is the server's."""
    stored: dict[int, Command] = field(default_factory=dict)
    facts: dict = field(default_factory=dict)
    is_paused: bool = False
    person: dict[str, str] = field(default_factory=dict)
    """Node -> what a person did to it, which must stay so."""


class KueueWorld(Faulty):
    """One state, on the rig that all of them share. `nodes` are those that an operator may touch."""

    keeps_log = False

    def __init__(self, rig: Any, saved: Saved, nodes: tuple[str, ...]) -> None:
        self.rig, self.saved, self.nodes = rig, saved, nodes
        self._key: Hashable = None

    @classmethod
    def of(cls, rig: Any, nodes: tuple[str, ...]) -> KueueWorld:
        """The rig as it stands."""
        rig.kube.keeps_log = cls.keeps_log
        return cls(rig, Saved(rig.keep()), nodes)

    # --- what it is

    def key(self) -> Hashable:
        if self._key is None:
            self.take_up()
            commands = "\n".join(_command_text(one, self.rig.clock.now()) for one in self.saved.stored.values())
            facts = sorted(f"{kind} {name}" for kind, name in self.saved.facts)
            rest = f"{facts} {self.saved.is_paused} {sorted(self.saved.person.items())}"
            objects = "\n".join(filter(None, self.rig.kube.state_key(_without_events).split("\n")))
            self._key = _plain(f"{objects}\n{commands}\n{rest}")
        return self._key

    def fork(self) -> KueueWorld:
        return type(self)(self.rig, _copied(self.saved), self.nodes)

    def take_up(self) -> None:
        """The rig becomes this state, with a daemon that has just been started."""
        rig, saved = self.rig, self.saved
        rig.kube.at_point = lambda _: None
        rig.again(saved.kept)
        rig.ledger.stored, rig.ledger.facts = dict(saved.stored), dict(saved.facts)
        rig.ledger.paused = saved.is_paused

    def put_down(self) -> None:
        """This state becomes the rig."""
        self._key = None
        self.saved = self.now()

    def now(self) -> Saved:
        ledger: FakeLedger = self.rig.ledger
        return Saved(self.rig.keep(), dict(ledger.stored), dict(ledger.facts), ledger.paused, dict(self.saved.person))

    # --- what can happen

    def steps(self) -> Iterator[tuple[str, KueueWorld]]:
        yield "the cluster goes on", self._after(lambda world: world.go_on())
        yield "beat", self._after(lambda world: world.beat_once())

    def go_on(self) -> None:
        """Everybody but the daemon acts until all is still."""
        self.rig.kueue.settle()

    def jobs(self) -> Iterator[tuple[str, str]]:
        """Names and addresses of what an operator may delete."""
        for job in self.rig.kube.all("jobs.batch"):
            name = job["metadata"]["name"]
            yield name, f"/apis/batch/v1/namespaces/{SPACE}/jobs/{name}"

    def quiet(self) -> None:
        self.take_up()
        self.beat_once()
        self.go_on()
        self.put_down()

    def wait(self) -> None:
        self.take_up()
        self.rig.clock.advance(WAIT_SECONDS)
        self.put_down()

    def acts(self) -> Iterator[tuple[str, KueueWorld]]:
        for name, do in self._acts():
            with suppress(DecisionRefused, SchedulerGone):
                yield name, self._after(do)

    def beat_once(self, late: Saved | None = None) -> None:
        """One beat of the daemon; on a look at an older state where one is given."""
        rig = self.rig
        rig.clock.advance(5.0)
        present = rig.kube.snapshot()
        if late is not None:
            rig.kube.restore(late.kept.state)
        snapshot = rig.reader.snapshot()
        rig.kube.restore(present)
        self.decide(snapshot)

    def decide(self, snapshot: ClusterSnapshot) -> None:
        """What the daemon makes of a snapshot."""
        rig = self.rig
        if rig.settings.admission_check:
            rig.check.step()
        rig.decide(snapshot)

    # --- what must hold

    def problems(self) -> list[str]:
        found = []
        self.take_up()
        for name, what in self.saved.person.items():
            node = self.rig.kube.see(f"/api/v1/nodes/{name}")
            is_closed = bool(node and node["spec"].get("unschedulable"))
            if what == "cordoned" and not is_closed:
                found.append(f"{name} was cordoned by a person and is not any more")
            if what == "opened" and is_closed:
                found.append(f"{name} was opened by a person and is cordoned")
        return found

    def problems_at_rest(self) -> list[str]:
        self.take_up()
        found = [f"{one.name} is {one.state}" for one in self.saved.stored.values() if one.state.is_begun]
        is_holding = any(one.is_holding for one in self.saved.stored.values())
        # Seats of work that runs on them stay: its pods select them (our check gives them, by no command).
        seats = [one for one in self.rig.left() if one.startswith("(") and "trimtab/seat" in one]
        found += [one for one in self.rig.left() if not (one.startswith("(") and is_holding) and one not in seats]
        return found

    # --- inside

    def _after(self, do: Callable[[KueueWorld], object]) -> KueueWorld:
        made = self.fork()
        made.take_up()
        do(made)
        made.put_down()
        return made

    def _acts(self) -> Iterator[tuple[str, Callable[[KueueWorld], object]]]:
        for name in self.nodes:
            node = self.rig.kube.see(f"/api/v1/nodes/{name}") if self.take_up() is None else None
            if node is None:
                continue
            if node["spec"].get("unschedulable"):
                yield f"uncordon {name}", lambda world, name=name: world._uncordon(name)
            else:
                yield f"cordon {name}", lambda world, name=name: world._cordon(name)
        self.take_up()
        for name, path in self.jobs():
            yield f"delete {name}", lambda world, path=path: world._delete(path)
        for number in self.saved.stored:
            yield (
                f"undo R{number}",
                lambda world, number=number: decisions.undo(
                    world.rig.ledger, number, reason="", who="mei", now=world.rig.clock.now()
                ),
            )
        if not self.saved.is_paused:
            yield "pause", lambda world: setattr(world.rig.ledger, "paused", True)

    def _cordon(self, name: str) -> None:
        self.rig.kube.edit(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": True}}, by=PERSON)
        self.saved.person[name] = "cordoned"

    def _uncordon(self, name: str) -> None:
        is_theirs = self.saved.person.pop(name, None) == "cordoned"
        self.rig.kube.edit(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}}, by=PERSON)
        meant = [one for one in self.saved.stored.values() if one.state.is_begun or one.is_holding]
        if not is_theirs and any(write.lasts and write.node == name for one in meant for write in
                                 one.recommendation.writes):  # fmt: skip
            self.saved.person[name] = "opened"

    def _delete(self, path: str) -> None:
        self.rig.kube.remove(path)


def _copied(saved: Saved) -> Saved:
    return Saved(saved.kept, dict(saved.stored), dict(saved.facts), saved.is_paused, dict(saved.person))


def _command_text(command: Command, now: datetime) -> str:
    moments = [
        iso(one) if one else ""
        for one in (command.changed_at, command.submitted_at, command.settled_at, command.questioned_at)
    ]
    age = int((now - command.changed_at).total_seconds() // WAIT_SECONDS)
    advice = command.recommendation
    return f"{command.id} {command.state} {advice.purpose} {advice.fingerprint} {moments} {age} " + (
        f"{command.undo_requested_by} {command.given_back_at is None}"
    )


def _without_events(key: tuple[str, str, str], one: Any) -> Any:
    """Nobody acts on events."""
    return None if key[0].startswith("events") else one


def _plain(text: str) -> str:
    """Moments by their order, generated names by their first appearance: two runs that behave alike read alike."""
    order = {moment: f"<{number}>" for number, moment in enumerate(sorted(set(MOMENT.findall(text))))}
    text = MOMENT.sub(lambda found: order[found[0]], text)
    names: dict[str, str] = {}
    text = UID.sub(lambda found: names.setdefault(found[0], f"uid{len(names)}"), text)
    return POD.sub(lambda found: f"{found[1]}-" + names.setdefault(found[0], f"pod{len(names)}"), text)
