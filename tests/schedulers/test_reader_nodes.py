"""Nodes as the snapshot shows them: taints, tolerations, racks, pools, other movers, what is gone."""

from __future__ import annotations

import pytest
from tests.schedulers.reading import a_cluster, a_metadata, annotated, devices, job, job_pods, node, pod

RACK = "example.com/rack"


def tainted(name: str, key: str, value: str = "", effect: str = "NoSchedule", **more):
    return node(name, taints=[{"key": key, "value": value, "effect": effect}], **more)


@pytest.mark.parametrize(
    ("key", "effect", "why"),
    [
        ("dedicated", "NoSchedule", "taint dedicated=research"),
        ("dedicated", "NoExecute", "taint dedicated=research"),
        ("dedicated", "PreferNoSchedule", None),
        ("node.kubernetes.io/unschedulable", "NoSchedule", None),  # the cordon's own, and shown as that
    ],
)
def test_taints_close_a_node(key: str, effect: str, why: str | None):
    assert a_cluster(tainted("n0", key, "research", effect)).node("n0").why_closed == why


@pytest.mark.parametrize(
    ("toleration", "tolerates"),
    [
        ({"key": "dedicated", "value": "research", "effect": "NoSchedule"}, ("taint dedicated=research",)),
        ({"key": "dedicated", "operator": "Exists"}, ("taint dedicated=research",)),
        ({"operator": "Exists"}, ("taint dedicated=research",)),
        ({"key": "dedicated", "value": "other"}, ()),
        ({"key": "dedicated", "operator": "Exists", "effect": "NoExecute"}, ()),
    ],
)
def test_a_workload_tolerates_what_its_pods_tolerate(toleration, tolerates):
    waiting = job("train", pod_spec={"tolerations": [toleration]})
    assert (
        a_cluster(tainted("n0", "dedicated", "research"), waiting).workload("team-a/job/train").tolerates == tolerates
    )


def test_a_node_that_is_not_ready_is_not_schedulable():
    found = a_cluster(node("n0", ready="Unknown")).node("n0")
    assert (found.is_ready, found.is_schedulable) == (False, False)


def test_spares_bear_the_label_of_the_settings():
    cluster = a_cluster(
        node("n0", labels={"x/spare": "true"}), node("n1", labels={"x/spare": "no"}), spare_label="x/spare"
    )
    assert [one.is_spare for one in cluster.snapshot().nodes] == [True, False]


# --- racks and pools


def hyper(name: str, tier: int, **selector):
    members = [{"type": "Node", "selector": selector}]
    return {
        "kind": "HyperNode",
        "apiVersion": "topology.volcano.sh/v1alpha1",
        "metadata": a_metadata(name, ""),
        "spec": {"tier": tier, "members": members},
    }


@pytest.mark.parametrize(
    ("bodies", "settings", "rack"),
    [
        ([], {}, None),
        ([], {"rack_labels": (RACK,)}, "r7"),
        ([hyper("leaf-1", 1, exactMatch={"name": "n0"})], {}, "leaf-1"),
        ([hyper("leaf-1", 1, regexMatch={"pattern": "^n[0-3]$"})], {}, "leaf-1"),
        ([hyper("leaf-1", 1, labelMatch={"matchLabels": {"zone": "a"}})], {}, "leaf-1"),
        ([hyper("spine", 2, exactMatch={"name": "n0"})], {}, None),
        ([hyper("leaf-1", 1, exactMatch={"name": "n0"})], {"rack_labels": (RACK,)}, "r7"),
        ([hyper("leaf-1", 1, regexMatch={"pattern": "("})], {}, None),
    ],
)
def test_the_rack_comes_from_settings_else_from_hyper_nodes(bodies, settings, rack):
    assert a_cluster(node("n0", labels={RACK: "r7", "zone": "a"}), *bodies, **settings).node("n0").rack == rack


def test_without_any_scheduler_topographs_labels_are_racks():
    assert a_cluster(node("n0", labels={"fabric.topograph.run/tier-0": "leaf-4"})).node("n0").rack == "leaf-4"


def flavor(name: str, **labels: str):
    return {"kind": "ResourceFlavor", "metadata": a_metadata(name, ""), "spec": {"nodeLabels": labels}}


def test_the_pool_is_the_flavor_with_most_labels_that_fit_else_the_product():
    product = {"nvidia.com/gpu.product": "NVIDIA-H200"}
    cluster = a_cluster(
        node("n0", labels={"tier": "a", "pool": "x", **product}),
        node("n1", labels={"tier": "a", **product}),
        node("n2", labels=product),
        flavor("wide", tier="a"),
        flavor("narrow", tier="a", pool="x"),
    )
    assert [one.pool for one in cluster.snapshot().nodes] == ["narrow", "wide", "NVIDIA-H200"]
    other = a_cluster(node("n0", labels={"tier": "a"}), flavor("wide", tier="a"), pool_label="tier")
    assert other.node("n0").pool == "a"


def pooled(**spec):
    nodes = [
        node(f"n{index}", labels={"pool": "ab"[index // 2], "disk": "ssd" if index == 0 else "hdd"})
        for index in range(4)
    ]
    return a_cluster(*nodes, job("train", pod_spec=spec), pool_label="pool")


@pytest.mark.parametrize(
    ("spec", "pool", "is_fixed"),
    [
        ({}, None, False),
        ({"nodeSelector": {"pool": "b"}}, "b", False),
        ({"nodeSelector": {"disk": "ssd"}}, None, True),  # a part of a pool: a plan could seat it where it may not run
        ({"nodeSelector": {"disk": "hdd"}}, "b", False),  # fits all of one pool: kept to that one
        (
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "pool", "operator": "In", "values": ["a"]}]}]}}}},
            "a",
            False,
        ),
    ],
)  # fmt: skip
def test_a_workload_stays_in_the_pool_that_its_selector_means(spec, pool, is_fixed):
    found = pooled(**spec).workload("team-a/job/train")
    assert (found.pool, found.why_fixed is not None) == (pool, is_fixed)


def test_what_runs_stays_in_the_pool_that_it_runs_in():
    cluster = pooled().put(*job_pods("train", "n3"))
    assert cluster.workload("team-a/job/train").pool == "b"


# --- other movers


@pytest.mark.parametrize(
    ("body", "mover"),
    [
        (node("n0"), None),
        (tainted("n0", "karpenter.sh/disrupted"), "Karpenter (taint karpenter.sh/disrupted)"),
        (
            tainted("n0", "ToBeDeletedByClusterAutoscaler", "1"),
            "the cluster autoscaler (taint ToBeDeletedByClusterAutoscaler)",
        ),
        (
            tainted("n0", "DeletionCandidateOfClusterAutoscaler", "1", "PreferNoSchedule"),
            "the cluster autoscaler (taint DeletionCandidateOfClusterAutoscaler)",
        ),
        (
            node("n0", labels={"nvidia.com/gpu-driver-upgrade-state": "pod-deletion-required"}),
            "the GPU Operator's driver upgrade (pod-deletion-required)",
        ),
        (node("n0", labels={"nvidia.com/gpu-driver-upgrade-state": "upgrade-done"}), None),
        (node("n0", labels={"dgxc.nvidia.com/nvsentinel-state": "draining"}), "NVSentinel (draining)"),
        (
            annotated(node("n0", spec={"unschedulable": True}), **{"k8saas.nvidia.com/cordon-by": "NVSentinel"}),
            "NVSentinel (it cordoned the node)",
        ),
        (
            node("n0", labels={"k8saas.nvidia.com/ManagedByNVSentinel": "false"}),
            "somebody who keeps automation off it (k8saas.nvidia.com/ManagedByNVSentinel=false)",
        ),
        (node("n0", metadata={"deletionTimestamp": "2026-11-02T09:00:00Z"}), "whoever deletes the node"),
    ],
)
def test_another_mover_is_known_by_its_marks(body, mover):
    assert a_cluster(body).node("n0").other_mover == mover


def test_a_node_claim_that_is_deleted_and_a_descheduler_at_work_are_movers():
    claim = {
        "kind": "NodeClaim",
        "metadata": a_metadata("claim-1", "", deletionTimestamp="2026-11-02T09:00:00Z"),
        "status": {"nodeName": "n0"},
    }
    leaving = annotated(pod("web", "n1", gpus=0), **{"descheduler.alpha.kubernetes.io/eviction-in-progress": "1"})
    snapshot = a_cluster(node("n0"), node("n1"), node("n2"), claim, leaving).snapshot()
    assert [one.other_mover for one in snapshot.nodes] == [
        "Karpenter (it deletes NodeClaim claim-1)",
        "a descheduler",
        None,
    ]


# --- gone


def test_a_node_that_was_deleted_is_gone_with_the_seats_on_it():
    cluster = a_cluster(node("n0"), node("n1"), job("train", pods=2), *job_pods("train", "n0", "n1"))
    assert cluster.workload("team-a/job/train").nodes == ("n0", "n1")
    cluster.drop("nodes", "n1")
    assert [one.name for one in cluster.snapshot().nodes] == ["n0"]
    assert cluster.workload("team-a/job/train").nodes == ("n0",)


def test_nodes_without_gpus_are_left_out_unless_an_agent_speaks_for_them():
    bare = {**node("n0"), "status": {"capacity": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]}}
    cluster = a_cluster(bare)
    assert cluster.snapshot().nodes == ()
    cluster.says["n0"] = devices("n0")
    assert cluster.node("n0").is_ready
    cluster.says.clear()  # silent now, and still there
    assert cluster.node("n0").is_ready
