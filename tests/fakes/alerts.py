"""A memory of windows, pushed alerts and other people's alerts, held to the history by the same tests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from tests.fakes.clock import FakeClock

from trimtab.clock import Clock
from trimtab.errors import StoreError
from trimtab.model.alerts import AlertState, ForeignAlert, Maintenance, MaintenanceScope, PushedAlert
from trimtab.model.command import AuditLine
from trimtab.settings import AlertmanagerSettings
from trimtab.show.alertmanager.alerts import Frame
from trimtab.show.alertmanager.desk import Desk
from trimtab.show.alertmanager.others import Others
from trimtab.show.alertmanager.windows import Windows
from trimtab.show.api_alerts import Alerting
from trimtab.show.board import BoardBox


class FakeAlertMemory:
    """Fails once on demand."""

    ledger = "3fa9c1d2"

    def __init__(self) -> None:
        self.pushed: dict[Any, PushedAlert] = {}
        self.windows: dict[int, Maintenance] = {}
        self.heard: dict[tuple[str, datetime], ForeignAlert] = {}
        self.lines: list[AuditLine] = []
        self.next_error: StoreError | None = None

    def _fail_once(self) -> None:
        if self.next_error is not None:
            error, self.next_error = self.next_error, None
            raise error

    def pushed_alerts(self) -> tuple[PushedAlert, ...]:
        return tuple(self.pushed.values())

    def keep_pushed(self, alerts: Sequence[PushedAlert], forgotten: Sequence[PushedAlert]) -> None:
        self._fail_once()
        for alert in forgotten:
            self.pushed.pop(alert.key, None)
        self.pushed |= {alert.key: alert for alert in alerts}

    def maintenance_windows(self, since: datetime) -> tuple[Maintenance, ...]:
        return tuple(one for one in self.windows.values() if one.until >= since or one.silence_id)

    def maintenance_window(self, window_id: int) -> Maintenance | None:
        return self.windows.get(window_id)

    def add_maintenance(self, window: Maintenance, *, what: str, at: datetime) -> Maintenance:
        made = replace(window, id=len(self.windows) + 1)
        self.windows[made.id] = made
        self.lines.append(AuditLine(at=at, who=window.who, what=f"{made.title} {what}", why=window.why))
        return made

    def audit(self, lines: Sequence[AuditLine]) -> None:
        self.lines += lines

    def change_maintenance(self, window: Maintenance, *, line: AuditLine | None = None) -> None:
        self._fail_once()
        self.windows[window.id] = window
        self.lines += [line] if line is not None else []

    def hear_alerts(self, alerts: Sequence[ForeignAlert], *, most: int) -> Mapping[str, int]:
        self._fail_once()
        counts: Counter[str] = Counter()
        for alert in alerts:
            key = (alert.fingerprint, alert.starts_at)
            was = self.heard.get(key)
            outcome = self._outcome(alert, was, most)
            counts[outcome] += 1
            if outcome in ("opened", "resolved", "repeated"):
                self.heard[key] = alert
            if outcome in ("opened", "resolved"):
                self._end_older(alert)
        return counts

    def _end_older(self, alert: ForeignAlert) -> None:
        for (fingerprint, starts_at), one in list(self.heard.items()):
            if fingerprint == alert.fingerprint and starts_at < alert.starts_at and one.state is AlertState.FIRING:
                self.heard[fingerprint, starts_at] = replace(one, state=AlertState.RESOLVED)

    def _outcome(self, alert: ForeignAlert, was: ForeignAlert | None, most: int) -> str:
        is_over = alert.state is not AlertState.FIRING
        if was is not None and was.state is AlertState.RESOLVED:
            return "repeated_end" if is_over else "late"
        if is_over:
            return "left_out" if was is None and len(self.heard) >= 10 * most else "resolved"
        if was is not None and was.state is AlertState.FIRING:
            return "repeated"
        return "left_out" if len(self.firing_alerts()) >= most else "opened"

    def firing_alerts(self, limit: int = 5000) -> tuple[ForeignAlert, ...]:
        return self._newest([one for one in self.heard.values() if one.state is AlertState.FIRING], limit)

    def alerts_since(self, since: datetime, limit: int = 1000) -> tuple[ForeignAlert, ...]:
        return self._newest([one for one in self.heard.values() if one.heard_at >= since], limit)

    @staticmethod
    def _newest(alerts: list[ForeignAlert], limit: int) -> tuple[ForeignAlert, ...]:
        alerts.sort(key=lambda one: one.fingerprint)
        alerts.sort(key=lambda one: one.heard_at, reverse=True)
        return tuple(alerts[:limit])

    def age_alerts(self, *, not_heard_since: datetime, forget_before: datetime) -> int:
        aged = 0
        for key, one in list(self.heard.items()):
            if one.state is AlertState.FIRING and one.heard_at < not_heard_since:
                self.heard[key] = replace(one, state=AlertState.AGED)
                aged += 1
            if self.heard[key].state is not AlertState.FIRING and one.heard_at < forget_before:
                del self.heard[key]
        return aged


def an_alerting(
    *, cluster: str, box: BoardBox, clock: Clock | None = None, memory: Any = None, **settings: Any
) -> Alerting:
    """What the routes about alerts and windows work on, over a memory of its own."""
    clock, memory = clock or FakeClock(), memory or FakeAlertMemory()
    made = AlertmanagerSettings(**settings)
    desk = Desk(frame=Frame(settings=made, cluster=cluster), memory=memory, clock=clock, wall=clock)
    others = Others(memory=memory, settings=made.others, cluster=cluster, clock=clock, wall=clock)

    def known() -> dict[MaintenanceScope, frozenset[str]]:
        latest = box.latest()
        return {MaintenanceScope.NODE: frozenset(node.name for node in latest.board.nodes)} if latest else {}

    windows = Windows(memory=memory, desk=desk, clock=clock, known=known, nodes_of_rack=lambda rack: ())
    return Alerting(desk=desk, others=others, windows=windows, quiet=lambda now: desk.standing((), now))
