"""The planes of the Volcano contract: the stand-in in memory, on a real API server, and the real Volcano there."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
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
STEP_SECONDS = 0.1
SERVER_DEADLINE_SECONDS = 240.0
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
        self.world.advance(1.5)  # Volcano's own queues are there and open

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
    """Volcano beside an API server with kubelets: the stand-in or the real one."""

    api: HttpApi
    silent: set[str]

    def start(self, name: str = "") -> None: ...

    def kill(self, name: str) -> None: ...

    def start_webhooks(self, certificates: Path) -> None: ...

    def stop_webhooks(self) -> None: ...

    def stop(self) -> None: ...


class ServerPlane:
    """A real API server with twelve nodes of its own, and whichever Volcano is given."""

    def __init__(self, plane: ControlPlane, volcano: Volcano, *, cycle_seconds: float) -> None:
        self.has_webhooks = False
        self.api = volcano.api
        self._plane = plane
        self._volcano = volcano
        self._scale = cycle_seconds

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
        self._volcano.silent.add(node)

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

    def prepare(self, name: str, *, has_webhooks: bool) -> str:
        """A namespace for a scenario, with or without Volcano's admission."""
        if has_webhooks and not self.has_webhooks:
            self._volcano.start_webhooks(self._plane.certificates)
        elif self.has_webhooks and not has_webhooks:
            self._volcano.stop_webhooks()
        self.has_webhooks = has_webhooks
        namespace = f"{name.partition('-')[0]}-{secrets.token_hex(3)}"
        self._plane.client.create("namespaces", {"metadata": {"name": namespace}})
        return namespace

    def clear(self, namespace: str) -> None:
        """As before the scenario: nodes open, no pods, queues and topology of Volcano's own only."""
        client = self._plane.client
        self._volcano.silent.clear()
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


@contextmanager
def a_server_plane(
    make: Callable[[ControlPlane], Volcano], *, cycle_seconds: float, crds: Sequence[Path]
) -> Iterator[ServerPlane]:
    """A control plane without Kueue, with twelve nodes and a Volcano that runs."""
    plane = ControlPlane.boot(build.find(), crds=list(crds), has_kueue=False, has_kubelet=False)
    try:
        volcano = make(plane)
        try:
            server = ServerPlane(plane, volcano, cycle_seconds=cycle_seconds)
            server.add_nodes()
            volcano.start()
            wait_for(lambda: _open_queues(plane) >= {"default", "root"}, "Volcano's own queues are open")
            yield server
        finally:
            volcano.stop()
    finally:
        plane.stop()


def _open_queues(plane: ControlPlane) -> set[str]:
    queues = plane.client.list(f"{QUEUE.version}/queues")
    return {one["metadata"]["name"] for one in queues if (one.get("status") or {}).get("state") == "Open"}
