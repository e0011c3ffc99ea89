"""idle_gpu: GPUs that somebody holds and that, by the GPU's own evidence, have done nothing for long.

Unknown is not idle: without activity readings over nearly all of the span there is no finding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta

import numpy as np

from trimtab.detect.closing import NODES, SERIES, SERIES_SECONDS
from trimtab.detect.fleet import Fleet, count_text
from trimtab.detect.incident import MEMBERS, holders_fact, members_text
from trimtab.detect.series import Columns, SeriesView, highest, keys_at
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.cluster import GpuKey, Workload, WorkloadState
from trimtab.model.window import Window
from trimtab.settings import DetectSettings

RULE = "idle_gpu"
_ACTIVITY: tuple[tuple[str, float], ...] = (("sm_active_ratio", 0.01), ("utilization_ratio", 0.01))
"""At least one of these must be known; all that are known must stay under their limit."""
_OTHER: tuple[tuple[str, float], ...] = (("dram_active_ratio", 0.005),)
_POWER_RATIO = 0.3
"""Above this share of its limit a card works, whatever its other figures say (MIG hides them)."""


class IdleGpu:
    """Finds what is held and unused; the owner is told, nobody is moved for it."""

    name = RULE

    def __init__(self, settings: DetectSettings) -> None:
        """Judge by the settings' `idle_after_seconds`, which the window's series must cover."""
        self.span_seconds = settings.idle_after_seconds

    def detect(self, window: Window) -> Iterable[Finding]:
        """One finding per workload (or holder as the reports name it)."""
        view = SeriesView(window)
        candidates = self._idle_now(view)
        if not len(candidates):
            return
        fleet = Fleet(window)
        held = self._held(keys_at(view, candidates), fleet)
        keys = [key for keys in held.values() for key in keys]
        idle = set(self._idle_throughout(view, keys, window))
        for holder, own in held.items():
            found = [key for key in own if key in idle]
            if found:
                yield _finding(holder, found, fleet, self.span_seconds)

    def _idle_now(self, view: SeriesView) -> Columns:
        """Columns that may be idle: activity known and low in the latest row."""
        is_idle: np.ndarray[tuple[int, ...], np.dtype[np.bool_]] | None = None
        for metric, limit in _ACTIVITY:
            row = view.last(metric)
            if row is None:
                continue
            low = row < limit
            is_idle = low if is_idle is None else (is_idle & (low | np.isnan(row))) | (low & np.isnan(row))
        return np.flatnonzero(is_idle) if is_idle is not None else np.array([], dtype=np.intp)

    def _held(self, keys: Iterable[GpuKey], fleet: Fleet) -> Mapping[str, list[GpuKey]]:
        """Holder -> its candidate GPUs; spares, the recently started and the shared are left out."""
        held: dict[str, list[GpuKey]] = defaultdict(list)
        for key in keys:
            holder = fleet.holder(key.node, key.uuid)
            if holder and self._may_be_judged(fleet.workload(key.node, key.uuid), key, fleet):
                held[holder].append(key)
        return held

    def _may_be_judged(self, workload: Workload | None, key: GpuKey, fleet: Fleet) -> bool:
        now = fleet.now(key.node, key.uuid)
        if now is None or not fleet.is_fresh(now) or now.reading.info.is_mig or now.reading.instances:
            return False
        if workload is None:
            return True
        if workload.state is not WorkloadState.RUNNING:
            return False
        started = workload.started_at
        return started is None or (fleet.window.at - started).total_seconds() >= self.span_seconds

    def _idle_throughout(self, view: SeriesView, keys: Sequence[GpuKey], window: Window) -> list[GpuKey]:
        columns = view.columns(keys)
        is_idle = np.zeros(len(keys), dtype=np.bool_)
        is_busy = np.zeros(len(keys), dtype=np.bool_)
        for metric, limit in (*_ACTIVITY, *_OTHER):
            block = view.block(metric, columns, self.span_seconds)
            if block is None:
                continue
            is_busy |= highest(block) >= limit
            if (metric, limit) in _ACTIVITY:
                is_idle |= view.is_covered(block, keys)
        limits = np.array([window.gpus[key].value("power_limit_watts") or np.nan for key in keys])
        power = view.block("power_watts", columns, self.span_seconds)
        if power is not None:
            is_busy |= highest(power) >= _POWER_RATIO * limits
        return [key for key, idle in zip(keys, is_idle & ~is_busy, strict=True) if idle]


def _finding(holder: str, keys: Sequence[GpuKey], fleet: Fleet, seconds: float) -> Finding:
    workload = fleet.window.snapshot.workload_by_id.get(holder) if fleet.window.snapshot else None
    name = workload.name if workload else holder
    nodes = sorted({key.node for key in keys})
    held = sum(len(each.gpus) for each in workload.placements) if workload else len(keys)
    is_whole = len(keys) >= held
    says = "holds" if is_whole else f"leaves idle {len(keys)} of"
    rest = " and uses none" if is_whole and held > 1 else " and does not use it" if is_whole else ""
    return Finding(
        rule=RULE,
        incident=f"{RULE}:{holder}",
        # A whole idle workload is marked as such in the picture; of a part, the first GPU stands for the others.
        subject=Subject(
            cluster=fleet.cluster,
            node=nodes[0] if len(nodes) == 1 or not is_whole else None,
            gpu=keys[0].uuid if not is_whole else None,
            workload=holder,
        ),
        action=Action.ALERT_OWNER,
        severity=Severity.WARNING,
        sentence=f"{name} {says} {count_text(held, 'GPU')}{rest}",
        impact=f"{count_text(len(keys), 'GPU')} held and idle on {fleet.place(nodes[0], [])}"
        + (f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""),
        advice="Ask its owner to release them, or to ask for fewer.",
        evidence=tuple(_evidence(keys, fleet, seconds)),
        workloads_hit=(holder,),
        gpus_hit=len(keys),
        loss_gpus=float(len(keys)),
        is_corroborated=all(_has_two_signs(key, fleet) for key in keys),
        began_at=fleet.window.at - timedelta(seconds=seconds),
        facts={
            "gpus": str(len(keys)),
            NODES: " ".join(nodes[:256]),
            SERIES: " ".join(metric for metric, _ in _ACTIVITY),
            SERIES_SECONDS: f"{seconds:g}",
            MEMBERS: members_text([f"{RULE}:{holder}"]),
            **holders_fact(has_snapshot=fleet.window.snapshot is not None),
        },
    )


def _has_two_signs(key: GpuKey, fleet: Fleet) -> bool:
    now = fleet.now(key.node, key.uuid)
    names = ("sm_active_ratio", "utilization_ratio", "dram_active_ratio", "power_watts")
    return now is not None and sum(now.value(name) is not None for name in names) >= 2


def _evidence(keys: Sequence[GpuKey], fleet: Fleet, seconds: float) -> Iterable[Evidence]:
    for key in keys[:4]:
        now = fleet.now(key.node, key.uuid)
        place = fleet.place(key.node, [key.uuid])
        for metric, limit in (*_ACTIVITY, *_OTHER):
            value = now.value(metric) if now else None
            if value is not None:
                yield Evidence(
                    source="nvml",
                    text=f"{place}: {metric} under its limit for {seconds / 60:.0f} min",
                    at=now.at if now else None,
                    value=value,
                    threshold=limit,
                    unit="ratio",
                )
