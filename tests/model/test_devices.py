"""What the agents say of devices, out of a window."""

from __future__ import annotations

from dataclasses import replace

from tests.builders import a_reading, a_window
from tests.detect.views import stale, with_node

from trimtab.model.devices import Device, devices_of
from trimtab.model.reading import GpuState, MigReading


def test_devices_are_told_by_index_with_the_pods_that_hold_them():
    readings = [
        a_reading("n0", 1, holder="team-a/train-0"),
        a_reading("n0", 0, shared_by=("team-a/x", "team-b/y")),
        a_reading("n0", 2, holder="4711", state=GpuState.LOST),
    ]
    found = devices_of(a_window({"n0": readings}))["n0"]
    assert [(one.index, one.holders, one.is_ok) for one in found.devices] == [
        (0, ("team-a/x", "team-b/y"), True),
        (1, ("team-a/train-0",), True),
        (2, (), False),  # a job id of another scheduler names no pod
    ]


def test_mig_instances_stand_beside_their_gpu():
    parts = (MigReading(gi=3, holder="team-a/x"), MigReading(gi=5, ci=0, holder="team-a/y, team-a/z"))
    found = devices_of(a_window({"n0": [a_reading("n0", 0, instances=parts)]}))["n0"]
    model = found.gpus[0].model
    assert found.devices[1:] == (
        Device(uuid="GPU-n0-0/3", index=0, model=model, holders=("team-a/x",), is_slice=True),
        Device(uuid="GPU-n0-0/5/0", index=0, model=model, holders=("team-a/y", "team-a/z"), is_slice=True),
    )
    assert [one.uuid for one in found.gpus] == ["GPU-n0-0"]


def test_a_silent_node_says_nothing_and_a_slow_one_is_given_three_intervals():
    window = a_window({"n0": [a_reading("n0", 0)], "n1": [a_reading("n1", 0)]})
    assert set(devices_of(stale(window, "n1", seconds=100))) == {"n0"}
    assert set(devices_of(with_node(stale(window, "n1", seconds=100), "n1", interval_seconds=60.0))) == {"n0", "n1"}


def test_a_gpu_that_its_node_no_longer_names_is_not_there():
    window = a_window({"n0": [a_reading("n0", 0), a_reading("n0", 1)]})
    old = stale(window, "n0", seconds=30)
    gone = next(key for key in window.gpus if key.uuid == "GPU-n0-1")
    window = replace(window, gpus={**window.gpus, gone: old.gpus[gone]})
    assert [one.uuid for one in devices_of(window)["n0"].devices] == ["GPU-n0-0"]
