"""Volcano's stand-in beside a real API server: its parts on threads, killed and started one by one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.cluster.client import Client
from tests.cluster.volcano.api import Object, Refused
from tests.cluster.volcano.controller import Controller
from tests.cluster.volcano.life import Kubelets
from tests.cluster.volcano.over_http import AWAY, HttpApi
from tests.cluster.volcano.scheduler import Scheduler
from tests.cluster.volcano.world import CYCLE_SECONDS, Part

from trimtab.clock import SystemClock

POLL_SECONDS = 0.02


class Driver:
    """Steps a part again and again; when it breaks, as when the server is away, it is made anew like a process."""

    def __init__(self, name: str, make: Callable[[], Part], *, every_seconds: float) -> None:
        self._make = make
        self._every_seconds = every_seconds
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
                while not self._stopping.wait(self._every_seconds):
                    part.step()
            except (Refused, TimeoutError, *AWAY) as error:
                self.failures.append(str(error))
                self._stopping.wait(self._every_seconds)
            finally:
                if part is not None:
                    part.close()


class Standin:
    """Controller and scheduler, and kubelets where they are asked for.

    `is_mine` says which nodes the scheduler sees: on a plane that others use too, those of one pool.
    """

    def __init__(
        self,
        client: Client,
        *,
        cycle_seconds: float = CYCLE_SECONDS,
        is_mine: Callable[[Object], bool] = lambda _: True,
        has_kubelets: bool = False,
    ) -> None:
        self.api = HttpApi(client)
        clock = SystemClock()
        self._makers: dict[str, tuple[Callable[[], Part], float]] = {
            "controller": (lambda: Controller(self.api, clock), POLL_SECONDS),
            "scheduler": (lambda: Scheduler(self.api, clock, is_mine=is_mine), cycle_seconds),
        }
        self.silent: set[str] = set()
        """Nodes whose kubelet does nothing any more."""
        if has_kubelets:
            scale = cycle_seconds / CYCLE_SECONDS
            make = lambda: Kubelets(self.api, clock, scale=scale, silent=self.silent)  # noqa: E731
            self._makers["kubelets"] = (make, POLL_SECONDS)
        self._drivers: dict[str, Driver] = {}

    def start(self, name: str = "") -> None:
        """Starts `controller`, `scheduler` or all that is not running."""
        for one in [name] if name else list(self._makers):
            if one not in self._drivers:
                make, every_seconds = self._makers[one]
                self._drivers[one] = Driver(one, make, every_seconds=every_seconds)

    def kill(self, name: str) -> None:
        """Kills a part: it writes nothing more."""
        driver = self._drivers.pop(name, None)
        if driver is not None:
            driver.stop()

    @property
    def failures(self) -> list[str]:
        """Why parts were made anew."""
        return [text for driver in self._drivers.values() for text in driver.failures]

    def stop(self) -> None:
        """Ends everything."""
        for name in list(self._drivers):
            self.kill(name)
        self.api.close()
