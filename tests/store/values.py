"""Findings and recommendations for the tests of what is kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tests.builders import CLUSTER, gpu_uuid
from tests.fakes.clock import START

from trimtab.model.advice import Action, Evidence, Finding, FindingState, OpenFinding, Severity, Subject
from trimtab.model.command import (
    Cost,
    Gain,
    Move,
    MoveKind,
    Recommendation,
    RecommendationKind,
    Seat,
    Verb,
    Write,
)

MINUTE = timedelta(minutes=1)


@dataclass(frozen=True)
class Judged:
    at: datetime = START
    opened: tuple[OpenFinding, ...] = ()
    changed: tuple[OpenFinding, ...] = ()
    closed: tuple[OpenFinding, ...] = ()
    touched: tuple[OpenFinding, ...] = ()


def a_finding(number: int = 1, *, at: datetime = START, **changes: object) -> OpenFinding:
    finding = Finding(
        rule="device_fault",
        incident=f"xid-79/{number}",
        subject=Subject(cluster=CLUSTER, node="gpu-00", gpu=gpu_uuid("gpu-00", 3)),
        action=Action.CORDON_REBOOT,
        severity=Severity.CRITICAL,
        sentence="gpu-00: GPU 3 fell off the bus",
        evidence=(Evidence(source="kernel", text="NVRM: Xid 79\0", at=at, value=79.0),),
        workloads_hit=("research/llama-70b",),
        gpus_hit=32,
        began_at=at,
        facts={"xid": "79"},
    )
    return OpenFinding(
        **{"id": number, "finding": finding, "opened_at": at, "changed_at": at, "last_seen_at": at, **changes}
    )


def closed(finding: OpenFinding, at: datetime) -> OpenFinding:
    return replace(finding, state=FindingState.CLOSED, closed_at=at, changed_at=at, close_reason="well for 10 min")


def a_recommendation(purpose: str = "evacuate gpu-00", **changes: object) -> Recommendation:
    seat = Seat(pod="llama-70b-0", node="gpu-07", gpus=8)
    return Recommendation(
        **{
            "kind": RecommendationKind.DRAIN,
            "rule": "evacuate",
            "purpose": purpose,
            "subject": Subject(cluster=CLUSTER, node="gpu-00"),
            "sentence": "Move llama-70b off gpu-00",
            "reason": "GPU 3 fell off the bus",
            "findings": (31, 32),
            "moves": (Move(kind=MoveKind.DRAIN, node="gpu-00", workload="research/llama-70b", after=(seat,)),),
            "writes": (Write(verb=Verb.CORDON, node="gpu-00", lasts=True),),
            "gain": Gain(gpu_hours=768.0, horizon_hours=24.0),
            "cost": Cost(gpu_hours=4.2),
            "created_at": START,
            "expires_at": START + 15 * MINUTE,
            **changes,
        }
    )
