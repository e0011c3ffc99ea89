"""The outbox on both engines: order, leases, what is dropped, dead letters, what is handed on."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import CLUSTER
from tests.fakes.clock import START
from tests.store.letters import LEASE_SECONDS, a_message, an_incident, claim, done, follow, opening
from tests.store.values import MINUTE, Judged, a_finding

from trimtab.errors import StoreError
from trimtab.model.oncall import Thread, Verb
from trimtab.model.outbox import Letter, LetterState, Posting
from trimtab.store.database import Database
from trimtab.store.history import History


@pytest.fixture
def history(database: Database) -> History:
    return History(database, cluster=CLUSTER)


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
