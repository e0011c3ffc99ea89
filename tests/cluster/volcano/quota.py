"""What a queue may still take: Volcano's capacity plugin, flat queues. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.cluster.volcano.api import Object
from tests.cluster.volcano.objects import Resources, added, minus, missing, plus, quantity
from tests.cluster.volcano.session import HAS_RESOURCES, Gang, Session, Task


@dataclass(eq=False)
class Quota:
    """A queue's books within one cycle."""

    queue: Object
    capability: Resources
    deserved: Resources
    inqueue: Resources = field(default_factory=dict)
    gangs: list[Gang] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        return str((self.queue.get("status") or {}).get("state", "Open")) == "Open"

    @property
    def is_reclaimable(self) -> bool:
        return bool(self.queue["spec"].get("reclaimable", True))

    @property
    def allocated(self) -> Resources:
        return added(gang.allocated for gang in self.gangs)

    @property
    def share(self) -> float:
        """The larger, the later its turn."""
        allocated = self.allocated
        return max((allocated.get(name, 0.0) / value for name, value in self.deserved.items() if value), default=1.0)

    def lacking_for(self, gang: Gang) -> list[str]:
        """Resources that the queue lacks to let the gang in; who was let in and is not yet placed counts as taken."""
        elastic = added(minus(one.allocated, one.min_resources) for one in self.gangs)
        asked = gang.min_resources
        taken = minus(plus(plus(asked, self.allocated), self.inqueue), elastic)
        return [name for name in missing(taken, self.capability) if name in asked]

    def has_room_for(self, task: Task) -> bool:
        """True when the task fits below the capability."""
        wanted = plus(self.allocated, task.requests)
        return not [name for name in missing(wanted, self.capability) if name in task.requests]

    def can_reclaim_for(self, task: Task) -> bool:
        """True when the queue stays within what it deserves, in at least one resource that is asked for."""
        wanted = plus(self.allocated, task.requests)
        return any(wanted[name] <= self.deserved.get(name, 0.0) for name in task.requests)

    def exceeds_deserved_by(self, task: Task) -> bool:
        """True when the task's resources lie, at least in part, beyond what the queue deserves."""
        allocated = self.allocated
        return any(allocated.get(name, 0.0) > self.deserved.get(name, 0.0) for name in task.requests if name != "cpu")


def quotas(session: Session) -> dict[str, Quota]:
    """Every queue's books at the start of a cycle."""
    books = {}
    for name, queue in session.queues.items():
        spec = queue.get("spec") or {}
        capability = {**session.total, **_resources(spec.get("capability"))}
        books[name] = Quota(
            queue,
            {one: min(value, session.total.get(one, value)) for one, value in capability.items()},
            _resources(spec.get("deserved")),
        )
    for gang in session.gangs:
        book = books.get(gang.queue)
        if book is None:
            continue
        book.gangs.append(gang)
        has_members = len(gang.with_status(*HAS_RESOURCES)) >= gang.min_member
        if gang.phase == "Inqueue" or (gang.phase == "Running" and has_members):
            book.inqueue = plus(book.inqueue, minus(gang.min_resources, gang.allocated))
    return books


def _resources(asked: Object | None) -> Resources:
    return {name: quantity(value) for name, value in (asked or {}).items()}
