"""Who runs where when the simulation starts: free GPUs lie scattered, and nothing is wrong yet."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.errors import SettingsError
from trimtab.model.command import Seat
from trimtab.sim.cluster import SimulatedCluster
from trimtab.sim.jobs import Job, JobSpec

NODES_MIN = 8
_LARGE = 16
"""From this many nodes on the big gang has 32 GPUs and there are two spares."""
_FREE_LARGE = (4, 4, 3, 3, 2, 2, 1)
_FREE_SMALL = (4, 4, 4, 3, 2)
"""Free GPUs on the nodes that small jobs share: never eight together, and enough to empty one of them."""
_SMALL_OWNERS = ("mei", "tomas", "aisha", "jun", "noor", "lena")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cast:
    """Who plays in the demo's stories, and where."""

    big_gang: str
    big_gang_node: str
    """The node that will lose a GPU."""
    slow_gang: str
    slow_gang_node: str
    """The node whose fans will stop."""
    slow_gang_gpus: tuple[int, ...]
    waiting: JobSpec
    """The job that will find room nowhere."""


def spares_of(nodes: int) -> int:
    """How many nodes are kept for faults."""
    return 2 if nodes >= _LARGE else 1


def check_nodes(nodes: int) -> None:
    """Raise SettingsError when the stories do not fit."""
    if nodes < NODES_MIN:
        raise SettingsError(f"--nodes {nodes}: the stories need at least {NODES_MIN} nodes.")


def populate(cluster: SimulatedCluster, *, seed: int) -> Cast:
    """Fill an empty cluster with running jobs; each has been at work for a while."""
    check_nodes(len(cluster.nodes))
    source = random.Random(f"scenario {seed}")
    names = [node.name for node in cluster.node_list if not node.is_spare]
    is_large = len(cluster.nodes) >= _LARGE
    big = 4 if is_large else 2
    slow = 4 if is_large else 2
    with cluster.lock:
        first = source.randrange(0, 3) if is_large else 0  # the big gang sits together, not always at the same place
        big_nodes, rest = names[first : first + big], names[:first] + names[first + big :]
        source.shuffle(rest)
        slow_nodes, rest = rest[:slow], rest[slow:]
        mixed_count = max(9, len(rest) // 2)
        mixed, whole = rest[:mixed_count], rest[mixed_count:]
        cluster.quotas.update(_quotas(len(cluster.nodes)))
        _run(cluster, _gang("llama-70b", big, 8, power=0.97), [(node, 8) for node in big_nodes], source)
        _run(cluster, _gang("vision-3", slow, 4, power=0.93), [(node, 4) for node in slow_nodes], source)
        hot = slow_nodes[1]
        _share_nodes(cluster, slow_nodes, hot, source)
        _whole_nodes(cluster, whole, source)
        _mixed_nodes(cluster, mixed, _FREE_LARGE if len(mixed) >= 7 else _FREE_SMALL, source)
        cluster.warm_up()
    return Cast(
        big_gang="llama-70b",
        big_gang_node=big_nodes[1],
        slow_gang="vision-3",
        slow_gang_node=hot,
        slow_gang_gpus=(0, 1, 2, 3),
        waiting=_EVAL,
    )


_EVAL = JobSpec(
    name="eval-9",
    queue="eval",
    pods=1,
    gpus_per_pod=8,
    owner="sofia",
    priority=10,
    power_ratio=0.7,
    sm_active_ratio=0.7,
    restart_seconds=60.0,
    checkpoint_seconds=600.0,
)


def _gang(name: str, pods: int, gpus_per_pod: int, *, power: float) -> JobSpec:
    return JobSpec(
        name=name,
        queue="research",
        pods=pods,
        gpus_per_pod=gpus_per_pod,
        owner="wei" if name.startswith("llama") else "ines",
        priority=50,
        power_ratio=power,
        sm_active_ratio=0.86,
        tensor_active_ratio=0.6,
        dram_active_ratio=0.55,
        nvlink_bytes_per_second=120e9,
        checkpoint_seconds=300.0,
        restart_seconds=180.0 if pods * gpus_per_pod > 16 else 120.0,
    )


def _small(name: str, gpus: int, source: random.Random, **changes: Any) -> JobSpec:  # noqa: ANN401 - fields of JobSpec
    values: dict[str, Any] = {
        "name": name,
        "queue": source.choice(("research", "product")),
        "pods": 1,
        "gpus_per_pod": gpus,
        "owner": source.choice(_SMALL_OWNERS),
        "power_ratio": source.uniform(0.45, 0.8),
        "sm_active_ratio": source.uniform(0.5, 0.8),
        "tensor_active_ratio": source.uniform(0.2, 0.5),
        "dram_active_ratio": source.uniform(0.3, 0.6),
        "memory_ratio": source.uniform(0.4, 0.9),
        "checkpoint_seconds": source.choice((180.0, 240.0, 300.0)),
        "restart_seconds": source.choice((40.0, 60.0, 80.0)),
    }
    return JobSpec(**(values | changes))


def _quotas(nodes: int) -> dict[str, int]:
    """Wide enough that no story waits for quota, narrow enough to mean something."""
    return {"research": nodes * 6, "product": nodes * 4, "eval": max(16, nodes)}


def _share_nodes(cluster: SimulatedCluster, nodes: Sequence[str], hot: str, source: random.Random) -> None:
    """The other halves of the slow gang's nodes: on the one that will run hot, a service that draws little."""
    for number, node in enumerate(nodes):
        if node == hot:
            serve = _small(f"serve-{number}", 4, source, power_ratio=0.11, sm_active_ratio=0.22, queue="product",
                           tensor_active_ratio=0.1, dram_active_ratio=0.2, checkpoint_seconds=None)  # fmt: skip
            _run(cluster, serve, [(node, 4)], source)
        elif number == 0:
            notebook = _small("notebook-mei", 1, source, power_ratio=0.012, sm_active_ratio=0.0, memory_ratio=0.11,
                              tensor_active_ratio=0.0, dram_active_ratio=0.0, checkpoint_seconds=None,
                              is_preemptible=False, owner="mei", queue="research")  # fmt: skip
            _run(cluster, notebook, [(node, 1)], source)
            _run(cluster, _small("lora-1", 1, source), [(node, 1)], source)
            _run(cluster, _small("lora-2", 2, source), [(node, 2)], source)
        else:
            _run(cluster, _small(f"asr-{number}", 4, source), [(node, 4)], source)


def _whole_nodes(cluster: SimulatedCluster, nodes: Sequence[str], source: random.Random) -> None:
    """Gangs of two and three whole nodes, and one of one."""
    left, number = list(nodes), 1
    while left:
        size = min(len(left), 3 if number % 2 else 2)
        taken, left = left[:size], left[size:]
        name = f"{('moe', 'diffusion', 'rerank')[(number - 1) % 3]}-{number}"
        _run(cluster, _gang(name, size, 8, power=source.uniform(0.8, 0.92)), [(node, 8) for node in taken], source)
        number += 1


def _mixed_nodes(cluster: SimulatedCluster, nodes: Sequence[str], free: tuple[int, ...], source: random.Random) -> None:
    """Nodes that small jobs share; on the full ones jobs end now and then, and others follow."""
    numbers = iter(range(1, 10_000))
    for place, node in enumerate(nodes):
        held = 8 - (free[place] if place < len(free) else 0)
        for size in _sizes(held, (1, 2, 4) if held == 8 else (1, 2, 2), source):
            ends = held == 8 and size == 1
            changes: dict[str, Any] = {}
            if ends:
                changes = {"duration_seconds": source.uniform(900, 5000), "checkpoint_seconds": None}
            spec = _small(f"{'sweep' if size == 1 else 'tune'}-{next(numbers)}", size, source, **changes)
            _run(cluster, spec, [(node, size)], source)


def _sizes(gpus: int, choices: tuple[int, ...], source: random.Random) -> Iterator[int]:
    """Pods that together fill `gpus`."""
    while gpus:
        size = source.choice([size for size in choices if size <= gpus])
        gpus -= size
        yield size


def _run(cluster: SimulatedCluster, spec: JobSpec, seats: Sequence[tuple[str, int]], source: random.Random) -> Job:
    """A job that has been running for a while, its last checkpoint somewhere within its interval."""
    job = cluster.submit(spec)
    cluster.seat(job, [Seat(pod=spec.pod(rank), node=node, gpus=gpus) for rank, (node, gpus) in enumerate(seats)])
    cluster.settle(job, worked_seconds=source.uniform(4000, 40000), unsaved_ratio=source.random())
    return job
