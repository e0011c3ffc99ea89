"""/metrics of agent and daemon: one golden file of names each, absent stays absent, caps are counted."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import requests
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families
from tests.builders import BUSY, CLUSTER, a_gpu, a_node, a_reading, a_report, a_snapshot, a_window, an_xid, gpu_uuid
from tests.fakes.alerting import ALERTING
from tests.fakes.clock import START
from tests.fakes.people import NOW, a_board, a_breaker, a_command, a_record, a_scene, a_veto

from trimtab.errors import SettingsError
from trimtab.model.board import ReleaseRow
from trimtab.model.cluster import Queue
from trimtab.model.command import Budget, CommandState, Outcome
from trimtab.model.metric import CATALOGUE, sample_key
from trimtab.model.reading import GpuState, MigReading
from trimtab.show.checks import daemon_checks
from trimtab.show.circumstances import Circumstances
from trimtab.show.metrics import agent_exposition, daemon_exposition, daemon_metrics, serve_agent_metrics
from trimtab.show.metrics_facts import (
    AgentFacts,
    AgentView,
    BeatFacts,
    ClusterFacts,
    DaemonFacts,
    DaemonView,
    OnCallFacts,
    ReadFacts,
    RollupFacts,
)
from trimtab.show.metrics_families import SERIES_PER_NODE_MAX
from trimtab.show.metrics_reference import metrics_reference
from trimtab.show.metrics_table import OWN

GOLDEN = Path(__file__).parent.parent / "golden"
REFERENCE = Path(__file__).parent.parent.parent / "docs" / "metrics.md"


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
        ticks_total=10,
        ticks_dropped_total=1,
        tick_seconds=0.02,
        spool_reports=3,
        spool_bytes=4096,
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
    )
    return AgentView(now=START + timedelta(seconds=4), report=report, facts=facts)


FACTS = DaemonFacts(
    version="0.1.0",
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
    ring_gpus=32,
    ring_bytes=1_000_000,
    ring_gpus_dropped_total=0,
    ring_events_dropped_total=3,
    detector_seconds={"device_fault": 0.001},
    detector_errors_total={"device_fault": 0},
    snapshot_age_seconds=1.0,
    scheduler_failures_total=0,
    scrape_failures_total={"gpu-03": 2},
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
    rollup=RollupFacts(
        rows_total={"1m": 32_000, "15m": 2_100, "1h": 500},
        failures_total=1,
        mended_minutes_total=40,
        too_late_total=0,
        waiting_minutes=3,
        lag_seconds=84.0,
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


def text_of(exposition: tuple[bytes, str]) -> str:
    return exposition[0].decode()


def samples(text: str, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == name
    }


@pytest.mark.parametrize(
    ("golden", "text"),
    [
        ("metrics-agent.txt", text_of(agent_exposition(an_agent_view()))),
        ("metrics-daemon.txt", text_of(daemon_exposition(a_daemon_view()))),
    ],
    ids=["agent", "daemon"],
)
class TestGolden:
    def test_what_is_exported_is_what_was_reviewed(self, golden: str, text: str) -> None:
        path = GOLDEN / golden
        assert text == path.read_text(), (
            f"If this change is meant: python -m tests.show.test_metrics, and review {path}."
        )

    def test_promtool_finds_nothing_to_say(self, golden: str, text: str) -> None:
        if shutil.which("promtool") is None:
            pytest.skip("promtool is missing: apt-get install prometheus")
        done = subprocess.run(
            ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=30, check=False
        )
        assert (done.returncode, done.stdout + done.stderr) == (0, "")

    def test_every_metric_of_the_tables_is_there(self, golden: str, text: str) -> None:
        is_agent = golden == "metrics-agent.txt"
        own = {metric.name for metric in OWN if (metric.agent if is_agent else metric.daemon)}
        wanted = own | {f"trimtab_gpu_{metric.name}" for metric in CATALOGUE}
        told = {sample.name for family in text_string_to_metric_families(text) for sample in family.samples}
        assert told == wanted


def test_openmetrics_is_spoken_when_asked() -> None:
    body, content_type = agent_exposition(an_agent_view(), accept="application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    families = {family.name for family in parse_openmetrics(body.decode())}
    assert "trimtab_gpu_energy_joules" in families


def test_what_is_not_known_is_not_exported() -> None:
    view = replace(an_agent_view(gpus=(a_reading("gpu-00", 0, values={"power_watts": 0.0}),)), facts=AgentFacts())
    text = text_of(agent_exposition(view))
    assert samples(text, "trimtab_gpu_power_watts") != {}
    assert "temperature" not in text
    assert "trimtab_agent_spool_reports" not in text


def test_a_lost_gpu_keeps_its_series_and_says_zero() -> None:
    up = samples(text_of(agent_exposition(an_agent_view())), "trimtab_gpu_up")
    labels = {"cluster": CLUSTER, "node": "gpu-00", "gpu": gpu_uuid("gpu-00", 1)}
    assert up[tuple(sorted(labels.items()))] == 0.0


def test_mig_instances_have_their_own_labels() -> None:
    active = samples(text_of(agent_exposition(an_agent_view())), "trimtab_gpu_sm_active_ratio")
    assert [dict(labels).get("gi") for labels in active] == [None, "1"]
    assert list(active.values()) == [1.0, 0.5]


def test_before_the_first_report_an_agent_exports_what_it_has() -> None:
    text = text_of(agent_exposition(AgentView(now=START, report=None, facts=AgentFacts(version="0.1.0"))))
    assert text.splitlines()[-1] == 'trimtab_build_info{version="0.1.0"} 1.0'


def test_nothing_from_the_wire_makes_up_a_metric_or_a_label() -> None:
    odd = {"made_up": 1.0, "nvlink_up/9999": 1.0, "nvlink_up/x": 1.0, "power_watts/x": 1.0, "nvlink_up": 1.0,
           "ecc_errors_total/other": 1.0}  # fmt: skip
    text = text_of(agent_exposition(an_agent_view(gpus=(a_reading("gpu-00", 0, values=odd, holder='a"\n{b}'),))))
    assert not {name for name in ("made_up", "nvlink_up", "power_watts", "ecc_errors") if name in text}
    assert 'workload="a\\"\\n{b}"' in text


def test_series_beyond_a_nodes_cap_are_left_out_and_counted_over_time() -> None:
    values = {sample_key("nvlink_transmit_bytes_total", str(link)): 1.0 for link in range(36)}
    readings = tuple(a_reading("gpu-00", index, values=values) for index in range(100))
    view = an_agent_view(gpus=readings)
    text = text_of(agent_exposition(view))
    left_out = 100 * 37 - SERIES_PER_NODE_MAX
    assert len(samples(text, "trimtab_gpu_nvlink_transmit_bytes_total")) < 100 * 36
    assert list(samples(text, "trimtab_series_dropped_total").values()) == [left_out]
    server = serve_agent_metrics("127.0.0.1:0", lambda: view)
    try:
        for times in (1, 2):
            page = requests.get(f"http://127.0.0.1:{server.port}/metrics", timeout=10).text
            assert list(samples(page, "trimtab_series_dropped_total").values()) == [left_out * times]
    finally:
        server.stop()


def test_a_silent_nodes_values_are_not_passed_off_as_fresh() -> None:
    view = a_daemon_view()
    board = view.board
    assert board is not None
    silent = replace(board, nodes=tuple(replace(row, is_silent=True) for row in board.nodes))
    text = text_of(daemon_exposition(replace(view, board=silent, now=NOW + timedelta(seconds=90))))
    assert "trimtab_gpu_power_watts" not in text
    assert set(samples(text, "trimtab_gpu_sample_age_seconds").values()) == {90.0}
    assert set(samples(text, "trimtab_node_reporting").values()) == {0.0}


def test_a_fleet_too_large_for_one_page_leaves_whole_nodes_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trimtab.show.metrics.GPU_SERIES_MAX", 10 * len(BUSY))
    readings = {f"gpu-{number:02}": [a_reading(f"gpu-{number:02}", index) for index in range(8)] for number in range(3)}
    window = a_window(readings, at=NOW)
    view = a_daemon_view(window=window, board=a_board(snapshot=None, window=window, findings=()))
    text = text_of(daemon_exposition(view))
    assert {dict(labels)["node"] for labels in samples(text, "trimtab_gpu_power_watts")} == {"gpu-00"}
    dropped = {dict(labels)["node"]: value for labels, value in samples(text, "trimtab_series_dropped_total").items()}
    assert dropped == {"gpu-00": 0.0, "gpu-01": 8.0 * len(BUSY), "gpu-02": 8.0 * len(BUSY)}


def test_states_of_the_cluster_add_up() -> None:
    states = samples(text_of(daemon_exposition(a_daemon_view())), "trimtab_cluster_gpus")
    assert sum(states.values()) == 2.0


def test_without_a_cluster_of_its_own_nothing_is_said_of_one() -> None:
    text = text_of(daemon_exposition(a_daemon_view(facts=replace(FACTS, cluster=None))))
    for name in ("trimtab_lease", "trimtab_reader", "trimtab_scheduler_writes", "trimtab_scheduler_events"):
        assert name not in text


def test_a_standby_holds_no_lease_and_has_no_epoch() -> None:
    facts = replace(FACTS, cluster=ClusterFacts(is_lease_held=False))
    text = text_of(daemon_exposition(a_daemon_view(facts=facts)))
    assert samples(text, "trimtab_lease_held") == {(): 0.0}
    assert samples(text, "trimtab_lease_epoch") == {}


def test_a_rule_without_forecasts_has_outcomes_and_no_calibration() -> None:
    record = a_record(duration_ratio=None, gain_ratio=None)
    board = a_board(records={"evacuate": record, "consolidate": a_record(rule="consolidate", right=0, measured=0)})
    text = text_of(daemon_exposition(a_daemon_view(board=board)))
    told = {(dict(labels)["rule"], dict(labels)["verdict"]): value
            for labels, value in samples(text, "trimtab_rule_outcomes").items()}  # fmt: skip
    assert told == {("evacuate", "right"): 46.0, ("evacuate", "wrong"): 3.0}
    assert "trimtab_rule_duration_ratio" not in text
    assert "trimtab_breaker_open" not in text
    assert set(samples(text, "trimtab_vetoes").values()) == {0.0}


def test_the_daemons_page_has_the_process_beside_its_own() -> None:
    body, _ = daemon_metrics(a_daemon_view)("")
    assert b"process_resident_memory_bytes" in body
    assert b"trimtab_beats_total" in body


def test_a_port_in_use_or_a_wrong_address_is_said_with_the_key() -> None:
    server = serve_agent_metrics("127.0.0.1:0", an_agent_view)
    try:
        for listen in (f"127.0.0.1:{server.port}", "9742", "127.0.0.1:99999"):
            with pytest.raises(SettingsError, match="metrics_listen"):
                serve_agent_metrics(listen, an_agent_view)
    finally:
        server.stop()


def test_an_agent_needs_no_web_server_and_no_numpy_for_its_metrics() -> None:
    code = "import sys, trimtab.show.metrics; print(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert not set(done.stdout.split()) & {"starlette", "uvicorn", "numpy", "sqlalchemy", "rich"}


def test_the_reference_page_is_what_the_tables_say() -> None:
    assert REFERENCE.read_text(encoding="utf-8") == metrics_reference(), "run: make docs"


def test_doctor_names_what_is_not_well_and_its_fix() -> None:
    late = BeatFacts(name="judge", interval_seconds=5.0, age_seconds=60.0, sentence="nothing new")
    dead = BeatFacts(name="rebalance", interval_seconds=5.0, age_seconds=1.0, is_alive=False)
    facts = replace(FACTS, beats=(late, dead), inbox_reports=15_000, detector_errors_total={"straggler": 2})
    wrong = [check for check in daemon_checks(a_daemon_view(facts=facts)) if not check.is_ok]
    assert [check.name for check in wrong] == ["inbox", "beat judge", "beat rebalance", "detector straggler"]
    assert all(check.fix for check in wrong)


def test_doctor_does_not_call_a_beat_well_that_fails_each_time() -> None:
    failing = BeatFacts(
        name="remember", interval_seconds=1.0, age_seconds=1.0, sentence="trimtab.db: disk full.", is_failing=True
    )
    checks = daemon_checks(a_daemon_view(facts=replace(FACTS, beats=(failing,))))
    wrong = [(check.name, check.sentence) for check in checks if not check.is_ok]
    assert wrong == [("beat remember", "remember failed 1 s ago: trimtab.db: disk full.")]


def test_doctor_finds_nothing_where_all_is_well() -> None:
    assert [check for check in daemon_checks(a_daemon_view()) if not check.is_ok] == []


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / "metrics-agent.txt").write_text(text_of(agent_exposition(an_agent_view())))
    (GOLDEN / "metrics-daemon.txt").write_text(text_of(daemon_exposition(a_daemon_view())))
    REFERENCE.write_text(metrics_reference(), encoding="utf-8")
