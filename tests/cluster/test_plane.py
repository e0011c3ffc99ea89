"""The test plane itself: it boots, Kueue places, moves and replaces as the real thing does, and it heals."""

from __future__ import annotations

import contextlib

import pytest
import requests
from tests.cluster import objects
from tests.cluster.client import ApiError, Json, wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space

ONE_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}


def test_the_plane_boots_and_serves_what_it_promises(plane: Plane, capsys: pytest.CaptureFixture[str]) -> None:
    client = plane.client
    assert client.request("GET", "/version")["gitVersion"].startswith("v1.")
    assert {"workloads", "clusterqueues", "topologies"} <= client.resources("kueue.x-k8s.io/v1beta2")
    assert "clusterqueues/pendingworkloads" in client.resources("visibility.kueue.x-k8s.io/v1beta2")
    assert "jobsets" in client.resources("jobset.x-k8s.io/v1alpha2")
    with capsys.disabled():
        megabytes = {name: size >> 20 for name, size in plane.rss_bytes().items()}
        print(f"\nplane: booted in {plane.boot_seconds['total']:.1f} s; RSS in MiB {megabytes}")


def test_kueue_puts_a_gang_onto_one_rack(space: Space) -> None:
    space.add_racks(racks=2, nodes_per_rack=4)
    space.run_gang("g", pods=4, gpus=8, topology=ONE_RACK)
    seats = space.seats("g")
    assert len(set(seats)) == 4
    assert len({space.rack_of(node) for node in seats}) == 1


def test_deactivated_and_reactivated_a_gang_leaves_a_cordoned_node(space: Space) -> None:
    space.add_racks(racks=2, nodes_per_rack=2)
    space.run_gang("g", pods=2, gpus=8, topology=ONE_RACK)
    left = space.seats("g")[0]
    space.cordon(left)
    space.set_active("g", is_active=False)
    space.wait_condition("g", "QuotaReserved=False")
    wait_for(lambda: not space.pods("g"), "the gang's pods gone")
    space.set_active("g", is_active=True)
    assert left not in space.wait_running("g", 2)
    assert {space.rack_of(node) for node in space.seats("g")} != {space.rack_of(left)}


@pytest.mark.long
def test_an_evicted_pod_is_replaced_within_the_rack_and_its_peers_stay(space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=3)
    space.run_gang("g", pods=2, gpus=8, topology=ONE_RACK, can_replace_pods=True)
    gone, kept = sorted(space.pods("g"), key=lambda pod: pod["metadata"]["name"])
    space.cordon(gone["spec"]["nodeName"])
    space.client.evict(gone["metadata"]["name"], space.namespace, uid=gone["metadata"]["uid"])
    wait_for(lambda: gone["spec"]["nodeName"] not in space.seats("g"), "the evicted pod gone")
    seats = space.wait_running("g", 2)
    assert gone["spec"]["nodeName"] not in seats
    assert kept["metadata"]["uid"] in {pod["metadata"]["uid"] for pod in space.pods("g")}
    job = space.client.get("jobs", "g", space.namespace)
    assert job["status"].get("failed", 0) == 0


def test_device_taint_rules_are_served_and_kept(plane: Plane, space: Space) -> None:
    taint = {"key": "trimtab.dev/xid", "value": "79", "effect": "NoSchedule"}
    spec = {"deviceSelector": {"driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-3"}, "taint": taint}
    kind = {"apiVersion": "resource.k8s.io/v1alpha3", "kind": "DeviceTaintRule"}
    made = space.add("devicetaintrules", {**kind, "metadata": {"name": space.namespace}, "spec": spec})
    read = plane.client.get("devicetaintrules", space.namespace)
    assert read["spec"]["taint"]["effect"] == "NoSchedule"
    assert read["spec"]["deviceSelector"]["device"] == "gpu-3"
    assert read["metadata"]["uid"] == made["metadata"]["uid"]


def test_a_device_taint_keeps_new_pods_off_one_gpu(plane: Plane, space: Space) -> None:
    node = space.add_node("n1")
    devices = [{"name": f"gpu-{index}"} for index in range(2)]
    slice_spec = {
        "driver": "gpu.test",
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": devices,
    }
    space.add("resourceslices", {"metadata": {"name": space.namespace}, "spec": slice_spec})
    selector = {"cel": {"expression": 'device.driver == "gpu.test"'}}
    space.add("deviceclasses", {"metadata": {"name": space.namespace}, "spec": {"selectors": [selector]}})
    taint = {"key": "trimtab.dev/xid", "value": "79", "effect": "NoSchedule"}
    rule = {"deviceSelector": {"driver": "gpu.test", "pool": node, "device": "gpu-0"}, "taint": taint}
    space.add("devicetaintrules", {"metadata": {"name": space.namespace}, "spec": rule})
    for name in ("first", "second"):
        _claim(space, name)
    wait_for(lambda: len(space.seats()) == 1, "one of the two pods running")
    allocated = [
        claim for claim in plane.client.list("resourceclaims", space.namespace) if "allocation" in claim["status"]
    ]
    devices_used = [
        found["device"] for claim in allocated for found in claim["status"]["allocation"]["devices"]["results"]
    ]
    assert devices_used == ["gpu-1"]
    plane.client.delete("devicetaintrules", space.namespace)
    wait_for(lambda: len(space.seats()) == 2, "both pods running once the rule is gone")
    rule["taint"] = {**taint, "effect": "NoExecute"}
    space.add("devicetaintrules", {"metadata": {"name": f"{space.namespace}-2"}, "spec": rule})
    wait_for(lambda: len(space.seats()) == 1, "the pod on the tainted GPU deleted")


def _claim(space: Space, name: str) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": space.namespace}}
    claim = {"metadata": {"name": name, "namespace": space.namespace}, "spec": {"devices": {"requests": [request]}}}
    space.add("resourceclaims", claim)
    used = {
        "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
        "nodeSelector": {objects.POOL: space.namespace},
    }
    pod = objects.pod(name, space.namespace, gpus=0, spec=used)
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    space.add("pods", pod)


@pytest.mark.parametrize("queue", [None, "flat"])
def test_stateful_sets_and_deployments_run(space: Space, queue: str | None) -> None:
    space.add_racks(racks=1, nodes_per_rack=2)
    space.stateful_set("db", replicas=2, queue=queue)
    space.deployment("web", replicas=2, queue=queue)
    space.wait_running("db", 2)
    space.wait_running("web", 2)
    before = {pod["metadata"]["uid"] for pod in space.pods("db")}
    space.client.evict("db-0", space.namespace)
    wait_for(lambda: len({pod["metadata"]["uid"] for pod in space.pods("db")} - before) == 1, "db-0 made anew")
    space.wait_running("db", 2)


def test_a_pod_ends_with_the_code_that_it_was_told(space: Space) -> None:
    space.add_node("n1")
    annotations = {"fake/run-s": "0.1", "fake/exit": "3"}
    spec = {"nodeSelector": {objects.POOL: space.namespace}}
    space.add("pods", objects.pod("p", space.namespace, annotations=annotations, spec=spec))
    ended = wait_for(lambda: _ended(space, "p"), "p ended")
    assert ended["status"]["phase"] == "Failed"
    assert ended["status"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def _ended(space: Space, name: str):
    pod = space.client.get("pods", name, space.namespace)
    return pod if pod["status"].get("phase") in ("Succeeded", "Failed") else None


def test_on_a_dead_node_a_deleted_pod_stays_until_the_node_lives_again(plane: Plane, space: Space) -> None:
    nodes = space.add_racks(racks=1, nodes_per_rack=2)
    space.stateful_set("db", replicas=1, pod_spec={"nodeSelector": {objects.HOSTNAME: nodes[0]}})
    space.wait_running("db", 1)
    plane.kubelet.kill_node(nodes[0])
    plane.kubelet.set_ready(nodes[0], "Unknown")
    wait_for(lambda: _has_taint(space, nodes[0], "node.kubernetes.io/unreachable"), "the node tainted unreachable")
    space.client.delete("pods", "db-0", space.namespace, grace_seconds=1)
    # Another pod lives and dies meanwhile: so the kubelet has had its chance.
    space.add("pods", objects.pod("p", space.namespace, spec={"nodeName": nodes[1]}))
    wait_for(lambda: nodes[1] in space.seats(), "p running")
    space.client.delete("pods", "p", space.namespace)
    wait_for(lambda: space.client.find("pods", "p", space.namespace) is None, "p gone")
    stuck = space.client.get("pods", "db-0", space.namespace)
    assert stuck["metadata"]["deletionTimestamp"]
    plane.kubelet.revive_node(nodes[0])
    plane.kubelet.set_ready(nodes[0])
    wait_for(lambda: _uid(space, "db-0") not in (None, stuck["metadata"]["uid"]), "db-0 made anew")


def _has_taint(space: Space, node: str, key: str) -> bool:
    return any(taint["key"] == key for taint in space.client.get("nodes", node)["spec"].get("taints", []))


def _uid(space: Space, pod: str) -> str | None:
    found = space.client.find("pods", pod, space.namespace)
    return found["metadata"]["uid"] if found else None


def test_a_service_account_is_known_and_may_nothing_by_itself(plane: Plane, space: Space) -> None:
    space.add("serviceaccounts", {"metadata": {"name": "reader", "namespace": space.namespace}})
    token = plane.service_account_token("reader", space.namespace)
    review = plane.client.create("tokenreviews", {"spec": {"token": token}})
    assert review["status"]["user"]["username"] == f"system:serviceaccount:{space.namespace}:reader"

    def both() -> list[Json]:
        found = plane.audited("reader", space.namespace)
        return found if len(found) == 2 else []

    with contextlib.closing(plane.client_of("reader", space.namespace)) as reader:
        with pytest.raises(ApiError, match="403 Forbidden"):
            reader.list("nodes")
        with pytest.raises(ApiError, match="403 Forbidden"):
            reader.patch("nodes", "n1", {"spec": {"unschedulable": True}})
    listed, patched = wait_for(both, "both requests audited")
    assert (listed["verb"], listed["responseStatus"]["code"]) == ("list", 403)
    assert (patched["verb"], patched["objectRef"]["name"], patched["responseStatus"]["code"]) == ("patch", "n1", 403)


@pytest.mark.long
def test_kueue_takes_other_settings_and_its_own_again(plane: Plane, space: Space) -> None:
    space.add_node("n1")
    plane.configure_kueue(extra={"fairSharing": {"preemptionStrategies": ["LessThanOrEqualToFinalShare"]}})
    space.run_gang("g", pods=1, gpus=1)
    plane.configure_kueue()
    space.run_gang("h", pods=1, gpus=1)
    assert len(space.seats()) == 2


@pytest.mark.long
def test_a_killed_api_server_comes_back_and_all_go_on(plane: Plane, space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=2)
    space.run_gang("before", pods=1, gpus=1)
    plane.kill("kube-apiserver")
    plane.start("kube-apiserver")
    space.gang("after", pods=1, gpus=1)
    space.wait_running("after", 1, deadline_seconds=120)
    space.wait_running("before", 1)


def test_a_frozen_api_server_goes_on_where_it_was(plane: Plane, space: Space) -> None:
    space.add_node("n1")
    plane.pause("kube-apiserver")
    with contextlib.closing(plane.admin_client(timeout_seconds=1.0)) as client, pytest.raises(requests.Timeout):
        client.list("nodes")
    plane.resume("kube-apiserver")
    space.run_gang("g", pods=1, gpus=1)
    assert len(space.seats("g")) == 1


def test_what_a_test_left_broken_is_mended_for_the_next(plane: Plane, space: Space) -> None:
    space.add_node("n1")
    plane.kill("kube-scheduler")
    plane.pause("kueue")
    plane.mend()
    space.run_gang("g", pods=1, gpus=1)
    assert len(space.seats("g")) == 1
