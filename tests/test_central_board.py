"""What the daemon's beats put on the board beside the plan: pauses, breakers, vetoes, a release, each rule's record."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from tests.fakes.people import a_breaker, a_veto
from tests.test_central import Bench

from trimtab.central import Central
from trimtab.issue import decisions
from trimtab.link import Link
from trimtab.model.board import Board
from trimtab.model.cluster import Held
from trimtab.model.command import CommandState


@pytest.fixture
def bench(tmp_path: Path):
    made = Bench(tmp_path)
    yield made
    made.database.close()


def board(central: Central) -> Board:
    published = central._parts.box.latest()
    assert published is not None
    return published.board


def go_on(bench: Bench, central: Central, beats: int) -> None:
    for _ in range(beats):
        bench.scheduler.tick(5.0)
        central.judge()
        central.rebalance()


def test_where_nothing_stands_nothing_is_said(bench: Bench):
    central = bench.start()
    go_on(bench, central, 1)
    shown = board(central)
    assert (shown.is_paused, shown.pauses, shown.breakers, shown.vetoes, shown.release) == (False, (), (), (), None)
    assert (shown.why_not_written, shown.notes, shown.foreign, shown.records) == (None, (), (), ())


def test_each_pause_is_named_and_goes_when_it_ends(bench: Bench):
    central = bench.start()
    bench.scheduler.pause_reason = "control plane upgrade"
    decisions.pause(bench.history, reason="driver upgrade", who="anna", now=bench.clock.now())
    go_on(bench, central, 1)
    assert board(central).pauses == (
        "Paused by anna: driver upgrade.",
        "Paused in the cluster itself: control plane upgrade.",
    )
    decisions.resume(bench.history, who="anna", now=bench.clock.now())
    go_on(bench, central, 1)
    assert board(central).pauses == ("Paused in the cluster itself: control plane upgrade.",)
    assert board(central).is_paused
    bench.scheduler.pause_reason = None
    go_on(bench, central, 1)
    assert (board(central).pauses, board(central).is_paused) == ((), False)


def test_breakers_and_vetoes_stand_until_they_are_lifted_or_over(bench: Bench):
    now = bench.clock.now()
    breaker = a_breaker()
    veto, old = a_veto(until=now + timedelta(hours=1)), a_veto(name="gpu-00", until=now - timedelta(hours=1))
    for fact in (breaker, veto, old):
        bench.history.stand(fact, what=fact.name, at=now)
    central = bench.start()
    go_on(bench, central, 1)
    assert (board(central).breakers, board(central).vetoes) == ((breaker,), (veto,))
    decisions.resume_rule(bench.history, "device_fault", who="anna", now=now)
    decisions.lift_veto(bench.history, "gpu-01", who="anna", now=now)
    go_on(bench, central, 1)
    assert (board(central).breakers, board(central).vetoes) == ((), ())


class NotOurs:
    """A lease that somebody else holds."""

    def why_not(self) -> str:
        return "the lease is held by hall-b-1"


def test_what_is_not_read_and_who_writes_instead_is_said(bench: Bench):
    central = bench.start()
    note = "we may not list devicetaintrules.resource.k8s.io"
    link: Link = replace(central._parts.link, lease=NotOurs(), notes=lambda: (note,))  # type: ignore[arg-type]
    central._parts.link = link
    go_on(bench, central, 1)
    assert (board(central).why_not_written, board(central).notes) == ("the lease is held by hall-b-1", (note,))


def test_marks_of_another_daemon_are_shown_apart_from_what_is_not_done(bench: Bench):
    bench.scheduler.marks.append(Held(mark="trimtab:9f9f9f:R3", what="cordon of gpu-09"))
    central = bench.start()
    go_on(bench, central, 1)
    assert board(central).foreign == ("trimtab:9f9f9f:R3 is of another daemon and is left alone: cordon of gpu-09.",)
    assert "foreign_mark" not in {one.rule for one in board(central).refusals}


def settled(bench: Bench) -> Central:
    central = bench.start()
    for _ in range(40):
        go_on(bench, central, 1)
        if bench.states() == [CommandState.SETTLED]:
            return central
    raise AssertionError(bench.history.audit_lines(bench.clock.now() - timedelta(days=1)))


def test_what_settled_is_in_its_rules_record_with_the_calibration(bench: Bench):
    central = settled(bench)
    (record,) = board(central).records
    outcome = bench.history.outcomes("evacuate")[0]
    assert (record.rule, record.right, record.measured) == ("evacuate", 1, 1)
    assert record.text.startswith("right in 1 of 1")
    assert outcome.seconds_forecast is not None
    assert record.duration_ratio == pytest.approx(outcome.seconds_to_settle / outcome.seconds_forecast)
    (row,) = board(central).commands
    assert (row.record, row.outcome) == (record.text, outcome)
    assert central.counts.command_changes_total["evacuate", "settled"] == 1


def test_a_release_is_shown_from_its_request_until_an_hour_after_its_end(bench: Bench):
    central = settled(bench)
    (name,) = [node.name for node in bench.scheduler.nodes.values() if node.is_cordoned]
    asked = decisions.release_all(bench.history, who="anna", now=bench.clock.now(), reason="we leave")
    central.judge()
    assert board(central).pauses == ("Everything is being given back for anna.",)
    central.rebalance()
    first = board(central).release
    assert first is not None
    assert (first.asked_by, first.asked_at, first.is_done) == ("anna", asked.since, False)
    assert [text.rpartition(": ")[2] for text in first.left] == [f"cordon of {name}"]
    go_on(bench, central, 2)
    last = board(central).release
    assert last is not None
    assert (last.is_done, last.left) == (True, ())
    assert any("settled → undone" in text for text in last.given_back)
    assert any(text.endswith(f"cordon of {name}") for text in last.given_back)
    assert board(central).pauses == ("Paused by anna: release --all: we leave.",)
    bench.clock.advance(3601.0)
    go_on(bench, central, 1)
    assert board(central).release is None
