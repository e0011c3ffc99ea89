"""The board as columns: what the page's stream carries, a tenth of the rows' size; and what changed between two.

A column has one whole number a GPU (or a node), in the order of the board; -1 = not known. 100,000 GPUs are some
3 MB as columns and 25 MB as rows, and a beat later most of them need not be said again.
"""

from __future__ import annotations

import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from trimtab.model.board import Board, Cell, CellState, JobRow, NodeRow

UNKNOWN = -1
STATES: tuple[str, ...] = tuple(state.value for state in CellState)
IS_CORDONED, IS_READY, IS_SILENT, IS_SPARE = 1, 2, 4, 8
"""Bits of a node's `flags`."""
SPARSE_SHARE_MAX = 0.4
"""A column of which more changed is sent whole: places cost as much as values."""

Ints = NDArray[np.int32]
_PLACE = {state: place for place, state in enumerate(CellState)}


def _whole(value: float | None, factor: float = 1.0) -> int:
    return UNKNOWN if value is None else round(value * factor)


_CELL_COLUMNS: Mapping[str, Callable[[Cell], int]] = {
    "state": lambda cell: _PLACE[cell.state],
    "activity_permille": lambda cell: _whole(cell.activity_ratio, 1000),
    "temperature_celsius": lambda cell: _whole(cell.temperature_celsius),
    "power_watts": lambda cell: _whole(cell.power_watts),
    "memory_permille": lambda cell: _whole(cell.memory_used_ratio, 1000),
    "sm_clock_megahertz": lambda cell: _whole(cell.sm_clock_hertz, 1e-6),
}


@dataclass(frozen=True)
class Columns:
    """One board as columns. `shape` is what must stay equal for a change to be told against it."""

    board: Board

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All GPUs in order."""
        return tuple(cell for node in self.board.nodes for cell in node.cells)

    @cached_property
    def places(self) -> Mapping[tuple[str, str], int]:
        """(node, UUID) -> place in a column."""
        pairs = ((node.name, cell.uuid) for node in self.board.nodes for cell in node.cells)
        return {pair: place for place, pair in enumerate(pairs)}

    @cached_property
    def shape(self) -> bytes:
        """Which nodes and GPUs there are: names, racks, models, indices and UUIDs, as one event's data."""
        nodes = self.board.nodes
        return msgspec.json.encode(
            {
                "nodes": [node.name for node in nodes],
                "racks": [node.rack for node in nodes],
                "models": [node.model for node in nodes],
                "counts": [len(node.cells) for node in nodes],
                "indices": [UNKNOWN if cell.index is None else cell.index for cell in self.cells],
                "parts": _parts(nodes),
                "states": STATES,
            }
        )

    @cached_property
    def uuids(self) -> bytes:
        """The GPUs' UUIDs, apart: they are most of the bytes, and the picture is drawn without them."""
        return msgspec.json.encode([cell.uuid for cell in self.cells])

    @cached_property
    def numbers(self) -> Mapping[str, Ints]:
        """Column -> its numbers."""
        made = {name: _ints(map(read, self.cells)) for name, read in _CELL_COLUMNS.items()}
        job = {row.id: place for place, row in enumerate(self.board.jobs)}
        made["job"] = _ints(UNKNOWN if c.workload is None else job.get(c.workload, UNKNOWN) for c in self.cells)
        made["flags"] = _ints(map(_flags, self.board.nodes))
        at = self.board.at
        made["report_age_seconds"] = _ints(
            UNKNOWN if node.last_report_at is None else round((at - node.last_report_at).total_seconds())
            for node in self.board.nodes
        )
        return made

    @cached_property
    def rest(self) -> Mapping[str, msgspec.Raw]:
        """The board's other fields, each as its JSON: what did not change is not sent again."""
        bare = replace(self.board, nodes=(), jobs=())
        fields: dict[str, msgspec.Raw] = {
            name: msgspec.Raw(msgspec.json.encode(getattr(bare, name)))
            for name in bare.__dataclass_fields__
            if name not in ("nodes", "jobs")
        }
        marked = [(place, node) for place, node in enumerate(self.board.nodes)]
        fields["node_findings"] = _raw([[place, node.findings] for place, node in marked if node.findings])
        fields["cell_findings"] = _raw([[place, c.findings] for place, c in enumerate(self.cells) if c.findings])
        fields["cordoned_by"] = _raw([[place, node.cordoned_by] for place, node in marked if node.cordoned_by])
        return fields

    @cached_property
    def job_ids(self) -> tuple[str, ...]:
        """The jobs in order."""
        return tuple(row.id for row in self.board.jobs)

    @cached_property
    def jobs(self) -> Mapping[str, msgspec.Raw]:
        """Job id -> its row; where it sits as places in the columns, in rank order."""
        return {row.id: _raw(self._job(row)) for row in self.board.jobs}

    def _job(self, row: JobRow) -> dict[str, Any]:
        made: dict[str, Any] = msgspec.to_builtins(replace(row, nodes=(), gpus=()))
        made["cells"] = [place for place in self._seats(row) if place is not None]
        return made

    def _seats(self, row: JobRow) -> Sequence[int | None]:
        by_gpu = {uuid: name for name in row.nodes for uuid in self._uuids_of.get(name, ())}
        return [self.places.get((by_gpu.get(gpu, ""), gpu)) for gpu in row.gpus]

    @cached_property
    def _uuids_of(self) -> Mapping[str, tuple[str, ...]]:
        return {node.name: tuple(cell.uuid for cell in node.cells) for node in self.board.nodes}


def _ints(values: Any) -> Ints:  # noqa: ANN401 - any iterable of whole numbers
    return np.fromiter(values, dtype=np.int32)


def _raw(value: object) -> msgspec.Raw:
    return msgspec.Raw(msgspec.json.encode(value))


def _flags(node: NodeRow) -> int:
    return (
        IS_CORDONED * node.is_cordoned
        + IS_READY * node.is_ready
        + IS_SILENT * node.is_silent
        + IS_SPARE * node.is_spare
    )


def _parts(nodes: Sequence[NodeRow]) -> list[list[Any]]:
    """`[place of the node, cells of each of its GPUs]` where MIG splits one: `[12, [1, 7, 1]]`."""
    found = []
    for place, node in enumerate(nodes):
        if not any("/" in cell.uuid for cell in node.cells):
            continue
        counts: dict[str, int] = {}
        for cell in node.cells:
            parent = cell.uuid.partition("/")[0]
            counts[parent] = counts.get(parent, 0) + 1
        found.append([place, list(counts.values())])
    return found


def frame(columns: Columns, sequence: int) -> bytes:
    """The whole board as the data of one event."""
    return msgspec.json.encode(
        {
            "sequence": sequence,
            "base": None,
            "shape": msgspec.Raw(columns.shape),
            "columns": {name: numbers.tolist() for name, numbers in columns.numbers.items()},
            "jobs": {"order": columns.job_ids, "set": list(columns.jobs.values())},
            "board": columns.rest,
        }
    )


def change(old: Columns, new: Columns, *, base: int, sequence: int) -> bytes | None:
    """What differs, as the data of one event; None where the fleet has another shape."""
    if old.shape != new.shape or old.uuids != new.uuids:
        return None
    columns = {
        name: told
        for name, numbers in new.numbers.items()
        if (told := _column_change(old.numbers[name], numbers)) is not None
    }
    jobs = {
        "order": new.job_ids if new.job_ids != old.job_ids else None,
        "set": [row for name, row in new.jobs.items() if old.jobs.get(name) != row],
    }
    rest = {name: raw for name, raw in new.rest.items() if old.rest[name] != raw}
    return msgspec.json.encode({"sequence": sequence, "base": base, "columns": columns, "jobs": jobs, "board": rest})


def _column_change(old: Ints, new: Ints) -> dict[str, list[int]] | None:
    """`{"all": values}`, or `{"steps": from one changed place to the next, "to": their values}`; None = the same."""
    places = np.flatnonzero(old != new)
    if not len(places):
        return None
    if len(places) > SPARSE_SHARE_MAX * len(new):
        return {"all": new.tolist()}
    return {"steps": np.diff(places, prepend=0).tolist(), "to": new[places].tolist()}


def packed(data: bytes) -> bytes:
    """A piece of a gzip stream that stands for these bytes and looks back at none before: any stream may take it."""
    packer = zlib.compressobj(level=1, wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush(zlib.Z_FULL_FLUSH)


@dataclass(slots=True)
class Piece:
    """One event's bytes, packed by whoever asks first and shared by all streams."""

    plain: bytes
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _packed: bytes | None = field(default=None, repr=False)

    @property
    def packed(self) -> bytes:
        """The same, for a gzip stream."""
        with self._lock:
            if self._packed is None:
                self._packed = packed(self.plain)
            return self._packed
