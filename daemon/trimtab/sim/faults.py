"""What goes wrong in the simulated cluster, and its repair: by name, as the control API and drills ask for it."""

from __future__ import annotations

from dataclasses import dataclass

from trimtab.errors import SchedulerRefused
from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.fleet import SimNode

FAN_FAILED_FACTOR = 4.8
"""How much worse a GPU is cooled with its fans at rest: full load then holds about 55 % of its clock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """One thing to break or mend. `gpus` are indexes on the node; empty = all of them."""

    kind: str
    """gpu_falls_off, fan_failure or repair."""
    node: str
    gpus: tuple[int, ...] = ()


def inject(cluster: SimulatedCluster, fault: Fault) -> None:
    """Make it happen now. Raises SchedulerRefused for what this cluster does not have."""
    with cluster.lock:
        node = cluster.nodes.get(fault.node)
        if node is None:
            raise SchedulerRefused(f"There is no node {fault.node!r}.")
        indexes = fault.gpus or tuple(gpu.index for gpu in node.gpus)
        if any(not 0 <= index < len(node.gpus) for index in indexes):
            raise SchedulerRefused(f"{node.name} has GPUs 0 to {len(node.gpus) - 1}.")
        if fault.kind == "gpu_falls_off":
            _gpus_fall_off(cluster, node, indexes)
        elif fault.kind == "fan_failure":
            _cool(cluster, node, indexes, FAN_FAILED_FACTOR)
        elif fault.kind == "repair":
            _cool(cluster, node, indexes, 1.0)
            for index in indexes:
                node.lost.pop(index, None)
        else:
            raise SchedulerRefused(f"Unknown fault {fault.kind!r}; known: gpu_falls_off, fan_failure, repair.")


def _gpus_fall_off(cluster: SimulatedCluster, node: SimNode, indexes: tuple[int, ...]) -> None:
    for index in indexes:
        if not node.is_lost(index):
            node.lost[index] = cluster.now
            if cluster.kernel is not None:
                cluster.kernel.gpu_fell_off(node, node.gpus[index], cluster.now)


def _cool(cluster: SimulatedCluster, node: SimNode, indexes: tuple[int, ...], factor: float) -> None:
    for index in indexes:
        cluster.physics.cooling_loss_target[node.gpus[index].column] = factor
