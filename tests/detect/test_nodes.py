"""node_silent, clock_skew, blind, gpus_missing."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import a_node, a_snapshot, a_window, a_workload, an_xid, gpu_uuid
from tests.detect.views import readings, stale, with_node, with_reading, without_snapshot

from trimtab.detect.blind import Blind
from trimtab.detect.clock_skew import ClockSkew
from trimtab.detect.gpus_missing import GpusMissing
from trimtab.detect.node_silent import NodeSilent
from trimtab.model.advice import Action, Finding, Severity
from trimtab.model.reading import GpuState, MigReading
from trimtab.model.window import Window
from trimtab.settings import DetectSettings

SETTINGS = DetectSettings()
NAMES = [f"gpu-{number:02}" for number in range(8)]


def fleet_window(*silent: str, unready: tuple[str, ...] = (), gone: tuple[str, ...] = ()) -> Window:
    """Two racks of four nodes; these are silent for two minutes, these not ready, these deleted."""
    nodes = [
        a_node(name, gpus=2, rack=f"r{number // 4}", is_ready=name not in unready)
        for number, name in enumerate(NAMES)
        if name not in gone
    ]
    job = a_workload("llama-70b", on={"gpu-00": range(2)})
    window = a_window({name: readings(name, gpus=2) for name in NAMES}, snapshot=a_snapshot(nodes, [job]))
    for name in silent:
        window = stale(window, name, seconds=120)
    return window


def silent(window: Window) -> list[Finding]:
    return list(NodeSilent(SETTINGS).detect(window))


def test_a_node_that_reports_is_not_silent():
    assert silent(fleet_window()) == []


def test_a_silent_node_is_watched():
    (finding,) = silent(fleet_window("gpu-00"))
    assert finding.sentence == "gpu-00 is silent: no report"
    assert (finding.action, finding.severity, finding.is_corroborated) == (Action.WATCH, Severity.WARNING, False)
    assert any("ready to its scheduler" in each.text for each in finding.against)


def test_a_silent_node_that_is_not_ready_is_down():
    (finding,) = silent(fleet_window("gpu-00", unready=("gpu-00",)))
    assert (finding.action, finding.severity, finding.is_corroborated) == (
        Action.CORDON_REBOOT, Severity.CRITICAL, True)  # fmt: skip
    assert finding.impact == "llama-70b stands still: 2 GPUs"


def test_a_node_that_the_cluster_deleted_is_gone_and_not_silent():
    assert silent(fleet_window("gpu-00", gone=("gpu-00",))) == []


def test_a_node_that_is_not_expected_is_not_silent():
    window = without_snapshot(fleet_window("gpu-00"))
    assert len(silent(window)) == 1
    assert silent(with_node(window, "gpu-00", is_expected=False)) == []


def test_a_slow_reporter_is_given_three_intervals():
    assert silent(with_node(fleet_window("gpu-00"), "gpu-00", interval_seconds=60.0)) == []


def test_a_whole_rack_is_one_incident():
    window = a_window(
        {f"gpu-{number:02}": readings(f"gpu-{number:02}", gpus=1) for number in range(12)},
        snapshot=a_snapshot([a_node(f"gpu-{number:02}", gpus=1, rack=f"r{number // 4}") for number in range(12)]),
    )
    for number in range(4):
        window = stale(window, f"gpu-{number:02}", seconds=120)
    (finding,) = silent(window)
    assert finding.sentence == "rack r0 is silent: no report from gpu-00, gpu-01, gpu-02, gpu-03"
    assert finding.incident == "node_silent:rack:r0"


def test_most_of_the_cluster_silent_is_first_our_own_fault():
    (finding,) = silent(fleet_window(*NAMES[:5]))
    assert finding.action is Action.CONFIG_PROBLEM
    assert "own network" in finding.advice


@pytest.mark.parametrize(("skew_seconds", "text"), [(400.0, "behind ours"), (-400.0, "ahead of ours")])
def test_a_clock_that_is_far_off_is_a_finding(skew_seconds: float, text: str):
    window = with_node(fleet_window(), "gpu-03", clock_skew_seconds=skew_seconds)
    (finding,) = ClockSkew(SETTINGS).detect(window)
    assert finding.sentence == f"gpu-03's clock is more than 5 min {text}"
    assert finding.action is Action.CONFIG_PROBLEM


def test_a_clock_that_is_a_little_off_is_none():
    assert list(ClockSkew(SETTINGS).detect(with_node(fleet_window(), "gpu-03", clock_skew_seconds=299.0))) == []


def test_the_clock_of_a_silent_node_is_not_judged():
    window = with_node(fleet_window("gpu-03"), "gpu-03", clock_skew_seconds=4000.0)
    assert list(ClockSkew(SETTINGS).detect(window)) == []


def seven_of_eight(**changes) -> Window:
    window = a_window({"gpu-00": readings("gpu-00", gpus=7)}, **changes)
    return with_node(window, "gpu-00", gpus_expected=8)


def missing(window: Window) -> list[Finding]:
    return list(GpusMissing().detect(window))


def test_a_gpu_that_is_gone_without_a_word_is_missing():
    (finding,) = missing(seven_of_eight())
    assert finding.sentence == "gpu-00 lacks 1 GPU of 8, and no event says why"
    assert (finding.action, finding.loss_gpus, finding.is_corroborated) == (Action.CORDON_REBOOT, 1.0, False)


def test_the_scheduler_names_the_missing_gpu_and_whom_it_hits():
    job = a_workload("llama-70b", on={"gpu-00": range(8)})
    (finding,) = missing(seven_of_eight(snapshot=a_snapshot([a_node("gpu-00")], [job])))
    assert finding.subject.gpu == gpu_uuid("gpu-00", 7)
    assert finding.impact == "llama-70b stands still: 8 GPUs"


def test_a_scheduler_that_counts_fewer_too_is_the_second_source():
    node = a_node("gpu-00")
    node = replace(node, gpus=(*node.gpus[:7], replace(node.gpus[7], is_usable=False)))
    (finding,) = missing(seven_of_eight(snapshot=a_snapshot([node])))
    assert finding.is_corroborated


def test_gpus_that_are_split_into_instances_are_no_second_source():
    node = a_node("gpu-00")
    node = replace(node, gpus=(replace(node.gpus[0], is_usable=False), *node.gpus[1:]))
    split = with_reading(readings("gpu-00", gpus=7), 0, instances=(MigReading(gi=1),))
    window = with_node(a_window({"gpu-00": split}, snapshot=a_snapshot([node])), "gpu-00", gpus_expected=8)
    (finding,) = missing(window)
    assert not finding.is_corroborated


def test_a_gpu_that_an_event_says_fell_off_is_not_told_twice():
    assert missing(seven_of_eight(events=[("gpu-00", an_xid(79, index=7))])) == []


def test_an_event_about_a_gpu_that_is_still_there_excuses_nothing():
    assert len(missing(seven_of_eight(events=[("gpu-00", an_xid(79, index=2))]))) == 1


def test_a_gpu_reported_as_lost_is_not_missing():
    found = with_reading(readings("gpu-00"), 3, state=GpuState.LOST, values={})
    assert missing(with_node(a_window({"gpu-00": found}), "gpu-00", gpus_expected=8)) == []


def test_a_full_node_lacks_nothing():
    assert missing(with_node(a_window({"gpu-00": readings("gpu-00", gpus=4)}), "gpu-00", gpus_expected=4)) == []


def test_a_silent_node_lacks_nothing():
    assert missing(stale(seven_of_eight(), "gpu-00", seconds=300)) == []


def test_a_node_that_shows_nothing_and_says_why_is_blind():
    window = with_node(stale(a_window({"gpu-00": readings("gpu-00")}), "gpu-00", seconds=300), "gpu-00",
                       gpus_expected=8, errors={"nvml": "driver/library mismatch"})  # fmt: skip
    window = with_node(window, "gpu-00", received_at=window.at, sampled_at=window.at)
    (finding,) = Blind().detect(window)
    assert finding.sentence == ("gpu-00 reports, but none of its GPUs can be read (nvml: driver/library mismatch)")
    assert missing(window) == []


def test_an_error_beside_readings_blinds_nobody():
    window = with_node(a_window({"gpu-00": readings("gpu-00")}), "gpu-00", errors={"fan_speed": "not supported"})
    assert list(Blind().detect(window)) == []
