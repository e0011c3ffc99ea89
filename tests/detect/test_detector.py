from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.builders import CLUSTER, a_node, a_reading, a_snapshot, a_window, a_workload, an_xid, gpu_uuid
from tests.fakes.clock import START

import trimtab
from trimtab.detect.detector import catalogue, event_detectors, judge_events
from trimtab.detect.series import SERIES_METRICS
from trimtab.detect.verdict import verdict_of
from trimtab.model.advice import Action
from trimtab.model.cluster import GpuKey
from trimtab.model.window import Series
from trimtab.settings import DetectSettings

ROOT = Path(trimtab.__file__).parents[1]


def test_every_detector_is_in_the_catalogue_once():
    names = [detector.name for detector in catalogue(DetectSettings())]
    assert names == [
        "device_fault", "gpus_missing", "node_silent", "blind", "clock_skew", "contradiction", "hung_job",
        "fragmentation", "straggler", "hotspot", "idle_gpu",
    ]  # fmt: skip
    assert {detector.name for detector in event_detectors()} < set(names)


@pytest.mark.parametrize("rows", [0, 1, 2])
def test_no_detector_fails_on_a_history_that_has_hardly_begun(rows):
    gpus = tuple(GpuKey(cluster=CLUSTER, node="gpu-00", uuid=gpu_uuid("gpu-00", index)) for index in range(8))
    at_seconds = START.timestamp() - 10.0 * np.arange(rows)[::-1]
    one = Series(gpus=gpus, at_seconds=at_seconds, values=np.zeros((rows, 8), dtype=np.float32))
    readings = {"gpu-00": [a_reading("gpu-00", index) for index in range(8)]} if rows else {}
    snapshot = a_snapshot([a_node()], [a_workload("a", on={"gpu-00": range(8)})])
    window = a_window(readings, snapshot=snapshot, series=dict.fromkeys(SERIES_METRICS, one))
    assert [finding for detector in catalogue(DetectSettings()) for finding in detector.detect(window)] == []


def test_a_file_is_judged_without_numpy():
    script = (
        "import sys; sys.modules['numpy'] = None\n"
        "from trimtab.detect.detector import event_detectors, judge_events\n"
        "from trimtab.detect.tracker import Tracker\n"
        "assert event_detectors() and judge_events() == ()\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, env={"PYTHONPATH": str(ROOT)})


def test_missing_gpus_of_a_file_are_found_where_the_number_is_known():
    (finding,) = judge_events(node="gpu-07", gpus_expected=8)
    assert finding.action is Action.CORDON_REBOOT
    assert judge_events(node="gpu-07") == ()


def test_what_is_unknown_is_not_called_the_owners():
    owner, unknown = an_xid(31, index=1), an_xid(987, index=2)
    assert verdict_of(judge_events([owner])) is Action.ALERT_OWNER
    assert verdict_of(judge_events([owner, unknown])) is Action.UNKNOWN
    assert verdict_of(judge_events([owner, unknown, an_xid(79)])) is Action.CORDON_REBOOT
    assert verdict_of([]) is Action.NONE
