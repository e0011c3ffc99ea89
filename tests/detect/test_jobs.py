"""hung_job, idle_gpu, fragmentation."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from tests.builders import BUSY, IDLE, a_node, a_placement, a_reading, a_snapshot, a_window, a_workload
from tests.detect.views import at, key, readings, series_of, with_node, with_reading, with_values
from tests.fakes.clock import START
from tests.field_cases import case

from trimtab.detect.detector import judge_events
from trimtab.detect.fragmentation import Fragmentation, room, stranded, stranded_by_size
from trimtab.detect.hung_job import HungJob
from trimtab.detect.idle_gpu import IdleGpu
from trimtab.model.advice import Action, Finding
from trimtab.model.cluster import Reservation, WorkloadState
from trimtab.model.reading import GpuInfo, GpuReading, GpuState
from trimtab.model.window import Window
from trimtab.settings import DetectSettings

HUNG = {**BUSY, "utilization_ratio": 1.0, "power_watts": 92.0, "dram_active_ratio": 0.0002,
        "tensor_active_ratio": 0.0, "sm_active_ratio": 0.013}  # fmt: skip
SETTINGS = DetectSettings(idle_after_seconds=600.0)
LATER = at(7200)

# ---- hung_job ----


def hung(found: list[GpuReading], *, held=range(8), series=None) -> list[Finding]:
    job = a_workload("pretrain-fig-3", on={"gpu-00": held})
    window = a_window({"gpu-00": found}, snapshot=a_snapshot([a_node("gpu-00")], [job]), at=LATER, series=series)
    return list(HungJob().detect(window))


def test_the_field_case_of_a_hung_collective_is_the_owners():
    names = {
        "DCGM_FI_DEV_GPU_UTIL": ("utilization_ratio", 0.01),
        "DCGM_FI_DEV_POWER_USAGE": ("power_watts", 1.0),
        "DCGM_FI_PROF_DRAM_ACTIVE": ("dram_active_ratio", 1.0),
        "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": ("tensor_active_ratio", 1.0),
        "DCGM_FI_PROF_SM_ACTIVE": ("sm_active_ratio", 1.0),
        "DCGM_FI_DEV_GPU_TEMP": ("temperature_celsius", 1.0),
    }
    found = [
        GpuReading(
            info=GpuInfo(uuid=uuid),
            holder="orchard/pretrain-fig-3",
            values={names[each][0]: value * names[each][1] for each, value in values.items() if each in names},
        )
        for uuid, values in json.loads(json.dumps(case("A26").expected))["per_gpu"].items()
    ]
    (finding,) = judge_events(readings=found, node="kestrel-27", at=START)
    assert finding.sentence == "orchard/pretrain-fig-3 hangs: its ranks wait in a collective that does not end"
    assert (finding.action, finding.gpus_hit) == (Action.ALERT_OWNER, 8)


def test_a_job_whose_ranks_all_wait_hangs():
    (finding,) = hung(readings("gpu-00", values=HUNG))
    assert (finding.rule, finding.loss_gpus, finding.action) == ("hung_job", 8.0, Action.ALERT_OWNER)


@pytest.mark.parametrize(
    "changes",
    [{"power_watts": 500.0}, {"dram_active_ratio": 0.3}, {"tensor_active_ratio": 0.2}, {"utilization_ratio": 0.7}],
    ids=lambda changes: next(iter(changes)),
)
def test_one_rank_at_work_is_no_hang(changes):
    assert hung(with_values(readings("gpu-00", values=HUNG), 5, **changes)) == []


def test_a_rank_that_cannot_be_read_leaves_it_open():
    assert hung(with_reading(readings("gpu-00", values=HUNG), 5, state=GpuState.LOST, values={})) == []


def test_a_rank_without_memory_figures_leaves_it_open():
    without = {name: value for name, value in HUNG.items() if name != "dram_active_ratio"}
    assert hung(readings("gpu-00", values=without)) == []


def test_a_short_wait_is_no_hang():
    busy = np.ones(91)
    busy[-10] = 0.4
    keys = [key("gpu-00", index) for index in range(8)]
    series = series_of(
        {"utilization_ratio": dict.fromkeys(keys, busy), "power_watts": dict.fromkeys(keys, 92.0)}, end=LATER
    )
    assert hung(readings("gpu-00", values=HUNG), series=series) == []
    busy[-10] = 1.0
    series = series_of(
        {"utilization_ratio": dict.fromkeys(keys, busy), "power_watts": dict.fromkeys(keys, 92.0)}, end=LATER
    )
    assert len(hung(readings("gpu-00", values=HUNG), series=series)) == 1


def test_a_gpu_that_nobody_holds_hangs_for_nobody():
    assert list(HungJob().detect(a_window({"gpu-00": readings("gpu-00", values=HUNG)}))) == []


# ---- idle_gpu ----


def idle_window(activity=0.0, *, seconds: float = 900.0, held=range(8), state=None, values=IDLE, **workload) -> Window:
    job = a_workload("eval-9", on={"gpu-00": held}, state=state, **workload)
    keys = [key("gpu-00", index) for index in range(8)]
    series = series_of(
        {
            "utilization_ratio": dict.fromkeys(keys, activity),
            "sm_active_ratio": dict.fromkeys(keys, activity),
            "power_watts": dict.fromkeys(keys, values.get("power_watts", np.nan)),
        },
        end=LATER,
        seconds=seconds,
    )
    return a_window(
        {"gpu-00": readings("gpu-00", values=values)},
        snapshot=a_snapshot([a_node("gpu-00")], [job]),
        at=LATER,
        series=series,
    )


def idle(window: Window) -> list[Finding]:
    return list(IdleGpu(SETTINGS).detect(window))


def test_what_is_held_and_unused_is_the_owners():
    (finding,) = idle(idle_window())
    assert finding.sentence == "eval-9 holds 8 GPUs and uses none"
    assert (finding.action, finding.loss_gpus, finding.is_corroborated) == (Action.ALERT_OWNER, 8.0, True)


def test_a_part_that_is_idle_is_counted():
    window = idle_window()
    activity = window.series["sm_active_ratio"].values.copy()
    activity[:, 2:] = 0.8
    series = {name: replace(each, values=activity) if "ratio" in name else each
              for name, each in window.series.items()}  # fmt: skip
    (finding,) = idle(replace(window, series=series))
    assert finding.sentence == "eval-9 leaves idle 2 of 8 GPUs"
    assert finding.loss_gpus == 2.0


def test_one_moment_of_work_in_the_span_is_work():
    activity = np.zeros(91)
    activity[40] = 0.6
    assert idle(idle_window(activity)) == []


def test_unknown_activity_is_not_idle():
    assert idle(idle_window(np.nan)) == []


def test_half_unknown_activity_is_not_idle():
    activity = np.zeros(91)
    activity[31:70] = np.nan
    assert idle(idle_window(activity)) == []


@pytest.mark.parametrize("interval_seconds", [15.0, 30.0])
def test_a_node_that_reports_more_seldom_than_the_rows_come_is_seen_all_the_same(interval_seconds):
    activity = np.full(91, np.nan)
    activity[[round(number * interval_seconds / 10.0) for number in range(int(900 / interval_seconds))]] = 0.0
    window = idle_window(activity)
    assert idle(window) == []
    (finding,) = idle(with_node(window, "gpu-00", interval_seconds=interval_seconds))
    assert finding.gpus_hit == 8


def test_power_is_evidence_of_work():
    assert idle(idle_window(values={**IDLE, "power_watts": 400.0})) == []


def test_too_short_a_history_says_nothing():
    assert idle(idle_window(seconds=300)) == []


def test_the_recently_started_are_given_time():
    assert idle(idle_window(started_at=LATER - timedelta(seconds=300))) == []


def test_what_is_starting_is_given_time():
    assert idle(idle_window(state=WorkloadState.STARTING)) == []


def test_a_free_gpu_is_not_held_and_idle():
    (finding,) = idle(idle_window(held=range(2)))
    assert finding.gpus_hit == 2


def test_a_holder_that_only_reports_name_is_enough():
    window = idle_window()
    gpus = {
        each: replace(now, reading=replace(now.reading, holder="orchard/nb-1")) for each, now in window.gpus.items()
    }
    (finding,) = idle(replace(window, gpus=gpus, snapshot=None))
    assert finding.workloads_hit == ("orchard/nb-1",)


# ---- fragmentation ----


def scattered(*free: int, **changes):
    """Nodes of 8 GPUs with so many free ones."""
    nodes = [a_node(f"gpu-{number:02}") for number in range(len(free))]
    jobs = [
        a_workload(f"small-{number}", on={f"gpu-{number:02}": range(8 - count)}, gpus_per_pod=8 - count)
        for number, count in enumerate(free)
        if count < 8
    ]
    return a_snapshot(nodes, [*jobs, *changes.pop("waiting", ())], **changes)


def fragmented(snapshot, *, after: float = 600.0, spares_kept: int = 0):
    window = a_window({}, snapshot=snapshot, at=START + timedelta(seconds=after))
    return list(Fragmentation(DetectSettings(), spares_kept=spares_kept).detect(window))


def test_stranded_gpus_are_those_that_a_pod_of_k_cannot_use():
    snapshot = scattered(4, 3, 2, 8, 0)
    assert {k: stranded(snapshot, k) for k in (1, 2, 4, 8)} == {1: 0, 2: 1, 4: 5, 8: 9}
    assert stranded_by_size(snapshot) == {1: 0, 2: 1, 4: 5, 8: 9}


def test_spares_and_reservations_are_no_room():
    snapshot = scattered(4, 8, 8, reservations=(Reservation(node="gpu-00", gpus=3, workload="w", command="R1"),))
    assert room(snapshot, spares_kept=1) == {"gpu-00": 1, "gpu-02": 8}
    marked = replace(snapshot, nodes=(*snapshot.nodes[:2], replace(snapshot.nodes[2], is_spare=True)))
    assert room(marked, spares_kept=1) == {"gpu-00": 1, "gpu-01": 8}


def test_cordoned_nodes_are_no_room():
    snapshot = scattered(4, 4)
    cordoned = replace(snapshot, nodes=(replace(snapshot.nodes[0], is_cordoned=True), snapshot.nodes[1]))
    assert stranded(cordoned, 8) == 4


def test_a_job_that_placement_alone_keeps_waiting_is_found():
    (finding,) = fragmented(scattered(4, 3, 2, waiting=[a_workload("eval-9")]))
    assert finding.sentence == "eval-9 waits for 1 × 8 GPUs: 9 free, never 8 together"
    assert (finding.action, finding.loss_gpus) == (Action.WATCH, 8.0)
    assert finding.began_at == START


def test_a_gang_that_finds_some_of_its_seats_is_found():
    (finding,) = fragmented(scattered(8, 8, 4, 4, 4, 4, waiting=[a_workload("llama-70b", pods=4)]))
    assert finding.sentence == "llama-70b waits for 4 × 8 GPUs: 32 free, room for 2 pods of 8 only"


@pytest.mark.parametrize(
    ("free", "changes"),
    [
        ((4, 3), {}),  # too few free at all
        ((8, 1), {}),  # it fits
        ((4, 3, 2), {"waiting_reason": "quota"}),
        ((4, 3, 2), {"waiting_reason": "insufficient quota for nvidia.com/gpu in flavor a"}),
        ((4, 3, 2), {"waiting_since": START + timedelta(seconds=550)}),
        ((4, 3, 2), {"waiting_since": None}),
    ],
)
def test_other_reasons_to_wait_are_no_fragmentation(free, changes):
    assert fragmented(scattered(*free, waiting=[a_workload("eval-9", **changes)])) == []


def test_a_spare_kept_for_faults_is_not_given_away():
    snapshot = scattered(8, 4, 4, waiting=[a_workload("eval-9")])
    assert fragmented(snapshot) == []
    (finding,) = fragmented(snapshot, spares_kept=1)
    assert finding.sentence == "eval-9 waits for 1 × 8 GPUs: 8 free, never 8 together"


def test_without_a_snapshot_nothing_is_claimed():
    assert list(Fragmentation(DetectSettings()).detect(a_window({}))) == []


def test_a_terminating_pod_still_holds_its_gpus():
    job = a_workload("old", state=WorkloadState.STOPPING, placements=(a_placement("gpu-00", range(8)),))
    assert stranded(a_snapshot([a_node("gpu-00")], [job]), 8) == 0


def test_the_reading_of_a_shared_gpu_blames_nobody():
    found = [a_reading("gpu-00", index, values=HUNG, shared_by=("a", "b"), holder="a") for index in range(8)]
    assert list(HungJob().detect(a_window({"gpu-00": found}))) == []
