"""What a board says of each GPU and of the cluster, as the roll-ups keep it. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.board import Board, Cell, CellState, JobRow, NodeRow, QueueRow
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.rollup import Standing, Tenure
from trimtab.store.rollup_facts import BOARD, JOB, LOSS, NODE, PLACEMENT, QUEUE, Key

NOBODY = Tenure()
_STANDING = {
    CellState.FREE: Standing.FREE,
    CellState.STRANDED: Standing.STRANDED,
    CellState.SPARE: Standing.SPARE,
    CellState.UNUSABLE: Standing.OUT_OF_SERVICE,
    CellState.WORKING: Standing.UNBOOKED,
}


class NodeFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node as a past board shows it."""

    rack: str | None = None
    is_cordoned: bool = False
    cordoned_by: str | None = None
    is_ready: bool = True
    is_spare: bool = False
    model: str | None = None


class JobFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A job as a past board shows it; where it sat is in its placement, or in the GPUs' own rows."""

    name: str
    state: str
    pods: int
    gpus_per_pod: int
    queue: str | None = None
    priority: int = 0
    waiting_since_ms: int | None = None
    why: str = ""


class BoardFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the daemon itself was allowed to do."""

    mode: str
    is_paused: bool = False
    pauses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class LossFact(msgspec.Struct, frozen=True, kw_only=True):
    """GPUs' worth of a workload's work that a finding says is lost while it stands."""

    cause: str
    loss_gpus: float


class QueueFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A queue's quota."""

    gpus_quota: int | None = None
    cohort: str | None = None
    held_by: str | None = None


Placed = tuple[int, str, str, tuple[str, ...]]
"""Rank, pod, node, UUIDs."""


@dataclass(frozen=True, slots=True)
class Claim:
    """What a GPU is and whose; `standing` None = the board does not know, what stood before goes on."""

    tenure: Tenure
    standing: Standing | None
    index: int | None


class Causes:
    """Which finding stands on what; the worst one counts."""

    def __init__(self, findings: tuple[OpenFinding, ...]) -> None:
        """Look through all findings of a board once."""
        open_ones = [one for one in findings if one.state is FindingState.OPEN and not one.finding.is_history_only]
        # Best last: later ones overwrite.
        open_ones.sort(key=lambda one: (one.finding.severity.rank, one.finding.action.rank, -one.id))
        self._gpu: dict[tuple[str, str], str] = {}
        self._node: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._workload: dict[str, str] = {}
        for one in open_ones:
            subject, rule = one.finding.subject, one.finding.rule
            if subject.node and subject.gpu:
                self._gpu[subject.node, subject.gpu] = rule
            elif subject.node:
                self._node[subject.node] = (rule, one.finding.workloads_hit)
            for workload in (*one.finding.workloads_hit, *((subject.workload,) if subject.workload else ())):
                self._workload[workload] = rule

    def of(self, node: str, cell: Cell) -> str:
        """The rule of the finding that a GPU's time goes to: its own, its workload's, else its node's.

        A node's finding that names the workloads it hits leaves the others on the node alone.
        """
        own = self._gpu.get((node, cell.uuid)) or self._workload.get(cell.workload or "")
        if own is not None:
            return own
        rule, hit = self._node.get(node, ("", ()))
        return "" if hit and cell.workload and cell.state is not CellState.STRANDED else rule


def claims(board: Board, snapshot: ClusterSnapshot | None) -> dict[tuple[str, str], Claim]:
    """Node and UUID -> what the board says of the GPU."""
    causes = Causes(board.findings)
    jobs = {job.id: job for job in board.jobs}
    owners = _owners(snapshot)
    tenures: dict[tuple[str | None, str], Tenure] = {}
    found = {}
    for row in board.nodes:
        for cell in row.cells:
            found[row.name, cell.uuid] = _claim(row, cell, causes, _Names(jobs, owners, tenures))
    return found


@dataclass(frozen=True, slots=True)
class _Names:
    jobs: Mapping[str, JobRow]
    owners: Mapping[str, str]
    made: dict[tuple[str | None, str], Tenure]

    def tenure(self, workload: str | None, cause: str) -> Tenure:
        key = (workload, cause)
        found = self.made.get(key)
        if found is None:
            job = self.jobs.get(workload or "")
            queue = (job.queue or "") if job is not None else ""
            owner = self.owners.get(workload or "", "")
            found = self.made[key] = Tenure(workload=workload or "", queue=queue, owner=owner, cause=cause)
        return found


def _claim(row: NodeRow, cell: Cell, causes: Causes, names: _Names) -> Claim:
    cause = causes.of(row.name, cell)
    if cell.state is CellState.STRANDED:  # its workload is the one that it is no use to
        return Claim(names.tenure(None, cause), Standing.STRANDED, cell.index)
    if cell.workload:
        return Claim(names.tenure(cell.workload, cause), Standing.HELD, cell.index)
    return Claim(names.tenure(None, cause), _STANDING.get(cell.state), cell.index)


def _owners(snapshot: ClusterSnapshot | None) -> Mapping[str, str]:
    if snapshot is None:
        return {}
    return {one.id: one.owner or one.tenant or "" for one in snapshot.workloads}


def facts(board: Board, snapshot: ClusterSnapshot | None, losses: Mapping[str, LossFact]) -> dict[Key, str]:
    """Everything with a span that this board says."""
    said: dict[Key, msgspec.Struct | tuple[Placed, ...]] = {}
    for row in board.nodes:
        said[NODE, row.name] = NodeFact(
            rack=row.rack,
            is_cordoned=row.is_cordoned,
            cordoned_by=row.cordoned_by,
            is_ready=row.is_ready,
            is_spare=row.is_spare,
            model=row.model,
        )
    said.update({(JOB, job.id): _job(job) for job in board.jobs})
    said.update({(QUEUE, queue.name): _queue(queue) for queue in board.queues})
    for workload in snapshot.workloads if snapshot else ():
        if workload.placements:
            said[PLACEMENT, workload.id] = tuple((at.rank, at.pod, at.node, at.gpus) for at in workload.placements)
    said.update({(LOSS, workload): loss for workload, loss in losses.items()})
    said[BOARD, ""] = BoardFact(
        mode=board.mode.value, is_paused=board.is_paused, pauses=board.pauses, notes=board.notes
    )
    encode = msgspec.json.encode
    return {key: encode(value).decode() for key, value in said.items()}


def losses(board: Board) -> dict[str, LossFact]:
    """Workload -> what is lost of it: of several findings that tell of the same loss the largest counts.

    One that holds nothing loses nothing: what its waiting costs are the GPUs that stand stranded for it.
    """
    cells = (cell for row in board.nodes for cell in row.cells)
    held = {cell.workload for cell in cells if cell.workload and cell.state is not CellState.STRANDED}
    found: dict[str, LossFact] = {}
    for one in board.findings:
        finding = one.finding
        if one.state is not FindingState.OPEN or not finding.workloads_hit or finding.loss_gpus <= 0:
            continue
        share = finding.loss_gpus / len(finding.workloads_hit)
        for workload in held.intersection(finding.workloads_hit):
            if workload not in found or found[workload].loss_gpus < share:
                found[workload] = LossFact(cause=finding.rule, loss_gpus=round(share, 2))
    return found


def _job(job: JobRow) -> JobFact:
    return JobFact(
        name=job.name,
        state=job.state,
        pods=job.pods,
        gpus_per_pod=job.gpus_per_pod,
        queue=job.queue,
        priority=job.priority,
        waiting_since_ms=None if job.waiting_since is None else round(job.waiting_since.timestamp() * 1000),
        why=job.why if job.state == "waiting" else "",
    )


def _queue(queue: QueueRow) -> QueueFact:
    return QueueFact(gpus_quota=queue.gpus_quota, cohort=queue.cohort, held_by=queue.held_by)
