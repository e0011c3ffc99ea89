"""`nvidia-smi topo -m`: how GPUs and network cards reach each other. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_DEVICE = re.compile(r"(GPU|NIC)(\d+)$")
_NVLINK = re.compile(r"NV(\d+)$")
_ORDER = ("PIX", "PXB", "PHB", "NODE", "SYS")
_NEAR = ("PIX", "PXB")


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """The matrix: (row, column) of `GPU0`, `NIC3` … -> word; NUMA node of each GPU, None = not said."""

    gpus: int
    nics: int
    words: Mapping[tuple[str, str], str] = field(default_factory=dict)
    numa: tuple[int | None, ...] = ()

    def word(self, one: str, other: str) -> str:
        """How two devices reach each other; empty where it is not said."""
        return self.words.get((one, other)) or self.words.get((other, one)) or ""

    def nvlinks(self, one: int, other: int) -> int:
        """NVLinks between two GPUs."""
        found = _NVLINK.match(self.word(f"GPU{one}", f"GPU{other}"))
        return int(found[1]) if found else 0

    @property
    def nvlinks_most(self) -> int:
        """The most NVLinks between any two GPUs; 0 is normal on a card without."""
        pairs = [(one, other) for one in range(self.gpus) for other in range(one)]
        return max((self.nvlinks(*pair) for pair in pairs), default=0)

    def near_nics(self, gpu: int) -> tuple[int, ...]:
        """Network cards behind the same PCIe switch."""
        return tuple(nic for nic in range(self.nics) if self.word(f"GPU{gpu}", f"NIC{nic}") in _NEAR)

    def closest_nic(self, gpu: int) -> int | None:
        """The one network card one bridge away, where there is exactly one."""
        found = [nic for nic in range(self.nics) if self.word(f"GPU{gpu}", f"NIC{nic}") == "PIX"]
        return found[0] if len(found) == 1 else None

    @property
    def far_nics(self) -> tuple[int, ...]:
        """Network cards that every GPU reaches over the processor link only."""
        return tuple(
            nic
            for nic in range(self.nics)
            if self.gpus and all(self.word(f"GPU{gpu}", f"NIC{nic}") == "SYS" for gpu in range(self.gpus))
        )

    @property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """GPUs that are each other's single nearest; empty where nearness picks no partner."""
        best = [self._nearest(gpu) for gpu in range(self.gpus)]
        return tuple(
            (gpu, mate) for gpu, mate in enumerate(best) if mate is not None and mate > gpu and best[mate] == gpu
        )

    def _nearest(self, gpu: int) -> int | None:
        scores = {other: self._nearness(gpu, other) for other in range(self.gpus) if other != gpu}
        top = max(scores.values(), default=None)
        mates = [other for other, score in scores.items() if score == top]
        return mates[0] if len(mates) == 1 else None

    def _nearness(self, one: int, other: int) -> tuple[int, int, int]:
        shared = len(set(self.near_nics(one)) & set(self.near_nics(other)))
        word = self.word(f"GPU{one}", f"GPU{other}")
        return self.nvlinks(one, other), shared, -_ORDER.index(word) if word in _ORDER else -len(_ORDER)


def is_topology(text: str) -> bool:
    """Whether the first line is the matrix's head."""
    first = _ANSI.sub("", text[:4000]).lstrip("\n").split("\n", 1)[0]
    return bool(re.match(r"\s*GPU0\b", first)) and ("CPU Affinity" in first or "GPU1" in first)


def read_topology(text: str) -> Topology:
    """The matrix; legends below it are no devices."""
    lines = [_ANSI.sub("", line).rstrip("\n") for line in text.splitlines() if line.strip()]
    columns = _cells(lines[0])[1:] if lines else []
    devices = [name for name in columns if _DEVICE.match(name)]
    words: dict[tuple[str, str], str] = {}
    numa: dict[int, int | None] = {}
    for line in lines[1:]:
        cells = _cells(line)
        row = _DEVICE.match(cells[0]) if cells else None
        if row is None:
            continue
        for name, cell in zip(devices, cells[1:], strict=False):
            words[cells[0], name] = cell
        if row[1] == "GPU":
            numa[int(row[2])] = _numa(cells[1 + len(devices) :])
    gpus = [name for name in devices if name.startswith("GPU")]
    return Topology(
        gpus=len(gpus),
        nics=len(devices) - len(gpus),
        words=words,
        numa=tuple(numa.get(gpu) for gpu in range(len(gpus))),
    )


def _cells(line: str) -> list[str]:
    """Cells of a row. They are parted by tabs; a copy from a terminal has blanks."""
    if "\t" in line:
        return [cell.strip() for cell in line.split("\t")]
    cells = line.split()
    return cells if line[:1].strip() else ["", *cells]


def _numa(cells: list[str]) -> int | None:
    """The cell after the processor list."""
    found = [cell for cell in cells[1:] if cell]
    return int(found[0]) if found and found[0].isdigit() else None
