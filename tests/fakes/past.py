"""A past for the hall, for the scrubber: before the fault everything ran; since then the gang stands still."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from tests.builders import gpu_uuid
from tests.fakes.hall import GANG, NOW, HallMemory, a_hall, found

from trimtab.model.advice import FindingState
from trimtab.model.board import Board, CellState, GpuHistory, NodeRow, PeerBand
from trimtab.model.past import Kept, MarkKind, PastFleet, RankRow, Ranks, TrendMark, Trends

FAULT_AT = NOW - timedelta(seconds=42)
DAY = timedelta(days=1)


class HallPast:
    """Answers as roll-ups would, of one day; older is nothing."""

    def __init__(self) -> None:
        self.asked: list[datetime] = []

    def kept(self) -> Kept:
        return Kept(since=NOW - DAY, until=NOW)

    def fleet_at(self, at: datetime) -> PastFleet | None:
        self.asked.append(at)
        if at < NOW - DAY:
            return None
        board = a_hall() if at >= FAULT_AT else before_the_fault(a_hall())
        findings = tuple(one for one in found() if one.state is FindingState.OPEN and one.opened_at <= at)
        return PastFleet(
            at=at,
            bucket_at=at,
            bucket_seconds=60.0,
            nodes=board.nodes,
            jobs=board.jobs,
            queues=board.queues,
            findings=findings,
            stranded={1: 0, 2: 0, 4: 4, 8: 12},
            goodput_ratio=0.953,
        )

    def trends(
        self, since: datetime, until: datetime, *, points_max: int, marks_max: int, queue: str | None = None
    ) -> Trends:
        step = (until - since).total_seconds() / min(points_max, 96)
        times = [since.timestamp() + i * step for i in range(min(points_max, 96))]
        marks = (
            _mark(NOW - timedelta(hours=7), 22, "warning", "gpu-04 GPU 1 throttles on heat"),
            _mark(NOW - timedelta(minutes=12), 29, "warning", "gpu-12 GPU 5 throttles on heat"),
            _mark(FAULT_AT, 31, "critical", "gpu-13 GPU 3 fell off the bus (XID 79)"),
            TrendMark(
                at_seconds=(NOW - timedelta(hours=3)).timestamp(), kind=MarkKind.COMMAND, id=9, name="R9",
                text="Move tune-1 to gpu-15", state="settled",
            ),
        )  # fmt: skip
        working = [
            None if i == 20 else round(158 + 3 * math.sin(i / 5)) if at < FAULT_AT.timestamp() else 126
            for i, at in enumerate(times)
        ]
        return Trends(
            cluster="hall-a",
            since=since,
            until=until,
            bucket_seconds=step,
            at_seconds=tuple(times),
            series={
                "gpus_working": tuple(working),
                "gpus_total": tuple(192 for _ in times),
                "goodput_ratio": tuple(0.97 - 0.01 * (i % 3) for i, _ in enumerate(times)),
            },
            marks=tuple(sorted(marks[: marks_max or None], key=lambda mark: mark.at_seconds)),
            kept=self.kept(),
            queue=queue,
        )

    def ranks(self, job: str, metric: str, *, since: datetime, until: datetime, points_max: int) -> Ranks | None:
        if job != "research/llama-70b":
            return None
        step = (until - since).total_seconds() / 60
        times = tuple(since.timestamp() + i * step for i in range(60))
        rows = []
        for rank, node in enumerate(GANG):
            for index in range(8):
                is_suspect = (node, index) == ("gpu-13", 3)
                values = tuple(
                    None if is_suspect and at > FAULT_AT.timestamp() - 400 else 1.7e9 + 3e7 * math.sin(at / 90 + index)
                    for at in times
                )
                rows.append(
                    RankRow(
                        rank=rank, pod=f"llama-70b-{rank}", node=node, gpu=gpu_uuid(node, index), index=index,
                        values=values, mean=1.7e9, to_median_ratio=0.71 if is_suspect else 1.0, is_suspect=is_suspect,
                    )
                )  # fmt: skip
        return Ranks(
            job=job, metric=metric, unit="hertz", since=since, until=until, bucket_seconds=step, at_seconds=times,
            rows=tuple(rows), low=1.6e9, high=1.8e9, suspect=19,
            suspect_text="rank 2 (gpu-13 GPU 3) runs at 1.21 GHz, the median is 1.70 GHz",
        )  # fmt: skip

    def gpu_history(
        self,
        node: str,
        gpu: str,
        *,
        since: datetime,
        until: datetime,
        metrics: Sequence[str],
        also: Sequence[tuple[str, str]] = (),
        peers: str = "none",
    ) -> GpuHistory:
        told = HallMemory().gpu_history("hall-a", node, gpu, since=since, until=until, metrics=metrics)
        if peers == "none":
            return told
        bands = {
            name: PeerBand(
                gpus=7, points=tuple((at, v * 0.96, v, v * 1.05) for at, v in points[::3] if v is not None)
            )
            for name, points in told.series.items()
        }  # fmt: skip
        return replace(told, bands=bands)


def before_the_fault(board: Board) -> Board:
    def node(row: NodeRow) -> NodeRow:
        if row.name not in GANG:  # for whom a GPU is stranded is not kept
            cells = tuple(replace(one, workload=None) if one.state is CellState.STRANDED else one for one in row.cells)
            return replace(row, cells=cells)
        cells = tuple(replace(cell, state=CellState.WORKING, activity_ratio=0.93, findings=()) for cell in row.cells)
        return replace(row, cells=cells, findings=())

    return replace(board, nodes=tuple(map(node, board.nodes)))


def _mark(at: datetime, id: int, severity: str, text: str) -> TrendMark:
    return TrendMark(
        at_seconds=at.timestamp(), kind=MarkKind.FINDING_OPENED, id=id, name=f"F{id}", text=text, severity=severity
    )
