"""hotspot and straggler."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest
from tests.builders import BUSY
from tests.detect.views import a_job_window, at, key, series_of, stale

from trimtab.detect.hotspot import Hotspot
from trimtab.detect.straggler import Straggler
from trimtab.model.advice import Action, Finding
from trimtab.model.cluster import GpuKey
from trimtab.model.window import Window
from trimtab.settings import DetectSettings

SETTINGS = DetectSettings()
LATER = at(7200)
KEYS = [key(f"gpu-{node:02}", index) for node in range(4) for index in range(8)]
CLOCK = BUSY["sm_clock_hertz"]


def slow_window(changes: dict[GpuKey, dict[str, float]], *, series=None, seconds: float = 900.0, **job) -> Window:
    """A gang of 32 GPUs at work; these have other values, now and all through the series."""
    window = a_job_window(seen_at=LATER, **job)
    gpus = {
        each: replace(now, reading=replace(now.reading, values={**now.reading.values, **changes.get(each, {})}))
        for each, now in window.gpus.items()
    }
    metrics = ("sm_clock_hertz", "utilization_ratio", "sm_active_ratio", "temperature_celsius", "power_watts",
               "clock_event_active/hw_thermal", "clock_event_active/hw_power_brake")  # fmt: skip
    values = {
        metric: {each: changes.get(each, {}).get(metric, BUSY.get(metric, 0.0)) for each in KEYS} for metric in metrics
    }
    return replace(window, gpus=gpus, series=series_of({**values, **(series or {})}, end=LATER, seconds=seconds))


def stragglers(window: Window) -> list[Finding]:
    return list(Straggler(SETTINGS).detect(window))


def hotspots(window: Window) -> list[Finding]:
    return list(Hotspot(SETTINGS).detect(window))


HOT = {"sm_clock_hertz": 0.55 * CLOCK, "temperature_celsius": 87.0, "clock_event_active/hw_thermal": 1.0,
       "power_watts": 400.0}  # fmt: skip
WAITING = {"sm_active_ratio": 0.5}

# ---- straggler ----


def test_a_hot_slow_rank_holds_its_gang_back():
    (finding,) = stragglers(slow_window({KEYS[11]: HOT}))
    assert finding.sentence == "gpu-01 GPU 3 holds llama-70b back, at 55 % of its clock"
    assert finding.impact == "llama-70b: about 45 % slower, 32 GPUs"
    assert (finding.action, finding.is_corroborated) == (Action.RESET_AFTER_DRAIN, True)
    assert finding.loss_gpus == pytest.approx(32 * 0.45, abs=0.1)
    assert finding.subject.node == "gpu-01"


def test_several_slow_ranks_of_a_node_are_one_incident():
    (finding,) = stragglers(slow_window({KEYS[index]: HOT for index in (8, 9, 10, 11)}))
    assert finding.sentence == "gpu-01 GPUs 0, 1, 2, 3 hold llama-70b back, at 55 % of its clock"


def test_half_a_gang_slow_is_still_seen():
    slow = {KEYS[index]: HOT for index in range(8)}
    window = slow_window(slow, nodes=2)
    (finding,) = stragglers(window)
    assert finding.subject.node == "gpu-00"


def test_a_clock_alone_is_likely_and_moves_nothing():
    (finding,) = stragglers(slow_window({KEYS[11]: {"sm_clock_hertz": 0.7 * CLOCK}}))
    assert finding.sentence == "gpu-01 GPU 3 holds llama-70b back, at 70 % of its clock, likely (1 of 4 signs)"
    assert (finding.action, finding.is_corroborated) == (Action.WATCH, False)


def test_others_that_wait_are_the_second_sign():
    waiting = {each: WAITING for each in KEYS if each != KEYS[11]}
    (finding,) = stragglers(slow_window({KEYS[11]: {"sm_clock_hertz": 0.7 * CLOCK}, **waiting}))
    assert finding.is_corroborated


def test_more_activity_alone_says_nothing():
    assert stragglers(slow_window({each: WAITING for each in KEYS if each != KEYS[11]})) == []


def test_more_activity_and_a_narrow_link_say_something():
    waiting = {each: WAITING for each in KEYS if each != KEYS[11]}
    narrow = {"pcie_link_width_lanes": 8.0, "pcie_link_width_lanes_max": 16.0}
    (finding,) = stragglers(slow_window({**waiting, KEYS[11]: narrow}))
    assert any("8 of 16 lanes" in each.text for each in finding.evidence)
    assert any("clock is that of its gang" in each.text for each in finding.against)


def test_a_rank_at_its_power_limit_is_no_straggler():
    assert stragglers(slow_window({KEYS[11]: {"sm_clock_hertz": 0.7 * CLOCK, "power_watts": 699.0}})) == []


def test_an_even_gang_has_no_straggler():
    assert stragglers(slow_window({})) == []
    assert stragglers(slow_window({each: {"sm_clock_hertz": 0.6 * CLOCK} for each in KEYS})) == []


def test_a_short_dip_is_no_straggler():
    dip = np.full(91, CLOCK)
    dip[-5:] = 0.5 * CLOCK
    clocks = {each: dip if each == KEYS[11] else CLOCK for each in KEYS}
    assert stragglers(slow_window({KEYS[11]: HOT}, series={"sm_clock_hertz": clocks})) == []


def test_a_gang_at_rest_has_no_straggler():
    assert stragglers(slow_window({each: {"utilization_ratio": 0.1} for each in KEYS} | {KEYS[11]: HOT})) == []


def test_a_gang_that_just_started_is_given_time():
    assert stragglers(slow_window({KEYS[11]: HOT}, started_at=LATER - timedelta(seconds=60))) == []


def test_ranks_that_are_no_gang_wait_for_nobody():
    assert stragglers(slow_window({KEYS[11]: HOT}, is_gang=False)) == []


def test_a_silent_rank_is_not_judged():
    assert stragglers(stale(slow_window({KEYS[11]: HOT}), "gpu-01", seconds=300)) == []


def test_too_short_a_history_names_nobody():
    assert stragglers(slow_window({KEYS[11]: HOT}, seconds=60)) == []


# ---- hotspot ----


def test_gpus_that_throttle_on_heat_are_one_finding_per_node():
    (finding,) = hotspots(slow_window({KEYS[index]: HOT for index in (8, 9, 10)}))
    assert finding.sentence == "gpu-01: 3 of 8 GPUs throttle on heat"
    assert finding.impact == "llama-70b: about 45 % slower, 32 GPUs"
    assert finding.action is Action.RESET_AFTER_DRAIN


def test_the_power_brake_is_told_apart():
    (finding,) = hotspots(slow_window({KEYS[8]: {"clock_event_active/hw_power_brake": 1.0}}))
    assert finding.sentence == "gpu-01 GPU 0 is held down by the power brake"


def test_a_throttle_that_came_and_went_is_none():
    bits = np.zeros(91)
    bits[-20:] = 1.0
    active = {"clock_event_active/hw_thermal": {each: bits if each == KEYS[8] else 0.0 for each in KEYS}}
    assert hotspots(slow_window({KEYS[8]: HOT | {"temperature_celsius": 62.0}}, series=active)) == []


def test_counters_of_seconds_do_where_there_are_no_bits():
    counters = {
        "clock_event_seconds_total/hw_thermal": {
            each: 1000.0 + 10.0 * np.arange(91) * (each == KEYS[8]) for each in KEYS
        }
    }
    window = slow_window({}, series=counters)
    series = {name: each for name, each in window.series.items() if not name.startswith("clock_event_active")}
    (finding,) = hotspots(replace(window, series=series))
    assert finding.sentence == "gpu-01 GPU 0 throttles on heat"


def test_a_gpu_hot_against_its_peers_is_watched():
    (finding,) = hotspots(slow_window({KEYS[8]: {"temperature_celsius": 84.0}}))
    assert finding.sentence == "gpu-01 GPU 0 runs hot against peers of its model and load"
    assert (finding.action, finding.is_corroborated) == (Action.WATCH, False)


def test_a_hot_hall_has_no_hotspot():
    assert hotspots(slow_window({each: {"temperature_celsius": 84.0} for each in KEYS})) == []


def test_more_power_is_not_more_heat_than_peers():
    assert hotspots(slow_window({KEYS[8]: {"temperature_celsius": 84.0, "power_watts": 300.0}})) == []


def test_a_warm_gpu_below_the_floor_hurts_nobody():
    cool = {each: {"temperature_celsius": 40.0} for each in KEYS}
    assert hotspots(slow_window(cool | {KEYS[8]: {"temperature_celsius": 65.0}})) == []


def test_without_series_nothing_is_claimed():
    assert hotspots(a_job_window()) == []
    assert stragglers(a_job_window()) == []


def test_heat_and_slowness_of_one_gpu_are_one_incident():
    window = slow_window({KEYS[11]: HOT})
    (slow,), (hot,) = stragglers(window), hotspots(window)
    assert set(slow.facts["members"].split()) & set(hot.facts["members"].split())


def test_rows_that_still_fill_up_hide_nothing():
    window = slow_window({KEYS[11]: HOT})
    series = {}
    for name, each in window.series.items():
        values = each.values.copy()
        values[-1] = np.nan
        series[name] = replace(each, values=values)
    filling = replace(window, series=series)
    assert [each.incident for each in stragglers(filling) + hotspots(filling)] == [
        each.incident for each in stragglers(window) + hotspots(window)
    ]
