"""A tracker driven beat by beat, and the findings that it is given."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tests.builders import CLUSTER, a_window, an_xid, gpu_uuid
from tests.detect.views import (
    at,
    readings,
    with_node,
    with_values,
)

from trimtab.detect.incident import members_text
from trimtab.detect.tracker import Changes, Tracker
from trimtab.model.advice import Action, Finding, OpenFinding, Severity, Subject
from trimtab.model.reading import Event, EventKind
from trimtab.model.window import Window

NODE = "gpu-07"


def a_finding(rule: str = "hotspot", **changes) -> Finding:
    return Finding(
        **{
            "rule": rule,
            "incident": f"{rule}:{NODE}",
            "subject": Subject(cluster=CLUSTER, node=NODE),
            "action": Action.WATCH,
            "severity": Severity.WARNING,
            "sentence": "gpu-07: 3 of 8 GPUs throttle on heat",
            **changes,
        }
    )


def a_fault(index: int = 3, *, when: float = 0.0, **changes) -> Finding:
    """What device_fault says of an uncorrectable error, resting on events."""
    facts = {
        "kind": "device",
        "needs": "reset",
        "rests_on": "events",
        "boot_id": "boot-a",
        "last_at": at(when).isoformat(),
        "members": members_text([f"device:{NODE}/{gpu_uuid(NODE, index)}"]),
    }
    return a_finding(
        "device_fault",
        **{
            "incident": f"device:{NODE}/{gpu_uuid(NODE, index)}",
            "subject": Subject(cluster=CLUSTER, node=NODE, gpu=gpu_uuid(NODE, index)),
            "action": Action.CORDON_RESET,
            "sentence": f"gpu-07 GPU {index} has an uncorrectable memory error (XID 48)",
            "facts": {**facts, **changes.pop("facts", {})},
            **changes,
        },
    )


def window_at(seconds: float, *, found=None, events: Iterable[Event] = (), **changes) -> Window:
    return a_window(
        {NODE: readings(NODE) if found is None else found},
        events=[(NODE, event) for event in events],
        at=at(seconds),
        **changes,
    )


class Beats:
    """A tracker and its time, as the daemon drives them."""

    def __init__(self, tracker: Tracker | None = None) -> None:
        self.tracker = tracker or Tracker()
        self.seconds = 0.0

    def beat(self, *findings: Finding, after: float = 0.0, window: Window | None = None, **update) -> Changes:
        self.seconds += after
        changes = self.tracker.update(window or window_at(self.seconds), findings, **update)
        self.tracker.commit(changes)
        return changes

    def quiet(self, seconds: float, *, step: float = 30.0, window=window_at) -> list[OpenFinding]:
        """Beats without findings; what closed meanwhile."""
        closed: list[OpenFinding] = []
        for _ in range(int(seconds / step)):
            self.seconds += step
            closed += self.beat(window=window(self.seconds)).closed
        return closed

    @property
    def open(self) -> tuple[OpenFinding, ...]:
        return self.tracker.open_findings


def after_boot(seconds: float) -> Window:
    return with_node(window_at(seconds), NODE, boot_id="boot-b")


def returned(seconds: float) -> Window:
    event = replace(an_xid(node=NODE, at=at(60)), kind=EventKind.GPU_RETURNED, code=None)
    return window_at(seconds, events=[event])


def withdrawn(seconds: float) -> Window:
    return window_at(seconds, events=[an_xid(154, node=NODE, at=at(60), details={"action": "0x0"})])


def restarted(seconds: float) -> Window:
    return window_at(seconds, found=with_values(readings(NODE), 3, energy_joules_total=100.0))
