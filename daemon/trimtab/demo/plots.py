"""What happens in the demo: three faults, put into the simulated cluster one after the other."""

from __future__ import annotations

from trimtab.demo.stories import Plot
from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.faults import Fault, inject
from trimtab.sim.scenario import Cast

FALLEN_GPU, SLOW_RANK, SCATTERED = "fallen_gpu", "slow_rank", "scattered"
_LOST_GPU = 3
_BEGINS_AT_SECONDS = {FALLEN_GPU: 60.0, SLOW_RANK: 120.0, SCATTERED: 200.0}


def plots_of(cluster: SimulatedCluster, cast: Cast) -> tuple[Plot, ...]:
    """The three stories, in the order in which they begin."""
    big, slow, waiting = cluster.truth()[cast.big_gang], cluster.truth()[cast.slow_gang], cast.waiting

    def fall() -> None:
        inject(cluster, Fault(kind="gpu_falls_off", node=cast.big_gang_node, gpus=(_LOST_GPU,)))

    def fail_fans() -> None:
        inject(cluster, Fault(kind="fan_failure", node=cast.slow_gang_node, gpus=cast.slow_gang_gpus))

    def submit() -> None:
        cluster.submit(waiting)

    return (
        Plot(
            name=FALLEN_GPU,
            begins_at_seconds=_BEGINS_AT_SECONDS[FALLEN_GPU],
            sentence=f"{cast.big_gang_node} GPU {_LOST_GPU} falls off the bus, under {cast.big_gang} ({big.gpus} GPUs)",
            job=cast.big_gang,
            workload=big.id,
            node=cast.big_gang_node,
            begin=fall,
        ),
        Plot(
            name=SLOW_RANK,
            begins_at_seconds=_BEGINS_AT_SECONDS[SLOW_RANK],
            sentence=f"fans of {cast.slow_gang_node} fail, under one rank of {cast.slow_gang} ({slow.gpus} GPUs)",
            job=cast.slow_gang,
            workload=slow.id,
            node=cast.slow_gang_node,
            begin=fail_fans,
        ),
        Plot(
            name=SCATTERED,
            begins_at_seconds=_BEGINS_AT_SECONDS[SCATTERED],
            sentence=f"{waiting.name} arrives and wants {waiting.pods} × {waiting.gpus_per_pod} GPUs; "
            "enough are free, never together",
            job=waiting.name,
            workload=waiting.id,
            node=None,
            begin=submit,
        ),
    )
