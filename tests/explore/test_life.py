"""The life of a command, explored to the fixpoint: one command of each kind, whatever breaks and whoever acts.

Up to two of them (faults or acts) in `make test`; two faults and two acts with TRIMTAB_LONG=1 (`make test-long`).
"""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest
import structlog
from tests.explore.explorer import Broken, Explorer
from tests.explore.fake_world import FakeWorld
from tests.issue.scenes import Scene, evacuation, relocation, room_making, to

from trimtab.model.command import CommandState, Mode
from trimtab.settings import IssueSettings

IS_LONG = bool(os.environ.get("TRIMTAB_LONG"))
SETTINGS = IssueSettings(mode=Mode.ACT, settle_seconds_max=600, hold_seconds_max=600)


def cordon() -> Scene:
    """A bad node whose work has no other seat: the cordon alone."""
    scene = evacuation(settings=SETTINGS)
    del scene.scheduler.nodes["gpu-22"]
    return scene


def uncordon() -> Scene:
    """A node that we took out, and everything that it was taken out for has ended."""
    scene = evacuation(settings=SETTINGS)
    to(scene, CommandState.SETTLED)
    scene.close_findings()
    return scene


KINDS: dict[str, Callable[[], Scene]] = {
    "cordon": cordon,
    "uncordon": uncordon,
    "drain": lambda: evacuation(settings=SETTINGS),
    "migrate": lambda: relocation(settings=SETTINGS),
    "consolidate": lambda: room_making(settings=SETTINGS),
}


@pytest.fixture(autouse=True)
def quiet():
    """Thousands of daemons say nothing."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))
    yield
    structlog.configure(**before)


@pytest.mark.parametrize("kind", KINDS)
def test_in_every_state_nothing_of_a_persons_is_undone_and_every_way_comes_to_a_good_rest(kind, capsys):
    world = FakeWorld(KINDS[kind]())
    found = Explorer(faults=2, acts=2, total=4 if IS_LONG else 2).explore(world)
    with capsys.disabled():
        bounds = "2 faults and 2 acts" if IS_LONG else "2 faults or acts"
        print(f"\n  {kind}: {found.states} states, {found.transitions} transitions, {bounds}", end="")
    assert found.is_whole
    assert found.states > 40


# --- the explorer itself would see it


class Forgetful(FakeWorld):
    """A cluster that forgets to start what it stopped when it is given back."""

    def fork(self) -> FakeWorld:
        made = super().fork()
        return Forgetful(made.scene, made.person)

    def beat(self, snapshot=None) -> None:
        before = {job.id: job for job in self.scene.scheduler.jobs.values() if job.suspended_by}
        super().beat(snapshot)
        for name, job in before.items():
            now = self.scene.scheduler.jobs.get(name)
            if now is not None and now.suspended_by is None and self.scene.command().state is CommandState.UNDONE:
                self.scene.scheduler.jobs[name] = job


def test_a_job_left_stopped_is_found_with_the_way_to_it():
    with pytest.raises(Broken, match=r"is stopped|stopped by trimtab:1ed9e0:R1[\s\S]*ACT undo R1"):
        Explorer(faults=0, acts=1).explore(Forgetful(KINDS["consolidate"]()))


class Stubborn(FakeWorld):
    """A daemon that cordons again whatever a person has opened."""

    def fork(self) -> FakeWorld:
        made = super().fork()
        return Stubborn(made.scene, made.person)

    def beat(self, snapshot=None) -> None:
        super().beat(snapshot)
        for name, what in self.person.items():
            if what == "opened":
                self.scene.scheduler.cordon(name, by=self.scene.mark)


def test_a_persons_act_undone_is_found_with_the_way_to_it():
    with pytest.raises(Broken, match=r"was opened by a person and is cordoned by[\s\S]*ACT uncordon gpu-02"):
        Explorer(faults=0, acts=1).explore(Stubborn(KINDS["drain"]()))
