"""What Volcano's policies, retries, sizes, HyperNodes and queues allow: pure, from the objects alone."""

from __future__ import annotations

from typing import Any

import pytest
from tests.schedulers.volcano_hall import a_task, rack_node, vcjob

from trimtab.schedulers.objects import Loose, Metadata, NodeObject
from trimtab.schedulers.volcano_policies import (
    Harm,
    Retries,
    can_replace_pod,
    on_eviction,
    on_stop,
    policies_of,
    retries_of,
    shrink,
    sizes_of,
)
from trimtab.schedulers.volcano_room import (
    Claim,
    claim_of,
    domains,
    hard_tier,
    why_locked_out,
    why_not_together,
    why_queue_closed,
)

RESTART = "RestartJob"


def spec_with(*policies: dict[str, Any], tasks: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    spec: dict[str, Any] = vcjob("j", policies=policies, tasks=tasks or ())["spec"]
    return spec


# --- policies, as they were seen to fire on one eviction


@pytest.mark.parametrize(
    ("policy", "harm"),
    [
        ({"event": "PodEvicted", "action": RESTART}, Harm.RESTART),
        ({"event": "PodFailed", "action": RESTART}, Harm.RESTART),
        ({"event": "Unknown", "action": RESTART}, Harm.RESTART),
        ({"event": "TaskFailed", "action": RESTART}, Harm.RESTART),
        ({"event": "*", "action": RESTART}, Harm.RESTART),
        ({"exitCode": 143, "action": RESTART}, Harm.RESTART),
        ({"events": ["PodPending", "PodEvicted"], "action": RESTART}, Harm.RESTART),
        ({"event": "PodEvicted", "action": RESTART, "timeout": "5m"}, Harm.RESTART),
        ({"event": "PodEvicted", "action": "RestartPod"}, Harm.NARROW),
        ({"event": "PodEvicted", "action": "RestartTask"}, Harm.NARROW),
        ({"event": "PodEvicted", "action": "AbortJob"}, Harm.END),
        ({"event": "PodFailed", "action": "TerminateJob"}, Harm.END),
        ({"event": "PodEvicted", "action": "SomethingNew"}, Harm.END),
        ({"event": "PodEvicted", "action": "SyncJob"}, Harm.NONE),
        ({"event": "PodPending", "action": RESTART}, Harm.NONE),
        ({"event": "JobUpdated", "action": RESTART}, Harm.NONE),
    ],
)
def test_one_policy_decides_what_an_eviction_does(policy: dict[str, Any], harm: Harm) -> None:
    spec = spec_with(policy)
    assert on_eviction(spec, "worker", pods_running=4).harm is harm
    assert on_stop(spec).harm is harm
    assert can_replace_pod(spec, running_by_task={"worker": 4}) is (harm is Harm.NONE)


def test_the_sentence_names_policy_and_task() -> None:
    tasks = [a_task("master", 1), a_task("worker", 3, policies=[{"event": "PodFailed", "action": RESTART}])]
    spec = spec_with(tasks=tasks)
    reaction = on_eviction(spec, "worker", pods_running=3)
    assert reaction.sentence == "“task worker: PodFailed → RestartJob” restarts the whole job"
    assert on_eviction(spec, "master", pods_running=1).harm is Harm.NONE
    assert not can_replace_pod(spec, running_by_task={"master": 1, "worker": 3})


def test_the_worst_of_job_and_task_counts() -> None:
    tasks = [a_task("worker", 4, policies=[{"event": "PodEvicted", "action": "RestartPod"}])]
    spec = spec_with({"event": "Unknown", "action": "AbortJob"}, tasks=tasks)
    assert on_eviction(spec, "worker", pods_running=4).harm is Harm.END
    assert [policy.text for policy in policies_of(spec)] == [
        "job: Unknown → AbortJob",
        "task worker: PodEvicted → RestartPod",
    ]


@pytest.mark.parametrize(("running", "harm"), [(1, Harm.END), (2, Harm.NONE), (0, Harm.END)])
def test_the_last_running_pod_of_a_task_that_completes_the_job_is_no_victim(running: int, harm: Harm) -> None:
    tasks = [a_task("master", 2, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}])]
    assert on_eviction(spec_with(tasks=tasks), "master", pods_running=running).harm is harm


def test_at_zero_a_completed_task_does_no_harm() -> None:
    tasks = [a_task("master", 1, policies=[{"event": "TaskCompleted", "action": "CompleteJob"}])]
    assert on_stop(spec_with(tasks=tasks)).harm is Harm.NONE


# --- retries


@pytest.mark.parametrize(
    ("used", "limit", "has_room"),
    [(0, 3, True), (1, 3, True), (2, 3, False), (3, 3, False), (0, 1, False), (0, 0, False)],
)
def test_the_last_restart_is_the_one_before_the_limit(used: int, limit: int, has_room: bool) -> None:
    assert Retries(used=used, limit=limit).has_room is has_room


def test_what_volcano_leaves_out_is_its_default() -> None:
    assert retries_of({"spec": {}, "status": {}}) == Retries(used=0, limit=3)
    assert retries_of({"spec": {"maxRetry": 0}, "status": {"retryCount": 2, "version": 15}}) == Retries(used=2, limit=0)


# --- sizes


def test_a_job_with_slack_shrinks_by_its_last_pods_or_by_eviction() -> None:
    spec = vcjob("j", pods=8, at_least=4)["spec"]
    assert sizes_of(spec).is_elastic
    last = shrink(spec, [("worker", 6), ("worker", 7)])
    assert (last.is_possible, last.costs_restart) == (True, False)
    assert "lower `replicas`" in last.sentence
    middle = shrink(spec, [("worker", 2)])
    assert middle.is_possible
    assert "cordon the node and evict them" in middle.sentence


def test_a_policy_makes_a_shrink_cost_a_restart_and_a_full_gang_cannot_shrink() -> None:
    eager = {"event": "PodEvicted", "action": RESTART}
    costly = shrink(vcjob("j", pods=8, at_least=4, policies=[eager])["spec"], [("worker", 7)])
    assert (costly.is_possible, costly.costs_restart) == (True, True)
    assert "PodEvicted → RestartJob" in costly.sentence
    full = shrink(vcjob("j")["spec"], [("worker", 3)])
    assert not full.is_possible
    assert full.sentence == "it runs with no fewer than 4 of its 4 pods, and 1 would go"


def test_a_task_keeps_its_own_minimum() -> None:
    tasks = [a_task("master", 1), a_task("worker", 7, at_least=3)]
    spec = {**vcjob("j", tasks=tasks)["spec"], "minAvailable": 4}
    assert shrink(spec, [("master", 0)]).sentence == "task master needs 1 pods and would have 0"


# --- HyperNodes


def loose(body: dict[str, Any]) -> Loose:
    metadata = Metadata(name=body["metadata"]["name"], namespace=body["metadata"].get("namespace", ""))
    return Loose(metadata=metadata, spec=body["spec"], status=body.get("status") or {})


NODES = {
    f"n{number:02}": NodeObject(metadata=Metadata(name=f"n{number:02}", labels={"row": "a" if number < 11 else "b"}))
    for number in range(1, 16)
}
SPINE = {
    "metadata": {"name": "spine"},
    "spec": {
        "tier": 2,
        "tierName": "spine",
        "members": [{"type": "HyperNode", "selector": {"regexMatch": {"pattern": "^rack-[12]$"}}}],
    },
}
ROW = {
    "metadata": {"name": "row-a"},
    "spec": {"tier": 3, "members": [{"type": "Node", "selector": {"labelMatch": {"matchLabels": {"row": "a"}}}}]},
}
HYPER_NODES = {
    one["metadata"]["name"]: loose(one)
    for one in (*(rack_node(f"rack-{rack}", rack, 5 * rack - 4, 5) for rack in (1, 2, 3)), SPINE, ROW)
}


@pytest.mark.parametrize(
    ("nodes", "tier", "is_fine"),
    [
        (["n01", "n05"], 1, True),
        (["n01", "n06"], 1, False),
        (["n01", "n06"], 2, True),
        (["n01", "n11"], 2, False),
        (["n01", "n10"], 3, True),
        (["n01", "n11"], 3, False),
        (["n01", "n11"], None, True),
    ],
)
def test_a_hard_gang_sits_in_one_hyper_node(nodes: list[str], tier: int | None, is_fine: bool) -> None:
    assert (why_not_together(nodes, tier, domains(HYPER_NODES, NODES)) is None) is is_fine


def test_the_sentence_names_who_is_outside() -> None:
    known = domains(HYPER_NODES, NODES)
    sentence = why_not_together(["n01", "n02", "n07"], 1, known)
    assert sentence == "it must stay within one HyperNode of tier 1 and n07 is outside of rack-1"
    assert "are in none" in (why_not_together(["elsewhere"], 1, known) or "")


def test_the_tier_is_a_number_or_a_name_and_soft_means_none() -> None:
    assert hard_tier({"mode": "hard", "highestTierAllowed": 2}, HYPER_NODES) == 2
    assert hard_tier({"mode": "hard", "highestTierName": "spine"}, HYPER_NODES) == 2
    assert hard_tier({"mode": "hard"}, HYPER_NODES) == 1
    assert hard_tier({"mode": "soft", "highestTierAllowed": 1}, HYPER_NODES) is None
    assert hard_tier(None, HYPER_NODES) is None


# --- queues


def queue(*, gpus: int | None, allocated: int, state: str = "Open") -> Loose:
    spec = {} if gpus is None else {"capability": {"nvidia.com/gpu": str(gpus)}}
    status = {"state": state, "allocated": {"nvidia.com/gpu": str(allocated)}}
    return loose({"metadata": {"name": "q"}, "spec": spec, "status": status})


def claim(name: str, phase: str, gpus: int) -> Claim:
    return Claim(name=name, phase=phase, amounts={"nvidia.com/gpu": float(gpus)})


OWN = claim("team-a/own", "Running", 16)


@pytest.mark.parametrize(
    ("others", "is_fine"),
    [
        ([], True),
        ([claim("w", "Inqueue", 8)], True),
        ([claim("w", "Inqueue", 24)], False),
        ([claim("w", "Pending", 8)], True),
        ([claim("w", "Pending", 24)], False),
        ([claim("w", "Pending", 200)], True),
        ([claim("v", "Pending", 8), claim("w", "Pending", 16)], False),
        ([claim("w", "Running", 200)], True),
    ],
)
def test_a_job_gets_its_quota_back_only_if_nobody_can_take_it_meanwhile(others: list[Claim], is_fine: bool) -> None:
    """32 may be had, 24 are: 16 of them ours."""
    for limits, total in ((32, 1000), (None, 32)):
        why = why_locked_out(
            queue(gpus=limits, allocated=24), OWN, others, {"nvidia.com/gpu": float(total)}, is_allocated=True
        )
        assert (why is None) is is_fine


def test_one_that_waits_needs_what_is_not_spoken_for() -> None:
    total = {"nvidia.com/gpu": 1000.0}
    waits = claim("team-a/own", "Inqueue", 16)
    assert why_locked_out(queue(gpus=32, allocated=16), waits, [], total, is_allocated=False) is None
    why = why_locked_out(queue(gpus=32, allocated=24), waits, [], total, is_allocated=False)
    assert why == "queue q has 32 nvidia.com/gpu, 24 are spoken for, it needs 16"


def test_a_queue_that_is_not_open_is_said() -> None:
    assert why_queue_closed(queue(gpus=8, allocated=0), "q") is None
    assert "queue q is Closing" in (why_queue_closed(queue(gpus=8, allocated=0, state="Closing"), "q") or "")
    assert why_queue_closed(None, "q") == "there is no queue q"


def test_a_pod_group_claims_its_minimum() -> None:
    group = loose(
        {"metadata": {"name": "g", "namespace": "a"}, "spec": {"minResources": {"cpu": "500m", "nvidia.com/gpu": "8"}}}
    )
    assert claim_of(group) == Claim(name="a/g", phase="Pending", amounts={"cpu": 0.5, "nvidia.com/gpu": 8.0})
