"""What a move costs: the work since the last checkpoint plus the restart, and when it costs least."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from trimtab.model.cluster import Workload
from trimtab.model.command import Cost
from trimtab.plan.phrase import gpu_hours_text, span_text

GRACE_SECONDS_MIN = 30.0
GRACE_RATIO = 0.1
"""A checkpoint is written late as often as not: it counts as overdue only after this share of its interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbed:
    """A workload that a move stops. `is_down` = it stands still already: its work is lost whatever we do."""

    workload: Workload
    is_down: bool = False
    replaced: tuple[str, ...] = ()
    """Pods that alone are replaced; the others stand still meanwhile and keep their work."""

    @property
    def gpus_stopped(self) -> int:
        """GPUs whose unsaved work is lost."""
        if not self.replaced:
            return self.workload.gpus
        return sum(len(one.gpus) for one in self.workload.placements if one.pod in self.replaced)

    @property
    def pods_stopped(self) -> int:
        """Pods that end."""
        return len(self.replaced) or self.workload.pods

    def back_seconds(self, restart_default: float) -> float:
        """How long the whole workload stands still."""
        if self.replaced and self.workload.replace_seconds is not None:
            return self.workload.replace_seconds
        return restart_seconds(self.workload, restart_default)


def saved_at(workload: Workload, *, now: datetime, at: datetime) -> datetime | None:
    """The last moment whose work is safe at `at`, as expected now; None = not known, nor since when it runs."""
    last, interval_seconds = workload.checkpoint.last_at, workload.checkpoint.interval_seconds
    if last is None:
        return workload.started_at
    expected = next_checkpoint(workload, now)
    if not interval_seconds or expected is None or at <= now or at < expected:
        return last
    periods = (at - last).total_seconds() // interval_seconds
    return last + timedelta(seconds=periods * interval_seconds)


def next_checkpoint(workload: Workload, now: datetime) -> datetime | None:
    """By when the next checkpoint is expected to be safe; None where unknown or overdue."""
    last, interval_seconds = workload.checkpoint.last_at, workload.checkpoint.interval_seconds
    if last is None or not interval_seconds:
        return None
    due = last + timedelta(seconds=interval_seconds)
    if now < due:
        return due
    late_until = due + timedelta(seconds=max(GRACE_SECONDS_MIN, GRACE_RATIO * interval_seconds))
    return late_until if now < late_until else None


def lost_seconds(workload: Workload, *, now: datetime, at: datetime) -> float | None:
    """Seconds of work that stopping at `at` throws away; None = unknown."""
    saved = saved_at(workload, now=now, at=at)
    return None if saved is None else max((at - saved).total_seconds(), 0.0)


def restart_seconds(workload: Workload, default: float) -> float:
    """How long it takes to work again once it has room."""
    return default if workload.restart_seconds is None else workload.restart_seconds


def gpu_hours(disturbed: Disturbed, *, now: datetime, at: datetime, restart_default: float) -> float:
    """GPU-hours that moving one workload at `at` costs; unknown work counts as none and is said in `cost_of`."""
    lost = 0.0 if disturbed.is_down else lost_seconds(disturbed.workload, now=now, at=at) or 0.0
    still = disturbed.workload.gpus * disturbed.back_seconds(restart_default)
    return (disturbed.gpus_stopped * lost + still) / 3600


def cost_of(disturbed: Sequence[Disturbed], *, now: datetime, at: datetime, restart_default: float) -> Cost:
    """The cost of moving these workloads at `at`, with its formula."""
    parts = [gpu_hours(one, now=now, at=at, restart_default=restart_default) for one in disturbed]
    lines = [
        _formula(one, part, now=now, at=at, restart_default=restart_default)
        for one, part in zip(disturbed, parts, strict=True)
    ]
    return Cost(
        gpu_hours=sum(parts),
        restart_seconds=max((one.back_seconds(restart_default) for one in disturbed), default=0.0),
        pods_disturbed=sum(one.pods_stopped for one in disturbed),
        workloads_disturbed=tuple(one.workload.id for one in disturbed),
        formula="; ".join(lines) or "nothing is stopped: 0 GPU-h",
    )


def _formula(one: Disturbed, part: float, *, now: datetime, at: datetime, restart_default: float) -> str:
    restart = f"{span_text(one.back_seconds(restart_default))} {'replacement' if one.replaced else 'restart'}"
    head = f"{one.workload.name}: {one.workload.gpus} GPUs × "
    tail = f" = {gpu_hours_text(part)}"
    if one.is_down:
        return f"{head}{restart}{tail} (it stands still: work since its checkpoint is lost already)"
    lost = lost_seconds(one.workload, now=now, at=at)
    if lost is None:
        return f"{head}{restart}{tail} (since when it runs is not known)"
    since = "its checkpoint" if one.workload.checkpoint.last_at else "its start (no checkpoint known)"
    if one.replaced:
        return (
            f"{one.workload.name}: {one.gpus_stopped} GPUs × {span_text(lost)} since {since} + {one.workload.gpus} "
            f"GPUs × {restart}{tail}"
        )
    return f"{head}({span_text(lost)} since {since} + {restart}){tail}"


def best_moment(
    disturbed: Iterable[Disturbed], *, now: datetime, loss_gpus: float, wait_seconds_max: float, restart_default: float
) -> datetime | None:
    """When moving costs least, the loss while waiting included; None = now. `loss_gpus` is lost per hour of waiting."""
    known = tuple(disturbed)

    def total(at: datetime) -> float:
        moved = sum(gpu_hours(one, now=now, at=at, restart_default=restart_default) for one in known)
        return moved + loss_gpus * (at - now).total_seconds() / 3600

    latest = now + timedelta(seconds=wait_seconds_max)
    expected = (next_checkpoint(one.workload, now) for one in known if not one.is_down)
    moments = sorted({moment for moment in expected if moment is not None and moment <= latest})
    best = min([now, *moments], key=total)
    return None if best == now else best
