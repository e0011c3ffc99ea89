"""Stories on the real Kueue: a hot swap, a gang moved whole, room made; with and without our AdmissionCheck."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.cluster import objects
from tests.cluster.kueue_hall import REPLACEABLE, Hall
from tests.cluster.plane import Plane
from tests.cluster.space import Space

from trimtab.model.command import CommandState

IN_A_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}


@pytest.fixture
def hall(plane: Plane, space: Space) -> Iterator[Hall]:
    made = Hall(plane, space)
    yield made
    made.close()


def test_story_a_one_pod_is_replaced_in_the_rack_and_the_others_run_on(hall: Hall, space: Space) -> None:
    space.add_racks(2, 5)
    space.run_gang("train", topology=IN_A_RACK, can_replace_pods=True, annotations=REPLACEABLE)
    before = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in space.pods("train")}
    bad = sorted(before.values())[0]
    hall.bad(bad)
    hall.beat_until(hall.has_settled, "the pod replaced")
    after = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in space.pods("train")}
    assert len(after) == 4
    assert bad not in after.values()
    assert {space.rack_of(node) for node in after.values()} == {space.rack_of(bad)}
    assert {uid for uid, node in before.items() if node != bad} <= set(after)
    assert hall.left() == [f"(nodes {bad}: cordon)"]
    print(f"\nstory a: {hall.seconds_of(hall.only()):.1f} s from approval")


def test_story_b_a_gang_that_loses_no_pod_moves_whole(hall: Hall, space: Space) -> None:
    space.add_racks(2, 5)
    space.run_gang("train", topology=IN_A_RACK)
    bad = space.seats("train")[0]
    hall.bad(bad)
    hall.beat_until(hall.has_settled, "the gang moved")
    assert bad not in space.wait_running("train", 4)
    assert hall.left() == [f"(nodes {bad}: cordon)"]
    print(f"\nstory b: {hall.seconds_of(hall.only()):.1f} s from approval")


def test_story_c_room_is_made_for_the_one_who_waits(hall: Hall, space: Space) -> None:
    nodes = space.add_racks(1, 6)
    _fill(space, nodes)
    space.gang("big", pods=1, gpus=8)
    hall.beat_until(hall.has_settled, "room made", deadline_seconds=120)
    space.wait_running("big", 1)
    outcome = hall.ledger.results[hall.only().id]
    assert hall.left() == []
    print(f"\nstory c: {outcome.sentence} {hall.only().recommendation.sentence}")
    assert hall.only().state is CommandState.SETTLED


@pytest.fixture
def checked(plane: Plane, space: Space) -> Iterator[Hall]:
    """A hall whose queues `seats` (topology) and `loose` (none) ask for our AdmissionCheck."""
    name = f"{space.namespace}-check"
    space.add("admissionchecks", objects.admission_check(name, controller="trimtab/seats"))
    for local, flavor in (("seats", "tas"), ("loose", "flat")):
        queue = f"{space.namespace}-{local}"
        space.add("clusterqueues", objects.cluster_queue(queue, flavors=[f"{space.namespace}-{flavor}"], checks=[name]))
        space.add("localqueues", objects.local_queue(local, space.namespace, cluster_queue=queue))
    made = Hall(plane, space, admission_check=name)
    yield made
    made.close()


@pytest.mark.parametrize("queue", ["seats", "loose"])
def test_with_our_check_a_gang_lands_on_the_seats_of_the_plan(checked: Hall, space: Space, queue: str) -> None:
    space.add_racks(2, 4)
    topology = IN_A_RACK if queue == "seats" else None
    space.gang("train", queue=queue, pods=2, topology=topology)
    checked.beat_until(lambda: len(space.seats("train")) == 2, "let in and running")
    bad = space.seats("train")[0]
    checked.bad(bad)
    checked.beat_until(checked.has_settled, "moved")
    planned = sorted(seat.node for seat in checked.only().recommendation.moves[0].after)
    assert space.wait_running("train", 2) == planned
    job = space.workload("train")["metadata"]["name"]
    assert f"(workloads {job}: podSetUpdates label trimtab/seat" in str(checked.left())
    assert [one for one in checked.left() if not one.startswith("(")] == []
    print(f"\n{queue}: {checked.seconds_of(checked.only()):.1f} s from approval")
    space.client.delete("jobs", "train", space.namespace, propagation="Background")
    checked.beat_until(lambda: checked.left() == [f"(nodes {bad}: cordon)"], "seats swept when the job is gone")


def test_story_c_with_our_check_everybody_lands_where_planned(checked: Hall, space: Space) -> None:
    nodes = space.add_racks(1, 6)
    _fill(space, nodes, queue="seats", hall=checked)
    space.gang("big", pods=1, gpus=8, queue="seats")
    checked.beat_until(checked.has_settled, "room made", deadline_seconds=120)
    space.wait_running("big", 1)
    outcome = checked.ledger.results[checked.only().id]
    assert outcome.seats_hit == outcome.seats_planned == 3
    print(f"\nstory c, exact: {outcome.sentence}")


def _fill(space: Space, nodes: list[str], *, queue: str = "tas", hall: Hall | None = None) -> None:
    """A job of one GPU and one of two on every node, five left on each."""
    for index, node in enumerate(nodes):
        space.cordon(*(other for other in nodes if other != node))
        for name, gpus in ((f"v{index}a", 1), (f"v{index}b", 2)):
            space.gang(name, pods=1, gpus=gpus, queue=queue)
            if hall is not None:
                hall.beat_until(lambda name=name: space.seats(name), f"{name} let in")
            space.wait_running(name, 1)
        space.uncordon(*nodes)
