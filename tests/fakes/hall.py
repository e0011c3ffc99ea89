"""A hall of 24 nodes in three racks with three stories under way: what the page is tried on and drawn from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from tests.builders import BUSY, CLUSTER, IDLE, a_node, a_reading, a_snapshot, a_window, a_workload, gpu_uuid
from tests.fakes.clock import FakeClock
from tests.fakes.people import FakeMemory, Served, a_command, a_recommendation, a_record, listening

import trimtab.show
from trimtab.clock import SystemClock
from trimtab.issue.verdicts import Verdicts
from trimtab.model.advice import Action, Evidence, Finding, FindingState, OpenFinding, Severity, Subject
from trimtab.model.board import Board, GpuHistory
from trimtab.model.cluster import Workload
from trimtab.model.command import (
    Command,
    Cost,
    Gain,
    Mode,
    Move,
    MoveKind,
    RecommendationKind,
    Refusal,
    Seat,
    Verb,
    Write,
)
from trimtab.model.reading import GpuReading, GpuState
from trimtab.settings import DaemonSettings, IssueSettings
from trimtab.show.api import people_app
from trimtab.show.api_types import Check
from trimtab.show.auth import Door
from trimtab.show.board import BoardBox, build_board

NOW = datetime(2026, 11, 2, 14, 2, tzinfo=UTC)
WEB = Path(trimtab.show.__file__).parent / "web"
ALL = range(8)
GANG = {"gpu-05": ALL, "gpu-06": ALL, "gpu-13": ALL, "gpu-19": ALL}
SILENT = "gpu-17"


def jobs() -> list[Workload]:
    """A 32-GPU gang, a job of 16 that is slow, small ones that leave holes, and who waits."""
    small = {"gpu-02": range(6), "gpu-09": range(5), "gpu-15": range(6), "gpu-20": range(5)}
    return [
        a_workload("llama-70b", on=GANG),
        a_workload("vision-3", on={"gpu-11": ALL, "gpu-12": ALL}),
        a_workload("notebook-b", on={"gpu-22": range(4)}),
        *(a_workload(f"tune-{number}", on={node: held}) for number, (node, held) in enumerate(small.items(), 1)),
        *(
            a_workload(name, on=dict.fromkeys(nodes, ALL))
            for name, nodes in {
                "pretrain-7": ("gpu-00", "gpu-01", "gpu-03", "gpu-04", "gpu-07", "gpu-08"),
                "speech-2": ("gpu-10", "gpu-14", "gpu-16"),
                "rank-eval": (SILENT, "gpu-18"),
                "diffusion-4": ("gpu-21",),
            }.items()
        ),
        a_workload("eval-9", gpus_per_pod=8, waiting_since=NOW - timedelta(minutes=41)),
        a_workload(
            "ablate-4", pods=2, gpus_per_pod=4, waiting_since=NOW - timedelta(minutes=6), waiting_reason="quota"
        ),
    ]


def reading(node: str, index: int, held: Workload | None) -> GpuReading:
    """Busy where held, with a spread; the stories' GPUs as their faults show."""
    if (node, index) == ("gpu-13", 3):
        return a_reading(node, index, state=GpuState.LOST, values={})
    if held is None or held.name in ("llama-70b", "notebook-b"):
        return a_reading(node, index, values=IDLE)
    spread = math.sin(int(node[-2:]) * 7.3 + index * 2.1)
    values = {**BUSY, "sm_active_ratio": 0.86 + 0.11 * spread, "temperature_celsius": 61 + 6 * spread}
    if held.name == "vision-3":
        values["sm_active_ratio"] = 0.52 + 0.06 * spread
    if node == "gpu-12" and index in (4, 5, 6):
        values |= {"temperature_celsius": 91.0, "sm_clock_hertz": 1.19e9, "sm_active_ratio": 0.97}
    return a_reading(node, index, values=values)


def a_found(id: int, minutes: float, **fields: Any) -> OpenFinding:
    at = NOW - timedelta(minutes=minutes)
    finding = Finding(**{"incident": f"{fields['rule']}:{id}", "began_at": at, **fields})
    return OpenFinding(id=id, finding=finding, opened_at=at, changed_at=at, last_seen_at=NOW)


def found() -> tuple[OpenFinding, ...]:
    """What is wrong: one of each severity, and one that has closed."""
    lost = a_found(
        31,
        0.7,
        rule="device_fault",
        subject=Subject(cluster=CLUSTER, node="gpu-13", gpu=gpu_uuid("gpu-13", 3)),
        action=Action.CORDON_REBOOT,
        severity=Severity.CRITICAL,
        sentence="gpu-13 GPU 3 fell off the bus (XID 79)",
        impact="llama-70b stands still: 32 GPUs.",
        advice="Cordon the node, reboot it, run diagnostics before it takes work again.",
        evidence=(
            Evidence(source="kernel", text="NVRM: Xid (PCI:0000:13:00): 79, GPU has fallen off the bus.", at=NOW),
            Evidence(source="nvml", text="7 of 8 GPUs answer", at=NOW, value=7, threshold=8, unit="gpus"),
        ),
        against=(Evidence(source="nvml", text="PCIe replays were flat in the hour before."),),
        workloads_hit=("research/llama-70b",),
        gpus_hit=32,
        loss_gpus=32.0,
        is_corroborated=True,
    )
    hot = a_found(
        29,
        12,
        rule="hotspot",
        subject=Subject(cluster=CLUSTER, node="gpu-12", gpu=gpu_uuid("gpu-12", 5)),
        action=Action.RESET_AFTER_DRAIN,
        severity=Severity.WARNING,
        sentence="gpu-12 GPU 5 throttles on heat",
        impact="vision-3 is 19 % slower: 16 GPUs.",
        evidence=(
            Evidence(source="nvml", text="GPU 5 is hot", at=NOW, value=91.0, threshold=87.0, unit="celsius"),
            Evidence(source="peers", text="SM clock against 15 ranks", at=NOW, value=0.68, threshold=1.0, unit="ratio"),
        ),
        workloads_hit=("research/vision-3",),
        gpus_hit=16,
        loss_gpus=3.0,
        is_corroborated=True,
        facts={"series": "temperature_celsius"},
    )
    silent = a_found(
        30,
        4,
        rule="node_silent",
        subject=Subject(cluster=CLUSTER, node=SILENT),
        action=Action.WATCH,
        severity=Severity.INFO,
        sentence=f"No report from {SILENT}",
        impact="The switch of its rack is up; the agent is silent.",
    )
    over = replace(
        a_found(28, 50, rule="idle_gpu", subject=Subject(cluster=CLUSTER, workload="research/notebook-a"),
                action=Action.ALERT_OWNER, severity=Severity.WARNING, sentence="notebook-a held 4 GPUs idle"),
        state=FindingState.CLOSED, closed_at=NOW - timedelta(minutes=20), close_reason="its job has ended",
    )  # fmt: skip
    return lost, hot, silent, over


def bring_back() -> Command:
    """The gang off the lost GPU's node, onto the spare."""
    seats = [Seat(pod=f"llama-70b-{rank}", node=node, gpus=8) for rank, node in enumerate(GANG)]
    after = tuple(replace(seat, node="gpu-23") if seat.node == "gpu-13" else seat for seat in seats)
    workload = "research/llama-70b"
    recommendation = a_recommendation(
        sentence="Cordon gpu-13, bring llama-70b back with spare gpu-23.",
        reason="gpu-13 GPU 3 fell off the bus; 32 GPUs stand still.",
        moves=(Move(kind=MoveKind.DRAIN, node="gpu-13", workload=workload, before=tuple(seats), after=after),),
        writes=(
            Write(verb=Verb.CORDON, node="gpu-13", lasts=True),
            Write(verb=Verb.RESERVE, workload=workload, seats=after),
            Write(verb=Verb.SUSPEND, workload=workload),
            Write(verb=Verb.RESUME, workload=workload, seats=after),
        ),
        gain=Gain(gpu_hours=31.4, horizon_hours=1.0, gpus_unlocked=32, formula="32 GPUs × 0.98 h left of 1 h"),
        created_at=NOW,
        expires_at=NOW + timedelta(minutes=42),
        against=("gpu-23 is the only spare: after this no node is kept for faults.",),
        if_nothing_is_done="llama-70b stands still: 32 GPU-hours are lost each hour.",
    )
    return a_command(11, recommendation=recommendation)


def make_room() -> Command:
    """Two small jobs together, so that eval-9 finds 8 GPUs on one node."""
    moved = Move(
        kind=MoveKind.MIGRATE,
        node="gpu-22",
        workload="research/notebook-b",
        before=(Seat(pod="notebook-b-0", node="gpu-22", gpus=4),),
        after=(Seat(pod="notebook-b-0", node="gpu-09", gpus=3), Seat(pod="notebook-b-1", node="gpu-02", gpus=1)),
    )
    starts = Move(
        kind=MoveKind.CONSOLIDATE, workload="research/eval-9", after=(Seat(pod="eval-9-0", node="gpu-22", gpus=8),)
    )
    recommendation = a_recommendation(
        kind=RecommendationKind.CONSOLIDATE,
        rule="consolidate",
        purpose="make-room:research/eval-9",
        subject=Subject(cluster=CLUSTER, workload="research/eval-9"),
        sentence="Move notebook-b off gpu-22, and eval-9 starts.",
        reason="14 GPUs are free, never 8 together; eval-9 has waited 41 min.",
        findings=(),
        moves=(moved, starts),
        writes=(
            Write(verb=Verb.CORDON, node="gpu-22"),
            Write(verb=Verb.RESERVE, workload="research/eval-9", seats=starts.after),
            Write(verb=Verb.SUSPEND, workload="research/notebook-b"),
            Write(verb=Verb.RESUME, workload="research/notebook-b", seats=moved.after),
        ),
        gain=Gain(gpu_hours=8.0, horizon_hours=1.0, gpus_unlocked=8, formula="8 GPUs × 1 h"),
        cost=Cost(gpu_hours=0.3, restart_seconds=120, pods_disturbed=1, formula="4 GPUs × (120 s + 150 s)"),
        created_at=NOW,
        expires_at=NOW + timedelta(minutes=30),
        not_before=NOW + timedelta(minutes=9),
        for_workload="research/eval-9",
        against=(),
        if_nothing_is_done="eval-9 waits until a node empties by itself.",
    )
    return a_command(12, recommendation=recommendation)


def a_hall(**changes: Any) -> Board:
    """The board, built as the daemon builds it."""
    nodes = [a_node(f"gpu-{i:02d}", rack=f"r{i // 8 + 1}", is_spare=i == 23) for i in range(24)]
    workloads = jobs()
    snapshot = a_snapshot(nodes, workloads, taken_at=NOW)
    holders = {(node, gpu): workload for (node, gpu), workload in snapshot.holders.items()}
    readings = {
        node.name: [reading(node.name, i, holders.get((node.name, gpu_uuid(node.name, i)))) for i in ALL]
        for node in nodes
        if node.name != SILENT
    }
    return build_board(
        **{
            "cluster": CLUSTER,
            "at": NOW,
            "window": a_window(readings, snapshot=snapshot, at=NOW),
            "snapshot": snapshot,
            "findings": found(),
            "commands": (bring_back(), make_room()),
            "mode": Mode.APPROVE,
            "is_paused": False,
            "records": {
                "evacuate": a_record(),
                "consolidate": a_record(rule="consolidate", right=112, measured=118, text="right in 112 of 118"),
            },
            "refusals": (
                Refusal(rule="budget", sentence="Not moved: 2 of 2 allowed moves in queue research are under way."),
            ),
            "stranded": {1: 0, 2: 3, 4: 10, 8: 14},
            "version": "0.1.0",
            **changes,
        }
    )  # fmt: skip


class HallMemory(FakeMemory):
    """A memory that charts: flat lines with a wobble, and the stories' marks on them."""

    def gpu_history(
        self, cluster: str, node: str, gpu: str, *, since: datetime, until: datetime, metrics: Sequence[str]
    ) -> GpuHistory:
        first, last = since.timestamp(), until.timestamp()
        steps = [first + i * (last - first) / 180 for i in range(181)]
        series = {metric: tuple((at, self._value(metric, node, gpu, at)) for at in steps) for metric in metrics}
        return GpuHistory(cluster=cluster, node=node, gpu=gpu, series=series)

    def _value(self, metric: str, node: str, gpu: str, at: float) -> float | None:
        seed = sum(map(ord, node + gpu))
        wobble = math.sin(at / 41 + seed) * 0.6 + math.sin(at / 7.3 + seed * 3) * 0.4
        before = NOW.timestamp() - at
        if gpu == gpu_uuid("gpu-13", 3) and before < 42:
            return None
        is_stopped = node in GANG and before < 42
        is_hot = gpu == gpu_uuid("gpu-12", 5) and before < 12 * 60
        climb = min((12 * 60 - before) / 240, 1.0) if is_hot else 0.0
        levels = {
            "sm_active_ratio": 0.02 if is_stopped else 0.88 + 0.05 * wobble,
            "power_watts": 118 + 3 * wobble if is_stopped else 628 + 18 * wobble,
            "temperature_celsius": 62 + 1.5 * wobble + 29 * climb,
            "sm_clock_hertz": (1.755 - 0.56 * climb + 0.012 * wobble) * 1e9,
        }
        return levels.get(metric)


@contextmanager
def a_hall_served(board: Board | None = None, **options: Any) -> Iterator[Served]:
    """The real application with the real page over the hall."""
    settings = DaemonSettings(cluster=CLUSTER, issue=IssueSettings(mode=Mode.APPROVE))
    clock, wall, box, memory = FakeClock(NOW), SystemClock(), BoardBox(), HallMemory()
    memory.kept = {item.id: item for item in found()}
    memory.stored = {command.id: command for command in (bring_back(), make_room())}

    def app(door: Door) -> Starlette:
        return people_app(
            settings=settings,
            box=box,
            decisions=Verdicts(ledger=memory, clock=clock, settings=settings),
            memory=memory,
            door=door,
            clock=clock,
            checks=lambda: (Check(name="beat judge", is_ok=True, sentence="judge 2 s ago: nothing new"),),
            exposition=lambda accept: (b"trimtab_paused 0\n", "text/plain"),
            web_directory=WEB,
            **options,
        )

    box.publish(board or a_hall())
    with listening(app, box=box, clock=clock, wall=wall, memory=memory) as served:
        yield served
