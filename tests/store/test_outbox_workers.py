"""The outbox under several workers at once, on both engines, and under workers that die."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import replace
from datetime import datetime, timedelta
from random import Random

import pytest
from tests.builders import CLUSTER
from tests.fakes.clock import START
from tests.store.letters import a_message, claim, follow, opening

from trimtab.model.oncall import Verb
from trimtab.model.outbox import Claimed, Letter, LetterState, Posting
from trimtab.store.database import Database
from trimtab.store.history import History


@pytest.fixture
def history(database: Database) -> History:
    return History(database, cluster=CLUSTER)


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


def test_what_a_worker_has_just_taken_is_not_dropped_by_an_ending(database: Database, history: History) -> None:
    """Openings are claimed while their endings are written: whoever was told of one is told of the other."""
    count = 60
    history.post([opening(number) for number in range(1, count + 1)])
    sent: list[tuple[int, str]] = []
    ready = threading.Barrier(3)

    def deliver(name: str) -> None:
        own = History(database, cluster=CLUSTER)
        ready.wait(10)
        for _ in range(4 * count):
            claimed = claim(own, owner=name, at_seconds=1.0)
            if claimed is not None:
                sent.append((int(claimed.message.key.rpartition("-I")[2]), claimed.message.verb.value))
                assert own.delivered(claimed, at=START)

    workers = [threading.Thread(target=deliver, args=(name,)) for name in ("w1", "w2")]
    for worker in workers:
        worker.start()
    ready.wait(10)
    for number in range(1, count + 1):
        was = history.incident(number)
        assert was is not None
        letter = Letter(target="pd", message=a_message(was, Verb.RESOLVE), may_drop=True)
        assert history.post([Posting(incident=replace(was, closed_at=START), was=was, letters=(letter,))]) == 1
    for worker in workers:
        worker.join(120)
    deliver_rest = iter(lambda: claim(history, at_seconds=2.0), None)
    sent += [
        (int(each.message.key.rpartition("-I")[2]), each.message.verb.value)
        for each in deliver_rest
        if history.delivered(each, at=START)
    ]
    opened = {number for number, verb in sent if verb == "open"}
    assert opened == {number for number, verb in sent if verb == "resolve"}
    assert len(sent) == 2 * len(opened)
    states = {letter.state for letter in history.letters()}
    assert states <= {LetterState.DONE, LetterState.DROPPED}
