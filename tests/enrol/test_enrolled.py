"""The daemon's view in memory: no question to the database at a report, and what others change is known in time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

import pytest
from tests.enrol.desk import Office, a_key

from trimtab.errors import StoreError
from trimtab.model.enrolment import NodeCredential
from trimtab.ship.enrolled import NOTE_SECONDS, Enrolled
from trimtab.ship.tokens import new_token
from trimtab.store.enrolment import EnrolmentFacts


class Counted:
    """The real rows, and how often they were asked for; it can be away."""

    def __init__(self, facts: EnrolmentFacts) -> None:
        self.facts, self.asked, self.noted, self.is_away = facts, 0, 0, False

    def credentials_since(self, version: int) -> tuple[int, tuple[NodeCredential, ...]]:
        self.asked += 1
        if self.is_away:
            raise StoreError("it is away")
        return self.facts.credentials_since(version)

    def note_used(self, used: Mapping[int, datetime]) -> None:
        if self.is_away:
            raise StoreError("it is away")
        self.noted += len(used)
        self.facts.note_used(used)


@pytest.fixture
def rows(office: Office) -> Counted:
    return Counted(office.facts)


def a_daemon(office: Office, rows: Counted) -> Enrolled:
    return Enrolled(rows, clock=office.clock, first_used=office.registrar.first_used)


def test_a_report_asks_the_database_nothing(office: Office, rows: Counted) -> None:
    keys = [office.enrolled(f"gpu-{number:02}") for number in range(20)]
    daemon = a_daemon(office, rows)
    for _ in range(50):
        assert [daemon.node_of(key.token) for key in keys] == [f"gpu-{number:02}" for number in range(20)]
        assert daemon.node_of(new_token()) is None
        assert daemon.node_of("eyJhbGciOiJSUzI1NiJ9.a.b") is None
    assert rows.asked == 1


def test_a_change_elsewhere_acts_at_the_next_look_of_each_daemon(office: Office, rows: Counted) -> None:
    key = office.enrolled("gpu-07")
    here, there = a_daemon(office, rows), office.daemon()
    assert [one.node_of(key.token) for one in (here, there)] == ["gpu-07", "gpu-07"]
    for one in (here, there):
        one.sync()
    office.registrar.revoke("gpu-07", by="anna")
    for one in (here, there):
        one.sync()
    assert [one.node_of(key.token) for one in (here, there)] == [None, None]
    assert all("was revoked" in one.why_not(key.token) for one in (here, there))


def test_while_the_database_is_away_who_is_known_comes_in(office: Office, rows: Counted) -> None:
    known = office.enrolled("gpu-07")
    daemon = a_daemon(office, rows)
    rows.is_away = True
    with pytest.raises(StoreError):
        daemon.refresh()
    assert daemon.node_of(known.token) == "gpu-07"
    office.clock.advance(1.0)
    assert daemon.can_ask(new_token())
    assert daemon.ask(new_token()) is None
    rows.is_away = False
    daemon.sync()
    assert office.facts.credentials()[0].first_used_at is not None  # written down once it can be


def test_tokens_that_nobody_knows_do_not_ask_the_database_each(office: Office, rows: Counted) -> None:
    daemon = a_daemon(office, rows)
    office.clock.advance(1.0)
    before = rows.asked
    asked = [daemon.can_ask(token) and daemon.ask(token) for token in (new_token() for _ in range(100))]
    assert not any(asked)
    assert rows.asked == before + 1
    assert not daemon.can_ask("eyJhbGciOiJSUzI1NiJ9.a.b")


def test_when_a_credential_was_last_used_is_written_every_few_minutes(office: Office, rows: Counted) -> None:
    keys = [office.enrolled(f"gpu-{number:02}") for number in range(3)]
    daemon = a_daemon(office, rows)
    for _ in range(int(NOTE_SECONDS)):
        office.clock.advance(1.0)
        for key in keys[:2]:
            daemon.node_of(key.token)
        daemon.sync()
    assert rows.noted == 2
    used = {one.node: one.last_used_at for one in office.facts.credentials()}
    assert (used["gpu-00"], used["gpu-02"]) == (office.clock.now(), None)


def test_a_credential_ends_by_itself(office: Office, rows: Counted) -> None:
    key = office.enrolled("gpu-07")
    daemon = a_daemon(office, rows)
    office.clock.advance(90 * 86400.0 - 1.0)
    assert daemon.node_of(key.token) == "gpu-07"
    office.clock.advance(1.0)
    assert daemon.node_of(key.token) is None
    assert "ran out at" in daemon.why_not(key.token)


def test_a_database_of_yesterday_is_read_anew(office: Office, rows: Counted) -> None:
    old, new = office.enrolled("gpu-07"), office.enrolled("gpu-08")
    daemon = a_daemon(office, rows)
    with office.database.write() as connection:
        cluster = office.facts.cluster
        connection.exec_driver_sql(f"DELETE FROM node_credentials WHERE cluster = '{cluster}' AND node = 'gpu-08'")
        connection.exec_driver_sql(f"UPDATE enrolment_versions SET version = 2 WHERE cluster = '{cluster}'")
    daemon.sync()
    assert [daemon.node_of(key.token) for key in (old, new)] == ["gpu-07", None]


def test_a_key_of_a_neighbour_on_the_shelf_opens_nothing(office: Office, rows: Counted) -> None:
    key = a_key()
    office.join(office.invite("gpu-07")[0].token, "gpu-07", key)
    daemon = a_daemon(office, rows)
    assert daemon.node_of(key.token[:-1] + ("A" if key.token[-1] != "A" else "B")) is None
    assert daemon.node_of(key.token + " ") is None
