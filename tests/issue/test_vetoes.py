"""Who opened a node that we had cordoned: we, a repair, or a person who does not agree."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.builders import a_finding
from tests.fakes.clock import START
from tests.issue.scenes import evacuation, to
from tests.schedulers.plain_rig import PlainRig

from trimtab.errors import DecisionRefused
from trimtab.issue import decisions
from trimtab.model.cluster import ClusterSnapshot, Held
from trimtab.model.command import CommandState, Mode
from trimtab.model.standing import StandingKind
from trimtab.settings import IssueSettings

ACT = IssueSettings(mode=Mode.ACT)
WEEK = timedelta(days=7)


def settled(**changes):
    scene = evacuation(settings=ACT, **changes)
    to(scene, CommandState.SETTLED)
    return scene


def vetoes(scene):
    return {one.name: one for one in scene.ledger.standing(StandingKind.VETO)}


def test_a_persons_uncordon_is_a_veto_for_a_week_and_counts_against_the_rule():
    scene = settled()
    scene.scheduler.uncordon("gpu-02")
    scene.beats(2)
    veto = vetoes(scene)["gpu-02"]
    assert (scene.command().state, scene.command().reason) == (
        CommandState.UNDONE,
        "somebody uncordoned gpu-02: a veto",
    )
    assert not scene.ledger.results[1].is_good
    assert (veto.until - veto.since, veto.causes, veto.command_id) == (WEEK, ("device_fault",), 1)
    advance = scene.beat(seconds=6 * 86400)
    assert [one.sentence for one in advance.plan.refusals if one.rule == "veto"] == [veto.why]
    assert list(scene.ledger.stored) == [1]
    assert not scene.scheduler.nodes["gpu-02"].is_cordoned
    scene.beat(seconds=2 * 86400)
    assert scene.command(2).recommendation.purpose == "evacuate:gpu-02"


def test_a_veto_is_seen_however_long_after_the_command_settled():
    scene = settled()
    scene.beat(seconds=40 * 86400)
    scene.restart()
    scene.scheduler.uncordon("gpu-02")
    scene.beats(2)
    assert scene.command().state is CommandState.UNDONE
    assert list(vetoes(scene)) == ["gpu-02"]


def test_a_veto_outlives_a_restart():
    scene = settled()
    scene.scheduler.uncordon("gpu-02")
    scene.beats(2)
    scene.restart()
    scene.beats(3)
    assert list(scene.ledger.stored) == [1]


def test_an_uncordon_after_the_finding_ended_is_a_repair_and_no_veto():
    scene = settled()
    good = scene.ledger.results[1]
    scene.close_findings()
    scene.scheduler.uncordon("gpu-02")
    scene.beats(2)
    command = scene.command()
    assert (command.state, command.is_holding) == (CommandState.SETTLED, False)
    assert vetoes(scene) == {}
    assert scene.ledger.results[1] == good
    assert "a repair, no veto" in scene.ledger.lines[-1].why


def test_while_a_finding_is_about_to_end_no_verdict_is_given():
    scene = settled()
    open_one = scene.findings[0]
    scene.findings = (replace(open_one, clear_since=scene.clock.now()),)
    scene.scheduler.uncordon("gpu-02")
    scene.beats(2)
    assert scene.command().state is CommandState.SETTLED
    scene.findings = (open_one,)  # it is seen again: nothing was repaired
    scene.beat()
    assert scene.command().state is CommandState.UNDONE


def test_our_own_return_to_service_is_no_veto():
    scene = settled()
    scene.close_findings()
    scene.beats(8)
    assert scene.command(2).recommendation.rule == "restore"
    assert scene.command(2).state is CommandState.SETTLED
    assert not scene.scheduler.nodes["gpu-02"].is_cordoned
    assert (scene.command().state, scene.command().is_holding) == (CommandState.SETTLED, False)
    assert vetoes(scene) == {}
    assert scene.ledger.results[1].is_good


def test_a_gate_not_met_keeps_the_node_out_with_its_sentence():
    scene = settled()
    advance = scene.beat()
    assert [one.rule for one in advance.plan.refusals] == ["gate"]
    assert scene.scheduler.nodes["gpu-02"].is_cordoned


def test_a_persons_cordon_over_ours_is_theirs_and_is_never_lifted_by_us():
    scene = settled()
    scene.scheduler.cordon("gpu-02", by="sofia")
    scene.close_findings()
    scene.beats(8)
    assert scene.scheduler.nodes["gpu-02"].cordoned_by == "sofia"
    assert not scene.command().is_holding


def test_a_return_that_a_person_overtakes_leaves_the_persons_cordon():
    scene = settled()
    scene.close_findings()
    while scene.ledger.command(2) is None or scene.command(2).state is not CommandState.CONFIRMED:
        scene.beat()
    scene.scheduler.cordon("gpu-02", by="sofia")
    scene.beats(4)
    assert scene.scheduler.nodes["gpu-02"].cordoned_by == "sofia"
    assert scene.command(2).state is CommandState.SETTLED


def test_a_node_that_is_gone_is_held_no_more():
    scene = settled()
    del scene.scheduler.nodes["gpu-02"]
    scene.findings = ()
    scene.beat()
    assert (scene.command().state, scene.command().is_holding) == (CommandState.SETTLED, False)
    assert vetoes(scene) == {}


def test_another_cause_is_proposed_in_spite_of_a_veto_and_a_person_decides():
    scene = settled()
    scene.scheduler.uncordon("gpu-02")
    scene.beats(2)
    scene.findings = (a_finding(id=9, node="gpu-02", rule="gpus_missing", loss_gpus=8.0),)
    scene.beat(seconds=3700)
    scene.beats(3)
    assert scene.command(2).state is CommandState.PROPOSED
    assert scene.command(2).recommendation.causes == ("gpus_missing",)


def test_a_veto_can_be_lifted_once():
    scene = settled()
    scene.scheduler.uncordon("gpu-02")
    scene.beats(2)
    decisions.lift_veto(scene.ledger, "gpu-02", who="mei", now=scene.clock.now())
    with pytest.raises(DecisionRefused, match="No veto stands on gpu-02"):
        decisions.lift_veto(scene.ledger, "gpu-02", who="mei", now=scene.clock.now())
    scene.beat(seconds=3700)
    assert scene.command(2).recommendation.purpose == "evacuate:gpu-02"


def test_undo_gives_back_what_that_command_holds_and_nothing_else():
    scene = settled()
    other = f"trimtab:{scene.ledger.ledger}:R2"
    second = scene.ledger.add(
        replace(scene.command().recommendation, purpose="evacuate:gpu-00", moves=(), writes=()), scene.clock.now()
    )
    writes = tuple(replace(one, node="gpu-00") for one in scene.command().recommendation.writes if one.lasts)
    scene.ledger.stored[2] = replace(
        second,
        state=CommandState.SETTLED,
        settled_at=START,
        recommendation=replace(second.recommendation, writes=writes),
    )
    scene.scheduler.cordon("gpu-00", by=other)
    decisions.undo(scene.ledger, 1, reason="", who="mei", now=scene.clock.now())
    snapshot: ClusterSnapshot = scene.scheduler.snapshot()
    assert len([one for one in snapshot.nodes if one.is_cordoned]) == 2
    scene.beat()
    assert scene.scheduler.held() == [f"{other} cordons gpu-00"]


@pytest.mark.parametrize("state", [CommandState.HELD, CommandState.CONFIRMED, CommandState.SUBMITTED])
def test_a_node_that_is_opened_in_the_middle_of_a_command_is_a_veto_and_everything_goes_back(state):
    scene = evacuation(settings=ACT)
    to(scene, state)
    scene.scheduler.is_stuck = True
    scene.scheduler.uncordon("gpu-02")
    scene.beats(3)
    scene.scheduler.is_stuck = False
    scene.beats(3)
    assert scene.command().state is CommandState.UNDONE
    assert "gpu-02" in scene.command().reason
    assert list(vetoes(scene)) == ["gpu-02"]
    assert scene.scheduler.held() == []
    assert scene.scheduler.jobs["research/llama-70b"].is_running
    scene.beat(seconds=3700)
    assert list(scene.ledger.stored) == [1]


def test_one_look_is_no_verdict():
    scene = settled()
    scene.scheduler.uncordon("gpu-02")
    scene.beat()
    assert scene.command().state is CommandState.SETTLED
    scene.scheduler.cordon("gpu-02", by=scene.mark)  # it was but a late look
    scene.beats(3)
    assert (scene.command().state, vetoes(scene)) == (CommandState.SETTLED, {})


def test_a_longer_name_that_begins_with_a_nodes_is_another_node():
    scene = settled()
    scene.scheduler.marks.append(Held(mark=scene.mark, what="cordon on node gpu-022", lasts=True, node="gpu-022"))
    scene.scheduler.cordon("gpu-02", by="sofia")
    scene.beats(3)
    assert scene.command().given_back_at is not None, "gpu-02 is sofia's, whatever gpu-022 bears"


def test_a_taint_that_a_person_takes_off_a_seat_is_no_veto_on_a_node_of_a_shorter_name():
    rig = PlainRig(nodes=12)
    rig.hall.add("job", "web", pods=2, gpus=8, on=["n1", "n2"])
    for number in range(3, 10):
        rig.kube.edit(f"/api/v1/nodes/n{number}", {"spec": {"unschedulable": True}})
    rig.bad("n1")

    def seats():
        return [
            one["metadata"]["name"]
            for one in rig.kube.all("nodes")
            if any(taint["key"] == "trimtab/seat" for taint in one["spec"].get("taints") or [])
        ]

    rig.beat_until(seats)
    (longer,) = [name for name in seats() if name != "n2"]
    assert longer.startswith("n1")
    rig.kube.edit(f"/api/v1/nodes/{longer}", {"spec": {"taints": []}})
    for _ in range(3):
        rig.beat()
    assert rig.commands[0].state is CommandState.UNDONE
    assert f"off {longer} since" in rig.commands[0].reason
    assert rig.ledger.standing(StandingKind.VETO) == ()
