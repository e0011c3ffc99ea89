"""What an agent and a daemon would export, with one of everything: for the golden pages of metrics."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from tests.builders import a_gpu, a_node, a_reading, a_report, a_snapshot, a_window, an_xid
from tests.fakes.alerting import ALERTING
from tests.fakes.clock import START
from tests.fakes.people import NOW, a_board, a_breaker, a_command, a_scene, a_veto

from trimtab.model.board import ReleaseRow
from trimtab.model.cluster import Queue
from trimtab.model.command import Budget, CommandState, Outcome
from trimtab.model.metric import CATALOGUE, sample_key
from trimtab.model.reading import GpuState, MigReading
from trimtab.show.circumstances import Circumstances
from trimtab.show.metrics_facts import (
    AgentFacts,
    AgentView,
    BeatFacts,
    ClusterFacts,
    DaemonFacts,
    DaemonView,
    OnCallFacts,
    PairFacts,
    ReadFacts,
    RollupFacts,
    SettingsFacts,
)
from trimtab.show.metrics_limits import CrowdFacts, DiskFacts, LimitsFacts
from trimtab.tls import facts_of


def every_value() -> dict[str, float]:
    """One value of every metric of the catalogue, the labelled ones with their first label value (link 0)."""
    return {
        sample_key(metric.name, (metric.label_values or ("0",))[0] if metric.label else None): 1.0
        for metric in CATALOGUE
    }


def an_agent_view(**changes: object) -> AgentView:
    instance = MigReading(
        gi=1, ci=0, values={"sm_active_ratio": 0.5, "memory_used_bytes": 1e9}, holder="research/mig-0"
    )
    readings = (
        a_reading("gpu-00", 0, values=every_value(), holder="research/llama-70b-0", instances=(instance,)),
        a_reading("gpu-00", 1, state=GpuState.LOST, values={}),
    )
    said = {"gpus": readings, "events": (an_xid(),), "errors": {"nvml": "x"}, **changes}
    report = replace(a_report("gpu-00"), **said)
    facts = AgentFacts(
        version="0.1.0",
        certificates=(
            facts_of("client", START + timedelta(days=30), now=START, file="/etc/trimtab/client.pem"),
            facts_of("ca", START + timedelta(days=3650), now=START, file="/etc/trimtab/ca.pem", trouble="It is empty."),
        ),
        ticks_total=10,
        ticks_dropped_total=1,
        tick_seconds=0.02,
        spool_reports=3,
        spool_bytes=4096,
        spool_bytes_max=268_435_456,
        disk_free_bytes=40_000_000_000,
        put_off_total=3,
        spool_dropped_total=0,
        spool_lost_total=0,
        spool_damaged_total=1,
        events_dropped_total=0,
        set_aside_total=0,
        acknowledged_total=7,
        acknowledged_at=START,
        send_failures_total=2,
        collector_seconds={"nvml": 0.01},
        collector_errors_total={"nvml": 0},
        bad_samples_total=1,
        events_total={("xid", "79"): 1},
        is_enrolled=True,
        credential_expires_at=START + timedelta(days=90),
        credentials_received_total=2,
        enrolment_refusals_total={"expired": 1},
    )
    return AgentView(now=START + timedelta(seconds=4), report=report, facts=facts)


FACTS = DaemonFacts(
    version="0.1.0",
    certificates=(
        facts_of("ingest", START + timedelta(days=60), now=START, file="/var/lib/trimtab/ca/server.pem"),
        facts_of("people", START + timedelta(days=90), now=START, file="/etc/ssl/people.pem"),
    ),
    started_at=START,
    beats=(
        BeatFacts(name="judge", interval_seconds=5.0, beats_total=120, age_seconds=2.0, sentence="1 finding opened"),
        BeatFacts(name="remember", interval_seconds=1.0, beats_total=600, failures_total=1, age_seconds=0.5),
    ),
    inbox_reports=4,
    inbox_reports_max=20_000,
    inbox_total={"accepted": 100, "committed": 98, "failed": 2},
    body_bytes_total=210_000,
    reports_replayed_total=12,
    reports_received_total=100,
    reports_stored_total=96,
    reports_duplicate_total=2,
    reports_refused_total={"401": 1},
    bad_samples_total=0,
    limits=LimitsFacts(
        disk=DiskFacts(
            held_bytes=2_000_000_000,
            held_bytes_max=8_000_000_000,
            free_bytes=40_000_000_000,
            free_bytes_min=536_870_912,
            rows_gone_total={"raw": 5000, "1m": 0},
        ),
        crowds=(
            CrowdFacts(listener="ingest", connections=24, connections_max=9872, closed_total={"made_room": 1}),
            CrowdFacts(listener="people", connections=3, connections_max=2000),
        ),
    ),
    ring_gpus=32,
    ring_bytes=1_000_000,
    ring_gpus_dropped_total=0,
    ring_events_dropped_total=3,
    detector_seconds={"device_fault": 0.001},
    detector_errors_total={"device_fault": 0},
    snapshot_age_seconds=1.0,
    scheduler_failures_total=0,
    scrape_failures_total={"gpu-03": 2},
    enrolment_answers_total={"joined": 12, "renewed": 3, "used": 1},
    door_answers_total={"signed_in": 9, "wrong": 4, "held_up": 1, "forged_headers": 2, "role": 3, "other_page": 0},
    board_readers=1,
    page_url="https://trimtab.example",
    oncall=OnCallFacts(
        pager="outbox",
        pagers={31: "outbox"},
        messages={("ops", "done"): 12, ("ops", "dead"): 1, ("ops", "ready"): 2},
        oldest_waiting_seconds={"ops": 40.0},
        attempts_total={("ops", "delivered"): 12, ("ops", "put_off"): 3},
    ),
    alerting=ALERTING,
    settings=SettingsFacts(at=START, failures_total=1, waiting=("people.listen",)),
    rollup=RollupFacts(
        rows_total={"1m": 32_000, "15m": 2_100, "1h": 500},
        failures_total=1,
        mended_minutes_total=40,
        too_late_total=0,
        waiting_minutes=3,
        lag_seconds=84.0,
    ),
    pair=PairFacts(
        cluster="hall-a",
        name="anna",
        is_active=True,
        term=7,
        takeovers_total=3,
        since=START,
        active_name="anna",
        active_url="https://trimtab.example",
        standbys=1,
        daemons_expected=2,
        look_age_seconds=0.2,
    ),
    command_changes_total={("consolidate", "missed"): 1, ("evacuate", "settled"): 2},
    budget=Budget(
        moves_left=3,
        moves_left_this_hour=28,
        gpus_movable=64,
        nodes_cordonable=1,
        cordons_left_this_hour=9,
        moves_left_by_queue={"research": 1},
        nodes_cordonable_by_pool={"H100": 1},
    ),
    cluster=ClusterFacts(
        writes_total={("cordon", "done"): 3, ("evict", "busy"): 2},
        reads={
            "pods": ReadFacts(
                attempts_total=9,
                lists_total=2,
                watches_total=7,
                changes_total=4100,
                missed_changes_total=1,
                errors_total={"gone": 1, "unavailable": 2},
            ),
        },
        events_total={"told": 5, "repeated": 1, "failed": 0, "left_out": 0},
        is_lease_held=True,
        lease_epoch=4,
        token_reviews_total={"good": 40, "refused": 3, "put_off": 1},
    ),
)
RELEASE = ReleaseRow(asked_by="anna", asked_at=NOW, at=NOW, left=("trimtab:1ed9e0:R11: cordon of gpu-01",))
OUTCOME = Outcome(
    command_id=9,
    measured_at=NOW,
    is_good=True,
    sentence="llama-70b runs again.",
    gpu_hours_lost=1.5,
    gpu_hours_saved=30.0,
    gpus_unlocked=0,
    seconds_to_settle=190.0,
)
AROUND = Circumstances(breakers=(a_breaker(),), vetoes=(a_veto(),), release=RELEASE)


def a_daemon_view(**changes: object) -> DaemonView:
    node = a_node("gpu-00", gpus=0)
    node = replace(node, gpus=(a_gpu("gpu-00", 0), a_gpu("gpu-00", 1)))
    instance = MigReading(gi=1, ci=0, values={"sm_active_ratio": 0.5}, holder="research/mig-0")
    scene = a_scene()
    readings = {
        "gpu-00": [
            a_reading("gpu-00", 0, values=every_value(), instances=(instance,)),
            a_reading("gpu-00", 1, state=GpuState.LOST, values={}),
        ]
    }
    snapshot = a_snapshot([node], scene["snapshot"].workloads, queues=(Queue(name="research", gpus_quota=16),))
    window = a_window(readings, snapshot=snapshot, at=NOW)
    known = {name: replace(now, gpus_expected=8) for name, now in window.nodes.items()}
    window = replace(window, nodes=known)
    board = a_board(
        snapshot=snapshot,
        window=window,
        circumstances=AROUND,
        commands=(a_command(), a_command(9, state=CommandState.SETTLED)),
        outcomes={9: OUTCOME},
    )
    return DaemonView(**{"now": NOW, "board": board, "window": window, "facts": FACTS, **changes})
