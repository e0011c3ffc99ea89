"""A digest with something in every part, and with names that are markup."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

from tests.builders import CLUSTER
from tests.fakes.clock import START

from trimtab.model.advice import Action, Severity
from trimtab.model.digest import (
    CauseHours,
    DayHours,
    Digest,
    Dossier,
    DossierEvent,
    GpuHours,
    IncidentSummary,
    LeftOut,
    LeftOutKind,
    Prospect,
    ProspectKind,
    QueueHours,
    RuleGain,
)
from trimtab.model.past import GpuTimeState

HOSTILE = '<img src=x onerror="alert(1)">|`*_[a](javascript:b)'
HOURS = GpuHours(
    by_state={
        GpuTimeState.WORKING: 21_400.0,
        GpuTimeState.HELD_IDLE: 2_310.0,
        GpuTimeState.FREE: 1_900.0,
        GpuTimeState.STRANDED: 1_204.0,
        GpuTimeState.SPARE: 2_688.0,
        GpuTimeState.OUT_OF_SERVICE: 612.5,
        GpuTimeState.UNKNOWN: 141.5,
    },
    lost=803.0,
)


def a_digest(**changes: Any) -> Digest:
    week = timedelta(days=7)
    day = GpuHours(by_state={state: hours / 7 for state, hours in HOURS.by_state.items()}, lost=HOURS.lost / 7)
    event = DossierEvent(at=START, kind="xid", code=79, text=f"NVRM: Xid 79, {HOSTILE}", count=3)
    return Digest(
        **{
            "cluster": CLUSTER,
            "since": START,
            "until": START + week,
            "covered_since": START,
            "covered_until": START + week,
            "edge_seconds": 3600.0,
            "made_at": START + week,
            "hours": HOURS,
            "queues": (
                QueueHours(queue="research", hours=HOURS),
                QueueHours(queue=HOSTILE, hours=day),
                QueueHours(queue="", hours=day),
            ),
            "causes": (
                CauseHours(cause="device_fault", out_of_service=612.5, held_idle=110.0, lost=0.0),
                CauseHours(cause="straggler", out_of_service=0.0, held_idle=0.0, lost=803.0),
            ),
            "days": tuple(DayHours(begins_at=START + timedelta(days=n), hours=day) for n in range(7)),
            "energy_kwh": 11_200.0,
            "incidents": IncidentSummary(
                opened=12,
                closed=11,
                still_open=1,
                by_severity={Severity.CRITICAL: 4},
                by_rule={"device_fault": 9, "straggler": 3},
                paged=4,
                to_page_seconds=6.0,
                to_mend_seconds=5_400.0,
                longest=f"{CLUSTER}: gpu-07 lost GPU 3 (XID 79)",
                longest_seconds=190_000.0,
            ),
            "offenders": (
                Dossier(node="gpu-07", gpu="GPU-58f1", serial=HOSTILE, incidents=3, events=(event,), events_left_out=2,
                        health={"remapped_rows/uncorrectable": 2.0}, worst_action=Action.HARDWARE_RMA),
            ),
            "gains": (
                RuleGain(rule="consolidate", settled=14, missed=1, good=13, gained=412.0, gained_forecast=380.0,
                         cost=22.0, cost_forecast=25.0, gpus_unlocked=112),
                RuleGain(rule="evacuate", settled=3, refused=1, good=3, gained=96.0, cost=4.0),
            ),
            "prospects": (
                Prospect(kind=ProspectKind.RECOMMENDATION, subject=f"Move 2 jobs off {HOSTILE}", gpu_hours=56.0,
                         name="R12"),
                Prospect(kind=ProspectKind.IDLE_QUEUE, subject="research", gpu_hours=2_310.0),
                Prospect(kind=ProspectKind.STRANDED, subject=CLUSTER, gpu_hours=1_204.0),
            ),
            "left_out": tuple(LeftOut(kind=kind, count=2, at=START) for kind in LeftOutKind),
            **changes,
        }
    )  # fmt: skip


def an_example() -> Digest:
    """The same fleet with names as they are."""
    worst = a_digest()
    dossier = replace(
        worst.offenders[0],
        model="NVIDIA H200",
        serial="1654923001733",
        pci="0000:3b:00.0",
        driver="570.133.20",
        events=(
            replace(worst.offenders[0].events[0], text="NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus."),
        ),
        events_left_out=0,
        tried=("2026-11-04 02:11Z R31: Cordon gpu-07, bring llama-70b back with spare gpu-22.",),
    )
    queues = (worst.queues[0], replace(worst.queues[1], queue="vision"), worst.queues[2])
    move = replace(worst.prospects[0], subject="Move 2 jobs off gpu-03: eval-9 starts.")
    return replace(
        worst,
        offenders=(dossier,),
        queues=queues,
        prospects=(*worst.prospects[1:], move),
        left_out=(LeftOut(kind=LeftOutKind.DRILLS, count=2),),
    )
