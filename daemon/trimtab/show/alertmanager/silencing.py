"""Alertmanager's side of our maintenance windows: one silence a window, made, extended by its id, ended with it."""

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
        silence = self._wanted(window, now)
        if not window.silence_id:
            # Killed between making it and writing its id down: it is there already, under our mark.
            made = next((one.id for one in known if self._mark(window) in one.comment), "")
            silence = replace(silence, id=made)
        silence_id = peer.set_silence(silence)
        self.memory.change_maintenance(replace(window, silence_id=silence_id, silence_until=window.until))
        return True

    def _end(self, peer: Peer, window: Maintenance) -> bool:
        if not window.silence_id:
            return False
        peer.end_silence(window.silence_id)
        self.memory.change_maintenance(replace(window, silence_id="", silence_until=None))
        return True

    def _wanted(self, window: Maintenance, now: datetime) -> Silence:
        wall = self.wall.now()

        def by_the_wall(moment: datetime) -> datetime:
            seconds = (moment - now).total_seconds()
            return wall + timedelta(seconds=self.clock.wall_seconds(seconds)) if self.clock is not self.wall else moment

        return Silence(
            id=window.silence_id,
            matchers=matchers_of(window),
            starts_at=max(by_the_wall(window.starts_at), wall),
            ends_at=by_the_wall(window.until),
            created_by=window.who,
            comment=f"{window.why} ({self._mark(window)})",
        )

    def _mark(self, window: Maintenance) -> str:
        return f"trimtab:{self.memory.ledger}:{window.title}"


def matchers_of(window: Maintenance) -> tuple[Matcher, ...]:
    """What the silence of a window matches; never only the absence of something, which would mute all else."""
    if window.scope is MaintenanceScope.QUEUE:
        return (Matcher(name="queue", value=window.name),)
    if window.scope is MaintenanceScope.NODE:
        return (Matcher(name="node", value=window.name),)
    if window.nodes:
        return (Matcher(name="node", value="|".join(re.escape(node) for node in window.nodes), is_regex=True),)
    return (Matcher(name="rack", value=window.name),)
