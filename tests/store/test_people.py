"""Tokens and sessions as they are kept: the fake that the door is tested with keeps the same promises."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa
from tests.builders import CLUSTER
from tests.fakes.clock import START
from tests.fakes.register import FakeRegister

from trimtab.model.command import AuditLine
from trimtab.model.people import PersonSession, PersonToken, Role, SignedInBy
from trimtab.show.passes import Register
from trimtab.store.database import Database, open_database
from trimtab.store.history import History
from trimtab.store.tables import audit
from trimtab.store.tables_people import people_sessions, people_tokens

LINE = AuditLine(at=START, who="operator", what="did something", why="T1")
DAY = timedelta(days=1)


def a_token(**changes: object) -> PersonToken:
    token = PersonToken(id=0, name="anna", role=Role.OPERATOR, sha256="a" * 64, created_at=START, created_by="operator")
    return replace(token, **changes)  # type: ignore[arg-type]


def a_session(**changes: object) -> PersonSession:
    session = PersonSession(
        id=0,
        who="anna",
        role=Role.OPERATOR,
        sha256="5" * 64,
        by=SignedInBy.TOKEN,
        created_at=START,
        expires_at=START + DAY,
        last_used_at=START,
        peer="10.0.0.7",
    )
    return replace(session, **changes)  # type: ignore[arg-type]


@pytest.fixture(params=["fake", "sqlite", "postgresql"])
def register(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Register]:
    if request.param == "fake":
        yield FakeRegister()
        return
    url = "sqlite:///trimtab.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql").new_database()
    opened = open_database(url, state_directory=tmp_path)
    yield History(opened, cluster=CLUSTER)
    opened.close()


def lines_of(register: Register) -> list[str]:
    if isinstance(register, FakeRegister):
        return [line.what for line in register.lines]
    assert isinstance(register, History)
    return [line.what for line in register.audit_lines(START)]


def test_a_token_is_found_by_its_hash_alone(register: Register) -> None:
    kept = register.add_person_token(a_token(expires_at=START + DAY), LINE)
    assert kept.id > 0
    assert register.person_token("a" * 64) == kept
    assert register.person_token("b" * 64) is None
    assert register.person_tokens() == (kept,)
    assert lines_of(register) == ["did something"]


def test_a_revoked_token_stays_on_the_list_and_takes_its_sessions_with_it(register: Register) -> None:
    anna = register.add_person_token(a_token(), LINE)
    ben = register.add_person_token(a_token(name="ben", sha256="b" * 64), LINE)
    register.add_person_session(a_session(token_id=anna.id), LINE, most=9)
    bens = register.add_person_session(a_session(token_id=ben.id, sha256="6" * 64, who="ben"), LINE, most=9)
    revoked = register.revoke_person_token(anna.id, START + DAY, replace(LINE, what="revoked"))
    assert revoked == replace(anna, revoked_at=START + DAY)
    assert register.person_tokens() == (revoked, ben)
    assert register.person_session("5" * 64) is None
    assert register.person_session("6" * 64) == (bens, ben)
    register.revoke_person_token(anna.id, START + 2 * DAY, replace(LINE, what="revoked again"))
    assert register.person_tokens()[0].revoked_at == START + DAY
    assert register.revoke_person_token(99, START, replace(LINE, what="nobody")) is None
    assert lines_of(register).count("revoked") == 1
    assert {"revoked again", "nobody"}.isdisjoint(lines_of(register))


def test_when_it_was_last_used_is_kept(register: Register) -> None:
    token = register.add_person_token(a_token(), LINE)
    session = register.add_person_session(a_session(token_id=token.id), LINE, most=9)
    register.person_token_used(token.id, START + DAY / 2)
    register.person_session_used(session.id, START + DAY / 3)
    found = register.person_session("5" * 64)
    assert found is not None
    assert found[0].last_used_at == START + DAY / 3
    assert found[1] is not None
    assert found[1].last_used_at == START + DAY / 2


def test_sessions_that_are_over_are_forgotten_and_of_too_many_the_oldest(register: Register) -> None:
    register.add_person_session(a_session(sha256="0" * 64, expires_at=START + DAY / 4), LINE, most=2)
    for number in "123":
        register.add_person_session(
            a_session(sha256=number * 64, created_at=START + DAY / 2, expires_at=START + DAY), LINE, most=2
        )
    assert [one.sha256[0] for one in register.person_sessions(START + DAY / 2)] == ["2", "3"]
    assert register.person_sessions(START + DAY) == ()
    assert register.person_session("0" * 64) is None


def test_a_session_ends_once(register: Register) -> None:
    session = register.add_person_session(a_session(), LINE, most=9)
    assert register.end_person_session(session.id, replace(LINE, what="signed out"))
    assert not register.end_person_session(session.id, replace(LINE, what="signed out"))
    assert register.person_session("5" * 64) is None
    assert lines_of(register).count("signed out") == 1


def test_another_clusters_people_are_strangers(database: Database) -> None:
    here, there = History(database, cluster=CLUSTER), History(database, cluster="hall-b")
    token = here.add_person_token(a_token(), LINE)
    session = here.add_person_session(a_session(token_id=token.id), LINE, most=9)
    assert there.person_token("a" * 64) is None
    assert there.person_session("5" * 64) is None
    assert (there.person_tokens(), there.person_sessions(START)) == ((), ())
    assert there.revoke_person_token(token.id, START, LINE) is None
    assert not there.end_person_session(session.id, LINE)
    there.person_token_used(token.id, START)
    assert here.person_tokens() == (token,)


def test_a_change_and_its_audit_line_are_one(database: Database) -> None:
    history = History(database, cluster=CLUSTER)
    without_audit: list[Callable[[], object]] = [
        lambda: history.add_person_token(a_token(), LINE),
        lambda: history.add_person_session(a_session(), LINE, most=9),
    ]
    with database.write() as connection:
        connection.execute(sa.text("ALTER TABLE audit RENAME COLUMN why TO because"))
    for change in without_audit:
        with pytest.raises(Exception, match="why"):
            change()
    with database.read() as connection:
        assert connection.execute(sa.select(people_tokens.c.id)).all() == []
        assert connection.execute(sa.select(people_sessions.c.id)).all() == []
        assert connection.execute(sa.select(audit.c.id)).all() == []
