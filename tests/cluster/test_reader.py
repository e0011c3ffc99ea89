"""The reader on the real control plane: what Kueue, the controllers and the scheduler write is read as it is meant."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from tests.cluster import objects
from tests.cluster.client import wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import FLAT, TAS, Space

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerUnavailable
from trimtab.model.cluster import ClusterSnapshot, Workload, WorkloadState
from trimtab.schedulers.connect import connect
from trimtab.schedulers.mirror import Mirror
from trimtab.schedulers.reader import KubernetesReader
from trimtab.settings import KubernetesSettings

RACKED = {objects.REQUIRED_TOPOLOGY: objects.RACK}
DRIVER = "gpu.nvidia.com"


class Sight:
    """The reader of the whole plane, looked at from one space."""

    def __init__(self, plane: Plane) -> None:
        settings = KubernetesSettings(kubeconfig=str(plane.admin_kubeconfig), request_timeout_seconds=3.0)
        self.api = connect(settings)
        self.mirror = Mirror(connect(settings), settings, SystemClock())
        self.mirror.start()
        self.reader = KubernetesReader(
            self.mirror, api=self.api, settings=settings, cluster="real", clock=SystemClock()
        )

    def close(self) -> None:
        self.mirror.stop()
        self.api.close()

    def until(self, what: str, holds: Callable[[ClusterSnapshot], bool]) -> ClusterSnapshot:
        """The first snapshot of which this holds; watches tell each kind in its own time."""

        def look() -> ClusterSnapshot | None:
            try:
                snapshot = self.reader.snapshot()
            except SchedulerUnavailable:
                return None
            return snapshot if holds(snapshot) else None

        return wait_for(look, what)

    def why_not(self) -> str:
        """Why there is no snapshot now; empty where there is one."""
        try:
            self.reader.snapshot()
        except SchedulerUnavailable as error:
            return str(error)
        return ""

    def workload(self, id_: str, state: WorkloadState, *, reason: str | None = None) -> Workload:
        def holds(snapshot: ClusterSnapshot) -> bool:
            found = snapshot.workload_by_id.get(id_)
            return found is not None and found.state is state and (reason is None or found.waiting_reason == reason)

        return self.until(f"{id_} {state}", holds).workload_by_id[id_]


@pytest.fixture(scope="module")
def sight(plane: Plane) -> Iterator[Sight]:
    made = Sight(plane)
    yield made
    made.close()


def seats_of(workload: Workload) -> list[str]:
    return sorted(one.node for one in workload.placements)


def test_a_topology_gang_is_read_from_its_making_to_its_stop_and_back(sight: Sight, space: Space) -> None:
    space.add_racks(racks=2, nodes_per_rack=3)
    space.run_gang("train", pods=2, topology=RACKED)
    id_ = f"{space.namespace}/job/train"
    found = sight.workload(id_, WorkloadState.RUNNING)
    assert seats_of(found) == space.seats("train")
    assert (found.controller, found.queue, found.pods, found.gpus_per_pod) == (
        "kueue",
        f"{space.namespace}-{TAS}",
        2,
        8,
    )
    assert (found.together, found.is_gang, found.why_fixed) == ("rack", True, None)
    assert [len(one.gpus) for one in found.placements] == [8, 8]
    assert [one.rank for one in found.placements] == [0, 1]
    snapshot = sight.until("racks", lambda snapshot: True)
    racks = {snapshot.node_by_name[name].rack for name in seats_of(found)}
    assert racks == {space.rack_of(seats_of(found)[0])}
    assert found.pool == snapshot.node_by_name[seats_of(found)[0]].pool
    space.set_active("train", is_active=False)
    stopped = sight.workload(id_, WorkloadState.SUSPENDED)
    assert (stopped.placements, stopped.suspended_by) == ((), None)
    space.set_active("train", is_active=True)
    again = sight.workload(id_, WorkloadState.RUNNING)
    assert again.started_at is not None
    assert found.started_at is not None
    assert again.started_at > found.started_at


def test_what_waits_waits_for_quota_or_for_placement(sight: Sight, space: Space) -> None:
    space.add_racks(racks=2, nodes_per_rack=2)
    queue = f"{space.namespace}-{TAS}"
    space.client.patch("clusterqueues", queue, {"spec": objects.cluster_queue(queue, flavors=[queue], gpus=32)["spec"]})
    space.gang("wide", queue=TAS, pods=3, topology=RACKED)  # no rack has three nodes
    space.gang("huge", queue=TAS, pods=5)  # 40 GPUs of 32
    wide = sight.workload(f"{space.namespace}/job/wide", WorkloadState.WAITING, reason="placement")
    assert (wide.pods, wide.gpus_per_pod, wide.together) == (3, 8, "rack")
    huge = sight.workload(f"{space.namespace}/job/huge", WorkloadState.WAITING, reason="quota")
    assert huge.waiting_since is not None
    (quota,) = [one.gpus_quota for one in sight.reader.snapshot().queues if one.name == queue]
    assert quota == 32


def test_a_flat_queue_admits_what_no_node_holds_and_the_pods_say_why(sight: Sight, space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=2)
    for name in ("a", "b"):
        space.run_gang(name, queue=FLAT, pods=1, gpus=5)
    space.gang("whole", queue=FLAT, pods=1, gpus=8)
    found = sight.workload(f"{space.namespace}/job/whole", WorkloadState.WAITING, reason="placement")
    assert (found.controller, found.placements) == ("kueue", ())


def test_a_held_queue_and_its_waiting_job_are_told(sight: Sight, space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=1)
    queue = f"{space.namespace}-{TAS}"
    space.client.patch("clusterqueues", queue, {"spec": {"stopPolicy": "Hold"}})
    space.gang("late", queue=TAS, pods=1)
    found = sight.workload(f"{space.namespace}/job/late", WorkloadState.WAITING)
    assert found.queue == queue
    snapshot = sight.until(
        f"{queue} held",
        lambda snapshot: any(one.name == queue and one.held_by == "somebody" for one in snapshot.queues),
    )
    reason = snapshot.workload_by_id[found.id].waiting_reason
    assert reason is None or "quota" in reason


def test_deployments_stateful_sets_and_bare_pods(sight: Sight, space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=2)
    space.deployment("serve", replicas=2, gpus=2)
    space.stateful_set("shard", replicas=2, gpus=1)
    here = {"nodeSelector": {objects.POOL: space.namespace}}
    space.add("pods", objects.pod("alone", space.namespace, gpus=1, spec=here))
    serve = sight.workload(f"{space.namespace}/deployment/serve", WorkloadState.RUNNING)
    assert (serve.controller, serve.pods, serve.gpus_per_pod, serve.is_gang) == ("kubernetes", 2, 2, False)
    assert serve.can_replace_pod
    shard = sight.workload(f"{space.namespace}/statefulset/shard", WorkloadState.RUNNING)
    wait_for(lambda: len(space.seats("shard")) == 2, "both shards")
    sight.until("shards", lambda snapshot: len(snapshot.workload_by_id[shard.id].placements) == 2)
    assert [one.pod for one in sight.reader.snapshot().workload_by_id[shard.id].placements] == ["shard-0", "shard-1"]
    alone = sight.workload(f"{space.namespace}/pod/alone", WorkloadState.RUNNING)
    assert alone.why_fixed == "is made of bare pods, and no controller brings them back"


def test_a_persons_cordon_is_theirs_and_a_deleted_node_is_gone(sight: Sight, space: Space) -> None:
    first, second = space.add_racks(racks=1, nodes_per_rack=2)
    space.cordon(first)
    snapshot = sight.until(
        "cordon", lambda snapshot: first in snapshot.node_by_name and snapshot.node_by_name[first].is_cordoned
    )
    assert snapshot.node_by_name[first].cordoned_by == "kubectl-cordon"
    assert snapshot.node_by_name[first].why_closed is None
    space.client.delete("nodes", second)
    sight.until("one node less", lambda snapshot: second not in snapshot.node_by_name)


def test_a_terminating_pod_is_busy_until_it_is_gone(sight: Sight, space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=1)
    slow = {"fake/term-s": "6"}
    space.run_gang("slow", queue=None, pods=1, pod_annotations=slow, pod_spec={"terminationGracePeriodSeconds": 20})
    (node,) = space.seats("slow")
    sight.until("running", lambda snapshot: len(snapshot.free_gpus.get(node, "x")) == 0)
    space.client.patch("jobs", "slow", {"spec": {"suspend": True}}, space.namespace)
    stopping = sight.workload(f"{space.namespace}/job/slow", WorkloadState.STOPPING)
    assert (len(stopping.placements[0].gpus), stopping.stop_seconds) == (8, 20.0)
    sight.workload(f"{space.namespace}/job/slow", WorkloadState.SUSPENDED)
    assert len(sight.reader.snapshot().free_gpus[node]) == 8


def test_a_claim_that_the_scheduler_allocated_names_the_gpu(sight: Sight, space: Space) -> None:
    node = space.add_node("n1")
    devices = [
        {"name": f"gpu-{index}", "attributes": {"uuid": {"string": f"GPU-{space.namespace}-{index}"}}}
        for index in range(2)
    ]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    space.add("resourceslices", {"metadata": {"name": space.namespace}, "spec": spec})
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    space.add("deviceclasses", {"metadata": {"name": space.namespace}, "spec": {"selectors": [selector]}})
    request = {"name": "gpu", "exactly": {"deviceClassName": space.namespace}}
    claim = {"metadata": {"name": "one", "namespace": space.namespace}, "spec": {"devices": {"requests": [request]}}}
    space.add("resourceclaims", claim)
    wanted = {
        "resourceClaims": [{"name": "gpu", "resourceClaimName": "one"}],
        "nodeSelector": {objects.POOL: space.namespace},
    }
    body = objects.pod("one", space.namespace, gpus=0, spec=wanted)
    body["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    space.add("pods", body)
    found = sight.workload(f"{space.namespace}/pod/one", WorkloadState.RUNNING)
    assert len(found.placements[0].gpus) == 1
    assert found.placements[0].gpus[0].startswith(f"GPU-{space.namespace}-")


def test_a_server_that_is_frozen_gives_no_snapshot_and_recovers_alone(sight: Sight, plane: Plane, space: Space) -> None:
    space.add_node("n1")
    sight.until("whole", lambda snapshot: bool(snapshot.nodes))
    plane.pause("kube-apiserver")
    try:
        wait_for(sight.why_not, "no snapshot of a frozen server")
    finally:
        plane.resume("kube-apiserver")
    sight.until("whole again", lambda snapshot: bool(snapshot.nodes))
