"""Fakes of the agent's seams: collector, keeper, and a driver library without a compiler."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

from trimtab.collect.collector import Section
from trimtab.errors import ShipError
from trimtab.model.reading import Report


class FakeCollector:
    def __init__(self, *sections: Section | Exception) -> None:
        self.sections = list(sections)
        self.commits = 0
        self.is_closed = False

    def collect(self) -> Section:
        section = self.sections.pop(0) if self.sections else Section()
        if isinstance(section, Exception):
            raise section
        return section

    def commit(self) -> None:
        self.commits += 1

    def close(self) -> None:
        self.is_closed = True


class FakeKeeper:
    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.next_append_error: ShipError | None = None

    def append(self, report: Report) -> Report:
        if self.next_append_error is not None:
            error, self.next_append_error = self.next_append_error, None
            raise error
        kept = replace(report, spool_id="spool-a", sequence=len(self.reports) + 1)
        self.reports.append(kept)
        return kept


class FakeNvmlLibrary:
    """A driver without a compiler: an object in place of the loaded library, one fleet, one node at a time."""

    def __init__(self, utilization: dict[str, list[int]]) -> None:
        """`utilization` is percent per node and GPU."""
        self.utilization = utilization
        self.node = ""

    def select(self, node: str) -> None:
        self.node = node

    def nvmlInitWithFlags(self, _flags: int) -> int:  # noqa: N802 - the C interface's name
        return 0

    def nvmlShutdown(self) -> int:  # noqa: N802
        return 0

    def nvmlSystemGetDriverVersion(self, buffer: Any, _size: Any) -> int:  # noqa: N802
        buffer.value = b"570.86.15"
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        count._obj.value = len(self.utilization[self.node])
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> int:  # noqa: N802
        ctypes.c_void_p.from_buffer(device._obj).value = 0x1000 + index.value
        return 0

    def nvmlDeviceGetUUID(self, device: Any, buffer: Any, _size: Any) -> int:  # noqa: N802
        buffer.value = f"GPU-{self.node}-{self._index(device)}".encode()
        return 0

    def nvmlDeviceGetUtilizationRates(self, device: Any, rates: Any) -> int:  # noqa: N802
        rates._obj.gpu, rates._obj.memory = self.utilization[self.node][self._index(device)], 0
        return 0

    @staticmethod
    def _index(device: Any) -> int:
        return (ctypes.cast(device, ctypes.c_void_p).value or 0) - 0x1000
