"""Three and a half hours of a small hall, by the real store: reports, roll-ups, findings, commands, outcomes."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from tests.builders import BUSY, CLUSTER, a_delivery, a_reading, a_report, an_xid, gpu_uuid
from tests.fakes.clock import START, FakeClock
from tests.store.rolled import a_cell_board
from tests.store.values import Judged, a_finding, a_recommendation, closed

from trimtab.model.advice import OpenFinding
from trimtab.model.board import Board, CellState, JobRow
from trimtab.model.command import Command, CommandState, Outcome
from trimtab.model.reading import Delivery, GpuState
from trimtab.settings.rollup import RollupSettings
from trimtab.store.database import Database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.rollup import Rollup

MINUTES = 210
NODES = ("gpu-00", "gpu-01")
JOB = JobRow(id="research/llama-70b", name="llama-70b", state="running", pods=2, gpus_per_pod=1, queue="research")
LAZY = JobRow(id="eval/notebook", name="notebook", state="running", pods=1, gpus_per_pod=1, queue="eval")
"""Comes after the first hour, holds one GPU, and uses it for ten minutes in thirty."""


def write_past(database: Database) -> tuple[datetime, datetime]:
    """Write it; from when to when it is."""
    clock, history, journal = FakeClock(), History(database, cluster=CLUSTER), Journal(database)
    rollup = Rollup(database, cluster=CLUSTER, clock=clock, settings=RollupSettings(), hold_seconds=90.0)
    fault = _fault()
    history.record_findings(Judged(opened=(fault, a_finding(2))))
    history.record_findings(Judged(at=START + timedelta(minutes=40), closed=(closed(a_finding(2), clock.now()),)))
    for minute in range(MINUTES):
        found = [_report(node, minute) for node in NODES]
        appended = journal.append(found)
        rollup.add(appended.new)
        rollup.see(_board(minute, fault), None)
        rollup.roll()
        clock.advance(60.0)
    for _ in range(3):
        clock.advance(90.0)
        rollup.roll()
    _commands(history)
    return START - timedelta(minutes=1), clock.now()


def _fault() -> OpenFinding:
    fault = a_finding(1)
    subject = replace(fault.finding.subject, gpu=gpu_uuid("gpu-00", 0))
    return replace(fault, finding=replace(fault.finding, subject=subject, loss_gpus=1.0))


def _report(node: str, minute: int) -> Delivery:
    at = START + timedelta(minutes=minute)
    readings = tuple(a_reading(node, index, values=_values(minute, index), state=GpuState.OK) for index in range(2))
    report = replace(a_report(node, sequence=minute + 1, at=at), gpus=readings)
    events = (an_xid(13, node=node, index=0, at=at),) if minute % 20 == 3 else ()
    return a_delivery(replace(report, events=events))


def _values(minute: int, index: int) -> dict[str, float]:
    is_idle = index == 1 and (minute < 60 or minute % 30 >= 10)
    activity = 0.0 if is_idle else 0.6 + 0.3 * ((minute // 60) % 2)
    return {**BUSY, "sm_active_ratio": activity, "power_watts": 90.0 if is_idle else 450.0 + 100.0 * activity}


def _board(minute: int, fault: OpenFinding) -> Board:
    cells = []
    for node in NODES:
        cells += [(node, gpu_uuid(node, 0), CellState.WORKING, JOB.id), (node, gpu_uuid(node, 1), CellState.FREE, None)]
    if minute >= 60:
        state = CellState.WORKING if minute % 30 < 10 else CellState.HELD_IDLE
        cells[-1] = (NODES[-1], gpu_uuid(NODES[-1], 1), state, LAZY.id)
    return replace(a_cell_board(minute * 60.0, cells, jobs=(JOB, LAZY)), findings=(fault,))


def _commands(history: History) -> None:
    for number, is_good in enumerate((True, True, False)):
        at = START + timedelta(minutes=20 + 30 * number)
        command = history.add(a_recommendation(f"evacuate gpu-0{number}", created_at=at), at)
        settled = replace(command, state=CommandState.SETTLED, changed_at=at, approved_by="anna", settled_at=at)
        history.record(settled, was=command, who="anna", why="it stands still", at=at)
        history.record_outcome(_outcome(settled, at, is_good=is_good))


def _outcome(command: Command, at: datetime, *, is_good: bool) -> Outcome:
    return Outcome(
        command_id=command.id,
        measured_at=at,
        is_good=is_good,
        sentence="llama-70b runs again.",
        gpu_hours_lost=1.5,
        gpu_hours_saved=28.9 if is_good else 0.0,
        gpus_unlocked=8,
        seconds_to_settle=190.0,
    )
