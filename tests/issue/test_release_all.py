"""`release --all`: from the middle of any command, through crashes, until nothing of ours is left."""

from __future__ import annotations

import pytest
from tests.issue.scenes import Scene, evacuation, relocation, room_making, to
from tests.issue.test_crash import Fuse, Killed

from trimtab.errors import DecisionRefused, SchedulerUnavailable
from trimtab.issue import decisions
from trimtab.model.cluster import Held, WorkloadState
from trimtab.model.command import CommandState, Mode
from trimtab.model.standing import StandingKind
from trimtab.settings import IssueSettings

OTHER = "trimtab:0ddba11:R5"
STATES = (
    CommandState.PROPOSED,
    CommandState.APPROVED,
    CommandState.HELD,
    CommandState.CONFIRMED,
    CommandState.SUBMITTED,
    CommandState.SETTLED,
)
MAKERS = (evacuation, room_making, relocation)


def until(make, state) -> Scene:
    """A scene in mode act, taken to the moment at which its command is in this state."""
    scene = make(settings=IssueSettings(mode=Mode.ACT))
    scene.beat()
    for _ in range(12):
        if scene.command().state is state:
            return scene
        scene.beat()
    raise AssertionError(scene.command())


def release(scene, **changes):
    return decisions.release_all(scene.ledger, who="mei", now=scene.clock.now(), reason="maintenance", **changes)


def check(scene):
    """Nothing of ours is left, nothing runs no more that ran, and nothing begins anew."""
    assert scene.scheduler.held() == []
    assert [one for one in scene.ledger.commands(live_only=True) if one.state is not CommandState.PROPOSED] == []
    assert scene.ledger.holding() == ()
    assert {one.state for one in scene.scheduler.jobs.values()} <= {WorkloadState.RUNNING, WorkloadState.WAITING}
    assert scene.ledger.standing(StandingKind.RELEASE) == ()
    assert scene.ledger.is_paused()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("state", STATES)
def test_in_the_middle_of_each_command(make, state):
    scene = until(make, state)
    release(scene)
    first = scene.beat()
    assert first.pause == "everything is being given back."
    scene.beats(4)
    check(scene)
    stopped = [one for one in scene.snapshot.workloads if one.is_running]
    assert all(scene.scheduler.jobs[one.id].is_running for one in stopped)
    scene.beats(6)
    check(scene)


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("state", [CommandState.HELD, CommandState.SUBMITTED, CommandState.SETTLED])
def test_a_crash_at_any_point_of_it_is_made_up_for(make, state):
    points = 1
    while True:
        scene, fuse = until(make, state), Fuse()
        release(scene)
        scene.ledger.at_point = scene.scheduler.at_point = fuse
        fuse.set(points)
        crashed = False
        for _ in range(6):
            try:
                scene.beat()
            except Killed:
                crashed = True
                scene.restart()
        if not crashed:
            break
        check(scene)
        points += 1
    assert points > 2


def test_what_could_not_be_given_back_is_said_and_tried_until_it_is():
    scene = until(evacuation, CommandState.SETTLED)
    release(scene)
    scene.scheduler.next_release_error = SchedulerUnavailable("no answer in 10 s")
    first = scene.beat().released
    assert first.left == (
        f"{scene.mark}: cordon of gpu-02",
        "R1 waits to release: no answer in 10 s",
    )
    assert first.sentence == "Giving back for mei: 2 things left."
    reports = [scene.beat().released for _ in range(2)]
    assert [one.is_done if one else None for one in reports] == [True, None]
    assert reports[0].sentence == ("Everything of ours is given back; trimtab stays paused until somebody resumes it.")
    assert [line.what for line in scene.ledger.lines].count("released all") == 1
    check(scene)


def test_marks_of_another_ledger_go_only_by_their_full_name():
    scene = until(evacuation, CommandState.PROPOSED)
    scene.scheduler.cordon("gpu-00", by=OTHER)
    scene.scheduler.marks.append(Held(mark="trimtab:0ddba11:R6", what="taint trimtab/seat on gpu-01"))
    release(scene)
    scene.beats(3)
    assert len(scene.scheduler.held()) == 2
    release(scene, marks=(OTHER,))
    scene.beats(3)
    assert scene.scheduler.held() == ["trimtab:0ddba11:R6 has taint trimtab/seat on gpu-01"]
    with pytest.raises(DecisionRefused, match="gpu-00 is no mark of a trimtab"):
        release(scene, marks=("gpu-00",))


def test_a_persons_cordon_stays():
    scene = until(evacuation, CommandState.SETTLED)
    scene.scheduler.cordon("gpu-00", by="sofia")
    release(scene)
    scene.beats(3)
    assert scene.scheduler.nodes["gpu-00"].cordoned_by == "sofia"


def test_after_it_a_person_resumes_and_work_goes_on():
    scene = until(evacuation, CommandState.SUBMITTED)
    release(scene)
    scene.beats(4)
    decisions.resume(scene.ledger, who="mei", now=scene.clock.now())
    scene.beat(seconds=3700)
    to(scene, CommandState.SETTLED, number=2)


@pytest.mark.parametrize(
    ("mark", "what"),
    [
        ("unreadable", "annotation trimtab/hold on node gpu-01, which cannot be read"),
        ("unsigned", "taint trimtab/out=:NoSchedule on node gpu-01"),
    ],
)
def test_what_nobody_can_read_is_left_and_said_until_a_person_has_removed_it(mark, what):
    scene = until(evacuation, CommandState.SETTLED)
    scene.scheduler.marks.append(Held(mark=mark, what=what, lasts=True, node="gpu-01"))
    shown = [one.sentence for one in scene.beat().refusals if one.rule == "foreign_mark"]
    assert shown == [f"Nobody knows whose this is, so it is left alone: {what}. Look at it and remove it by hand."]
    release(scene)
    advances = [scene.beat() for _ in range(4)]
    last = advances[-1].released
    assert last is not None
    assert (last.is_done, last.left) == (False, (f"{what}: nobody knows whose it is; look, then remove it by hand",))
    assert [line.why for line in scene.ledger.lines if line.what == "foreign mark"] == shown
    scene.scheduler.marks.clear()
    done = scene.beat().released
    assert done is not None
    assert done.is_done
    check(scene)


def test_in_a_dry_run_what_it_will_not_give_back_is_said():
    scene = until(evacuation, CommandState.PROPOSED)
    stray = f"trimtab:{scene.ledger.ledger}:R99"
    scene.scheduler.cordon("gpu-01", by=stray)
    scene.restart(IssueSettings(mode=Mode.ACT, is_dry_run=True))
    release(scene)
    scene.beats(3)
    said = scene.beat().released
    assert said is not None
    assert said.left == (
        f"{stray}: cordon of gpu-01",
        "This daemon runs dry: what no command under way gives back stays until issue.is_dry_run is false.",
    )
    scene.restart(IssueSettings(mode=Mode.ACT))
    scene.beats(3)
    check(scene)
