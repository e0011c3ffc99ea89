"""What an approval binds to."""

from __future__ import annotations

from dataclasses import replace

from tests.fakes.clock import START

from trimtab.model.advice import Subject
from trimtab.model.command import Cost, Gain, Recommendation, RecommendationKind, Verb, Write

CORDON = Write(verb=Verb.CORDON, node="gpu-07")
ADVICE = Recommendation(
    kind=RecommendationKind.CORDON,
    rule="evacuate",
    purpose="evacuate:gpu-07",
    subject=Subject(cluster="hall-a", node="gpu-07"),
    sentence="Cordon gpu-07",
    reason="",
    findings=(1,),
    moves=(),
    writes=(CORDON,),
    gain=Gain(gpu_hours=1.0, horizon_hours=24.0),
    cost=Cost(gpu_hours=0.0),
    created_at=START,
    expires_at=START,
)


def test_an_approval_of_a_passing_cordon_is_none_of_a_lasting_one():
    lasting = replace(ADVICE, writes=(replace(CORDON, lasts=True),))
    assert lasting.fingerprint != ADVICE.fingerprint


def test_the_fingerprint_is_of_the_writes_alone():
    assert replace(ADVICE, sentence="Other words", findings=(2,)).fingerprint == ADVICE.fingerprint
