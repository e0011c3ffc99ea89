"""Delivers the outbox to one target: claims a letter, sends it outside any transaction, notes what came of it.

At least once: what may have arrived without our knowing is sent again and says so. A target that is down costs only
itself; what it does not take in time goes to its `next` as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from random import Random
from typing import Protocol

import structlog

from trimtab.clock import Clock
from trimtab.model.oncall import Thread
from trimtab.model.outbox import Claimed
from trimtab.runner import Tally, run_all
from trimtab.settings.oncall import OnCallSettings
from trimtab.show.oncall.sender import Dead, Delivered, Sender, TryAgain

log = structlog.get_logger()

TICK_SECONDS_MAX = 10.0
"""One beat sends for so long at most: the rest waits for the next."""
DOUBLINGS_MAX = 16


class Outbox(Protocol):
    """The memory that delivery needs; the history satisfies it."""

    def claim(self, target: str, *, owner: str, at: datetime, lease_seconds: float) -> Claimed | None:
        """Take the most urgent letter that is due."""
        ...

    def delivered(
        self, claimed: Claimed, *, at: datetime, remote_id: str = "", thread: Thread | None = None, remark: str = ""
    ) -> bool:
        """It arrived; False where the lease was lost."""
        ...

    def put_off(self, claimed: Claimed, *, until: datetime, error: str, is_unsure: bool) -> bool:
        """Try again then."""
        ...

    def died(self, claimed: Claimed, *, at: datetime, error: str) -> bool:
        """It will never be taken."""
        ...

    def hand_on(self, letter_id: int, target: str, *, at: datetime) -> bool:
        """Give its news to another target as well, once."""
        ...

    def undelivered_pages(self, target: str, *, before: datetime) -> tuple[int, ...]:
        """Openings that are dead or have waited since before then."""
        ...

    def unacknowledged_pages(self, target: str, *, before: datetime) -> tuple[int, ...]:
        """Openings of critical incidents that arrived before then and nobody acknowledged."""
        ...


@dataclass(slots=True)
class DeliveryCounts:
    """What came of attempts over the life of the daemon, by target and result; /metrics reads it."""

    attempts_total: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Result: delivered, put_off, dead, lost."""
    trouble: dict[str, str] = field(default_factory=dict)
    """Target -> why its last attempt failed; nothing where it did not."""
    delivered_at: dict[str, datetime] = field(default_factory=dict)


class Deliverer:
    """Owns one target. One thread calls `tick`; several processes may share the outbox."""

    def __init__(
        self,
        sender: Sender,
        *,
        outbox: Outbox,
        settings: OnCallSettings,
        clock: Clock,
        owner: str,
        counts: DeliveryCounts,
        next_target: str = "",
        per_minute_max: float = 60.0,
        random: Random | None = None,
    ) -> None:
        """`owner` signs the leases; `next_target` is told of what this target does not take."""
        self.name = sender.name
        self._sender = sender
        self._outbox = outbox
        self._settings = settings
        self._clock = clock
        self._owner = owner
        self._counts = counts
        self._next = next_target
        self._bucket = Bucket(per_minute_max, clock)
        self._random = random or Random()
        self._tally = Tally()
        self._failures = 0
        self._due_at_seconds = 0.0
        self._unnoted: Callable[[], bool] | None = None

    def use(self, settings: OnCallSettings) -> None:
        """Other time limits and pauses from the next attempt on."""
        self._settings = settings

    def tick(self) -> str:
        """Send what is due; the sentence of the beat. Raises StoreError where the outbox is out of reach."""
        self._note()
        handed_on = self._hand_on()
        began = self._clock.monotonic_seconds()
        delivered = failed = 0
        while self._may_go_on(began):
            claimed = self._claim()
            if claimed is None:
                break
            if self._send(claimed):
                delivered += 1
            else:
                failed += 1
        trouble = self._counts.trouble.get(self.name, "")
        parts = [f"{delivered} delivered", *([f"{failed} not"] if failed else [])]
        parts += [f"{handed_on} handed on to {self._next}"] if handed_on else []
        return ", ".join(parts) + (f"; {trouble}" if trouble else "")

    def _may_go_on(self, began: float) -> bool:
        now = self._clock.monotonic_seconds()
        return now - began <= self._wall(TICK_SECONDS_MAX) and now >= self._due_at_seconds and self._bucket.has_room()

    def _claim(self) -> Claimed | None:
        lease_seconds = self._wall(self._settings.lease_seconds)
        return self._outbox.claim(self.name, owner=self._owner, at=self._clock.now(), lease_seconds=lease_seconds)

    def _send(self, claimed: Claimed) -> bool:
        """One attempt, and the note of what came of it: kept until the store has taken it."""
        self._bucket.take()
        outcome = self._attempt(claimed)
        now = self._clock.now()
        if isinstance(outcome, Delivered):
            self._went_well(now)
            self._unnoted = lambda: self._outbox.delivered(
                claimed, at=now, remote_id=outcome.remote_id, thread=outcome.thread, remark=outcome.remark
            )
        else:
            self._unnoted = self._failed(claimed, outcome, now)
        self._note()
        return isinstance(outcome, Delivered)

    def _note(self) -> None:
        """Write down what is not written yet: a store that was away must not cost a second message."""
        note = self._unnoted
        if note is None:
            return
        is_ours = note()
        self._unnoted = None
        if not is_ours:
            self._counts.attempts_total[self.name, "lost"] += 1
            log.warning("a letter's lease ran out before its end was noted", target=self.name)

    def _attempt(self, claimed: Claimed) -> Delivered | TryAgain | Dead:
        """Send once. What a sender did not foresee is no proof that nothing arrived."""
        (ran,) = run_all([(self.name, lambda: self._tried(claimed))], clock=self._clock, tally=self._tally)
        return (
            ran.result if ran.result is not None else TryAgain(f"the sender failed: {ran.error}", may_have_arrived=True)
        )

    def _tried(self, claimed: Claimed) -> Delivered | TryAgain | Dead:
        try:
            return self._sender.send(claimed.message, claimed.thread)
        except (TryAgain, Dead) as no:
            return no

    def _went_well(self, now: datetime) -> None:
        self._failures = 0
        self._counts.attempts_total[self.name, "delivered"] += 1
        self._counts.delivered_at[self.name] = now
        if self._counts.trouble.pop(self.name, ""):
            log.info("a target takes messages again", target=self.name)

    def _failed(self, claimed: Claimed, outcome: TryAgain | Dead, now: datetime) -> Callable[[], bool]:
        reason = outcome.reason
        if self.name not in self._counts.trouble:
            log.warning("a target does not take messages", target=self.name, why=reason)
        self._counts.trouble[self.name] = reason
        if isinstance(outcome, Dead):
            self._counts.attempts_total[self.name, "dead"] += 1
            return lambda: self._outbox.died(claimed, at=now, error=reason)
        if (now - claimed.created_at).total_seconds() > self._wall(self._settings.give_up_seconds):
            self._counts.attempts_total[self.name, "dead"] += 1
            return lambda: self._outbox.died(
                claimed, at=now, error=f"given up after {claimed.attempts} tries: {reason}"
            )
        self._counts.attempts_total[self.name, "put_off"] += 1
        wait_seconds = self._wall(self._wait_seconds(outcome))
        # The whole target waits: one that is down is not asked once for every letter.
        self._due_at_seconds = self._clock.monotonic_seconds() + wait_seconds
        until = now + timedelta(seconds=wait_seconds)
        return lambda: self._outbox.put_off(claimed, until=until, error=reason, is_unsure=outcome.may_have_arrived)

    def _wait_seconds(self, outcome: TryAgain) -> float:
        """As the target asks; else a random part of a wait that doubles, so that nobody comes back all at once."""
        self._failures += 1
        if outcome.after_seconds is not None:
            return max(outcome.after_seconds, 0.0)
        most = self._settings.backoff_seconds * 2.0 ** min(self._failures - 1, DOUBLINGS_MAX)
        return self._random.uniform(0.0, min(most, self._settings.backoff_seconds_max))

    def _hand_on(self) -> int:
        """Openings that did not arrive in time, or that nobody acknowledged, also go to the next target."""
        if not self._next:
            return 0
        now, settings = self._clock.now(), self._settings
        late = now - timedelta(seconds=self._wall(settings.next_after_seconds))
        ids = list(self._outbox.undelivered_pages(self.name, before=late))
        if settings.escalate_after_seconds:
            unheard = now - timedelta(seconds=self._wall(settings.escalate_after_seconds))
            ids += self._outbox.unacknowledged_pages(self.name, before=unheard)
        return sum(1 for one in ids if self._outbox.hand_on(one, self._next, at=now))

    def _wall(self, seconds: float) -> float:
        """Seconds of the real world, in which targets live, as seconds of the daemon's clock."""
        return real_seconds(self._clock, seconds)


class Bucket:
    """At most so many a minute, and a quarter of that at once."""

    def __init__(self, per_minute: float, clock: Clock) -> None:
        """Full at the beginning."""
        self._clock = clock
        self._most = max(per_minute / 4.0, 1.0)
        self._per_second = per_minute / 60.0 / real_seconds(clock, 1.0)
        self._left = self._most
        self._at_seconds = clock.monotonic_seconds()

    def has_room(self) -> bool:
        """Whether one more may go now."""
        now = self._clock.monotonic_seconds()
        self._left = min(self._most, self._left + (now - self._at_seconds) * self._per_second)
        self._at_seconds = now
        return self._left >= 1.0

    def take(self) -> None:
        """One goes."""
        self._left -= 1.0


def real_seconds(clock: Clock, seconds: float) -> float:
    """How much of the clock's own time passes in so many real seconds; a clock that stands still counts as real."""
    wall = clock.wall_seconds(1.0)
    return seconds / wall if wall > 0 else seconds
