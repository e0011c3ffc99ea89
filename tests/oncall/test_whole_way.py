"""From a finding by bell and outbox to each target's real rules; and a daemon that dies between sending and noting."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.oncall.cases import CASES, Case
from tests.oncall.hall import Hall, a_fault
from tests.oncall.receivers import GrafanaIrmReceiver, JsmReceiver, PagerDutyReceiver, WebhookReceiver
from tests.oncall.server import Receiver, serving

from trimtab.model.oncall import Message, Target, Thread, Verb
from trimtab.model.outbox import LetterState
from trimtab.show.oncall.sender import Delivered, Sender


class Dies(BaseException):
    """The process is gone: nothing after this line happens."""


class DiesAfterSending:
    """Sends for good, and never tells."""

    def __init__(self, sender: Sender) -> None:
        self.target, self.name, self._sender = sender.target, sender.name, sender

    def send(self, message: Message, thread: Thread | None) -> Delivered:
        self._sender.send(message, thread)
        raise Dies


class Line:
    """One target of a hall, with its real sender and its real end's rules."""

    def __init__(self, case: Case, receiver: Receiver, folder: Path, **more: Any) -> None:
        self.receiver = receiver
        self.sender = case.sender(receiver.url, folder, **more)
        target: Target = self.sender.target
        self.hall = Hall(folder, target)
        self.use(self.sender)

    def use(self, sender: Any) -> None:
        self.hall.deliverers = [self.hall.deliverer(sender)]

    def restart(self) -> None:
        """After its lease has run out."""
        self.hall.stop()
        self.hall.start()
        self.use(self.sender)
        self.hall.clock.advance(self.hall.settings.lease_seconds + 1)


@pytest.fixture(params=CASES, ids=lambda case: case.kind)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture
def line(case: Case, tmp_path: Path) -> Iterator[Line]:
    receiver = case.receiver()
    with serving(receiver):
        made = Line(case, receiver, tmp_path, locale="zh-CN")
        yield made
        made.hall.stop()


def incidents_at(receiver: Receiver) -> int | None:
    """How many there are at an end that keeps them by key; None elsewhere."""
    if isinstance(receiver, PagerDutyReceiver | JsmReceiver):
        return len(receiver.alerts)
    if isinstance(receiver, GrafanaIrmReceiver):
        return len(receiver.groups)
    return len(receiver.taken) if isinstance(receiver, WebhookReceiver) else None


def test_a_finding_is_told_from_opening_to_end(case: Case, line: Line) -> None:
    hall = line.hall
    fault = a_fault(workloads_hit=("research/llama-70b",), gpus_hit=32)
    worse = a_fault(workloads_hit=("research/llama-70b", "vision-3"), gpus_hit=64)
    hall.beat(fault)
    hall.beat(worse)
    (incident,) = hall.history.open_incidents()
    hall.bell.acknowledge(incident.number, who="wang", at=hall.clock.now())
    hall.beat(worse)
    hall.end(worse)
    hall.beat()
    letters = hall.history.letters(limit=99)
    assert {letter.state for letter in letters} == {LetterState.DONE}
    assert {letter.verb for letter in letters} == line.sender.target.verbs & {
        Verb.OPEN, Verb.UPDATE, Verb.ACKNOWLEDGE, Verb.RESOLVE
    }  # fmt: skip
    assert line.receiver.refusals == []
    assert incidents_at(line.receiver) in (1, 4, None)


def test_killed_between_sending_and_noting_nothing_is_lost_and_a_double_says_so(case: Case, line: Line) -> None:
    hall, fault = line.hall, a_fault()
    hall.judge(fault)
    line.use(DiesAfterSending(line.sender))
    with pytest.raises(Dies):
        hall.deliver()
    line.restart()
    line.hall.deliver()
    (letter,) = hall.history.letters(limit=99)
    assert letter.state is LetterState.DONE
    count = incidents_at(line.receiver)
    first, *again = case.heard(line.receiver)
    marks = ("[may be a repeat]", "【可能重复】")
    assert not any(mark in first for mark in marks)
    if count is not None:
        assert count == 1
        assert not any(mark in one for mark in marks for one in again)
    else:
        assert len(again) == 1
        assert any(mark in again[0] for mark in marks)
    hall.end(fault)
    hall.beat()
    assert {letter.state for letter in hall.history.letters(limit=99)} == {LetterState.DONE}
    assert line.receiver.refusals == []
