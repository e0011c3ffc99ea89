"""Volcano's controller manager, stood in: job, PodGroup and queue controllers, stopped and started as one."""

from __future__ import annotations

from tests.cluster.volcano.api import Api
from tests.cluster.volcano.group_controller import GroupController, QueueController
from tests.cluster.volcano.job_controller import JobController
from tests.cluster.volcano.store import Store

from trimtab.clock import Clock


class Controller:
    """Made anew at each start, as a process is: what happened while none was there is not seen as an event."""

    def __init__(self, api: Api, clock: Clock) -> None:
        store = Store(api, component="vc-controller-manager")
        self._jobs = JobController(store, clock)
        self._groups = GroupController(store)
        self._queues = QueueController(store)

    def step(self) -> bool:
        """Works off what was told since the last step; True when there was anything."""
        return any([self._jobs.step(), self._groups.step(), self._queues.step()])

    def due_seconds(self) -> float | None:
        """When it has something to do though nothing happens, on the clock's monotonic seconds."""
        return self._jobs.due_seconds()

    def close(self) -> None:
        for part in (self._jobs, self._groups, self._queues):
            part.close()
