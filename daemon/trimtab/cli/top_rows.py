"""What `trimtab top` ranks: nodes, jobs, findings, commands, worst first. Pure: a board in, rows out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from trimtab.clock import age_text
from trimtab.model.advice import FindingState, Severity
from trimtab.model.board import Board, Cell, CellState, JobRow, NodeRow

_BARS = "▁▂▃▄▅▆▇█"
_FORMS: Mapping[CellState, str] = {
    CellState.HELD_IDLE: "_",
    CellState.FREE: "·",
    CellState.STRANDED: "o",
    CellState.SPARE: "+",
    CellState.LOST: "x",
    CellState.UNUSABLE: "!",
    CellState.SILENT: "?",
    CellState.UNKNOWN: "?",
}
"""A working GPU is a bar of its activity; every other state has a form of its own, so that no colour is needed."""

LEGEND = "▁…█ working, by activity   _ held but idle   · free   o stranded   + spare   x lost   ! unusable   ? not seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopNode:
    """One node: what its GPUs do, and what is said of it."""

    name: str
    rack: str
    cells: str
    """A character a GPU."""
    activity_ratio: float | None
    temperature_celsius: float | None
    power_watts: float | None
    says: str
    badness: int
    """What it is ranked by: 0 where nothing is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopJob:
    """One job: where it is, what its GPUs do, why it waits."""

    name: str
    queue: str
    state: str
    gpus: int
    nodes: int
    activity_ratio: float | None
    says: str
    badness: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopLine:
    """A finding or a command: its name, since when or where it stands, and its sentence."""

    name: str
    stands: str
    sentence: str
    more: str = ""


class Ranking:
    """A board's rows, made once: a key that only changes their order is answered at once in a large cluster too."""

    def __init__(self, board: Board) -> None:
        """Make the rows."""
        self.board = board
        bad = _badness_of_findings(board)
        self._by_name = sorted((_node(row, board, bad) for row in board.nodes), key=lambda row: row.name)
        self.jobs = top_jobs(board)
        self._ordered: tuple[str, bool, tuple[TopNode, ...]] | None = None

    def nodes(self, *, sort: str, is_reversed: bool) -> tuple[TopNode, ...]:
        """All nodes by `sort` (one of SORTS), the worst first."""
        if self._ordered is None or self._ordered[:2] != (sort, is_reversed):
            rows = sorted(self._by_name, key=SORTS[sort], reverse=is_reversed)
            self._ordered = (sort, is_reversed, tuple(rows))
        return self._ordered[2]


def _minus(value: float | None) -> float:
    """What is not known stands last."""
    return float("inf") if value is None else -value


SORTS: Mapping[str, Callable[[TopNode], float | str]] = {
    "worst": lambda row: -row.badness,
    "activity": lambda row: float("inf") if row.activity_ratio is None else row.activity_ratio,
    "temperature": lambda row: _minus(row.temperature_celsius),
    "power": lambda row: _minus(row.power_watts),
    "name": lambda row: row.name,
}


def _badness_of_findings(board: Board) -> Mapping[int, int]:
    weights = {Severity.CRITICAL: 1000, Severity.WARNING: 100, Severity.INFO: 10}
    return {item.id: weights[item.finding.severity] for item in board.findings if item.state is FindingState.OPEN}


def _node(row: NodeRow, board: Board, bad: Mapping[int, int]) -> TopNode:
    ids = sorted({*row.findings, *(number for cell in row.cells for number in cell.findings)} & bad.keys())
    says = [f"F{number}" for number in ids]
    badness = sum(bad[number] for number in ids)
    badness += 200 * sum(cell.state in (CellState.LOST, CellState.UNUSABLE) for cell in row.cells)
    if row.is_silent:
        age = f" {age_text((board.at - row.last_report_at).total_seconds())}" if row.last_report_at else ""
        says.append(f"no report{age}")
        badness += 500
    if not row.is_ready:
        says.append("not ready")
        badness += 300
    if row.is_cordoned:
        says.append(f"cordoned by {row.cordoned_by}" if row.cordoned_by else "cordoned")
        badness += 5
    if row.is_spare:
        says.append("spare")
    return TopNode(
        name=row.name,
        rack=row.rack or "",
        cells="".join(_form(cell) for cell in row.cells),
        activity_ratio=_mean(cell.activity_ratio for cell in row.cells),
        temperature_celsius=_max(cell.temperature_celsius for cell in row.cells),
        power_watts=_sum(cell.power_watts for cell in row.cells),
        says=", ".join(says),
        badness=badness,
    )


def _form(cell: Cell) -> str:
    if cell.state is not CellState.WORKING:
        return _FORMS[cell.state]
    if cell.activity_ratio is None:
        return "~"
    return _BARS[min(int(cell.activity_ratio * len(_BARS)), len(_BARS) - 1)]


def top_jobs(board: Board) -> tuple[TopJob, ...]:
    """Jobs that findings hit, then those that wait (the longest first), then those that run, the idlest first."""
    hit: dict[str, list[str]] = {}
    for item in board.findings:
        if item.state is FindingState.OPEN:
            for workload in item.finding.workloads_hit:
                hit.setdefault(workload, []).append(item.name)
    activity: dict[str, list[float]] = {}
    for row in board.nodes:
        for cell in row.cells:
            # A stranded GPU bears the name of the job that waits for it, and does nothing for it.
            if cell.workload and cell.activity_ratio is not None and cell.state is not CellState.STRANDED:
                activity.setdefault(cell.workload, []).append(cell.activity_ratio)
    rows = [_job(job, board, hit.get(job.id, []), activity.get(job.id, [])) for job in board.jobs]
    return tuple(sorted(rows, key=lambda row: (-row.badness, row.activity_ratio or 0.0, row.name)))


def _job(job: JobRow, board: Board, hit: Sequence[str], activity: Sequence[float]) -> TopJob:
    waits = (board.at - job.waiting_since).total_seconds() if job.waiting_since else 0.0
    says = [", ".join(hit)] if hit else []
    if job.state == "waiting":
        says.append((f"{age_text(waits)}  " if job.waiting_since else "") + job.why)
    if job.recommendation:
        says.append(f"→ R{job.recommendation}")
    return TopJob(
        name=job.name,
        queue=job.queue or "",
        state=job.state,
        gpus=job.pods * job.gpus_per_pod,
        nodes=len(job.nodes),
        activity_ratio=fmean(activity) if activity else None,
        says="  ".join(says),
        badness=(10**9 * len(hit)) + (10**6 + int(waits) if job.state == "waiting" else 0),
    )


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _max(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
