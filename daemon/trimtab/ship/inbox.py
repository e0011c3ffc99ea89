"""Where reports wait for their commit: bounded, between the listener's thread and the beat that remembers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field

import structlog

from trimtab.errors import StoreError
from trimtab.model.reading import Delivery

log = structlog.get_logger()

Settle = Callable[[StoreError | None], None]
"""Called once from the remembering thread: None = committed, else why not."""


@dataclass(slots=True, eq=False)
class Ticket:
    """Deliveries that were put in together and are answered together."""

    deliveries: tuple[Delivery, ...]
    settle: Settle | None
    is_backlog: bool = False
    left: int = field(init=False)

    def __post_init__(self) -> None:
        """All are still to be committed."""
        self.left = len(self.deliveries)

    def is_done_with(self, error: StoreError | None) -> bool:
        """Count one delivery off; True once: at the last one that is committed, or at the first that failed."""
        was_left, self.left = self.left, self.left - 1 if error is None else 0
        return was_left > 0 and self.left == 0


@dataclass(slots=True)
class InboxCounts:
    """Reports over the life of the process by what became of them; the exposition reads them."""

    accepted_total: int = 0
    committed_total: int = 0
    failed_total: int = 0
    withdrawn_total: int = 0
    turned_away_total: int = 0

    def by_outcome(self) -> dict[str, int]:
        """The same by name: accepted, committed, failed, withdrawn, turned_away."""
        return {name.removesuffix("_total"): count for name, count in asdict(self).items()}


class Inbox:
    """At most `reports_max` deliveries that are not committed yet; further ones are turned away, not dropped.

    Of these at most `backlog_reports_max` are of a backlog, so that what is live finds room after an outage of all.
    """

    def __init__(self, reports_max: int, *, backlog_reports_max: int | None = None) -> None:
        """Start empty."""
        self._backlog_reports_max = min(reports_max, backlog_reports_max or reports_max)
        self._backlog_held = 0
        self.counts = InboxCounts()
        self._reports_max = reports_max
        self._lock = threading.Lock()
        self._queued: deque[Ticket] = deque()
        self._drained: dict[int, Ticket] = {}
        self._held = 0
        self._is_full = False

    @property
    def waiting(self) -> int:
        """Deliveries that wait for their commit, those under way included."""
        return self._held

    def has_room(self, reports: int, *, is_backlog: bool, coming: int = 0) -> bool:
        """Whether so many would be taken now; `coming` are of a backlog and on their way in already."""
        if self._held + reports > self._reports_max:
            return False
        held = self._backlog_held + coming
        # A batch that is larger than all of the room goes alone, or it would never go.
        return not is_backlog or not held or held + reports <= self._backlog_reports_max

    def put(
        self, deliveries: Sequence[Delivery], *, settle: Settle | None = None, is_backlog: bool = False
    ) -> Ticket | None:
        """Queue them; `settle` hears what came of them. None when there is no room: ask again later."""
        with self._lock:
            has_room = self.has_room(len(deliveries), is_backlog=is_backlog)
            is_live_kept_out = not has_room and not is_backlog
            if has_room:
                ticket = Ticket(tuple(deliveries), settle, is_backlog)
                self._queued.append(ticket)
                self._held += len(deliveries)
                self._backlog_held += len(deliveries) if is_backlog else 0
                self.counts.accepted_total += len(deliveries)
            else:
                self.counts.turned_away_total += len(deliveries)
            # That backlog waits for its turn is no news: it is meant to.
            is_news, self._is_full = is_live_kept_out and not self._is_full, self._is_full or is_live_kept_out
        if is_news:
            log.warning("the inbox is full; agents keep their reports and ask again", waiting=self._held)
        return ticket if has_room else None

    def withdraw(self, ticket: Ticket) -> bool:
        """Take back what nobody waits for any more; False when it is on its way into the database already."""
        with self._lock:
            try:
                self._queued.remove(ticket)
            except ValueError:
                return False
            self._held -= len(ticket.deliveries)
            self._backlog_held -= len(ticket.deliveries) if ticket.is_backlog else 0
            self.counts.withdrawn_total += len(ticket.deliveries)
            return True

    def drain(self) -> list[Delivery]:
        """All that wait, in the order they came. Each is to be acknowledged or failed."""
        with self._lock:
            tickets, self._queued = self._queued, deque()
            drained = [delivery for ticket in tickets for delivery in ticket.deliveries]
            for ticket in tickets:
                for delivery in ticket.deliveries:
                    self._drained[id(delivery)] = ticket
        return drained

    def acknowledge(self, deliveries: Iterable[Delivery]) -> None:
        """These are committed (or were stored before)."""
        self._settle(deliveries, None)

    def fail(self, deliveries: Iterable[Delivery], error: StoreError) -> None:
        """These could not be committed: their senders are told, and keep them."""
        self._settle(deliveries, error)

    def _settle(self, deliveries: Iterable[Delivery], error: StoreError | None) -> None:
        done: list[Ticket] = []
        with self._lock:
            for delivery in deliveries:
                ticket = self._drained.pop(id(delivery), None)
                if ticket is not None:
                    self._count(error)
                    self._backlog_held -= ticket.is_backlog
                    if ticket.is_done_with(error):
                        done.append(ticket)
            # Full is over only when half is free: or the warning would come with every commit.
            self._is_full = self._is_full and self._held > self._reports_max // 2
        for ticket in done:
            if ticket.settle is not None:
                ticket.settle(error)

    def _count(self, error: StoreError | None) -> None:
        self._held -= 1
        if error is None:
            self.counts.committed_total += 1
        else:
            self.counts.failed_total += 1
