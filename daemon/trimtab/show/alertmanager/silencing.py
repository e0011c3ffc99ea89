"""Alertmanager's side of our maintenance windows: their silences, made, extended by their ids, ended with them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from trimtab.clock import Clock
from trimtab.model.alerts import Maintenance, MaintenanceScope, Matcher, Silence
from trimtab.model.command import AuditLine
from trimtab.show.alertmanager.client import Peer

_BETWEEN = " "
"""Between the ids of a window's silences."""


class WindowMemory(Protocol):
    """The memory of maintenance windows; the history satisfies it."""

    @property
    def ledger(self) -> str:
        """The id of this daemon's ledger: whose windows these are."""
        ...

    def maintenance_windows(self, since: datetime) -> tuple[Maintenance, ...]:
        """Windows that end at `since` or later, or of which Alertmanager still has a silence; oldest first."""
        ...

    def maintenance_window(self, window_id: int) -> Maintenance | None:
        """One window by id, or None."""
        ...

    def add_maintenance(self, window: Maintenance, *, what: str, at: datetime) -> Maintenance:
        """A new window with an id that none has had, and its audit line."""
        ...

    def change_maintenance(self, window: Maintenance, *, line: AuditLine | None = None) -> None:
        """Keep a window as it is now, with the audit line of what changed it."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Silencer:
    """Brings Alertmanager's silences in line with the windows that want one."""

    memory: WindowMemory
    cluster: str
    """Whose alerts are silenced: another cluster may have a node, rack or queue of the same name."""
    clock: Clock
    """The clock of windows; Alertmanager's own is the wall's."""
    wall: Clock

    def keep_up(self, peer: Peer, windows: Sequence[Maintenance], known: Sequence[Silence]) -> int:
        """Make, extend and end what is due, by one peer (the others hear it from it); how many changed.

        Raises PeerDown or PeerRefused; what was done until then is written down.
        """
        return sum(self._keep_one(peer, window, known) for window in windows)

    def _keep_one(self, peer: Peer, window: Maintenance, known: Sequence[Silence]) -> bool:
        now = self.clock.now()
        if window.is_over(now):
            return self._end(peer, window)
        if not window.wants_silence or (window.silence_id and window.silence_until == window.until):
            return False
        ids = window.silence_id.split(_BETWEEN) if window.silence_id else []
        # Killed between making some and writing their ids down: they are there already, under our mark.
        mine = {_kind(one.matchers): one.id for one in known if one.id in ids or self._mark(window) in one.comment}
        wanted = [self._wanted(window, matchers, now) for matchers in matchers_of(window, cluster=self.cluster)]
        made = [peer.set_silence(replace(one, id=mine.pop(_kind(one.matchers), ""))) for one in wanted]
        for silence_id in mine.values():  # what an earlier version made otherwise
            peer.end_silence(silence_id)
        self.memory.change_maintenance(replace(window, silence_id=_BETWEEN.join(made), silence_until=window.until))
        return True

    def _end(self, peer: Peer, window: Maintenance) -> bool:
        if not window.silence_id:
            return False
        for silence_id in window.silence_id.split(_BETWEEN):
            peer.end_silence(silence_id)
        self.memory.change_maintenance(replace(window, silence_id="", silence_until=None))
        return True

    def _wanted(self, window: Maintenance, matchers: tuple[Matcher, ...], now: datetime) -> Silence:
        wall = self.wall.now()

        def by_the_wall(moment: datetime) -> datetime:
            seconds = (moment - now).total_seconds()
            return wall + timedelta(seconds=self.clock.wall_seconds(seconds)) if self.clock is not self.wall else moment

        return Silence(
            id="",
            matchers=matchers,
            starts_at=max(by_the_wall(window.starts_at), wall),
            ends_at=by_the_wall(window.until),
            created_by=window.who,
            comment=f"{window.why} {self._mark(window)}",
        )

    def _mark(self, window: Maintenance) -> str:
        return f"(trimtab:{self.memory.ledger}:{window.title})"


def matchers_of(window: Maintenance, *, cluster: str) -> tuple[tuple[Matcher, ...], ...]:
    """What each silence of a window matches; never only the absence of something, which would mute all else.

    A rack has one for alerts on its nodes and one for those on itself: matchers of one silence must all hold.
    """
    ours = Matcher(name="cluster", value=cluster)
    itself = (ours, Matcher(name=window.scope.value, value=window.name))
    if window.scope is not MaintenanceScope.RACK or not window.nodes:
        return (itself,)
    nodes = "|".join(re.escape(node) for node in window.nodes)
    return ((ours, Matcher(name="node", value=nodes, is_regex=True)), itself)


def _kind(matchers: Sequence[Matcher]) -> frozenset[Matcher]:
    """What tells a window's silences apart; Alertmanager gives matchers back in an order of its own."""
    return frozenset(matchers)
