"""The outbox on both engines: order, leases, several workers at once, and workers that die."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from tests.builders import CLUSTER
from tests.fakes.clock import START
from tests.store.values import MINUTE, Judged, a_finding

from trimtab.errors import StoreError
from trimtab.model.advice import Severity, Subject
from trimtab.model.oncall import Incident, Message, Thread, Verb
from trimtab.model.outbox import Claimed, Letter, LetterState, Posting
from trimtab.store.database import Database
from trimtab.store.history import History

LEASE_SECONDS = 60.0


@pytest.fixture
def history(database: Database) -> History:
    return History(database, cluster=CLUSTER)


def an_incident(number: int = 1, **changes: object) -> Incident:
    return Incident(
        **{
            "id": f"abc-I{number}",
            "number": number,
            "incident": f"device/{number}",
            "cluster": CLUSTER,
            "rule": "device_fault",
            "severity": Severity.CRITICAL,
            "subject": Subject(cluster=CLUSTER, node="gpu-00"),
            "title": f"fault {number}",
            "first_line": f"fault {number}",
            "opened_at": START,
            "changed_at": START,
            "finding": number,
            **changes,
        }
    )


def a_message(incident: Incident, verb: Verb = Verb.OPEN, **changes: object) -> Message:
    return Message(
        **{
            "id": "",
            "key": incident.key,
            "verb": verb,
            "sequence": 0,
            "at": START,
            "opened_at": START,
            "cluster": CLUSTER,
            "rule": incident.rule,
            "severity": incident.severity,
            "subject": incident.subject,
            "first_line": incident.first_line,
            "title": incident.title,
            **changes,
        }
    )


def opening(number: int = 1, *, targets: Iterable[str] = ("pd",)) -> Posting:
    incident = an_incident(number, paged_at=START)
    letters = tuple(Letter(target=target, message=a_message(incident)) for target in targets)
    return Posting(incident=incident, was=None, letters=letters)


def follow(history: History, number: int, verb: Verb, *, targets: Iterable[str] = ("pd",), **changes: object) -> None:
    """One more letter about an incident, as the bell would post it."""
    was = history.incident(number)
    assert was is not None
    letters = tuple(
        Letter(target=target, message=a_message(was, verb), **changes)
        for target in targets  # type: ignore[arg-type]
    )
    assert history.post([Posting(incident=was, was=was, letters=letters)]) == 1


def claim(history: History, *, owner: str = "w1", at_seconds: float = 0.0, target: str = "pd") -> Claimed | None:
    return history.claim(target, owner=owner, at=START + timedelta(seconds=at_seconds), lease_seconds=LEASE_SECONDS)


def done(history: History, claimed: Claimed | None, **what: object) -> bool:
    assert claimed is not None
    return history.delivered(claimed, at=START, **what)  # type: ignore[arg-type]


def test_letters_are_written_with_the_findings_or_not_at_all(database: Database, history: History) -> None:
    finding = a_finding(1)
    history.record_findings(Judged(opened=(finding,)), [opening(1)])
    assert [letter.first_line for letter in history.letters()] == ["fault 1"]
    broken = Posting(
        incident=an_incident(2), was=None, letters=(Letter(target="x", message=a_message(an_incident(2))),)
    )
    object.__setattr__(broken.letters[0], "target", None)  # no target: the database refuses the row
    with pytest.raises(StoreError):
        history.record_findings(Judged(opened=(a_finding(2),)), [broken])
    assert history.finding(2) is None
    assert history.incident(2) is None


def test_of_one_incident_the_letters_go_in_order(history: History) -> None:
    history.post([opening(1), opening(2)])
    follow(history, 1, Verb.ACKNOWLEDGE)
    first = claim(history)
    second = claim(history)
    assert first is not None
    assert second is not None
    assert [first.message.facts, first.message.sequence] == [{}, 1]
    # The acknowledgement waits for its opening, whoever holds that.
    assert [(each.message.key, each.message.sequence) for each in (first, second)] == [
        (an_incident(1).key, 1),
        (an_incident(2).key, 1),
    ]
    assert claim(history) is None
    assert done(history, first, remote_id="r1", thread=Thread(root="t1"))
    third = claim(history)
    assert third is not None
    assert (third.message.verb, third.message.sequence, third.thread) == (
        Verb.ACKNOWLEDGE,
        2,
        Thread(root="t1"),
    )


def test_what_wakes_people_goes_first(history: History) -> None:
    history.post([opening(1), opening(2)])
    done(history, claim(history))
    done(history, claim(history))
    follow(history, 1, Verb.UPDATE)
    follow(history, 2, Verb.RESOLVE)
    history.post([opening(3)])
    taken = [claim(history) for _ in range(3)]
    assert [each.message.verb for each in taken if each is not None] == [Verb.OPEN, Verb.RESOLVE, Verb.UPDATE]


def test_one_that_its_target_refuses_again_and_again_does_not_keep_the_others_waiting(history: History) -> None:
    history.post([opening(1), opening(2), opening(3)])
    seen = []
    for minute in range(6):
        taken = claim(history, at_seconds=60.0 * minute)
        assert taken is not None
        seen.append(taken.message.first_line)
        if taken.message.first_line == "fault 1":
            history.put_off(taken, until=START + (minute + 1) * MINUTE, error="500", is_unsure=False)
        else:
            done(history, taken)
    assert seen == ["fault 1", "fault 2", "fault 3", "fault 1", "fault 1", "fault 1"]


def test_an_act_that_could_not_be_done_is_new_when_it_comes_again(history: History) -> None:
    assert history.is_act_new("pagerduty/1", at=START)
    assert not history.is_act_new("pagerduty/1", at=START)
    history.forget_act("pagerduty/1")
    assert history.is_act_new("pagerduty/1", at=START)


def test_a_lease_that_ran_out_is_taken_over_and_marked_as_a_repeat(history: History) -> None:
    history.post([opening(1)])
    held = claim(history, owner="w1")
    assert held is not None
    assert not held.message.is_repeat
    assert claim(history, owner="w2", at_seconds=LEASE_SECONDS - 1) is None
    taken = claim(history, owner="w2", at_seconds=LEASE_SECONDS + 1)
    assert taken is not None
    assert taken.message.is_repeat
    assert taken.message.id == held.message.id
    assert not done(history, held)
    assert done(history, taken)
    assert claim(history, at_seconds=1e6) is None


def test_what_a_dead_process_held_is_let_go_of_at_the_next_start_of_the_same_daemon(history: History) -> None:
    history.post([opening(1), opening(2)])
    mine, theirs = claim(history, owner="host-a:1/77"), claim(history, owner="host-b:1/9")
    assert mine is not None
    assert theirs is not None
    assert history.free_leases("host-a:1/") == 1
    again = claim(history, owner="host-a:1/78")
    assert again is not None
    assert (again.id, again.message.is_repeat) == (mine.id, True)
    assert claim(history) is None


def test_a_letter_that_was_put_off_waits_and_says_whether_it_may_have_arrived(history: History) -> None:
    history.post([opening(1)])
    first = claim(history)
    assert first is not None
    history.put_off(first, until=START + MINUTE, error="503", is_unsure=False)
    assert claim(history, at_seconds=59) is None
    second = claim(history, at_seconds=60)
    assert second is not None
    assert (second.attempts, second.message.is_repeat) == (2, False)
    history.put_off(second, until=START + MINUTE, error="time-out", is_unsure=True)
    third = claim(history, at_seconds=60)
    assert third is not None
    assert third.message.is_repeat
    (row,) = history.letters()
    assert (row.state, row.error, row.is_unsure) == (LetterState.LEASED, "time-out", True)


def test_a_dead_letter_is_seen_blocks_nothing_and_can_be_sent_again(history: History) -> None:
    history.post([opening(1)])
    first = claim(history)
    assert first is not None
    history.died(first, at=START, error="400 no such key")
    follow(history, 1, Verb.RESOLVE, may_drop=True)
    (dead,) = history.letters(states=[LetterState.DEAD])
    assert (dead.error, dead.incident) == ("400 no such key", 1)
    last = claim(history)
    assert last is not None
    assert last.message.verb is Verb.RESOLVE
    assert history.resend(dead.id, who="ann", at=START)
    assert not history.resend(dead.id, who="ann", at=START)
    assert [line.what for line in history.audit_lines(START)] == [f"letter {dead.id} sent again"]


def test_news_that_was_handed_on_is_also_closed_there(history: History) -> None:
    history.post([opening(1)])
    (late,) = history.undelivered_pages("pd", before=START + MINUTE)
    assert history.hand_on(late, "mail", at=START)
    assert not history.hand_on(late, "mail", at=START)
    assert history.undelivered_pages("pd", before=START + MINUTE) == ()
    assert history.told_targets([1]) == {1: frozenset({"pd", "mail"})}
    done(history, claim(history, target="mail"))
    was = history.incident(1)
    assert was is not None
    resolve = a_message(was, Verb.RESOLVE)
    history.post([Posting(incident=was, was=was, for_others=resolve, letters=(Letter(target="pd", message=resolve),))])
    told = claim(history, target="mail")
    assert told is not None
    assert told.message.verb is Verb.RESOLVE


def test_what_is_over_is_not_handed_on(history: History) -> None:
    history.post([opening(1)])
    (late,) = history.undelivered_pages("pd", before=START + MINUTE)
    was = history.incident(1)
    assert was is not None
    history.post([Posting(incident=replace(was, closed_at=START), was=was)])
    assert not history.hand_on(late, "mail", at=START)
    assert history.undelivered_pages("pd", before=START + MINUTE) == ()


def test_a_posting_about_an_incident_that_changed_meanwhile_is_left_out_whole(history: History) -> None:
    history.post([opening(1)])
    read = history.incident(1)
    assert read is not None
    follow(history, 1, Verb.UPDATE)
    late = Posting(incident=read, was=read, letters=(Letter(target="pd", message=a_message(read, Verb.RESOLVE)),))
    assert history.post([late]) == 0
    assert [letter.verb for letter in history.letters()] == [Verb.UPDATE, Verb.OPEN]


def test_a_drill_leaves_nothing_once_its_letters_are_over(database: Database, history: History) -> None:
    drill = replace(opening(5), incident=an_incident(5, is_drill=True))
    history.post([drill])
    assert not history.forget_drill(5)
    done(history, claim(history))
    was = history.incident(5)
    assert was is not None
    history.post([Posting(incident=replace(was, closed_at=START), was=was)])
    assert history.forget_drill(5)
    assert (history.incident(5), history.letters(), history.drills()) == (None, (), ())
    assert history.next_incident_number() == 6  # never used again, since a pager may remember it


class Crew:
    """Workers that share one outbox and die one time in twelve with a letter in their hand, sent or not."""

    def __init__(self, database: Database, letters: int) -> None:
        self.database = database
        self.left = letters
        self.received: dict[str, list[tuple[int, bool]]] = defaultdict(list)
        self.deaths = Counter[str]()
        self._lock = threading.Lock()
        self._seconds = 0.0

    def work(self, name: str, random: Random) -> None:
        own, idle = History(self.database, cluster=CLUSTER), 0
        while self.left > 0 and idle < 1000:
            claimed = own.claim("pd", owner=name, at=self._now(), lease_seconds=30.0)
            idle = idle + 1 if claimed is None else 0
            if claimed is not None:
                self._carry(own, claimed, random.random())

    def _now(self) -> datetime:
        """Time passes fast enough for leases of the dead to run out while others still work."""
        with self._lock:
            self._seconds += 0.5
            return START + timedelta(seconds=self._seconds)

    def _carry(self, own: History, claimed: Claimed, fate: float) -> None:
        if fate < 0.04:
            return
        with self._lock:
            self.received[claimed.message.key].append((claimed.message.sequence, claimed.message.is_repeat))
            self.deaths["after"] += fate > 0.96
        if fate <= 0.96 and own.delivered(claimed, at=START):
            with self._lock:
                self.left -= 1

    def doubled(self) -> int:
        """How often something arrived twice; asserts that each incident's story is whole, in order, and marked."""
        doubled = 0
        for story in self.received.values():
            sequences = [sequence for sequence, _ in story]
            assert sequences == sorted(sequences)
            assert set(sequences) == set(range(1, max(sequences) + 1))
            again = [is_repeat for number, (sequence, is_repeat) in enumerate(story) if sequence in sequences[:number]]
            assert all(again), "what arrives twice says so"
            doubled += len(again)
        return doubled


def test_many_workers_and_crashes_deliver_everything_in_order(database: Database, history: History) -> None:
    incidents, letters = 60, 5
    history.post([opening(number) for number in range(1, incidents + 1)])
    for _ in range(letters - 1):
        for number in range(1, incidents + 1):
            follow(history, number, Verb.ACKNOWLEDGE)  # these are not collapsed: each must arrive
    crew = Crew(database, incidents * letters)
    threads = [threading.Thread(target=crew.work, args=(f"w{number}", Random(number))) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert crew.left == 0
    assert len(crew.received) == incidents
    assert crew.deaths["after"] > 0
    assert crew.doubled() <= crew.deaths["after"]
    assert {letter.state for letter in history.letters()} == {LetterState.DONE}


def test_two_workers_never_hold_one_letter(database: Database, history: History) -> None:
    history.post([opening(number) for number in range(1, 41)])
    ready, taken, lock = threading.Barrier(4), Counter[int](), threading.Lock()

    def work(name: str) -> None:
        own = History(database, cluster=CLUSTER)
        ready.wait(10)
        while (claimed := claim(own, owner=name)) is not None:
            with lock:
                taken[claimed.id] += 1

    threads = [threading.Thread(target=work, args=(f"w{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert len(taken) == 40
    assert set(taken.values()) == {1}


def test_letters_for_a_target_that_is_gone_are_dead_where_people_see_them(history: History) -> None:
    history.post([opening(1, targets=("pd", "old"))])
    assert history.bury_unknown(["pd"], at=START) == 1
    (dead,) = history.letters(states=[LetterState.DEAD])
    assert (dead.target, dead.error) == ("old", "no such target in the settings")
    assert history.outbox_counts().letters == {("pd", LetterState.READY): 1, ("old", LetterState.DEAD): 1}


def test_old_letters_go_but_those_of_open_incidents_stay(history: History) -> None:
    history.post([opening(1), opening(2)])
    done(history, claim(history))
    done(history, claim(history))
    was = history.incident(2)
    assert was is not None
    history.post([Posting(incident=replace(was, closed_at=START), was=was)])
    assert history.prune_outbox(START + MINUTE) == 1
    assert [letter.incident for letter in history.letters()] == [1]
