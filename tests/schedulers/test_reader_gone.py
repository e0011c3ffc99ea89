"""A node that the cluster deleted is gone, not silent: from the reader through the ring to the findings."""

from __future__ import annotations

from tests.builders import a_delivery, a_report
from tests.detect.views import at
from tests.schedulers.reading import Cluster, a_cluster, devices, node

from trimtab.detect.node_silent import NodeSilent
from trimtab.detect.tracker import Changes, Tracker
from trimtab.settings import DetectSettings
from trimtab.store.ring import Ring

NAMES = [f"gpu-{index:02}" for index in range(6)]


class Watch:
    """The daemon's judgement of silence, a beat every ten seconds, over a real ring and the reader's snapshots."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.ring = Ring(cluster="hall-a", span_seconds=900, interval_seconds=10)
        self.tracker = Tracker()
        self.detector = NodeSilent(DetectSettings())
        self.seconds = 0

    def pass_by(self, seconds: int, *, silent: tuple[str, ...] = ()) -> list[Changes]:
        told = []
        for _ in range(seconds // 10):
            self.seconds += 10
            now = at(self.seconds)
            reports = [a_report(name, sequence=self.seconds, at=now) for name in NAMES if name not in silent]
            self.ring.add(a_delivery(report) for report in reports)
            window = self.ring.window(now, span_seconds=900, snapshot=self.cluster.snapshot())
            told.append(self.tracker.update(window, self.detector.detect(window)))
            self.tracker.commit(told[-1])
        return told


def watched() -> Watch:
    watch = Watch(a_cluster(*(node(name) for name in NAMES), says={name: devices(name) for name in NAMES}))
    watch.pass_by(60)
    return watch


def test_a_node_that_falls_silent_is_found():
    watch = watched()
    watch.pass_by(120, silent=("gpu-03",))
    assert [one.finding.subject.node for one in watch.tracker.open_findings] == ["gpu-03"]


def test_a_node_that_is_deleted_first_is_never_called_silent():
    watch = watched()
    watch.cluster.drop("nodes", "gpu-03").says.pop("gpu-03")
    told = watch.pass_by(300, silent=("gpu-03",))
    assert [one for each in told for one in each.opened] == []


def test_a_silent_node_that_is_deleted_then_is_gone():
    watch = watched()
    watch.pass_by(120, silent=("gpu-03",))
    watch.cluster.drop("nodes", "gpu-03").says.pop("gpu-03")
    told = watch.pass_by(10, silent=("gpu-03",))
    assert [one.close_reason for each in told for one in each.closed] == ["gpu-03 left the cluster"]
    assert watch.tracker.open_findings == ()


def test_a_silent_node_without_a_device_plugin_is_still_there():
    body = {**node("gpu-03"), "status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    watch = watched()
    watch.cluster.put(body).says.pop("gpu-03")
    watch.pass_by(120, silent=("gpu-03",))
    assert [one.finding.subject.node for one in watch.tracker.open_findings] == ["gpu-03"]
