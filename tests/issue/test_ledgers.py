"""Whose marks are whose: another daemon's are left alone, said once, and never counted as ours."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import a_workload
from tests.fakes.ledger import FakeLedger
from tests.issue.scenes import Scene, evacuation, room_making, to

from trimtab.issue import decisions
from trimtab.issue.look import is_ours, marks, owes
from trimtab.model.cluster import Held, Queue, Reservation, WorkloadState
from trimtab.model.command import CommandState, Mode
from trimtab.model.standing import StandingKind
from trimtab.settings import IssueSettings

OTHER = "trimtab:0ddba11:R1"


def with_old_marks(mark: str) -> Scene:
    """A fresh database beside everything that an older one has left on the cluster."""
    scene = room_making()
    scene.scheduler.cordon("gpu-05", by=mark)
    scene.scheduler.reservations.append(Reservation(node="gpu-04", gpus=1, workload="research/x", command=mark))
    scene.scheduler.put(replace(a_workload("z", state=WorkloadState.SUSPENDED), suspended_by=mark, waiting_reason=None))
    scene.scheduler.marks.append(Held(mark=mark, what="taint trimtab/seat on gpu-04"))
    return scene


@pytest.mark.parametrize("mark", [OTHER, "trimtab:R1"])
def test_a_fresh_database_beside_old_marks_releases_nothing(mark):
    scene = with_old_marks(mark)
    before = scene.scheduler.held()
    scene.beats(3)
    assert scene.scheduler.held() == before
    assert len(before) == 4
    assert not [call for call in scene.scheduler.calls if call.startswith("release")]


def test_marks_of_another_ledger_are_shown_each_beat_and_audited_once():
    scene = with_old_marks(OTHER)
    said = [one.sentence for one in [*scene.beat().refusals, *scene.beat().refusals] if one.rule == "foreign_mark"]
    assert said == 2 * [
        f"{OTHER} is of another daemon and is left alone: "
        "cordon of gpu-05, research/z stopped, 1 GPUs of gpu-04 for research/x and 1 more."
    ]
    assert [line.what for line in scene.ledger.lines].count("foreign mark") == 1


def test_an_old_row_and_its_old_mark_still_belong_together():
    scene = evacuation()
    settled = to(scene, CommandState.SETTLED)
    scene.ledger.stored[1] = old = replace(settled, ledger="")
    node = scene.scheduler.nodes["gpu-02"]
    scene.scheduler.nodes["gpu-02"] = replace(node, cordoned_by=old.mark)
    scene.scheduler.cordon("gpu-00", by=old.mark)
    scene.beat()
    assert old.mark == "trimtab:R1"
    assert scene.scheduler.held() == ["trimtab:R1 cordons gpu-02"], "what does not last is given back, the rest stays"


def test_the_same_number_in_two_ledgers_is_two_commands():
    scene = evacuation()
    settled = to(scene, CommandState.SETTLED)
    assert not is_ours(OTHER, scene.ledger.ledger, None)
    assert not is_ours(OTHER, scene.ledger.ledger, settled)
    assert is_ours(settled.mark, scene.ledger.ledger, settled)
    assert is_ours(f"trimtab:{scene.ledger.ledger}:R99", scene.ledger.ledger, None)
    assert not is_ours("sofia", scene.ledger.ledger, None)


def test_two_daemons_with_ledgers_of_their_own_share_a_cluster_and_undo_nothing_of_each_other():
    one = evacuation(settings=IssueSettings(mode=Mode.ACT))
    other = evacuation(settings=IssueSettings(mode=Mode.ACT), ledger=FakeLedger(ledger="0ddba11"), clock=one.clock)
    other.scheduler = one.scheduler
    other.restart()
    for _ in range(12):
        one.beat(seconds=5)
        other.beat(seconds=5)
    assert one.command().state is CommandState.SETTLED
    gang = one.scheduler.jobs["research/llama-70b"]
    assert gang.state is WorkloadState.RUNNING
    assert one.scheduler.held() == [f"{one.mark} cordons gpu-02"]
    assert not [line for line in other.ledger.lines if line.what == "released"]
    assert "foreign mark" in [line.what for line in other.ledger.lines]


# --- everything that bears a mark counts


def test_marks_are_found_wherever_they_are():
    scene = with_old_marks(OTHER)
    snapshot = scene.scheduler.snapshot()
    held = replace(snapshot, queues=(Queue(name="research", held_by=OTHER),))
    assert marks(held)[OTHER] == (
        "cordon of gpu-05",
        "research/z stopped",
        "1 GPUs of gpu-04 for research/x",
        "hold of queue research",
        "taint trimtab/seat on gpu-04",
    )


@pytest.mark.parametrize("lasts", [True, False])
def test_a_held_thing_of_a_settled_command_is_owed_unless_it_lasts(lasts):
    scene = evacuation()
    settled = to(scene, CommandState.SETTLED)
    scene.scheduler.marks.append(Held(mark=settled.mark, what="taint trimtab/out on gpu-02", lasts=lasts))
    assert owes(settled.mark, settled, scene.scheduler.snapshot()) is not lasts
    scene.beat()
    assert (f"{settled.mark} has taint trimtab/out on gpu-02" in scene.scheduler.held()) is lasts


def test_a_queue_that_a_command_holds_is_owed_when_it_is_over():
    scene = evacuation()
    settled = to(scene, CommandState.SETTLED)
    snapshot = replace(scene.scheduler.snapshot(), queues=(Queue(name="research", held_by=settled.mark),))
    assert owes(settled.mark, settled, snapshot)
    assert not owes(settled.mark, replace(settled, state=CommandState.SUBMITTED), snapshot)


@pytest.mark.parametrize(("lasts", "is_owed"), [(True, False), (False, True)])
def test_of_a_settled_command_that_keeps_no_node_out_what_lasts_stays_until_it_is_given_back(lasts, is_owed):
    scene = room_making()
    settled = to(scene, CommandState.SETTLED)
    assert settled.lasting_nodes == ()
    scene.scheduler.marks.append(Held(mark=settled.mark, what="seats on workload research/eval-9", lasts=lasts))
    assert owes(settled.mark, settled, scene.scheduler.snapshot()) is is_owed
    given_back = replace(settled, given_back_at=scene.clock.now())
    assert owes(settled.mark, given_back, scene.scheduler.snapshot())


def test_a_release_of_everything_takes_what_lasts_of_a_settled_command_too():
    scene = room_making()
    settled = to(scene, CommandState.SETTLED)
    scene.scheduler.marks.append(Held(mark=settled.mark, what="seats on workload research/eval-9", lasts=True))
    decisions.release_all(scene.ledger, who="mei", now=scene.clock.now())
    scene.beats(3)
    assert scene.scheduler.held() == []
    assert scene.ledger.standing(StandingKind.RELEASE) == ()
    assert scene.command().state is CommandState.SETTLED
