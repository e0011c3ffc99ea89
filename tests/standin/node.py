"""One node over the stand-in driver: its collector, and short words for what a test looks at."""

from __future__ import annotations

from pathlib import Path

from tests.fakes.clock import FakeClock

from trimtab.collect.collector import Section
from trimtab.collect.nvml import NvmlCollector
from trimtab.collect.nvml_inventory import Inventory
from trimtab.model.reading import EventKind, GpuReading, GpuState

UUID_3 = "GPU-00000000-0000-4000-8000-000000000003"
PCI_3 = "0000:13:00.0"


class Node:
    """One node's collector; a restart of the agent keeps its disk."""

    def __init__(self, disk: Path | None = None, *, boot_id: str = "boot-a") -> None:
        self.clock = FakeClock()
        self.collector = NvmlCollector(
            clock=self.clock,
            inventory=Inventory(path=None if disk is None else disk / "gpus.json", boot_id=boot_id),
            pid_name={4242: "python", 4243: "python"}.get,
        )

    def tick(self, seconds: float = 10.0) -> Section:
        self.clock.advance(seconds)
        return self.collector.collect()


def states(section: Section) -> list[GpuState]:
    return [gpu.state for gpu in sorted(section.gpus, key=lambda gpu: gpu.info.pci or "")]


def gpu(section: Section, index: int) -> GpuReading:
    return next(found for found in section.gpus if found.uuid.endswith(f"{index:012d}"))


def kinds(section: Section) -> list[EventKind]:
    return [event.kind for event in section.events]
