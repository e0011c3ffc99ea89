"""Writes on pods: tolerated, nominated, evicted by uid and under their budgets; nobody else's is ever touched."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.fakes.kube import FakeKube
from tests.schedulers.hands import Desk, a_command, over

from trimtab.errors import SchedulerBusy, SchedulerConflict
from trimtab.schedulers.marks import Hold, read_holds
from trimtab.schedulers.objects import Metadata, Pod

OURS = {"key": "trimtab/seat", "value": "3fa9c1-R11", "effect": "NoSchedule"}


@pytest.fixture
def kube() -> FakeKube:
    made = FakeKube()
    made.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-07"}, "spec": {}})
    return made


@pytest.fixture
def desk(kube: FakeKube) -> Desk:
    return Desk(kube)


def a_pod(kube: FakeKube, name: str = "p", **spec: Any) -> Pod:
    made = kube.add(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": "team", "labels": {"app": "a"}},
            "spec": spec,
            "status": {"phase": "Running" if spec.get("nodeName") else "Pending", "conditions": READY},
        }
    )
    return Pod(metadata=Metadata(name=name, namespace="team", uid=made["metadata"]["uid"]))


READY = [{"type": "Ready", "status": "True"}]
POD = "/api/v1/namespaces/team/pods/p"


def test_a_pod_that_waits_is_let_onto_the_seat_once(kube: FakeKube, desk: Desk) -> None:
    pod = a_pod(kube, tolerations=[{"key": "node.kubernetes.io/not-ready", "operator": "Exists"}])
    assert desk.nodes.tolerate(a_command(), pod)
    assert not desk.nodes.tolerate(a_command(), pod)
    found = kube.see(POD)
    assert found is not None
    assert found["spec"]["tolerations"][1] == {**OURS, "operator": "Equal"}
    (hold,) = read_holds(found["metadata"]["annotations"], "trimtab")
    assert (hold.mark, hold.what) == ("trimtab:3fa9c1:R11", ("toleration trimtab/seat=3fa9c1-R11",))


def test_a_pods_signature_and_a_nomination_of_ours_are_given_back_and_nobody_elses(kube: FakeKube, desk: Desk) -> None:
    pods = [a_pod(kube, name) for name in ("p", "q", "r")]
    for pod in pods[:2]:
        desk.nodes.nominate(a_command(), pod, "gpu-07")
        desk.nodes.tolerate(a_command(), pod)
    path = "/api/v1/namespaces/team/pods/{}"
    kube.edit(path.format("q"), {"status": {"nominatedNodeName": "gpu-08"}}, by="kube-scheduler")
    desk.nodes.tolerate(a_command(12), pods[2])
    view = [msgspec.convert(kube.see(path.format(pod.metadata.name)), Pod) for pod in pods]
    desk.nodes.give_back_pods(over(a_command()), view)
    seen = {name: kube.see(path.format(name)) or {} for name in ("p", "q", "r")}
    told = {name: one["status"].get("nominatedNodeName") for name, one in seen.items()}
    assert told == {"p": None, "q": "gpu-08", "r": None}
    signed = {name: [hold.mark for hold in holds_of(one)] for name, one in seen.items()}
    assert signed == {"p": [], "q": [], "r": ["trimtab:3fa9c1:R12"]}


def holds_of(one: dict[str, Any]) -> tuple[Hold, ...]:
    return read_holds(one["metadata"].get("annotations") or {}, "trimtab")


def test_a_pod_that_is_placed_or_another_one_of_the_name_is_left_alone(kube: FakeKube, desk: Desk) -> None:
    placed = a_pod(kube, nodeName="gpu-01")
    assert not desk.nodes.tolerate(a_command(), placed)
    kube.remove(POD)
    a_pod(kube)
    assert not desk.nodes.tolerate(a_command(), placed)
    assert not desk.nodes.evict(a_command(), placed)
    assert kube.writes == []


def test_an_eviction_names_the_uid_and_happens_once(kube: FakeKube, desk: Desk) -> None:
    pod = a_pod(kube, nodeName="gpu-07")
    assert desk.nodes.evict(a_command(), pod)
    assert not desk.nodes.evict(a_command(), pod)
    bodies = [call.body["deleteOptions"] for call in kube.calls if call.verb == "POST" and not call.is_dry]
    assert bodies == [{"preconditions": {"uid": pod.metadata.uid}}]


def test_a_budget_is_honoured_and_asked_again(kube: FakeKube, desk: Desk) -> None:
    pod = a_pod(kube, nodeName="gpu-07")
    budget = {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}
    path = "/apis/policy/v1/namespaces/team/poddisruptionbudgets/keep"
    kube.add(
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "keep", "namespace": "team"},
            "spec": budget,
        }
    )
    with pytest.raises(SchedulerBusy, match="needs 1 healthy pods and has 1"):
        desk.nodes.evict(a_command(), pod)
    assert kube.writes == []
    kube.edit(path, {"spec": {"minAvailable": 0}})
    assert desk.nodes.evict(a_command(), pod)


def test_a_pod_that_was_replaced_in_between_costs_no_budget(kube: FakeKube, desk: Desk) -> None:
    pod = a_pod(kube, nodeName="gpu-07")
    swapped = False

    def swap(call: Any) -> None:
        nonlocal swapped
        if call.verb == "POST" and not swapped:
            swapped = True
            kube.remove(POD)
            a_pod(kube, nodeName="gpu-07")

    kube.refuses = swap
    with pytest.raises(SchedulerConflict):
        desk.nodes.evict(a_command(), pod)
    assert kube.writes == []
