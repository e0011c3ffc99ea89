"""contradiction: what agents see held and what the cluster's API says is held."""

from __future__ import annotations

from dataclasses import replace

from tests.builders import CLUSTER, a_node, a_placement, a_reading, a_snapshot, a_window, a_workload
from tests.detect.beats import Beats
from tests.detect.views import at, stale, without_snapshot

from trimtab.detect.contradiction import Contradiction
from trimtab.model.advice import Action, Finding
from trimtab.model.cluster import ClusterSnapshot, Workload, WorkloadState
from trimtab.model.window import Window

NODES = [f"gpu-0{index}" for index in range(4)]


def train(*nodes: str, **changes) -> Workload:
    """A gang of one pod a node, as a Kubernetes reader makes it."""
    placements = tuple(a_placement(node, range(8), rank=rank, pod=f"train-{rank}") for rank, node in enumerate(nodes))
    changes = {"controller": "kueue", "tenant": "team-a", **changes}
    return replace(a_workload("train", on={node: range(8) for node in nodes}), placements=placements, **changes)


def window(
    held: dict[str, str | None], *workloads: Workload, seconds: float = 0.0, snapshot: ClusterSnapshot | None = None
) -> Window:
    """`held` maps node -> the pod that its agent names on all its GPUs."""
    readings = {node: [a_reading(node, index, holder=pod) for index in range(8)] for node, pod in held.items()}
    snapshot = snapshot or a_snapshot([a_node(name) for name in NODES], workloads)
    return a_window(readings, snapshot=snapshot, at=at(seconds))


def found(of: Window) -> list[Finding]:
    return list(Contradiction().detect(of))


def test_who_agrees_is_left_alone():
    assert found(window({"gpu-00": "team-a/train-0", "gpu-01": "team-a/train-1"}, train("gpu-00", "gpu-01"))) == []


def test_a_pod_that_the_api_does_not_have_is_told_and_suffices_for_nothing():
    (finding,) = found(window({"gpu-00": "team-a/train-0", "gpu-01": "team-b/ghost"}, train("gpu-00")))
    assert finding.sentence == (
        "gpu-01 GPUs 0, 1, 2, 3, 4, 5, 6, 7: held by team-b/ghost to its agent, "
        "and the API has no such pod with GPUs there"
    )
    assert (finding.action, finding.is_corroborated, finding.gpus_hit) == (Action.CONFIG_PROBLEM, False, 8)
    assert [one.source for one in finding.evidence] == ["reports", "scheduler"]


def test_the_same_pod_on_another_node_is_a_contradiction_too():
    moved = window({"gpu-00": "team-a/train-1", "gpu-01": "team-a/train-1"}, train("gpu-02", "gpu-01"))
    assert [one.subject.node for one in found(moved)] == ["gpu-00"]


def test_a_pod_that_is_over_may_be_named_for_a_while():
    snapshot = a_snapshot([a_node(name) for name in NODES], [train("gpu-00")], ended_pods=frozenset({"team-b/done"}))
    assert found(window({"gpu-00": "team-a/train-0", "gpu-01": "team-b/done"}, snapshot=snapshot)) == []


def test_a_running_pod_that_its_agent_does_not_see_is_watched():
    (finding,) = found(window({"gpu-00": "team-a/train-0", "gpu-01": None}, train("gpu-00", "gpu-01")))
    assert (
        finding.sentence
        == "team-a/train-1 runs on gpu-01 with 8 GPUs to the API, and the node's agent sees it hold none"
    )
    assert (finding.action, finding.subject.workload, finding.is_corroborated) == (
        Action.WATCH,
        "research/train",
        False,
    )


def test_agents_that_never_name_a_holder_contradict_nobody():
    assert found(window({"gpu-00": None, "gpu-01": None}, train("gpu-00", "gpu-01"))) == []


def test_what_only_starts_or_stops_is_not_judged():
    starting = train("gpu-00", "gpu-01", state=WorkloadState.STARTING)
    assert found(window({"gpu-00": "team-a/train-0", "gpu-01": None}, starting)) == []


def test_a_silent_node_contradicts_nobody():
    of = window({"gpu-00": "team-a/train-0", "gpu-01": "team-b/ghost"}, train("gpu-00", "gpu-01"))
    assert len(found(of)) == 2
    assert found(stale(of, "gpu-01", seconds=300)) == []


def test_another_schedulers_names_and_no_snapshot_say_nothing():
    of = window({"gpu-00": "team-a/train-0", "gpu-02": "4711", "gpu-01": "team-b/ghost"}, train("gpu-00"))
    assert [one.subject.node for one in found(of)] == ["gpu-01"]
    assert found(without_snapshot(of)) == []
    assert found(window({"gpu-01": "team-b/ghost"}, train("gpu-00", controller="simulated"))) == []


def test_most_nodes_at_once_are_one_finding_about_what_is_read():
    strange = {node: f"other/pod-{node}" for node in NODES[1:]}
    (finding,) = found(window({"gpu-00": "team-a/train-0", **strange}, train("gpu-00")))
    assert finding.sentence == f"{CLUSTER}: agents of 3 of 4 nodes name pods that the API lacks"
    assert "kubeconfig" in finding.advice


def test_it_opens_after_two_minutes_and_ends_two_minutes_after_they_agree():
    beats = Beats()

    def beat(pod: str, *nodes: str) -> None:
        of = window({"gpu-00": "team-a/train-0", "gpu-01": pod}, train("gpu-00", *nodes), seconds=beats.seconds + 10)
        beats.beat(*found(of), after=10, window=of)

    for _ in range(12):
        beat("team-b/ghost")
        assert beats.open == ()
    beat("team-b/ghost")
    assert [one.finding.incident for one in beats.open] == ["contradiction:gpu-01:team-b/ghost"]
    for _ in range(11):
        beat("team-a/train-1", "gpu-01")
    assert len(beats.open) == 1
    for _ in range(2):
        beat("team-a/train-1", "gpu-01")
    assert beats.open == ()


def test_pods_that_come_and_go_are_never_told():
    beats = Beats()
    for number in range(60):
        held = {"gpu-00": "team-a/train-0", "gpu-01": f"team-b/short-{number // 6}"}
        of = window(held, train("gpu-00"), seconds=beats.seconds + 10)
        beats.beat(*found(of), after=10, window=of)
        assert beats.open == ()
