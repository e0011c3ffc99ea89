from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

import numpy as np
import pytest
from tests.builders import CLUSTER, a_delivery, a_node, a_reading, a_report, a_snapshot, an_xid, gpu_uuid
from tests.fakes.clock import START

from trimtab.model.cluster import GpuKey
from trimtab.model.metric import BY_NAME, split_key
from trimtab.model.reading import Delivery
from trimtab.model.window import Series, Window
from trimtab.store.ring import GPUS_PER_NODE_MAX, RING_METRICS, Ring

STEP = 10.0


def after(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_ring(span_seconds: float = 120.0, **changes: object) -> Ring:
    return Ring(**{"cluster": CLUSTER, "span_seconds": span_seconds, "interval_seconds": STEP, **changes})


def said(
    seconds: float,
    watts: float = 500.0,
    *,
    node: str = "gpu-00",
    sequence: int | None = None,
    gpus: tuple[int, ...] = (0, 1),
    replay: bool = False,
    received: float | None = None,
    **changes: object,
) -> Delivery:
    """A report sampled `seconds` after START; each GPU draws `watts` plus its index."""
    readings = tuple(a_reading(node, index, values={"power_watts": watts + index}) for index in gpus)
    number = int(seconds) if sequence is None else sequence
    report = a_report(node, sequence=number, at=after(seconds), gpus=0, **changes)
    return a_delivery(
        replace(report, gpus=readings),
        received_at=after(seconds if received is None else received),
        is_replay=replay,
    )


def key(node: str = "gpu-00", index: int = 0) -> GpuKey:
    return GpuKey(cluster=CLUSTER, node=node, uuid=gpu_uuid(node, index))


def window_of(ring: Ring, at_seconds: float, *, span_seconds: float = 120.0, nodes: tuple[str, ...] = ()) -> Window:
    snapshot = a_snapshot([a_node(name) for name in nodes]) if nodes else None
    return ring.window(after(at_seconds), span_seconds=span_seconds, snapshot=snapshot)


def points(series: Series, gpu: GpuKey) -> Mapping[float, float]:
    column = series.values[:, series.gpus.index(gpu)]
    pairs = zip(series.at_seconds, column, strict=True)
    return {float(at) - START.timestamp(): float(value) for at, value in pairs if not np.isnan(value)}


def test_every_ring_metric_is_in_the_catalogue() -> None:
    for sample in RING_METRICS:
        name, label = split_key(sample)
        assert name in BY_NAME
        assert label is None or label in BY_NAME[name].label_values


def test_a_window_has_each_gpus_series_and_last_reading() -> None:
    ring = a_ring()
    ring.add([said(0, 100.0), said(10, 110.0)])
    ring.add([said(20, 120.0)])
    window = window_of(ring, 25)
    assert points(window.series["power_watts"], key(index=1)) == {0.0: 101.0, 10.0: 111.0, 20.0: 121.0}
    assert points(window.series["sm_active_ratio"], key()) == {}  # absent is not zero
    assert set(window.series) == set(RING_METRICS)
    assert window.series["power_watts"].values.dtype == np.float32
    now = window.gpus[key(index=1)]
    assert (now.at, now.value("power_watts")) == (after(20), 121.0)
    assert (window.cluster, window.at, window.span_seconds, window.snapshot) == (CLUSTER, after(25), 120.0, None)


def test_an_empty_ring_gives_an_empty_window() -> None:
    window = window_of(a_ring(), 0)
    assert (window.gpus, window.nodes, window.events) == ({}, {}, ())
    assert window.series["power_watts"].values.shape == (0, 0)


def test_a_window_shows_its_span_and_nothing_after_its_moment() -> None:
    ring = a_ring(span_seconds=300)
    ring.add([said(seconds, float(seconds)) for seconds in range(0, 200, 10)])
    window = window_of(ring, 155, span_seconds=30)
    assert points(window.series["power_watts"], key()) == {130.0: 130.0, 140.0: 140.0, 150.0: 150.0}
    assert list(np.diff(window.series["power_watts"].at_seconds)) == [STEP, STEP]


def test_a_window_says_where_its_series_begin() -> None:
    ring = a_ring(span_seconds=900)
    ring.add([said(1000), said(1010)])  # just started: 20 s are known of the 900 asked for
    assert len(window_of(ring, 1010, span_seconds=900).series["power_watts"].at_seconds) == 2
    ring.add([said(900, received=1010, replay=True)])
    assert len(window_of(ring, 1010, span_seconds=900).series["power_watts"].at_seconds) == 12


def test_the_ring_turns_round_and_forgets_what_is_past() -> None:
    ring = a_ring(span_seconds=60)
    for seconds in range(0, 3000, 10):
        ring.add([said(seconds, float(seconds))])
        found = points(window_of(ring, seconds, span_seconds=60).series["power_watts"], key())
        assert found == {float(at): float(at) for at in range(max(seconds - 50, 0), seconds + 10, 10)}


def test_after_a_long_silence_nothing_old_is_left_in_the_slots() -> None:
    ring = a_ring(span_seconds=60)
    ring.add([said(seconds) for seconds in range(0, 400, 10)])
    ring.add([said(100_000, 7.0)])
    assert points(window_of(ring, 100_000, span_seconds=60).series["power_watts"], key()) == {100_000.0: 7.0}


def test_a_window_does_not_change_when_more_is_added() -> None:
    ring = a_ring(span_seconds=60)
    ring.add([said(0, 1.0)])
    window = window_of(ring, 5)
    before = points(window.series["power_watts"], key())
    ring.add([said(seconds, 9.0, events=(an_xid(79, at=after(seconds)),)) for seconds in range(10, 900, 10)])
    assert points(window.series["power_watts"], key()) == before
    assert window.gpus[key()].value("power_watts") == 1.0
    assert window.events == ()
    with pytest.raises(ValueError, match="read-only"):
        window.series["power_watts"].values[0, 0] = 3.0


def test_a_replay_fills_the_past_and_is_never_the_last_word() -> None:
    ring = a_ring(span_seconds=900)
    ring.add([said(700, 5.0)])
    ring.add([said(20, 1.0, received=700, replay=True), said(0, 0.5, node="gpu-09", received=700, replay=True)])
    window = window_of(ring, 700, span_seconds=900)
    assert points(window.series["power_watts"], key()) == {20.0: 1.0, 700.0: 5.0}
    assert window.gpus[key()].at == after(700)
    assert "gpu-09" not in window.nodes
    assert key("gpu-09") not in window.gpus
    assert points(window.series["power_watts"], key("gpu-09")) == {0.0: 0.5}


def test_what_is_older_than_the_ring_is_left_out() -> None:
    ring = a_ring(span_seconds=60)
    ring.add([said(5000, 5.0)])
    ring.add([said(10, 1.0, received=5000, replay=True)])
    assert points(window_of(ring, 5000, span_seconds=60).series["power_watts"], key()) == {5000.0: 5.0}


def test_order_within_a_node_is_by_sequence() -> None:
    ring = a_ring()
    ring.add([said(50, 5.0, sequence=5), said(40, 4.0, sequence=4, received=55)])  # live first, then the backlog
    window = window_of(ring, 60)
    assert window.gpus[key()].value("power_watts") == 5.0
    ring.add([said(45, 6.0, sequence=6, received=60)])  # the node's clock was set back
    assert window_of(ring, 60).gpus[key()].value("power_watts") == 6.0


def test_a_new_spool_begins_anew() -> None:
    ring = a_ring()
    ring.add([said(50, 5.0, sequence=900)])
    ring.add([said(60, 6.0, sequence=1, spool_id="spool-b")])
    assert window_of(ring, 60).gpus[key()].value("power_watts") == 6.0


def test_a_clock_that_is_not_believed_counts_by_receipt() -> None:
    ring = a_ring()
    wild = said(-1e9, 3.0, sequence=3, received=30, events=(an_xid(79, at=after(-1e9)),))
    ring.add([said(0, 1.0, sequence=1), replace(wild, is_clock_believed=False)])
    window = window_of(ring, 35)
    assert points(window.series["power_watts"], key()) == {0.0: 1.0, 30.0: 3.0}
    assert window.nodes["gpu-00"].clock_skew_seconds == pytest.approx(1e9 + 30)
    assert [found.event.at for found in window.events] == [after(30)]


def test_a_clock_ahead_cannot_push_the_present_out_of_the_ring() -> None:
    ring = a_ring()
    ring.add([said(0, 1.0, sequence=1)])
    ring.add([said(86400, 2.0, node="gpu-01", received=10)])  # a day ahead, and believed by mistake
    assert points(window_of(ring, 15).series["power_watts"], key()) == {0.0: 1.0}


def test_values_that_no_float_can_hold_are_absent() -> None:
    ring = a_ring()
    ring.add([said(0, 1e300)])
    assert points(window_of(ring, 5).series["power_watts"], key()) == {}


def test_gpus_get_columns_as_they_appear() -> None:
    ring = a_ring()
    for number in range(100):
        ring.add([said(0, 1.0, node=f"gpu-{number:03d}", gpus=(0, 1, 2))])
    window = window_of(ring, 5)
    series = window.series["power_watts"]
    assert (ring.nodes_count, ring.gpus_count, series.values.shape) == (100, 300, (1, 300))
    assert points(series, key("gpu-099", 2)) == {0.0: 3.0}


def test_a_gpu_that_its_node_no_longer_names_is_retired_after_a_while() -> None:
    ring = a_ring(span_seconds=60, retire_after_seconds=600)
    ring.add([said(0, gpus=(0, 1))])
    for seconds in range(10, 2000, 10):
        ring.add([said(seconds, gpus=(0, 2))])
        if seconds == 500:
            assert window_of(ring, seconds).gpus[key(index=1)].at == after(0)  # told as stale, not as gone
    window = window_of(ring, 2000)
    assert set(window.gpus) == {key(index=0), key(index=2)}
    assert window.series["power_watts"].gpus == (key(index=0), key(index=2))
    ring.add([said(2010, 7.0, gpus=(0, 2, 3))])
    assert points(window_of(ring, 2010).series["power_watts"], key(index=3)) == {2010.0: 10.0}


def test_a_silent_node_stays_until_the_cluster_lets_it_go() -> None:
    ring = a_ring(span_seconds=60, retire_after_seconds=600)
    ring.add([said(0, node="gpu-01"), said(0)])
    for seconds in range(10, 3000, 10):
        ring.add([said(seconds)])
    window = window_of(ring, 3000, nodes=("gpu-00", "gpu-01"))
    assert window.nodes["gpu-01"].received_at == after(0)
    assert window.nodes["gpu-01"].is_expected
    assert key("gpu-01") in window.gpus
    assert "gpu-01" not in window_of(ring, 3000, nodes=("gpu-00",)).nodes
    assert ring.nodes_count == 1


def test_a_node_that_the_cluster_let_go_is_not_expected_also_while_the_cluster_cannot_be_read() -> None:
    ring = a_ring()
    ring.add([said(0), said(0, node="gpu-01")])
    assert [one.is_expected for one in window_of(ring, 5).nodes.values()] == [True, True]
    for window in (window_of(ring, 5, nodes=("gpu-00",)), window_of(ring, 6)):
        assert {name: one.is_expected for name, one in window.nodes.items()} == {"gpu-00": True, "gpu-01": False}
    assert window_of(ring, 7, nodes=("gpu-00", "gpu-01")).nodes["gpu-01"].is_expected


def test_a_node_says_how_often_it_reports_and_what_it_runs() -> None:
    ring = a_ring()
    ring.add([said(float(n), sequence=n, driver="570.86.15", errors={"fabric": "no device"}) for n in range(30)])
    now = window_of(ring, 30).nodes["gpu-00"]
    assert now.interval_seconds == pytest.approx(1.0, abs=0.05)
    assert (now.source, now.boot_id, now.errors) == ("nvml", "boot-a", {"fabric": "no device"})
    assert window_of(ring, 30).driver_version == {"gpu-00": "570.86.15"}


def test_a_clock_that_was_set_is_no_new_interval() -> None:
    ring = a_ring()
    ring.add([said(0, sequence=1), said(10, sequence=2), said(5000, sequence=3, received=20)])
    assert window_of(ring, 25).nodes["gpu-00"].interval_seconds == STEP


def test_events_of_the_span_are_told_once_and_in_order() -> None:
    ring = a_ring()
    xid, sooner, old = an_xid(79, at=after(100)), an_xid(63, at=after(95)), an_xid(13, at=after(-100))
    ring.add([said(100, events=(xid, sooner, old))])
    ring.add([said(110, events=(xid,)), said(110, node="gpu-01", events=(xid,))])
    found = [(one.node, one.event.code) for one in window_of(ring, 110).events]
    assert found == [("gpu-00", 63), ("gpu-00", 79), ("gpu-01", 79)]


def test_two_lines_with_the_same_text_and_their_own_cursors_are_two_events() -> None:
    ring = a_ring()
    ring.add([said(10, events=(an_xid(cursor="1"), an_xid(cursor="2"), an_xid(cursor="2")))])
    assert len(window_of(ring, 10).events) == 2


def test_an_event_of_an_old_report_only_informs() -> None:
    ring = a_ring(span_seconds=900)
    ring.add([said(10, received=700, replay=True, events=(an_xid(at=after(10)),))])
    assert [one.is_history_only for one in window_of(ring, 700, span_seconds=900).events] == [True]


def test_events_past_the_span_are_forgotten() -> None:
    ring = a_ring(span_seconds=60)
    for seconds in range(0, 5000, 10):
        ring.add([said(seconds, events=(an_xid(at=after(seconds), text=str(seconds)),))])
    assert ring.events_count < 100


def test_a_storm_of_events_is_bounded_and_counted() -> None:
    ring = a_ring(events_max=50)
    ring.add([said(0, events=tuple(an_xid(95, text=str(number)) for number in range(80)))])
    found = window_of(ring, 0).events
    assert (len(found), ring.events_dropped_total) == (50, 30)
    assert found[-1].event.text == "79"


def test_a_node_that_invents_gpus_is_bounded_and_counted() -> None:
    ring = a_ring()
    for tick in range(10):
        ring.add([said(tick * 10, gpus=(0, *range(1 + 100 * tick, 101 + 100 * tick)))])
    assert ring.gpus_count == GPUS_PER_NODE_MAX
    assert ring.gpus_dropped_total > 0
    assert window_of(ring, 90).gpus[key(index=0)].at == after(90)  # those known before are still heard


def test_reports_of_another_cluster_are_left_out() -> None:
    ring = a_ring()
    ring.add([said(0, cluster="hall-b")])
    assert ring.nodes_count == 0


def test_windows_are_whole_while_reports_come_in() -> None:
    ring = a_ring(span_seconds=300)
    stop = threading.Event()

    def feed() -> None:
        tick = 0
        while not stop.is_set():
            tick += 1
            ring.add([said(tick * 10, float(tick), node=f"gpu-{number}") for number in range(8)])

    feeder = threading.Thread(target=feed)
    feeder.start()
    try:
        for _ in range(200):
            window = ring.window(after(1e6), span_seconds=1e6, snapshot=None)
            # One `add` is one beat: the eight nodes stand at the same tick in every window.
            assert len({now.value("power_watts") for one, now in window.gpus.items() if one.uuid.endswith("-0")}) <= 1
            values = window.series["power_watts"].values
            assert not np.isnan(values[-1]).any() if len(values) else True
    finally:
        stop.set()
        feeder.join(10)


def test_a_clock_of_ours_that_was_set_back_does_not_keep_new_numbers_out() -> None:
    ring = a_ring()
    ring.add([said(seconds) for seconds in range(86400, 86500, 10)])  # the clock was a day ahead
    ring.add([said(seconds, sequence=100_000 + seconds) for seconds in range(0, 60, 10)])
    series = window_of(ring, 60.0).series["power_watts"]
    assert series.values[:, 0].tolist()[-6:] == [500.0] * 6 or np.isfinite(series.values[:, 0]).sum() == 6
    assert window_of(ring, 60.0).gpus[key()].received_at == after(50.0)
