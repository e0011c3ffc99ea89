"""The board: one value a beat, built from what the beats know, and the box that hands it to every reader.

Called by the central daemon after each beat; read by the API, the events stream and /metrics.
"""

from __future__ import annotations

import gzip
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import msgspec

from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.board import Board, Cell, CellState, NodeRow, RuleRecord, Strip
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import Command, Mode, Outcome, Refusal
from trimtab.model.reading import GpuState
from trimtab.model.window import Window
from trimtab.show.circumstances import Circumstances
from trimtab.show.fleet import FleetInput, node_rows
from trimtab.show.queues import queue_rows
from trimtab.show.rows import RowInput, blind_sentences, command_rows, job_rows, urgent_first

SHOWN_AFTER_END_SECONDS = 3600.0
"""Findings and commands that are over stay on the board this long."""

FOREIGN_MARK = "foreign_mark"
"""Refusal that says what the cluster bears of another daemon."""

_SEVERITY_RANK = {"critical": 0, "warning": 1, "info": 2}


def build_board(
    *,
    cluster: str,
    at: datetime,
    window: Window,
    snapshot: ClusterSnapshot | None,
    findings: Sequence[OpenFinding],
    commands: Sequence[Command],
    mode: Mode,
    is_paused: bool,
    outcomes: Mapping[int, Outcome] | None = None,
    records: Mapping[str, RuleRecord] | None = None,
    refusals: Sequence[Refusal] = (),
    rule_modes: Mapping[str, Mode] | None = None,
    stranded: Mapping[int, int] | None = None,
    blind: Sequence[str] = (),
    beats: Mapping[str, str] | None = None,
    silent_after_seconds: float = 60.0,
    last_finding_at: datetime | None = None,
    circumstances: Circumstances | None = None,
    notice_seconds: float = 0.0,
    version: str = "",
    clock_speed: float | None = None,
) -> Board:
    """Everything on the start view, as of `at`. Pure.

    `findings` are the open ones and, if given, closed ones (shown for an hour); `commands` likewise. `outcomes` is by
    command id, `records` by rule, `stranded` by k. `snapshot` None: nodes and holders are what the reports say, and
    `blind` says so; give the scheduler's own sentence in `blind` for the reason.
    """
    around = circumstances or Circumstances()
    shown = findings_shown(findings, at)
    open_findings = tuple(item for item in shown if item.state is FindingState.OPEN)
    nodes = node_rows(
        FleetInput(
            at=at, window=window, snapshot=snapshot, findings=open_findings, silent_after_seconds=silent_after_seconds
        )
    )
    rows = RowInput(
        at=at,
        snapshot=snapshot,
        commands=_commands_shown(commands, at, shown),
        outcomes=outcomes or {},
        records={rule: record.text for rule, record in (records or {}).items()},
        refusals=refusals,
        mode=mode,
        rule_modes=rule_modes or {},
        notice_seconds=notice_seconds,
        breakers=around.breakers,
    )
    is_told_why = snapshot is not None or any(sentence.startswith("No scheduler") for sentence in blind)
    return Board(
        cluster=cluster,
        at=at,
        mode=mode,
        is_paused=is_paused,
        strip=strip_of(nodes, open_findings, stranded or {}, gpus_reporting=_cells_read(nodes, window)),
        nodes=nodes,
        jobs=job_rows(rows, nodes),
        queues=queue_rows(snapshot),
        findings=shown,
        commands=command_rows(rows),
        refusals=tuple(one for one in refusals if one.rule != FOREIGN_MARK),
        foreign=tuple(one.sentence for one in refusals if one.rule == FOREIGN_MARK),
        pauses=around.pauses,
        why_not_written=around.why_not_written,
        breakers=around.breakers,
        vetoes=around.vetoes,
        release=around.release,
        notes=around.notes,
        quiet=around.quiet,
        alerts=around.alerts,
        records=tuple(record for _, record in sorted((records or {}).items()) if record.measured),
        blind=_blind(blind, around.unread, blind_sentences(nodes, at=at, is_told_why=is_told_why)),
        beats=beats or {},
        last_finding_at=last_finding_at or max((item.opened_at for item in findings), default=None),
        version=version,
        clock_speed=clock_speed,
    )


def strip_of(
    nodes: Sequence[NodeRow],
    open_findings: Sequence[OpenFinding],
    stranded: Mapping[int, int],
    *,
    gpus_reporting: int,
) -> Strip:
    """The numbers at the top. Every GPU is in exactly one of the counts of use: they add up to `gpus_total`."""
    cells = [cell for node in nodes for cell in node.cells]
    count = Counter(cell.state for cell in cells)
    return Strip(
        gpus_total=len(cells),
        gpus_reporting=gpus_reporting,
        gpus_working=count[CellState.WORKING],
        gpus_held_idle=count[CellState.HELD_IDLE],
        gpus_free=count[CellState.FREE] + count[CellState.STRANDED],
        gpus_spare=count[CellState.SPARE],
        gpus_out_of_service=count[CellState.LOST] + count[CellState.UNUSABLE],
        gpus_unknown=count[CellState.SILENT] + count[CellState.UNKNOWN],
        stranded=dict(stranded),
        goodput_ratio=_goodput_ratio(cells, open_findings),
    )


def _cells_read(nodes: Sequence[NodeRow], window: Window) -> int:
    """Cells whose GPU gave values; that nobody knows who uses one does not make it silent."""
    read = {(key.node, key.uuid) for key, now in window.gpus.items() if now.reading.state is GpuState.OK}
    cells = [(node.name, cell.uuid.partition("/")[0]) for node in nodes if not node.is_silent for cell in node.cells]
    return sum(1 for place in cells if place in read)


def _goodput_ratio(cells: Sequence[Cell], open_findings: Sequence[OpenFinding]) -> float | None:
    """Working GPUs less what findings say is lost of them, over all that are held; None when nothing is held."""
    held = Counter(cell.workload for cell in cells if cell.workload and cell.state is not CellState.STRANDED)
    if not held:
        return None
    working = Counter(cell.workload for cell in cells if cell.workload and cell.state is CellState.WORKING)
    claimed: dict[str, float] = {}
    for item in open_findings:
        # Several findings about one workload tell of the same loss: the largest counts.
        for workload in item.finding.workloads_hit:
            claimed[workload] = max(claimed.get(workload, 0.0), item.finding.loss_gpus)
    # What is lost or idle is not counted as working in the first place: only the rest of the loss is taken off.
    lost = sum(
        min(max(loss - (held[workload] - working[workload]), 0.0), working[workload])
        for workload, loss in claimed.items()
    )
    return (sum(working.values()) - lost) / sum(held.values())


def findings_shown(findings: Sequence[OpenFinding], at: datetime) -> tuple[OpenFinding, ...]:
    """Those that a board of this moment shows, worst first, then those that ended within the hour."""
    since = at - timedelta(seconds=SHOWN_AFTER_END_SECONDS)
    shown = [
        item
        for item in findings
        if item.state is FindingState.OPEN or (item.closed_at is not None and item.closed_at > since)
    ]
    return tuple(
        sorted(
            shown,
            key=lambda item: (
                item.state is not FindingState.OPEN,
                _SEVERITY_RANK[item.finding.severity],
                -item.finding.action.rank,
                -item.finding.gpus_hit,
                -item.opened_at.timestamp(),
            ),
        )
    )


def _blind(*parts: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(sentence for part in parts for sentence in part))


def _commands_shown(commands: Sequence[Command], at: datetime, findings: Sequence[OpenFinding]) -> tuple[Command, ...]:
    since = at - timedelta(seconds=SHOWN_AFTER_END_SECONDS)
    shown = [command for command in commands if command.is_live or command.changed_at > since]
    return urgent_first(shown, findings)


@dataclass(slots=True)
class Published:
    """One board with its place in the row of boards; encoded once, by whoever asks first."""

    board: Board
    sequence: int
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)
    _json: bytes | None = field(default=None, repr=False)
    _gzip: bytes | None = field(default=None, repr=False)

    @property
    def json(self) -> bytes:
        """The board as JSON, the same bytes for every reader."""
        with self._lock:
            return self._encoded()

    @property
    def gzip(self) -> bytes:
        """The same, compressed fast: a board of 100,000 GPUs is large."""
        with self._lock:
            if self._gzip is None:
                self._gzip = gzip.compress(self._encoded(), compresslevel=1, mtime=0)
            return self._gzip

    def _encoded(self) -> bytes:
        if self._json is None:
            self._json = msgspec.json.encode(self.board)
        return self._json


class BoardBox:
    """Holds the latest board; readers take it or wait for the next one. Any thread."""

    def __init__(self) -> None:
        """Empty: nothing has been published."""
        self._changed = threading.Condition()
        self._latest: Published | None = None
        self._callbacks: list[Callable[[], None]] = []
        self.is_closed = False

    def publish(self, board: Board) -> None:
        """Replace the board and wake everybody who waits."""
        with self._changed:
            sequence = self._latest.sequence + 1 if self._latest else 1
            self._latest = Published(board=board, sequence=sequence)
            callbacks = tuple(self._callbacks)
            self._changed.notify_all()
        for callback in callbacks:
            callback()

    def latest(self) -> Published | None:
        """The last board published, or None before the first beat."""
        return self._latest

    def wait(self, sequence: int, timeout_seconds: float) -> Published | None:
        """The first board after `sequence`; None when the time is up."""
        with self._changed:
            self._changed.wait_for(lambda: self._is_after(sequence), timeout_seconds)
            return self._latest if self._is_after(sequence) else None

    def subscribe(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at each publish, on the publisher's thread, until the returned function is called."""
        with self._changed:
            self._callbacks.append(callback)

        def unsubscribe() -> None:
            with self._changed:
                self._callbacks.remove(callback)

        return unsubscribe

    def close(self) -> None:
        """Tell every stream to end; called before the listener stops."""
        self.is_closed = True
        for callback in tuple(self._callbacks):
            callback()

    @property
    def readers(self) -> int:
        """How many streams are subscribed."""
        return len(self._callbacks)

    def _is_after(self, sequence: int) -> bool:
        return self._latest is not None and self._latest.sequence > sequence
