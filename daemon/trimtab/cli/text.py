"""How the verbs speak: boards, findings and recommendations as lines of text. Pure: values in, lines out."""

from __future__ import annotations

import os
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import click

from trimtab.clock import age_text, count_text
from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.board import CommandRow, JobRow
from trimtab.model.command import CommandState, Refusal

WIDTH_MAX = 120
LABEL_COLUMNS = 9
_HEAD = 5
_COLOURS = {
    "wrong": "red",
    "waiting": "yellow",
    "do": "green",
    "blind": "magenta",
    "paused": "yellow",
    "standby": "yellow",
    "stopped": "red",
    "release": "yellow",
}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a list: a name, what is said, and what stands to the right if there is room, else beneath."""

    head: str
    main: str
    tail: str = ""


def width() -> int:
    """Columns to fill: the terminal's, at most 120; 120 in a pipe."""
    return max(min(shutil.get_terminal_size((WIDTH_MAX, 24)).columns, WIDTH_MAX), 40)


def say(lines: Iterable[str]) -> None:
    """Print lines; colour on a terminal alone, and not where NO_COLOR is set."""
    color = False if os.environ.get("NO_COLOR") else None
    for line in lines:
        click.echo(line, color=color)


def finding_row(item: OpenFinding, at: datetime) -> Row:
    """One finding: what, for how long, whom it hits."""
    if item.state is FindingState.CLOSED and item.closed_at is not None:
        age = f"closed {clock_text(item.closed_at)}: {item.close_reason or 'it no longer holds'}"
    else:
        age = f"{age_text((at - item.opened_at).total_seconds())}"
    snoozed = f", snoozed until {clock_text(item.snoozed_until)}" if item.snoozed_until else ""
    return Row(item.name, f"{item.finding.sentence.rstrip('.')}, {age}{snoozed}", item.finding.impact)


def job_row(job: JobRow, at: datetime) -> Row:
    """One workload that waits, and why."""
    waited = f"  {age_text((at - job.waiting_since).total_seconds())}" if job.waiting_since else ""
    answer = f" → R{job.recommendation}" if job.recommendation else ""
    return Row("", f"{job.name}  {job.pods} × {count_text(job.gpus_per_pod, 'GPU')}{waited}", job.why + answer)


def command_row(row: CommandRow, at: datetime) -> Row:
    """One recommendation: what to do, what it gives and takes, and where it stands."""
    recommendation = row.command.recommendation
    gain, cost = recommendation.gain, recommendation.cost
    numbers = f"gain {gain.gpu_hours:.1f} GPU-h  cost {cost.gpu_hours:.1f} GPU-h  {standing(row, at)}"
    return Row(row.name, recommendation.sentence, numbers)


def standing(row: CommandRow, at: datetime) -> str:
    """Where a command stands, in a few words."""
    command, recommendation = row.command, row.command.recommendation
    if command.undo_requested_by and command.is_live:
        return f"being undone for {command.undo_requested_by}"
    if command.state is CommandState.PROPOSED:
        if command.snoozed_until is not None and command.snoozed_until > at:
            return f"snoozed until {clock_text(command.snoozed_until)}"
        advice = "" if row.is_approvable else "advice, "
        return f"{advice}expires {clock_text(recommendation.expires_at)}"
    if command.state is CommandState.APPROVED:
        not_before = recommendation.not_before
        wait = f", waits until {clock_text(not_before)}" if not_before is not None and not_before > at else ""
        return f"approved by {command.approved_by}{wait}"
    return command.state.value + (f": {command.reason}" if command.state.is_over and command.reason else "")


def refusal_lines(refusals: Sequence[Refusal], columns: int, *, shown: int | None = None) -> list[str]:
    """What is not done, and the number that decided."""
    rows = [Row("", refusal.sentence) for refusal in refusals[:shown]]
    left = len(refusals) - len(rows)
    if left > 0:
        rows.append(Row("", f"and {left} more: trimtab plan"))
    return block("not done", rows, columns)


def block(label: str, rows: Sequence[Row], columns: int) -> list[str]:
    """A labelled list; the tails stand in a column of their own where all of it fits, else under their row."""
    indent = " " * (LABEL_COLUMNS + (_HEAD if any(row.head for row in rows) else 0))
    most = max((len(row.main) for row in rows), default=0)
    tails = max((len(row.tail) for row in rows), default=0)
    is_wide = len(indent) + most + (3 + tails if tails else 0) <= columns
    lines: list[str] = []
    for number, row in enumerate(rows):
        head = (label if number == 0 else "").ljust(LABEL_COLUMNS) + row.head.ljust(len(indent) - LABEL_COLUMNS)
        if is_wide:
            text = [head + (row.main.ljust(most) + "   " + row.tail if row.tail else row.main)]
        else:
            text = _wrapped(head, row.main, indent, columns) + _wrapped(indent, row.tail, indent, columns)
        lines += text
    if lines:
        lines[0] = click.style(label, fg=_COLOURS.get(label), bold=True) + lines[0][len(label) :]
    return lines


def _wrapped(head: str, text: str, indent: str, columns: int) -> list[str]:
    if not text:
        return []
    return textwrap.wrap(
        text, columns, initial_indent=head, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )


def paragraph(text: str, columns: int, *, indent: int = 0) -> list[str]:
    """Text wrapped to the columns."""
    return _wrapped(" " * indent, text, " " * indent, columns)


def clock_text(moment: datetime) -> str:
    """`14:31 UTC`: what is shown is at most hours away."""
    return moment.astimezone(UTC).strftime("%H:%M UTC")
