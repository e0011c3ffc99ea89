"""hung_job: every rank of a job busy by utilisation and at rest by power and memory: a collective that never ends."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from trimtab.detect.closing import NODES, SERIES, SERIES_SECONDS
from trimtab.detect.fleet import Fleet, count_text
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.reading import GpuState
from trimtab.model.window import GpuNow, Window

RULE = "hung_job"
_BUSY_RATIO = 0.99
_POWER_RATIO = 0.25
"""Of the power limit: idle cards draw 10 to 22 %."""
_TRAFFIC_RATIO = 0.02
_TENSOR_RATIO = 0.01
_LIMIT_UNKNOWN_WATTS = 400.0
"""The smallest limit of a card that runs gangs."""
_SM_RATIO = 0.15
"""A waiting collective keeps a few multiprocessors spinning."""


class HungJob:
    """Finds jobs whose ranks all wait for each other. Tells the owner; moves nothing."""

    name = RULE

    def __init__(self, *, after_seconds: float = 300.0) -> None:
        """With series, it must have lasted `after_seconds`; one reading has to do where there are none (a file)."""
        self.span_seconds = after_seconds
        self._after_seconds = after_seconds

    def detect(self, window: Window) -> Iterable[Finding]:
        """One finding per job."""
        suspects = [now for now in window.gpus.values() if _waits(now)]
        if not suspects:
            return
        fleet = Fleet(window)
        by_holder: dict[str, list[GpuNow]] = defaultdict(list)
        for now in suspects:
            holder = fleet.holder(now.key.node, now.key.uuid)
            if holder and fleet.is_fresh(now) and not now.reading.shared_by:
                by_holder[holder].append(now)
        for holder, ranks in by_holder.items():
            if len(ranks) == _ranks(holder, fleet) and self._has_lasted(ranks, window):
                yield _finding(holder, ranks, fleet, after_seconds=self._after_seconds)

    def _has_lasted(self, ranks: Sequence[GpuNow], window: Window) -> bool:
        if not window.series:
            return True
        from trimtab.detect.series import SeriesView, highest, lowest  # noqa: PLC0415 - numpy

        view = SeriesView(window)
        keys = [now.key for now in ranks]
        columns = view.columns(keys)
        busy = view.block("utilization_ratio", columns, self._after_seconds)
        power = view.block("power_watts", columns, self._after_seconds)
        if busy is None or power is None:
            return False
        is_seen = view.is_covered(busy, keys).all() and view.is_covered(power, keys).all()
        limits = [_POWER_RATIO * (now.value("power_limit_watts") or _LIMIT_UNKNOWN_WATTS) for now in ranks]
        return bool(is_seen and (lowest(busy) >= _BUSY_RATIO - 0.02).all() and (highest(power) < limits).all())


def _waits(now: GpuNow) -> bool:
    values = now.reading.values
    power, limit = values.get("power_watts"), values.get("power_limit_watts")
    if values.get("utilization_ratio", 0.0) < _BUSY_RATIO or power is None or now.reading.state is not GpuState.OK:
        return False
    if limit and power >= _POWER_RATIO * limit:
        return False
    return _is_at_rest(now, has_limit=bool(limit))


def _is_at_rest(now: GpuNow, *, has_limit: bool) -> bool:
    """No memory traffic and no tensor work; without a power limit to compare with, SM activity must be known too."""
    traffic = now.value("dram_active_ratio")
    if traffic is None:
        traffic = now.value("memory_controller_utilization_ratio")
    tensor, active = now.value("tensor_active_ratio"), now.value("sm_active_ratio")
    if traffic is None or traffic > _TRAFFIC_RATIO or (active is None and not has_limit):
        return False
    if tensor is None and active is None:
        return False
    return (tensor or 0.0) <= _TENSOR_RATIO and (active or 0.0) <= _SM_RATIO


def _ranks(holder: str, fleet: Fleet) -> int:
    """How many GPUs the holder has: as the scheduler says, else as the reports do."""
    workload = fleet.window.snapshot.workload_by_id.get(holder) if fleet.window.snapshot else None
    if workload is not None:
        return sum(len(placement.gpus) for placement in workload.placements)
    return sum(now.reading.holder == holder for now in fleet.window.gpus.values())


def _finding(holder: str, ranks: Sequence[GpuNow], fleet: Fleet, *, after_seconds: float) -> Finding:
    workload = fleet.window.snapshot.workload_by_id.get(holder) if fleet.window.snapshot else None
    name = workload.name if workload else holder
    watts = [now.value("power_watts") or 0.0 for now in ranks]
    limit = next((value for now in ranks if (value := now.value("power_limit_watts"))), None)
    nodes = sorted({now.key.node for now in ranks})
    return Finding(
        rule=RULE,
        incident=f"{RULE}:{holder}",
        subject=Subject(cluster=fleet.cluster, node=nodes[0] if len(nodes) == 1 else None, workload=holder),
        action=Action.ALERT_OWNER,
        severity=Severity.WARNING,
        sentence=f"{name} hangs: its ranks wait in a collective that does not end",
        impact=f"{name} makes no progress: {count_text(len(ranks), 'GPU')}",
        advice="Tell its owner: take stacks of the ranks, restart from the checkpoint. No node is to blame.",
        evidence=(
            Evidence(source="nvml", text=f"utilisation is 100 % on all of {count_text(len(ranks), 'GPU')}", value=1.0,
                     threshold=_BUSY_RATIO, unit="ratio"),
            Evidence(source="nvml", text="power is near that of an idle card on all of them", value=max(watts),
                     threshold=limit * _POWER_RATIO if limit else None, unit="watts"),
            Evidence(source="nvml", text="no memory traffic and no tensor work on any of them", value=0.0,
                     threshold=_TRAFFIC_RATIO, unit="ratio"),
        ),
        workloads_hit=(holder,),
        gpus_hit=len(ranks),
        loss_gpus=float(len(ranks)),
        is_corroborated=True,
        began_at=min(now.at for now in ranks),
        facts={
            NODES: " ".join(nodes[:256]),
            SERIES: "utilization_ratio",
            SERIES_SECONDS: f"{after_seconds:g}",
        },
    )  # fmt: skip
