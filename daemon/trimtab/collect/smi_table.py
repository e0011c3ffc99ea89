"""The smaller outputs of nvidia-smi: the table, `--query-gpu` CSV, link status, and its error messages. Pure."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from trimtab.collect.pci import canonical_pci
from trimtab.collect.smi_tree import is_fault, is_known, number_of

_HEAD_ROW = re.compile(r"^\|\s*(\d+)\s+(.+?)\s+(?:On|Off|N/A)\s*\|\s*([0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+)\s+(\S+)\s*\|")
_LIST_ROW = re.compile(r"^GPU (\d+): (.+?)(?: \(UUID: (GPU-[0-9a-fA-F-]+)\))?\s*$")
_LINK_ROW = re.compile(r"^\s+Link (\d+): (.+?)\s*$")
_MIG_ROW = re.compile(r"^\s+MIG (\S+)\s+Device\s+(\d+): \(UUID: (MIG-[0-9a-fA-F-]+)\)")
_NOT_IN_MIG = "not supported for Devices in MIG mode"
_HANDLE = re.compile(r"Unable to determine the device handle for (?:GPU(?:\d{1,3}: )?\s*)?(\S+?): (.*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableGpu:
    """One GPU of a table or a CSV; None = not said. `is_bad` = the row itself says that the GPU is unusable."""

    index: int
    name: str | None = None
    pci: str | None = None
    uuid: str | None = None
    temperature_celsius: float | None = None
    power_watts: float | None = None
    power_limit_watts: float | None = None
    memory_used_mib: float | None = None
    memory_total_mib: float | None = None
    utilization_percent: float | None = None
    is_bad: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """NVLink status of one GPU; None = not said (MIG mode), which is not `0 links`."""

    index: int
    uuid: str | None
    name: str
    speeds: tuple[str, ...] | None = None
    instances: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class HandleError:
    """A GPU whose handle nvidia-smi could not get: it fell off the bus."""

    raw: str
    pci: str | None
    text: str

    @property
    def is_lost(self) -> bool:
        """Whether the message says so itself."""
        return "is lost" in self.text


def read_table(text: str) -> tuple[TableGpu, ...]:
    """The plain table: two rows a GPU. ERR! is a value like any other."""
    lines = text.splitlines()
    found = []
    for row, line in enumerate(lines):
        head = _HEAD_ROW.match(line)
        if head is None or row + 1 >= len(lines):
            continue
        cells = [cell.strip() for cell in lines[row + 1].strip().strip("|").split("|")]
        if len(cells) >= 3:
            found.append(_table_gpu(head, cells, is_bad="ERR!" in line + "".join(lines[row + 1 : row + 3])))
    return tuple(found)


def _table_gpu(head: re.Match[str], cells: Sequence[str], *, is_bad: bool) -> TableGpu:
    power, _, limit = cells[0].rpartition("/")
    words = power.split()
    used, _, total = cells[1].partition("/")
    return TableGpu(
        index=int(head[1]),
        name=head[2].strip(),
        pci=canonical_pci(head[3]),
        temperature_celsius=next((number_of(word) for word in words if re.fullmatch(r"\d+C", word)), None),
        power_watts=next((number_of(word) for word in words if re.fullmatch(r"\d+W", word)), None),
        power_limit_watts=_number(limit),
        memory_used_mib=_number(used),
        memory_total_mib=_number(total),
        utilization_percent=_number(cells[2].split()[0]) if cells[2] else None,
        is_bad=is_bad,
    )


def _number(text: str | None) -> float | None:
    return number_of(text) if text and is_known(text) else None


_CSV_NAMES = {
    "temperature_celsius": ("temperature.gpu",),
    "power_watts": ("power.draw", "power.draw.average", "power.draw.instant"),
    "power_limit_watts": ("enforced.power.limit", "power.limit"),
    "memory_used_mib": ("memory.used",),
    "memory_total_mib": ("memory.total",),
    "utilization_percent": ("utilization.gpu",),
}


def is_csv(text: str) -> bool:
    """Whether the first line is a head of `--query-gpu`: several names with dots, a comma and a blank between."""
    head = [_csv_name(cell) for cell in text.split("\n", 1)[0].split(",")]
    known = {name for names in _CSV_NAMES.values() for name in names} | {
        "index",
        "name",
        "uuid",
        "pci.bus_id",
        "serial",
    }
    return len(head) > 1 and sum(name in known for name in head) >= 2


def _csv_name(cell: str) -> str:
    return cell.split("[", maxsplit=1)[0].strip().lower()


def read_csv(text: str) -> tuple[TableGpu, ...]:
    """The rows of `--query-gpu … --format=csv`; bracketed values are unknown."""
    rows = list(csv.reader(io.StringIO(text), skipinitialspace=True))
    if not rows:
        return ()
    names = [_csv_name(cell) for cell in rows[0]]
    gpus = (_csv_gpu(dict(zip(names, row, strict=False)), number) for number, row in enumerate(rows[1:]) if row)
    return tuple(gpus)


def _csv_gpu(cells: dict[str, str], number: int) -> TableGpu:
    values = {
        ours: next((found for name in names if (found := _number(cells.get(name))) is not None), None)
        for ours, names in _CSV_NAMES.items()
    }
    index = cells.get("index", "").strip()
    return TableGpu(
        index=int(index) if index.isascii() and index.isdigit() and len(index) < 6 else number,
        name=_text(cells.get("name")),
        uuid=_text(cells.get("uuid")),
        pci=canonical_pci(cells.get("pci.bus_id", "")),
        is_bad=sum(is_fault(cell) for cell in cells.values()) > 1,
        **values,
    )


def _text(cell: str | None) -> str | None:
    return cell.strip() if cell and is_known(cell) else None


@dataclass(slots=True)
class _Growing:
    index: int
    name: str
    uuid: str | None
    speeds: list[str] | None = None
    is_mig: bool = False
    instances: list[str] = field(default_factory=list)


def read_links(text: str) -> tuple[Links, ...]:
    """`nvidia-smi nvlink --status`, and the plain list `nvidia-smi -L`, which says nothing of links."""
    found: list[_Growing] = []
    for line in text.splitlines():
        gpu = _LIST_ROW.match(line)
        if gpu:
            found.append(_Growing(int(gpu[1]), gpu[2], gpu[3]))
        elif found:
            _add_detail(found[-1], line)
    return tuple(
        Links(
            index=one.index,
            uuid=one.uuid,
            name=one.name,
            speeds=None if one.is_mig or one.speeds is None else tuple(one.speeds),
            instances=tuple(one.instances),
        )
        for one in found
    )


def _add_detail(gpu: _Growing, line: str) -> None:
    link, instance = _LINK_ROW.match(line), _MIG_ROW.match(line)
    if _NOT_IN_MIG in line:
        gpu.is_mig = True
    elif link:
        gpu.speeds = [*(gpu.speeds or []), link[2]]
    elif instance:
        gpu.instances.append(instance[3])


def is_list(text: str) -> bool:
    """Whether a text starts as `nvidia-smi -L` and link status do."""
    return _LIST_ROW.match(text.lstrip().split("\n", 1)[0]) is not None


def read_handle_errors(text: str) -> tuple[HandleError, ...]:
    """GPUs that nvidia-smi could not open, with the address as printed and, where possible, as it is."""
    found = []
    for line in text.splitlines():
        match = _HANDLE.search(line)
        if match:
            found.append(HandleError(raw=match[1], pci=canonical_pci(match[1]), text=line.strip()))
    return tuple(found)
