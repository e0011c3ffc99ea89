"""Killed before and after every write, and with people about: no job stays stopped, nothing of a person's is undone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import count

import pytest
from tests.schedulers.kueue_world import IN_A_RACK, KUEUE, REPLACEABLE, World
from tests.schedulers.test_kueue import a_crowd, verbs

from trimtab.errors import SchedulerUnavailable
from trimtab.model.command import CommandState


class Killed(BaseException):
    """The process ends here."""


def is_ours(point: str) -> bool:
    return "PATCH" in point or "eviction" in point


def a_whole_gang() -> World:
    world = World()
    world.run_gang("train", topology=IN_A_RACK)
    world.bad("n1")
    return world


def a_seated_gang() -> World:
    world = World(has_check=True)
    world.run_gang("train", pods=2, queue="seats", topology=IN_A_RACK)
    world.bad("n1")
    return world


def a_replaced_pod() -> World:
    world = World()
    world.run_gang("train", topology=IN_A_RACK, can_replace_pods=True, annotations=REPLACEABLE)
    world.bad("n1")
    return world


def made_room(*, has_check: bool = False) -> World:
    queue = "seats" if has_check else "tas"
    world = World(nodes=2, per_rack=2, has_check=has_check)
    a_crowd(world, queue, nodes=2)
    world.gang("big", pods=1, gpus=8, queue=queue)
    world.settle()
    return world


def made_room_exactly() -> World:
    return made_room(has_check=True)


SCENES = [a_whole_gang, a_seated_gang, a_replaced_pod, made_room, made_room_exactly]


def points_of(world: World) -> list[str]:
    """All points of an undisturbed run."""
    seen: list[str] = []
    world.kube.at_point = lambda point: seen.append(point) if is_ours(point) else None
    world.beat_until(world.has_settled)
    world.kube.at_point = lambda _: None
    return seen


def run_killed(world: World, at: int) -> None:
    """A run that is killed at one point, and taken up by a daemon that knows its ledger alone."""
    points = count()

    def kill(point: str) -> None:
        if is_ours(point) and next(points) == at:
            raise Killed

    world.kube.at_point = kill
    for _ in range(80):
        if world.is_over():
            break
        try:
            world.beat()
        except Killed:
            world.start()
            world.kueue.settle()
    world.kube.at_point = lambda _: None
    assert next(points) > at, "the run is shorter than this point"


@pytest.mark.parametrize("scene", SCENES)
def test_killed_at_every_write_nothing_stays_stopped_or_held(scene: Callable[[], World]) -> None:
    world = scene()
    kept = world.keep()
    points = points_of(world)
    assert len(points) >= 6
    # Killed before a write is killed after the one before it: every second point, and the last.
    for at in (*range(0, len(points), 2), len(points) - 1):
        world.again(kept)
        run_killed(world, at)
        for _ in range(3):  # strays are given back by later beats
            world.beat()
        assert all(one.state.is_over for one in world.commands), f"{points[at]}\n{world.told()}"
        assert [one for one in world.left() if not one.startswith("(")] == [], f"{points[at]}\n{world.told()}"
        for one in world.kube.all("workloads.kueue.x-k8s.io"):
            name = one["metadata"]["ownerReferences"][0]["name"]
            assert one["spec"]["active"], f"{points[at]}: {name}"
            assert world.seats(name) or name == "big", f"{points[at]}: {name} does not run\n{world.told()}"


@pytest.mark.parametrize("scene", SCENES)
def test_a_lost_reply_of_any_write_is_survived(scene: Callable[[], World]) -> None:
    world = scene()
    kept = world.keep()
    for at in range(1, len(points_of(world)), 2):
        world.again(kept)
        world.kube.at_point = partial(_lose, count(), at)
        world.beat_until(world.has_settled)
        world.kube.at_point = lambda _: None
        for _ in range(3):  # what was lost of a release is given back by later beats
            world.beat()
        assert [one for one in world.left() if not one.startswith("(")] == []


def _lose(points: Iterator[int], at: int, point: str) -> None:
    if is_ours(point) and next(points) == at:
        raise SchedulerUnavailable("the reply was lost")


def stopped(world: World) -> World:
    """Until the gang stands still by us."""
    while not verbs(world, "deactivate"):
        world.beat()
    return world


def person(world: World, path: str, change: dict) -> None:
    world.kube.edit(path, change, by="kubectl-edit")


def test_a_person_who_stops_a_job_before_us_keeps_it_stopped():
    world = World()
    world.run_gang("train", topology=IN_A_RACK)
    person(world, world.path("train"), {"spec": {"active": False}})
    world.settle()
    world.bad("n1")
    for _ in range(6):
        world.beat()
    assert world.workload("train")["spec"]["active"] is False
    assert not verbs(world, "activate")


def test_a_person_who_takes_the_stopped_job_over_keeps_it():
    """Ours stops it, a person starts it and stops it again: that stop is theirs, and is said to be."""
    world = stopped(a_whole_gang())
    person(world, world.path("train"), {"spec": {"active": True}})
    person(world, world.path("train"), {"spec": {"active": False}})
    world.settle()
    world.beat_until(world.is_over)
    assert world.workload("train")["spec"]["active"] is False
    assert world.commands[0].state is CommandState.UNDONE
    assert "kubectl-edit" in world.commands[0].reason
    assert [one for one in world.left() if "inactive" not in one and not one.startswith("(")] == []


def test_a_person_who_starts_the_stopped_job_is_not_overruled():
    world = stopped(a_whole_gang())
    person(world, world.path("train"), {"spec": {"active": True}})
    world.settle()
    stops = len(verbs(world, "deactivate"))
    world.beat_until(world.is_over)
    assert len(verbs(world, "deactivate")) == stops
    assert world.workload("train")["spec"]["active"]
    world.settle()
    assert len(world.seats("train")) == 4


def test_a_person_who_holds_the_queue_keeps_the_hold():
    world = World()
    world.run_gang("train", topology=IN_A_RACK)
    person(world, f"{KUEUE}/clusterqueues/tas", {"spec": {"stopPolicy": "Hold"}})
    world.settle()
    world.bad("n1")
    for _ in range(4):
        world.beat()
    assert world.plan is not None
    sentences = [one.sentence for one in world.plan.refusals]
    assert "Not moved: queue tas is on Hold by somebody; train would not come back." in sentences
    assert world.queue("tas")["spec"]["stopPolicy"] == "Hold"
    assert world.seats("train") == ["n1", "n2", "n3", "n4"]


def test_a_person_who_opens_the_queue_we_held_has_vetoed():
    world = a_whole_gang()
    while not verbs(world, "hold"):
        world.beat()
    person(world, f"{KUEUE}/clusterqueues/tas", {"spec": {"stopPolicy": "None"}})
    world.beat_until(world.is_over)
    assert world.commands[0].state is CommandState.UNDONE
    assert "opened ClusterQueue tas" in world.commands[0].reason
    assert not verbs(world, "deactivate")
    assert world.left() == []


def test_a_person_who_sets_their_own_hold_on_the_queue_we_held_keeps_it():
    world = stopped(a_whole_gang())
    person(world, f"{KUEUE}/clusterqueues/tas", {"spec": {"stopPolicy": "None"}})
    person(world, f"{KUEUE}/clusterqueues/tas", {"spec": {"stopPolicy": "Hold"}})
    for _ in range(10):
        world.beat()
    assert world.queue("tas")["spec"]["stopPolicy"] == "Hold"
    assert world.workload("train")["spec"]["active"], "the job is back in line for when they open it"


def test_a_wiped_annotation_leaves_no_job_stopped():
    world = stopped(a_whole_gang())
    person(world, world.path("train"), {"metadata": {"annotations": {"trimtab/hold": None}}})
    world.beat_until(world.is_over)
    for _ in range(3):
        world.beat()
    assert world.workload("train")["spec"]["active"]
    assert len(world.seats("train")) == 4


def test_a_command_that_is_given_back_leaves_check_and_labels_to_the_one_at_work():
    """The other one's job has stopped and has its seats, and is about to start on them."""
    world = a_seated_gang()
    world.beat_until(lambda: [line for line in world.lines if "answer Ready on its seats" in line.what])
    mine = world.commands[0]
    other = replace(mine, id=mine.id + 1, state=CommandState.ABANDONED)
    annotations = world.workload("train")["metadata"]["annotations"]
    entries = json.loads(annotations["trimtab/hold"])
    entries.append({"mark": other.mark, "workload": entries[0]["workload"], "seats": entries[0]["seats"]})
    change = {"metadata": {"annotations": {"trimtab/hold": json.dumps(entries)}}}
    world.kube.edit(world.path("train"), change, by="trimtab")
    world.reader.snapshot()
    before = len(world.lines)
    world.adapter.release(other)
    said = [line.what for line in world.lines[before:]]
    assert [text for text in said if text.startswith(("answer", "unlabel"))] == []
    assert said, "its own signature goes"
    world.beat_until(world.has_settled)
    assert sorted(set(world.seats("train"))) == sorted({seat.node for seat in mine.recommendation.moves[0].after})


@pytest.mark.parametrize("returned", ["x", 7, "2026-01-01T00:00:00", ["y"]])
def test_a_mark_that_its_owner_changed_ends_the_move_and_not_the_daemons_beat(returned: object):
    world = stopped(a_whole_gang())
    world.beat_until(lambda: verbs(world, "reactivate"))
    entries = json.loads(world.workload("train")["metadata"]["annotations"]["trimtab/hold"])
    entries[0]["before"] = {"returned_at": returned}
    person(world, world.path("train"), {"metadata": {"annotations": {"trimtab/hold": json.dumps(entries)}}})
    world.beat_until(world.is_over)
    assert world.commands[0].state is CommandState.REFUSED
    assert "cannot be read any more" in world.commands[0].reason
    world.beat_until(lambda: len(world.seats("train")) == 4)


def test_an_undo_in_the_middle_brings_the_job_back():
    world = stopped(a_whole_gang())
    command = world.commands[0]
    changed = {**{name: getattr(command, name) for name in command.__dataclass_fields__}, "undo_requested_by": "kim"}
    world.ledger.stored[command.id] = type(command)(**changed)
    world.beat_until(world.is_over)
    assert world.commands[0].state is CommandState.UNDONE
    assert world.left() == []
    assert len(world.seats("train")) == 4
