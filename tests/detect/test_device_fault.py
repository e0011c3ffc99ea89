from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import a_node, a_snapshot, a_workload, an_xid, gpu_uuid
from tests.detect.faults import NODE, judge, live, only, xid
from tests.detect.views import (
    a_job_window,
    at,
    readings,
    stale,
    with_node,
    with_reading,
    with_values,
)
from tests.fakes.clock import START

from trimtab.detect.detector import judge_events
from trimtab.detect.device_fault import DeviceFault
from trimtab.model.advice import Action, Severity
from trimtab.model.reading import Event, EventKind, EventSource, GpuState

# ---- what is said, and whom it hits ----


def test_a_gpu_that_fell_off_stops_its_gang():
    finding = only(a_job_window(events=[("gpu-01", an_xid(79, node="gpu-01"))]))
    assert finding.sentence == "gpu-01 GPU 3 fell off the bus (XID 79)"
    assert finding.impact == "llama-70b stands still: 32 GPUs"
    assert (finding.action, finding.severity) == (Action.CORDON_REBOOT, Severity.CRITICAL)
    assert (finding.gpus_hit, finding.loss_gpus, finding.is_corroborated) == (32, 32.0, True)
    assert finding.workloads_hit == ("research/llama-70b",)
    assert finding.subject.gpu == gpu_uuid("gpu-01", 3)
    assert finding.began_at == START


def test_work_that_is_no_gang_loses_one_pod():
    job = a_workload("serve", on={NODE: range(4)}, is_gang=False)
    finding = only(live(xid(79), snapshot=a_snapshot([a_node(NODE)], [job])))
    assert finding.impact == "serve loses 1 pod of 1: 4 GPUs"
    assert finding.loss_gpus == 4.0


def test_a_free_gpu_is_one_gpu_out_of_service():
    finding = only(live(xid(79), snapshot=a_snapshot([a_node(NODE)])))
    assert (finding.impact, finding.loss_gpus, finding.workloads_hit) == ("1 GPU out of service", 1.0, ())


def test_a_gang_that_has_restarted_elsewhere_is_not_hit():
    job = a_workload("llama-70b", on={"gpu-08": range(8)})
    finding = only(live(xid(79), snapshot=a_snapshot([a_node(NODE), a_node("gpu-08")], [job])))
    assert (finding.workloads_hit, finding.loss_gpus) == ((), 1.0)


def test_a_row_that_waits_stops_nobody():
    finding = only(live(found=with_values(readings(NODE), 2, row_remap_pending=1.0)))
    assert finding.action is Action.RESET_AFTER_DRAIN
    assert (finding.loss_gpus, finding.severity) == (0.0, Severity.WARNING)
    assert finding.sentence == "gpu-07 GPU 2 waits for a reset that replaces a memory row"


def test_a_well_node_has_no_finding():
    assert judge(live()) == []


# ---- one incident is one finding ----


def test_nvml_and_kernel_of_one_xid_are_one_source():
    events = (xid(48), xid(48, source=EventSource.NVML))
    assert not only(live(*events)).is_corroborated


def test_what_a_line_of_the_past_boot_says_is_not_raised():
    assert judge(live(xid(48, boot_id="boot-before"))) == []


def test_a_line_with_one_cursor_counts_once():
    finding = only(live(xid(79, cursor="i=7"), xid(79, cursor="i=7")))
    assert finding.facts["lines"] == "1"


def test_echoes_within_a_minute_fold_into_the_root():
    echoes = [xid(45, 4.0 * number) for number in range(32)]
    finding = only(live(xid(31, -38), xid(62), *echoes, seconds=130))
    assert finding.facts["label"] == "XID 62"
    assert finding.facts["lines"] == "34"


def test_the_rank_and_not_the_order_decides_the_root():
    finding = only(live(xid(119), xid(95, 5), xid(79, 9), xid(154, 10, details={"action": "0x2"}), seconds=10))
    assert finding.facts["label"] == "XID 79"


def test_gpus_of_one_node_that_fail_alike_are_one_incident():
    finding = only(live(xid(79, index=1), xid(79, index=4)))
    assert finding.sentence == "gpu-07 GPUs 1, 4: each fell off the bus (XID 79)"
    assert finding.facts["gpus"] == "2"
    assert finding.subject.gpu is None


def test_program_errors_a_minute_apart_are_two_and_at_once_are_one():
    assert len(judge(live(xid(31), xid(13, 55), xid(32, 55), seconds=60))) == 2


def test_ranks_of_one_job_that_fail_alike_are_one_incident():
    events = [(f"gpu-{node:02}", an_xid(31, node=f"gpu-{node:02}", index=index, at=at(node)))
              for node in range(4) for index in range(8)]  # fmt: skip
    finding = only(a_job_window(events=events, seen_at=at(5)))
    assert finding.sentence == (
        "llama-70b: gpu-00 GPU 0 stopped its program: memory access fault (XID 31), 32 GPUs on 4 nodes in all"
    )
    assert (finding.action, finding.subject.workload) == (Action.ALERT_OWNER, "research/llama-70b")


def test_the_clean_up_of_the_other_ranks_belongs_to_what_ended_the_job():
    others = [(f"gpu-{node:02}", an_xid(45, node=f"gpu-{node:02}", index=5, at=at(9))) for node in range(4)]
    finding = only(a_job_window(events=[("gpu-01", an_xid(79, node="gpu-01")), *others], seen_at=at(10)))
    assert finding.facts["label"] == "XID 79"
    assert len(finding.facts["members"].split()) == 5


def test_equal_errors_of_two_jobs_are_two_incidents():
    jobs = [a_workload("a", on={NODE: range(4)}), a_workload("b", on={NODE: range(4, 8)})]
    window = live(xid(31, index=0), xid(31, index=4), snapshot=a_snapshot([a_node(NODE)], jobs))
    assert len(judge(window)) == 2


@pytest.mark.parametrize("lines", [200_000])
def test_a_storm_is_one_finding_per_fault(lines: int):
    events = [an_xid(95, index=None, gpu=None, pci=f"0000:{number % 29:02x}:00.0", at=START) for number in range(29)]
    storm = [events[number % 29] for number in range(lines)]
    found = judge_events(storm, node=NODE)
    assert len(found) == 29
    assert sum(int(finding.facts["lines"]) for finding in found) == lines
    assert max(len(finding.evidence) for finding in found) <= 3


# ---- context ----


def test_a_context_switch_timeout_after_a_program_error_is_the_programs():
    finding = only(live(xid(13, -6), xid(109)))
    assert (finding.action, finding.facts["label"]) == (Action.ALERT_OWNER, "XID 13")


def test_a_context_switch_timeout_alone_wants_a_reset():
    assert only(live(xid(109))).action is Action.RESET_AFTER_DRAIN


def test_the_drivers_own_word_outweighs_the_program():
    found = with_values(readings(NODE), 3, recovery_action=1.0)
    finding = only(live(xid(13, -6), xid(109), found=found))
    assert finding.action is Action.CORDON_RESET
    assert finding.is_corroborated


def test_a_contained_memory_error_waits_for_the_jobs_end():
    finding = only(live(xid(48), xid(63), xid(94)))
    assert finding.action is Action.RESET_AFTER_DRAIN
    assert any("contained" in each.text for each in finding.against)


def test_an_uncontained_one_does_not():
    assert only(live(xid(48), xid(63), xid(94), xid(95))).action is Action.CORDON_RESET


def test_a_remapped_row_that_does_not_wait_is_a_trend():
    found = with_values(readings(NODE), 3, row_remap_pending=0.0)
    assert only(live(xid(63), found=found)).action is Action.WATCH


def test_a_gsp_timeout_is_no_hurry_while_the_gpu_answers_and_asks_nothing():
    found = with_values(readings(NODE), 3, recovery_action=0.0)
    assert only(live(xid(119), found=found)).action is Action.RESET_AFTER_DRAIN


def test_a_gsp_timeout_with_a_hang_pages():
    found = with_reading(readings(NODE), 3, state=GpuState.UNREADABLE, values={})
    finding = only(live(xid(119), found=found))
    assert (finding.action, finding.severity, finding.is_corroborated) == (
        Action.CORDON_RESET, Severity.CRITICAL, True)  # fmt: skip


def test_a_link_fault_that_comes_back_weighs_more():
    registers = {"registers": "0x0 0x0 0x10000 0x0 0x0 0x0 0x0"}
    once, again = xid(74, details=registers), xid(74, 600, details=registers)
    assert only(live(once)).action is Action.WATCH
    assert only(live(once, again, seconds=600)).action is Action.CORDON_RESET


def test_a_withdrawn_recovery_action_answers_what_came_before():
    taken_back = xid(154, 30, details={"action": "0x0"})
    assert judge(live(xid(48), xid(154, 1, details={"action": "0x1"}), taken_back, seconds=31)) == []


def test_a_gpu_that_came_back_is_raised_no_more():
    returned = replace(xid(79, 60), kind=EventKind.GPU_RETURNED, code=None)
    assert judge(live(xid(79), returned, seconds=61)) == []


# ---- the GPU's own state ----


def test_a_lost_gpu_is_found_without_any_line():
    found = with_reading(readings(NODE), 3, state=GpuState.LOST, values={})
    finding = only(live(found=found))
    assert finding.sentence == "gpu-07 GPU 3 is lost to the driver"
    assert (finding.action, finding.is_corroborated) == (Action.CORDON_REBOOT, True)


def test_a_lost_gpu_and_its_line_are_one_incident():
    found = with_reading(readings(NODE), 3, state=GpuState.LOST, values={})
    finding = only(live(xid(79), found=found))
    assert finding.sentence == "gpu-07 GPU 3 fell off the bus (XID 79)"
    assert len(finding.evidence) == 2


def test_all_gpus_lost_at_once_is_a_matter_of_the_driver():
    finding = only(live(found=readings(NODE, state=GpuState.LOST, values={})))
    assert (finding.action, finding.is_corroborated) == (Action.CONFIG_PROBLEM, False)


@pytest.mark.parametrize(
    ("value", "action", "severity"),
    [(1.0, Action.CORDON_RESET, Severity.WARNING), (2.0, Action.CORDON_REBOOT, Severity.CRITICAL),
     (3.0, Action.RESET_AFTER_DRAIN, Severity.WARNING), (7.0, Action.UNKNOWN, Severity.WARNING)],
)  # fmt: skip
def test_the_recovery_action_alone_is_enough(value, action, severity):
    finding = only(live(found=with_values(readings(NODE), 3, recovery_action=value)))
    assert (finding.action, finding.severity) == (action, severity)


@pytest.mark.parametrize("flag", ["row_remap_failed", "sram_ecc_threshold_exceeded", "memory_unrepairable"])
def test_memory_that_is_used_up_is_for_replacement(flag: str):
    finding = only(live(found=with_values(readings(NODE), 3, **{flag: 1.0})))
    assert finding.action is Action.HARDWARE_RMA
    assert "field diagnostic" in finding.advice


@pytest.mark.parametrize(
    ("corrected", "uncorrected", "action"),
    [(3, 58, Action.HARDWARE_RMA), (12, 48, Action.HARDWARE_RMA), (59, 0, Action.WATCH), (0, 4, None)],
)
def test_retired_pages_count_together(corrected, uncorrected, action):
    pages = {"retired_pages/correctable": float(corrected), "retired_pages/uncorrectable": float(uncorrected)}
    found = judge(live(found=with_values(readings(NODE), 3, **pages)))
    assert [finding.action for finding in found] == ([action] if action else [])


def test_an_exporters_flags_alone_do_not_suffice():
    window = live(found=with_values(readings(NODE), 3, recovery_action=1.0))
    assert not only(with_node(window, NODE, source="dcgm-exporter")).is_corroborated


def test_a_stale_reading_says_nothing():
    window = live(found=with_values(readings(NODE), 3, row_remap_pending=1.0), seconds=600)
    assert judge(stale(window, NODE, seconds=300)) == []


def test_an_absent_flag_is_not_a_set_one():
    found = with_reading(readings(NODE), 3, values={})
    assert judge(live(found=found)) == []


def test_a_uuid_is_found_by_the_address_of_the_line():
    finding = only(live(xid(79, gpu=None)))
    assert finding.subject.gpu == gpu_uuid(NODE, 3)


def test_an_event_past_the_span_raises_nothing():
    window = live(xid(48), seconds=1000)
    assert list(DeviceFault(span_seconds=900).detect(window)) == []
    assert list(DeviceFault(span_seconds=1100).detect(window)) != []


def test_the_same_window_gives_the_same_findings():
    window = a_job_window(events=[("gpu-01", an_xid(79, node="gpu-01")), ("gpu-02", an_xid(31, node="gpu-02"))])
    assert judge(window) == judge(window)


def test_a_fatal_switch_hits_the_whole_node():
    switch = Event(kind=EventKind.SXID, source=EventSource.KERNEL, at=START, code=24007, pci="0000:87:00.0",
                   severity="Fatal", link=53, boot_id="boot-a", text="SXid")  # fmt: skip
    job = a_workload("llama-70b", on={NODE: range(8)})
    finding = only(live(switch, snapshot=a_snapshot([a_node(NODE)], [job])))
    assert finding.sentence == "gpu-07 NVSwitch 0000:87:00.0 has a fatal NVSwitch fault (SXid 24007)"
    assert (finding.action, finding.loss_gpus, finding.subject.gpu) == (Action.CORDON_REBOOT, 8.0, None)


def test_a_file_without_node_or_gpu_still_reads_well():
    (finding,) = judge_events([an_xid(79, gpu=None, pci="0000:3d:00.0", boot_id=None)])
    assert finding.sentence == "GPU 3d:00.0 fell off the bus (XID 79)"
    (finding,) = judge_events([replace(an_xid(gpu=None, pci=None), kind=EventKind.RESET_REQUIRED, code=None)])
    assert finding.sentence == "A GPU cannot be used until it is reset"


def test_events_of_a_file_count_however_far_apart():
    early, late = an_xid(94, gpu=None), an_xid(95, gpu=None, at=START + timedelta(hours=30))
    assert {finding.action for finding in judge_events([early, late])} == {Action.ALERT_OWNER, Action.CORDON_RESET}


@pytest.mark.parametrize(
    ("asked", "action"),
    [("0x1", Action.CORDON_RESET), ("0x2", Action.CORDON_REBOOT), ("0x3", Action.RESET_AFTER_DRAIN)],
)
def test_what_the_driver_asks_for_beats_the_table(asked, action):
    """XID 79 alone is a reboot; the driver of this GPU may know better, in both directions."""
    assert only(live(xid(79), seconds=10)).action is Action.CORDON_REBOOT
    finding = only(live(xid(79), xid(154, 1, details={"action": asked}), seconds=10))
    assert finding.action is action
    assert "XID 79" in finding.sentence
    assert finding.severity is Severity.CRITICAL


def test_a_number_that_nobody_knows_and_a_minute_that_has_passed_leave_the_table_its_say():
    assert only(live(xid(79), xid(154, 1, details={"action": "0x9"}), seconds=10)).action is Action.CORDON_REBOOT
    late = only(live(xid(154, details={"action": "0x1"}), xid(79, 300), seconds=310))
    assert late.action is Action.CORDON_REBOOT


def test_a_line_that_a_program_could_have_written_takes_nothing_back():
    said = xid(154, 1, details={"action": "0x3"}, source=EventSource.USERSPACE)
    assert only(live(xid(79), said, seconds=10)).action is Action.CORDON_REBOOT
