"""The fake API server answers as the recordings of the real one do."""

from __future__ import annotations

import json

import pytest
from tests.fakes.clock import FakeClock
from tests.fakes.kube import FakeKube

from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerGone, SchedulerRefused, SchedulerUnavailable
from trimtab.schedulers.kubernetes import PatchKind

NODE = "/api/v1/nodes/n1"
POD = "/api/v1/namespaces/a/pods/p0"
DRY = {"dryRun": "All", "fieldManager": "trimtab"}


def a_kube() -> FakeKube:
    kube = FakeKube(clock=FakeClock())
    kube.add({"kind": "Node", "apiVersion": "v1", "metadata": {"name": "n1"}, "spec": {"taints": [{"key": "k"}]}})
    for name in ("p0", "p1"):
        kube.add(
            {
                "kind": "Pod",
                "apiVersion": "v1",
                "metadata": {"name": name, "namespace": "a", "labels": {"app": "x"}},
                "spec": {"nodeName": "n1", "containers": [{"name": "c"}]},
                "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
            }
        )
    return kube


def a_budget(kube: FakeKube, *, minimum: int) -> None:
    spec = {"minAvailable": minimum, "selector": {"matchLabels": {"app": "x"}}}
    body = {"metadata": {"name": "b"}, "spec": spec}
    kube.post("/apis/policy/v1/namespaces/a/poddisruptionbudgets", body)


def evict(kube: FakeKube, name: str, uid: str | None = None, params: dict[str, str] | None = None) -> dict:
    path = f"/api/v1/namespaces/a/pods/{name}"
    uid = uid or kube.get(path)["metadata"]["uid"]
    body = {"kind": "Eviction", "metadata": {"name": name}, "deleteOptions": {"preconditions": {"uid": uid}}}
    return kube.post(f"{path}/eviction", body, params)


def allowed(kube: FakeKube) -> int:
    return kube.get("/apis/policy/v1/namespaces/a/poddisruptionbudgets/b")["status"]["disruptionsAllowed"]


def test_a_stale_version_is_a_conflict_and_changes_nothing():
    kube = a_kube()
    with pytest.raises(SchedulerConflict, match="object has been modified"):
        kube.patch(NODE, {"metadata": {"resourceVersion": "1"}, "spec": {"unschedulable": True}}, PatchKind.MERGE)
    assert "unschedulable" not in kube.get(NODE)["spec"]


def test_another_uid_is_a_conflict():
    with pytest.raises(SchedulerConflict, match="field is immutable"):
        a_kube().patch(NODE, {"metadata": {"uid": "0"}}, PatchKind.MERGE)


def test_a_dry_run_answers_and_changes_nothing():
    kube = a_kube()
    before = kube.see(NODE)
    assert kube.patch(NODE, {"spec": {"unschedulable": True}}, PatchKind.MERGE, DRY)["spec"]["unschedulable"] is True
    assert kube.see(NODE) == before
    assert kube.writes == []


def test_a_json_patch_whose_test_fails_is_a_conflict_and_writes_nothing():
    kube = a_kube()
    add = {"op": "add", "path": "/spec/taints/-", "value": {"key": "trimtab/seat"}}
    with pytest.raises(SchedulerConflict, match="422"):
        kube.patch(NODE, [add, {"op": "test", "path": "/metadata/resourceVersion", "value": "0"}], PatchKind.JSON)
    assert kube.get(NODE)["spec"]["taints"] == [{"key": "k"}]
    kube.patch(NODE, [add], PatchKind.JSON)
    assert [taint["key"] for taint in kube.get(NODE)["spec"]["taints"]] == ["k", "trimtab/seat"]


def test_managed_fields_say_who_wrote_what():
    kube = a_kube()
    kube.patch(NODE, {"spec": {"unschedulable": True}}, PatchKind.MERGE, {"fieldManager": "kubectl-cordon"})
    entries = {one["manager"]: one["fieldsV1"] for one in kube.get(NODE)["metadata"]["managedFields"]}
    assert "f:unschedulable" in entries["kubectl-cordon"]["f:spec"]
    assert "f:unschedulable" not in entries["somebody"]["f:spec"]


def test_status_is_changed_by_its_subresource_alone():
    kube = a_kube()
    kube.patch(POD, {"status": {"phase": "Failed"}}, PatchKind.MERGE)
    assert kube.get(POD)["status"]["phase"] == "Running"
    kube.patch(f"{POD}/status", {"status": {"phase": "Failed"}, "spec": {"nodeName": "n9"}}, PatchKind.MERGE)
    assert (kube.get(POD)["status"]["phase"], kube.get(POD)["spec"]["nodeName"]) == ("Failed", "n1")


def test_of_a_pods_spec_only_tolerations_may_be_added():
    kube = a_kube()
    kube.patch(POD, {"spec": {"tolerations": [{"key": "seat", "operator": "Exists"}]}}, PatchKind.MERGE)
    with pytest.raises(SchedulerRefused, match="may not change fields other than"):
        kube.patch(POD, {"spec": {"nodeSelector": {"a": "b"}}}, PatchKind.MERGE)


def test_an_evicted_pod_terminates_and_is_gone_when_its_kubelet_is_done():
    kube = a_kube()
    evict(kube, "p0")
    pod = kube.get(POD)
    assert "deletionTimestamp" in pod["metadata"]
    assert [one["type"] for one in pod["status"]["conditions"]] == ["Ready", "DisruptionTarget"]
    kube.finish_pod("a", "p0")
    with pytest.raises(SchedulerGone, match='pods "p0" not found'):
        kube.get(POD)


def test_a_budget_lets_one_go_and_then_says_429_with_its_numbers():
    kube = a_kube()
    a_budget(kube, minimum=1)
    assert allowed(kube) == 1
    evict(kube, "p0", params=DRY)
    assert allowed(kube) == 1
    evict(kube, "p0")
    for params in (None, DRY):
        with pytest.raises(SchedulerBusy, match="needs 1 healthy pods and has 1 currently") as caught:
            evict(kube, "p1", params=params)
        assert caught.value.retry_after_seconds is None


def test_a_wrong_uid_uses_the_budget_up_for_two_minutes_a_dry_run_does_not():
    kube = a_kube()
    a_budget(kube, minimum=1)
    with pytest.raises(SchedulerConflict):
        evict(kube, "p0", "0", DRY)
    assert allowed(kube) == 1
    with pytest.raises(SchedulerConflict, match="does not match the UID in record"):
        evict(kube, "p0", "0")
    assert allowed(kube) == 0
    with pytest.raises(SchedulerBusy):
        evict(kube, "p0")
    kube.clock.advance(121)
    kube.edit("/api/v1/namespaces/a/pods/p1", {"metadata": {"labels": {"beat": "1"}}})
    assert allowed(kube) == 1


def test_a_watch_tells_what_changed_and_where_it_is():
    kube = a_kube()
    since = kube.get("/api/v1/namespaces/a/pods")["metadata"]["resourceVersion"]
    kube.edit(POD, {"metadata": {"labels": {"b": "c"}}})
    kube.remove(POD)
    params = {"watch": "1", "resourceVersion": since, "allowWatchBookmarks": "true"}
    events = [json.loads(line) for line in kube.watch("/api/v1/pods", params, quiet_seconds_max=1)]
    assert [one["type"] for one in events] == ["MODIFIED", "DELETED", "BOOKMARK"]
    assert events[2]["object"]["metadata"]["resourceVersion"] == events[1]["object"]["metadata"]["resourceVersion"]
    kube.compact()
    (gone,) = [json.loads(line) for line in kube.watch("/api/v1/pods", params, quiet_seconds_max=1)]
    assert (gone["type"], gone["object"]["code"]) == ("ERROR", 410)


def test_a_write_can_fail_before_and_its_answer_can_be_lost_after():
    kube = a_kube()
    kube.fail(SchedulerUnavailable("refused"), "PATCH")
    kube.fail(SchedulerUnavailable("lost"), "PATCH", is_after=True)
    change = {"spec": {"unschedulable": True}}
    with pytest.raises(SchedulerUnavailable, match="refused"):
        kube.patch(NODE, change, PatchKind.MERGE)
    assert "unschedulable" not in kube.see(NODE)["spec"]
    with pytest.raises(SchedulerUnavailable, match="lost"):
        kube.patch(NODE, change, PatchKind.MERGE)
    assert kube.see(NODE)["spec"]["unschedulable"] is True


def test_states_are_kept_and_compared_whatever_their_versions():
    kube = a_kube()
    start, text = kube.snapshot(), kube.state_key()
    kube.patch(NODE, {"spec": {"unschedulable": True}}, PatchKind.MERGE)
    assert kube.state_key() != text
    kube.patch(NODE, {"spec": {"unschedulable": None}}, PatchKind.MERGE)
    assert kube.state_key() == text
    kube.remove(NODE)
    kube.restore(start)
    assert kube.state_key() == text


def test_lists_come_in_pages_and_are_selected():
    kube = a_kube()
    first = kube.get("/api/v1/pods", {"limit": "1"})
    second = kube.get("/api/v1/pods", {"limit": "1", "continue": first["metadata"]["continue"]})
    assert [one["metadata"]["name"] for page in (first, second) for one in page["items"]] == ["p0", "p1"]
    assert kube.get("/api/v1/pods", {"fieldSelector": "spec.nodeName!=n1"})["items"] == []
    assert len(kube.get("/api/v1/pods", {"labelSelector": "app=x"})["items"]) == 2


def test_what_is_not_served_is_gone_and_what_is_refused_has_the_servers_words():
    kube = a_kube()
    del kube.kinds["workloads.kueue.x-k8s.io"]
    with pytest.raises(SchedulerGone, match="could not find the requested resource"):
        kube.get("/apis/kueue.x-k8s.io/v1beta2/workloads")
    kube.refuses = lambda call: (
        (500, 'failed calling webhook "mpod.kb.io": connection refused') if call.is_write else None
    )
    with pytest.raises(SchedulerUnavailable, match="an admission webhook cannot be called"):
        kube.patch(NODE, {"spec": {}}, PatchKind.MERGE)
