"""The queues beside the fleet: quota, what is held of it, what is asked for. Pure; used by board.py."""

from __future__ import annotations

from collections import Counter

from trimtab.model.board import QueueRow
from trimtab.model.cluster import ClusterSnapshot


def queue_rows(snapshot: ClusterSnapshot | None) -> tuple[QueueRow, ...]:
    """Every queue that has a quota or a job, by name; none where no scheduler is read."""
    if snapshot is None:
        return ()
    used: Counter[str] = Counter()
    asked: Counter[str] = Counter()
    for workload in snapshot.workloads:
        if workload.queue:
            used[workload.queue] += sum(len(placement.gpus) for placement in workload.placements)
    for workload in snapshot.waiting:
        if workload.queue:
            asked[workload.queue] += workload.gpus
    known = {queue.name: queue for queue in snapshot.queues}
    return tuple(
        QueueRow(
            name=name,
            gpus_quota=known[name].gpus_quota if name in known else None,
            gpus_used=used[name],
            gpus_asked=asked[name],
            cohort=known[name].cohort if name in known else None,
            held_by=known[name].held_by if name in known else None,
        )
        for name in sorted({*known, *used, *asked})
    )
