"""What other people's alerts say beside our findings: evidence to read, never a source that a move may rest on. Pure.

It is added to what is shown only. The tracker's findings, which the planner gets, never carry it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from trimtab.detect.closing import NODES
from trimtab.model.advice import Evidence, Finding, FindingState, OpenFinding
from trimtab.model.alerts import AlertPlace, ForeignAlert
from trimtab.model.cluster import GpuKey, Placement
from trimtab.model.window import Window

SOURCE = "alert"
"""`Evidence.source` of what others say."""

SAID_MAX = 5
"""Alerts beside one finding; more are counted."""


def with_alerts(findings: Sequence[OpenFinding], window: Window) -> tuple[OpenFinding, ...]:
    """The findings as they are shown: open ones with what others say about the same thing. Nothing else changes."""
    if not window.alerts:
        return tuple(findings)
    index = _Index(window)
    return tuple(_with(found, index) if found.state is FindingState.OPEN else found for found in findings)


def _with(found: OpenFinding, index: _Index) -> OpenFinding:
    said = index.about(found.finding)
    if not said:
        return found
    told = [_evidence(alert) for alert in said[:SAID_MAX]]
    if len(said) > SAID_MAX:
        told.append(Evidence(source=SOURCE, text=f"and {len(said) - SAID_MAX} more alerts about the same"))
    return replace(found, finding=replace(found.finding, evidence=(*found.finding.evidence, *told)))


def _evidence(alert: ForeignAlert) -> Evidence:
    return Evidence(source=SOURCE, text=f"others say: {alert.text}", at=alert.starts_at)


class _Index:
    """The alerts of a window by what they are about, in the terms of our findings."""

    def __init__(self, window: Window) -> None:
        self._whole_nodes: dict[str, list[ForeignAlert]] = defaultdict(list)
        self._gpus: dict[str, list[ForeignAlert]] = defaultdict(list)
        self._gpus_of_node: dict[str, list[ForeignAlert]] = defaultdict(list)
        self._workloads: dict[str, list[ForeignAlert]] = defaultdict(list)
        keys = _gpus_named(window)
        names = _workload_names(window)
        for alert in window.alerts:
            self._take(alert, keys.get(_named(alert.place)), names)

    def _take(self, alert: ForeignAlert, key: GpuKey | None, names: Mapping[str, str]) -> None:
        place = alert.place
        if key is not None:
            self._gpus[key.uuid].append(alert)
            self._gpus_of_node[key.node].append(alert)
        elif place.node is not None:
            self._whole_nodes[place.node].append(alert)
        for name in (place.pod, place.workload):
            if name is not None:
                self._workloads[names.get(name, name)].append(alert)

    def about(self, finding: Finding) -> list[ForeignAlert]:
        """Alerts about the same GPU, node or workload, the latest first."""
        found = {(alert.fingerprint, alert.starts_at): alert for alert in self._found(finding)}
        return sorted(found.values(), key=lambda alert: (alert.starts_at, alert.fingerprint), reverse=True)

    def _found(self, finding: Finding) -> Iterator[ForeignAlert]:
        subject = finding.subject
        for node in {subject.node or "", *finding.facts.get(NODES, "").split()}:
            yield from self._whole_nodes.get(node, ())
            if subject.gpu is None:
                yield from self._gpus_of_node.get(node, ())
        if subject.gpu is not None:
            yield from self._gpus.get(subject.gpu, ())
        for workload in {subject.workload or "", *finding.workloads_hit}:
            yield from self._workloads.get(workload, ())


def _named(place: AlertPlace) -> tuple[str, str]:
    """How an alert names its GPU: by UUID, else by its index on a node."""
    gpu = place.gpu or ""
    return ("", gpu) if gpu.startswith(("GPU-", "MIG-")) else (place.node or "", gpu)


def _gpus_named(window: Window) -> dict[tuple[str, str], GpuKey]:
    """The GPUs that alerts name; one look at the window, which may hold a hundred thousand."""
    wanted = {_named(alert.place) for alert in window.alerts if alert.place.gpu}
    found: dict[tuple[str, str], GpuKey] = {}
    for key, now in window.gpus.items() if wanted else ():
        for name in (("", key.uuid), (key.node, str(now.reading.info.index))):
            if name in wanted:
                found[name] = key
    return found


def _workload_names(window: Window) -> dict[str, str]:
    """Names by which alerts may call a workload or one of its pods -> its id; a name of several is left out."""
    named: dict[str, set[str]] = defaultdict(set)
    for workload in window.snapshot.workloads if window.snapshot is not None else ():
        for name in (workload.id, workload.name, *_pods(workload.placements)):
            named[name].add(workload.id)
    return {name: ids.pop() for name, ids in named.items() if len(ids) == 1}


def _pods(placements: Iterable[Placement]) -> Iterator[str]:
    for placement in placements:
        yield placement.pod
        if "/" in placement.pod:
            yield placement.pod.rpartition("/")[2]
