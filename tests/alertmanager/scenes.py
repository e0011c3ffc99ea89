"""Incidents, settings, a memory and a desk for the tests of this folder."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.builders import CLUSTER, gpu_uuid
from tests.fakes.clock import START

from trimtab.errors import StoreError
from trimtab.model.advice import Action, Severity, Subject
from trimtab.model.alerts import ForeignAlert, Maintenance, PushedAlert
from trimtab.model.command import AuditLine
from trimtab.model.oncall import Incident, Pager
from trimtab.settings import AlertmanagerSettings
from trimtab.show.alertmanager.alerts import Frame

PAGE = "https://trimtab.example"


def an_incident(number: int = 17, **changes: Any) -> Incident:
    node = changes.pop("node", "gpu-07")
    return Incident(
        **{
            "id": f"I{number}-3fa9",
            "cluster": CLUSTER,
            "rule": "device_fault",
            "severity": Severity.CRITICAL,
            "subject": Subject(cluster=CLUSTER, node=node, gpu=gpu_uuid(node, 3) if node else None),
            "title": f"{CLUSTER}: {node} lost GPU 3 (XID 79)",
            "first_line": f"{CLUSTER}: {node} lost GPU 3 (XID 79)",
            "opened_at": START,
            "number": number,
            "incident": f"device_fault:{node}:{number}",
            "finding": 30 + number,
            "pager": Pager.ALERTMANAGER,
            "action": Action.CORDON_RESET,
            "impact": "llama-70b stands still: 32 GPUs.",
            "victims": ("research/llama-70b",),
            **changes,
        }
    )


class MovingClock:
    """The real clock, or one so long behind it, that can be moved: what a real Alertmanager compares with its own."""

    def __init__(self, *, behind_seconds: float = 0.0) -> None:
        self._wall_seconds = -behind_seconds
        self._monotonic_seconds = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self._wall_seconds)

    def monotonic_seconds(self) -> float:
        return time.monotonic() + self._monotonic_seconds

    def wall_seconds(self, seconds: float) -> float:
        return seconds

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self._wall_seconds += seconds
        self._monotonic_seconds += seconds

    def hurry(self, seconds: float) -> None:
        """What waits for its turn need not wait so long; the moment stays the real one."""
        self._monotonic_seconds += seconds


def a_frame(**settings: Any) -> Frame:
    return Frame(settings=AlertmanagerSettings(**settings), page_url=lambda: PAGE)


class FakeMemory:
    """Windows, pushed and other people's alerts, in memory; fails once on demand."""

    ledger = "3fa9c1d2"

    def __init__(self) -> None:
        self.pushed: dict[Any, PushedAlert] = {}
        self.windows: dict[int, Maintenance] = {}
        self.heard: list[ForeignAlert] = []
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

    def change_maintenance(self, window: Maintenance, *, line: AuditLine | None = None) -> None:
        self._fail_once()
        self.windows[window.id] = window
        self.lines += [line] if line is not None else []
