"""device_fault: what comes back, and what proof a move wants."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import a_node, a_snapshot, a_workload
from tests.detect.faults import NODE, judge, live, only, xid
from tests.detect.views import (
    readings,
    with_node,
    with_values,
)

from trimtab.model.advice import Action, Severity
from trimtab.model.cluster import WorkloadState
from trimtab.model.reading import EventSource
from trimtab.model.window import NodeEvent

# ---- repeats ----


def test_the_same_place_failing_again_is_the_operators():
    place = "GPC 3, TPC 5, SM 1"
    finding = only(live(xid(13, engine=place), xid(13, 400, engine=place), seconds=400))
    assert finding.severity is Severity.WARNING
    assert "EUD" in finding.advice


def test_another_place_is_not():
    finding = only(live(xid(13, engine="GPC 3, TPC 5, SM 1"), xid(13, 400, engine="GPC 1, TPC 0, SM 1"), seconds=400))
    assert finding.severity is Severity.INFO


def test_page_faults_of_different_programs_on_one_gpu_are_the_operators():
    assert only(live(xid(31, pid=1), xid(31, 400, pid=2), seconds=400)).severity is Severity.WARNING
    assert only(live(xid(31, pid=1), xid(31, 400, pid=1), seconds=400)).severity is Severity.INFO


def test_five_bursts_of_a_note_become_a_trend():
    notes = [xid(38, 200.0 * number) for number in range(5)]
    assert judge(live(*notes[:4], seconds=800)) == []
    assert only(live(*notes, seconds=800)).action is Action.WATCH


# ---- corroboration ----


@pytest.mark.parametrize(
    ("events", "holds"),
    [
        ([xid(79)], True),
        ([xid(95)], True),
        ([xid(48)], False),
        ([xid(48), xid(171)], True),
        ([xid(46)], False),
        ([xid(46), xid(154, details={"action": "0x1"})], True),
        ([xid(119)], False),
        ([xid(79, source=EventSource.USERSPACE)], False),
        ([xid(79, source=EventSource.EXPORTER)], False),
        ([xid(48, source=EventSource.USERSPACE), xid(171, source=EventSource.USERSPACE)], False),
    ],
)
def test_two_sources_or_a_self_sufficient_one(events, holds):
    assert only(live(*events)).is_corroborated is holds


def test_the_gpus_own_counters_are_a_second_source():
    found = with_values(readings(NODE), 3, **{"ecc_errors_total/uncorrected": 1.0})
    assert only(live(xid(48), found=found)).is_corroborated


def test_a_failed_job_is_a_second_source():
    job = a_workload("llama-70b", on={NODE: range(8)}, state=WorkloadState.FAILED)
    assert only(live(xid(48), snapshot=a_snapshot([a_node(NODE)], [job]))).is_corroborated


def test_an_exporters_copy_of_the_state_is_no_source_beside_a_failed_job():
    job = a_workload("llama-70b", on={NODE: range(8)}, state=WorkloadState.FAILED)
    found = with_values(readings(NODE), 3, row_remap_failed=1.0)
    window = live(found=found, snapshot=a_snapshot([a_node(NODE)], [job]))
    assert only(window).is_corroborated
    assert not only(with_node(window, NODE, source="dcgm-exporter")).is_corroborated


def test_the_other_end_of_a_link_is_a_second_source():
    registers = {"registers": "0x10000000 0x0 0x0 0x0 0x0 0x0 0x0"}
    alone = live(xid(74, details=registers))
    both = live(xid(74, details=registers), xid(74, 3, index=5, details=registers), seconds=3)
    assert not only(alone).is_corroborated
    assert only(both).is_corroborated


def test_a_gpu_that_answers_long_after_contradicts_the_line():
    finding = only(live(xid(79), seconds=120))
    assert not finding.is_corroborated
    assert any("still answers" in each.text for each in finding.against)


def test_userspace_never_pages():
    assert only(live(xid(79, source=EventSource.USERSPACE))).severity is Severity.WARNING


def test_userspace_adds_nothing_to_what_the_kernel_says():
    finding = only(live(xid(63), xid(79, source=EventSource.USERSPACE)))
    assert finding.action is Action.RESET_AFTER_DRAIN


def test_old_news_informs_and_never_pages():
    window = live()
    told = NodeEvent(cluster=window.cluster, node=NODE, event=xid(79), is_history_only=True)
    finding = only(replace(window, events=(told,)))
    assert (finding.is_history_only, finding.severity, finding.is_corroborated) == (True, Severity.INFO, False)
