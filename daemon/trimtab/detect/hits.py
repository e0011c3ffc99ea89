"""Whom a standing finding hits now: its places are remembered, and who holds them is asked again each beat. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from trimtab.detect.fleet import Fleet, count_text
from trimtab.model.advice import Finding
from trimtab.model.cluster import Workload, WorkloadState

PLACES = "places"
"""Fact: the (node, GPU) pairs that a finding is about, as `node/gpu`, space separated; `node/` is the whole node."""
LAST_KNOWN = " (last known: the scheduler cannot be read)"


def places_text(places: Iterable[tuple[str, str]]) -> str:
    """The value of the fact."""
    return " ".join(f"{node}/{gpu}" for node, gpu in places)


def hit_now(finding: Finding, known: Finding, fleet: Fleet) -> Finding:
    """The finding with those hit who hold its places now, or wait to run again since they did when last `known`.

    Without a snapshot nobody can say who holds what: the last known stays, and is said to be that.
    """
    if fleet.window.snapshot is None:
        return _last_known(finding, known)
    places = _places(finding)
    if not places:
        return finding
    is_stopped = finding.loss_gpus > 0
    hit = fleet.hit(places, is_stopped=is_stopped)
    waiting = _waiting(known, hit.workloads, fleet) if is_stopped else []
    waiting_gpus = sum(one.gpus for one in waiting)
    texts = [f"{one.name} waits to run again: {count_text(one.gpus, 'GPU')}" for one in waiting]
    return replace(
        finding,
        workloads_hit=(*hit.workloads, *(one.id for one in waiting)),
        gpus_hit=hit.gpus + waiting_gpus,
        loss_gpus=hit.loss_gpus + waiting_gpus,
        impact="; ".join(text for text in (hit.impact, *texts) if text),
    )


def _last_known(finding: Finding, known: Finding) -> Finding:
    if not known.workloads_hit or finding.workloads_hit not in ((), known.workloads_hit):
        return finding
    return replace(
        finding,
        workloads_hit=known.workloads_hit,
        gpus_hit=known.gpus_hit,
        loss_gpus=known.loss_gpus,
        impact=known.impact.removesuffix(LAST_KNOWN) + LAST_KNOWN,
    )


def _places(finding: Finding) -> list[tuple[str, str]]:
    listed = [(node, gpu) for node, _, gpu in (text.partition("/") for text in finding.facts.get(PLACES, "").split())]
    node, gpu = finding.subject.node, finding.subject.gpu
    if not listed and finding.facts.get("kind") == "device" and node and gpu:
        return [(node, gpu)]  # one that was kept before places were
    return listed


def _waiting(known: Finding, holding: Sequence[str], fleet: Fleet) -> list[Workload]:
    """Those hit before that let go of the places and do not run in full anywhere yet."""
    snapshot = fleet.window.snapshot
    found = [snapshot.workload_by_id.get(one) for one in known.workloads_hit if one not in holding] if snapshot else []
    return [one for one in found if one is not None and _is_stopped_still(one)]


def _is_stopped_still(workload: Workload) -> bool:
    if workload.is_running:
        return len(workload.placements) < workload.pods
    is_ours = workload.state is WorkloadState.SUSPENDED and workload.suspended_by is not None
    return is_ours or workload.state is WorkloadState.WAITING
