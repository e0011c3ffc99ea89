"""What others say: takes their alerts in, gives those that stand to whoever judges or shows. Context, never cause."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Protocol

from trimtab.clock import Clock, age_text
from trimtab.errors import StoreError, TrimtabError
from trimtab.model.alerts import ForeignAlert
from trimtab.settings.alertmanager import OthersSettings
from trimtab.show.alertmanager.webhook import ALERTS_PER_BODY_MAX, Webhook, read_webhook

AGE_EVERY_SECONDS = 60.0
READ_EVERY_SECONDS = 15.0
"""Another daemon on the same database may have been told; what we were told ourselves counts at once."""
TROUBLE_SECONDS = 600.0
"""A delivery that could not be kept is news for so long: none may come after it to show that all is well."""
REST_SECONDS = 5.0
"""After the store said no, deliveries are turned away at once for so long."""
WAITING_MAX = 4
"""Deliveries that may wait for the store at once. Alertmanager repeats what is answered 503."""


class NotNow(TrimtabError):
    """It cannot be kept now; whoever delivers repeats it."""


class TooMany(TrimtabError):
    """More alerts in one delivery than are taken; the same delivery will never be."""


class AlertsKept(Protocol):
    """The memory of other people's alerts; the history satisfies it."""

    def hear_alerts(self, alerts: Sequence[ForeignAlert], *, most: int) -> Mapping[str, int]:
        """Keep what a webhook told, in one transaction; how many of them had which outcome."""
        ...

    def firing_alerts(self, limit: int = 5000) -> tuple[ForeignAlert, ...]:
        """Those that stand, the newest first."""
        ...

    def alerts_since(self, since: datetime, limit: int = 1000) -> tuple[ForeignAlert, ...]:
        """Those heard of at `since` or later, whatever their state, the newest first."""
        ...

    def age_alerts(self, *, not_heard_since: datetime, forget_before: datetime) -> int:
        """Let alerts end that nobody repeated since then, and forget those over for long; how many ended."""
        ...


class Others:
    """Safe to call from several threads."""

    def __init__(
        self, *, memory: AlertsKept, settings: OthersSettings, cluster: str, clock: Clock, wall: Clock
    ) -> None:
        """`clock` stamps what is heard; `wall` is a real one, for deadlines."""
        self._memory = memory
        self._settings = settings
        self._cluster = cluster
        self._clock, self._wall = clock, wall
        self._room = threading.BoundedSemaphore(WAITING_MAX)
        self._rests_until_seconds = 0.0
        self._aged_at_seconds: float | None = None
        self._firing: tuple[ForeignAlert, ...] = ()
        self._read_at_seconds: float | None = None
        """None = something was told since: read anew."""
        self.alerts_total: Counter[str] = Counter()
        """Alerts delivered, by what became of them."""
        self._unkept: tuple[str, float] | None = None
        self._unread = ""

    @property
    def trouble(self) -> str:
        """Why alerts could not be kept lately, or cannot be read; empty = they can."""
        if self._unkept is not None and self._wall.monotonic_seconds() - self._unkept[1] < TROUBLE_SECONDS:
            return self._unkept[0]
        return self._unread

    def hear(self, webhook: Webhook, *, source: str) -> Mapping[str, int]:
        """Keep a delivery; what became of its alerts. Raises NotNow where nothing of it could be kept, and TooMany."""
        if len(webhook.alerts) > ALERTS_PER_BODY_MAX:
            self.alerts_total["too_many"] += len(webhook.alerts)
            raise TooMany(
                f"{len(webhook.alerts)} alerts in one delivery, at most {ALERTS_PER_BODY_MAX} are taken: "
                f"set max_alerts: {ALERTS_PER_BODY_MAX} in the receiver's webhook_configs."
            )
        now = self._clock.now()
        heard = read_webhook(webhook, settings=self._settings, cluster=self._cluster, source=source, heard_at=now)
        counts = Counter(self._keep(heard.alerts)) if heard.alerts else Counter()
        counts.update(heard.ignored)
        self.alerts_total.update(counts)
        return dict(counts)

    def _keep(self, alerts: Sequence[ForeignAlert]) -> Mapping[str, int]:
        rest_seconds = self._rests_until_seconds - self._wall.monotonic_seconds()
        if rest_seconds > 0:
            why = self._unkept[0] if self._unkept is not None else ""
            raise self._not_now(len(alerts), f"{why} Tried again in {age_text(rest_seconds)}.")
        if not self._room.acquire(blocking=False):
            raise self._not_now(len(alerts), f"{WAITING_MAX} deliveries wait for the database already.")
        try:
            counts = self._memory.hear_alerts(alerts, most=self._settings.alerts_max)
        except StoreError as error:
            why, at_seconds = f"Alerts of others cannot be kept: {error}", self._wall.monotonic_seconds()
            self._unkept = (why, at_seconds)
            self._rests_until_seconds = at_seconds + REST_SECONDS
            raise self._not_now(len(alerts), why) from error
        finally:
            self._room.release()
        self._unkept = None
        self._read_at_seconds = None
        return counts

    def _not_now(self, alerts: int, sentence: str) -> NotNow:
        self.alerts_total["not_kept"] += alerts
        return NotNow(sentence)

    def standing(self) -> tuple[ForeignAlert, ...]:
        """Those that stand now, the newest first; where the store is out of reach, as last read."""
        at_seconds = self._wall.monotonic_seconds()
        if self._read_at_seconds is not None and at_seconds - self._read_at_seconds < READ_EVERY_SECONDS:
            return self._firing
        self._read_at_seconds = at_seconds
        try:
            self._firing = self._memory.firing_alerts(self._settings.alerts_max)
        except StoreError as error:
            self._unread = f"Alerts of others cannot be read: {error}"
        else:
            self._unread = ""
        return self._firing

    @property
    def last_read(self) -> tuple[ForeignAlert, ...]:
        """Those that stood when it was last looked."""
        return self._firing

    def since(self, since: datetime, limit: int) -> tuple[ForeignAlert, ...]:
        """Those heard of at `since` or later, the newest first."""
        return self._memory.alerts_since(since, limit)

    def age_when_due(self) -> int:
        """Each minute: let end what nobody repeats any more; how many ended."""
        at_seconds = self._wall.monotonic_seconds()
        if self._aged_at_seconds is not None and at_seconds - self._aged_at_seconds < AGE_EVERY_SECONDS:
            return 0
        self._aged_at_seconds = at_seconds
        self._read_at_seconds = None
        now = self._clock.now()
        return self._memory.age_alerts(
            not_heard_since=now - timedelta(seconds=self._settings.age_seconds),
            forget_before=now - timedelta(days=self._settings.keep_days),
        )
