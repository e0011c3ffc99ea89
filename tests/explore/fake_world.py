"""The issuer over the scheduler in memory, as a world to be explored."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from tests.fakes.clock import START, FakeClock
from tests.fakes.ledger import FakeLedger
from tests.fakes.scheduler import FakeScheduler
from tests.issue.scenes import Scene
from tests.issue.test_crash import left_behind

from trimtab.errors import DecisionRefused, SchedulerUnavailable
from trimtab.issue import decisions
from trimtab.model.cluster import ClusterSnapshot, WorkloadState
from trimtab.model.command import Command, CommandState

STEP_SECONDS = 0.001
"""Time stands nearly still, so that only the order of moments tells states apart; `wait` passes the rest."""
WAIT_SECONDS = 1000.0
Points = list[tuple[str, str]]


def _nothing(_: str) -> None:
    """No point is watched."""


class FakeWorld:
    """A scene that forks. `person`: node -> what a person did to it, which must stay so."""

    def __init__(self, scene: Scene, person: dict[str, str] | None = None) -> None:
        self.scene = scene
        self.person = person or {}

    # --- what it is

    def key(self) -> Hashable:
        scene = self.scene
        moments = _Moments(scene)
        return (
            tuple(_command_key(scene.ledger.stored[number], moments) for number in sorted(scene.ledger.stored)),
            tuple(sorted((kind.value, name) for kind, name in scene.ledger.facts)),
            scene.ledger.paused,
            tuple((node.name, node.is_cordoned, node.cordoned_by) for node in scene.scheduler.nodes.values()),
            tuple(
                (
                    job.id,
                    job.state,
                    job.pods,
                    job.placements,
                    job.suspended_by,
                    moments.rank(job.started_at),
                )
                for job in scene.scheduler.jobs.values()
            ),
            frozenset(scene.scheduler.reservations),
            frozenset((name, mark) for name, (mark, _) in scene.scheduler.given.items()),
            frozenset(scene.scheduler.done),
            frozenset(self.person.items()),
        )

    def fork(self) -> FakeWorld:
        old = self.scene
        clock = FakeClock()
        clock._now, clock._monotonic_seconds = old.clock._now, old.clock._monotonic_seconds
        ledger = FakeLedger(ledger=old.ledger.ledger)
        ledger.stored, ledger.facts = dict(old.ledger.stored), dict(old.ledger.facts)
        ledger.results, ledger.paused = dict(old.ledger.results), old.ledger.paused
        scene = Scene.__new__(Scene)
        scene.__dict__.update(old.__dict__)
        scene.clock, scene.ledger, scene.told = clock, ledger, []
        scene.scheduler = _fork(old.scheduler, clock)
        scene.restart()
        return FakeWorld(scene, dict(self.person))

    # --- what can happen

    def steps(self) -> Iterator[tuple[str, FakeWorld]]:
        moved = self.fork()
        moved.tick()
        yield "the cluster goes on", moved
        beaten = self.fork()
        beaten.beat()
        yield "beat", beaten

    def faults(self) -> Iterator[tuple[str, FakeWorld]]:
        crashed, points = self._crashes()
        yield from crashed
        for number, (where, point) in enumerate(points):
            if where == "cluster":
                name = "reply lost" if point.startswith("after") else "lease lost"
                yield f"{name} {point}", self._failed(number, is_for_good=name == "lease lost")
        late = self.fork()
        late.tick()
        late.beat(self.scene.scheduler.snapshot())
        yield "beat on a late look", late
        long = self.fork()
        long.wait()
        long.beat()
        yield "nothing for a long time", long

    def acts(self) -> Iterator[tuple[str, FakeWorld]]:
        for name, do in self._acts():
            after = self.fork()
            with suppress(DecisionRefused):
                do(after)
                yield name, after

    def tick(self) -> None:
        self.scene.scheduler.tick(STEP_SECONDS)

    def beat(self, snapshot: ClusterSnapshot | None = None) -> None:
        """One beat of the daemon, and no time for the cluster."""
        scene = self.scene
        scene.clock.advance(STEP_SECONDS)
        snapshot = snapshot or scene.scheduler.snapshot()
        standing = [
            command.recommendation
            for command in scene.ledger.commands(live_only=True)
            if command.state in (CommandState.PROPOSED, CommandState.APPROVED)
        ]
        plan = scene.planner.propose(snapshot, scene.findings, scene.budget, standing, scene.taken_out())
        scene.issuer.advance(plan, snapshot, scene.budget, scene.findings)

    def quiet(self) -> None:
        self.tick()
        self.beat()

    def wait(self) -> None:
        self.scene.clock.advance(WAIT_SECONDS)

    # --- what must hold

    def problems(self) -> list[str]:
        found = []
        for name, what in self.person.items():
            node = self.scene.scheduler.nodes[name]
            if what == "cordoned" and node.cordoned_by != "sofia":
                found.append(f"{name} was cordoned by a person and is not any more")
            if what == "opened" and node.is_cordoned and node.cordoned_by != "sofia":
                found.append(f"{name} was opened by a person and is cordoned by {node.cordoned_by}")
        return found

    def problems_at_rest(self) -> list[str]:
        return left_behind(self.scene)

    # --- inside

    def _crashes(self) -> tuple[list[tuple[str, FakeWorld]], Points]:
        """The world as a crash leaves it at each point of one beat."""
        world, points = self.fork(), Points()
        found: list[tuple[str, FakeWorld]] = []

        def at(where: str) -> Callable[[str], None]:
            def point(name: str) -> None:
                points.append((where, name))
                found.append((f"crash {name}", world.fork()))

            return point

        world.scene.ledger.at_point, world.scene.scheduler.at_point = at("ledger"), at("cluster")
        world.beat()
        return found, points

    def _failed(self, number: int, *, is_for_good: bool) -> FakeWorld:
        """A beat in which the call at one point fails for the daemon; and all that follow, once the lease is lost."""
        world, count = self.fork(), [0]

        def point(name: str) -> None:
            here = count[0]
            count[0] += 1
            is_write = name.startswith("before")
            if here == number or (is_for_good and here > number and is_write):
                raise SchedulerUnavailable("no answer")

        def counted(_: str) -> None:
            count[0] += 1

        world.scene.ledger.at_point, world.scene.scheduler.at_point = counted, point
        world.beat()
        world.scene.ledger.at_point = world.scene.scheduler.at_point = _nothing
        return world

    def _acts(self) -> Iterator[tuple[str, Callable[[FakeWorld], None]]]:
        scheduler, ledger = self.scene.scheduler, self.scene.ledger
        for name, node in scheduler.nodes.items():
            if node.is_cordoned:
                yield f"uncordon {name}", lambda world, name=name: world._uncordon(name)
            else:
                yield f"cordon {name}", lambda world, name=name: world._cordon(name)
        for job in scheduler.jobs.values():
            yield f"delete {job.id}", lambda world, job=job: world.scene.scheduler.jobs.pop(job.id)
            if job.pods > 1 and job.state is WorkloadState.RUNNING:
                yield f"scale {job.id}", lambda world, job=job: world._scale(job.id)
        for number in ledger.stored:
            yield (
                f"undo R{number}",
                lambda world, number=number: decisions.undo(
                    world.scene.ledger, number, reason="", who="mei", now=world.scene.clock.now()
                ),
            )
        if not ledger.paused:
            yield "pause", lambda world: setattr(world.scene.ledger, "paused", True)

    def _cordon(self, name: str) -> None:
        self.scene.scheduler.cordon(name)
        self.person[name] = "cordoned"

    def _uncordon(self, name: str) -> None:
        mark = self.scene.scheduler.nodes[name].cordoned_by
        self.scene.scheduler.uncordon(name)
        self.person.pop(name, None)
        # Opening what is owed to be given back anyway (a crash before the release) says nothing against the cordon.
        meant = [one.mark for one in self.scene.ledger.stored.values() if one.state.is_begun or one.is_holding]
        if mark in meant:
            self.person[name] = "opened"

    def _scale(self, name: str) -> None:
        job = self.scene.scheduler.jobs[name]
        self.scene.scheduler.jobs[name] = replace(job, pods=job.pods - 1, placements=job.placements[:-1])


class _Moments:
    """Moments by their order and by how many long waits ago they were: nothing else of them matters."""

    def __init__(self, scene: Scene) -> None:
        self._now = scene.clock.now()
        found = {
            moment
            for command in scene.ledger.stored.values()
            for moment in (command.changed_at, command.submitted_at, command.settled_at, command.questioned_at)
        }
        found |= {job.started_at for job in scene.scheduler.jobs.values()}
        self._order = {moment: number for number, moment in enumerate(sorted(one for one in found if one is not None))}

    def rank(self, moment: datetime | None) -> tuple[int, int] | None:
        if moment is None:
            return None
        return self._order[moment], self.age(moment)

    def age(self, moment: datetime) -> int:
        return int((self._now - START).total_seconds() // WAIT_SECONDS) - int(
            (moment - START).total_seconds() // WAIT_SECONDS
        )


def _command_key(command: Command, moments: _Moments) -> Hashable:
    return (
        command.id,
        command.state,
        command.recommendation.purpose,
        command.recommendation.fingerprint,
        command.undo_requested_by,
        command.given_back_at is None,
        moments.rank(command.questioned_at),
        moments.rank(command.changed_at),
        moments.rank(command.submitted_at),
        moments.rank(command.settled_at),
        moments.age(command.recommendation.created_at),
    )


def _fork(old: FakeScheduler, clock: FakeClock) -> FakeScheduler:
    new = FakeScheduler.__new__(FakeScheduler)
    new.__dict__.update(old.__dict__)
    new.clock, new.at_point = clock, _nothing
    new.nodes, new.jobs, new.given = dict(old.nodes), dict(old.jobs), dict(old.given)
    new.reservations, new.marks, new.done = list(old.reservations), list(old.marks), set(old.done)
    new.calls, new.written = [], []
    return new
