"""How messages get there: an end that is down, that refuses, that asks to wait, and a store that is away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from tests.oncall.hall import CHAT, PAGER, Hall, a_fault, dead, down, lost_answer

from trimtab.errors import StoreError
from trimtab.model.advice import OpenFinding, Severity
from trimtab.model.oncall import Target, Verb
from trimtab.model.outbox import LetterState
from trimtab.settings.oncall import OnCallSettings, RouteSettings
from trimtab.show.oncall.delivery import Bucket, Deliverer, DeliveryCounts, real_seconds
from trimtab.show.oncall.sender import TryAgain

BACKUP = Target(name="backup", kind="email")


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path, PAGER)
    yield made
    made.stop()


def test_an_end_that_is_down_for_ten_minutes_loses_nothing_and_doubles_nothing(tmp_path: Path):
    """Faults come and go all the while; each incident that outlives the outage is told once, in order, and closed."""
    hall = Hall(tmp_path, PAGER, CHAT)
    hall.pd.down = hall.chat.down = down()
    random, standing, number = Random(3), list[OpenFinding](), 0
    for beat in range(240):
        if beat == 120:
            hall.pd.down = hall.chat.down = None
        if random.random() < 0.3:
            number += 1
            severity = Severity.CRITICAL if number % 3 else Severity.WARNING
            standing.append(a_fault(number, severity=severity))
        gone = [one for one in standing if random.random() < 0.02]
        standing = [one for one in standing if one not in gone]
        hall.end(*gone, standing=standing, seconds=5.0)
    hall.end(*standing)
    for _ in range(40):
        hall.beat(seconds=30)
    for sender in (hall.pd, hall.chat):
        assert set(Counter(message.id for message in sender.taken).values()) == {1}
        told = Counter((one.key, one.verb) for one in sender.taken if one.verb is not Verb.UPDATE)
        assert set(told.values()) == {1}
        assert not any(message.is_repeat for message in sender.taken)
        opened = {key for key, verb in told if verb is Verb.OPEN}
        assert opened == {key for key, verb in told if verb is Verb.RESOLVE}
    assert hall.history.open_incidents() == ()
    assert {letter.state for letter in hall.history.letters(limit=9999)} <= {LetterState.DONE, LetterState.DROPPED}
    # What opened and closed while nobody could be told is dropped at the pager, and kept for people who read later.
    critical = {one.key for one in hall.history.incidents() if one.severity is Severity.CRITICAL}
    assert critical <= {message.key for message in hall.chat.taken}
    assert len(hall.pd.pages) < len(hall.chat.pages) < number


def test_a_target_that_is_down_is_asked_ever_less_often_and_not_once_a_letter(hall: Hall):
    hall.pd.down = down()
    faults = [a_fault(number) for number in range(1, 51)]
    tries = []
    for _ in range(600):
        before = hall.counts.attempts_total["pd", "put_off"]
        hall.beat(*faults, seconds=1.0)
        tries.append(hall.counts.attempts_total["pd", "put_off"] - before)
    assert max(tries) == 1
    assert 10 <= sum(tries) <= 60
    hall.pd.down = None
    hall.clock.advance(120)
    for _ in range(3):
        hall.beat(*faults, seconds=1.0)
    assert len(hall.pd.pages) == 50


def test_who_asks_to_wait_is_left_alone_for_so_long(hall: Hall):
    hall.pd.first = [TryAgain("answered 429", after_seconds=45.0)]
    hall.beat(fault := a_fault(), seconds=44)
    hall.beat(fault, seconds=2)
    assert hall.pd.taken == []
    hall.beat(fault)
    assert hall.pd.story() == ["open I1"]
    assert [letter.attempts for letter in hall.history.letters()] == [2]


def test_an_answer_that_was_lost_makes_the_next_try_a_repeat_and_a_refusal_does_not(hall: Hall):
    hall.pd.first = [down(), lost_answer()]
    for _ in range(4):
        hall.beat(a_fault(), seconds=130)
    assert [(message.verb, message.is_repeat) for message in hall.pd.taken] == [(Verb.OPEN, False), (Verb.OPEN, True)]
    assert len({message.id for message in hall.pd.taken}) == 1


def test_what_is_refused_for_good_is_dead_seen_and_told_to_the_next(tmp_path: Path):
    hall = Hall(tmp_path, PAGER, BACKUP, settings=one_route())
    hall.nexts["pd"] = "backup"
    hall.deliverers = [hall.deliverer(sender) for sender in hall.senders.values()]
    hall.pd.first = [dead()]
    hall.beat(fault := a_fault())
    hall.beat(fault)
    (letter,) = hall.history.letters(states=[LetterState.DEAD])
    assert (letter.target, letter.error) == ("pd", "answered 400")
    assert hall.senders["backup"].story() == ["open I1"]
    assert hall.counts.trouble["pd"] == "answered 400"
    hall.end(fault)
    hall.beat()
    assert hall.senders["backup"].story() == ["open I1", "resolve I1"]
    assert hall.pd.story() == ["resolve I1"]  # a dead opening blocks no ending
    hall.stop()


def one_route(**changes: object) -> OnCallSettings:
    return OnCallSettings(routes=(RouteSettings(targets=("pd",)),), quiet_update_seconds=0.0, **changes)  # type: ignore[arg-type]


def test_a_page_that_does_not_arrive_in_time_goes_to_the_next_as_well_once(tmp_path: Path):
    hall = Hall(tmp_path, PAGER, BACKUP, settings=one_route(next_after_seconds=180.0))
    hall.nexts["pd"] = "backup"
    hall.deliverers = [hall.deliverer(sender) for sender in hall.senders.values()]
    hall.pd.down = down()
    fault = a_fault()
    for _ in range(17):
        hall.beat(fault, seconds=10)
    assert hall.senders["backup"].taken == []
    for _ in range(10):
        hall.beat(fault, seconds=10)
    assert hall.senders["backup"].story() == ["open I1"]
    hall.pd.down = None
    hall.beat(fault, seconds=130)
    hall.beat(fault)
    assert hall.pd.story() == ["open I1"]
    hall.end(fault)
    hall.beat()
    assert hall.senders["backup"].story() == ["open I1", "resolve I1"]
    hall.stop()


def test_a_critical_page_that_nobody_acknowledges_goes_to_the_next(tmp_path: Path):
    hall = Hall(tmp_path, PAGER, BACKUP, settings=one_route(escalate_after_seconds=300.0))
    hall.nexts["pd"] = "backup"
    hall.deliverers = [hall.deliverer(sender) for sender in hall.senders.values()]
    heard, unheard = a_fault(1), a_fault(2)
    mild = a_fault(3, severity=Severity.WARNING)
    hall.beat(heard, unheard, mild)
    hall.bell.acknowledge(1, who="ann", at=hall.clock.now())
    for _ in range(40):
        hall.beat(heard, unheard, mild, seconds=10)
    assert hall.senders["backup"].story() == ["open I2"]
    hall.stop()


def test_what_cannot_be_delivered_for_hours_is_dead_and_can_be_sent_again(tmp_path: Path):
    hall = Hall(tmp_path, PAGER, settings=OnCallSettings(give_up_seconds=3600.0))
    hall.pd.down = down()
    fault = a_fault()
    for _ in range(80):
        hall.beat(fault, seconds=60)
    (letter,) = hall.history.letters(states=[LetterState.DEAD])
    assert letter.error.startswith("given up after ")
    hall.pd.down = None
    assert hall.history.resend(letter.id, who="ann", at=hall.clock.now())
    hall.beat(fault)
    assert hall.pd.story() == ["open I1"]
    hall.stop()


def test_a_sender_that_fails_in_a_way_nobody_foresaw_costs_only_itself(tmp_path: Path):
    hall = Hall(tmp_path, PAGER, CHAT)
    hall.pd.first = [ValueError("odd answer")]
    hall.beat(fault := a_fault(), seconds=130)
    assert hall.chat.story() == ["open I1"]
    assert hall.counts.trouble["pd"] == "the sender failed: ValueError: odd answer"
    hall.beat(fault)
    assert [message.is_repeat for message in hall.pd.taken] == [True]
    hall.stop()


def test_a_store_that_is_away_when_the_end_is_noted_costs_no_second_message(hall: Hall):
    fault = a_fault()
    hall.judge(fault)
    real, broken = hall.history, Away(hall.history)
    deliverer = Deliverer(
        hall.pd, outbox=broken, settings=hall.settings, clock=hall.clock, owner="here/1", counts=DeliveryCounts()
    )
    broken.is_away = True
    with pytest.raises(StoreError):
        deliverer.tick()
    with pytest.raises(StoreError):
        deliverer.tick()
    broken.is_away = False
    hall.clock.advance(600)
    deliverer.tick()
    assert hall.pd.story() == ["open I1"]
    assert [letter.state for letter in real.letters()] == [LetterState.DONE]


class Away:
    """An outbox whose endings cannot be written for a while."""

    def __init__(self, real) -> None:
        self._real = real
        self.is_away = False

    def __getattr__(self, name: str):
        return getattr(self._real, name)

    def delivered(self, *args, **kwargs):
        if self.is_away:
            raise StoreError("database is away")
        return self._real.delivered(*args, **kwargs)


def test_a_restart_sends_again_what_was_in_hand_marked_and_nothing_else(hall: Hall):
    first, second = a_fault(1), a_fault(2)
    hall.judge(first, second)
    claimed = hall.history.claim("pd", owner="here/1", at=hall.clock.now(), lease_seconds=90.0)
    assert claimed is not None
    hall.pd.send(claimed.message, None)  # sent, and then the process dies
    hall.stop()
    hall.start()
    hall.history.free_leases("here/")
    hall.beat(first, second)
    assert Counter((message.facts["incident"], message.is_repeat) for message in hall.pd.taken) == {
        ("I1", False): 1,
        ("I1", True): 1,
        ("I2", False): 1,
    }


def test_a_bucket_lets_no_more_through_than_the_service_bears(hall: Hall):
    bucket, sent = Bucket(20, hall.clock), 0
    for _ in range(600):
        if bucket.has_room():
            bucket.take()
            sent += 1
        hall.clock.advance(0.5)
    assert 99 <= sent <= 106  # five minutes at 20 a minute, and a quarter of a minute at once


def test_targets_live_in_real_time_whatever_the_speed_of_the_daemons_clock():
    class Fast:
        def wall_seconds(self, seconds: float) -> float:
            return seconds / 60.0

    assert real_seconds(Fast(), 90.0) == 5400.0  # type: ignore[arg-type]


def test_a_worse_fault_is_told_after_its_opening_even_when_both_wait(hall: Hall):
    hall.pd.down = down()
    fault = a_fault(severity=Severity.WARNING)
    hall.beat(fault)
    worse = replace(fault, finding=replace(fault.finding, severity=Severity.CRITICAL))
    hall.beat(worse)
    hall.pd.down = None
    hall.clock.advance(130)
    hall.beat(worse)
    assert hall.pd.story() == ["open I1", "update I1 loud"]
