"""The kernel's voice of each simulated node: a file in the format of /dev/kmsg."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from trimtab.sim.fleet import SimGpu, SimNode

_ERROR, _INFO = 3, 6
"""Priorities of the kernel's own facility, 0."""


class KernelFiles:
    """One file a node, appended line by line as the kernel would."""

    def __init__(self, directory: Path) -> None:
        """Files lie in `directory`, made if it is not there."""
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._sequence: dict[str, int] = {}

    def path(self, node: str) -> Path:
        """The file of one node."""
        return self._directory / f"{node}.kmsg"

    def boot(self, node: SimNode) -> None:
        """What a healthy node says when its driver loads."""
        at = node.boot_at
        self.say(node, at, "nvidia: loading out-of-tree module taints kernel.", priority=_INFO)
        self.say(node, at, "nvidia-nvlink: Nvlink Core is being initialized, major device number 236", priority=_INFO)
        self.say(node, at, "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06", priority=_INFO)

    def gpu_fell_off(self, node: SimNode, gpu: SimGpu, at: datetime) -> None:
        """What the driver says when it can no longer reach a GPU over PCIe."""
        short = gpu.pci.rpartition(".")[0]
        who = "pid='<unknown>', name=<unknown>"
        for text in (
            f"NVRM: GPU at PCI:{short}: {gpu.uuid}",
            f"NVRM: GPU Board Serial Number: {gpu.serial}",
            f"NVRM: Xid (PCI:{short}): 79, {who}, GPU has fallen off the bus.",
            f"NVRM: GPU {gpu.pci}: GPU has fallen off the bus.",
            f"NVRM: Xid (PCI:{short}): 154, {who}, GPU recovery action changed from 0x0 (None) to 0x2 "
            "(Node Reboot Required)",
        ):
            self.say(node, at, text)

    def say(self, node: SimNode, at: datetime, text: str, *, priority: int = _ERROR) -> None:
        """Append one record: priority, sequence, microseconds since boot."""
        sequence = self._sequence.get(node.name, 900)
        self._sequence[node.name] = sequence + 1
        since_boot_us = int((at - node.boot_at).total_seconds() * 1e6)
        with self.path(node.name).open("a", encoding="utf-8") as file:
            file.write(f"{priority},{sequence},{since_boot_us},-;{text}\n")
