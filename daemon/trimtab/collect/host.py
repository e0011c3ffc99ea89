"""The host beside its GPUs: pressure, memory, load. From /proc alone."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from trimtab.collect.collector import Section
from trimtab.collect.units import finite_only, from_kibi, from_percent
from trimtab.errors import NoData

PROC = Path("/proc")
_MEMORY = {"MemTotal": "memory_total_bytes", "MemAvailable": "memory_available_bytes"}


NODE_ENVIRONMENT = "TRIMTAB_NODE"
"""In a pod the kernel's name is the pod's; the node's comes by the downward API."""


def host_name() -> str:
    """This node's name: what the environment says it is, else as the kernel knows it."""
    return os.environ.get(NODE_ENVIRONMENT) or socket.gethostname()


class HostCollector:
    """Fills the node values."""

    def __init__(self, proc: Path = PROC) -> None:
        """`proc` is where the proc file system is mounted."""
        self._proc = proc

    def collect(self) -> Section:
        """What /proc says of this host. Raises NoData when it says nothing."""
        values: dict[str, float] = {}
        for resource in ("cpu", "memory", "io"):
            pressure = parse_pressure(self._read(f"pressure/{resource}"))
            if pressure is not None:
                values[f"{resource}_pressure_ratio"] = pressure
        values |= parse_memory(self._read("meminfo"))
        load = self._read("loadavg").split()
        if load:
            values["load_1m_processes"] = float(load[0])
        if not values:
            raise NoData(f"{self._proc} gives no host values")
        return Section(node_values=finite_only(values))

    def _read(self, name: str) -> str:
        try:
            return (self._proc / name).read_text(encoding="ascii", errors="replace")
        except OSError:  # a kernel without pressure accounting, a container without the file
            return ""


def parse_pressure(text: str) -> float | None:
    """Share of the last 10 s in which something waited for the resource."""
    for line in text.splitlines():
        kind, *pairs = line.split()
        said = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
        if kind == "some" and "avg10" in said:
            return from_percent(float(said["avg10"]))
    return None


def parse_memory(text: str) -> dict[str, float]:
    """Total and available bytes out of /proc/meminfo."""
    found: dict[str, float] = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in _MEMORY and rest.split():
            found[_MEMORY[name]] = from_kibi(float(rest.split()[0]))
    return found
