"""Every state that can be reached from a beginning, each once, under at most so many faults and acts of an operator.

A world forks, says what can be done to it, and names its state by a key; two worlds of one key behave alike. From each
state the quiet way on (nobody does anything, nothing breaks) must come to rest, and at rest nothing may be amiss.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Protocol


class World(Protocol):
    """A daemon and its cluster, whole, in memory."""

    def key(self) -> Hashable:
        """Equal for worlds that behave alike from here on."""
        ...

    def fork(self) -> World:
        """A copy that shares nothing which changes; its daemon has just been started."""
        ...

    def steps(self) -> Iterator[tuple[str, World]]:
        """What happens by itself: the cluster goes on, the daemon beats."""
        ...

    def faults(self) -> Iterator[tuple[str, World]]:
        """The same, with one thing going wrong: a crash, a lost reply, a lost lease, a late look."""
        ...

    def acts(self) -> Iterator[tuple[str, World]]:
        """What an operator may do."""
        ...

    def quiet(self) -> None:
        """The cluster goes on and the daemon beats, once."""
        ...

    def wait(self) -> None:
        """So much time passes that every time-out is over."""
        ...

    def problems(self) -> list[str]:
        """What must never be, in words."""
        ...

    def problems_at_rest(self) -> list[str]:
        """What must not be left when nothing moves any more."""
        ...


@dataclass(order=True)
class _Entry:
    """A state to go on from; the cheapest first."""

    used: int
    number: int
    world: World = field(compare=False)
    faults: int = field(compare=False)
    acts: int = field(compare=False)
    trace: tuple[str, ...] = field(compare=False)


@dataclass(frozen=True)
class Found:
    """What an exploration saw."""

    states: int
    transitions: int
    is_whole: bool
    """Nothing was left to explore within the bounds."""


class Broken(AssertionError):
    """A state that must not be, and the way to it."""


REST_STEPS = 60
WAITS = 3


class Explorer:
    """Explores one world to the fixpoint, or until `states_max`."""

    def __init__(self, *, faults: int, acts: int, states_max: int | None = None, total: int | None = None) -> None:
        self._faults, self._acts = faults, acts
        self._total = faults + acts if total is None else total
        self._states_max = states_max
        self._seen: dict[Hashable, list[tuple[int, int]]] = {}
        self._good: set[Hashable] = set()
        self._queue: list[_Entry] = []
        self._pushed = 0
        self.transitions = 0

    def explore(self, start: World) -> Found:
        """All states from here. Raises Broken with the way to the first bad one."""
        self._meet(start, 0, 0, ())
        while self._queue:
            if self._states_max is not None and len(self._seen) >= self._states_max:
                break
            self._expand(heapq.heappop(self._queue))
        return Found(states=len(self._seen), transitions=self.transitions, is_whole=not self._queue)

    def _expand(self, entry: _Entry) -> None:
        world = entry.world
        for name, after in world.steps():
            self._meet(after, entry.faults, entry.acts, (*entry.trace, name))
        if entry.faults + entry.acts >= self._total:
            return
        if entry.faults < self._faults:
            for name, after in world.faults():
                self._meet(after, entry.faults + 1, entry.acts, (*entry.trace, f"FAULT {name}"))
        if entry.acts < self._acts:
            for name, after in world.acts():
                self._meet(after, entry.faults, entry.acts + 1, (*entry.trace, f"ACT {name}"))

    def _meet(self, world: World, faults: int, acts: int, trace: tuple[str, ...]) -> None:
        self.transitions += 1
        key = world.key()
        before = self._seen.get(key)
        if before is None:
            self._check(world, key, trace)
            before = self._seen[key] = []
        if any(one <= faults and other <= acts for one, other in before):
            return
        before.append((faults, acts))
        self._pushed += 1
        heapq.heappush(self._queue, _Entry(faults + acts, self._pushed, world, faults, acts, trace))

    def _check(self, world: World, key: Hashable, trace: tuple[str, ...]) -> None:
        if found := world.problems():
            raise Broken(_told(found, trace))
        self._rest(world.fork(), key, trace)

    def _rest(self, world: World, key: Hashable, trace: tuple[str, ...]) -> None:
        """Go on quietly until a state that is known to come to a good rest, or until nothing moves."""
        path, waits = [key], 0
        for _ in range(REST_STEPS):
            if path[-1] in self._good:
                break
            world.quiet()
            if found := world.problems():
                raise Broken(_told(found, (*trace, "… then quietly")))
            after = world.key()
            if after != path[-1]:
                path.append(after)
                continue
            problems = world.problems_at_rest()
            if not problems:
                break
            if waits == WAITS:
                raise Broken(_told(problems, (*trace, "… at rest")))
            waits += 1
            world.wait()
        else:
            raise Broken(_told(["it never comes to rest"], trace))
        self._good.update(path)


def _told(problems: list[str], trace: tuple[str, ...]) -> str:
    return "\n".join([*problems, "by:", *(f"  {one}" for one in trace)])


Act = Callable[[], None]
