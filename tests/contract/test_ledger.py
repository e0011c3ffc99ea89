"""What the issuer's memory promises; the same tests on the fake and on the real history, on both engines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.builders import CLUSTER
from tests.contract.rigs import a_command
from tests.fakes.clock import START
from tests.fakes.ledger import FakeLedger
from tests.issue.scenes import Scene, evacuation, room_making, to

from trimtab.errors import LedgerConflict
from trimtab.issue import decisions
from trimtab.issue.ledger import Ledger
from trimtab.model.command import AuditLine, CommandState, Outcome
from trimtab.model.standing import Answer, OwnerAnswer, Standing, StandingKind
from trimtab.store.database import open_database
from trimtab.store.history import History

LATER = START + timedelta(minutes=5)
ADVICE = a_command().recommendation


@pytest.fixture(params=["fake", "sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ledger]:
    if request.param == "fake":
        yield FakeLedger()
        return
    url = f"sqlite:///{tmp_path}/trimtab.db"
    if request.param == "postgresql":
        url = request.getfixturevalue("postgresql").new_database()
    database = open_database(url, state_directory=tmp_path)
    yield History(database, cluster=CLUSTER)
    database.close()


@pytest.fixture
def standing_fact() -> Standing:
    return Standing(
        kind=StandingKind.VETO,
        name="gpu-02",
        since=START,
        until=LATER,
        who="sofia",
        why="sofia uncordoned gpu-02.",
        command_id=1,
        causes=("device_fault",),
    )


def step(ledger, command, **changes):
    new = replace(command, **changes)
    ledger.record(new, was=command, who="mei", why="because", at=new.changed_at)
    return new


def test_what_was_added_is_there_whole_with_an_id_and_its_audit_line(ledger):
    first, second = ledger.add(ADVICE, START), ledger.add(ADVICE, LATER)
    assert (first.id, second.id) == (1, 2)
    assert (first.state, first.changed_at, first.recommendation) == (CommandState.PROPOSED, START, ADVICE)
    assert ledger.command(1) == first
    assert ledger.command(3) is None
    assert [(line.who, line.what) for line in ledger.audit_lines(LATER)] == [("trimtab", "R2 proposed")]


def test_live_are_those_not_over_and_those_that_somebody_wants_undone(ledger):
    added = [ledger.add(ADVICE, START) for _ in range(4)]
    step(ledger, added[1], state=CommandState.REJECTED, changed_at=LATER)
    settled = step(ledger, added[2], state=CommandState.SETTLED, changed_at=LATER)
    assert [one.id for one in ledger.commands(live_only=True)] == [1, 4]
    assert [one.id for one in ledger.commands(live_only=False)] == [1, 2, 3, 4]
    assert [one.id for one in ledger.commands(live_only=False, since=LATER)] == [1, 2, 3, 4]
    assert [one.id for one in ledger.commands(live_only=False, since=LATER + timedelta(seconds=1))] == [1, 4]
    step(ledger, settled, undo_requested_by="mei")
    assert [one.id for one in ledger.commands(live_only=True)] == [1, 3, 4]


def test_a_step_is_taken_from_what_was_read_or_not_at_all(ledger):
    read = ledger.add(ADVICE, START)
    held = step(ledger, read, state=CommandState.HELD, changed_at=LATER)
    lines = ledger.audit_lines(START)
    for stale in (
        read,
        replace(held, undo_requested_by="x"),
        replace(held, changed_at=START),
        replace(held, snoozed_until=START),
    ):
        with pytest.raises(LedgerConflict):
            ledger.record(replace(stale, state=CommandState.UNDONE), was=stale, who="mei", why="", at=LATER)
    assert ledger.command(1) == held
    assert ledger.audit_lines(START) == lines
    assert lines[-1] == AuditLine(at=LATER, who="mei", what="R1 proposed → held", why="because", command_id=1)


def test_pause_and_outcomes_are_kept(ledger):
    assert not ledger.is_paused()
    ledger.set_paused(is_paused=True, who="mei", why="maintenance", at=LATER)
    assert ledger.is_paused()
    ledger.set_paused(is_paused=False, who="mei", why="", at=LATER)
    assert not ledger.is_paused()
    ledger.add(ADVICE, START)
    good = Outcome(
        command_id=1,
        measured_at=LATER,
        is_good=True,
        sentence="settled",
        gpu_hours_lost=0.5,
        gpu_hours_saved=7.5,
        gpus_unlocked=8,
        seconds_to_settle=40.0,
    )
    ledger.record_outcome(good)
    ledger.record_outcome(replace(good, is_good=False))
    assert ledger.outcomes("evacuate") == (replace(good, is_good=False),)
    assert ledger.outcomes("consolidate") == ()


@pytest.mark.parametrize("make", [evacuation, room_making])
def test_the_issuer_lives_on_it_through_a_restart_at_each_beat(ledger, make):
    scene: Scene = make()
    scene.ledger = ledger
    scene.restart()
    scene.beat()
    scene.approve()
    for _ in range(6):
        scene.restart()
        scene.beat()
    settled = scene.command()
    assert settled.state is CommandState.SETTLED
    assert ledger.outcomes(settled.recommendation.rule)[0].is_good
    assert [line.what for line in ledger.audit_lines(START) if line.what.startswith("R1 ")][-4:] == [
        "R1 approved → held",
        "R1 held → confirmed",
        "R1 confirmed → submitted",
        "R1 submitted → settled",
    ]


def test_undo_goes_through_it(ledger):
    scene = evacuation()
    scene.ledger = ledger
    scene.restart()
    to(scene, CommandState.SETTLED)
    decisions.undo(ledger, 1, reason="repaired", who="mei", now=scene.clock.now())
    scene.beat()
    assert scene.command().state is CommandState.UNDONE
    assert scene.scheduler.held() == []


# --- whose ledger, who holds, what stands


def test_what_is_added_bears_the_ledgers_id(ledger):
    added = ledger.add(ADVICE, START)
    assert added.ledger == ledger.ledger
    assert added.mark == f"trimtab:{ledger.ledger}:R1"
    assert ledger.command(1).mark == added.mark


def test_a_ledgers_id_is_made_once_a_database_and_cluster(tmp_path):
    url = f"sqlite:///{tmp_path}/trimtab.db"
    ids = []
    for cluster in (CLUSTER, CLUSTER, "hall-b"):
        database = open_database(url, state_directory=tmp_path)
        ids.append(History(database, cluster=cluster).ledger)
        database.close()
    assert ids[0] == ids[1] != ids[2]
    assert all(re.fullmatch("[0-9a-f]{8}", one) for one in ids)


def test_who_holds_a_node_is_found_however_long_ago_it_settled(ledger):
    scene = evacuation()
    scene.ledger = ledger
    scene.restart()
    settled = to(scene, CommandState.SETTLED)
    assert [one.id for one in ledger.holding()] == [settled.id]
    step(ledger, settled, given_back_at=LATER)
    assert ledger.holding() == ()


def test_what_stands_is_kept_whole_replaced_by_name_and_lifted_once(ledger, standing_fact):
    newer = replace(standing_fact, why="again", until=None)
    ledger.stand(standing_fact, what="veto", at=START)
    ledger.stand(newer, what="veto", at=LATER)
    assert ledger.standing(StandingKind.VETO) == (newer,)
    assert ledger.standing(StandingKind.BREAKER) == ()
    lift = {"who": "mei", "what": "veto lifted", "why": "repaired", "at": LATER}
    assert ledger.lift(StandingKind.VETO, "gpu-02", **lift)
    assert not ledger.lift(StandingKind.VETO, "gpu-02", **lift)
    assert ledger.standing(StandingKind.VETO) == ()
    assert [(line.who, line.what, line.why) for line in ledger.audit_lines(START)] == [
        ("sofia", "veto", "sofia uncordoned gpu-02."),
        ("sofia", "veto", "again"),
        ("mei", "veto lifted", "repaired"),
    ]


def test_an_owners_answer_is_kept_with_its_command(ledger):
    asked = OwnerAnswer(asked_at=START, deadline=LATER, answer=Answer.NOT_BEFORE, not_before=LATER, said="at night")
    step(ledger, ledger.add(ADVICE, START), answers={"research/a": asked}, noticed_at=LATER)
    assert ledger.command(1).answers == {"research/a": asked}
    assert ledger.command(1).noticed_at == LATER
