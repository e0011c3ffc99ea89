"""Door, mirror and reader when the real API server dies, freezes, forgets, throttles, hangs or hangs up.

Faults that a real server cannot be brought to make come from a proxy before it. TRIMTAB_LONG=1 makes outages as long
as the issue asks for (60 s down, 20 s frozen).
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cluster import manifests
from tests.cluster.client import Json, wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.fakes.fault_proxy import FaultProxy
from tests.schedulers.web import a_kubeconfig

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerError, SchedulerGone, SchedulerUnavailable
from trimtab.schedulers.connect import KubernetesApi, connect
from trimtab.schedulers.mirror import Mirror
from trimtab.schedulers.reader import KubernetesReader
from trimtab.schedulers.resources import RESOURCES, Kind
from trimtab.settings import KubernetesSettings

IS_LONG = bool(os.environ.get("TRIMTAB_LONG"))
DOWN_SECONDS = 60.0 if IS_LONG else 6.0
FROZEN_SECONDS = 20.0 if IS_LONG else 5.0
STORM_SECONDS = 60.0 if IS_LONG else 4.0
ATTEMPTS_A_MINUTE = 10


class Watcher:
    """A mirror of the plane, the reader on it, and the door that the reader asks."""

    def __init__(self, settings: KubernetesSettings, **options: Any) -> None:
        self.api: KubernetesApi = connect(settings)
        self.mirror = Mirror(connect(settings), settings, SystemClock(), **options)
        self.reader = KubernetesReader(
            self.mirror, api=self.api, settings=settings, cluster="test", clock=SystemClock()
        )
        self.kinds = {kind.name: kind for kind in RESOURCES}
        self.namespace = settings.namespace

    def wait_whole(self) -> None:
        wait_for(lambda: self.mirror.objects().why_not_whole is None, "the mirror is whole")

    def is_watching(self) -> bool:
        """Whether every kind has been watched: only then is there something to cut."""
        return all(counts.watches for counts in self.mirror.counts().values())

    def wait_same(self) -> None:
        """Until every kind is as a fresh list says: nothing was lost, nothing stayed."""
        wait_for(self._is_same, "the mirror holds what a fresh list holds")

    def attempts(self) -> dict[str, int]:
        """Attempts so far, by kind: a list or a watch that was tried."""
        return {name: counts.attempts for name, counts in self.mirror.counts().items()}

    def _is_same(self) -> bool:
        try:
            return self._compare()
        except SchedulerError:
            return False

    def _compare(self) -> bool:
        seen = self.mirror.objects()
        held = {**seen.others, "nodes": seen.nodes, "pods": seen.pods}
        return all(
            {key: one.metadata.resource_version for key, one in held[name].items()}
            == self._listed(self.kinds[name], version)
            for name, version in seen.served.items()
        )

    def _listed(self, kind: Kind, version: str) -> dict[str, str]:
        items: list[Json] = self.api.get(kind.path(version, self.namespace), kind.selection("trimtab"))["items"]
        metas = [item["metadata"] for item in items]
        return {"/".join(filter(None, (m.get("namespace"), m["name"]))): m["resourceVersion"] for m in metas}


@contextmanager
def watching(kubeconfig: Path, **options: Any) -> Iterator[Watcher]:
    settings = KubernetesSettings(kubeconfig=str(kubeconfig), request_timeout_seconds=2.0)
    watcher = Watcher(settings, **options)
    watcher.mirror.start()
    try:
        watcher.wait_whole()
        wait_for(watcher.is_watching, "every watch is open")
        yield watcher
    finally:
        watcher.mirror.stop()
        watcher.api.close()


@pytest.fixture
def proxy(plane: Plane) -> Iterator[FaultProxy]:
    made = FaultProxy(plane.url, ca_file=str(plane.ca_file))
    yield made
    made.stop()


@pytest.fixture
def through(plane: Plane, proxy: FaultProxy, tmp_path: Path) -> Path:
    """A kubeconfig that leads through the proxy."""
    return a_kubeconfig(tmp_path, proxy.url, user={"token": plane.token})


def bounded(before: dict[str, int], after: dict[str, int], seconds: float) -> bool:
    """Whether no kind was tried more than ten times a minute; an outage begins within any minute."""
    minutes = 1 + int(seconds // 60)
    return all(after[name] - before.get(name, 0) <= ATTEMPTS_A_MINUTE * minutes for name in after)


def lasting(seconds: float) -> None:
    """Let an outage last; what happens in it is asserted afterwards, never by time."""
    time.sleep(seconds)


def test_killed_it_says_so_and_recovers_alone_with_nothing_lost(plane: Plane, space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=2)
    space.run_gang("before", pods=2, gpus=1)
    with watching(plane.admin_kubeconfig, stale_seconds_max=2.0) as watcher:
        watcher.wait_same()
        before, began = watcher.attempts(), time.monotonic()
        plane.kill("kube-apiserver")
        try:
            wait_for(lambda: watcher.mirror.objects().why_not_whole, "the mirror says that it is not whole")
            with pytest.raises(SchedulerUnavailable, match="cannot be reached"):
                watcher.reader.snapshot()
            lasting(DOWN_SECONDS)
            reason = watcher.mirror.objects().why_not_whole or ""
            assert "nothing was heard of pods for" in reason or "pods have not been read again" in reason
            assert bounded(before, watcher.attempts(), time.monotonic() - began)
        finally:
            plane.start("kube-apiserver")
        made = {"metadata": {"name": f"{space.namespace}-after"}}
        wait_for(lambda: plane.client.create("nodes", made), "a node is made")
        watcher.wait_whole()
        watcher.wait_same()
        assert watcher.reader.snapshot().nodes
        assert bounded(before, watcher.attempts(), time.monotonic() - began)
        assert f"{space.namespace}-after" in watcher.mirror.objects().nodes
        counts = watcher.mirror.counts().values()
        assert sum(one.errors["gone"] for one in counts) >= 1, "a restarted server forgets its versions: 410"
        most = max(watcher.attempts()[name] - before[name] for name in before)
        print(f"\ndown for {DOWN_SECONDS:.0f} s: at most {most} attempts at a kind in {time.monotonic() - began:.0f} s")
    plane.client.delete("nodes", f"{space.namespace}-after")


def test_frozen_nothing_is_read_from_it_and_after_it_nothing_was_lost(plane: Plane, space: Space) -> None:
    node = space.add_node("n1")
    with watching(plane.admin_kubeconfig) as watcher:
        watcher.wait_same()
        before = watcher.attempts()
        plane.pause("kube-apiserver")
        try:
            with pytest.raises(SchedulerUnavailable, match="no answer from"):
                watcher.reader.snapshot()
            lasting(FROZEN_SECONDS)
        finally:
            plane.resume("kube-apiserver")
        space.cordon(node)
        wait_for(lambda: watcher.mirror.objects().nodes[node].spec.unschedulable, "the cordon is seen")
        watcher.wait_same()
        assert watcher.mirror.objects().why_not_whole is None
        assert bounded(before, watcher.attempts(), FROZEN_SECONDS)


def test_expired_versions_are_answered_by_lists_and_not_by_a_storm(
    proxy: FaultProxy, through: Path, space: Space
) -> None:
    with watching(through, kinds=only("nodes", "pods")) as watcher:
        proxy.is_expiring_watches = True
        proxy.cut()
        wait_for(lambda: watcher.mirror.counts()["nodes"].errors["gone"] >= 2, "410 more than once")
        node = space.add_node("n1")
        wait_for(lambda: node in watcher.mirror.objects().nodes, "the new node is seen by lists alone")
        proxy.calm()
        watcher.wait_same()
        assert_paced(proxy)


@pytest.mark.parametrize("retry_after_seconds", [None, pytest.param(3, marks=pytest.mark.long)])
def test_a_storm_of_429_is_sat_out(
    proxy: FaultProxy, through: Path, space: Space, retry_after_seconds: int | None
) -> None:
    with watching(through, kinds=only("nodes", "pods"), stale_seconds_max=1.0) as watcher:
        proxy.storm(retry_after_seconds=retry_after_seconds)
        proxy.cut()
        wait_for(lambda: "429" in (watcher.mirror.objects().why_not_whole or ""), "429 is the reason")
        lasting(STORM_SECONDS)
        node = space.add_node("n1")
        assert node not in watcher.mirror.objects().nodes
        proxy.calm()
        watcher.wait_whole()
        wait_for(lambda: node in watcher.mirror.objects().nodes, "the node of the storm is seen")
        watcher.wait_same()
        assert_paced(proxy)


@pytest.mark.long
def test_half_open_it_reconnects_and_finds_what_it_missed(proxy: FaultProxy, through: Path, space: Space) -> None:
    first = space.add_node("n1")
    with watching(through, kinds=only("nodes", "pods"), quiet_seconds_max=3.0) as watcher:
        watcher.wait_same()
        proxy.is_half_open = True
        second = space.add_node("n2")
        space.cordon(first)
        with pytest.raises(SchedulerUnavailable, match="no answer from"):
            watcher.reader.snapshot()
        wait_for(lambda: watcher.mirror.counts()["nodes"].errors["silent"] >= 1, "silence is noticed")
        assert second not in watcher.mirror.objects().nodes
        proxy.calm()
        wait_for(lambda: second in watcher.mirror.objects().nodes, "the missed node is seen")
        wait_for(lambda: watcher.mirror.objects().nodes[first].spec.unschedulable, "the missed cordon is seen")
        watcher.wait_same()
        assert_paced(proxy)


@pytest.mark.long
def test_a_server_that_ends_every_watch_at_once_is_still_followed(
    proxy: FaultProxy, through: Path, space: Space
) -> None:
    proxy.is_closing_watches = True
    with watching(through, kinds=only("nodes", "pods")) as watcher:
        wait_for(lambda: watcher.mirror.counts()["nodes"].watches >= 2, "a watch has ended and another one")
        assert watcher.mirror.objects().why_not_whole is None
        node = space.add_node("n1")
        proxy.calm()
        wait_for(lambda: node in watcher.mirror.objects().nodes, "the node is seen")
        assert watcher.mirror.counts()["nodes"].lists == 1, "each watch goes on from where the last one was"
        watcher.wait_same()
        assert_paced(proxy)


def test_what_may_not_be_read_is_named(plane: Plane, space: Space, tmp_path: Path) -> None:
    client, name = plane.client, f"reader-{space.namespace}"
    client.create("serviceaccounts", {"metadata": {"name": "reader"}}, space.namespace)
    core = {"apiGroups": [""], "resources": ["nodes", "pods"], "verbs": ["list", "watch"]}
    client.create("clusterroles", {"metadata": {"name": name}, "rules": [core]})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": space.namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    client.create("clusterrolebindings", {"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
    kubeconfig = plane.kubeconfig("reader", space.namespace)
    settings = KubernetesSettings(kubeconfig=str(kubeconfig))
    kinds = only("nodes", "pods", "workloads.kueue.x-k8s.io", "resourceslices.resource.k8s.io")
    mirror = Mirror(connect(settings), settings, SystemClock(), kinds=kinds)
    mirror.start()
    try:
        denied = "we may not list and watch workloads.kueue.x-k8s.io in the whole cluster"
        wait_for(lambda: denied in (mirror.objects().why_not_whole or ""), "the missing right is named")
        wait_for(lambda: "resourceslices" in "".join(mirror.objects().notes), "the other one is a note")
        assert mirror.objects().nodes is not None
        assert "resourceslices" not in (mirror.objects().why_not_whole or "")
    finally:
        mirror.stop()
        client.delete("clusterrolebindings", name)
        client.delete("clusterroles", name)


def test_the_readers_account_of_the_manifests_sees_it_whole(plane: Plane) -> None:
    manifests.install(plane.client)
    try:
        with watching(plane.kubeconfig("trimtab-reader", "trimtab")) as watcher:
            assert watcher.mirror.objects().notes == ()
            watcher.wait_same()
    finally:
        manifests.remove(plane.client)


def test_kinds_come_and_go_with_their_definitions(plane: Plane) -> None:
    kind = only("queues.scheduling.run.ai")
    with watching(plane.admin_kubeconfig, kinds=kind, rediscover_seconds=1.0) as watcher:
        assert watcher.mirror.objects().served == {}
        plane.client.create("customresourcedefinitions", KAI_QUEUES)
        try:
            wait_for(lambda: watcher.mirror.objects().served == {"queues.scheduling.run.ai": "v2"}, "it is read")
            body = {"apiVersion": "scheduling.run.ai/v2", "kind": "Queue", "metadata": {"name": "q"}, "spec": {"a": 1}}
            wait_for(quietly(lambda: watcher.api.post("/apis/scheduling.run.ai/v2/queues", body)), "a queue is made")
            wait_for(lambda: "q" in watcher.mirror.objects().others["queues.scheduling.run.ai"], "it is seen")
        finally:
            plane.client.delete("customresourcedefinitions", "queues.scheduling.run.ai")
        wait_for(lambda: watcher.mirror.objects().served == {}, "it is gone")
        assert watcher.mirror.objects().why_not_whole is None


def only(*names: str) -> tuple[Kind, ...]:
    return tuple(kind for kind in RESOURCES if kind.name in names)


def quietly(make: Callable[[], Json]) -> Callable[[], bool]:
    """A new kind cannot be written at once; a lost answer to a create is a conflict at the second try."""

    def made() -> bool:
        try:
            make()
        except SchedulerConflict:
            return True
        except (SchedulerGone, SchedulerBusy, SchedulerUnavailable):
            return False
        return True

    return made


def assert_paced(proxy: FaultProxy) -> None:
    """No more than ten attempts in any minute, at any kind."""
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        asked = proxy.watches(path)
        for at in asked:
            assert sum(1 for other in asked if at <= other < at + 60) <= ATTEMPTS_A_MINUTE, path


KAI_QUEUES: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "queues.scheduling.run.ai"},
    "spec": {
        "group": "scheduling.run.ai",
        "scope": "Cluster",
        "names": {"plural": "queues", "singular": "queue", "kind": "Queue"},
        "versions": [
            {
                "name": "v2",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}
