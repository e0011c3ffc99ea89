"""The deploy manifests on a real API server: the reader changes nothing, the actor only what the policies leave it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.cluster import manifests, objects
from tests.cluster.client import ApiError, Client, Json, wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space

VOLCANO_CRDS = Path(__file__).parent / "volcano" / "crds.yaml"
VOLCANO_JOBS = "batch.volcano.sh/v1alpha1/jobs"
OURS = {"trimtab/hold": '[{"mark":"trimtab:3fa9c1:R1"}]'}


@pytest.fixture(scope="module")
def installed(plane: Plane) -> Iterator[Plane]:
    """The manifests as `kubectl apply` would put them there, without what needs an image."""
    manifests.install(plane.client)
    yield plane
    manifests.remove(plane.client)


@pytest.fixture(scope="module")
def reader(installed: Plane) -> Iterator[Client]:
    client = installed.client_of("trimtab-reader", "trimtab")
    yield client
    client.close()


@pytest.fixture(scope="module")
def actor(installed: Plane) -> Iterator[Client]:
    client = installed.client_of("trimtab-actor", "trimtab")
    yield client
    client.close()


@pytest.fixture
def scene(installed: Plane) -> Iterator[Space]:
    """A rack with a running gang `g`, a waiting pod `late`, a plain job `plain`."""
    made = Space(installed.client)
    made.add_racks(racks=1, nodes_per_rack=2)
    made.run_gang("g", pods=1, gpus=8, topology={objects.REQUIRED_TOPOLOGY: objects.RACK})
    yield made
    made.remove()


def refusal_of(act: Any) -> str:
    with pytest.raises(ApiError) as caught:
        act()
    return f"{caught.value.status} {caught.value}"


READS = (
    "nodes", "pods", "namespaces", "jobs", "deployments", "statefulsets", "poddisruptionbudgets", "jobsets",
    "workloads", "clusterqueues", "localqueues", "cohorts", "resourceflavors", "topologies", "admissionchecks",
)  # fmt: skip


@pytest.mark.parametrize("resource", READS)
def test_the_reader_reads_what_a_snapshot_is_made_of(reader: Client, resource: str) -> None:
    assert isinstance(reader.list(resource), list)


def test_the_reader_changes_nothing_but_its_own_lease_and_events(reader: Client, scene: Space) -> None:
    node, pod = scene.nodes[0], scene.pods("g")[0]["metadata"]["name"]
    workload = scene.workload("g")["metadata"]["name"]
    queue = f"{scene.namespace}-tas"
    for act in (
        lambda: reader.patch("nodes", node, {"spec": {"unschedulable": True}}),
        lambda: reader.evict(pod, scene.namespace),
        lambda: reader.delete("pods", pod, scene.namespace),
        lambda: reader.patch("workloads", workload, {"spec": {"active": False}}, scene.namespace),
        lambda: reader.patch("jobs", "g", {"spec": {"suspend": True}}, scene.namespace),
        lambda: reader.patch("clusterqueues", queue, {"spec": {"stopPolicy": "Hold"}}),
        lambda: reader.list("secrets"),
        lambda: reader.create("configmaps", {"metadata": {"name": "x", "namespace": "trimtab"}}),
    ):
        assert refusal_of(act).startswith("403 ")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": "trimtab", "namespace": "trimtab"},
    }
    assert reader.ensure("leases", lease)["metadata"]["name"] == "trimtab"


def test_the_actor_does_what_a_command_needs(actor: Client, scene: Space) -> None:
    node, workload = scene.nodes[1], scene.workload("g")["metadata"]["name"]
    marked = {"metadata": {"annotations": OURS}}
    actor.patch("nodes", node, {**marked, "spec": {"unschedulable": True}})
    wait_for(
        lambda: any(
            one["key"] == "node.kubernetes.io/unschedulable"
            for one in actor.get("nodes", node)["spec"].get("taints", [])
        ),
        "the cordon's taint",
    )
    taint = {"key": "trimtab/seat", "value": "x", "effect": "NoSchedule"}
    actor.patch("nodes", node, [{"op": "add", "path": "/spec/taints/-", "value": taint}], kind="json")
    actor.patch("nodes", node, {"metadata": {"labels": {"trimtab/seat-3f": "1"}}})
    actor.patch("nodes", node, {"spec": {"unschedulable": False}, "metadata": {"annotations": {"trimtab/hold": None}}})
    actor.patch("clusterqueues", f"{scene.namespace}-tas", {**marked, "spec": {"stopPolicy": "Hold"}})
    actor.patch("clusterqueues", f"{scene.namespace}-tas", {"spec": {"stopPolicy": "None"}})
    scene.gang("plain", pods=1, gpus=64, queue=None)
    late = wait_for(lambda: scene.pods("plain"), "a waiting pod")[0]["metadata"]["name"]
    toleration = {"key": "trimtab/seat", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
    add = [{"op": "add", "path": "/spec/tolerations/-", "value": toleration}]
    actor.patch("pods", late, add, scene.namespace, kind="json")
    actor.patch("jobs", "plain", {**marked, "spec": {"suspend": True}}, scene.namespace)
    actor.patch("workloads", workload, {**marked, "spec": {"active": False}}, scene.namespace)
    scene.wait_condition("g", "QuotaReserved=False")
    actor.patch("workloads", workload, {"spec": {"active": True}}, scene.namespace)
    pods = scene.wait_running("g", 1)
    assert pods
    pod = scene.pods("g")[0]["metadata"]
    actor.evict(pod["name"], scene.namespace, uid=pod["uid"])


def test_the_actor_is_refused_everything_else(actor: Client, scene: Space) -> None:
    node, workload = scene.nodes[1], scene.workload("g")["metadata"]["name"]
    pod = scene.pods("g")[0]["metadata"]["name"]
    foreign = {"key": "someone/else", "effect": "NoSchedule"}
    scene.client.patch("nodes", node, {"spec": {"taints": [foreign]}, "metadata": {"annotations": {"keep": "me"}}})
    wait_for(lambda: _is_denied(actor, node), "the policies in force")
    by_policy = (
        lambda: actor.patch("nodes", node, {"spec": {"taints": []}}),
        lambda: actor.patch("nodes", node, {"metadata": {"labels": {"team": "x"}}}),
        lambda: actor.patch("nodes", node, {"metadata": {"annotations": {"keep": None}}}),
        lambda: actor.patch(
            "nodes", node, {"spec": {"taints": [foreign, {"key": "trimtab/x", "effect": "NoExecute"}]}}
        ),
        lambda: actor.patch("nodes", node, {"spec": {"taints": [foreign, _unschedulable("NoExecute")]}}),
        lambda: actor.patch("nodes", node, {"spec": {"taints": [foreign, _unschedulable("NoSchedule")]}}),
        lambda: actor.patch("nodes", node, {"spec": {"providerID": "other://1"}}),
        lambda: actor.patch("workloads", workload, {"spec": {"priority": 99}}, scene.namespace),
        lambda: actor.patch("workloads", workload, {"metadata": {"labels": {"x": "y"}}}, scene.namespace),
        lambda: actor.patch("clusterqueues", f"{scene.namespace}-tas", {"spec": {"stopPolicy": "HoldAndDrain"}}),
        lambda: actor.patch("clusterqueues", f"{scene.namespace}-tas", {"spec": {"cohortName": "other"}}),
        lambda: actor.patch("pods", pod, {"metadata": {"labels": {"x": "y"}}}, scene.namespace),
        lambda: actor.patch("pods", pod, _image("other"), scene.namespace, kind="strategic"),
        lambda: actor.patch("jobs", "g", {"spec": {"backoffLimit": 99}}, scene.namespace),
        lambda: actor.patch("jobs", "g", {"metadata": {"labels": {"x": "y"}}}, scene.namespace),
        lambda: actor.patch(
            "workloads", workload, {"status": {"unhealthyNodes": [{"name": node}]}}, scene.namespace,
            subresource="status",
        ),
        lambda: actor.patch(
            "workloads", workload, {"status": {"admission": None}}, scene.namespace, subresource="status"
        ),
    )  # fmt: skip
    for act in by_policy:
        assert "trimtab" in refusal_of(act)
    by_role = (
        lambda: actor.delete("pods", pod, scene.namespace),
        lambda: actor.delete("nodes", node),
        lambda: actor.delete("workloads", workload, scene.namespace),
        lambda: actor.patch("nodes", node, {"status": {"conditions": []}}, subresource="status"),
        lambda: actor.create("pods", objects.pod("p", scene.namespace)),
        lambda: actor.list("secrets"),
        lambda: actor.patch("deployments", "d", {"spec": {"replicas": 0}}, scene.namespace),
    )
    for act in by_role:
        assert refusal_of(act).startswith("403 ")


METADATA = (
    {"labels": {"x": "y"}}, {"annotations": {"x": "y"}}, {"annotations": OURS}, {"finalizers": ["example.com/kept"]},
)  # fmt: skip


def test_with_a_status_the_actor_changes_nothing_else(actor: Client, scene: Space) -> None:
    pod = scene.pods("g")[0]
    name, ip = pod["metadata"]["name"], pod["status"]["podIP"]
    containers = [{**one, "restartCount": 7} for one in pod["status"]["containerStatuses"]]
    wait_for(lambda: _is_denied(actor, scene.nodes[1]), "the policies in force")
    of_the_pod: tuple[Json, ...] = (
        *({"metadata": one} for one in METADATA),
        {"status": {"containerStatuses": containers}},
        {"status": {"podIPs": [{"ip": ip}, {"ip": "fd00::1"}]}},
        {"status": {"message": "x"}},
    )
    for body in of_the_pod:
        assert "trimtab" in refusal_of(
            lambda body=body: actor.patch("pods", name, body, scene.namespace, subresource="status")
        )
    scene.gang("plain", pods=1, gpus=64, queue=None)
    late = wait_for(lambda: scene.pods("plain"), "a waiting pod")[0]["metadata"]["name"]
    chosen = {"status": {"nominatedNodeName": scene.nodes[1]}}
    actor.patch("pods", late, chosen, scene.namespace, subresource="status")
    scene.client.patch("jobs", "plain", {"spec": {"suspend": True}}, scene.namespace)
    wait_for(lambda: not scene.pods("plain"), "plain stopped")
    of_the_job: tuple[Json, ...] = (
        *({"metadata": one, "status": {"startTime": None}} for one in METADATA),
        {"status": {"startTime": None, "terminating": 3}},
    )
    for body in of_the_job:
        assert "trimtab" in refusal_of(
            lambda body=body: actor.patch("jobs", "plain", body, scene.namespace, subresource="status")
        )
    actor.patch("jobs", "plain", {"status": {"startTime": None}}, scene.namespace, subresource="status")


CLUSTER_QUEUE: tuple[Json, ...] = (
    {"namespaceSelector": {"matchLabels": {"team": "x"}}},
    {"admissionChecksStrategy": {"admissionChecks": [{"name": "other"}]}},
    {"fairSharing": {"weight": "7"}},
    {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}},
    {"queueingStrategy": "StrictFIFO"},
    {"preemption": {"withinClusterQueue": "LowerPriority"}},
    {"cohortName": "other"},
    {"resourceGroups": []},
)


def test_of_a_queue_the_actor_changes_stop_policy_alone(actor: Client, scene: Space) -> None:
    queue = f"{scene.namespace}-tas"
    wait_for(lambda: _is_denied(actor, scene.nodes[1]), "the policies in force")
    for spec in CLUSTER_QUEUE:
        said = refusal_of(lambda spec=spec: actor.patch("clusterqueues", queue, {"spec": spec}))
        assert "trimtab changes only stopPolicy" in said
    fair = {"spec": {"fairSharing": {"weight": "7"}}}
    assert "trimtab" in refusal_of(lambda: actor.patch("localqueues", "tas", fair, scene.namespace))


def test_the_actor_gives_back_its_hold_of_a_queue_that_an_admin_drains(actor: Client, scene: Space) -> None:
    queue = f"{scene.namespace}-tas"
    actor.patch("clusterqueues", queue, {"metadata": {"annotations": OURS}, "spec": {"stopPolicy": "Hold"}})
    scene.client.patch("clusterqueues", queue, {"spec": {"stopPolicy": "HoldAndDrain"}})
    left = actor.patch("clusterqueues", queue, {"metadata": {"annotations": {"trimtab/hold": None}}})
    assert left["spec"]["stopPolicy"] == "HoldAndDrain"
    assert "trimtab/hold" not in left["metadata"].get("annotations", {})


def test_of_a_jobset_the_actor_changes_suspend_alone(actor: Client, scene: Space) -> None:
    replicated = [{"name": "w", "replicas": 1, "template": {}}]
    made = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "js", "namespace": scene.namespace},
        "spec": {"replicatedJobs": replicated, "failurePolicy": {"maxRestarts": 3}},
    }
    scene.client.create("jobsets", made)
    wait_for(lambda: _is_denied(actor, scene.nodes[1]), "the policies in force")
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1"}
    bodies: tuple[Json, ...] = (
        {"spec": {"replicatedJobs": [{**replicated[0], "replicas": 9}]}},
        {"spec": {"failurePolicy": {"maxRestarts": 9}}},
        {"spec": {"failurePolicy": None}},
        {"spec": {"network": {"subdomain": "x"}}},
        {"spec": {"ttlSecondsAfterFinished": 0}},
        {"metadata": {"labels": {"x": "y"}}},
        {"metadata": {"finalizers": ["example.com/kept"]}},
        {"metadata": {"ownerReferences": [owner]}},
    )
    for body in bodies:
        assert "trimtab" in refusal_of(lambda body=body: actor.patch("jobsets", "js", body, scene.namespace))
    actor.patch("jobsets", "js", {"metadata": {"annotations": OURS}, "spec": {"suspend": True}}, scene.namespace)


@pytest.fixture
def volcano(installed: Plane) -> Iterator[None]:
    """Volcano's Job for a while: the other tests of this plane are to find a cluster without it."""
    name, group = "jobs.batch.volcano.sh", "batch.volcano.sh"
    crds = [one for one in yaml.safe_load_all(VOLCANO_CRDS.read_text(encoding="utf-8")) if one]
    installed.client.create("customresourcedefinitions", next(one for one in crds if one["metadata"]["name"] == name))
    wait_for(lambda: installed.client.is_discovered(group, "v1alpha1"), "Volcano's Job")
    yield
    installed.client.delete("customresourcedefinitions", name)
    wait_for(lambda: not installed.client.is_discovered(group, "v1alpha1"), "Volcano's Job gone")


def _tasks(**changes: Any) -> Json:
    """Two tasks, the second changed."""
    tasks = [{"name": name, "replicas": 2, "minAvailable": 2, "template": {"spec": {}}} for name in ("a", "b")]
    return {"tasks": [tasks[0], {**tasks[1], **changes}]}


VOLCANO: tuple[Json, ...] = (
    {"policies": [{"event": "PodFailed", "action": "TerminateJob"}]},
    {"plugins": {"ssh": []}},
    {"volumes": [{"mountPath": "/x", "volumeClaimName": "x"}]},
    {"schedulerName": "other"},
    {"priorityClassName": "high"},
    {"queue": "other"},
    {"maxRetry": 99},
    {"ttlSecondsAfterFinished": 0},
    _tasks(policies=[{"event": "PodFailed", "action": "TerminateJob"}]),
    _tasks(maxRetry=99),
    _tasks(name="c"),
    _tasks(template={"spec": {"hostNetwork": True}}),
    {"tasks": _tasks()["tasks"][::-1]},
    {"tasks": _tasks()["tasks"][:1]},
)


@pytest.mark.usefixtures("volcano")
def test_of_a_volcano_job_the_actor_changes_numbers_alone(actor: Client, scene: Space) -> None:
    made = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": "vj", "namespace": scene.namespace},
        "spec": {"minAvailable": 4, **_tasks()},
    }
    wait_for(lambda: _is_denied(actor, scene.nodes[1]), "the policies in force")
    scene.client.create(VOLCANO_JOBS, made)
    for spec in VOLCANO:
        said = refusal_of(lambda spec=spec: actor.patch(VOLCANO_JOBS, "vj", {"spec": spec}, scene.namespace))
        assert "trimtab changes only numbers of pods" in said, spec
    none = {"minAvailable": 0, **_tasks(replicas=0, minAvailable=0)}
    actor.patch(VOLCANO_JOBS, "vj", {"metadata": {"annotations": OURS}, "spec": none}, scene.namespace)


def _is_denied(actor: Client, node: str) -> bool:
    try:
        actor.patch("nodes", node, {"metadata": {"labels": {"probe": "x"}}}, dryRun="All")
    except ApiError as error:
        return "trimtab" in str(error)
    return False


def _unschedulable(effect: str) -> Json:
    return {"key": "node.kubernetes.io/unschedulable", "effect": effect}


def _image(image: str) -> Json:
    return {"spec": {"containers": [{"name": "main", "image": image}]}}


def test_an_agents_account_may_do_nothing(installed: Plane, scene: Space) -> None:
    agent = installed.client_of("trimtab-agent", "trimtab")
    try:
        for act in (
            lambda: agent.list("nodes"),
            lambda: agent.list("pods"),
            lambda: agent.patch("nodes", scene.nodes[0], {"spec": {"unschedulable": True}}),
            lambda: agent.list("configmaps", "trimtab"),
        ):
            assert refusal_of(act).startswith("403 ")
    finally:
        agent.close()
