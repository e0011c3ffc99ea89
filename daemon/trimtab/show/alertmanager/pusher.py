"""Keeps every Alertmanager peer told of what we page through it: opened, renewed, ended; again after any outage.

Each peer has a state of its own. What was pushed is written down before it is sent, so that a daemon that was killed
ends what it had opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from trimtab.clock import Clock
from trimtab.errors import StoreError
from trimtab.model.alerts import PushedAlert
from trimtab.model.oncall import Incident
from trimtab.show.alertmanager.alerts import Frame, alert_for, body_of, faults_of, resolved
from trimtab.show.alertmanager.client import Peer, PeerDown, PeerRefused

BATCH_ALERTS = 200
BACKOFF_SECONDS_MAX = 30.0
RESOLVED_MAX = 5000
"""More alerts that are over and still repeated: the oldest are forgotten, and end by themselves."""
SKEW_SECONDS = 30.0
"""So long the end of an alert is repeated at each beat. Where Alertmanager's clock is behind ours, an end lies in its
future, and it then goes on believing the later end that it was told before."""
UNTOLD_SECONDS_MAX = 24 * 3600.0
"""A peer that cannot be told for so long that an alert is over has lost it anyway."""

Key = tuple[tuple[str, str], ...]


class Pushes(Protocol):
    """The memory that pushing needs; the history satisfies it."""

    def pushed_alerts(self) -> tuple[PushedAlert, ...]:
        """All that were pushed and are not forgotten, open ones and those over."""
        ...

    def keep_pushed(self, alerts: Sequence[PushedAlert], forgotten: Sequence[PushedAlert]) -> None:
        """Write these down, each in the place of the one with its labels, and forget those; one transaction."""
        ...


@dataclass(slots=True)
class PeerFacts:
    """How one peer takes what it is given; /metrics and doctor read it."""

    name: str
    posts_total: Counter[str] = field(default_factory=Counter)
    """Posts by result: taken, refused, failed, withheld."""
    trouble: str = ""
    """Why the last post or read failed; empty = it did not."""
    taken_at: datetime | None = None
    failing_since: datetime | None = None
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Told:
    """What a peer was told of an alert the last time."""

    alert: PushedAlert
    at_seconds: float
    was_muted: bool
    """Over, and under a silence: Alertmanager tells nobody, then or later, unless it hears of it again."""


@dataclass(slots=True)
class _Line:
    """What a peer was told, and when it may be told again."""

    peer: Peer
    facts: PeerFacts
    told: dict[Key, _Told] = field(default_factory=dict)
    end_told: dict[Key, float] = field(default_factory=dict)
    """Since when it knows that an alert is over, and could tell of it: an end under a silence is told to nobody."""
    failures: int = 0
    due_at_seconds: float = 0.0
    up_since: datetime | None = None


class Pusher:
    """Owns the pushed alerts. One thread calls it."""

    def __init__(
        self,
        peers: Sequence[Peer],
        *,
        frame: Frame,
        memory: Pushes,
        clock: Clock,
        is_muted: Callable[[PushedAlert, datetime], bool] | None = None,
    ) -> None:
        """Take up what an earlier daemon had pushed: all of it is posted again, to every peer.

        `clock` must be a real one: Alertmanager compares what we send with its own. `is_muted`: whether a
        silence lies over an alert, as far as is known.
        """
        self._is_muted = is_muted or (lambda _alert, _now: False)
        self._frame = frame
        self._memory = memory
        self._clock = clock
        self._lines = [_Line(peer=peer, facts=PeerFacts(name=peer.name)) for peer in peers]
        self._alerts: dict[Key, PushedAlert] = {alert.key: alert for alert in memory.pushed_alerts()}
        self._standing = _standing(self._alerts.values())
        self.left_out = 0
        """Open incidents beyond `alerts_max` at the last beat."""

    @property
    def facts(self) -> tuple[PeerFacts, ...]:
        """How each peer is."""
        return tuple(line.facts for line in self._lines)

    @property
    def open_alerts(self) -> tuple[PushedAlert, ...]:
        """The alerts that stand."""
        return tuple(self._standing.values())

    def labels_of(self, number: int) -> Mapping[str, str] | None:
        """The labels under which an incident stands with Alertmanager; None = it does not."""
        alert = self._standing.get(number)
        return alert.labels if alert is not None else None

    def push(self, incidents: Iterable[Incident]) -> str:
        """Make these incidents, and no others, stand with every peer; the sentence of the beat.

        Where the store is out of reach nothing begins or ends, but what stands is renewed; then StoreError is raised.
        """
        now = self._clock.now()
        unwritten = self._take(sorted(incidents, key=lambda one: one.number), now)
        told = sum(self._tell(line, now) for line in self._lines)
        if unwritten is not None:
            raise unwritten
        self._forget(now)
        troubles = "".join(f"; {line.facts.trouble}" for line in self._lines if line.facts.trouble)
        left_out = f"; {self.left_out} beyond alertmanager.alerts_max not pushed" if self.left_out else ""
        return f"{len(self.open_alerts)} alerts stand, {told} posted{left_out}{troubles}"

    def heard_up_since(self, name: str, up_since: datetime, version: str = "") -> None:
        """A peer said since when it runs: one that started anew knows nothing and is told everything."""
        for line in self._lines:
            if line.facts.name == name:
                if line.up_since is not None and line.up_since != up_since:
                    line.told.clear()
                    line.end_told.clear()
                    line.due_at_seconds = 0.0
                line.up_since, line.facts.version = up_since, version

    # --- what should stand

    def _take(self, incidents: Sequence[Incident], now: datetime) -> StoreError | None:
        """Bring the alerts in line with the incidents; the error where that could not be written down."""
        standing = self._standing
        wanted = self._chosen(incidents, standing)
        changed = self._wanted_changes(wanted, standing, now)
        numbers = {one.number for one in wanted}
        for before in standing.values():
            if before.incident not in numbers and before.key not in changed:
                changed[before.key] = resolved(before, now)
        if not changed:
            return None
        try:
            self._memory.keep_pushed(tuple(changed.values()), ())
        except StoreError as error:
            return error
        self._alerts |= changed
        self._standing = _standing(self._alerts.values())
        return None

    def _chosen(self, incidents: Sequence[Incident], standing: Mapping[int, PushedAlert]) -> list[Incident]:
        most = self._frame.settings.alerts_max
        self.left_out = max(0, len(incidents) - most)
        # Who stands already goes on standing: a storm must not end what somebody was paged for.
        return sorted(incidents, key=lambda one: (one.number not in standing, one.number))[:most]

    def _wanted_changes(
        self, wanted: Sequence[Incident], standing: Mapping[int, PushedAlert], now: datetime
    ) -> dict[Key, PushedAlert]:
        changed: dict[Key, PushedAlert] = {}
        claimed: set[Key] = set()
        for one in wanted:
            before = standing.get(one.number)
            alert = alert_for(one, before, self._frame, now)
            if alert.key in claimed:
                continue  # two of one name: the older speaks for both
            claimed.add(alert.key)
            if before is not None and before.key != alert.key:
                changed[before.key] = resolved(before, now)
            if self._alerts.get(alert.key) != alert:
                changed[alert.key] = alert
        return changed

    # --- telling a peer

    def _tell(self, line: _Line, now: datetime) -> int:
        if self._clock.monotonic_seconds() < line.due_at_seconds:
            return 0
        due = [alert for alert in self._alerts.values() if self._is_due(line, alert, now)]
        # The end of an alert and the begin of the one in its place go in one post: they are of one finding.
        due.sort(key=lambda alert: (alert.incident, alert.resolved_at is None))
        told = 0
        for batch in _batches(due):
            if not self._post(line, batch, now):
                break
            told += len(batch)
        return told

    def _is_due(self, line: _Line, alert: PushedAlert, now: datetime) -> bool:
        told = line.told.get(alert.key)
        if told is None or told.alert != alert:
            return True
        if told.was_muted and not self._is_muted(alert, now):
            return True
        at_seconds = self._clock.monotonic_seconds()
        if at_seconds - line.end_told.get(alert.key, at_seconds - SKEW_SECONDS) < SKEW_SECONDS:
            return True
        return at_seconds - told.at_seconds >= self._frame.settings.renew_seconds

    def _post(self, line: _Line, batch: Sequence[PushedAlert], now: datetime) -> bool:
        bodies = [body_of(alert, now=now, hold_seconds=self._frame.settings.hold_seconds) for alert in batch]
        faults = faults_of(bodies)
        if faults:
            self._note_failure(line, f"Not sent to {line.facts.name}: {faults[0]}", "withheld", now)
            return False
        try:
            line.peer.post_alerts(bodies)
        except PeerDown as error:
            # It may have started anew, and then knows nothing: when it answers again it is told everything.
            line.told.clear()
            self._note_failure(line, str(error), "failed", now)
            return False
        except PeerRefused as error:
            # Alertmanager takes the good ones of a bad batch; the batch is repeated at the next renewal.
            self._note_failure(line, str(error), "refused", now)
        else:
            line.facts.posts_total["taken"] += 1
            line.facts.trouble, line.facts.taken_at, line.facts.failing_since = "", now, None
            line.failures = 0
        at_seconds = self._clock.monotonic_seconds()
        for alert in batch:
            was_muted = alert.resolved_at is not None and self._is_muted(alert, now)
            line.told[alert.key] = _Told(alert=alert, at_seconds=at_seconds, was_muted=was_muted)
            if alert.resolved_at is None or was_muted:
                line.end_told.pop(alert.key, None)
            else:
                line.end_told.setdefault(alert.key, at_seconds)
        return True

    def _note_failure(self, line: _Line, sentence: str, result: str, now: datetime) -> None:
        line.facts.posts_total[result] += 1
        line.facts.trouble = sentence
        line.facts.failing_since = line.facts.failing_since or now
        line.failures += 1
        wait_seconds = min(2.0 ** min(line.failures - 1, 10), BACKOFF_SECONDS_MAX)
        line.due_at_seconds = self._clock.monotonic_seconds() + wait_seconds

    # --- forgetting

    def _forget(self, now: datetime) -> None:
        """What is over is repeated for a while to each peer that has taken it, then forgotten."""
        over = sorted(
            (alert for alert in self._alerts.values() if alert.resolved_at is not None),
            key=lambda alert: alert.resolved_at or now,
        )
        gone = [alert for alert in over if self._is_told_enough(alert, now)]
        going = {alert.key for alert in gone}
        rest = [alert for alert in over if alert.key not in going]
        gone += rest[: max(0, len(rest) - RESOLVED_MAX)]
        if not gone:
            return
        self._memory.keep_pushed((), gone)
        for alert in gone:
            del self._alerts[alert.key]
            for line in self._lines:
                line.told.pop(alert.key, None)
                line.end_told.pop(alert.key, None)

    def _is_told_enough(self, alert: PushedAlert, now: datetime) -> bool:
        if self._is_muted(alert, now):
            return False
        at_seconds, enough = self._clock.monotonic_seconds(), self._frame.settings.resolved_seconds
        untold = [line for line in self._lines if at_seconds - line.end_told.get(alert.key, at_seconds) < enough]
        return all(_is_lost(line.facts, now) for line in untold)


def _is_lost(peer: PeerFacts, now: datetime) -> bool:
    return peer.failing_since is not None and now - peer.failing_since > timedelta(seconds=UNTOLD_SECONDS_MAX)


def _standing(alerts: Iterable[PushedAlert]) -> dict[int, PushedAlert]:
    """Number of an incident -> its alert that stands."""
    return {alert.incident: alert for alert in alerts if alert.resolved_at is None}


def _batches(alerts: Sequence[PushedAlert]) -> Iterable[list[PushedAlert]]:
    """Batches of bounded size that never part the alerts of one finding."""
    batch: list[PushedAlert] = []
    for alert in alerts:
        if len(batch) >= BATCH_ALERTS and alert.incident != batch[-1].incident:
            yield batch
            batch = []
        batch.append(alert)
    if batch:
        yield batch
