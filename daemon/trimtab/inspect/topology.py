"""`nvidia-smi topo -m`: which GPUs are near each other and which network cards are near them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from trimtab.collect.smi_topology import Topology, read_topology
from trimtab.inspect.inspection import Counted, Inspection


def read_topology_output(text: str, now: datetime) -> Inspection:  # noqa: ARG001 - one shape for all readers
    """`nvidia-smi topo -m`."""
    topology = read_topology(text)
    return Inspection(
        kind="nvidia-smi topo -m",
        reading=_topology_reading(topology),
        sentence=f"{Counted(topology.gpus, 'GPU')}, {Counted(topology.nics, 'network card')}, "
        + (f"up to {topology.nvlinks_most} NVLinks between two GPUs" if topology.nvlinks_most else "no NVLink"),
        notes=tuple(_topology_notes(topology)),
    )


def _topology_reading(topology: Topology) -> dict[str, object]:
    gpus = range(topology.gpus)
    pairs = [(one, other) for one in gpus for other in gpus if one < other]
    words = {topology.word(f"GPU{one}", f"GPU{other}") for one, other in pairs}
    closest = {str(gpu): nic for gpu in gpus if (nic := topology.closest_nic(gpu)) is not None}
    return {
        "gpus": topology.gpus,
        "nics": topology.nics,
        "nvlinks": topology.nvlinks_most,
        "nvlink": {f"{one}-{other}": links for one, other in pairs if (links := topology.nvlinks(one, other))},
        "numa": list(topology.numa),
        "pairs": [list(pair) for pair in topology.pairs],
        "near_nics": {str(gpu): list(nics) for gpu in gpus if (nics := topology.near_nics(gpu))},
        "pix": closest,
        "far_nics": list(topology.far_nics),
        "link": words.pop() if len(words) == 1 else None,
    }


def _topology_notes(topology: Topology) -> Iterator[str]:
    if topology.pairs and topology.gpus > 2:
        yield (
            "A 2-GPU job sits best on one of the pairs "
            + ", ".join(f"({one}, {other})" for one, other in topology.pairs)
            + "."
        )
    if not topology.nvlinks_most:
        yield "No NVLink between GPUs: normal for cards without bridges."
    if topology.far_nics:
        yield "Far from every GPU: " + ", ".join(f"NIC{nic}" for nic in topology.far_nics) + "."
