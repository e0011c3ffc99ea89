"""Why a Volcano Job that we moved is not back yet, where that can be told for certain. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from trimtab.schedulers.objects import Condition, Pod
from trimtab.schedulers.view import View
from trimtab.schedulers.volcano_health import SILENT_SECONDS, why_controller_silent
from trimtab.schedulers.volcano_jobs import VolcanoJob
from trimtab.schedulers.volcano_room import why_queue_closed

SEATLESS_SECONDS = 60.0
"""A pod that is let onto its seat and has not been placed by then will not be by itself."""


def why_slow(job: VolcanoJob, pods: Sequence[Pod], view: View, now: datetime) -> str | None:
    """The end of a sentence, or None while all is as it should be."""
    for pod in pods:
        trouble = _of_pod(pod, now)
        if trouble is not None:
            return trouble
    alive = [pod for pod in pods if not pod.is_over]
    if len(alive) < job.pods_wanted and not any(pod.is_terminating for pod in alive):
        queue = view.kind("queues.scheduling.volcano.sh").get(job.queue)
        return why_queue_closed(queue, job.queue) or why_controller_silent(view, now)
    return None


def _of_pod(pod: Pod, now: datetime) -> str | None:
    """A pod that should have ended, or that nobody places."""
    ends = pod.metadata.deletion_timestamp
    if ends is not None and (now - ends).total_seconds() > SILENT_SECONDS:
        late = (now - ends).total_seconds()
        return f"{pod.metadata.name} should have ended {late:.0f} s ago; is the kubelet of {pod.spec.node_name} alive?"
    made = pod.metadata.creation_timestamp
    if pod.spec.node_name or pod.is_over or ends is not None or made is None:
        return None
    age_seconds = (now - made).total_seconds()
    scheduled = _condition(pod, "PodScheduled")
    if scheduled is None:
        silent = f"Volcano's scheduler has said nothing of {pod.metadata.name} for {age_seconds:.0f} s"
        return silent if age_seconds > SILENT_SECONDS else None
    if age_seconds > SEATLESS_SECONDS:
        return f"{pod.metadata.name} has waited {age_seconds:.0f} s for a place: {scheduled.message}"
    return None


def _condition(pod: Pod, kind: str) -> Condition | None:
    return next((one for one in pod.status.conditions if one.type == kind), None)
