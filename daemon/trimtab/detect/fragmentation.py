"""fragmentation: free GPUs that no waiting work can use because they lie apart; counted for the board as well.

Pure arithmetic on the snapshot. GPUs of spares and reservations are no room.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from trimtab.detect.fleet import count_text
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.cluster import ClusterSnapshot, Workload
from trimtab.model.window import Window
from trimtab.settings import DetectSettings

RULE = "fragmentation"
SIZES = (1, 2, 4, 8)
"""The pod sizes for which stranded GPUs are counted."""


def room(snapshot: ClusterSnapshot, *, spares_kept: int = 0) -> dict[str, int]:
    """Node -> free GPUs that new work may have: without reservations, spares, and `spares_kept` whole free nodes."""
    reserved: dict[str, int] = {}
    for reservation in snapshot.reservations:
        reserved[reservation.node] = reserved.get(reservation.node, 0) + reservation.gpus
    free = {
        name: max(len(gpus) - reserved.get(name, 0), 0)
        for name, gpus in snapshot.free_gpus.items()
        if not snapshot.node_by_name[name].is_spare and snapshot.node_by_name[name].other_mover is None
    }
    marked = sum(node.is_spare and node.is_schedulable for node in snapshot.nodes)
    whole = sorted(name for name, gpus in free.items() if gpus and gpus == len(snapshot.node_by_name[name].gpus))
    for name in whole[: max(spares_kept - marked, 0)]:
        del free[name]
    return free


def stranded(snapshot: ClusterSnapshot, k: int, *, spares_kept: int = 0) -> int:
    """Free GPUs that cannot serve a pod of `k` GPUs."""
    return sum(gpus % k for gpus in room(snapshot, spares_kept=spares_kept).values())


def stranded_by_size(snapshot: ClusterSnapshot, *, spares_kept: int = 0) -> Mapping[int, int]:
    """Stranded GPUs for each of the usual pod sizes."""
    free = room(snapshot, spares_kept=spares_kept)
    return {k: sum(gpus % k for gpus in free.values()) for k in SIZES}


class Fragmentation:
    """Finds waiting workloads whose GPUs are all free, only never together."""

    name = RULE
    span_seconds = 0.0

    def __init__(self, settings: DetectSettings, *, spares_kept: int = 0) -> None:
        """Judge by the settings' `fragmentation_after_seconds`; `spares_kept` whole free nodes are no room."""
        self._after_seconds = settings.fragmentation_after_seconds
        self._spares_kept = spares_kept

    def detect(self, window: Window) -> Iterable[Finding]:
        """One finding per workload that placement alone keeps waiting."""
        snapshot = window.snapshot
        if snapshot is None or not snapshot.waiting:
            return
        free = room(snapshot, spares_kept=self._spares_kept)
        for workload in snapshot.waiting:
            its = {name: gpus for name, gpus in free.items() if workload.may_use(snapshot.node_by_name[name])}
            if self._has_waited(workload, window) and _is_placement(workload, its):
                yield _finding(workload, its, window, snapshot)

    def _has_waited(self, workload: Workload, window: Window) -> bool:
        since = workload.waiting_since
        return since is not None and (window.at - since).total_seconds() >= self._after_seconds


def _is_placement(workload: Workload, free: Mapping[str, int]) -> bool:
    """Enough GPUs are free and too few seats; a quota is never answered by a move."""
    if "quota" in (workload.waiting_reason or "").lower() or workload.gpus_per_pod <= 0:
        return False
    return sum(free.values()) >= workload.gpus and _seats(workload, free) < _seats_wanted(workload)


def _seats(workload: Workload, free: Mapping[str, int]) -> int:
    return sum(gpus // workload.gpus_per_pod for gpus in free.values())


def _seats_wanted(workload: Workload) -> int:
    """A gang starts whole; other work is helped by its first pod."""
    return workload.pods if workload.is_gang else 1


def _finding(workload: Workload, free: Mapping[str, int], window: Window, snapshot: ClusterSnapshot) -> Finding:
    total, seats, per_pod = sum(free.values()), _seats(workload, free), workload.gpus_per_pod
    together = f"never {per_pod} together" if seats == 0 else f"room for {count_text(seats, 'pod')} of {per_pod} only"
    spare = sum(node.is_spare for node in snapshot.nodes)
    parts = sorted(((gpus, name) for name, gpus in free.items() if gpus), key=lambda part: (-part[0], part[1]))
    return Finding(
        rule=RULE,
        incident=f"{RULE}:{workload.id}",
        subject=Subject(cluster=window.cluster, workload=workload.id, queue=workload.queue),
        action=Action.WATCH,
        severity=Severity.WARNING,
        sentence=f"{workload.name} waits for {workload.pods} × {per_pod} GPUs: {total} free, {together}",
        impact=f"{workload.name} cannot start: {count_text(workload.gpus, 'GPU')}",
        advice="Empty a node by moving its small jobs; see what is recommended.",
        evidence=(
            Evidence(
                source="scheduler",
                text=f"{count_text(total, 'GPU')} free in parts of "
                + ", ".join(f"{gpus} ({name})" for gpus, name in parts[:8])
                + (f" and {len(parts) - 8} more" if len(parts) > 8 else ""),
                at=snapshot.taken_at,
                value=float(total),
                threshold=float(workload.gpus),
                unit="gpus",
            ),
            Evidence(
                source="scheduler",
                text=f"seats for pods of {per_pod}",
                at=snapshot.taken_at,
                value=float(seats),
                threshold=float(_seats_wanted(workload)),
                unit="pods",
            ),
        ),
        against=(Evidence(source="scheduler", text=f"{count_text(spare, 'spare node')} kept for faults"),)
        if spare
        else (),
        workloads_hit=(workload.id,),
        gpus_hit=workload.gpus,
        loss_gpus=float(min(workload.gpus, total)),
        is_corroborated=True,
        began_at=workload.waiting_since,
        facts={"free": str(total), "seats": str(seats)},
    )
