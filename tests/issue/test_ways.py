"""The schedulers' own steps are part of what is proposed, approved and compared; pauses from inside the cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.fakes.scheduler import FakeScheduler
from tests.issue.scenes import evacuation, room_making, to

from trimtab.errors import SchedulerRefused, SchedulerUnavailable
from trimtab.issue import decisions
from trimtab.issue.issuer import Issuer
from trimtab.model.command import CommandState, Mode, Way
from trimtab.settings import IssueSettings, KubernetesSettings

WAY = Way(
    steps=("kubectl cordon gpu-02", "kubectl patch workload …"),
    sentence="Kueue stops and starts the gang; about 12 s.",
    seconds=12.0,
    against=("Its queue is held meanwhile.",),
)


def test_a_proposal_bears_the_schedulers_steps_time_and_what_speaks_against_it():
    scene = evacuation()
    scene.scheduler.next_way = WAY
    scene.beat()
    advice = scene.command().recommendation
    assert (advice.steps, advice.way, advice.way_seconds) == (WAY.steps, WAY.sentence, WAY.seconds)
    assert advice.against[-1] == "Its queue is held meanwhile."
    assert advice.causes == ("device_fault",)


def test_the_same_way_keeps_an_approval_and_another_takes_it_back():
    scene = evacuation()
    scene.scheduler.next_way = WAY
    scene.beat()
    scene.approve()
    scene.scheduler.next_way = replace(WAY, steps=("kubectl delete pod …",))
    scene.beat()
    assert scene.command().state is CommandState.PROPOSED
    assert "other steps than those approved" in scene.command().reason
    scene.approve()
    scene.beat()
    assert scene.command().state is CommandState.HELD
    assert scene.command().recommendation.steps == ("kubectl delete pod …",)


def test_a_way_that_refuses_is_a_refusal_and_gives_the_proposal_up():
    scene = evacuation()
    scene.beat()
    scene.scheduler.next_way_error = SchedulerRefused("two nodes would be excluded")
    advance = scene.beat()
    assert [(one.rule, one.sentence) for one in advance.plan.refusals] == [("way", "two nodes would be excluded")]
    assert (scene.command().state, scene.command().reason) == (CommandState.ABANDONED, "two nodes would be excluded")


def test_a_scheduler_that_cannot_say_its_way_now_leaves_what_stands():
    scene = evacuation()
    scene.beat()
    scene.approve()
    scene.scheduler.next_way_error = SchedulerUnavailable("no answer in 10 s")
    advance = scene.beat()
    assert scene.command().state is CommandState.APPROVED
    assert "R1 waits: no answer in 10 s" in [one.sentence for one in advance.refusals]
    scene.beat()
    assert scene.command().state is CommandState.HELD


def test_the_forecast_of_the_way_is_kept_with_the_outcome():
    scene = evacuation()
    scene.scheduler.next_way = WAY
    to(scene, CommandState.SETTLED)
    outcome, advice = scene.ledger.results[1], scene.command().recommendation
    assert outcome.seconds_forecast == 12.0
    assert outcome.gpu_hours_lost_forecast == advice.cost.gpu_hours
    assert outcome.gpu_hours_saved_forecast == advice.gain.gpu_hours - advice.cost.gpu_hours


# --- who carries out what


@pytest.mark.parametrize("has_moves", [True, False])
def test_a_command_goes_to_its_controllers_adapter_and_a_cordon_alone_to_one(has_moves):
    scene = evacuation(settings=IssueSettings(mode=Mode.ACT))
    if not has_moves:
        scene.scheduler.nodes.pop("gpu-22")  # no seat: the cordon alone
    others = {name: FakeScheduler(scene.snapshot, scene.clock, name=name) for name in ("kueue", "volcano")}
    schedulers = {"kueue": others["kueue"], "simulated": scene.scheduler, "volcano": others["volcano"]}
    scene.issuer = Issuer(ledger=scene.ledger, schedulers=schedulers, settings=scene.settings, clock=scene.clock)
    scene.beats(4)
    assert bool(scene.command().recommendation.moves) is has_moves
    called = {name: bool(one.calls) for name, one in schedulers.items()}
    assert called == {"kueue": not has_moves, "simulated": has_moves, "volcano": False}


def test_a_release_is_asked_of_every_adapter_even_if_the_first_does_not_answer():
    scene = evacuation()
    other = FakeScheduler(scene.snapshot, scene.clock, name="kueue")
    schedulers = {"kueue": other, "simulated": scene.scheduler}
    scene.issuer = Issuer(ledger=scene.ledger, schedulers=schedulers, settings=scene.settings, clock=scene.clock)
    mark = f"trimtab:{scene.ledger.ledger}:R9"
    scene.scheduler.cordon("gpu-00", by=mark)
    other.next_release_error = SchedulerUnavailable("no answer in 10 s")
    advance = scene.beat()
    assert scene.scheduler.held() == []
    assert "R9 waits to release: no answer in 10 s" in [one.sentence for one in advance.refusals]


# --- pause


def test_a_pause_inside_the_cluster_stops_new_commands_at_once_and_finishes_begun_ones():
    scene = evacuation()
    scene.beat()
    scene.approve()
    scene.scheduler.pause_reason = "upgrade of the fabric"
    advance = scene.beat()
    assert [one.sentence for one in advance.refusals] == [
        "R1 waits: paused in the cluster itself: upgrade of the fabric."
    ]
    assert advance.pause == "paused in the cluster itself: upgrade of the fabric."
    scene.scheduler.pause_reason = None
    scene.beat()
    scene.scheduler.pause_reason = ""
    scene.beats(6)
    assert scene.command().state is CommandState.SETTLED


def test_no_policy_says_yes_while_the_cluster_is_paused():
    scene = room_making(settings=IssueSettings(mode=Mode.ACT))
    scene.scheduler.pause_reason = ""
    scene.beats(4)
    assert scene.command().state is CommandState.PROPOSED


def test_a_persons_resume_does_not_override_the_cluster_and_says_how_to_end_it():
    scene = evacuation()
    by = {"who": "mei", "now": scene.clock.now(), "kubernetes": KubernetesSettings(namespace="gpu-ops")}
    assert decisions.resume(scene.ledger, **by) == ""
    assert decisions.resume(scene.ledger, pause_reason="upgrade", **by) == (
        "Still paused in the cluster itself: upgrade. "
        "To end that: kubectl --namespace gpu-ops delete configmap trimtab-pause"
    )
    assert decisions.pause_line(by["kubernetes"]) == (
        "kubectl --namespace gpu-ops create configmap trimtab-pause --from-literal=reason='why'"
    )
