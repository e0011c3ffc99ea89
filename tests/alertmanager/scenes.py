"""Incidents, settings, a memory and a desk for the tests of this folder."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.builders import CLUSTER, gpu_uuid
from tests.fakes.clock import START

from trimtab.model.advice import Action, Severity, Subject
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
    made = AlertmanagerSettings(**{"push": True, **settings})
    return Frame(settings=made, cluster=CLUSTER, page_url=lambda: PAGE)
