"""The cluster as it was: cells from the tier that fits, what stood of nodes, jobs and queues, findings and commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import from_unix_ms, unix_ms
from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.board import Cell, CellState, JobRow, NodeRow, QueueRow
from trimtab.model.cluster import WorkloadState
from trimtab.model.command import Mode
from trimtab.model.past import GpuTimeState, PastFleet
from trimtab.model.rollup import STATES, Tier, state_column
from trimtab.store.past_facts import commands_at, findings_at, outcomes_at
from trimtab.store.rollup_claims import BoardFact, JobFact, NodeFact, QueueFact
from trimtab.store.rollup_facts import BOARD, JOB, NODE, QUEUE
from trimtab.store.rollup_read import GpuName, RollupReader
from trimtab.store.tables_rollup import rollup_boards, rollup_facts

_COLUMNS = (
    "gpu_id",
    "tenure_id",
    *(state_column(state) for state in STATES),
    "activity_samples",
    "activity_mean_permille",
    "temperature_mean_decicelsius",
    "power_mean_deciwatts",
    "memory_used_mean_mebibytes",
    "sm_clock_mean_megahertz",
)
_LAST_STATE = 2 + len(STATES)
_CELL_STATES = {
    GpuTimeState.WORKING: CellState.WORKING,
    GpuTimeState.HELD_IDLE: CellState.HELD_IDLE,
    GpuTimeState.FREE: CellState.FREE,
    GpuTimeState.STRANDED: CellState.STRANDED,
    GpuTimeState.SPARE: CellState.SPARE,
}
_OUT, _UNKNOWN = STATES.index(GpuTimeState.OUT_OF_SERVICE), STATES.index(GpuTimeState.UNKNOWN)
_BY_PLACE = tuple(_CELL_STATES.get(state) for state in STATES)


@dataclass(frozen=True, slots=True)
class _Stood:
    """Facts that stood at the moment, by kind."""

    nodes: Mapping[str, NodeFact]
    jobs: Mapping[str, JobFact]
    queues: Mapping[str, QueueFact]
    board: BoardFact | None


def fleet_at(reader: RollupReader, at: datetime) -> PastFleet | None:
    """The cluster as it was at a moment; None where no step holds it. Raises StoreError."""
    at_ms = unix_ms(at)
    with reader.database.read() as connection:
        found = reader.bucket(connection, at_ms)
        if found is None:
            return None
        tier, bucket_ms = found
        rows = _main_rows(reader.gpu_rows(connection, tier, [bucket_ms], _COLUMNS, None))
        names = reader.names(connection)
        tenures = reader.tenures(connection, (row[1] for row in rows.values()))
        stood = _stood(connection, reader.cluster, at_ms)
        findings = findings_at(connection, reader.cluster, at)
        commands = commands_at(connection, reader.cluster, at)
        outcomes = outcomes_at(connection, reader.cluster, (one.id for one in commands), at)
        said = _boards_said(connection, reader.cluster, tier, bucket_ms)
    workloads = {number: tenure.workload for number, tenure in tenures.items()}
    nodes = _nodes(rows, names, workloads, _marks(findings), stood.nodes)
    jobs = _jobs(nodes, stood.jobs)
    return PastFleet(
        at=at,
        bucket_at=from_unix_ms(bucket_ms),
        bucket_seconds=float(tier.seconds),
        nodes=nodes,
        jobs=jobs,
        queues=_queues(jobs, stood.queues),
        findings=findings,
        commands=commands,
        outcomes=outcomes,
        stranded=_stranded(said),
        goodput_ratio=None if said is None else said.goodput_ratio,
        mode=Mode(stood.board.mode) if stood.board is not None else None,
        is_paused=stood.board.is_paused if stood.board is not None else False,
        pauses=stood.board.pauses if stood.board is not None else (),
        notes=stood.board.notes if stood.board is not None else (),
    )


def _main_rows(rows: Iterable[tuple[Any, ...]]) -> Mapping[int, tuple[Any, ...]]:
    """GPU -> its row; where it changed hands within the step, the one that had it longest."""
    found: dict[int, tuple[Any, ...]] = {}
    for row in rows:
        other = found.get(row[0])
        if other is None or sum(other[2:_LAST_STATE]) < sum(row[2:_LAST_STATE]):
            found[row[0]] = row
    return found


def _nodes(
    rows: Mapping[int, tuple[Any, ...]],
    names: Mapping[int, GpuName],
    workloads: Mapping[int, str],
    marks: tuple[Mapping[tuple[str, str], tuple[int, ...]], Mapping[str, tuple[int, ...]]],
    facts: Mapping[str, NodeFact],
) -> tuple[NodeRow, ...]:
    by_gpu, by_node = marks
    cells: dict[str, list[Cell]] = defaultdict(list)
    for number, row in rows.items():
        name = names.get(number)
        workload = workloads.get(row[1])
        if name is None or workload is None:  # of another cluster in the same database
            continue
        cells[name.node].append(_cell(row, name, workload, by_gpu.get((name.node, name.gpu), ())))
    made = []
    for node in {*cells, *facts}:
        fact = facts.get(node, NodeFact())
        own = sorted(cells.get(node, ()), key=lambda cell: (cell.index is None, cell.index, cell.uuid))
        made.append(
            NodeRow(
                name=node,
                rack=fact.rack,
                cells=tuple(own),
                is_cordoned=fact.is_cordoned,
                cordoned_by=fact.cordoned_by,
                is_ready=fact.is_ready,
                is_spare=fact.is_spare,
                is_silent=all(cell.state is CellState.SILENT for cell in own),
                findings=by_node.get(node, ()),
                model=fact.model,
            )
        )
    return tuple(sorted(made, key=lambda row: (row.rack or "", row.name)))


def _cell(row: tuple[Any, ...], name: GpuName, workload: str, findings: tuple[int, ...]) -> Cell:
    activity, temperature, power, memory, clock = row[_LAST_STATE + 1 :]
    total = name.memory_total_mebibytes
    return Cell(
        uuid=name.gpu,
        index=name.index,
        state=_state(row, is_held=bool(workload)),
        workload=workload or None,
        activity_ratio=None if activity is None else activity / 1000,
        temperature_celsius=None if temperature is None else temperature / 10,
        power_watts=None if power is None else power / 10,
        memory_used_ratio=None if memory is None or not total else round(memory / total, 3),
        sm_clock_hertz=None if clock is None else clock * 1e6,
        findings=findings,
    )


def _state(row: tuple[Any, ...], *, is_held: bool) -> CellState:
    states = row[2:_LAST_STATE]
    place = states.index(max(states))
    is_heard = row[_LAST_STATE] > 0 or row[_LAST_STATE + 3] is not None
    if place == _OUT:
        # One that is out of use still says how warm it is and what it draws; one that is gone says nothing.
        return CellState.LOST if is_held or not is_heard else CellState.UNUSABLE
    if place == _UNKNOWN:
        return CellState.UNKNOWN if is_heard else CellState.SILENT
    return _BY_PLACE[place] or CellState.UNKNOWN


def _marks(
    findings: Sequence[OpenFinding],
) -> tuple[Mapping[tuple[str, str], tuple[int, ...]], Mapping[str, tuple[int, ...]]]:
    by_gpu: dict[tuple[str, str], tuple[int, ...]] = {}
    by_node: dict[str, tuple[int, ...]] = {}
    for one in findings:
        subject = one.finding.subject
        if one.state is FindingState.CLOSED or not subject.node:
            continue
        by_node[subject.node] = (*by_node.get(subject.node, ()), one.id)
        if subject.gpu:
            by_gpu[subject.node, subject.gpu] = (*by_gpu.get((subject.node, subject.gpu), ()), one.id)
    return by_gpu, by_node


def _stood(connection: Connection, cluster: str, at_ms: int) -> _Stood:
    facts = rollup_facts.c
    wanted = (
        facts.cluster == cluster,
        facts.kind.in_((NODE, JOB, QUEUE, BOARD)),
        facts.since_ms <= at_ms,
        sa.or_(facts.until_ms.is_(None), facts.until_ms > at_ms),
    )
    bodies: dict[str, dict[str, str]] = defaultdict(dict)
    for row in connection.execute(sa.select(facts.kind, facts.name, facts.body).where(*wanted)):
        bodies[row.kind][row.name] = row.body
    node, job = msgspec.json.Decoder(NodeFact), msgspec.json.Decoder(JobFact)
    queue, board = msgspec.json.Decoder(QueueFact), msgspec.json.Decoder(BoardFact)
    said = bodies[BOARD].get("")
    return _Stood(
        nodes={name: node.decode(body) for name, body in bodies[NODE].items()},
        jobs={name: job.decode(body) for name, body in bodies[JOB].items()},
        queues={name: queue.decode(body) for name, body in bodies[QUEUE].items()},
        board=None if said is None else board.decode(said),
    )


def _jobs(nodes: Sequence[NodeRow], facts: Mapping[str, JobFact]) -> tuple[JobRow, ...]:
    held: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for node in nodes:
        for cell in node.cells:
            if cell.workload:
                held[cell.workload].append((node.name, cell.uuid))
    rows = []
    for name in sorted({*held, *facts}):
        gpus = held.get(name, [])
        fact = facts.get(name) or JobFact(
            name=name.rpartition("/")[2], state=WorkloadState.RUNNING.value, pods=1, gpus_per_pod=len(gpus)
        )
        rows.append(
            JobRow(
                id=name,
                name=fact.name,
                state=fact.state,
                pods=fact.pods,
                gpus_per_pod=fact.gpus_per_pod,
                queue=fact.queue,
                nodes=tuple(dict.fromkeys(node for node, _ in gpus)),
                gpus=tuple(uuid for _, uuid in gpus),
                priority=fact.priority,
                waiting_since=None if fact.waiting_since_ms is None else from_unix_ms(fact.waiting_since_ms),
                why=fact.why,
            )
        )
    return tuple(sorted(rows, key=lambda job: (job.state != WorkloadState.WAITING.value, job.id)))


def _queues(jobs: Sequence[JobRow], facts: Mapping[str, QueueFact]) -> tuple[QueueRow, ...]:
    used: dict[str, int] = defaultdict(int)
    asked: dict[str, int] = defaultdict(int)
    for job in jobs:
        if job.queue is not None:
            (asked if job.state == WorkloadState.WAITING.value else used)[job.queue] += job.pods * job.gpus_per_pod
    return tuple(
        QueueRow(
            name=name,
            gpus_quota=fact.gpus_quota,
            gpus_used=used[name],
            gpus_asked=asked[name],
            cohort=fact.cohort,
            held_by=fact.held_by,
        )
        for name, fact in sorted(facts.items())
    )


def _boards_said(connection: Connection, cluster: str, tier: Tier, at_ms: int) -> Any:  # noqa: ANN401 - a row
    """What the boards of a step said themselves, as means; None where none was published then."""
    boards = rollup_boards.c
    wanted = (boards.cluster == cluster, boards.tier_seconds == tier.seconds, boards.at_ms == at_ms)
    return connection.execute(sa.select(rollup_boards).where(*wanted)).one_or_none()


def _stranded(row: Any) -> Mapping[int, int]:  # noqa: ANN401 - a row
    if row is None:
        return {}
    found = {size: getattr(row, f"stranded_{size}") for size in (1, 2, 4, 8)}
    return {size: round(gpus) for size, gpus in found.items() if gpus is not None}
