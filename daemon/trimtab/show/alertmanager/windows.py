"""Maintenance windows as people make, extend and end them; kept at once, and audited with who and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from trimtab.clock import Clock, iso
from trimtab.errors import DecisionRefused
from trimtab.model.alerts import Maintenance, MaintenanceScope
from trimtab.model.command import AuditLine
from trimtab.show.alertmanager.desk import Desk
from trimtab.show.alertmanager.silencing import WindowMemory

WINDOW_SECONDS_MAX = 90 * 86400.0
WINDOWS_MAX = 500
"""Open windows at once."""


class UnknownWindow(DecisionRefused):
    """There is no maintenance window of this id."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """Bound to one daemon's memory; what is made here counts at once."""

    memory: WindowMemory
    desk: Desk
    clock: Clock
    known: Callable[[], Mapping[MaintenanceScope, Collection[str]]]
    """Names that there are, by scope; a scope without names cannot be checked."""
    nodes_of_rack: Callable[[str], tuple[str, ...]]

    def add(
        self,
        scope: MaintenanceScope,
        name: str,
        *,
        until: datetime,
        why: str,
        who: str,
        starts_at: datetime | None = None,
        wants_silence: bool = False,
    ) -> Maintenance:
        """Keep faults of a node, rack or queue from paging until then. Raises DecisionRefused."""
        now = self.clock.now()
        begins = starts_at or now
        self._check(scope, name, begins=begins, until=until, now=now)
        if wants_silence and not self.desk.settings.urls:
            raise DecisionRefused("There is no Alertmanager to silence: set alertmanager.urls, or leave --silence out.")
        window = Maintenance(
            id=0,
            scope=scope,
            name=name,
            starts_at=begins,
            until=until,
            who=who,
            why=why,
            nodes=self.nodes_of_rack(name) if scope is MaintenanceScope.RACK else (),
            wants_silence=wants_silence,
        )
        made = self.memory.add_maintenance(window, what=f"maintenance of {window.text} until {iso(until)}", at=now)
        self.desk.refresh_windows()
        return made

    def extend(self, window_id: int, *, until: datetime, who: str) -> Maintenance:
        """Let a window end at another time. Raises DecisionRefused."""
        now = self.clock.now()
        window = self._standing(window_id, now)
        self._check_time(begins=window.starts_at, until=until, now=now)
        changed = replace(window, until=until)
        return self._keep(changed, AuditLine(at=now, who=who, what=f"{window.title} now until {iso(until)}", why=""))

    def end(self, window_id: int, *, who: str) -> Maintenance:
        """Let a window end now: what is still wrong pages from here on. Raises DecisionRefused."""
        now = self.clock.now()
        window = self._standing(window_id, now)
        changed = replace(window, ended_at=now, ended_by=who)
        return self._keep(changed, AuditLine(at=now, who=who, what=f"{window.title} of {window.text} ended", why=""))

    def _keep(self, window: Maintenance, line: AuditLine) -> Maintenance:
        self.memory.change_maintenance(window, line=line)
        self.desk.refresh_windows()
        return window

    def _standing(self, window_id: int, now: datetime) -> Maintenance:
        window = self.memory.maintenance_window(window_id)
        if window is None:
            raise UnknownWindow(f"There is no maintenance window M{window_id}. See: trimtab maintenance list")
        if window.is_over(now):
            raise DecisionRefused(f"{window.title} of {window.text} is over already. Make a new one.")
        return window

    def _check(self, scope: MaintenanceScope, name: str, *, begins: datetime, until: datetime, now: datetime) -> None:
        self._check_time(begins=begins, until=until, now=now)
        names = self.known().get(scope) or ()
        if names and name not in names:
            raise DecisionRefused(
                f"There is no {scope} {name!r} here: a window for it would keep nothing quiet. See: trimtab status"
            )
        standing = sum(1 for window in self.desk.windows if not window.is_over(now))
        if standing >= WINDOWS_MAX:
            raise DecisionRefused(f"{standing} maintenance windows stand already. End some: trimtab maintenance list")

    @staticmethod
    def _check_time(*, begins: datetime, until: datetime, now: datetime) -> None:
        if until <= max(begins, now):
            raise DecisionRefused(f"The end {iso(until)} is not after {iso(max(begins, now))}. Give a later --until.")
        if until - now > timedelta(seconds=WINDOW_SECONDS_MAX):
            raise DecisionRefused("A maintenance window ends within 90 days, so that none is forgotten.")
