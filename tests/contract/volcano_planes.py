"""The planes of the Volcano contract: the stand-in in memory, on a real API server, and the real Volcano there."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, TypeVar

from tests.cluster import build
from tests.cluster.client import wait_for
from tests.cluster.plane import Plane as ControlPlane
from tests.cluster.volcano.api import COMMAND, CORE_JOB, HYPER_NODE, JOB, PDB, POD, POD_GROUP, QUEUE, Kind
from tests.cluster.volcano.over_http import HttpApi
from tests.cluster.volcano.webhook import denials
from tests.cluster.volcano.world import World, node

Found = TypeVar("Found")
DEADLINE_SECONDS = 400.0
STEP_SECONDS = 0.05
SERVER_DEADLINE_SECONDS = 90.0
POLL_SECONDS = 0.02


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


class Volcano(Protocol):
    """Volcano beside an API server: the stand-in or the real one."""

    def start(self, name: str = "") -> None: ...

    def kill(self, name: str) -> None: ...

    def stop(self) -> None: ...


class ServerPlane:
    """A real API server with twelve nodes of its own, and whichever Volcano is given."""

    def __init__(self, plane: ControlPlane, volcano: Volcano, api: HttpApi, *, silent: set[str], scale: float) -> None:
        self.has_webhooks = False
        self.api = api
        self._plane = plane
        self._volcano = volcano
        self._silent = silent
        self._scale = scale

    def let_pass(self, seconds: float) -> None:
        time.sleep(seconds * self._scale)

    def until(self, predicate: Callable[[], Found], what: str) -> Found:
        end = time.monotonic() + SERVER_DEADLINE_SECONDS
        while time.monotonic() < end:
            if answer := predicate():
                return answer
            time.sleep(POLL_SECONDS)
        raise AssertionError(f"not within {SERVER_DEADLINE_SECONDS:.0f} seconds: {what}")

    def stop(self, name: str) -> None:
        self._volcano.kill(name)

    def start(self, name: str) -> None:
        self._volcano.start(name)

    def silence(self, node: str) -> None:
        self._silent.add(node)

    def add_nodes(self) -> None:
        """n01 to n12, ready."""
        client = self._plane.client
        names = [f"n{number:02}" for number in range(1, 13)]
        for index, name in enumerate(names):
            made = node(name, rack=f"r{index // 4 + 1}", gpus=8)
            status = made.pop("status")
            client.create("nodes", made)
            client.patch("nodes", name, {"status": status}, kind="strategic", subresource="status")
        wait_for(lambda: not any(one["spec"].get("taints") for one in client.list("nodes")), "the nodes untainted")

    def new_namespace(self, name: str) -> str:
        """A namespace whose end takes all that is in it along."""
        self._plane.client.create("namespaces", {"metadata": {"name": name}})
        return name

    def clear(self, namespace: str) -> None:
        """As before the scenario: nodes open, no pods, queues and topology of Volcano's own only."""
        client = self._plane.client
        self._silent.clear()
        self._volcano.start()
        for kind in (JOB, POD_GROUP, PDB, COMMAND, CORE_JOB):
            self._drop_all(kind, namespace)
        for one in client.list("nodes"):
            client.patch("nodes", one["metadata"]["name"], {"spec": {"unschedulable": None, "taints": None}})
        wait_for(lambda: self._is_empty(namespace), f"{namespace} without pods")
        for kind in (HYPER_NODE, QUEUE):
            self._drop_all(kind, "")
        client.delete("namespaces", namespace)

    def _is_empty(self, namespace: str) -> bool:
        pods = self.api.call("GET", POD.path(namespace)).body["items"]
        for pod in pods:
            self.api.call("DELETE", POD.path(namespace, pod["metadata"]["name"]), {"gracePeriodSeconds": 0})
        return not pods

    def _drop_all(self, kind: Kind, namespace: str) -> None:
        for one in self.api.call("GET", kind.path(namespace)).body["items"]:
            if one["metadata"]["name"] not in ("default", "root"):
                body = {"propagationPolicy": "Background"}
                self.api.call("DELETE", kind.path(namespace, one["metadata"]["name"]), body)


def run_scenes_on(volcano: Callable[[ControlPlane], tuple[Volcano, HttpApi, set[str]]], *, scale: float, crds: Path):
    """A plane with nodes, for a module's tests; ends with them."""
    binaries = build.find()
    assert binaries is not None, build.BUILD
    plane = ControlPlane.boot(binaries, crds=[crds], has_kueue=False, has_kubelet=False)
    try:
        running, api, silent = volcano(plane)
        try:
            server = ServerPlane(plane, running, api, silent=silent, scale=scale)
            server.add_nodes()
            running.start()
            wait_for(lambda: len(plane.client.list(f"{QUEUE.version}/queues")) >= 2, "Volcano's queues")
            yield server
        finally:
            running.stop()
    finally:
        plane.stop()
