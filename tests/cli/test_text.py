"""Lines of text from values: columns, folds, small charts."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest
from tests.fakes.people import NOW, a_board, a_command, a_recommendation

from trimtab.cli.text import Row, block, standing
from trimtab.cli.text_history import history_lines, series_lines, spark
from trimtab.cli.text_status import status_lines
from trimtab.cli.watch import Span
from trimtab.model.board import GpuHistory
from trimtab.model.command import AuditLine, CommandState
from trimtab.model.past import SAME_STEPS


def plain(lines: list[str]) -> list[str]:
    return [click.unstyle(line) for line in lines]


def test_tails_stand_in_a_column_where_all_fit() -> None:
    rows = [Row("F31", "gpu-07 fell off the bus", "hits llama-70b"), Row("F2", "gpu-12 is hot", "hits vision-3")]
    assert plain(block("wrong", rows, 80)) == [
        "wrong    F31  gpu-07 fell off the bus   hits llama-70b",
        "         F2   gpu-12 is hot             hits vision-3",
    ]


def test_tails_fold_under_their_row_where_they_do_not_fit() -> None:
    rows = [Row("F31", "gpu-07 GPU 3 fell off the bus", "hits llama-70b: 32 GPUs stopped")]
    assert plain(block("wrong", rows, 50)) == [
        "wrong    F31  gpu-07 GPU 3 fell off the bus",
        "              hits llama-70b: 32 GPUs stopped",
    ]


def test_an_empty_list_is_no_line() -> None:
    assert block("wrong", [], 80) == []


def test_a_hole_in_a_chart_is_a_hole() -> None:
    assert spark([0.0, 1.0, None, 1.0], 10) == "▁█ █"
    assert spark([5.0, 5.0], 10) == "▁▁"
    assert spark([None, None], 10) == ""
    assert spark([], 10) == ""
    assert len(spark([float(number) for number in range(1000)], 40)) == 40


def test_proposals_that_only_changed_their_price_are_left_out_unless_all_is_asked_for() -> None:
    made = AuditLine(at=NOW, who="plan", what="R11 proposed")
    again = AuditLine(at=NOW, who="plan", what="R11 proposed", why=SAME_STEPS)
    other = AuditLine(at=NOW, who="plan", what="R11 proposed", why="the cluster has changed: other steps")
    since = NOW.timestamp() - 60
    told = history_lines([made, again, again, other], [], since=since, columns=200)
    assert [SAME_STEPS in line for line in told] == [False, False, False]
    assert told[-1] == "Left out: 2 times the same steps at another moment or price (--all shows them)."
    assert len(history_lines([made, again, again, other], [], since=since, columns=200, has_all=True)) == 4


def test_status_says_that_the_clock_is_simulated() -> None:
    said = plain(status_lines(replace(a_board(), clock_speed=20.0), age_seconds=1.0, columns=100))
    assert any(line.startswith("Simulated clock: it is ") and "20 times as fast" in line for line in said)
    assert not any("Simulated" in line for line in plain(status_lines(a_board(), age_seconds=1.0, columns=100)))


def test_a_metric_without_values_says_so() -> None:
    history = GpuHistory(
        cluster="hall-a",
        node="gpu-00",
        gpu="GPU-a",
        series={"power_watts": ((1.0, None),), "sm_clock_hertz": ((1.0, 2e9),)},
    )
    lines = series_lines(history, columns=100)
    assert lines[1].split() == ["power_watts", "no", "values", "in", "this", "time"]
    assert "least 2G mean 2G most 2G" in lines[2]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "expires 09:15 UTC"),
        ({"snoozed_until": NOW.replace(hour=10)}, "snoozed until 10:10 UTC"),
        ({"state": CommandState.APPROVED, "approved_by": "anna"}, "approved by anna"),
        (
            {
                "state": CommandState.APPROVED,
                "approved_by": "anna",
                "recommendation": a_recommendation(not_before=NOW.replace(minute=31)),
            },
            "approved by anna, waits until 09:31 UTC",
        ),
        ({"state": CommandState.SUBMITTED}, "submitted"),
        ({"state": CommandState.SUBMITTED, "undo_requested_by": "anna"}, "being undone for anna"),
        ({"state": CommandState.SETTLED, "undo_requested_by": "anna"}, "being undone for anna"),
        ({"state": CommandState.REFUSED, "reason": "gpu-03 is gone."}, "refused: gpu-03 is gone."),
    ],
)
def test_where_a_command_stands_in_a_few_words(changes: dict[str, object], said: str) -> None:
    command = a_command(**changes)
    row = a_board(commands=(command,)).commands[0]
    assert standing(row, NOW) == said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90.0), ("30m", 1800.0), ("2h", 7200.0), ("1d", 86400.0), ("45", 45.0), ("1.5h", 5400.0)],
)
def test_spans_of_time(text: str, seconds: float) -> None:
    assert Span().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "0", "-5m", "5 weeks", "h"])
def test_what_is_no_span_of_time(text: str) -> None:
    with pytest.raises(click.BadParameter):
        Span().convert(text, None, None)
