"""Whatever breaks in whatever order: once all is up again, every peer holds what is open, and nothing else."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from tests.alertmanager.scenes import a_frame, an_incident
from tests.fakes.alerts import FakeAlertMemory
from tests.fakes.clock import FakeClock

from trimtab.errors import StoreError
from trimtab.model.advice import Severity
from trimtab.show.alertmanager.client import PeerDown
from trimtab.show.alertmanager.pusher import Pusher

Key = tuple[tuple[str, str], ...]


@dataclass
class Held:
    starts_at: datetime
    ends_at: datetime


@dataclass
class MergingPeer:
    """An Alertmanager that merges what it is told as the real one does, by a clock of its own."""

    name: str
    clock: FakeClock
    skew_seconds: float = 0.0
    is_down: bool = False
    held: dict[Key, Held] = field(default_factory=dict)
    up_since: datetime | None = None

    def now(self) -> datetime:
        return self.clock.now() + timedelta(seconds=self.skew_seconds)

    def post_alerts(self, alerts: list[dict]) -> None:
        if self.is_down:
            raise PeerDown(f"{self.name} does not answer.")
        for body in alerts:
            key = tuple(sorted(body["labels"].items()))
            new = Held(datetime.fromisoformat(body["startsAt"]), datetime.fromisoformat(body["endsAt"]))
            assert new.starts_at < new.ends_at
            self.held[key] = _merged(self.held.get(key), new, self.now())

    def restart(self) -> None:
        self.held.clear()
        self.up_since = self.clock.now()

    def firing(self) -> set[Key]:
        return {key for key, held in self.held.items() if held.ends_at > self.now()}


def _merged(old: Held | None, new: Held, now: datetime) -> Held:
    """As types.Alert.Merge: only where the two overlap; of ends, a later one that is still ahead counts."""
    if old is None:
        return new
    overlaps = old.starts_at < new.ends_at < old.ends_at or old.starts_at < new.starts_at < old.ends_at
    if not overlaps:
        return new
    starts_at, ends_at = min(old.starts_at, new.starts_at), new.ends_at
    if new.ends_at <= now:
        ends_at = max(old.ends_at, new.ends_at) if old.ends_at <= now else new.ends_at
    elif old.ends_at > new.ends_at:
        ends_at = old.ends_at
    return Held(starts_at, ends_at)


class Chaos(RuleBasedStateMachine):
    """One daemon, two peers whose clocks are off by seconds, and everything that can go wrong between them."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.memory = FakeAlertMemory()
        self.peers = [MergingPeer("am-0", self.clock, -4.0), MergingPeer("am-1", self.clock, 3.0)]
        self.open: dict[int, Severity] = {}
        self.start(label=False)

    @rule(label=st.booleans())
    def start(self, label: bool) -> None:
        """The daemon is killed and starts, perhaps with other settings."""
        frame = a_frame(severity_label="severity" if label else None)
        self.pusher = Pusher(self.peers, frame=frame, memory=self.memory, clock=self.clock)

    @rule(number=st.integers(1, 4), severity=st.sampled_from((Severity.WARNING, Severity.CRITICAL)))
    def breaks(self, number: int, severity: Severity) -> None:
        """One open incident a name: what comes back under it has another number."""
        if not any(other != number and other % 3 == number % 3 for other in self.open):
            self.open[number] = severity

    @rule(number=st.integers(1, 4))
    def is_mended(self, number: int) -> None:
        self.open.pop(number, None)

    @rule(peer=st.integers(0, 1), is_down=st.booleans())
    def goes_down_or_up(self, peer: int, is_down: bool) -> None:
        self.peers[peer].is_down = is_down

    @rule(peer=st.integers(0, 1))
    def restarts(self, peer: int) -> None:
        self.peers[peer].restart()

    @rule()
    def store_fails(self) -> None:
        self.memory.next_error = StoreError("trimtab.db: disk full.")

    @rule(seconds=st.sampled_from((5, 5, 5, 30, 60, 400)))
    def beat(self, seconds: int) -> None:
        self.clock.advance(seconds)
        self._push()

    def _push(self) -> None:
        for peer in self.peers:
            if not peer.is_down and peer.up_since is not None:
                self.pusher.heard_up_since(peer.name, peer.up_since)
        found = [
            replace(
                an_incident(number, opened_at=self.clock.now()), incident=f"incident-{number % 3}", severity=severity
            )
            for number, severity in self.open.items()
        ]
        with contextlib.suppress(StoreError):
            self.pusher.push(found)

    @invariant()
    def what_is_written_down_is_what_is_open(self) -> None:
        standing = [alert for alert in self.memory.pushed.values() if alert.resolved_at is None]
        assert len({alert.incident for alert in standing}) == len(standing)

    def teardown(self) -> None:
        for peer in self.peers:
            peer.is_down = False
        self.memory.next_error = None
        for _ in range(14):
            self.clock.advance(5)
            self._push()
        wanted = {f"incident-{number % 3}" for number in self.open}
        for peer in self.peers:
            firing = [dict(key)["incident"] for key in peer.firing()]
            assert sorted(firing) == sorted(wanted), peer.name


TestChaos = Chaos.TestCase
TestChaos.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
