from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import CLUSTER, a_node, a_snapshot, a_window, a_workload
from tests.detect.beats import NODE, Beats, a_fault, a_finding, after_boot, restarted, returned, window_at, withdrawn
from tests.detect.views import (
    at,
    key,
    readings,
    series_of,
    stale,
    with_node,
    with_reading,
    with_values,
)

from trimtab.model.advice import Action, FindingState, Subject
from trimtab.model.reading import GpuState
from trimtab.model.window import Window

# ---- closing ----


def test_what_is_clear_for_its_time_is_closed():
    beats = Beats()
    beats.beat(a_finding())
    assert beats.quiet(60) == []
    (closed,) = beats.quiet(30)
    assert (closed.state, closed.close_reason) == (FindingState.CLOSED, "no longer hot")
    assert beats.open == ()


def test_what_comes_back_meanwhile_stays_open():
    beats = Beats()
    beats.beat(a_finding())
    beats.quiet(60)
    beats.beat(a_finding(), after=5)
    assert beats.open[0].clear_since is None
    assert beats.quiet(60) == []


def test_what_comes_back_soon_has_its_number_again():
    beats = Beats()
    beats.beat(a_finding())
    beats.quiet(120)
    changes = beats.beat(a_finding(), after=300)
    assert [(each.name, each.opened_at) for each in changes.opened] == [("F1", at(0))]


def test_what_comes_back_late_has_a_new_number():
    beats = Beats()
    beats.beat(a_finding())
    beats.quiet(120)
    assert [each.name for each in beats.beat(a_finding(), after=700).opened] == ["F2"]


def test_a_node_that_is_not_seen_closes_nothing():
    beats = Beats()
    beats.beat(a_finding())
    unseen = lambda seconds: stale(window_at(seconds), NODE, seconds=300)  # noqa: E731
    assert beats.quiet(7200, step=600, window=unseen) == []
    assert beats.open[0].finding.facts["unseen"] == "cannot be seen: no report from gpu-07"
    (closed,) = beats.quiet(90)
    assert closed.id == 1
    assert "unseen" not in closed.finding.facts


def test_a_window_without_the_node_closes_nothing():
    beats = Beats()
    beats.beat(a_finding())
    assert beats.quiet(7200, step=600, window=lambda seconds: a_window({}, at=at(seconds))) == []


def test_a_node_that_left_the_cluster_closes_its_findings():
    beats = Beats()
    beats.beat(a_finding())
    gone = stale(window_at(300, snapshot=a_snapshot([a_node("gpu-08")])), NODE, seconds=200)
    (closed,) = beats.beat(window=gone, after=300).closed
    assert closed.close_reason == "gpu-07 left the cluster"


def test_a_detector_that_failed_closes_nothing():
    beats = Beats()
    beats.beat(a_finding())
    for _ in range(20):
        assert beats.beat(after=30, judged={"idle_gpu"}).closed == ()
    assert beats.open[0].clear_since is None


def test_without_a_snapshot_what_rests_on_it_stays():
    beats = Beats()
    waits = a_finding("fragmentation", subject=Subject(cluster=CLUSTER, workload="research/eval-9"))
    beats.beat(waits)
    assert beats.quiet(600) == []
    full = lambda seconds: window_at(seconds, snapshot=a_snapshot([a_node(NODE)]))  # noqa: E731
    assert len(beats.quiet(90, window=full)) == 1


def test_too_little_history_is_no_all_clear():
    job = a_workload("llama-70b", on={NODE: range(8)})
    idle = a_finding("idle_gpu", subject=Subject(cluster=CLUSTER, workload=job.id),
                     facts={"series": "sm_active_ratio", "series_seconds": "600"})  # fmt: skip
    snapshot = a_snapshot([a_node(NODE)], [job])

    def window(seconds: float, *, covers: float) -> Window:
        keys = [key(NODE, index) for index in range(8)]
        series = series_of({"sm_active_ratio": dict.fromkeys(keys, 0.8)}, end=at(seconds), seconds=covers)
        return window_at(seconds, snapshot=snapshot, series=series)

    beats = Beats()
    beats.beat(idle)
    assert beats.quiet(600, window=lambda seconds: window(seconds, covers=100)) == []
    assert len(beats.quiet(90, window=lambda seconds: window(seconds, covers=900))) == 1


def test_an_idle_job_that_is_over_is_closed_without_history():
    idle = a_finding("idle_gpu", subject=Subject(cluster=CLUSTER, workload="research/gone"),
                     facts={"series": "sm_active_ratio", "series_seconds": "600"})  # fmt: skip
    beats = Beats()
    beats.beat(idle)
    assert len(beats.quiet(90, window=lambda seconds: window_at(seconds, snapshot=a_snapshot([a_node(NODE)])))) == 1


def test_a_program_error_closes_an_hour_after_its_last_line():
    beats = Beats()
    beats.beat(a_fault(action=Action.ALERT_OWNER, facts={"kind": "app", "needs": ""}))
    assert beats.quiet(3540, step=60) == []
    assert len(beats.quiet(120, step=60)) == 1


# ---- return to service of a device ----


def test_a_device_that_needs_a_reset_stays_open_until_one_is_seen():
    beats = Beats()
    beats.beat(a_fault())
    assert beats.quiet(7200, step=600) == []
    assert beats.open[0].finding.facts["unseen"] == "stays open: its reset has not been seen"


@pytest.mark.parametrize("window", [after_boot, returned, withdrawn, restarted])
def test_a_reset_device_closes_when_well_for_ten_minutes(window):
    beats = Beats()
    beats.beat(a_fault(facts={"energy_joules": "5000000000"}))
    assert beats.quiet(600, step=60, window=window) == []
    (closed,) = beats.quiet(120, step=60, window=window)
    assert closed.close_reason == "well for 10 min, and the driver asks for nothing"
    assert "reset_seen_at" in closed.finding.facts


def test_a_reset_that_was_seen_once_is_remembered():
    beats = Beats()
    beats.beat(a_fault())
    beats.beat(window=returned(90), after=90)
    assert len(beats.quiet(660, step=60)) == 1


def test_a_new_fault_after_the_reset_wants_a_new_one():
    beats = Beats()
    beats.beat(a_fault())
    beats.beat(window=returned(90), after=90)
    beats.beat(a_fault(when=100), after=30)
    assert beats.quiet(1200, step=60) == []


def test_a_withdrawn_wish_is_no_reboot():
    beats = Beats()
    beats.beat(a_fault(action=Action.CORDON_REBOOT, facts={"needs": "reboot"}))
    assert beats.quiet(1200, step=60, window=withdrawn) == []
    assert len(beats.quiet(720, step=60, window=after_boot)) == 1


@pytest.mark.parametrize(
    "found",
    [
        with_values(readings(NODE), 3, recovery_action=1.0),
        with_reading(readings(NODE), 3, state=GpuState.LOST, values={}),
        readings(NODE)[:3],
    ],
)
def test_a_device_that_is_not_well_stays_open(found):
    def window(seconds: float) -> Window:
        return with_node(window_at(seconds, found=found), NODE, boot_id="boot-b", gpus_expected=8)

    beats = Beats()
    beats.beat(a_fault())
    assert beats.quiet(1200, step=60, window=window) == []


def test_a_state_that_ended_is_its_own_proof():
    beats = Beats()
    beats.beat(a_fault(facts={"rests_on": "state"}))
    assert len(beats.quiet(660, step=60)) == 1


def test_a_replaced_card_closes_its_finding():
    new = with_reading(readings(NODE), 3, info=replace(readings(NODE)[3].info, uuid="GPU-new"))
    beats = Beats()
    beats.beat(a_fault())
    (closed,) = beats.beat(window=with_node(window_at(60, found=new), NODE, gpus_expected=8), after=60).closed
    assert closed.close_reason == "the card was replaced"
