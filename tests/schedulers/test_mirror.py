"""The mirror on the fake API: what is there, what is missing and what that means, and when a read is too old."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tests.fakes.clock import FakeClock
from tests.fakes.kube import Call, FakeKube
from tests.fakes.kube_paths import Served

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerUnavailable
from trimtab.schedulers.discovery import discover
from trimtab.schedulers.mirror import Mirror
from trimtab.schedulers.resources import RESOURCES, Kind
from trimtab.settings import KubernetesSettings

PODS = "/api/v1/pods"
NODES_AND_PODS = tuple(kind for kind in RESOURCES if kind.name in ("nodes", "pods"))
FEW = tuple(
    kind
    for kind in RESOURCES
    if kind.name in ("nodes", "pods", "configmaps", "workloads.kueue.x-k8s.io", "resourceslices.resource.k8s.io")
)


def a_pod(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "apiVersion": "v1",
        "metadata": {"name": name, "namespace": "a"},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}], **spec},
        "status": {"phase": "Running"},
    }


def a_node(name: str) -> dict[str, Any]:
    return {"kind": "Node", "apiVersion": "v1", "metadata": {"name": name}, "spec": {}}


def a_workload(name: str) -> dict[str, Any]:
    meta = {"name": name, "namespace": "a"}
    return {"kind": "Workload", "apiVersion": "kueue.x-k8s.io/v1beta2", "metadata": meta, "spec": {"active": True}}


def a_kube() -> FakeKube:
    kube = FakeKube()
    kube.add(a_node("n1"))
    for name in ("p0", "p1"):
        kube.add(a_pod(name))
    return kube


def a_mirror(kube: FakeKube, clock: FakeClock | None = None, kinds: tuple[Kind, ...] = FEW) -> Mirror:
    return Mirror(kube, KubernetesSettings(), clock or FakeClock(), kinds=kinds)


def test_before_anything_is_read_the_mirror_is_not_whole() -> None:
    mirror = a_mirror(a_kube())
    assert mirror.objects().why_not_whole == "which kinds the cluster serves is not known: it has not answered yet"


def test_what_is_there_is_mirrored_and_what_is_not_installed_is_absent() -> None:
    kube = a_kube()
    kube.add(a_workload("w"))
    del kube.kinds["resourceslices.resource.k8s.io"]
    mirror = a_mirror(kube)
    mirror.refresh()
    seen = mirror.objects()
    assert (seen.why_not_whole, seen.notes) == (None, ())
    assert list(seen.nodes) == ["n1"]
    assert list(seen.pods) == ["a/p0", "a/p1"]
    assert seen.pods["a/p0"].spec.node_name == "n1"
    assert seen.others["workloads.kueue.x-k8s.io"]["a/w"].spec == {"active": True}
    assert "resourceslices.resource.k8s.io" not in seen.served
    assert seen.served["workloads.kueue.x-k8s.io"] == "v1beta2"
    assert seen.others["configmaps"] == {}


def test_events_change_it_and_unchanged_kinds_keep_their_number_and_mapping() -> None:
    kube = a_kube()
    mirror = a_mirror(kube)
    mirror.refresh()
    before = mirror.objects()
    kube.edit(f"{PODS.replace('/pods', '/namespaces/a/pods')}/p0", {"status": {"phase": "Failed"}})
    kube.remove("/api/v1/namespaces/a/pods/p1")
    kube.add(a_pod("p2"))
    mirror.refresh()
    after = mirror.objects()
    assert {key: pod.status.phase for key, pod in after.pods.items()} == {"a/p0": "Failed", "a/p2": "Running"}
    assert after.changes["pods"] > before.changes["pods"]
    assert after.changes["nodes"] == before.changes["nodes"]
    assert after.nodes is before.nodes
    assert list(before.pods) == ["a/p0", "a/p1"], "what was handed out is never edited"
    assert mirror.counts()["pods"].lists == 1


def test_only_our_pause_config_map_is_read() -> None:
    kube = a_kube()
    for namespace, name in (("trimtab", "trimtab-pause"), ("trimtab", "other"), ("a", "trimtab-pause")):
        meta = {"name": name, "namespace": namespace}
        kube.add({"kind": "ConfigMap", "apiVersion": "v1", "metadata": meta, "data": {"reason": "x"}})
    mirror = a_mirror(kube)
    mirror.refresh()
    assert {key: one.data for key, one in mirror.objects().others["configmaps"].items()} == {
        "trimtab/trimtab-pause": {"reason": "x"}
    }


def test_a_kind_that_we_may_not_read_makes_it_not_whole_where_it_counts_and_a_note_elsewhere() -> None:
    kube = a_kube()

    def no_rights(call: Call) -> tuple[int, str] | None:
        hits = "workloads" in call.path or "resourceslices" in call.path
        return (403, 'User "x" cannot list resource at the cluster scope') if hits else None

    kube.refuses = no_rights
    mirror = a_mirror(kube)
    mirror.refresh()
    seen = mirror.objects()
    assert seen.why_not_whole is not None
    assert "we may not list and watch workloads.kueue.x-k8s.io in the whole cluster" in seen.why_not_whole
    assert 'User "x" cannot list' in seen.why_not_whole
    (note,) = seen.notes
    assert "we may not list and watch resourceslices.resource.k8s.io" in note
    assert "workloads.kueue.x-k8s.io" not in seen.served
    kube.refuses = lambda call: None
    mirror.refresh()
    assert mirror.objects().why_not_whole is None


def test_versions_that_we_do_not_know_are_no_absence() -> None:
    kube = a_kube()
    kube.kinds["workloads.kueue.x-k8s.io"] = Served("Workload", ("v1beta3",))
    mirror = a_mirror(kube)
    mirror.refresh()
    assert mirror.objects().why_not_whole == (
        "workloads.kueue.x-k8s.io is served as v1beta3 only; we read v1beta2, v1beta1"
    )


def test_a_kind_installed_later_appears_an_upgraded_one_changes_its_version_and_a_removed_one_goes() -> None:
    kube = a_kube()
    kube.add(a_workload("w"))
    name = "workloads.kueue.x-k8s.io"
    installed = kube.kinds.pop(name)
    mirror = a_mirror(kube)
    mirror.refresh()
    assert name not in mirror.objects().served
    kube.kinds[name] = Served("Workload", ("v1beta1",))
    mirror.refresh()
    assert mirror.objects().served[name] == "v1beta1"
    kube.kinds[name] = installed
    mirror.refresh()
    assert (mirror.objects().served[name], list(mirror.objects().others[name])) == ("v1beta2", ["a/w"])
    del kube.kinds[name]
    mirror.refresh()
    assert name not in mirror.objects().others


def test_a_group_whose_server_is_away_is_doubt_not_absence() -> None:
    class Stale(FakeKube):
        def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
            found = super().get(path, params)
            for item in found["items"] if path == "/apis" else ():
                if item["metadata"]["name"] == "kueue.x-k8s.io":
                    for version in item["versions"]:
                        version.update(freshness="Stale", resources=[])
            return found

    mirror = a_mirror(Stale())
    mirror.refresh()
    assert mirror.objects().why_not_whole == "the server of kueue.x-k8s.io does not say which kinds it has"


def test_discovery_of_a_server_that_cannot_aggregate() -> None:
    class Old(FakeKube):
        def get(self, path: str, params: Mapping[str, str] | None = None) -> dict[str, Any]:
            if path != "/apis":
                return super().get(path, params)
            versions = [("kueue.x-k8s.io", ("v1beta2", "v1beta1")), ("batch", ("v1", "v1gone"))]
            groups = [
                {"name": g, "versions": [{"groupVersion": f"{g}/{v}", "version": v} for v in vs]} for g, vs in versions
            ]
            return {"kind": "APIGroupList", "groups": groups}

    served = discover(Old(), RESOURCES)
    assert served.versions["workloads.kueue.x-k8s.io"] == "v1beta2"
    assert served.versions["jobs.batch"] == "v1"
    assert "jobsets.jobset.x-k8s.io" not in served.versions


def test_a_lost_watch_is_forgiven_for_a_while_and_then_the_read_is_too_old() -> None:
    kube, clock = a_kube(), FakeClock()
    mirror = a_mirror(kube, clock, NODES_AND_PODS)
    mirror.refresh()
    kube.fail(SchedulerUnavailable("connection refused"), "/pods", hits_reads=True, times=99)
    mirror.refresh()
    clock.advance(29)
    assert mirror.objects().why_not_whole is None
    clock.advance(2)
    assert mirror.objects().why_not_whole == (
        "nothing was heard of nodes for 31 s: every watch ends at once; "
        "nothing was heard of pods for 31 s: connection refused"
    )
    kube.faults.clear()
    mirror.refresh()
    assert mirror.objects().why_not_whole is None
    assert mirror.counts()["pods"].lists == 1, "the watch goes on from where it was"


def test_what_was_lost_when_the_server_was_away_is_whole_only_when_it_is_heard_again() -> None:
    kube, clock = a_kube(), FakeClock()
    mirror = a_mirror(kube, clock, NODES_AND_PODS)
    mirror.refresh()
    kube.fail(SchedulerUnavailable("connection refused"), "/pods", hits_reads=True, times=99)
    mirror.refresh()
    clock.advance(1)
    mirror.doubt()
    assert mirror.objects().why_not_whole == (
        "nodes have not been read again since the server was away; "
        "pods have not been read again since the server was away"
    )
    kube.faults.clear()
    clock.advance(1)
    mirror.refresh()
    assert mirror.objects().why_not_whole is None, "a watch that ended by itself after that is forgiven"


def test_nulls_are_absences_and_one_unreadable_object_hides_no_other() -> None:
    kube = a_kube()
    kube.add(a_workload("fine") | {"status": None})
    mirror = a_mirror(kube)
    mirror.refresh()
    assert list(mirror.objects().others["workloads.kueue.x-k8s.io"]) == ["a/fine"]
    kube.add(a_pod("odd", priority="very"))
    kube.add(a_pod("p3"))
    mirror.refresh()
    seen = mirror.objects()
    assert sorted(seen.pods) == ["a/p0", "a/p1", "a/p3"]
    assert seen.why_not_whole == "1 of pods cannot be read: a/odd"
    again = a_mirror(kube)
    again.refresh()
    assert again.objects().why_not_whole == "1 of pods cannot be read: a/odd"
    kube.remove("/api/v1/namespaces/a/pods/odd")
    for one in (mirror, again):
        one.refresh()
        assert one.objects().why_not_whole is None


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Blocking(FakeKube):
    """Watches stay open and tell each event as it happens; `close` ends them."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = threading.Event()

    def watch(self, path: str, params: Mapping[str, str], *, quiet_seconds_max: float) -> Iterator[bytes]:
        first = list(super().watch(path, params, quiet_seconds_max=quiet_seconds_max))

        def lines() -> Iterator[bytes]:
            seen = first
            while not self.is_closed.wait(0.01):
                yield from seen
                if seen:
                    now = json.loads(seen[-1])["object"]["metadata"]["resourceVersion"]
                    params_now = {**params, "resourceVersion": now}
                seen = list(FakeKube.watch(self, path, params_now, quiet_seconds_max=quiet_seconds_max))

        return lines()

    def close(self) -> None:
        self.is_closed.set()


def test_in_threads_it_follows_and_stops() -> None:
    kube = Blocking()
    kube.add(a_node("n1"))
    mirror = Mirror(kube, KubernetesSettings(), SystemClock(), kinds=NODES_AND_PODS)
    mirror.start()
    try:
        assert within(30, lambda: mirror.objects().why_not_whole is None)
        kube.add(a_pod("late"))
        assert within(30, lambda: list(mirror.objects().pods) == ["a/late"])
    finally:
        mirror.stop()
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("mirror")] == []
