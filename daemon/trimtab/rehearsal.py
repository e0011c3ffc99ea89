"""Drills: a synthetic event through the real detectors, planner and on-call; nothing of it reaches the tracker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from trimtab.central import Central, Parts
from trimtab.detect.device_fault import DeviceFault
from trimtab.detect.node_silent import NodeSilent
from trimtab.errors import DecisionRefused
from trimtab.journaling import log_drill
from trimtab.model.advice import Finding, OpenFinding
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Recommendation
from trimtab.model.oncall import Incident
from trimtab.model.reading import Event, EventKind, EventSource
from trimtab.model.window import GpuNow, NodeEvent, Window
from trimtab.show.oncall.bell import Bell

_NO_FINDING = 0
"""Id of a drill's finding within the planner: no finding has it."""


class Rehearsal:
    """Makes drills of the cluster as it stands."""

    def __init__(self, *, central: Central, parts: Parts, bell: Bell) -> None:
        """Looks, and opens incidents that are marked as drills; does nothing else."""
        self._central = central
        self._parts = parts
        self._bell = bell

    def drill(self, kind: str, node: str, gpu: str | None, who: str, seconds: float) -> Incident:
        """Open one. Raises DecisionRefused for a node or GPU that does not report."""
        now = self._parts.clock.now()
        window = self._central.window
        if window is None or node not in window.nodes:
            raise DecisionRefused(f"No node {node} reports here; `trimtab status --json` lists those that do.")
        snapshot = self._central.snapshot
        window = replace(window, at=now, snapshot=snapshot)
        finding = _silent(window, node, self._parts) if kind == "silent" else _fault(window, kind, node, gpu, now)
        steps = dry_run(self._parts, self._central, snapshot, finding, now)
        incident = self._bell.drill(finding, dry_run=steps, who=who, at=now, seconds=seconds)
        log_drill(incident.name, finding)
        return incident


def dry_run(
    parts: Parts, central: Central, snapshot: ClusterSnapshot | None, finding: Finding, now: datetime
) -> tuple[str, ...]:
    """What would be proposed for the finding alone, as lines; proposed to nobody and written nowhere."""
    if snapshot is None or central.budget is None:
        return ("no scheduler is read, so nothing would be proposed",)
    found = OpenFinding(id=_NO_FINDING, finding=finding, opened_at=now, changed_at=now, last_seen_at=snapshot.taken_at)
    plan = parts.planner.propose(snapshot, (found,), central.budget)
    about = [one for one in plan.recommendations if _NO_FINDING in one.findings]
    lines = [line for one in about for line in _lines(one)]
    if not lines:
        lines = [refusal.sentence for refusal in plan.refusals]
    return tuple(lines)


def _lines(recommendation: Recommendation) -> list[str]:
    return [recommendation.sentence, *(f"dry run: {write.text}" for write in recommendation.writes)]


def _fault(window: Window, kind: str, node: str, gpu: str | None, now: datetime) -> Finding:
    """What the detector makes of one kernel line about this GPU, on a node that is well otherwise."""
    where = _gpu(window, node, gpu)
    code, info = int(kind.removeprefix("xid")), where.reading.info
    event = Event(
        kind=EventKind.XID,
        source=EventSource.KERNEL,
        at=now,
        code=code,
        gpu=info.uuid,
        pci=info.pci,
        boot_id=window.nodes[node].boot_id,
        text=f"NVRM: Xid (PCI:{info.pci or 'unknown'}): {code}, trimtab drill",
    )
    told = NodeEvent(cluster=window.cluster, node=node, event=event)
    alone = replace(window, events=(told,))
    found = DeviceFault(span_seconds=window.span_seconds).detect(alone)
    # What is really wrong with the node is not the drill's.
    about = [one for one in found if one.facts.get("label") == f"XID {code}"]
    if not about:
        raise DecisionRefused(f"XID {code} alone is nothing that anybody is told of; try xid79.")
    return replace(about[0], is_history_only=False)


def _silent(window: Window, node: str, parts: Parts) -> Finding:
    """What the detector makes of this node's silence, while all others report."""
    long_ago = window.at - timedelta(hours=1)
    nodes = {
        name: replace(one, received_at=long_ago if name == node else window.at, is_expected=True)
        for name, one in window.nodes.items()
    }
    found: Sequence[Finding] = tuple(NodeSilent(parts.settings.detect).detect(replace(window, nodes=nodes)))
    if not found:
        raise DecisionRefused(f"{node} is nothing that the cluster expects to report.")
    return found[0]


def _gpu(window: Window, node: str, gpu: str | None) -> GpuNow:
    """A GPU of the node by index or UUID; the first where none is named."""
    own = sorted((one for key, one in window.gpus.items() if key.node == node), key=lambda one: one.reading.uuid)
    for one in own:
        info = one.reading.info
        if gpu is None or gpu in (info.uuid, str(info.index)):
            return one
    indexes = ", ".join(str(index) for index in sorted(one.reading.info.index or 0 for one in own)) or "none"
    raise DecisionRefused(f"{node} has no GPU {gpu}; its GPUs are {indexes}.")
