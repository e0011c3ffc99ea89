"""A Volcano cluster in memory on a clock of its own: a second of it takes milliseconds, nothing runs by itself."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from tests.cluster.volcano.api import NODE, Object
from tests.cluster.volcano.controller import Controller
from tests.cluster.volcano.in_memory import InMemoryApi
from tests.cluster.volcano.life import Kubelets, Surroundings
from tests.cluster.volcano.scheduler import Scheduler
from tests.cluster.volcano.store import Store
from tests.fakes.clock import FakeClock
from tests.fakes.kube import FakeKube
from tests.fakes.kube_store import State

CYCLE_SECONDS = 1.0
ROUNDS_MAX = 500
STEP_ORDER = ("controller", "kubelets", "surroundings")
"""Volcano's controller is quicker than the garbage collector."""


class Part(Protocol):
    """Something that is stepped."""

    def step(self) -> bool: ...

    def due_seconds(self) -> float | None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Saved:
    """A world's state."""

    objects: State
    parts: tuple[dict[str, Part], Scheduler | None]
    moment: tuple[float, float]


class World:
    """Kubelets and a node controller, Volcano's controller and scheduler; each can be stopped and started."""

    def __init__(self, kube: FakeKube | None = None, clock: FakeClock | None = None) -> None:
        self.clock = clock or FakeClock()
        self.kube = kube or FakeKube(clock=self.clock)
        self.api = InMemoryApi(self.kube)
        self.kubelets = Kubelets(self.api, self.clock)
        self._parts: dict[str, Part] = {"surroundings": Surroundings(self.api, self.clock), "kubelets": self.kubelets}
        self._makers: dict[str, Callable[[], Part]] = {"controller": lambda: Controller(self.api, self.clock)}
        self.scheduler: Scheduler | None = None
        self._next_cycle_seconds = self.clock.monotonic_seconds()
        self.start("controller")
        self.start("scheduler")

    def start(self, name: str) -> None:
        """Starts `controller` or `scheduler`, as a new process."""
        if name == "scheduler":
            self.scheduler = Scheduler(self.api, self.clock)
        else:
            self._parts[name] = self._makers[name]()

    def stop(self, name: str) -> None:
        """Kills it: it writes nothing more and sees nothing more."""
        if name == "scheduler" and self.scheduler is not None:
            self.scheduler.close()
            self.scheduler = None
        elif name in self._parts:
            self._parts.pop(name).close()

    def settle(self) -> None:
        """Lets everything happen that needs no time."""
        for _ in range(ROUNDS_MAX):
            did = [self._parts[name].step() for name in STEP_ORDER if name in self._parts]
            if not any(did):
                return
        raise AssertionError(f"no rest after {ROUNDS_MAX} rounds: something writes in a circle")

    def advance(self, seconds: float) -> None:
        """Lets time pass, event by event and cycle by cycle."""
        end = self.clock.monotonic_seconds() + seconds
        self.settle()
        while (now := self.clock.monotonic_seconds()) < end:
            dues = [due for part in self._parts.values() if (due := part.due_seconds()) is not None]
            self.clock.advance(max(0.0, min([*dues, self._next_cycle_seconds, end]) - now) + 1e-6)
            if self.clock.monotonic_seconds() >= self._next_cycle_seconds:
                self._next_cycle_seconds += CYCLE_SECONDS
                if self.scheduler is not None:
                    self.scheduler.step()
            self.settle()

    def save(self) -> Saved:
        """All of it as it is, objects and what the parts have in mind, to come back to with `restore`."""
        return Saved(self.kube.snapshot(), self._copied((self._parts, self.scheduler)), self._moment())

    def restore(self, saved: Saved) -> None:
        """As it was when it was saved; the same may be restored again and again."""
        now_seconds, self._next_cycle_seconds = saved.moment
        self.clock.advance(now_seconds - self.clock.monotonic_seconds())
        self.kube.restore(saved.objects)
        self._parts, self.scheduler = self._copied(saved.parts)
        self.kubelets = cast("Kubelets", self._parts["kubelets"])

    def _moment(self) -> tuple[float, float]:
        return self.clock.monotonic_seconds(), self._next_cycle_seconds

    def _copied(self, parts: tuple[dict[str, Part], Scheduler | None]) -> tuple[dict[str, Part], Scheduler | None]:
        """Copies that work on the same API and clock."""
        return copy.deepcopy(parts, {id(one): one for one in (self.kube, self.api, self.clock)})

    def add_nodes(self, racks: int = 3, per_rack: int = 4, *, gpus: int = 8) -> list[str]:
        """Nodes n01, n02 … in racks r1, r2 …, ready."""
        names = [f"n{number:02}" for number in range(1, racks * per_rack + 1)]
        for index, name in enumerate(names):
            self.kube.add(node(name, rack=f"r{index // per_rack + 1}", gpus=gpus))
        return names

    def store(self) -> Store:
        """Reads and writes for a test."""
        return Store(self.api, component="test")


def node(name: str, *, rack: str, gpus: int) -> Object:
    """A ready node."""
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "nvidia.com/gpu": str(gpus)}
    return {
        "apiVersion": NODE.version,
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, "rack": rack}},
        "spec": {},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
        },
    }
