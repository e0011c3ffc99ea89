"""Killed on any line and started again: every command is finished or undone, no job stays stopped, no node held."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.issue.scenes import Scene, evacuation, relocation, room_making

from trimtab.issue import decisions
from trimtab.model.cluster import WorkloadState
from trimtab.model.command import CommandState, Mode
from trimtab.settings import IssueSettings

BEATS = 16
Act = Callable[[Scene], None]


class Killed(BaseException):
    """`kill -9`: nothing catches it."""


class Fuse:
    """Kills at the n-th point it is told of; 0 = never."""

    def __init__(self) -> None:
        self.points: list[str] = []
        self.left = 0

    def set(self, points: int) -> None:
        self.left = points

    def __call__(self, point: str) -> None:
        self.points.append(point)
        if self.left:
            self.left -= 1
            if not self.left:
                raise Killed(point)


def say_yes(scene: Scene) -> None:
    """Approves whatever is proposed and was not tried yet."""
    for command in scene.ledger.commands(live_only=True):
        if command.state is CommandState.PROPOSED:
            scene.approve(command.id)


def undo_at(state: CommandState) -> Act:
    """Says yes, and asks for undo as soon as the first command is in `state`."""

    def act(scene: Scene) -> None:
        first = scene.ledger.command(1)
        if first is not None and first.state is state and first.undo_requested_by is None:
            decisions.undo(scene.ledger, 1, reason="stop", who="mei", now=scene.clock.now())
        elif first is not None and first.state is CommandState.PROPOSED:
            scene.approve(1)

    return act


def spare_goes(scene: Scene) -> None:
    """Says yes; the seat is gone as soon as it is held."""
    say_yes(scene)
    if scene.ledger.stored and scene.command().state is CommandState.HELD:
        scene.scheduler.nodes["gpu-22"] = replace(scene.scheduler.nodes["gpu-22"], is_ready=False)


def get_stuck(scene: Scene) -> None:
    """Says yes; what is stopped does not start again until it is given up."""
    say_yes(scene)
    state = scene.command().state if scene.ledger.stored else None
    scene.scheduler.is_stuck = state in (CommandState.SUBMITTED, CommandState.CONFIRMED)


SHORT = IssueSettings(mode=Mode.APPROVE, settle_seconds_max=35)
SCRIPTS: dict[str, tuple[Callable[[], Scene], Act, CommandState]] = {
    "evacuate": (evacuation, say_yes, CommandState.SETTLED),
    "make room": (room_making, say_yes, CommandState.SETTLED),
    "relocate": (relocation, say_yes, CommandState.SETTLED),
    "undo while held": (room_making, undo_at(CommandState.HELD), CommandState.UNDONE),
    "undo while confirmed": (evacuation, undo_at(CommandState.CONFIRMED), CommandState.UNDONE),
    "undo while submitted": (evacuation, undo_at(CommandState.SUBMITTED), CommandState.UNDONE),
    "undo of two stopped jobs": (room_making, undo_at(CommandState.SUBMITTED), CommandState.UNDONE),
    "undo when settled": (evacuation, undo_at(CommandState.SETTLED), CommandState.UNDONE),
    "missed": (evacuation, spare_goes, CommandState.MISSED),
    "never settles": (lambda: room_making(settings=SHORT), get_stuck, CommandState.ABANDONED),
}


def run(make: Callable[[], Scene], act: Act, crashes: tuple[int, ...]) -> tuple[Scene, Fuse]:
    """Beats with crashes after so many points each, then quiet beats until nothing is left to do."""
    scene, fuse = make(), Fuse()
    scene.ledger.at_point = scene.scheduler.at_point = fuse
    pending = list(crashes)
    fuse.set(pending.pop(0) if pending else 0)
    for _ in range(BEATS + 2 * len(crashes)):
        try:
            scene.beat()
            act(scene)
        except Killed:
            scene.restart()
            fuse.set(pending.pop(0) if pending else 0)
    fuse.set(0)
    scene.scheduler.is_stuck = False
    scene.beats(3)
    return scene, fuse


def left_behind(scene: Scene) -> list[str]:
    """What a crash may not leave behind, in words; nothing at rest."""
    found = [f"{one.name} is {one.state}" for one in scene.ledger.commands(live_only=True) if one.state.is_begun]
    found += [
        f"{one.id} is {one.state}, stopped by {one.suspended_by}"
        for one in scene.scheduler.jobs.values()
        if one.suspended_by or one.state in (WorkloadState.SUSPENDED, WorkloadState.STOPPING)
    ]
    allowed = {f"{one.mark} cordons {node}" for one in scene.ledger.holding() for node in one.lasting_nodes}
    found += sorted(set(scene.scheduler.held()) - allowed)
    held = [
        (place.node, gpu) for job in scene.scheduler.jobs.values() for place in job.placements for gpu in place.gpus
    ]
    return found + (["a GPU is held twice"] if len(held) != len(set(held)) else [])


def check(scene: Scene) -> None:
    """Nothing is left behind."""
    assert left_behind(scene) == []


@pytest.mark.parametrize("name", SCRIPTS)
def test_without_a_crash_the_script_ends_as_it_should(name):
    make, act, end = SCRIPTS[name]
    scene, fuse = run(make, act, ())
    assert scene.command().state is end
    check(scene)
    assert len(fuse.points) >= 20


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_crash_at_any_point_is_finished_or_undone(name):
    make, act, end = SCRIPTS[name]
    _, fuse = run(make, act, ())
    for point in range(1, len(fuse.points) + 1):
        scene, after = run(make, act, (point,))
        try:
            check(scene)
            # A crash may carry the command past the moment at which the script would have stopped it.
            assert scene.command().state in (end, CommandState.SETTLED)
        except AssertionError as error:
            error.add_note(f"killed at point {point}: {after.points[point - 1]}")
            raise


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_second_crash_right_after_the_restart_changes_nothing(name):
    make, act, _ = SCRIPTS[name]
    _, fuse = run(make, act, ())
    for point in range(1, len(fuse.points) + 1):
        for second in (1, 2, 4):
            scene, after = run(make, act, (point, second))
            try:
                check(scene)
            except AssertionError as error:
                error.add_note(f"killed at point {point}: {after.points[point - 1]}, and {second} points later")
                raise
