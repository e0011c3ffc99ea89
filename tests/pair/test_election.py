"""The election itself on a real PostgreSQL: who has the lock, whose writes are taken, and what a silence comes to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.fakes.clock import FakeClock
from tests.postgres import PostgresServer

from trimtab.clock import SystemClock
from trimtab.errors import StoreError, Superseded
from trimtab.model.command import AuditLine
from trimtab.store.database import Database, open_database
from trimtab.store.election import Election, Me, Phase
from trimtab.store.election_session import session_name, vacant
from trimtab.store.history import History
from trimtab.store.tables import VERSION_TABLE, audit

CLUSTER = "hall-a"
TRUST_SECONDS, SILENT_SECONDS = 3.0, 8.0


@dataclass
class Candidate:
    """One daemon, as far as the election goes."""

    election: Election
    clock: FakeClock
    url: str
    directory: Path
    stack: ExitStack

    def take_office(self) -> Database:
        """What `pair.py` does with a lock that is ours."""
        name = session_name(self.election.me.instance)
        database = open_database(self.url, state_directory=self.directory, session=name)
        self.stack.callback(database.close)
        term = self.election.enter(database, at=SystemClock().now())
        holder = self.election.sight.holder
        assert holder is not None
        assert (holder.term, holder.instance) == (term, self.election.me.instance)
        self.election.tick()
        return database


Make = Callable[..., Candidate]


@pytest.fixture
def candidate(postgresql: PostgresServer, tmp_path: Path) -> Iterator[Make]:
    url = postgresql.new_database()
    with ExitStack() as stack:

        def make(name: str, *, cluster: str = CLUSTER) -> Candidate:
            clock = FakeClock()
            me = Me(cluster=cluster, name=name, url=f"https://{name}:9740", version="1")
            election = Election(url, me, clock=clock, trust_seconds=TRUST_SECONDS, silent_seconds=SILENT_SECONDS)
            stack.callback(election.close)
            return Candidate(election, clock, url, tmp_path, stack)

        yield make


def lines(database: Database) -> list[tuple[str, int | None]]:
    with database.read() as connection:
        return [(row.what, row.term) for row in connection.execute(sa.select(audit).order_by(audit.c.id))]


def note(database: Database, what: str) -> None:
    line = AuditLine(at=SystemClock().now(), who="anna", what=what, why="")
    History(database, cluster=CLUSTER).audit([line])


def test_the_first_is_active_at_once_and_the_second_stands_by_and_says_who(candidate: Make) -> None:
    anna, berta = candidate("anna"), candidate("berta")
    assert anna.election.tick() == "takes over"
    database = anna.take_office()
    assert anna.election.tick() == "active in term 1"
    assert anna.election.why_not_act() is None, "nobody was active before: no need to wait"
    assert berta.election.tick() == "stands by; anna is active"
    assert (berta.election.phase, berta.election.is_elected()) == (Phase.STANDS_BY, False)
    anna.election.tick()
    assert (anna.election.sight.standbys, berta.election.sight.holder.url) == (1, "https://anna:9740")
    note(database, "pause")
    assert lines(database) == [("active daemon, term 1", 1), ("pause", 1)]


def test_clusters_that_share_a_database_elect_each_their_own(candidate: Make) -> None:
    here, there = candidate("anna"), candidate("berta", cluster="hall-b")
    assert here.election.tick() == "takes over"
    here.take_office()
    assert there.election.tick() == "takes over"
    there.take_office()
    assert (here.election.tick(), there.election.tick()) == ("active in term 1", "active in term 1")


def test_after_a_death_the_other_takes_over_and_begins_nothing_until_the_dead_one_could_not(candidate: Make) -> None:
    anna, berta = candidate("anna"), candidate("berta")
    anna.election.tick()
    anna.take_office()
    berta.election.tick()
    anna.election.close()  # as the kernel does for a process that was killed
    said = ""
    for _ in range(50):
        said = berta.election.tick()
        if said == "takes over":
            break
        threading.Event().wait(0.05)
    assert said == "takes over"
    berta.take_office()
    assert berta.election.tick() == "active in term 2"
    assert "may still act for another 3.0 s" in berta.election.why_not_act()
    assert berta.election.is_elected(), "the Lease is its to take, and has a wait of its own"
    berta.clock.advance(TRUST_SECONDS)
    berta.election.tick()
    assert berta.election.why_not_act() is None
    assert berta.election.sight.holder.takeovers == 1


@pytest.mark.parametrize("is_in_order", [True, False])
def test_after_a_clean_end_and_no_other_the_next_acts_at_once(candidate: Make, *, is_in_order: bool) -> None:
    anna, berta = candidate("anna"), candidate("berta")
    anna.election.tick()
    anna.take_office()
    berta.election.tick()
    anna.election.leave(is_in_order=is_in_order)
    for _ in range(50):
        if berta.election.tick() == "takes over":
            break
        threading.Event().wait(0.05)
    berta.take_office()
    assert (berta.election.why_not_act() is None) == is_in_order


def test_a_daemon_that_was_put_out_writes_nothing_more_not_even_what_it_had_begun(candidate: Make) -> None:
    anna, berta = candidate("anna"), candidate("berta")
    anna.election.tick()
    database = anna.take_office()
    note(database, "before")
    with pytest.raises(StoreError), database.write() as frozen_in_the_middle:
        frozen_in_the_middle.execute(sa.insert(audit), [_row("begun in term 1")])
        _silence(anna, berta)
        after = berta.take_office()
        frozen_in_the_middle.execute(sa.insert(audit), [_row("begun in term 1")])
    with pytest.raises(Superseded, match="berta is the active daemon in term 2; this daemon's was 1"):
        note(database, "too late")
    assert anna.election.phase is Phase.LOST
    assert anna.election.why_not_act() == "another daemon is the active one"
    assert "berta" in anna.election.tick()
    assert lines(after) == [("active daemon, term 1", 1), ("before", 1), ("active daemon, term 2", 2)]


def _row(what: str) -> dict[str, object]:
    return {"cluster": CLUSTER, "at_ms": 1, "who": "anna", "what": what, "why": ""}


def _silence(active: Candidate, other: Candidate) -> None:
    """The active one says nothing while the other looks; its connections live, as a stopped process's do."""
    other.election.tick()
    other.clock.advance(SILENT_SECONDS - 1)
    assert other.election.tick().startswith("stands by"), "it is not silent for long enough"
    other.clock.advance(2)
    other.election.tick()
    for _ in range(100):
        if other.election.tick() == "takes over":
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"{active.election.me.name} was not put out")


def test_one_that_was_itself_frozen_looks_once_more_before_it_calls_another_silent(candidate: Make) -> None:
    anna, berta = candidate("anna"), candidate("berta")
    anna.election.tick()
    anna.take_office()
    berta.election.tick()
    for _ in range(3):
        berta.clock.advance(SILENT_SECONDS * 10)
        anna.election.tick()
        assert berta.election.tick() == "stands by; anna is active"
    assert anna.election.tick() == "active in term 1"


def test_without_the_databases_word_the_active_one_begins_nothing(candidate: Make) -> None:
    anna = candidate("anna")
    anna.election.tick()
    anna.take_office()
    anna.clock.advance(TRUST_SECONDS + 0.5)
    assert "not confirmed for 3.5 s" in anna.election.why_not_act()
    assert not anna.election.is_elected()
    anna.election.tick()
    assert anna.election.why_not_act() is None


def test_after_a_restart_of_postgresql_the_same_daemon_goes_on_in_the_same_term(
    candidate: Make, postgresql: PostgresServer
) -> None:
    anna = candidate("anna")
    anna.election.tick()
    database = anna.take_office()
    postgresql.cut_connections(anna.url)
    with pytest.raises(StoreError):
        anna.election.tick()
    assert anna.election.phase is Phase.ACTIVE
    assert anna.election.tick() == "active in term 1"
    database.close()
    note(database, "goes on")
    assert lines(database)[-1] == ("goes on", 1)


def test_an_earlier_connection_of_its_own_that_the_server_still_has_is_ended(candidate: Make) -> None:
    anna = candidate("anna")
    anna.election.tick()
    anna.take_office()
    left = anna.election._session
    held_by_the_server, left._connection, left.has_lock = left._connection, None, False
    with pytest.raises(StoreError, match="still held the lock; it is ended"):
        anna.election.tick()
    for _ in range(50):
        try:
            if anna.election.tick() == "active in term 1":
                break
        except StoreError:
            threading.Event().wait(0.05)
    assert anna.election.tick() == "active in term 1"
    held_by_the_server.invalidate()
    held_by_the_server.close()


def test_whoever_is_older_than_the_database_stands_by_no_longer(candidate: Make) -> None:
    anna, berta = candidate("anna"), candidate("berta")
    anna.election.tick()
    database = anna.take_office()
    berta.election.tick()
    with database.write() as connection:
        connection.execute(sa.text(f"UPDATE {VERSION_TABLE} SET version_num = '9999'"))
    with pytest.raises(StoreError, match="written by a newer trimtab"):
        berta.election.tick()


def test_no_daemon_may_be_active_while_somebody_holds_its_office_by_hand(candidate: Make) -> None:
    anna, there = candidate("anna"), candidate("berta", cluster="hall-b")
    there.election.tick()
    there.take_office()
    with pytest.raises(StoreError, match="a daemon of cluster hall-b is active"), vacant(anna.url, cluster=CLUSTER):
        raise AssertionError("hall-b's rows would be moved under its feet")
    there.election.leave()
    with vacant(anna.url, cluster=CLUSTER):
        assert anna.election.tick().startswith("stands by")
    assert anna.election.tick() == "takes over"
