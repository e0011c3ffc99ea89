"""Drills and the dead man's handle: labelled, whole, and gone without a trace; silent when something is not well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import sqlalchemy as sa
from tests.oncall.hall import CHAT, PAGER, Hall, Judged, a_fault, down
from tests.oncall.server import Receiver, Reply, Request, serving

from trimtab.errors import DecisionRefused
from trimtab.model.advice import Severity
from trimtab.model.oncall import Pager, Verb
from trimtab.settings.oncall import OnCallSettings
from trimtab.show import api_oncall
from trimtab.show.oncall.bell import DRILL_KEPT_SECONDS
from trimtab.show.oncall.heartbeat import Heartbeat, NoHeartbeat
from trimtab.store.tables_outbox import incidents, outbox


@pytest.fixture
def hall(tmp_path: Path) -> Iterator[Hall]:
    made = Hall(tmp_path, PAGER, CHAT)
    yield made
    made.stop()


def drilled(hall: Hall, *, seconds: float = 30.0):
    steps = ("Cordon gpu-00", "dry run: cordon gpu-00")
    return hall.bell.drill(a_fault().finding, dry_run=steps, who="ann", at=hall.clock.now(), seconds=seconds)


def rows(hall: Hall) -> int:
    with hall.database.read() as connection:
        counts = (sa.select(sa.func.count()).select_from(table) for table in (incidents, outbox))
        return sum(connection.execute(count).scalar_one() for count in counts)


def test_a_drill_is_labelled_ends_by_itself_and_leaves_nothing_but_its_audit_line(hall: Hall):
    drilled(hall)
    for _ in range(3):
        hall.beat()
    assert hall.pd.story() == ["open I1"]
    (page,) = hall.pd.taken
    assert page.is_drill
    assert page.lines[1:4] == (
        "This is a drill. Nothing is broken, nothing is taken out of service.",
        "Would be done: Cordon gpu-00",
        "Would be done: dry run: cordon gpu-00",
    )
    assert len(page.first_line) <= 110 - len("[may be a repeat]")
    hall.clock.advance(30)
    hall.beat()
    hall.deliver()
    assert hall.pd.story() == ["open I1", "resolve I1"]
    assert all(message.is_drill for message in hall.pd.taken)
    assert hall.bell.forget_drills(hall.clock.now()) == 0  # whoever asked may still look at it
    hall.clock.advance(DRILL_KEPT_SECONDS)
    assert hall.bell.forget_drills(hall.clock.now()) == 1
    assert rows(hall) == 0
    assert hall.history.findings() == ()
    assert [line.what for line in hall.history.audit_lines(hall.clock.now().replace(hour=0))] == ["drill I1"]


def test_a_drill_is_not_forgotten_while_its_end_is_on_the_way(hall: Hall):
    drilled(hall, seconds=5.0)
    hall.beat(seconds=10)
    hall.pd.down = down()
    hall.beat(seconds=DRILL_KEPT_SECONDS + 10)
    assert hall.bell.forget_drills(hall.clock.now()) == 0
    hall.pd.down = None
    hall.beat()
    assert hall.bell.forget_drills(hall.clock.now()) == 1
    assert hall.pd.story() == ["open I1", "resolve I1"]


def test_a_drill_goes_through_silences_and_budgets_and_counts_in_neither(tmp_path: Path):
    hall = Hall(tmp_path, PAGER, settings=OnCallSettings(budget_incidents_max=1))
    hall.quiet.why["*"] = "silenced"
    drilled(hall)
    hall.beat()
    assert hall.pd.story() == ["open I1"]
    hall.quiet.why.clear()
    hall.beat(a_fault(1))
    assert hall.pd.story() == ["open I1", "open I2"]
    hall.stop()


def test_a_drill_survives_a_restart_and_still_ends(hall: Hall):
    drilled(hall)
    hall.beat(seconds=40)
    hall.stop()
    hall.start()
    hall.beat()
    assert hall.pd.story() == ["open I1", "resolve I1"]


def test_a_drill_can_be_ended_before_its_time_and_nothing_else_can(hall: Hall):
    number = drilled(hall).number
    hall.beat()
    assert not hall.bell.end_drill(number, at=hall.clock.now()).is_open
    hall.deliver()
    assert hall.pd.story() == ["open I1", "resolve I1"]
    hall.beat(a_fault())
    with pytest.raises(DecisionRefused, match="There is no drill I2"):
        hall.bell.end_drill(2, at=hall.clock.now())


def test_who_asks_while_it_ends_sees_no_end_without_the_letters_that_tell_it(hall: Hall):
    """`trimtab drill` stops following at the first closed incident of which nothing is on its way."""
    number = drilled(hall).number
    hall.deliver()

    class EndsMeanwhile:
        """Between any two looks of one answer the drill ends."""

        def _ended(self, found):
            if hall.history.incident(number).is_open:
                hall.bell.end_drill(number, at=hall.clock.now())
            return found

        def incident(self, which: int):
            return self._ended(hall.history.incident(which))

        def letters(self, *, incident: int):
            return self._ended(hall.history.letters(incident=incident))

    people = SimpleNamespace(oncall=SimpleNamespace(memory=EndsMeanwhile()))
    story = api_oncall._story(people, hall.history.incident(number))
    verbs = {letter.verb for letter in story.letters}
    assert story.incident.is_open or Verb.RESOLVE in verbs


def test_where_alertmanager_pages_a_drill_goes_there(hall: Hall):
    hall.flip(Pager.ALERTMANAGER)
    drilled(hall)
    hall.beat()
    assert hall.pd.taken == []
    assert [(one.pager, one.is_drill) for one in hall.history.open_incidents()] == [(Pager.ALERTMANAGER, True)]


class Watchman(Receiver):
    """Answers signs of life, or as `first` says."""

    def judge(self, request: Request) -> Reply:
        assert request.method == "GET"
        return Reply(status=200, body=b"OK")


def test_the_handle_is_held_while_all_is_well_and_let_go_of_when_not():
    watchman, why = Watchman(), [""]
    with serving(watchman) as url:
        heartbeat = Heartbeat(lambda: f"{url}/secret-path", why_not_well=lambda: why[0])
        assert heartbeat.tick() == "127.0.0.1 has heard that all is well"
        why[0] = "judge"
        with pytest.raises(NoHeartbeat, match="No heartbeat is sent, so that somebody is paged: judge is not well"):
            heartbeat.tick()
        assert len(watchman.requests) == 1
        why[0] = ""
        watchman.first = [Reply(status=500), Reply(status=302, headers={"Location": "http://elsewhere/"})]
        for status in (500, 302):
            with pytest.raises(NoHeartbeat, match=f"did not take the heartbeat: it answered {status}") as said:
                heartbeat.tick()
            assert "secret-path" not in str(said.value)
    with pytest.raises(NoHeartbeat, match="did not take the heartbeat") as said:
        heartbeat.tick()
    assert "secret-path" not in str(said.value)
    with pytest.raises(NoHeartbeat, match="the address did not take the heartbeat"):
        Heartbeat(lambda: "http://[secret-path", why_not_well=str).tick()


def test_a_drill_that_takes_a_summarys_number_takes_none_of_its_members(tmp_path: Path):
    hall = Hall(tmp_path, settings=OnCallSettings(quiet_update_seconds=0.0, budget_incidents_max=1))
    faults = [a_fault(number, severity=Severity.WARNING) for number in (1, 2, 3)]
    judged = Judged(at=hall.clock.now(), after=faults, opened=faults)
    postings = hall.bell.hear(judged, None)
    numbers = {one.incident.number for one in postings if one.incident.rule == "summary"}
    while hall.history.next_incident_number() not in numbers:  # drills up to the summary's number, at this very moment
        drilled(hall)
    drill = drilled(hall)
    assert {drill.number} == numbers
    hall.history.record_findings(judged, postings)
    hall.beat(*faults)
    standing = {one.number: one for one in hall.history.open_incidents()}
    members = [one for one in standing.values() if one.summed_in is not None]
    assert members
    assert {standing[one.summed_in].rule for one in members} == {"summary"}
    assert [message.rule for message in hall.pd.pages if not message.is_drill].count("summary") == 1
    hall.stop()
