"""What the API for people is given in tests: a small cluster's board, a memory, decisions, and a real listener."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import requests
from starlette.applications import Starlette
from tests.builders import (
    BUSY,
    CLUSTER,
    IDLE,
    a_finding,
    a_node,
    a_reading,
    a_snapshot,
    a_window,
    a_workload,
)
from tests.fakes.alerts import an_alerting
from tests.fakes.clock import START, FakeClock
from tests.fakes.ledger import FakeLedger
from tests.fakes.oncall import a_desk
from tests.fakes.register import FakeRegister

from trimtab.clock import SystemClock
from trimtab.issue.verdicts import Verdicts
from trimtab.listener import Listener
from trimtab.model.advice import FindingState, OpenFinding, Subject
from trimtab.model.board import Board, GpuHistory, RuleRecord
from trimtab.model.command import (
    Command,
    CommandState,
    Cost,
    Gain,
    Mode,
    Move,
    MoveKind,
    Outcome,
    Recommendation,
    RecommendationKind,
    Refusal,
    Seat,
    Verb,
    Write,
)
from trimtab.model.reading import GpuState
from trimtab.model.standing import Standing, StandingKind
from trimtab.model.window import Window
from trimtab.settings import DaemonSettings, IssueSettings
from trimtab.show.api import people_app
from trimtab.show.api_types import Check
from trimtab.show.auth import Door
from trimtab.show.board import BoardBox, build_board
from trimtab.show.digest.desk import DigestDesk

TOKEN = "t" * 43
NOW = START + timedelta(seconds=600)


def a_recommendation(**changes: Any) -> Recommendation:
    return Recommendation(
        **{
            "kind": RecommendationKind.DRAIN,
            "rule": "evacuate",
            "purpose": "evacuate:gpu-01",
            "subject": Subject(cluster=CLUSTER, node="gpu-01"),
            "sentence": "Cordon gpu-01, bring llama-70b back with spare gpu-03.",
            "reason": "gpu-01 GPU 3 fell off the bus; llama-70b stands still.",
            "findings": (31,),
            "moves": (
                Move(
                    kind=MoveKind.MIGRATE,
                    workload="research/llama-70b",
                    controller="simulated",
                    before=(Seat(pod="llama-70b-1", node="gpu-01", gpus=8),),
                    after=(Seat(pod="llama-70b-1", node="gpu-03", gpus=8),),
                ),
            ),
            "writes": (
                Write(verb=Verb.CORDON, node="gpu-01", lasts=True),
                Write(
                    verb=Verb.RESERVE,
                    node="gpu-03",
                    workload="research/llama-70b",
                    seats=(Seat(pod="llama-70b-1", node="gpu-03", gpus=8),),
                ),
                Write(verb=Verb.SUSPEND, workload="research/llama-70b"),
                Write(verb=Verb.RESUME, workload="research/llama-70b"),
            ),
            "gain": Gain(gpu_hours=31.4, horizon_hours=24.0, gpus_unlocked=16, formula="16 GPUs × 1.96 h"),
            "cost": Cost(
                gpu_hours=2.1,
                restart_seconds=120.0,
                pods_disturbed=2,
                workloads_disturbed=("research/llama-70b",),
                formula="16 GPUs × (120 s restart + 352 s since the checkpoint)",
            ),
            "created_at": START,
            "expires_at": START + timedelta(seconds=900),
            "against": ("gpu-03 is the only spare.",),
            "if_nothing_is_done": "llama-70b stands still: 16 GPU-hours are lost each hour.",
            **changes,
        }
    )


def a_command(id: int = 11, *, state: CommandState = CommandState.PROPOSED, **changes: Any) -> Command:
    recommendation = changes.pop("recommendation", None) or a_recommendation()
    return Command(id=id, recommendation=recommendation, state=state, changed_at=START, **changes)


class FakeMemory(FakeLedger):
    """A ledger that also remembers findings and can chart a GPU."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[int, OpenFinding] = {}
        self.asked_histories: list[tuple[str, str, str, datetime, datetime, tuple[str, ...]]] = []
        self.next_error: Exception | None = None

    def finding(self, finding_id: int) -> OpenFinding | None:
        if self.next_error is not None:
            error, self.next_error = self.next_error, None
            raise error
        return self.kept.get(finding_id)

    def findings(
        self, state: FindingState | None = None, since: datetime | None = None, limit: int = 1000
    ) -> tuple[OpenFinding, ...]:
        found = [item for item in self.kept.values() if state is None or item.state is state]
        return tuple(sorted(found, key=lambda item: -item.id))[:limit]

    def outcome(self, command_id: int) -> Outcome | None:
        return self.results.get(command_id)

    def gpu_history(
        self, cluster: str, node: str, gpu: str, *, since: datetime, until: datetime, metrics: Sequence[str]
    ) -> GpuHistory:
        self.asked_histories.append((cluster, node, gpu, since, until, tuple(metrics)))
        points = ((since.timestamp(), 0.5), (until.timestamp(), None))
        return GpuHistory(cluster=cluster, node=node, gpu=gpu, series=dict.fromkeys(metrics, points))


def a_record(**changes: Any) -> RuleRecord:
    text = "right in 46 of 49, last wrong on 12 Nov; takes 1.4× as long as said, should give 0.9× of what it said"
    return RuleRecord(
        **{
            "rule": "evacuate",
            "right": 46,
            "measured": 49,
            "text": text,
            "duration_ratio": 1.4,
            "gain_ratio": 0.9,
            **changes,
        }
    )


def a_breaker(**changes: Any) -> Standing:
    why = (
        "device_fault made 6 of the last 7 cordons within 60 min. Look whether they are right, then: "
        "trimtab resume --rule device_fault"
    )
    return Standing(
        **{
            "kind": StandingKind.BREAKER,
            "name": "device_fault",
            "since": NOW - timedelta(minutes=4),
            "who": "trimtab",
            "why": why,
            **changes,
        }
    )


def a_veto(**changes: Any) -> Standing:
    return Standing(
        **{
            "kind": StandingKind.VETO,
            "name": "gpu-01",
            "since": NOW - timedelta(minutes=3),
            "until": NOW + timedelta(days=7),
            "who": "somebody",
            "why": "Somebody uncordoned gpu-01 after R9 had cordoned it; left alone until 2026-11-09T09:10:00Z.",
            "command_id": 9,
            "causes": ("device_fault",),
            **changes,
        }
    )


def a_fault(**changes: Any) -> OpenFinding:
    return a_finding(
        id=31,
        node="gpu-01",
        gpu=3,
        impact="llama-70b stands still: 16 GPUs.",
        workloads_hit=("research/llama-70b",),
        gpus_hit=16,
        loss_gpus=16.0,
        **changes,
    )


def a_scene(**changes: Any) -> dict[str, Any]:
    """What `build_board` takes: a gang on gpu-00 and gpu-01 with a lost GPU, scattered holders on gpu-02, a spare."""
    gang = a_workload("llama-70b", on={"gpu-00": range(8), "gpu-01": range(8)})
    small = a_workload("eval-1", on={"gpu-02": (0, 1, 2, 3, 4)})
    waiting = a_workload("eval-9", gpus_per_pod=8)
    nodes = [
        a_node("gpu-00"),
        a_node("gpu-01"),
        a_node("gpu-02", rack="r2"),
        a_node("gpu-03", rack="r2", is_spare=True),
    ]
    snapshot = a_snapshot(nodes, [gang, small, waiting])
    readings = {
        "gpu-00": [a_reading("gpu-00", index) for index in range(8)],
        "gpu-01": [
            a_reading("gpu-01", index, state=GpuState.LOST, values={}) if index == 3 else a_reading("gpu-01", index)
            for index in range(8)
        ],
        "gpu-02": [a_reading("gpu-02", index, values=BUSY if index < 5 else IDLE) for index in range(8)],
        "gpu-03": [a_reading("gpu-03", index, values=IDLE) for index in range(8)],
    }
    return {
        "cluster": CLUSTER,
        "at": NOW,
        "window": a_window(readings, snapshot=snapshot, at=NOW),
        "snapshot": snapshot,
        "findings": (a_fault(),),
        "commands": (a_command(),),
        "mode": Mode.APPROVE,
        "is_paused": False,
        "records": {"evacuate": a_record()},
        "refusals": (
            Refusal(rule="budget", sentence="Not moved: 2 of 2 allowed moves in queue research are under way."),
        ),
        "stranded": {1: 0, 2: 1, 4: 3, 8: 3},
        "beats": {"judge": "1 finding opened"},
        "version": "0.1.0",
        **changes,
    }


def a_board(**changes: Any) -> Board:
    return build_board(**a_scene(**changes))


@dataclass(slots=True)
class Served:
    """A running API with what stands behind it."""

    url: str
    box: BoardBox
    door: Door
    memory: FakeMemory
    clock: FakeClock
    wall: FakeClock | SystemClock
    listener: Listener
    register: FakeRegister
    app: Starlette

    def get(self, path: str, **changes: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {TOKEN}", **changes.pop("headers", {})}
        return requests.get(self.url + path, headers=headers, timeout=10, **changes)

    def post(self, path: str, body: object, **changes: Any) -> requests.Response:
        headers = {"Authorization": f"Bearer {TOKEN}", **changes.pop("headers", {})}
        return requests.post(self.url + path, json=body, headers=headers, timeout=10, **changes)


WEB_PAGE = "<!doctype html><title>trimtab</title><script src=/static/app.js></script>"


def web_files(directory: Path) -> Path:
    (directory / "index.html").write_text(WEB_PAGE)
    (directory / "app.js").write_text("'use strict';")
    (directory / "secret.key").write_text("not to be served")
    return directory


@contextmanager
def serving(
    *,
    board: Board | None,
    web: Path,
    wall: FakeClock | SystemClock | None = None,
    settings: DaemonSettings | None = None,
    heartbeat_seconds: float = 15.0,
    pause_reason: Callable[[], str | None] = lambda: None,
    box: BoardBox | None = None,
    window: Callable[[], Window | None] | None = None,
    digests: DigestDesk | None = None,
    **door: Any,
) -> Iterator[Served]:
    """The real application on a real listener; `board` None = nothing published yet."""
    settings = settings or DaemonSettings(cluster=CLUSTER, issue=IssueSettings(mode=Mode.APPROVE))
    clock, wall, box, memory = FakeClock(NOW), wall or SystemClock(), box or BoardBox(), FakeMemory()
    memory.kept[31] = a_fault()
    memory.kept[7] = replace(
        a_finding(id=7, node="gpu-02"), state=FindingState.CLOSED, closed_at=NOW, close_reason="the GPU answers again"
    )
    memory.stored[11] = a_command()

    def app(made: Door) -> Starlette:
        return people_app(
            oncall=desk,
            digests=digests,
            settings=settings,
            box=box,
            decisions=Verdicts(ledger=memory, clock=clock, settings=settings, pause_reason=pause_reason),
            memory=memory,
            door=made,
            clock=clock,
            checks=lambda: (Check(name="beat judge", is_ok=True, sentence="judge 2 s ago: nothing new"),),
            exposition=lambda accept: (b"trimtab_paused 0\n", "text/plain"),
            web_directory=web_files(web),
            heartbeat_seconds=heartbeat_seconds,
            window=window,
            alerting=an_alerting(cluster=settings.cluster, box=box, clock=clock),
        )

    if board is not None:
        box.publish(board)
    with (
        a_desk(clock) as desk,
        listening(app, box=box, clock=clock, wall=wall, memory=memory, **door) as running,
    ):
        yield running


@contextmanager
def listening(
    app: Callable[[Door], Starlette], *, box: BoardBox, clock: FakeClock, wall: Any, memory: Any, **door: Any
) -> Iterator[Served]:
    """The application on a listener of its own port."""
    register: FakeRegister = door.pop("register", None) or FakeRegister()
    options: dict[str, Any] = door.pop("listener", {})
    made = Door(token=TOKEN, clock=wall, register=register, audit=register.lines.append, audit_clock=clock, **door)
    application = app(made)
    listener = Listener(application, name="people", listen="127.0.0.1:0", **options)
    listener.start()
    try:
        url = f"{listener.scheme}://127.0.0.1:{listener.port}"
        yield Served(
            url=url,
            box=box,
            door=made,
            memory=memory,
            clock=clock,
            wall=wall,
            listener=listener,
            register=register,
            app=application,
        )
    finally:
        box.close()
        listener.stop()
