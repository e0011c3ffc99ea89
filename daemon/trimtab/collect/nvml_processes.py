"""Processes on a GPU, checked against the host: a list of pids that do not exist blames nobody."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pynvml

from trimtab.collect import nvml_door as door
from trimtab.errors import CollectError
from trimtab.model.reading import Process

PidName = Callable[[int], str | None]
"""The name of a process of this host; None when there is none of that pid."""

_CALLS = ("nvmlDeviceGetComputeRunningProcesses_v3", "nvmlDeviceGetComputeRunningProcesses_v2")
"""Newest first; the binding has no call for version 1 any more."""


def process_name(pid: int, proc: Path = Path("/proc")) -> str | None:
    """The name of a process, from /proc."""
    try:
        return (proc / str(pid) / "comm").read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return None


def read_processes(handle: door.Handle, pid_name: PidName) -> tuple[Process, ...]:
    """Compute processes of a GPU that exist on this host. Raises NvmlError, CollectError when none of them does."""
    listed = _listed(handle)
    named = [(found, pid_name(found.pid)) for found in listed]
    real = tuple(
        Process(pid=found.pid, name=name, memory_used_bytes=_bytes(found.usedGpuMemory))
        for found, name in named
        if name is not None
    )
    if listed and not real:
        raise CollectError(
            f"none of the {len(listed)} pids that the driver lists exists here: the agent runs in a pid namespace of "
            "its own, or this driver scrambles them (535 did). Run the agent in the host's pid namespace."
        )
    return real


def _listed(handle: door.Handle) -> list[door.Handle]:
    for call in _CALLS:
        try:
            found: list[door.Handle] = door.ask(call, handle)
            return found
        except door.Unsupported as error:
            unsupported = error
    raise unsupported


def _bytes(used: int | None) -> int | None:
    return None if used is None or used == pynvml.NVML_VALUE_NOT_AVAILABLE_ulonglong.value else used
