"""An inspection for people: the verdict in a sentence, findings with cause and advice, the reading in brief. Pure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from trimtab.inspect.inspection import Inspection, Table
from trimtab.model.advice import Action, Finding

_MEANINGS = {
    Action.NONE: "Nothing is wrong here.",
    Action.UNKNOWN: "This does not suffice for a verdict.",
    Action.WATCH: "Keep an eye on it; nothing has to be done now.",
    Action.ALERT_OWNER: "Tell the job's owner; the hardware stays in service.",
    Action.CONFIG_PROBLEM: "Settings or software are wrong, not hardware.",
    Action.RESET_AFTER_DRAIN: "Let the jobs end, then reset the GPU.",
    Action.CORDON_RESET: "Take it out of service now: cordon, drain, reset.",
    Action.CORDON_REBOOT: "Take the node out of service now: cordon, drain, reboot.",
    Action.HARDWARE_RMA: "Take it out of service; the part is to be replaced.",
}
_LABEL = 10
_FINDINGS_MAX = 40
_EVIDENCE_MAX = 2


def lines_of(inspection: Inspection, *, name: str, columns: int) -> Iterator[str]:
    """One block of text for one file."""
    verdict = inspection.verdict
    yield from _row(name, f"{inspection.kind}: {inspection.sentence}.", columns, width=len(name) + 2)
    yield from _row("verdict", f"{verdict.value}  {_meaning(inspection)}", columns)
    for number, finding in enumerate(inspection.findings[:_FINDINGS_MAX]):
        yield from _finding_lines(finding, columns, label="found" if number == 0 else "")
    hidden = len(inspection.findings) - _FINDINGS_MAX
    if hidden > 0:
        yield from _row("", f"and {hidden} more (--json gives all)", columns)
    for number, step in enumerate(inspection.steps):
        yield from _row("plan" if number == 0 else "", step, columns)
    for number, note in enumerate(inspection.notes):
        yield from _row("note" if number == 0 else "", note, columns)
    for table in inspection.tables:
        yield from _table_lines(table, columns)


def _meaning(inspection: Inspection) -> str:
    if inspection.meaning:
        return inspection.meaning
    if inspection.verdict is Action.NONE and inspection.notes:
        return f"{_MEANINGS[Action.NONE]} See the notes for what is not known."
    return _MEANINGS[inspection.verdict]


def _finding_lines(finding: Finding, columns: int, *, label: str) -> Iterator[str]:
    yield from _row(label, f"{_full_stop(finding.sentence)}  [{finding.action.value}]", columns)
    if finding.impact:
        yield from _row("", f"hits: {finding.impact}", columns)
    for evidence in finding.evidence[:_EVIDENCE_MAX]:
        yield from _row("", f"seen: {evidence.text}", columns)
    for evidence in finding.against[:_EVIDENCE_MAX]:
        yield from _row("", f"but: {evidence.text}", columns)
    if finding.advice:
        yield from _row("", f"do: {finding.advice}", columns)


def _full_stop(sentence: str) -> str:
    return sentence if sentence.endswith((".", "!", "?")) else f"{sentence}."


def _row(label: str, text: str, columns: int, *, width: int = _LABEL) -> list[str]:
    first = f"{label:<{width}}"
    indent = " " * min(width, _LABEL)
    wrapped = textwrap.wrap(
        text,
        max(columns, 40),
        initial_indent=first,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped or [first.rstrip()]


def _table_lines(table: Table, columns: int) -> Iterator[str]:
    rows: Sequence[Sequence[str]] = (table.head, *table.rows)
    widths = [max(len(row[place]) for row in rows) for place in range(len(table.head))]
    for number, row in enumerate(rows):
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        label = "reading" if number == 0 else ""
        yield f"{label:<{_LABEL}}{line}"[:columns]
