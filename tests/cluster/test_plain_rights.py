"""The acting account in plain Kubernetes: a whole move with the rights and under the policies that are shipped."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.cluster.client import ApiError, Client, wait_for
from tests.cluster.plain_hall import Hall
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.test_rights import installed

from trimtab.issue import look

__all__ = ["installed"]


@pytest.fixture
def actor(installed: Plane) -> Iterator[Client]:
    client = installed.client_of("trimtab-actor", "trimtab")
    yield client
    client.close()


@pytest.fixture
def hall(installed: Plane, space: Space) -> Iterator[Hall]:
    made = Hall(installed, space, kubeconfig=str(installed.kubeconfig("trimtab-actor", "trimtab")))
    yield made
    made.close()


def _is_in_force(actor: Client, space: Space) -> bool:
    """A policy takes a moment after it is made."""
    with pytest.raises(ApiError) as caught:
        actor.patch("jobs", "train", {"spec": {"backoffLimit": 99}}, space.namespace, dryRun="All")
    return "trimtab" in str(caught.value)


@pytest.mark.parametrize("kind", ["job", "deployment"])
def test_a_move_needs_no_right_that_is_not_shipped(hall: Hall, kind: str) -> None:
    space = hall.space
    nodes = space.add_racks(racks=1, nodes_per_rack=3)
    if kind == "job":
        space.gang("train", queue=None, pods=1, gpus=8)
    else:
        space.deployment("train", replicas=1, gpus=8)
    (held,) = space.wait_running("train", 1)
    # For a Deployment no other node may have room: its new pod then waits, is nominated and let on.
    closed, target = [node for node in nodes if node != held]
    space.cordon(closed)
    command = hall.command(hall.move(kind, "train", {held: target}), cordons=[held])
    hall.hold(command)
    assert look.is_held(command, hall.snapshot())
    hall.submit(command)
    assert space.seats("train") == [target]
    hall.release(command)
    missed = [line for line in hall.desk.lines if line.what.startswith(("not written", "failed"))]
    assert not [line for line in missed if ": 409 " not in line.why]  # the Job's controller may write at that moment
    steered = "with a way to its seats" if kind == "job" else "nominate "
    assert any(steered in what for what in hall.desk.said)


def test_the_template_and_the_status_of_a_job_are_otherwise_closed(actor: Client, space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=1)
    space.gang("train", queue=None, pods=1, gpus=8)
    space.wait_running("train", 1)
    pod = space.pods("train")[0]["metadata"]["name"]
    wait_for(lambda: _is_in_force(actor, space), "the policies in force")
    assert "trimtab" in _refusal(lambda: _status(actor, space, "jobs", "train", {"active": 3}))
    assert "trimtab" in _refusal(lambda: _status(actor, space, "pods", pod, {"phase": "Failed"}))
    space.client.patch("jobs", "train", {"spec": {"suspend": True}}, space.namespace)
    wait_for(lambda: not space.pods("train"), "train stopped")
    _status(actor, space, "jobs", "train", {"startTime": None})
    toleration = {"key": "nvidia.com/gpu", "operator": "Exists"}
    seat = {"key": "trimtab/seat", "operator": "Equal", "value": "x", "effect": "NoSchedule"}
    preferred = {"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}
    affinity = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}
    for change in ({"tolerations": [toleration]}, {"nodeSelector": {"zone": "b"}}, {"affinity": affinity}):
        assert "trimtab" in _refusal(lambda change=change: _template(actor, space, change))
    _template(actor, space, {"tolerations": [seat]})
    assert "trimtab" in _refusal(lambda: _status(actor, space, "jobs", "train", {"active": 3}))


def _status(actor: Client, space: Space, kind: str, name: str, status: Any) -> None:
    actor.patch(kind, name, {"status": status}, space.namespace, subresource="status")


def _template(actor: Client, space: Space, change: Any) -> None:
    actor.patch("jobs", "train", {"spec": {"template": {"spec": change}}}, space.namespace)


def _refusal(act: Any) -> str:
    with pytest.raises(ApiError) as caught:
        act()
    return str(caught.value)
