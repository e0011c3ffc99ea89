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
from tests.builders import BUSY, CLUSTER, a_finding, a_reading, a_window, gpu_uuid
from tests.fakes.alerting import ALERTING
from tests.fakes.clock import START
from tests.fakes.exported import FACTS, a_daemon_view, an_agent_view
from tests.fakes.people import NOW, a_board, a_record

from trimtab.central import NO_SCHEDULER
from trimtab.errors import SettingsError
from trimtab.model.metric import CATALOGUE, sample_key
from trimtab.show.checks import daemon_checks
from trimtab.show.metrics import agent_exposition, daemon_exposition, daemon_metrics, serve_agent_metrics
from trimtab.show.metrics_facts import (
    AgentFacts,
    AgentView,
    BeatFacts,
    ClusterFacts,
)
from trimtab.show.metrics_families import SERIES_PER_NODE_MAX
from trimtab.show.metrics_reference import metrics_reference
from trimtab.show.metrics_table import OWN

GOLDEN = Path(__file__).parent.parent / "golden"
REFERENCE = Path(__file__).parent.parent.parent / "docs" / "metrics.md"


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


def test_what_is_left_to_the_agents_is_on_no_page_of_the_daemon_and_not_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("trimtab.show.metrics.GPU_SERIES_MAX", 1)  # every node would be too many
    readings = {f"gpu-{number:02}": [a_reading(f"gpu-{number:02}", 0)] for number in range(3)}
    window = a_window(readings, at=NOW)
    view = a_daemon_view(window=window, board=a_board(snapshot=None, window=window, findings=()))
    full = text_of(daemon_exposition(view, has_dcgm_names=True))
    assert "trimtab_series_dropped_total" in full
    text = text_of(daemon_exposition(view, has_dcgm_names=True, has_gpu_series=False))
    assert not [line for line in text.splitlines() if line.startswith(("trimtab_gpu_", "DCGM_"))]
    assert "trimtab_series_dropped_total" not in text
    assert set(samples(text, "trimtab_node_gpus").values()) == {1.0}
    body, _ = daemon_metrics(lambda: view, has_gpu_series=False)("")
    assert b"trimtab_gpu_up" not in body


def test_a_finding_that_is_history_only_is_counted_and_is_no_series_that_silences_a_rule() -> None:
    past, now = a_finding(id=31), a_finding(id=32, node="gpu-01")
    past = replace(past, finding=replace(past.finding, is_history_only=True))
    text = text_of(daemon_exposition(a_daemon_view(board=a_board(findings=(past, now)))))
    assert {dict(labels)["finding"] for labels in samples(text, "trimtab_finding_info")} == {"F32"}
    assert sum(samples(text, "trimtab_findings").values()) == 2.0


def test_what_nobody_hears_of_is_a_number_once_it_has_been_asked_for() -> None:
    alerting = replace(ALERTING, unheard=2, doubled=1)
    text = text_of(daemon_exposition(a_daemon_view(facts=replace(FACTS, alerting=alerting))))
    assert samples(text, "trimtab_alertmanager_unheard_incidents") == {(): 2.0}
    assert samples(text, "trimtab_alertmanager_doubled_incidents") == {(): 1.0}
    unasked = replace(alerting, silences_read_at=None)
    text = text_of(daemon_exposition(a_daemon_view(facts=replace(FACTS, alerting=unasked))))
    assert "heard_incidents" not in text
    assert "doubled_incidents" not in text


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


def test_doctor_takes_a_cluster_without_a_scheduler_as_somebody_wants_it() -> None:
    board = replace(a_daemon_view().board, blind=(NO_SCHEDULER, "The exporter is not read."))
    sight = [check for check in daemon_checks(a_daemon_view(board=board)) if check.name == "sight"]
    assert [check.is_ok for check in sight] == [True, False]
    assert all(check.fix for check in sight)


def test_doctor_finds_nothing_where_all_is_well() -> None:
    assert [check for check in daemon_checks(a_daemon_view()) if not check.is_ok] == []


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    (GOLDEN / "metrics-agent.txt").write_text(text_of(agent_exposition(an_agent_view())))
    (GOLDEN / "metrics-daemon.txt").write_text(text_of(daemon_exposition(a_daemon_view())))
    REFERENCE.write_text(metrics_reference(), encoding="utf-8")


def test_a_daemon_that_has_just_begun_calls_no_rack_silent():
    view = a_daemon_view()
    assert view.board is not None
    silent = replace(view.board, nodes=tuple(replace(row, is_silent=True) for row in view.board.nodes))
    told = {}
    for seconds in (30.0, 600.0):
        facts = replace(view.facts, started_at=view.now - timedelta(seconds=seconds))
        told[seconds] = daemon_exposition(replace(view, board=silent, facts=facts))[0].decode()
    assert "trimtab_rack_nodes_reporting{" not in told[30.0]
    assert "trimtab_rack_nodes{" in told[30.0]
    assert "trimtab_rack_nodes_reporting{" in told[600.0]
