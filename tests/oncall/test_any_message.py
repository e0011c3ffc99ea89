"""Whatever a message says, each target's real rules take it, and its first line is there whole."""

from __future__ import annotations

import itertools
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.oncall.cases import CASES, Case
from tests.oncall.chat_receivers import SlackReceiver, TeamsReceiver
from tests.oncall.scenes import a_message
from tests.oncall.server import serving

from trimtab.model.advice import Severity, Subject
from trimtab.model.oncall import FIRST_LINE_CHARACTERS_MAX, Message, Verb, incident_key
from trimtab.show.oncall.text import headline

CHARACTERS = st.one_of(st.characters(codec="utf-8"), st.sampled_from('<>&*_`[]()"\\\n 受影响🔥'))
WORDS = st.text(CHARACTERS, max_size=40)
LINES = st.lists(st.text(CHARACTERS, max_size=400), max_size=80)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    first_line = draw(st.text(CHARACTERS, min_size=1, max_size=FIRST_LINE_CHARACTERS_MAX))
    return a_message(
        draw(st.sampled_from([Verb.OPEN, Verb.UPDATE, Verb.RESOLVE])),
        key=incident_key(draw(WORDS), draw(WORDS)),
        first_line="hall-a: " + first_line[:90],
        title=first_line or "hall-a",
        lines=tuple(draw(LINES)),
        queue=draw(WORDS),
        owner=draw(WORDS),
        who=draw(WORDS),
        severity=draw(st.sampled_from(Severity)),
        subject=Subject(cluster="hall-a", node=draw(st.none() | WORDS.filter(bool)), workload=draw(st.none() | WORDS)),
        facts=draw(st.dictionaries(WORDS, WORDS, max_size=5)),
        is_loud=draw(st.booleans()),
        is_drill=draw(st.booleans()),
        locale=draw(st.sampled_from(["en", "zh-CN"])),
    )


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.kind)
def test_any_message_is_taken_with_its_first_line(case: Case) -> None:
    receiver = case.receiver()
    numbers = itertools.count()
    with serving(receiver) as url, tempfile.TemporaryDirectory() as folder:
        sender = case.sender(url, Path(folder))

        @settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None)
        @given(messages())
        def one(message: Message) -> None:
            number = next(numbers)
            message = replace(message, id=f"msg_{number}", key=incident_key(message.key, str(number)))
            sender.send(message, None)
            assert receiver.refusals == []
            if isinstance(receiver, TeamsReceiver):
                assert receiver.unseen == []
            if isinstance(receiver, SlackReceiver):
                assert receiver.woken == []
                return
            if message.verb is Verb.OPEN:
                assert headline(message) == case.heard(receiver)[-1]

        one()
