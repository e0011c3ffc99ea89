from __future__ import annotations

from dataclasses import replace

from tests.builders import a_node
from tests.issue.scenes import evacuation, relocation, to

from trimtab.issue import decisions
from trimtab.model.command import Budget, CommandState, Mode, Plan
from trimtab.settings import IssueSettings

HELD = CommandState.HELD


# --- budgets at the edge


def test_budgets_are_enforced_once_more_at_the_edge():
    scene = evacuation()
    scene.beat()
    scene.approve()
    snapshot = scene.scheduler.snapshot()
    plan = scene.planner.propose(snapshot, scene.findings, Budget())
    for budget, sentence in (
        (Budget(moves_left=0), "R1 waits: 1 move needed, 0 left of those allowed at once."),
        (
            Budget(nodes_cordonable=0),
            "R1 waits: 1 cordon needed, 0 left of the nodes that may stand cordoned by trimtab.",
        ),
        (
            Budget(moves_left_by_workload={"research/llama-70b": 0}),
            "R1 waits: llama-70b has been moved as often as allowed in one day.",
        ),
        (
            Budget(node_attempts_left={"gpu-02": 0}),
            "R1 waits: gpu-02 has been tried as often as allowed in one day; a person must look.",
        ),
    ):
        advance = scene.issuer.advance(plan, snapshot, budget)
        assert [one.sentence for one in advance.refusals] == [sentence]
        assert scene.command().state is CommandState.APPROVED
    scene.issuer.advance(plan, snapshot, Budget(moves_left=1, nodes_cordonable=1))
    assert scene.command().state is HELD


def test_a_proposal_that_only_the_budget_keeps_out_is_not_given_up():
    scene = evacuation()
    scene.beat()
    scene.budget = Budget(moves_left=0)
    scene.beats(2)
    assert scene.command().state is CommandState.PROPOSED
    scene.approve()
    advance = scene.beat()
    assert scene.command().state is CommandState.APPROVED
    assert advance.refusals[0].rule == "budget"


def test_two_commands_never_hold_one_workload():
    scene = relocation()
    to(scene, HELD)
    plan = scene.planner.propose(scene.snapshot, scene.findings, scene.budget)
    other = replace(plan.recommendations[0], purpose="relocate:elsewhere", writes=plan.recommendations[0].writes[1:])
    second = scene.ledger.add(other, scene.clock.now())
    scene.approve(second.id)
    both = Plan(made_at=scene.clock.now(), recommendations=(other,))
    advance = scene.issuer.advance(both, scene.scheduler.snapshot())
    assert "R2 waits: R1 has research/vision-3 in hand." in [one.sentence for one in advance.refusals]


# --- proposals


def test_the_same_advice_keeps_its_number_and_is_written_once():
    scene = evacuation()
    scene.beats(5)
    assert list(scene.ledger.stored) == [1]
    assert scene.states() == ["proposed"]


def test_changed_steps_are_renewed_under_the_same_number():
    scene = evacuation()
    scene.beat()
    old = scene.command().recommendation
    scene.scheduler.nodes["gpu-22"] = replace(scene.scheduler.nodes["gpu-22"], is_ready=False)
    scene.scheduler.nodes["gpu-23"] = a_node("gpu-23", is_spare=True)
    scene.beat()
    assert list(scene.ledger.stored) == [1]
    assert scene.command().recommendation.fingerprint != old.fingerprint
    assert "gpu-23" in scene.command().recommendation.sentence


def test_a_proposal_expires_and_is_made_anew_if_it_still_holds():
    scene = evacuation()
    scene.beat()
    scene.beat(seconds=901)
    assert scene.command(1).state is CommandState.EXPIRED
    assert scene.command(2).state is CommandState.PROPOSED


def test_an_approval_outlives_no_expiry():
    scene = evacuation()
    scene.beat()
    scene.approve()
    scene.beat(seconds=901)
    assert scene.command(1).state is CommandState.EXPIRED
    assert scene.scheduler.calls == []


def test_what_was_rejected_is_not_proposed_again_for_an_hour():
    scene = evacuation()
    scene.beat()
    decisions.reject(scene.ledger, 1, reason="we know", who="mei", now=scene.clock.now())
    scene.beats(3)
    assert list(scene.ledger.stored) == [1]
    scene.beat(seconds=3600)
    assert scene.command(2).state is CommandState.PROPOSED


def test_a_snoozed_proposal_is_left_alone_and_does_not_expire():
    scene = evacuation(settings=IssueSettings(mode=Mode.ACT))
    scene.beat()
    decisions.snooze(scene.ledger, 1, seconds=2000, who="mei", now=scene.clock.now())
    scene.beat(seconds=1500)
    assert scene.command().state is CommandState.PROPOSED
    scene.beat(seconds=600)
    assert scene.command().state is CommandState.EXPIRED


def test_a_decision_at_the_same_moment_wins_over_the_beat():
    scene = evacuation()
    scene.beat()
    scene.approve()

    def undo() -> None:
        decisions.undo(scene.ledger, 1, reason="wait", who="mei", now=scene.clock.now())

    scene.ledger.next_record_hook = undo
    advance = scene.beat()
    assert [one.rule for one in advance.refusals] == ["conflict"]
    assert scene.command().state is CommandState.PROPOSED
    assert scene.scheduler.calls == []
