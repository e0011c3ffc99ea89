"""One rule that makes most of the cordons is stopped until a person has looked; uncordons never are."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import a_finding, a_node, a_snapshot
from tests.issue.scenes import Scene

from trimtab.errors import DecisionRefused
from trimtab.issue import decisions
from trimtab.model.advice import FindingState
from trimtab.model.command import Budget, CommandState, Mode
from trimtab.model.standing import StandingKind
from trimtab.settings import IssueSettings

THREE = IssueSettings(mode=Mode.ACT, breaker_cordons=3)
SENTENCE = (
    "device_fault made 3 of the last 3 cordons within 60 min. "
    "Look whether they are right, then: trimtab resume --rule device_fault"
)


def storm(*rules: str) -> Scene:
    """Idle nodes, one finding on each, of these rules in turn."""
    names = [f"gpu-{n:02d}" for n in range(len(rules) + 2)]
    findings = tuple(
        a_finding(id=n + 1, node=names[n], rule=rule, incident=f"i{n}", loss_gpus=8.0 - n / 10)
        for n, rule in enumerate(rules)
    )
    scene = Scene(snapshot=a_snapshot([a_node(name) for name in names]), findings=findings, settings=THREE)
    scene.budget = Budget()
    return scene


def cordoned(scene):
    return [node.name for node in scene.scheduler.nodes.values() if node.is_cordoned]


def test_a_rule_that_makes_most_of_the_cordons_is_stopped_within_the_same_beat():
    scene = storm(*5 * ["device_fault"])
    scene.beats(2)
    advance = scene.beat()
    assert cordoned(scene) == ["gpu-00", "gpu-01", "gpu-02"]
    waits = [one.sentence for one in advance.refusals if one.rule == "breaker"]
    assert waits == [f"R4 waits: {SENTENCE}", f"R5 waits: {SENTENCE}"]
    assert [one.why for one in scene.ledger.standing(StandingKind.BREAKER)] == [SENTENCE]
    assert "breaker of device_fault opened" in [line.what for line in scene.ledger.lines]


def test_it_stays_stopped_through_restarts_and_time_until_a_person_lets_it_go_on():
    scene = storm(*5 * ["device_fault"])
    scene.beats(6)
    scene.restart()
    scene.beat(seconds=7200)
    scene.beats(3)
    assert len(cordoned(scene)) == 3
    decisions.resume_rule(scene.ledger, "device_fault", who="mei", now=scene.clock.now())
    scene.beats(6)
    assert len(cordoned(scene)) == 5
    with pytest.raises(DecisionRefused, match="No breaker has stopped device_fault; stopped: none"):
        decisions.resume_rule(scene.ledger, "device_fault", who="mei", now=scene.clock.now())


def test_after_a_person_looked_cordons_count_anew():
    scene = storm(*8 * ["device_fault"])
    scene.beats(6)
    decisions.resume_rule(scene.ledger, "device_fault", who="mei", now=scene.clock.now())
    scene.beats(6)
    assert len(cordoned(scene)) == 6
    assert len(scene.ledger.standing(StandingKind.BREAKER)) == 1


def test_rules_that_share_the_cordons_trip_nothing():
    scene = storm(*2 * ["device_fault", "gpus_missing", "node_silent"])
    scene.beats(6)
    assert len(cordoned(scene)) == 6
    assert scene.ledger.standing(StandingKind.BREAKER) == ()


def test_a_stopped_rule_stops_no_other_rule():
    scene = storm(*3 * ["device_fault"], "gpus_missing", "device_fault")
    scene.beats(6)
    assert cordoned(scene) == ["gpu-00", "gpu-01", "gpu-02", "gpu-03"]


def test_no_policy_and_no_person_begins_what_a_breaker_stops_but_an_uncordon_goes_on():
    scene = storm(*4 * ["device_fault"])
    scene.beats(4)
    assert scene.command(4).state in (CommandState.APPROVED, CommandState.PROPOSED)
    gone, scene.findings = scene.findings[0], scene.findings[1:]
    scene.closed = (replace(gone, state=FindingState.CLOSED, close_reason="well for 10 min"),)
    scene.beats(14)
    assert cordoned(scene) == ["gpu-01", "gpu-02"]


def test_a_dry_run_counts_nothing_and_stops_nothing_after_it():
    scene = storm(*4 * ["device_fault"])
    scene.restart(replace_dry(THREE))
    scene.beats(8)
    assert cordoned(scene) == []
    assert all(command.is_dry for command in scene.ledger.stored.values())
    assert len(scene.ledger.stored) == 4
    assert scene.ledger.standing(StandingKind.BREAKER) == ()
    scene.restart(THREE)
    scene.findings = (a_finding(id=9, node="gpu-05", rule="device_fault", incident="i9", loss_gpus=8.0),)
    scene.beats(6)
    assert cordoned(scene) == ["gpu-05"]
    assert scene.ledger.standing(StandingKind.BREAKER) == ()


def replace_dry(settings: IssueSettings) -> IssueSettings:
    return IssueSettings(mode=settings.mode, breaker_cordons=settings.breaker_cordons, is_dry_run=True)
