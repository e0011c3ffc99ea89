"""Signs of life and of trouble in Volcano, as the adapter reads them off a view."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.fakes.clock import START
from tests.fakes.kube import FakeKube
from tests.schedulers.volcano_hall import vcjob

from trimtab.schedulers.objects import (
    Condition,
    Loose,
    Metadata,
    NodeObject,
    NodeStatus,
    Pod,
    PodSpec,
    PodStatus,
    Taint,
)
from trimtab.schedulers.objects import NodeSpec as Spec
from trimtab.schedulers.view import View
from trimtab.schedulers.volcano_health import (
    why_controller_silent,
    why_kubelet_silent,
    why_lease_old,
    why_scheduler_silent,
)
from trimtab.schedulers.volcano_jobs import VolcanoJob
from trimtab.schedulers.volcano_trouble import why_slow

NOW = START + timedelta(minutes=10)


def ago(seconds: float) -> Any:
    return NOW - timedelta(seconds=seconds)


def a_pod(name: str = "train-worker-0", *, age: float, said: str | None = None, node: str = "", **meta: Any) -> Pod:
    conditions = [] if said is None else [Condition(type="PodScheduled", status="False", message=said)]
    return Pod(
        metadata=Metadata(
            name=name,
            namespace="team-a",
            creation_timestamp=ago(age),
            annotations={"scheduling.k8s.io/group-name": "g"},
            **meta,
        ),
        spec=PodSpec(node_name=node, scheduler_name="volcano"),
        status=PodStatus(phase="Pending", conditions=conditions),
    )


def pods(*found: Pod) -> dict[str, Pod]:
    return {pod.metadata.key: pod for pod in found}


@pytest.mark.parametrize(
    ("pod", "is_silent"),
    [
        (a_pod(age=60), True),
        (a_pod(age=5), False),
        (a_pod(age=60, said="0/12 nodes are available"), False),
        (a_pod(age=60, node="n01"), False),
        (a_pod(age=60, deletion_timestamp=ago(1)), False),
    ],
)
def test_a_pod_that_nobody_speaks_of_betrays_a_dead_scheduler(pod: Pod, is_silent: bool) -> None:
    why = why_scheduler_silent(View(pods=pods(pod)), NOW)
    assert (
        why == "Volcano's scheduler seems to be down: it has said nothing of pod team-a/train-worker-0"
    ) is is_silent


def loose(name: str, *, age: float, **fields: Any) -> dict[str, Loose]:
    return {
        f"team-a/{name}": Loose(metadata=Metadata(name=name, namespace="team-a", creation_timestamp=ago(age)), **fields)
    }


def test_a_command_that_lies_there_or_a_job_without_a_phase_betrays_a_dead_controller() -> None:
    commands = {"commands.bus.volcano.sh": loose("train-restartjob", age=60)}
    assert "does not take Command team-a/train-restartjob" in (why_controller_silent(View(others=commands), NOW) or "")
    new = {"jobs.batch.volcano.sh": loose("new", age=60)}
    assert "has not looked at vcjob team-a/new" in (why_controller_silent(View(others=new), NOW) or "")
    fine = {
        "commands.bus.volcano.sh": loose("young", age=2),
        "jobs.batch.volcano.sh": {
            **loose("young", age=2),
            **loose("seen", age=600, status={"state": {"phase": "Pending"}}),
        },
    }
    assert why_controller_silent(View(others=fine), NOW) is None


def a_node(*, is_ready: bool = True, taints: tuple[str, ...] = ()) -> NodeObject:
    ready = Condition(type="Ready", status="True" if is_ready else "Unknown")
    spec = Spec(taints=[Taint(key=key, effect="NoSchedule") for key in taints])
    return NodeObject(metadata=Metadata(name="n01"), spec=spec, status=NodeStatus(conditions=[ready]))


def test_a_kubelet_is_alive_while_its_node_says_ready() -> None:
    assert why_kubelet_silent(["n01"], View(nodes={"n01": a_node()})) is None
    assert "kubelet of n01 is silent" in (
        why_kubelet_silent(["n01"], View(nodes={"n01": a_node(is_ready=False)})) or ""
    )
    unreachable = a_node(taints=("node.kubernetes.io/unreachable",))
    assert "kubelet of n01 is silent" in (why_kubelet_silent(["n01"], View(nodes={"n01": unreachable})) or "")
    assert why_kubelet_silent(["n02"], View()) == "there is no node n02 any more"


@pytest.mark.parametrize(("age", "holder", "is_old"), [(10, "a", False), (90, "a", True), (90, "", False)])
def test_a_lease_that_is_not_renewed_betrays_its_holder(age: float, holder: str, is_old: bool) -> None:
    kube = FakeKube()
    assert why_lease_old(kube, NOW) is None  # there is none, or it is not ours to read
    kube.add(
        {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": "volcano", "namespace": "volcano-system"},
            "spec": {"holderIdentity": holder, "renewTime": ago(age).strftime("%Y-%m-%dT%H:%M:%S.%fZ")},
        }
    )
    assert (
        why_lease_old(kube, NOW) == "Volcano's scheduler seems to be down: its Lease was renewed 90 s ago"
    ) is is_old


def a_job(pods_wanted: int = 1) -> VolcanoJob:
    return VolcanoJob(raw=vcjob("train", pods=pods_wanted), prefix="trimtab")


def queues(state: str) -> dict[str, dict[str, Loose]]:
    return {
        "queues.scheduling.volcano.sh": {"default": Loose(metadata=Metadata(name="default"), status={"state": state})}
    }


@pytest.mark.parametrize(
    ("pod", "said"),
    [
        (a_pod(age=5), None),
        (a_pod(age=20), "Volcano's scheduler has said nothing of train-worker-0 for 20 s"),
        (a_pod(age=20, said="no room"), None),
        (a_pod(age=90, said="no room"), "train-worker-0 has waited 90 s for a place: no room"),
        (a_pod(age=90, node="n01"), None),
        (a_pod(age=90, node="n01", deletion_timestamp=ago(5)), None),
        (
            a_pod(age=90, node="n01", deletion_timestamp=ago(30)),
            "train-worker-0 should have ended 30 s ago; is the kubelet of n01 alive?",
        ),
    ],
)
def test_what_keeps_a_pod_from_coming_back_is_said_once_it_is_certain(pod: Pod, said: str | None) -> None:
    assert why_slow(a_job(), (pod,), View(others=queues("Open")), NOW) == said


def test_pods_that_are_not_made_are_explained_by_the_queue_or_the_controller() -> None:
    assert "queue default is Closed" in (why_slow(a_job(), (), View(others=queues("Closed")), NOW) or "")
    dead = {**queues("Open"), "commands.bus.volcano.sh": loose("old", age=60)}
    assert "controller-manager seems to be down" in (why_slow(a_job(), (), View(others=dead), NOW) or "")
    assert why_slow(a_job(), (), View(others=queues("Open")), NOW) is None
