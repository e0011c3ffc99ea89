"""What every `Api` does: the fake in memory, the real API server, and the real one behind the proxy that makes faults.

The fake answers what adapters and the explorer rely on; here it is held to what the real server answers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.client import wait_for
from tests.cluster.plane import Plane
from tests.fakes.fault_proxy import FaultProxy
from tests.fakes.kube import FakeKube
from tests.schedulers.web import a_kubeconfig

from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerError, SchedulerGone, SchedulerRefused
from trimtab.schedulers.connect import connect
from trimtab.schedulers.discovery import discover
from trimtab.schedulers.kubernetes import Api, PatchKind
from trimtab.schedulers.resources import RESOURCES
from trimtab.settings import KubernetesSettings

Json = dict[str, Any]
DRY = {"dryRun": "All", "fieldManager": "trimtab"}
OURS = {"fieldManager": "trimtab"}
WRONG_UID = "00000000-0000-0000-0000-000000000000"


class Place:
    """An API with a namespace `name` and a node `name` on it, both of this test alone."""

    def __init__(self, api: Api, name: str, expire: Callable[[], None]) -> None:
        self.api, self.name = api, name
        self.expire = expire
        """Make the server forget what it knew of versions."""
        self.node = f"/api/v1/nodes/{name}"
        self.pods = f"/api/v1/namespaces/{name}/pods"
        self.fake = api if isinstance(api, FakeKube) else None
        api.post("/api/v1/namespaces", {"metadata": {"name": name}})
        api.post("/api/v1/nodes", {"metadata": {"name": name, "labels": {"only": name}}, "spec": {}})
        status = {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "x", "message": "x"}]}}
        api.patch(f"{self.node}/status", status, PatchKind.MERGE)

    def pod(self, name: str) -> str:
        """A pod that runs and is ready; its path."""
        path = f"{self.pods}/{name}"
        spec = {"nodeName": self.name, "containers": [{"name": "c", "image": "x"}], "terminationGracePeriodSeconds": 30}
        meta = {"name": name, "labels": {"app": "x"}, "annotations": {"fake/term-s": "30"}}
        wait_for(lambda: self._tried(lambda: self.api.post(self.pods, {"metadata": meta, "spec": spec})), "a pod")
        if self.fake is not None:  # nobody plays its kubelet
            ready = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
            self.fake.edit(path, ready)
        wait_for(lambda: self._is_ready(path), f"{name} is ready")
        return path

    def budget(self, minimum: int) -> str:
        """A disruption budget over this test's pods whose status is there; its path."""
        root = f"/apis/policy/v1/namespaces/{self.name}/poddisruptionbudgets"
        spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": "x"}}}
        self.api.post(root, {"metadata": {"name": "b"}, "spec": spec})
        pods = len(self.api.get(self.pods)["items"])
        wait_for(lambda: self.status(f"{root}/b").get("currentHealthy") == pods, "the budget knows its pods")
        return f"{root}/b"

    def status(self, path: str) -> Json:
        found: Json = self.api.get(path).get("status") or {}
        return found

    def evict(self, path: str, *, uid: str = "", params: Json | None = None) -> Json:
        uid = uid or self.api.get(path)["metadata"]["uid"]
        meta = {"name": path.rsplit("/", 1)[1], "namespace": self.name}
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
        return self.api.post(f"{path}/eviction", {**body, "deleteOptions": {"preconditions": {"uid": uid}}}, params)

    def _is_ready(self, path: str) -> bool:
        conditions = self.status(path).get("conditions") or []
        return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)

    def _tried(self, make: Any) -> bool:
        try:
            make()
        except SchedulerConflict:
            return True
        except SchedulerError:
            return False  # the namespace's account, or a webhook, is not there yet
        return True

    def remove(self) -> None:
        if self.fake is None:
            for pod in self.api.get(self.pods)["items"]:
                self.api.delete(f"{self.pods}/{pod['metadata']['name']}", {"gracePeriodSeconds": 0})
            self.api.delete(self.node)
            self.api.delete(f"/api/v1/namespaces/{self.name}")


@pytest.fixture(params=["fake", *(pytest.param(one, marks=pytest.mark.cluster) for one in ("real", "proxied"))])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    name = f"api-{abs(hash(request.node.name)) % 16**6:06x}"
    if request.param == "fake":
        kube = FakeKube()
        yield Place(kube, name, kube.compact)
        return
    plane: Plane = request.getfixturevalue("plane")
    proxy = FaultProxy(plane.url, ca_file=str(plane.ca_file)) if request.param == "proxied" else None
    path = a_kubeconfig(tmp_path, proxy.url, user={"token": plane.token}) if proxy else plane.admin_kubeconfig
    api = connect(KubernetesSettings(kubeconfig=str(path)))

    def expire() -> None:
        if proxy is not None:
            proxy.is_expiring_watches = True
        else:
            plane.kill("kube-apiserver")  # an orderly end would wait for the watches of everybody
            plane.start("kube-apiserver")

    made = Place(api, name, expire)
    yield made
    made.remove()
    api.close()
    if proxy is not None:
        proxy.stop()


def names(found: Json) -> list[str]:
    return [item["metadata"]["name"] for item in found["items"]]


def test_a_stale_version_and_another_uid_are_conflicts_and_change_nothing(place: Place) -> None:
    api, change = place.api, {"spec": {"unschedulable": True}}
    with pytest.raises(SchedulerConflict, match="the object has been modified"):
        api.patch(place.node, {"metadata": {"resourceVersion": "1"}, **change}, PatchKind.MERGE)
    with pytest.raises(SchedulerConflict, match="field is immutable"):
        api.patch(place.node, {"metadata": {"uid": WRONG_UID}, **change}, PatchKind.MERGE)
    for failing in (
        {"op": "test", "path": "/metadata/resourceVersion", "value": "1"},
        {"op": "remove", "path": "/spec/x"},
    ):
        with pytest.raises(SchedulerConflict, match="422 the server rejected our request"):
            api.patch(
                place.node, [failing, {"op": "add", "path": "/spec/unschedulable", "value": True}], PatchKind.JSON
            )
    assert "unschedulable" not in api.get(place.node)["spec"]


def test_with_the_version_and_the_uid_that_were_read_the_write_is_done(place: Place) -> None:
    api, meta = place.api, place.api.get(place.node)["metadata"]
    sure = {"uid": meta["uid"], "annotations": {"trimtab/x": "1"}}
    api.patch(place.node, {"metadata": sure, "spec": {"unschedulable": True}}, PatchKind.MERGE, OURS)
    tested = [
        {"op": "test", "path": "/metadata/uid", "value": meta["uid"]},
        {"op": "remove", "path": "/metadata/annotations/trimtab~1x"},
    ]
    node = api.patch(place.node, tested, PatchKind.JSON, OURS)
    assert node["spec"]["unschedulable"] is True
    assert "trimtab/x" not in node["metadata"].get("annotations", {})
    writers = [one["manager"] for one in node["metadata"]["managedFields"] if "f:spec" in one["fieldsV1"]]
    assert "trimtab" in writers


def test_a_dry_run_answers_as_the_write_would_and_changes_nothing(place: Place) -> None:
    api = place.api
    assert (
        api.patch(place.node, {"spec": {"unschedulable": True}}, PatchKind.MERGE, DRY)["spec"]["unschedulable"] is True
    )
    made = api.post("/api/v1/namespaces", {"metadata": {"name": f"{place.name}-dry"}}, DRY)
    assert made["metadata"]["uid"]
    assert "unschedulable" not in api.get(place.node)["spec"]
    with pytest.raises(SchedulerGone, match="not found"):
        api.get(f"/api/v1/namespaces/{place.name}-dry")


def test_lists_of_taints_are_one_field_for_all_but_json_patches(place: Place) -> None:
    api, taints = place.api, [{"key": "other/x", "effect": "NoSchedule"}]
    api.patch(place.node, {"spec": {"taints": taints}}, PatchKind.MERGE)
    ours = {"key": "trimtab/seat", "effect": "NoSchedule"}
    api.patch(place.node, [{"op": "add", "path": "/spec/taints/-", "value": ours}], PatchKind.JSON)
    assert {one["key"] for one in api.get(place.node)["spec"]["taints"]} >= {"other/x", "trimtab/seat"}
    api.patch(place.node, {"spec": {"taints": [ours]}}, PatchKind.MERGE)
    assert "other/x" not in {one["key"] for one in api.get(place.node)["spec"]["taints"]}


def test_the_status_is_written_by_its_subresource_alone(place: Place) -> None:
    path = place.pod("p")
    condition = {"type": "trimtab/x", "status": "True"}
    with_it = {"status": {"conditions": [*place.status(path)["conditions"], condition]}}
    place.api.patch(path, with_it, PatchKind.MERGE)
    assert all(one["type"] != "trimtab/x" for one in place.status(path)["conditions"])
    place.api.patch(f"{path}/status", with_it, PatchKind.MERGE)
    assert {"Ready", "trimtab/x"} <= {one["type"] for one in place.status(path)["conditions"]}


def test_of_a_running_pod_only_tolerations_may_be_added(place: Place) -> None:
    api, path = place.api, place.pod("p")
    seat = {"key": "trimtab/seat", "operator": "Exists"}
    had = api.get(path)["spec"].get("tolerations") or []
    api.patch(path, {"spec": {"tolerations": [*had, seat]}}, PatchKind.MERGE)
    assert seat in api.get(path)["spec"]["tolerations"]
    with pytest.raises(SchedulerRefused, match=r"422 .*pod updates may not change fields other than"):
        api.patch(path, {"spec": {"nodeSelector": {"a": "b"}}}, PatchKind.MERGE)


def test_what_is_there_already_and_what_is_not_there(place: Place) -> None:
    api = place.api
    with pytest.raises(SchedulerConflict, match="already exists"):
        api.post("/api/v1/nodes", {"metadata": {"name": place.name}})
    for path in (f"{place.pods}/nope", "/apis/nobody.example.com/v1/things"):
        with pytest.raises(SchedulerGone):
            api.get(path)
    with pytest.raises(SchedulerGone, match='pods "nope" not found'):
        place.evict(f"{place.pods}/nope", uid=WRONG_UID)
    config_maps = f"/api/v1/namespaces/{place.name}/configmaps"
    made = api.post(config_maps, {"metadata": {"generateName": "trimtab-"}, "data": {"a": "b"}})
    assert len(made["metadata"]["name"]) == len("trimtab-") + 5
    with pytest.raises(SchedulerConflict, match="UID in the precondition"):
        api.delete(f"{config_maps}/{made['metadata']['name']}", {"preconditions": {"uid": WRONG_UID}})
    api.delete(f"{config_maps}/{made['metadata']['name']}", {"preconditions": {"uid": made["metadata"]["uid"]}})
    with pytest.raises(SchedulerGone):
        api.get(f"{config_maps}/{made['metadata']['name']}")


def test_an_evicted_pod_is_marked_and_terminates(place: Place) -> None:
    path = place.pod("p")
    place.evict(path, params=DRY)
    assert "deletionTimestamp" not in place.api.get(path)["metadata"]
    place.evict(path)
    pod = place.api.get(path)
    assert "deletionTimestamp" in pod["metadata"]
    marks = [one for one in pod["status"]["conditions"] if one["type"] == "DisruptionTarget"]
    assert [one["reason"] for one in marks] == ["EvictionByEvictionAPI"]


def test_a_budget_lets_one_go_then_says_429_with_its_numbers_in_dry_runs_too(place: Place) -> None:
    first, second = place.pod("p0"), place.pod("p1")
    budget = place.budget(1)
    place.evict(first, params=DRY)
    assert place.status(budget)["disruptionsAllowed"] == 1
    place.evict(first)
    for params in (None, DRY):
        with pytest.raises(SchedulerBusy, match=r"needs 1 healthy pods and has [12] currently") as caught:
            place.evict(second, params=params)
        assert caught.value.retry_after_seconds is None


def test_an_eviction_with_a_wrong_uid_evicts_nobody_and_still_uses_the_budget_up(place: Place) -> None:
    first, second = place.pod("p0"), place.pod("p1")
    place.budget(1)
    with pytest.raises(SchedulerConflict, match="UID in the precondition"):
        place.evict(first, uid=WRONG_UID)
    assert "deletionTimestamp" not in place.api.get(first)["metadata"]
    with pytest.raises(SchedulerBusy, match="disruption budget"):
        place.evict(second)


def test_lists_are_selected_and_come_in_pages(place: Place) -> None:
    for name in ("p0", "p1", "p2"):
        place.pod(name)
    api, found, token = place.api, [], ""
    while True:
        page = api.get(place.pods, {"limit": "2", **({"continue": token} if token else {})})
        found += names(page)
        token = page["metadata"].get("continue") or ""
        if not token:
            break
    assert found == ["p0", "p1", "p2"]
    assert names(api.get("/api/v1/nodes", {"labelSelector": f"only={place.name}"})) == [place.name]
    assert names(api.get(place.pods, {"fieldSelector": "metadata.name=p1"})) == ["p1"]
    assert names(api.get(place.pods, {"fieldSelector": f"spec.nodeName!={place.name}"})) == []
    assert json.loads(api.raw(place.pods))["items"][0]["metadata"]["name"] == "p0"


def test_a_watch_goes_on_from_the_list_and_one_from_long_ago_is_told_410(place: Place) -> None:
    api = place.api
    maps = f"/api/v1/namespaces/{place.name}/configmaps"
    since = api.get(maps)["metadata"]["resourceVersion"]
    api.post(maps, {"metadata": {"name": "x"}, "data": {"a": "1"}})
    api.patch(f"{maps}/x", {"data": {"a": "2"}}, PatchKind.MERGE)
    api.delete(f"{maps}/x")
    params = {"watch": "1", "resourceVersion": since, "fieldSelector": "metadata.name=x"}
    lines = api.watch(maps, params, quiet_seconds_max=30)
    events = [json.loads(next(lines)) for _ in range(3)]
    assert [one["type"] for one in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [one["object"]["data"]["a"] for one in events] == ["1", "2", "2"]
    assert events[0]["object"]["kind"] == "ConfigMap"
    versions = [int(one["object"]["metadata"]["resourceVersion"]) for one in events]
    assert versions == sorted(versions)
    assert versions[0] > int(since)
    place.expire()
    assert told_gone(place.api, maps, {**params, "resourceVersion": since}) == ("ERROR", 410)


def told_gone(api: Api, path: str, params: dict[str, str]) -> tuple[str, int]:
    """The first event of a watch; an API server that has just been restarted is asked until it watches."""

    def first() -> Json | None:
        try:
            found: Json = json.loads(next(iter(api.watch(path, params, quiet_seconds_max=30))))
        except SchedulerError:
            return None
        return found

    event = wait_for(first, "the watch is open")
    return event["type"], event["object"]["code"]


def test_apply_makes_and_changes_its_own_and_stops_at_what_others_wrote(place: Place) -> None:
    api, path = place.api, f"/api/v1/namespaces/{place.name}/configmaps/mine"
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
    api.patch(path, {**body, "data": {"a": "1"}}, PatchKind.APPLY, OURS)
    api.patch(path, {**body, "data": {"a": "2"}}, PatchKind.APPLY, OURS)
    api.patch(path, {"data": {"a": "theirs"}}, PatchKind.MERGE, {"fieldManager": "kubectl-edit"})
    with pytest.raises(SchedulerConflict, match="Apply failed with 1 conflict"):
        api.patch(path, {**body, "data": {"a": "3"}}, PatchKind.APPLY, OURS)
    assert api.get(path)["data"] == {"a": "theirs"}
    api.patch(path, {**body, "data": {"a": "3"}}, PatchKind.APPLY, {**OURS, "force": "true"})
    assert api.get(path)["data"] == {"a": "3"}


def test_discovery_and_rights_are_asked_for(place: Place) -> None:
    served = discover(place.api, RESOURCES)
    assert served.versions["jobs.batch"] == "v1"
    assert served.versions["workloads.kueue.x-k8s.io"] == "v1beta2"
    assert served.unknown == {}
    ask = {"spec": {"resourceAttributes": {"verb": "patch", "resource": "nodes"}}}
    answer = place.api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", ask)
    assert answer["status"]["allowed"] is True
