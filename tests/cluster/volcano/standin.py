"""Volcano's stand-in beside a real API server: its parts on threads, killed and started one by one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.cluster.client import Client
from tests.cluster.objects import POOL
from tests.cluster.plane import Plane
from tests.cluster.volcano.api import Object, Refused
from tests.cluster.volcano.controller import Controller
from tests.cluster.volcano.life import Kubelets
from tests.cluster.volcano.over_http import AWAY, HttpApi
from tests.cluster.volcano.scheduler import Scheduler
from tests.cluster.volcano.webhook_server import WebhookServer
from tests.cluster.volcano.world import CYCLE_SECONDS, Part

from trimtab.clock import SystemClock

POLL_SECONDS = 0.02
CRDS = Path(__file__).with_name("crds.yaml")


class Driver:
    """Steps a part again and again; when it breaks, as when the server is away, it is made anew like a process."""

    def __init__(self, name: str, make: Callable[[], Part], wait: Callable[[], None]) -> None:
        """`wait` lasts until there may be something to do."""
        self._make = make
        self._wait = wait
        self._stopping = threading.Event()
        self.failures: list[str] = []
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopping.is_set():
            part = None
            try:
                part = self._make()
                while not self._stopping.is_set():
                    part.step()
                    self._wait()
            except (Refused, TimeoutError, *AWAY) as error:
                self.failures.append(str(error))
                self._stopping.wait(POLL_SECONDS)
            finally:
                if part is not None:
                    part.close()


class _Waiter:
    """Waits for a change, but no longer than something timed could be late."""

    def __init__(self, api: HttpApi) -> None:
        self._api = api
        self._seen = 0

    def __call__(self) -> None:
        self._seen = self._api.wait_for_change(self._seen, POLL_SECONDS)


class Standin:
    """Controller and scheduler, or whichever `parts` are asked for: `kubelets` too.

    `is_mine` says which nodes the scheduler sees: on a plane that others use too, those of one pool.
    """

    def __init__(
        self,
        client: Client,
        *,
        cycle_seconds: float = CYCLE_SECONDS,
        is_mine: Callable[[Object], bool] = lambda _: True,
        parts: Sequence[str] = ("controller", "scheduler"),
    ) -> None:
        self.api = HttpApi(client)
        self._client = client
        self._webhooks: WebhookServer | None = None
        clock = SystemClock()
        self._cycle_seconds = cycle_seconds
        scale = cycle_seconds / CYCLE_SECONDS
        self.silent: set[str] = set()
        """Nodes whose kubelet does nothing any more."""
        makers: dict[str, Callable[[], Part]] = {
            "controller": lambda: Controller(self.api, clock),
            "scheduler": lambda: Scheduler(self.api, clock, is_mine=is_mine),
            "kubelets": lambda: Kubelets(self.api, clock, scale=scale, silent=self.silent),
        }
        self._makers = {name: makers[name] for name in parts}
        self._drivers: dict[str, Driver] = {}

    def start(self, name: str = "") -> None:
        """Starts `controller`, `scheduler` or all that is not running."""
        for one in [name] if name else list(self._makers):
            if one not in self._drivers:
                wait = self._a_cycle if one == "scheduler" else _Waiter(self.api)
                self._drivers[one] = Driver(one, self._makers[one], wait)

    def _a_cycle(self) -> None:
        time.sleep(self._cycle_seconds)

    def kill(self, name: str) -> None:
        """Kills a part: it writes nothing more."""
        driver = self._drivers.pop(name, None)
        if driver is not None:
            driver.stop()

    @property
    def failures(self) -> list[str]:
        """Why parts were made anew."""
        return [text for driver in self._drivers.values() for text in driver.failures]

    def start_webhooks(self, certificates: Path) -> None:
        """From now on the API server asks before jobs and PodGroups are written."""
        self._webhooks = WebhookServer(self._client, self.api, certificates=certificates)

    def stop_webhooks(self) -> None:
        if self._webhooks is not None:
            self._webhooks.stop()
            self._webhooks = None

    def stop(self) -> None:
        """Ends everything."""
        self.stop_webhooks()
        for name in list(self._drivers):
            self.kill(name)
        self.api.close()


@contextmanager
def standin_beside(plane: Plane, *, pool: str = "", cycle_seconds: float = 0.3) -> Iterator[Standin]:
    """Volcano's kinds and its stand-in on a plane that others use too; with `pool`, for the nodes of one space alone.

    The plane's own fake kubelet runs the pods; `plane.client` knows the kinds by `batch.volcano.sh/v1alpha1/jobs`.
    """
    plane.install_crds(CRDS)

    def is_mine(node: Object) -> bool:
        return not pool or (node["metadata"].get("labels") or {}).get(POOL) == pool

    volcano = Standin(plane.client, cycle_seconds=cycle_seconds, is_mine=is_mine)
    try:
        volcano.start()
        yield volcano
    finally:
        volcano.stop()
