"""The whole path over a small hall of plain Kubernetes, as a world to be explored: reader, planner, issuer, adapter.

A state is the server's objects, the ledger and the clock; one rig carries all of them, and takes up the one asked for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tests.explore.faults import Faulty
from tests.schedulers.plain_hall import KINDS, NAMESPACE
from tests.schedulers.plain_rig import BEAT_SECONDS, PlainRig
from tests.schedulers.rebalancing import Kept

from trimtab.clock import iso
from trimtab.errors import DecisionRefused, SchedulerGone
from trimtab.issue import decisions
from trimtab.model.command import Command
from trimtab.model.standing import Standing, StandingKind

WAIT_SECONDS = 2000.0
PERSON = "kubectl-cordon"
OTHERS_TAINT = {"key": "example.com/keep", "value": "off", "effect": "NoSchedule"}
MOMENT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z")
UID = re.compile(r"00000000-0000-4000-8000-\d{12}")
POD = re.compile(r"-0-\d{5}")


@dataclass
class Saved:
    """Everything that a daemon and its cluster are made of."""

    kept: Kept
    stored: dict[int, Command] = field(default_factory=dict)
    facts: dict[tuple[StandingKind, str], Standing] = field(default_factory=dict)
    is_paused: bool = False
    person: dict[str, str] = field(default_factory=dict)
    """`node n1`, `taint n1` or `job web` -> what a person did to it, which must stay so."""


class PlainWorld(Faulty):
    """One state, on the rig that all of them share. `nodes` are those that an operator may touch."""

    rig: PlainRig
    saved: Saved

    def __init__(self, rig: PlainRig, saved: Saved, nodes: tuple[str, ...]) -> None:
        self.rig, self.saved, self.nodes = rig, saved, nodes
        self._key: Hashable = None

    @classmethod
    def of(cls, rig: PlainRig, nodes: tuple[str, ...]) -> PlainWorld:
        """The rig as it stands."""
        rig.kube.keeps_log = False
        return cls(rig, Saved(rig.keep()), nodes)

    # --- what it is

    def key(self) -> Hashable:
        if self._key is None:
            self.take_up()
            commands = "\n".join(_command_text(one, self.rig.clock.now()) for one in self.saved.stored.values())
            facts = sorted(f"{kind} {name}" for kind, name in self.saved.facts)
            text = f"{self.rig.kube.state_key()}\n{commands}\n{facts} {self.saved.is_paused} {self.saved.person}"
            self._key = _plain(text)
        return self._key

    def fork(self) -> PlainWorld:
        saved = self.saved
        copied = Saved(saved.kept, dict(saved.stored), dict(saved.facts), saved.is_paused, dict(saved.person))
        return PlainWorld(self.rig, copied, self.nodes)

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
        """The rig as a state."""
        ledger = self.rig.ledger
        person = dict(self.saved.person)
        return Saved(self.rig.keep(), dict(ledger.stored), dict(ledger.facts), ledger.paused, person)

    # --- what can happen

    def steps(self) -> Iterator[tuple[str, PlainWorld]]:
        yield "the cluster goes on", self._after(lambda world: world.rig.hall.step())
        yield "beat", self._after(lambda world: world.beat_once())

    def quiet(self) -> None:
        self.take_up()
        self.beat_once()
        self.rig.hall.step()
        self.put_down()

    def wait(self) -> None:
        self.take_up()
        self.rig.clock.advance(WAIT_SECONDS)
        self.put_down()

    def acts(self) -> Iterator[tuple[str, PlainWorld]]:
        for name, do in self._acts():
            with suppress(DecisionRefused, SchedulerGone):
                yield name, self._after(do)

    def beat_once(self, late: Saved | None = None) -> None:
        """One beat of the daemon; on a look at an older state where one is given."""
        rig = self.rig
        rig.clock.advance(BEAT_SECONDS)
        present = rig.kube.snapshot()
        if late is not None:
            rig.kube.restore(late.kept.state)
        snapshot = rig.reader.snapshot()
        rig.kube.restore(present)
        rig.decide(snapshot)

    # --- what must hold

    def problems(self) -> list[str]:
        self.take_up()
        found = []
        for thing, what in self.saved.person.items():
            is_so = self._is_so(thing)
            if is_so is not None and what not in is_so:
                found.append(f"{thing} was {what} by a person and is not any more")
        return found

    def problems_at_rest(self) -> list[str]:
        self.take_up()
        found = [f"{one.name} is {one.state}" for one in self.saved.stored.values() if one.state.is_begun]
        is_holding = any(one.is_holding for one in self.saved.stored.values())
        theirs = {thing.partition(" ")[2] for thing, what in self.saved.person.items() if what == "suspended"}
        for one in self.rig.left():
            is_meant = (is_holding and one.startswith("(")) or one in {f"{name} suspended" for name in theirs}
            found += [] if is_meant else [one]
        return found

    def _is_so(self, thing: str) -> set[str] | None:
        kind, _, name = thing.partition(" ")
        if kind in ("node", "taint"):
            spec = (self.rig.kube.see(f"/api/v1/nodes/{name}") or {"spec": {}})["spec"]
            return {"cordoned" if spec.get("unschedulable") else "opened", *_tainted(spec)}
        owner = self.rig.kube.see(_path(kind, name))
        return None if owner is None else {"suspended" if owner["spec"].get("suspend") else "running"}

    # --- inside

    def _after(self, do: Callable[[PlainWorld], object]) -> PlainWorld:
        made = self.fork()
        made.take_up()
        do(made)
        made.put_down()
        return made

    def _acts(self) -> Iterator[tuple[str, Callable[[PlainWorld], object]]]:
        for name in self.nodes:
            self.take_up()
            node = self.rig.kube.see(f"/api/v1/nodes/{name}")
            is_closed = bool(node and node["spec"].get("unschedulable"))
            word = "uncordon" if is_closed else "cordon"
            yield f"{word} {name}", lambda world, name=name, opens=is_closed: world.cordon(name, opens=opens)
            yield f"taint {name}", lambda world, name=name: world.taint(name)
        yield from self._acts_on_owners()
        for number in self.saved.stored:
            yield f"undo R{number}", lambda world, number=number: world.undo(number)
        if not self.saved.is_paused:
            yield "pause", lambda world: setattr(world.rig.ledger, "paused", True)

    def _acts_on_owners(self) -> Iterator[tuple[str, Callable[[PlainWorld], object]]]:
        self.take_up()
        for kind, (_, word, plural) in KINDS.items():
            group = "batch" if kind == "job" else "apps"
            for owner in self.rig.kube.all(f"{plural}.{group}"):
                name, is_off = owner["metadata"]["name"], bool(owner["spec"].get("suspend"))
                yield f"delete {word} {name}", lambda world, kind=kind, name=name: world.delete(kind, name)
                if kind == "job":
                    text = f"{'resume' if is_off else 'suspend'} {name}"
                    yield text, lambda world, name=name, starts=is_off: world.suspend(name, starts=starts)

    def cordon(self, name: str, *, opens: bool) -> None:
        """A person closes or opens a node; what they opened of ours must not be closed by that command again."""
        was = self.saved.person.pop(f"node {name}", None)
        value = None if opens else True
        self.rig.kube.edit(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": value}}, by=PERSON)
        meant = [one for one in self.saved.stored.values() if one.state.is_begun or one.is_holding]
        is_ours = any(one.lasts and one.node == name for command in meant for one in command.recommendation.writes)
        if not opens:
            self.saved.person[f"node {name}"] = "cordoned"
        elif was != "cordoned" and is_ours:
            self.saved.person[f"node {name}"] = "opened"

    def taint(self, name: str) -> None:
        """Somebody else's taint, which nobody may lose."""
        node = self.rig.kube.see(f"/api/v1/nodes/{name}")
        assert node is not None
        taints = [*(node["spec"].get("taints") or ()), OTHERS_TAINT]
        if OTHERS_TAINT not in (node["spec"].get("taints") or ()):
            self.rig.kube.edit(f"/api/v1/nodes/{name}", {"spec": {"taints": taints}}, by=PERSON)
            self.saved.person[f"taint {name}"] = "tainted"

    def suspend(self, name: str, *, starts: bool) -> None:
        """A person stops or starts a job. What they stopped stays so; what they started may be moved another time."""
        self.rig.kube.edit(_path("job", name), {"spec": {"suspend": not starts}}, by="kubectl-patch")
        if starts:
            self.saved.person.pop(f"job {name}", None)
        else:
            self.saved.person[f"job {name}"] = "suspended"

    def delete(self, kind: str, name: str) -> None:
        """The owner and its pods are gone."""
        self.rig.kube.remove(_path(kind, name))
        for pod in self.rig.hall.pods(name):
            self.rig.kube.remove(f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}")

    def undo(self, number: int) -> None:
        """A person wants a command undone."""
        decisions.undo(self.rig.ledger, number, reason="", who="mei", now=self.rig.clock.now())


def _tainted(spec: dict[str, Any]) -> list[str]:
    return ["tainted"] if OTHERS_TAINT in (spec.get("taints") or ()) else []


def _path(kind: str, name: str) -> str:
    version, _, plural = KINDS[kind]
    return f"/apis/{version}/namespaces/{NAMESPACE}/{plural}/{name}"


def _command_text(command: Command, now: datetime) -> str:
    moments = [iso(one) if one else "" for one in (command.changed_at, command.submitted_at, command.settled_at)]
    age = int((now - command.changed_at).total_seconds() // WAIT_SECONDS)
    advice = command.recommendation
    return f"{command.id} {command.state} {advice.purpose} {advice.fingerprint} {moments} {age} " + (
        f"{command.undo_requested_by} {command.given_back_at is None}"
    )


def _plain(text: str) -> str:
    """Moments by their order, generated names by their first appearance: two runs that behave alike read alike."""
    order = {moment: f"<{number}>" for number, moment in enumerate(sorted(set(MOMENT.findall(text))))}
    text = MOMENT.sub(lambda found: order[found[0]], text)
    names: dict[str, str] = {}
    text = UID.sub(lambda found: names.setdefault(found[0], f"uid{len(names)}"), text)
    return POD.sub(lambda found: names.setdefault(found[0], f"-pod{len(names)}"), text)
