"""The stand-in's pure rules that no recording tries: policies by exit code and by task, quota, order, topology."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.cluster.volcano.api import Object
from tests.cluster.volcano.placement import HyperNodes, fit_text
from tests.cluster.volcano.policies import SYNC, Counts, Decision, Request, decide, next_phase, reaction
from tests.cluster.volcano.quota import quotas
from tests.cluster.volcano.session import Gang, Seat, Session
from tests.contract.volcano_bodies import a_job, a_task

EVICTED = Request(namespace="t", job="j", event="PodEvicted", job_uid="u", task="worker", pod="j-worker-1")


def job_with(*policies: Object, of_task: tuple[Object, ...] = (), **status: object) -> Object:
    job = a_job("j", "t", tasks=[a_task("worker", 2, policies=list(of_task))], policies=list(policies), maxRetry=3)
    return {**job, "metadata": {**job["metadata"], "uid": "u"}, "status": status}


@pytest.mark.parametrize(
    ("policy", "request_", "action"),
    [
        ({"event": "PodEvicted", "action": "RestartJob"}, EVICTED, "RestartJob"),
        ({"events": ["PodFailed", "PodEvicted"], "action": "AbortJob"}, EVICTED, "AbortJob"),
        ({"event": "*", "action": "RestartJob"}, EVICTED, "RestartJob"),
        ({"event": "*", "action": "RestartJob"}, replace(EVICTED, event="Running"), SYNC),
        ({"event": "*", "action": "RestartJob"}, replace(EVICTED, event="PodPending"), SYNC),
        ({"exitCode": 143, "action": "RestartJob"}, replace(EVICTED, event="PodFailed", exit_code=143), "RestartJob"),
        ({"exitCode": 1, "action": "RestartJob"}, replace(EVICTED, event="PodFailed", exit_code=143), SYNC),
        ({"event": "PodFailed", "action": "RestartJob"}, EVICTED, SYNC),
        ({"event": "PodEvicted", "action": "RestartJob"}, replace(EVICTED, job_uid="another"), SYNC),
    ],
)
def test_a_policy_is_matched_by_event_or_exit_code(policy: Object, request_: Request, action: str) -> None:
    assert decide(job_with(policy), request_).action == action


def test_a_tasks_policy_comes_before_the_jobs_and_a_timeout_delays() -> None:
    of_task = {"event": "PodEvicted", "action": "RestartTask", "timeout": "1m"}
    job = job_with({"event": "PodEvicted", "action": "RestartJob"}, of_task=(of_task,))
    assert decide(job, EVICTED) == Decision("RestartTask", 60.0)


def test_what_happened_to_pods_of_an_older_version_starts_nothing() -> None:
    job = job_with({"event": "PodEvicted", "action": "RestartJob"}, version=2)
    assert decide(job, replace(EVICTED, version=1)).action == SYNC
    assert decide(job, replace(EVICTED, version=2)).action == "RestartJob"


@pytest.mark.parametrize("retry_count", [2, 3])
def test_a_restart_fails_the_job_exactly_when_no_retry_is_left(retry_count: int) -> None:
    phase = next_phase(job_with(), "Restarting", Counts(), retry_count=retry_count, min_available=2)
    assert phase == ("Failed" if retry_count == 3 else "Pending")


def test_a_finished_job_answers_nothing() -> None:
    for action in ("RestartJob", "ResumeJob", "AbortJob", SYNC):
        assert reaction("Completed", action).becomes == ""


def a_gang(phase: str, gpus: int) -> Gang:
    spec = {"minMember": 1, "queue": "q", "minResources": {"nvidia.com/gpu": str(gpus)}}
    metadata = {"name": "g", "namespace": "t", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return Gang({"metadata": metadata, "spec": spec}, 0, phase=phase)


@pytest.mark.parametrize(("asked", "is_enough"), [(8, True), (9, False)])
def test_who_was_let_in_counts_as_taken_though_nothing_of_it_runs(asked: int, is_enough: bool) -> None:
    seat = Seat({"metadata": {"name": "n"}}, {"nvidia.com/gpu": 16.0})
    queue = {"metadata": {"name": "q"}, "spec": {}}
    wanted = a_gang("Pending", asked)
    book = quotas(Session({"n": seat}, [a_gang("Inqueue", 8), wanted], {"q": queue}))["q"]
    assert book.lacking_for(wanted) == ([] if is_enough else ["nvidia.com/gpu"])


def test_a_queues_capability_bounds_it_below_the_cluster() -> None:
    seat = Seat({"metadata": {"name": "n"}}, {"nvidia.com/gpu": 16.0})
    queue = {"metadata": {"name": "q"}, "spec": {"capability": {"nvidia.com/gpu": "4"}}}
    wanted = a_gang("Pending", 5)
    assert quotas(Session({"n": seat}, [wanted], {"q": queue}))["q"].lacking_for(wanted) == ["nvidia.com/gpu"]


TWO_RACKS = HyperNodes(
    {"r1": 1, "r2": 1, "spine": 2},
    {"r1": frozenset({"a", "b"}), "r2": frozenset({"c", "d"}), "spine": frozenset({"a", "b", "c", "d"})},
)


def test_a_gang_stays_within_the_rack_of_what_it_holds() -> None:
    assert TWO_RACKS.by_tier(1, holding=set()) == [["r1", "r2"]]
    assert TWO_RACKS.by_tier(1, holding={"c"}) == [["r2"]]
    assert TWO_RACKS.by_tier(2, holding={"c"}) == [["r1", "r2"], ["spine"]]
    assert TWO_RACKS.by_tier(1, holding={"a", "c"}) == []


def test_the_sentence_counts_nodes_by_reason() -> None:
    reasons = ["Insufficient nvidia.com/gpu", "node(s) were unschedulable", "Insufficient nvidia.com/gpu"]
    text = "0/3 nodes are unavailable: 1 node(s) were unschedulable, 2 Insufficient nvidia.com/gpu."
    assert fit_text(reasons) == text
    assert fit_text(reasons, hyper_node="rack-r1") == f"In hyperNode rack-r1: {text}"
