"""What plain Kubernetes cannot carry out, each with its sentence, and how it carries out the rest."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.schedulers.plain_driver import Driver, a_drain, a_move
from tests.schedulers.plain_hall import NAMESPACE, PlainHall
from tests.schedulers.views import snapshot_of, view_of

from trimtab.model.command import Move, MoveKind, Seat
from trimtab.schedulers.budgets import BUDGETS, selector_text, selects, why_not_evict, why_not_stop
from trimtab.schedulers.objects import Loose, Metadata, Pod
from trimtab.schedulers.plain_rules import refusal_of
from trimtab.schedulers.view import View


@pytest.fixture
def hall() -> PlainHall:
    return PlainHall(["n1", "n2", "n3", "n4"])


def refusal(hall: PlainHall, move: Move, **wishes: Any) -> tuple[str, str]:
    driver = Driver(hall)
    found = driver.plain.refusal(move, snapshot_of(hall.kube, **wishes))
    return ("", "") if found is None else (found.rule, found.sentence)


def test_a_move_that_can_be_carried_out_is_not_refused(hall: PlainHall) -> None:
    hall.add("job", "train", pods=2, gpus=8, on=["n1", "n2"])
    assert refusal(hall, a_move(hall, "job", "train", {"n1": "n3"})) == ("", "")


def test_a_gang_is_not_torn_apart_unless_it_says_so(hall: PlainHall) -> None:
    hall.add("job", "train", pods=2, gpus=8, on=["n1", "n2"])
    gone = hall.pods("train")[0]["metadata"]["name"]
    move = a_move(hall, "job", "train", {"n1": "n3"}, replaced=[gone])
    rule, sentence = refusal(hall, move)
    assert rule == "gang"
    assert "with 1 evicted the other 1 lose their peers" in sentence
    assert refusal(hall, move, train={"can_replace_pod": True}) == ("", "")


@pytest.mark.parametrize(
    ("spec", "failed", "expected"),
    [
        ({"backoffLimit": 1}, 1, "it would have 2 of 1 and fail for good"),
        ({"backoffLimit": 2}, 1, ""),
        ({}, 6, "it would have 7 of 6 and fail for good"),
        ({"backoffLimitPerIndex": 0}, 0, "would have 1 of 0 and its index fail for good"),
        (
            {
                "backoffLimit": 0,
                "podFailurePolicy": {
                    "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
                },
            },
            0,
            "",
        ),
    ],
)
def test_a_job_near_its_last_failure_is_not_evicted_from(
    hall: PlainHall, spec: dict[str, Any], failed: int, expected: str
) -> None:
    hall.add("job", "train", pods=1, gpus=8, on=["n1"], **spec)
    hall.kube.edit(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/train", {"status": {"failed": failed}})
    gone = hall.pods("train")[0]["metadata"]["name"]
    rule, sentence = refusal(hall, a_move(hall, "job", "train", {"n1": "n3"}, replaced=[gone]))
    assert (rule == "backoff_limit") is bool(expected)
    assert expected in sentence


def test_budgets_are_asked_for_evictions_and_for_whole_stops(hall: PlainHall) -> None:
    hall.add("job", "train", pods=2, gpus=4, on=["n1", "n2"])
    labels = {"batch.kubernetes.io/job-name": "train"}
    budget = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    metadata = {"name": "keep", "namespace": NAMESPACE}
    hall.kube.add({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": budget})
    rule, sentence = refusal(hall, a_move(hall, "job", "train", {"n1": "n3"}))
    assert rule == "disruption_budget"
    assert "the disruption budget keep lets 1 pods go now and 2 pods would (2 healthy, 1 must be)" in sentence
    gone = hall.pods("train")[0]["metadata"]["name"]
    move = a_move(hall, "job", "train", {"n1": "n3"}, replaced=[gone])
    assert refusal(hall, move, train={"can_replace_pod": True}) == ("", "")


def test_a_deployment_needs_its_second_seat_free_now(hall: PlainHall) -> None:
    hall.add("deployment", "web", pods=1, gpus=8, on=["n1"])
    hall.add("job", "train", pods=1, gpus=2, on=["n3"])
    rule, sentence = refusal(hall, a_move(hall, "deployment", "web", {"n1": "n3"}))
    assert rule == "second_seat"
    assert "needs 8 free GPUs on n3 now and 6 are free" in sentence
    assert refusal(hall, a_move(hall, "deployment", "web", {"n1": "n4"})) == ("", "")


@pytest.mark.parametrize(
    ("workload", "rule", "words"),
    [
        ("team/daemonset/agent", "owner_kind", "is a DaemonSet: it belongs on its node"),
        ("team/pytorchjob/x", "owner_kind", "how a pytorchjob brings its pods back is not known"),
    ],
)
def test_owners_whose_way_back_is_not_known_are_left_alone(
    hall: PlainHall, workload: str, rule: str, words: str
) -> None:
    _, kind, name = workload.split("/")
    owner = {"kind": {"daemonset": "DaemonSet"}.get(kind, "PyTorchJob"), "name": name, "uid": "u", "controller": True}
    metadata = {"name": f"{name}-0", "namespace": NAMESPACE, "ownerReferences": [{**owner, "apiVersion": "x/v1"}]}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    hall.kube.add(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    )
    seat = Seat(pod=f"{name}-0", node="n1", gpus=1)
    move = Move(
        kind=MoveKind.DRAIN,
        workload=workload,
        controller="kubernetes",
        before=(seat,),
        after=(replace(seat, node="n2"),),
    )
    found = refusal(hall, move)
    assert found[0] == rule
    assert words in found[1]


def test_the_way_of_a_job_is_said_in_kubectls_words(hall: PlainHall) -> None:
    hall.add("job", "train", pods=1, gpus=8, on=["n1"])
    command = a_drain(a_move(hall, "job", "train", {"n1": "n3"}), cordons=["n1"])
    driver = Driver(hall)
    snapshot = snapshot_of(hall.kube, train={"restart_seconds": 100.0, "stop_seconds": 30.0})
    way = driver.plain.way(command.recommendation, snapshot)
    assert [step.split(" -p ")[0] for step in way.steps] == [
        "kubectl cordon n1",
        "kubectl taint node n3 trimtab/seat=held:NoSchedule",
        "kubectl label node n3 trimtab/seat=held",
        "kubectl -n team patch job train --type=merge",
        "kubectl -n team wait --for=delete pod -l batch.kubernetes.io/job-name=train --timeout=15m",
        "kubectl -n team patch job train --subresource=status --type=merge",
        "kubectl -n team patch job train --type=json",
        "kubectl taint node n3 trimtab/seat-",
        "kubectl label node n3 trimtab/seat-",
    ]
    assert way.seconds == 131.0
    assert "suspended whole and started again once its last pod is gone (up to 30 s)" in way.sentence
    assert way.against == ("Nothing else can start on n3 until the move is over.",)
    assert driver.plain.way(command.recommendation, snapshot) == way


def test_the_way_of_a_set_says_what_is_not_promised(hall: PlainHall) -> None:
    hall.add("statefulset", "db", pods=1, gpus=8, on=["n1"])
    command = a_drain(a_move(hall, "statefulset", "db", {"n1": "n3"}), cordons=["n1"])
    way = Driver(hall).plain.way(command.recommendation, snapshot_of(hall.kube))
    assert way.seconds is None
    assert "comes back under its name once the old one is gone" in way.sentence
    assert any("n2 and 1 more have room for it, too, and will most likely get it" in line for line in way.against)
    assert any("/api/v1/namespaces/team/pods/db-0/eviction" in step for step in way.steps)


def test_what_kueue_admits_and_what_a_person_suspended_is_left_alone(hall: PlainHall) -> None:
    hall.add("job", "train", pods=1, gpus=8, on=["n1"])
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/train"
    move = a_move(hall, "job", "train", {"n1": "n3"})
    hall.kube.edit(path, {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "research"}}})
    assert refusal(hall, move)[0] == "queued_by_kueue"
    hall.kube.edit(path, {"metadata": {"labels": None}, "spec": {"suspend": True}})
    assert refusal(hall, move) == ("suspended", "Not moved: somebody suspended train.")


def test_a_static_pod_is_its_kubelets(hall: PlainHall) -> None:
    owner = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u", "controller": True}
    metadata = {"name": "etcd-n1", "namespace": NAMESPACE, "ownerReferences": [owner]}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}
    hall.kube.add(
        {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}
    )
    seat = Seat(pod="etcd-n1", node="n1", gpus=1)
    move = Move(
        kind=MoveKind.DRAIN,
        workload=f"{NAMESPACE}/pod/etcd-n1",
        controller="kubernetes",
        before=(seat,),
        after=(replace(seat, node="n2"),),
    )
    assert refusal(hall, move) == (
        "static_pod",
        "Not moved: etcd-n1 is a static pod of node n1: its kubelet would start it again there.",
    )


def test_a_seat_beside_a_gang_that_kueue_placed_by_topology_is_refused(hall: PlainHall) -> None:
    """Our taint there would make it evict that gang at its next lost pod."""
    hall.add("job", "train", pods=1, gpus=4, on=["n1"])
    hall.add("job", "gang", pods=1, gpus=4, on=["n3"])
    snapshot = snapshot_of(hall.kube, gang={"controller": "kueue"})
    assigned = {"admission": {"podSetAssignments": [{"topologyAssignment": {"levels": []}}]}}
    view = view_of(hall.kube)
    move = a_move(hall, "job", "train", {"n1": "n3"})
    placed = replace(view, kueue_of={f"{NAMESPACE}/job/gang": Loose(status=assigned)})
    found = refusal_of(move, snapshot, placed)
    assert found is not None
    assert found.rule == "neighbour_by_topology"
    flat = replace(view, kueue_of={f"{NAMESPACE}/job/gang": Loose(status={"admission": {"podSetAssignments": [{}]}})})
    assert refusal_of(move, snapshot, flat) is None


@pytest.mark.parametrize(
    ("selector", "labels", "expected"),
    [
        (None, {"a": "1"}, False),
        ({}, {}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "1", "b": "2"}, True),
        ({"matchLabels": {"a": "1"}}, {"a": "2"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1", "2"]}]}, {"a": "2"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["1"]}]}, {}, False),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {}, True),
        ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, {"a": "1"}, False),
        ({"matchExpressions": [{"key": "a", "operator": "Exists"}]}, {"a": "1"}, True),
        ({"matchExpressions": [{"key": "a", "operator": "DoesNotExist"}]}, {"a": "1"}, False),
    ],
)
def test_label_selectors_take_what_kubernetes_takes(selector: Any, labels: dict[str, str], *, expected: bool) -> None:
    assert selects(selector, labels) is expected


def test_a_selector_is_written_as_a_lists_query() -> None:
    expressions = [
        {"key": "a", "operator": "In", "values": ["1", "2"]},
        {"key": "b", "operator": "NotIn", "values": ["3"]},
        {"key": "c", "operator": "Exists"},
        {"key": "d", "operator": "DoesNotExist"},
    ]
    text = selector_text({"matchLabels": {"app": "web"}, "matchExpressions": expressions})
    assert text == "app=web,a in (1,2),b notin (3),c,!d"


def test_budgets_that_cannot_work_are_named() -> None:
    pod = Pod(metadata=Metadata(name="p", namespace=NAMESPACE, labels={"app": "web"}))
    spec = {"selector": {"matchLabels": {"app": "web"}}}
    budgets = {
        f"{NAMESPACE}/{name}": Loose(metadata=Metadata(name=name, namespace=NAMESPACE), spec=spec)
        for name in ("a", "b")
    }
    two = why_not_evict([pod], View(others={BUDGETS: budgets}))
    assert two == "2 disruption budgets (a, b) cover p: no eviction works"
    failed = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale subresource"}
    dead = Loose(metadata=Metadata(name="a", namespace=NAMESPACE), spec=spec, status={"conditions": [failed]})
    one = why_not_stop([pod], View(others={BUDGETS: {f"{NAMESPACE}/a": dead}}))
    assert one == "the disruption budget a does not work (no scale subresource) and so allows nothing"
