"""What a slow GPU costs the job that holds it: in a synchronous gang everybody waits for the slowest. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trimtab.detect.fleet import Fleet, count_text
from trimtab.model.cluster import GpuKey, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """Whom slow GPUs hit, and by how much."""

    workloads: tuple[str, ...]
    gpus: int
    loss_gpus: float
    impact: str


def percent(ratio: float) -> int:
    """A share in steps of 5 percent, so that a sentence does not change with every reading."""
    return max(round(ratio * 20), 0) * 5


def slowed_by(ratios: Mapping[GpuKey, float], fleet: Fleet) -> Slowed:
    """The jobs on these GPUs, which run at this share of their pace."""
    held: dict[str, list[GpuKey]] = {}
    free: list[GpuKey] = []
    for key in ratios:
        workload = fleet.workload(key.node, key.uuid)
        if workload is not None and workload.is_running:
            held.setdefault(workload.id, []).append(key)
        else:
            free.append(key)
    parts = [_of_workload(fleet.holders[keys[0].node, keys[0].uuid], keys, ratios) for keys in held.values()]
    return Slowed(
        workloads=tuple(held),
        gpus=sum(part.gpus for part in parts) + len(free),
        loss_gpus=sum(part.loss_gpus for part in parts),
        impact="; ".join(part.impact for part in parts[:3]),
    )


def _of_workload(workload: Workload, keys: Sequence[GpuKey], ratios: Mapping[GpuKey, float]) -> Slowed:
    worst = min(ratios[key] for key in keys)
    gpus = workload.gpus if workload.is_gang else len(keys)
    lost = gpus * (1 - worst) if workload.is_gang else sum(1 - ratios[key] for key in keys)
    impact = f"{workload.name}: about {percent(1 - worst)} % slower, {count_text(gpus, 'GPU')}"
    return Slowed(workloads=(workload.id,), gpus=gpus, loss_gpus=round(lost, 2), impact=impact)
