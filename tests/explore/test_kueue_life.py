"""The same exploration with the real reader, planner and adapter over Kueue's stand-in on the fake API server.

One fault or one act on two kinds of command in `make test`; two on all of them with TRIMTAB_LONG=1 (`make test-long`).
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.explore.explorer import Broken, Explorer
from tests.explore.kueue_world import KueueWorld
from tests.explore.test_life import IS_LONG, quiet
from tests.schedulers.kueue_world import World
from tests.schedulers.test_kueue_crashes import (
    a_replaced_pod,
    a_seated_gang,
    a_whole_gang,
    made_room,
    made_room_exactly,
)

from trimtab.issue import decisions
from trimtab.model.command import CommandState
from trimtab.model.standing import StandingKind

__all__ = ["quiet"]  # a fixture, found by name

GANG = ("n1", "n2", "n6")
"""The bad node, one that the gang keeps, and one of the other rack."""
ALWAYS = {"drain": (a_whole_gang, GANG), "consolidate": (made_room, ("n1", "n2"))}
SELDOM: dict[str, tuple[Callable[[], World], tuple[str, ...]]] = {
    "one pod": (a_replaced_pod, GANG),
    "drain to exact seats": (a_seated_gang, GANG),
    "consolidate to exact seats": (made_room_exactly, ("n1", "n2")),
}
KINDS = {**ALWAYS, **SELDOM} if IS_LONG else ALWAYS


@pytest.mark.parametrize("kind", KINDS)
def test_in_every_state_nothing_of_a_persons_is_undone_and_every_way_comes_to_a_good_rest(kind, capsys):
    make, nodes = KINDS[kind]
    found = Explorer(faults=2, acts=2, total=2 if IS_LONG else 1).explore(KueueWorld.of(make(), nodes))
    with capsys.disabled():
        bounds = "2 faults or acts" if IS_LONG else "1 fault or act"
        print(f"\n  {kind} by Kueue: {found.states} states, {found.transitions} transitions, {bounds}", end="")
    assert found.is_whole
    assert found.states > 100


class Careless(KueueWorld):
    """A person whose cordon is taken off behind their back."""

    def beat_once(self, late=None) -> None:
        super().beat_once(late)
        for name, what in self.saved.person.items():
            if what == "cordoned":
                self.rig.kube.edit(f"/api/v1/nodes/{name}", {"spec": {"unschedulable": None}})


def test_a_persons_cordon_undone_is_found_with_the_way_to_it():
    with pytest.raises(Broken, match=r"n1 was cordoned by a person and is not any more[\s\S]*ACT cordon n1"):
        Explorer(faults=0, acts=1).explore(Careless.of(a_whole_gang(), GANG))


# --- everything given back, from the middle of each command


STATES = [
    CommandState.HELD,
    CommandState.CONFIRMED,
    CommandState.SUBMITTED,
    CommandState.SETTLED,
]


@pytest.mark.parametrize("make", [a_whole_gang, a_replaced_pod, made_room])
@pytest.mark.parametrize("state", STATES)
def test_release_all_leaves_nothing_of_ours_and_nothing_stopped(make, state):
    world = make()
    world.beat_until(lambda: bool(world.commands) and world.commands[0].state is state)
    decisions.release_all(world.ledger, who="mei", now=world.clock.now())
    world.beat_until(lambda: not world.ledger.standing(StandingKind.RELEASE))
    for _ in range(3):
        world.beat()
    assert world.left() == [], world.told()
    assert not [one for one in world.ledger.commands(live_only=True) if one.state.is_begun]
    assert world.ledger.holding() == ()
    assert all(one["spec"]["active"] for one in world.kube.all("workloads.kueue.x-k8s.io"))
    running = {one["metadata"]["name"] for one in world.kube.all("jobs.batch")} - {"big"}
    assert all(world.seats(name) for name in running), world.told()
