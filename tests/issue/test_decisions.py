from __future__ import annotations

from dataclasses import replace

import pytest
from tests.issue.scenes import evacuation, room_making, to

from trimtab.errors import DecisionRefused, UnknownCommand
from trimtab.issue import decisions
from trimtab.issue.policy import refusal_to_approve
from trimtab.model.command import CommandState, Mode
from trimtab.settings import IssueSettings


def refused(call, *args, **named) -> str:
    with pytest.raises(DecisionRefused) as caught:
        call(*args, **named)
    return str(caught.value)


def by(scene):
    return {"who": "mei", "now": scene.clock.now()}


def test_an_approval_binds_to_the_exact_writes():
    scene = evacuation()
    scene.beat()
    sentence = refused(decisions.approve, scene.ledger, 1, fingerprint="0" * 16, settings=scene.settings, **by(scene))
    assert sentence == "The steps of R1 have changed since you saw them. Look again, then approve."
    approved = scene.approve()
    assert approved.approved_fingerprint == approved.recommendation.fingerprint
    assert (approved.approved_by, approved.approved_at) == ("mei", scene.clock.now())
    assert scene.ledger.lines[-1].what == "R1 proposed → approved"


def test_mode_recommend_takes_no_approval_and_says_what_would():
    scene = evacuation(settings=IssueSettings(mode=Mode.RECOMMEND))
    scene.beat()
    with pytest.raises(DecisionRefused, match=r'R1 is advice in mode recommend. Copy its steps, or set .* "approve"'):
        scene.approve()


def test_what_has_expired_cannot_be_approved():
    scene = evacuation()
    scene.beat()
    scene.clock.advance(901)
    with pytest.raises(DecisionRefused, match="R1 has expired; it is made anew if it still holds"):
        scene.approve()


def test_what_was_snoozed_beyond_its_expiry_can_be_approved_and_begins():
    scene = evacuation()
    scene.beat()
    decisions.snooze(scene.ledger, 1, seconds=4000, **by(scene))
    scene.beat(seconds=2000)
    scene.approve()
    scene.beat()
    assert scene.command(1).state is CommandState.HELD


def test_an_approval_is_given_once():
    scene = evacuation()
    scene.beat()
    scene.approve()
    with pytest.raises(DecisionRefused, match="R1 is approved; only what is proposed can be approved"):
        scene.approve()


def test_a_command_that_is_over_says_why_it_cannot_be_approved():
    scene = evacuation()
    scene.beat()
    over = replace(scene.command(1), state=CommandState.ABANDONED, reason="gpu-01 is well again.")
    refusal = refusal_to_approve(over, IssueSettings(mode=Mode.APPROVE))
    assert refusal is not None
    said = "R1 is abandoned (gpu-01 is well again); only what is proposed can be approved."
    assert refusal.sentence == said


def test_there_is_no_such_command():
    scene = evacuation()
    with pytest.raises(UnknownCommand, match="There is no R7"):
        decisions.reject(scene.ledger, 7, reason="", **by(scene))


def test_reject_keeps_the_persons_words_on_one_line():
    scene = evacuation()
    scene.beat()
    rejected = decisions.reject(scene.ledger, 1, reason="we  replace\nit " + "x" * 600, **by(scene))
    assert rejected.state is CommandState.REJECTED
    assert rejected.reason.startswith("we replace it x")
    assert len(rejected.reason) == 500
    assert refused(decisions.reject, scene.ledger, 1, reason="", **by(scene)) == "R1 is rejected already."


def test_what_has_begun_is_undone_and_not_rejected():
    scene = evacuation()
    to(scene, CommandState.HELD)
    assert refused(decisions.reject, scene.ledger, 1, reason="", **by(scene)) == "R1 is held; undo it instead."


def test_undo_of_an_approval_puts_it_back_among_the_proposals():
    scene = evacuation()
    scene.beat()
    scene.approve()
    back = decisions.undo(scene.ledger, 1, reason="not yet", **by(scene))
    assert (back.state, back.approved_by, back.approved_fingerprint) == (CommandState.PROPOSED, None, None)


def test_undo_says_where_there_is_nothing_to_undo():
    scene = room_making()
    scene.beat()
    said = [refused(decisions.undo, scene.ledger, 1, reason="", **by(scene))]
    to(scene, CommandState.SETTLED)
    said.append(refused(decisions.undo, scene.ledger, 1, reason="", **by(scene)))
    other = evacuation()
    other.beat()
    decisions.reject(other.ledger, 1, reason="", **by(other))
    said.append(refused(decisions.undo, other.ledger, 1, reason="", **by(other)))
    assert said == [
        "R1 has done nothing yet; reject it instead.",
        "R1 has settled and holds nothing; its jobs stay where they run.",
        "R1 is rejected; there is nothing to undo.",
    ]


def test_undo_is_asked_for_once():
    scene = evacuation()
    to(scene, CommandState.SUBMITTED)
    decisions.undo(scene.ledger, 1, reason="", **by(scene))
    assert refused(decisions.undo, scene.ledger, 1, reason="", **by(scene)) == (
        "mei has asked for that already; it is being undone."
    )


def test_a_snooze_has_bounds_and_is_for_proposals():
    scene = evacuation()
    scene.beat()
    assert "between 1 s and 604800 s" in refused(decisions.snooze, scene.ledger, 1, seconds=0, **by(scene))
    assert "between 1 s" in refused(decisions.snooze, scene.ledger, 1, seconds=float("nan"), **by(scene))
    scene.approve()
    assert refused(decisions.snooze, scene.ledger, 1, seconds=60, **by(scene)) == (
        "R1 is approved; only what is proposed can wait."
    )


def test_a_decision_that_comes_second_is_told_to_look_again():
    scene = evacuation()
    scene.beat()
    fingerprint = scene.command().recommendation.fingerprint

    def somebody_else() -> None:
        decisions.reject(scene.ledger, 1, reason="", who="sofia", now=scene.clock.advance(1))

    scene.ledger.next_record_hook = somebody_else
    assert refused(
        decisions.approve, scene.ledger, 1, fingerprint=fingerprint, settings=scene.settings, **by(scene)
    ) == ("R1 changed at this very moment. Look again, then decide.")
    assert scene.command().state is CommandState.REJECTED


def test_pause_and_resume_are_audited():
    scene = evacuation()
    decisions.pause(scene.ledger, reason="maintenance", **by(scene))
    decisions.resume(scene.ledger, **by(scene))
    assert [(line.who, line.what, line.why) for line in scene.ledger.lines] == [
        ("mei", "paused", "maintenance"),
        ("mei", "resumed", ""),
    ]
