"""Cordons, taints and evictions on a real API server: beside other writers, under budgets, with a person about."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import msgspec
import pytest
from tests.cluster import objects
from tests.cluster.client import wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.schedulers.hands import Desk, a_command, over

from trimtab.clock import SystemClock
from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerRefused
from trimtab.model.command import CommandState, Seat
from trimtab.schedulers.connect import connect
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.objects import Pod
from trimtab.settings import KubernetesSettings

WRITES = 20


@pytest.fixture
def desk(plane: Plane) -> Iterator[Desk]:
    api = connect(KubernetesSettings(kubeconfig=str(plane.admin_kubeconfig)))
    yield Desk(api, clock=SystemClock())
    api.close()


def _keys(space: Space, node: str) -> set[str]:
    return {taint["key"] for taint in space.client.get("nodes", node)["spec"].get("taints", [])}


def _marks(space: Space, node: str) -> dict[str, tuple[str, ...]]:
    annotations = space.client.get("nodes", node)["metadata"].get("annotations", {})
    return {one.mark: one.what for one in read_holds(annotations, "trimtab")}


def _is_closed(space: Space, node: str) -> bool:
    return bool(space.client.get("nodes", node)["spec"].get("unschedulable"))


def test_two_writers_of_taints_lose_none(desk: Desk, space: Space) -> None:
    """Another mover adds its taints by JSON patch while we put ours on and off: the list is one field for all."""
    node = space.add_node("n1")
    command = a_command()

    def write_others() -> None:
        for number in range(WRITES):
            taint = {"key": f"other.example.com/{number}", "value": "x", "effect": "NoSchedule"}
            wait_for(lambda taint=taint: _add_taint(space, node, taint), f"taint {number} of the other writer")

    other = threading.Thread(target=write_others)
    other.start()
    for _ in range(WRITES):
        wait_for(lambda: _does(lambda: desk.nodes.taint(command, node, "seat")), "our taint on")
        wait_for(lambda: _does(lambda: desk.nodes.untaint(command, node, "seat")), "our taint off")
    other.join()
    assert _keys(space, node) == {f"other.example.com/{number}" for number in range(WRITES)}
    assert _marks(space, node) == {}


def _add_taint(space: Space, node: str, taint: dict[str, str]) -> bool:
    found = space.client.get("nodes", node)
    body = [
        {"op": "test", "path": "/metadata/resourceVersion", "value": found["metadata"]["resourceVersion"]},
        {"op": "add", "path": "/spec/taints", "value": [*found["spec"].get("taints", []), taint]},
    ]
    space.client.patch("nodes", node, body, kind="json", fieldManager="other")
    return True


def _does(write: Callable[[], None]) -> bool:
    try:
        write()
    except SchedulerConflict:
        return False
    return True


def test_a_cordon_beside_a_person(desk: Desk, space: Space) -> None:
    node = space.add_node("n1")
    first, second, third = a_command(1), a_command(2), a_command(3)
    desk.nodes.cordon(first, node, lasts=True)
    assert _is_closed(space, node)
    space.uncordon(node)
    with pytest.raises(SchedulerRefused, match="a veto"):
        desk.nodes.cordon(first, node, lasts=True)
    space.cordon(node)  # opened and closed again by a person: theirs from now on, whatever our annotation says
    desk.nodes.give_back(over(first), node)
    assert (_is_closed(space, node), _marks(space, node)) == (True, {})
    desk.nodes.cordon(second, node)
    assert _marks(space, node) == {second.mark: ("claim",)}
    with pytest.raises(SchedulerRefused, match="cordoned by kubectl-cordon"):
        desk.nodes.open(third, node)
    space.uncordon(node)
    desk.nodes.give_back(over(second), node)
    assert (_is_closed(space, node), _marks(space, node)) == (False, {})


def test_all_that_a_command_holds_on_a_node_comes_and_goes(desk: Desk, space: Space) -> None:
    node = space.add_node("n1")
    command = a_command()
    desk.nodes.cordon(command, node, lasts=True)
    desk.nodes.taint(command, node, "seat")
    desk.nodes.label(command, node, "seat")
    desk.nodes.reserve(command, "team/job/a", [Seat(pod="a-0", node=node, gpus=8)])
    desk.nodes.give_back(over(command, CommandState.SETTLED), node)
    assert (_is_closed(space, node), _marks(space, node)) == (True, {command.mark: ("cordon",)})
    desk.nodes.give_back(over(command, CommandState.UNDONE), node)
    assert (_is_closed(space, node), _marks(space, node)) == (False, {})
    wait_for(lambda: _keys(space, node) == set(), "the node without taints")
    assert "trimtab/seat" not in space.client.get("nodes", node)["metadata"]["labels"]


def test_an_eviction_waits_for_its_budget(desk: Desk, space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=2)
    space.deployment("web", replicas=2)
    space.wait_running("web", 2)
    space.add(
        "poddisruptionbudgets",
        objects.disruption_budget("keep", space.namespace, labels={"app": "web"}, minAvailable=2),
    )
    wait_for(lambda: _budget(space).get("currentHealthy") == 2, "the budget counted")
    pod = msgspec.convert(space.pods("web")[0], Pod)
    with pytest.raises(SchedulerBusy, match="needs 2 healthy pods and has 2"):
        desk.nodes.evict(a_command(), pod)
    space.client.patch("poddisruptionbudgets", "keep", {"spec": {"minAvailable": 1}}, space.namespace)
    wait_for(lambda: _budget(space).get("disruptionsAllowed") == 1, "the budget allowing one")
    assert desk.nodes.evict(a_command(), pod)
    assert not desk.nodes.evict(a_command(), pod)
    wait_for(lambda: pod.metadata.uid not in {one["metadata"]["uid"] for one in space.pods("web")}, "the pod gone")
    space.wait_running("web", 2)


def test_a_replaced_pod_of_the_same_name_is_not_evicted_and_costs_no_budget(desk: Desk, space: Space) -> None:
    space.add_racks(racks=1, nodes_per_rack=2)
    space.stateful_set("db", replicas=2)
    space.wait_running("db", 2)
    space.add(
        "poddisruptionbudgets", objects.disruption_budget("keep", space.namespace, labels={"app": "db"}, minAvailable=1)
    )
    stale = msgspec.convert(space.client.get("pods", "db-0", space.namespace), Pod)
    space.client.delete("pods", "db-0", space.namespace)
    wait_for(lambda: stale.metadata.uid not in {one["metadata"]["uid"] for one in space.pods("db")}, "db-0 made anew")
    space.wait_running("db", 2)
    wait_for(lambda: _budget(space).get("disruptionsAllowed") == 1, "the budget allowing one")
    assert not desk.nodes.evict(a_command(), stale)
    assert _budget(space).get("disruptedPods") is None
    assert _budget(space)["disruptionsAllowed"] == 1


def _budget(space: Space) -> dict[str, object]:
    return space.client.get("poddisruptionbudgets", "keep", space.namespace).get("status", {})
