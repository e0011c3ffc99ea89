"""The planes of the Volcano contract: the stand-in in memory, on a real API server, and the real Volcano there."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from tests.cluster.volcano.webhook import denials
from tests.cluster.volcano.world import World

Found = TypeVar("Found")
DEADLINE_SECONDS = 400.0
STEP_SECONDS = 0.05


class MemoryPlane:
    """The stand-in in memory, on a clock that only the scenario moves."""

    def __init__(self, *, has_webhooks: bool) -> None:
        self.has_webhooks = has_webhooks
        self.world = World()
        if has_webhooks:
            self.world.kube.refuses = denials(self.world.kube)
        self.api = self.world.api
        self.world.add_nodes()

    def let_pass(self, seconds: float) -> None:
        self.world.advance(seconds)

    def until(self, predicate: Callable[[], Found], what: str) -> Found:
        for _ in range(int(DEADLINE_SECONDS / STEP_SECONDS)):
            self.world.settle()
            if answer := predicate():
                return answer
            self.world.advance(STEP_SECONDS)
        raise AssertionError(f"not within {DEADLINE_SECONDS:.0f} seconds of the scenario: {what}")

    def stop(self, name: str) -> None:
        self.world.stop(name)

    def start(self, name: str) -> None:
        self.world.start(name)

    def silence(self, node: str) -> None:
        self.world.kubelets.silent.add(node)
