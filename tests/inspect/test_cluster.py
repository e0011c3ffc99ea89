"""kubectl output: who is free, who waits, and what a plan would do."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from trimtab.inspect.reader import inspect_bytes
from trimtab.model.advice import Action

NOW = datetime(2026, 11, 2, 9, 0, tzinfo=UTC)


def node(name: str, *, gpus: int = 8, allocatable: int | None = None, **spec: Any) -> dict[str, Any]:
    status = {
        "capacity": {"nvidia.com/gpu": str(gpus)},
        "allocatable": {"nvidia.com/gpu": str(gpus if allocatable is None else allocatable)},
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec, "status": status}


def pod(name: str, gpus: int, on: str | None = None, *, owner: str = "ReplicaSet/rs", **spec: Any) -> dict[str, Any]:
    kind, _, owner_name = owner.partition("/")
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "ml",
            "creationTimestamp": "2026-11-02T08:00:00Z",
            "ownerReferences": [{"kind": kind, "name": owner_name}],
        },
        "spec": {
            "containers": [{"resources": {"limits": {"nvidia.com/gpu": gpus}}}],
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {"phase": "Running" if on else "Pending"} | ({"startTime": "2026-11-02T08:00:00Z"} if on else {}),
    }


def read(*items: dict[str, Any]):
    return inspect_bytes(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}).encode(), now=NOW)


def test_a_pod_that_placement_keeps_waiting_is_found_and_given_a_plan():
    found = read(
        node("n0"), node("n1"), node("n2"),
        pod("a", 2, "n0"), pod("b", 5, "n1"), pod("c", 5, "n2"), pod("big", 8),
    )  # fmt: skip
    (finding,) = found.findings
    assert (finding.rule, finding.action) == ("fragmentation", Action.WATCH)
    assert finding.sentence == "big waits for 1 × 8 GPUs: 12 free, never 8 together"
    assert found.steps[0].startswith("Move 1 job off n0 so that big starts (gain ")
    assert "  suspend ml/a" in found.steps
    assert found.reading["plan"]["moves"] == 1
    assert {name: facts["free"] for name, facts in found.reading["nodes"].items()} == {"n0": 6, "n1": 3, "n2": 3}


def test_a_plan_that_hangs_on_checkpoints_says_what_it_assumes():
    old = [pod("a", 2, "n0"), pod("b", 5, "n1"), pod("c", 5, "n2")]
    for one in old:
        one["status"]["startTime"] = "2026-10-20T08:00:00Z"
    found = read(node("n0"), node("n1"), node("n2"), *old, pod("big", 8))
    assert "have saved their work within the last 30 min (the file does not say)" in found.steps[0]
    assert found.steps[1].startswith("Move 1 job off n0 so that big starts")


def test_room_that_is_there_needs_no_plan():
    found = read(node("n0"), node("n1"), pod("a", 2, "n0"), pod("big", 8))
    assert found.findings == ()
    assert found.steps == ()


def test_a_pod_that_its_queue_holds_back_is_not_answered_by_a_move():
    found = read(
        node("n0"), node("n1"), pod("a", 2, "n0"), pod("b", 2, "n1"),
        pod("big", 8, schedulingGates=[{"name": "kueue.x-k8s.io/admission"}]),
    )  # fmt: skip
    assert found.steps == ()
    assert any("waits for quota" in note for note in found.notes)


def test_pods_of_one_job_are_one_gang():
    found = read(
        node("n0"), node("n1"), pod("a", 3, "n0"), pod("b", 3, "n1"),
        pod("g-0", 4, owner="Job/g"), pod("g-1", 4, owner="Job/g"), pod("g-2", 4, owner="Job/g"),
    )  # fmt: skip
    assert "1 workload waiting" in found.sentence
    assert any("needs 3 × 4 GPUs" in note for note in found.notes)


def test_a_cordoned_node_and_an_unhealthy_gpu_are_no_room():
    found = read(node("n0", unschedulable=True), node("n1", allocatable=6), pod("a", 1, "n1"), pod("big", 8))
    assert "5 GPUs free" in found.sentence
    assert [finding.rule for finding in found.findings] == ["device_plugin"]
    assert found.findings[0].sentence == "n1: 2 of 8 GPUs are marked unhealthy by the device plugin"


def test_a_terminating_pod_still_holds_and_a_failed_one_does_not():
    ending, failed = pod("a", 4, "n0"), pod("b", 4, "n0")
    ending["metadata"]["deletionTimestamp"] = "2026-11-02T08:59:00Z"
    failed["status"]["phase"] = "Failed"
    found = read(node("n0"), ending, failed)
    assert found.reading["nodes"]["n0"]["free"] == 4


def test_nodes_without_pods_say_nothing_of_what_is_free():
    found = read(node("n0"))
    assert found.reading["nodes"]["n0"]["free"] is None
    assert any("cannot be told which GPUs are free" in note for note in found.notes)
