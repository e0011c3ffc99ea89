"""The machines of the simulated cluster: nodes, racks and GPUs with identities that depend on the seed alone."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass, field
from datetime import datetime, timedelta

GPU_MODEL = "NVIDIA H100 80GB HBM3"
DRIVER_VERSION = "570.124.06"
CUDA_DRIVER_VERSION = 12080
NODES_PER_RACK = 8
GPUS_PER_NODE = 8
_PCI_BUSES = (0x1B, 0x3B, 0x4C, 0x5D, 0x9B, 0xBB, 0xCB, 0xDB)
"""Where the eight GPUs of an H100 baseboard usually sit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SimGpu:
    """One GPU as it was built in; `column` is its place in the arrays of the physics."""

    column: int
    index: int
    uuid: str
    pci: str
    serial: str


@dataclass(slots=True, kw_only=True)
class SimNode:
    """One node: what it is, and whether the scheduler may use it."""

    name: str
    rack: str
    boot_id: str
    boot_at: datetime
    gpus: tuple[SimGpu, ...]
    is_spare: bool = False
    is_cordoned: bool = False
    cordoned_by: str | None = None
    does_cordon_last: bool = False
    lost: dict[int, datetime] = field(default_factory=dict)
    """GPU index -> when it fell off the bus."""

    def is_lost(self, index: int) -> bool:
        """Whether this GPU is off the bus."""
        return index in self.lost


def build_fleet(*, nodes: int, spares: int, seed: int, start: datetime) -> list[SimNode]:
    """Nodes in racks of eight; the last `spares` nodes are kept for faults."""
    source = random.Random(f"fleet {seed}")
    width = max(2, len(str(nodes - 1)))
    return [
        _node(number, f"gpu-{number:0{width}d}", source, start, is_spare=number >= nodes - spares)
        for number in range(nodes)
    ]


def _node(number: int, name: str, source: random.Random, start: datetime, *, is_spare: bool) -> SimNode:
    gpus = tuple(
        SimGpu(
            column=number * GPUS_PER_NODE + index,
            index=index,
            uuid=f"GPU-{uuid.UUID(int=source.getrandbits(128), version=4)}",
            pci=f"0000:{_PCI_BUSES[index]:02x}:00.0",
            serial=f"16{source.randrange(10**11):011d}",
        )
        for index in range(GPUS_PER_NODE)
    )
    return SimNode(
        name=name,
        rack=f"r{number // NODES_PER_RACK + 1}",
        boot_id=str(uuid.UUID(int=source.getrandbits(128), version=4)),
        boot_at=start - timedelta(hours=source.uniform(30, 900)),
        gpus=gpus,
        is_spare=is_spare,
    )
