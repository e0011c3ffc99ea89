from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest
import sqlalchemy as sa
from tests.builders import CLUSTER
from tests.fakes.clock import START
from tests.store.values import MINUTE, Judged, a_finding, a_recommendation, closed

from trimtab.errors import LedgerConflict, StoreError
from trimtab.issue.ledger import Ledger
from trimtab.model.advice import Action, FindingState
from trimtab.model.command import (
    AuditLine,
    CommandState,
    Outcome,
)
from trimtab.store.database import Database
from trimtab.store.history import History
from trimtab.store.tables import audit, finding_changes


@pytest.fixture
def history(database: Database) -> History:
    return History(database, cluster=CLUSTER)


def test_history_is_the_ledger_that_issue_asks_for(history: History) -> None:
    ledger: Ledger = history  # mypy checks the signatures, this the names
    names = [name for name in vars(Ledger) if not name.startswith("_")]
    assert names
    assert all(callable(getattr(ledger, name)) for name in names if name != "ledger")
    assert len(ledger.ledger) == 8


def test_a_finding_outlives_a_restart(database: Database) -> None:
    finding = a_finding(7)
    History(database, cluster=CLUSTER).record_findings(Judged(opened=(finding,)))
    again = History(database, cluster=CLUSTER)
    assert again.open_findings() == (finding,)
    assert again.finding(7) == finding
    assert again.finding(8) is None
    assert again.next_finding_id() == 8


def test_an_empty_history_begins_with_finding_1(history: History) -> None:
    assert history.next_finding_id() == 1
    assert history.open_findings() == ()


def test_an_id_is_not_used_again_after_its_finding_closed(history: History) -> None:
    finding = a_finding(1)
    history.record_findings(Judged(opened=(finding,)))
    history.record_findings(Judged(at=START + MINUTE, closed=(closed(finding, START + MINUTE),)))
    assert history.open_findings() == ()
    assert history.next_finding_id() == 2


def test_every_change_of_a_finding_is_kept_once(database: Database, history: History) -> None:
    finding = a_finding()
    changed = replace(finding, finding=replace(finding.finding, action=Action.HARDWARE_RMA), changed_at=START + MINUTE)
    steps = (
        Judged(opened=(finding,)),
        Judged(at=START + MINUTE, changed=(changed,)),
        Judged(at=START + 2 * MINUTE, closed=(closed(changed, START + 2 * MINUTE),)),
    )
    for step in (*steps, steps[-1]):  # the last beat is repeated after a crash
        history.record_findings(step)
    with database.read() as connection:
        columns = (finding_changes.c.change, finding_changes.c.action, finding_changes.c.sentence)
        rows = connection.execute(sa.select(*columns).order_by(finding_changes.c.at_ms)).all()
    assert rows == [
        ("opened", "cordon_reboot", "gpu-00: GPU 3 fell off the bus"),
        ("changed", "hardware_rma", "gpu-00: GPU 3 fell off the bus"),
        ("closed", "hardware_rma", "well for 10 min"),
    ]


def test_a_touched_finding_is_kept_without_a_line(database: Database, history: History) -> None:
    finding = a_finding()
    snoozed = replace(finding, snoozed_until=START + MINUTE)
    history.record_findings(Judged(opened=(finding,)))
    history.record_findings(Judged(at=START + MINUTE, touched=(snoozed,)))
    assert history.open_findings() == (snoozed,)
    with database.read() as connection:
        assert connection.execute(sa.select(finding_changes.c.change)).scalars().all() == ["opened"]


def test_findings_are_listed_by_state_and_time(history: History) -> None:
    old, standing, new = a_finding(1), a_finding(2), a_finding(3, at=START + 9 * MINUTE)
    gone = closed(old, START + MINUTE)
    history.record_findings(Judged(opened=(old, standing, new)))
    history.record_findings(Judged(closed=(gone,)))
    assert history.findings() == (new, standing, gone)
    assert history.findings(FindingState.OPEN) == (new, standing)
    assert history.findings(FindingState.CLOSED) == (gone,)
    assert history.findings(since=START + 2 * MINUTE) == (new, standing)
    assert history.findings(limit=1) == (new,)


def test_clusters_count_their_findings_and_commands_apart(database: Database, history: History) -> None:
    other = History(database, cluster="hall-b")
    for one in (history, other):
        one.record_findings(Judged(opened=(a_finding(1),)))
        assert one.add(a_recommendation(), START).id == 1
    other.record_findings(Judged(opened=(a_finding(2),)))
    other.set_paused(is_paused=True, who="ann", why="trip", at=START)
    assert (history.next_finding_id(), other.next_finding_id()) == (2, 3)
    assert (history.is_paused(), other.is_paused()) == (False, True)
    assert len(history.audit_lines(START)) == 1


def test_a_command_lives_and_each_step_is_audited(history: History) -> None:
    proposed = history.add(a_recommendation(), START)
    assert (proposed.name, proposed.state) == ("R1", CommandState.PROPOSED)
    approved = replace(proposed, state=CommandState.APPROVED, approved_by="ann", changed_at=START + MINUTE)
    history.record(approved, was=proposed, who="ann", why="looks right", at=START + MINUTE)
    snoozed = replace(approved, snoozed_until=START + 9 * MINUTE)
    history.record(snoozed, was=approved, who="bob", why="after lunch", at=START + 2 * MINUTE)
    assert history.command(1) == snoozed
    assert history.command(2) is None
    assert history.audit_lines(START) == (
        AuditLine(
            at=START, who="trimtab", what="R1 proposed", why="Move llama-70b off gpu-00", command_id=1, finding_id=31
        ),
        AuditLine(
            at=START + MINUTE, who="ann", what="R1 proposed → approved", why="looks right", command_id=1, finding_id=31
        ),
        AuditLine(at=START + 2 * MINUTE, who="bob", what="R1 approved", why="after lunch", command_id=1, finding_id=31),
    )
    assert len(history.audit_lines(START + 2 * MINUTE)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"state": CommandState.APPROVED},
        {"changed_at": START + timedelta(milliseconds=1)},
        {"undo_requested_by": "ann"},
        {"snoozed_until": START + MINUTE},
    ],
    ids=["state", "changed_at", "undo", "snooze"],
)
def test_a_command_that_changed_meanwhile_is_not_overwritten(history: History, change: dict[str, object]) -> None:
    read = history.add(a_recommendation(), START)
    meanwhile = replace(read, **change)
    history.record(meanwhile, was=read, who="ann", why="first", at=START)
    late = replace(read, state=CommandState.REJECTED, changed_at=START + MINUTE)
    with pytest.raises(LedgerConflict, match=r"R1 changed meanwhile: it is .* and was read as proposed"):
        history.record(late, was=read, who="bob", why="second", at=START)
    assert history.command(1) == meanwhile
    assert len(history.audit_lines(START)) == 2


def test_of_two_people_who_decide_at_once_one_wins(history: History) -> None:
    read = history.add(a_recommendation(), START)
    ready, conflicts = threading.Barrier(4), []

    def decide(who: str) -> None:
        approved = replace(read, state=CommandState.APPROVED, approved_by=who, changed_at=START + MINUTE)
        ready.wait(10)
        try:
            history.record(approved, was=read, who=who, why="", at=START)
        except LedgerConflict:
            conflicts.append(who)

    threads = [threading.Thread(target=decide, args=(f"p{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    stored = history.command(1)
    assert stored is not None
    assert {stored.approved_by, *conflicts} == {"p0", "p1", "p2", "p3"}
    assert len(history.audit_lines(START)) == 2


def test_a_command_that_is_not_there_cannot_be_recorded(history: History) -> None:
    command = replace(history.add(a_recommendation(), START), id=99)
    with pytest.raises(LedgerConflict, match="R99 is not in the database"):
        history.record(command, was=command, who="ann", why="", at=START)


def test_live_commands_are_those_that_are_not_over_or_are_to_be_undone(history: History) -> None:
    first, second, third, fourth = (history.add(a_recommendation(f"purpose {n}"), START) for n in range(4))
    later = START + MINUTE
    settled = replace(first, state=CommandState.SETTLED, changed_at=later)
    history.record(settled, was=first, who="trimtab", why="", at=later)
    undoing = replace(second, state=CommandState.SETTLED, undo_requested_by="ann", changed_at=later)
    history.record(undoing, was=second, who="ann", why="", at=later)
    gone = replace(third, state=CommandState.EXPIRED, changed_at=START)
    history.record(gone, was=third, who="trimtab", why="", at=later)
    assert history.commands(live_only=True) == (undoing, fourth)
    assert history.commands(live_only=False) == (settled, undoing, gone, fourth)
    assert history.commands(live_only=False, since=later) == (settled, undoing, fourth)


def test_an_outcome_is_kept_and_replaced_by_a_second_one(history: History) -> None:
    first, second = history.add(a_recommendation(), START), history.add(a_recommendation("another"), START)
    bad = Outcome(
        command_id=second.id,
        measured_at=START,
        is_good=False,
        sentence="did not come back",
        gpu_hours_lost=9.0,
        gpu_hours_saved=0.0,
        gpus_unlocked=0,
        seconds_to_settle=900.0,
    )
    good = replace(bad, is_good=True, sentence="came back late", measured_at=START + MINUTE)
    other = replace(bad, command_id=first.id, measured_at=START + 2 * MINUTE)
    for outcome in (bad, other, good):
        history.record_outcome(outcome)
    assert history.outcomes("evacuate") == (good, other)
    assert history.outcomes("consolidate") == ()
    assert history.outcome(second.id) == good
    assert history.outcome(99) is None


def test_a_pause_outlives_a_restart_with_who_and_why(database: Database, history: History) -> None:
    assert (history.is_paused(), history.paused_by()) == (False, None)
    history.set_paused(is_paused=True, who="ann", why="maintenance", at=START)
    again = History(database, cluster=CLUSTER)
    assert again.is_paused()
    assert again.paused_by() == AuditLine(at=START, who="ann", what="paused", why="maintenance")
    history.set_paused(is_paused=False, who="ann", why="done", at=START + MINUTE)
    assert (history.is_paused(), history.paused_by()) == (False, None)
    assert [line.what for line in history.audit_lines(START)] == ["paused", "resumed"]


@pytest.mark.parametrize(
    "statement", [sa.update(audit).values(why="nothing"), sa.delete(audit)], ids=["update", "delete"]
)
def test_the_audit_is_append_only(database: Database, history: History, statement: sa.Executable) -> None:
    line = AuditLine(at=START, who="ann", what="release --all", why="leaving", finding_id=3)
    history.audit([line])
    history.audit([])
    with pytest.raises(StoreError, match="audit is append-only"), database.write() as connection:
        connection.execute(statement)
    assert history.audit_lines(START) == (line,)
