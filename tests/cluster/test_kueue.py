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


def _fill(space: Space, nodes: list[str]) -> None:
    """A job of one GPU and one of two on every node, five left on each."""
    for index, node in enumerate(nodes):
        space.cordon(*(other for other in nodes if other != node))
        space.run_gang(f"v{index}a", pods=1, gpus=1)
        space.run_gang(f"v{index}b", pods=1, gpus=2)
        space.uncordon(*nodes)
