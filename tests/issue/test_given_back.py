"""What a command that is over leaves on the cluster: it stays while it serves, goes when given back, is owed once."""

from __future__ import annotations

from tests.schedulers.kueue_world import IN_A_RACK, World

from trimtab.issue import decisions
from trimtab.model.command import CommandState
from trimtab.model.standing import StandingKind

CORDON_OF_N9 = "(n9: cordon)"


def closed(world: World, name: str) -> bool:
    found = world.kube.see(f"/api/v1/nodes/{name}")
    assert found is not None
    return bool(found["spec"].get("unschedulable"))


def beats(world: World, count: int = 4) -> None:
    for _ in range(count):
        world.beat()


def repaired() -> World:
    """R1 closed n9; its finding ended, and a person opened the node."""
    world = World()
    world.bad("n9")
    world.beat_until(world.has_settled)
    assert world.left() == [CORDON_OF_N9]
    world.findings.clear()
    world.kube.edit("/api/v1/nodes/n9", {"spec": {"unschedulable": None}})
    beats(world)
    assert world.commands[0].given_back_at is not None
    return world


def test_a_command_that_was_given_back_keeps_no_claim_on_its_node():
    world = repaired()
    assert world.left() == []
    assert world.commands[0].state is CommandState.SETTLED


def test_a_later_cordon_of_the_same_node_opens_when_it_is_undone():
    world = repaired()
    world.clock.advance(1000)
    world.bad("n9")
    world.beat_until(lambda: len(world.commands) > 1 and world.has_settled())
    assert closed(world, "n9")
    world.findings.clear()
    decisions.undo(world.ledger, 2, reason="well again", who="ann", now=world.clock.now())
    beats(world)
    assert not closed(world, "n9")
    assert world.left() == []


def moved() -> World:
    """A gang that runs on exact seats, got off n1 by R1."""
    world = World(has_check=True)
    world.run_gang("train", pods=2, queue="seats", topology=IN_A_RACK)
    world.bad("n1")
    world.beat_until(world.has_settled)
    return world


def test_what_lasts_of_a_given_back_move_is_not_swept_under_the_next_move_of_the_same_gang():
    world = moved()
    world.findings.clear()
    world.kube.edit("/api/v1/nodes/n1", {"spec": {"unschedulable": None}})
    beats(world, 3)
    world.bad(world.seats("train")[0])
    world.clock.advance(300)
    world.beat_until(lambda: len(world.commands) > 1 and world.commands[-1].state.is_over)
    last = world.commands[-1]
    assert last.state is CommandState.SETTLED, last.reason
    assert world.seats("train") == sorted(seat.node for move in last.recommendation.moves for seat in move.after)


def test_a_release_of_everything_ends_with_what_lasted_of_settled_moves():
    world = moved()
    decisions.release_all(world.ledger, who="ann", now=world.clock.now())
    beats(world, 8)
    assert world.ledger.standing(StandingKind.RELEASE) == ()
    assert world.left() == []
    assert len(world.seats("train")) == 2
