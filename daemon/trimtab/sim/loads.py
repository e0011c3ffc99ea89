"""What the jobs ask of the GPUs in one step, and the pace that the GPUs allow them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from trimtab.model.cluster import WorkloadState
from trimtab.sim.jobs import Job
from trimtab.sim.physics import MEMORY_RESERVED_BYTES, MEMORY_TOTAL_BYTES, Bools, Floats, Load

_BASE_MEMORY_RATIO = MEMORY_RESERVED_BYTES / MEMORY_TOTAL_BYTES
_SPIN_SM_RATIO, _SPIN_POWER_RATIO = 0.12, 0.10
"""A collective that waits keeps a few multiprocessors spinning: 100 % utilisation, hardly any power."""
_LOADING_UTILIZATION, _LOADING_POWER_RATIO, _LOADING_MEMORY_SHARE = 0.06, 0.05, 0.4
_DATA_BYTES_PER_SECOND = 1.5e9
"""What a busy GPU reads over PCIe: its input."""


def set_pace(jobs: Iterable[Job], clock_ratio: Floats, is_lost: Bools) -> None:
    """A synchronous job goes at the pace of its slowest GPU, and stands still without one of them."""
    for job in jobs:
        if job.state is not WorkloadState.RUNNING:
            job.pace_ratio = 0.0
            continue
        columns = list(job.columns)
        job.pace_ratio = 0.0 if is_lost[columns].any() else float(clock_ratio[columns].min())


def load_of(jobs: Iterable[Job], clock_ratio: Floats) -> Load:
    """The load on every GPU for the next step."""
    load = Load.idle(len(clock_ratio))
    load.memory += _BASE_MEMORY_RATIO
    for job in jobs:
        if job.holds_gpus:
            _add(load, job, clock_ratio)
    return load


def _add(load: Load, job: Job, clock_ratio: Floats) -> None:
    spec, columns = job.spec, list(job.columns)
    load.is_held[columns] = True
    if job.state is not WorkloadState.RUNNING:
        load.utilization[columns] = _LOADING_UTILIZATION
        load.sm_active[columns] = _LOADING_UTILIZATION / 3
        load.power[columns] = _LOADING_POWER_RATIO
        load.memory[columns] = spec.memory_ratio * _LOADING_MEMORY_SHARE
        load.pcie_bytes_per_second[columns] = _DATA_BYTES_PER_SECOND
        return
    # Each GPU works for its share of the step and waits in the collective for the slowest one for the rest of it.
    works = np.minimum(job.pace_ratio / np.maximum(clock_ratio[columns], 1e-6), 1.0)
    spins = (1 - works) if spec.gpus > 1 else np.zeros_like(works)
    is_asked = spec.sm_active_ratio > 0
    load.utilization[columns] = np.minimum(1.0, spec.sm_active_ratio * 1.25) * works + spins if is_asked else 0.0
    load.sm_active[columns] = spec.sm_active_ratio * works + _SPIN_SM_RATIO * spins
    load.tensor_active[columns] = spec.tensor_active_ratio * works
    load.dram_active[columns] = spec.dram_active_ratio * works + 0.01 * spins
    load.power[columns] = spec.power_ratio * works + _SPIN_POWER_RATIO * spins
    load.memory[columns] = spec.memory_ratio
    if spec.gpus_per_pod > 1:
        load.nvlink_bytes_per_second[columns] = spec.nvlink_bytes_per_second * job.pace_ratio
    load.pcie_bytes_per_second[columns] = _DATA_BYTES_PER_SECOND * spec.sm_active_ratio * job.pace_ratio
