"""A process that appends reports and rolls them up under a clock of its own; tests kill it at random."""

from __future__ import annotations

import random
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from tests.builders import CLUSTER, a_delivery, a_reading, a_report, gpu_uuid
from tests.fakes.clock import START, FakeClock
from tests.store.rolled import a_cell_board

from trimtab.clock import unix_ms
from trimtab.model.board import Board, CellState
from trimtab.model.reading import Delivery
from trimtab.settings.rollup import RollupSettings
from trimtab.store.database import open_database
from trimtab.store.journal import Journal
from trimtab.store.rollup import Rollup
from trimtab.store.rollup_adopt import CONFIRMED
from trimtab.store.rollup_write import State

NODES = ("gpu-00", "gpu-01")
HOLD_SECONDS = 45.0
STEP_SECONDS = 10


def report_at(node: str, second: int) -> Delivery:
    """What a node says at a second: the same whoever asks."""
    chance = random.Random(f"{node} {second}")
    values = {"sm_active_ratio": round(chance.random(), 3), "power_watts": round(chance.uniform(70, 700), 1)}
    at = START + timedelta(seconds=second)
    report = a_report(node, sequence=second, at=at)
    return a_delivery(replace(report, gpus=(a_reading(node, 0, values=values),)))


def board_at(second: int) -> Board:
    """What the board says at a second: a job that comes and goes every three minutes."""
    is_held = (second // 180) % 2 == 0
    cells = [
        (node, gpu_uuid(node, 0), CellState.WORKING if is_held else CellState.FREE, "research/a" if is_held else None)
        for node in NODES
    ]
    return a_cell_board(float(second), cells)


def main(url: str, directory: str, first: int) -> None:
    """Live from a second on, for ever; each second that was committed is printed."""
    database = open_database(url, state_directory=Path(directory))
    clock = FakeClock(START + timedelta(seconds=first))
    journal = Journal(database)
    rollup = Rollup(database, cluster=CLUSTER, clock=clock, settings=RollupSettings(), hold_seconds=HOLD_SECONDS)
    second = first
    confirmed = State(database, cluster=CLUSTER).get(CONFIRMED)
    if confirmed is not None:
        # The board that was last looked at comes again after a start: nothing changed while nobody looked.
        rollup.see(board_at((confirmed - unix_ms(START)) // 1000), None)
        rollup.roll()
    while True:
        rollup.see(board_at(second), None)
        rollup.roll()
        appended = journal.append([report_at(node, second) for node in NODES])
        rollup.add(appended.new)
        print(second, flush=True)
        second += STEP_SECONDS
        clock.advance(STEP_SECONDS)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
