"""An independent count over raw samples and boards: what roll-ups must say, worked out another way.

Time is cut at every moment at which anything changes; each stretch belongs to one sample and one tenure at most.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise

from tests.builders import CLUSTER
from tests.fakes.clock import START

from trimtab.clock import unix_ms
from trimtab.model.board import Board, Cell, CellState, JobRow, NodeRow, Strip
from trimtab.model.command import Mode
from trimtab.model.reading import Delivery, GpuState

MINUTE_MS = 60_000
KEYS = {
    "activity": ("sm_active_ratio", "graphics_engine_active_ratio", "utilization_ratio"),
    "power": ("power_watts",),
    "temperature": ("temperature_celsius",),
    "sm_clock": ("sm_clock_hertz",),
    "memory_used": ("memory_used_bytes",),
}
STATES = ("working", "held_idle", "free", "stranded", "spare", "out_of_service", "unknown")


def a_cell_board(
    at_seconds: float, cells: Iterable[tuple[str, str, CellState, str | None]], *, jobs: Iterable[JobRow] = ()
) -> Board:
    """A board that says of (node, uuid) a state and a workload."""
    nodes: dict[str, list[Cell]] = defaultdict(list)
    for node, uuid, state, workload in cells:
        nodes[node].append(Cell(uuid=uuid, index=len(nodes[node]), state=state, workload=workload))
    strip = Strip(
        gpus_total=0, gpus_reporting=0, gpus_working=0, gpus_held_idle=0, gpus_free=0, gpus_spare=0,
        gpus_out_of_service=0, gpus_unknown=0, stranded={1: 0, 8: 3}, goodput_ratio=0.5,
    )  # fmt: skip
    return Board(
        cluster=CLUSTER,
        at=START + timedelta(seconds=at_seconds),
        mode=Mode.RECOMMEND,
        is_paused=False,
        strip=strip,
        nodes=tuple(NodeRow(name=node, rack="r1", cells=tuple(found)) for node, found in sorted(nodes.items())),
        jobs=tuple(jobs),
    )


@dataclass
class Counted:
    """One row as the independent count has it."""

    state_ms: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATES, 0))
    values: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))

    def statistics(self, metric: str) -> tuple[int, float, float, float, float] | None:
        """Count, min, mean, max, p95 (nearest rank)."""
        found = sorted(self.values[metric])
        if not found:
            return None
        rank = math.ceil(0.95 * len(found) - 1e-9)
        return len(found), found[0], math.fsum(found) / len(found), found[-1], found[rank - 1]


Key = tuple[int, str, str]
"""Minute (ms), uuid, workload."""


class Oracle:
    """Counts minutes of GPUs one stretch at a time."""

    def __init__(self, deliveries: Sequence[Delivery], boards: Sequence[Board], *, hold_ms: int) -> None:
        self._hold_ms = hold_ms
        self._samples: dict[str, list[tuple[int, GpuState, dict[str, float]]]] = defaultdict(list)
        for one in deliveries:
            for reading in one.report.gpus:
                self._samples[reading.uuid].append((unix_ms(one.at), reading.state, dict(reading.values)))
        for samples in self._samples.values():
            samples.sort(key=lambda sample: sample[0])
        self._said: dict[str, list[tuple[int, CellState | None, str | None]]] = defaultdict(list)
        uuids = {cell.uuid for board in boards for row in board.nodes for cell in row.cells}
        for board in boards:
            seen = {cell.uuid: cell for row in board.nodes for cell in row.cells}
            for uuid in uuids:
                cell = seen.get(uuid)
                said = (
                    (unix_ms(board.at), None, None) if cell is None else (unix_ms(board.at), cell.state, cell.workload)
                )
                self._said[uuid].append(said)

    def rows(self, first_ms: int, until_ms: int) -> dict[Key, Counted]:
        """Every row of the minutes between."""
        found: dict[Key, Counted] = {}
        for uuid in {*self._samples, *self._said}:
            for minute in range(first_ms, until_ms, MINUTE_MS):
                self._minute(found, uuid, minute)
        return found

    def _minute(self, found: dict[Key, Counted], uuid: str, minute: int) -> None:
        end = minute + MINUTE_MS
        samples, said = self._samples.get(uuid, []), self._said.get(uuid, [])
        cuts = {minute, end}
        cuts |= {at for at, *_ in samples} | {at + self._hold_ms for at, *_ in samples} | {at for at, *_ in said}
        inside = sorted(cut for cut in cuts if minute <= cut <= end)
        for a, b in pairwise(inside):
            tenure = self._tenure(uuid, a, minute, end)
            if tenure is not None:
                row = found.setdefault((minute, uuid, tenure[1]), Counted())
                row.state_ms[self._state(uuid, a, tenure[0])] += b - a
        for at, _, values in samples:
            tenure = self._tenure(uuid, at, minute, end) if minute <= at < end else None
            if tenure is not None:
                row = found.setdefault((minute, uuid, tenure[1]), Counted())
                for metric, keys in KEYS.items():
                    value = next((values[key] for key in keys if key in values), None)
                    if value is not None:
                        row.values[metric].append(value)

    def _tenure(self, uuid: str, at: int, minute: int, end: int) -> tuple[CellState | None, str] | None:
        """What the boards had said by then, and whose it was; None where the GPU was not there."""
        said = [one for one in self._said.get(uuid, []) if one[0] <= at]
        if all(state is None for _, state, _ in said):
            heard = [t for t, *_ in self._samples.get(uuid, []) if minute - self._hold_ms < t < end]
            return (None, "") if heard and at >= min(heard) else None
        _, state, workload = said[-1]
        if state is None:
            return None
        is_held = workload is not None and state is not CellState.STRANDED
        if not is_held and state in (CellState.SILENT, CellState.UNKNOWN, CellState.LOST):
            return self._stood_before(said), ""
        return (CellState.WORKING if is_held else state), (workload or "") if is_held else ""

    def _stood_before(self, said: Sequence[tuple[int, CellState | None, str | None]]) -> CellState | None:
        for _, state, workload in reversed(said):
            if state is None or (workload is not None and state is not CellState.STRANDED):
                return None
            if state not in (CellState.SILENT, CellState.UNKNOWN, CellState.LOST):
                return state
        return None

    def _state(self, uuid: str, at: int, standing: CellState | None) -> str:
        current = [one for one in self._samples.get(uuid, []) if one[0] <= at < one[0] + self._hold_ms]
        if not current or current[-1] is not [one for one in self._samples[uuid] if one[0] <= at][-1]:
            return "unknown"
        _, state, values = current[-1]
        if state is GpuState.LOST:
            return "out_of_service"
        if state is GpuState.UNREADABLE:
            return "unknown"
        activity = next((values[key] for key in KEYS["activity"] if key in values), None)
        is_busy = activity is not None and activity >= 0.01
        if standing is CellState.WORKING:
            return "unknown" if activity is None else "working" if is_busy else "held_idle"
        if standing is None:
            return "working" if is_busy else "unknown"
        return {
            CellState.FREE: "free",
            CellState.STRANDED: "stranded",
            CellState.SPARE: "spare",
            CellState.UNUSABLE: "out_of_service",
        }[standing]
