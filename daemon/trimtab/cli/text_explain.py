"""What `explain` prints: a recommendation or a finding with everything it rests on. Pure: values in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import click

from trimtab.cli.text import clock_text, finding_row, paragraph, standing
from trimtab.clock import age_text, count_text, iso
from trimtab.model.advice import Evidence, FindingState, OpenFinding
from trimtab.model.board import CommandRow
from trimtab.model.command import Mode, Outcome, Recommendation
from trimtab.model.standing import Answer, OwnerAnswer


def recommendation_lines(
    row: CommandRow, findings: Sequence[OpenFinding], *, at: datetime, mode: Mode, columns: int
) -> list[str]:
    """A recommendation: sentence, evidence, against, steps with the exact writes, gain, cost, if nothing is done."""
    recommendation = row.command.recommendation
    lines = [click.style(f"{row.name}  {standing(row, at)}", bold=True)]
    lines += paragraph(recommendation.sentence, columns)
    lines += paragraph(recommendation.reason, columns)
    lines += _part("Rests on", _findings(findings, at, columns))
    lines += _part("Against it", (line for text in _against(row, findings) for line in _item(text, columns)))
    lines += _part("Steps", _steps(row, columns))
    lines += _part("Lines to copy", (f"  {line}" for step in recommendation.steps for line in step.splitlines()))
    lines += _part("How it goes", paragraph(_way(recommendation), columns, indent=2))
    lines += _part("Owners", (line for text in _owners(row) for line in _item(text, columns)))
    lines += _part("Gain and cost", _gain_and_cost(row, columns))
    gates = (f"{node}: {gate}" for node, gate in recommendation.gates.items())
    lines += _part("Before it returns to service", (line for text in gates for line in _item(text, columns)))
    lines += _part("If nothing is done", paragraph(recommendation.if_nothing_is_done, columns, indent=2))
    lines += _part("Refused", paragraph(row.refusal.sentence if row.refusal else "", columns, indent=2))
    lines += _part("Came out", _outcome(row.outcome, columns) if row.outcome else ())
    lines += _part("Record of this rule", paragraph(row.record, columns, indent=2))
    lines += _part("Who may approve", paragraph(_who_may(row, mode), columns, indent=2))
    return lines


def finding_lines(item: OpenFinding, rows: Sequence[CommandRow], *, at: datetime, columns: int) -> list[str]:
    """A finding: sentence, whom it hits, evidence, against, advice, and what is recommended for it."""
    finding = item.finding
    shown = finding_row(item, at)
    action = finding.action.value.replace("_", " ")
    lines = [click.style(f"{item.name}  {finding.severity}  {finding.rule}  action: {action}", bold=True)]
    lines += paragraph(shown.main + ".", columns)
    lines += paragraph(finding.impact, columns)
    lines += _part("Evidence", _evidence(finding.evidence, columns))
    lines += _part("Against it", _evidence(finding.against, columns))
    lines += _part("What to do", paragraph(finding.advice, columns, indent=2))
    hits = ", ".join(finding.workloads_hit)
    lines += _part(
        "Hits", paragraph(f"{hits} ({count_text(finding.gpus_hit, 'GPU')})" if hits else "", columns, indent=2)
    )
    answers = [row for row in rows if item.id in row.command.recommendation.findings]
    lines += _part("Recommended", (line for row in answers for line in _answer(row, columns)))
    if item.state is FindingState.OPEN and not finding.is_corroborated:
        lines += _part("Doubt", paragraph("One source only: no move rests on this alone.", columns, indent=2))
    return lines


def _answer(row: CommandRow, columns: int) -> list[str]:
    return _item(f"{row.name} {row.command.recommendation.sentence}", columns)


def _findings(findings: Sequence[OpenFinding], at: datetime, columns: int) -> Iterable[str]:
    for item in findings:
        yield from _item(f"{item.name} {finding_row(item, at).main}", columns)
        yield from (f"  {line}" for line in _evidence(item.finding.evidence, columns - 2))


def _against(row: CommandRow, findings: Sequence[OpenFinding]) -> Iterable[str]:
    yield from row.command.recommendation.against
    for item in findings:
        yield from (_evidence_text(one) for one in item.finding.against)


def _evidence(evidence: Sequence[Evidence], columns: int) -> list[str]:
    return [line for one in evidence for line in _item(_evidence_text(one), columns)]


def _evidence_text(one: Evidence) -> str:
    """Source, time, what was seen, and the value against its threshold."""
    at = f" {iso(one.at)}" if one.at else ""
    unit = f" {one.unit}" if one.unit else ""
    value = "" if one.value is None else f" [{one.value:g}{unit}"
    if value:
        value += "]" if one.threshold is None else f", threshold {one.threshold:g}{unit}]"
    return f"{one.source}{at}: {one.text}{value}"


def _steps(row: CommandRow, columns: int) -> Iterable[str]:
    for number, step in enumerate(row.steps, start=1):
        yield from _item(f"{number}. {step.text}  ({step.state})", columns, mark="")
    if row.steps:
        text = f"fingerprint {row.fingerprint}: an approval is for exactly these writes"
        yield from paragraph(text, columns, indent=2)
    not_before = row.command.recommendation.not_before
    if not_before is not None:
        yield f"  not before {clock_text(not_before)}"


def _way(recommendation: Recommendation) -> str:
    said = recommendation.way
    if recommendation.way_seconds is None:
        return said
    expected = f"Expected: {age_text(recommendation.way_seconds)} until all of it runs again."
    return f"{said.rstrip('.')}. {expected}" if said else expected


def _owners(row: CommandRow) -> Iterable[str]:
    command = row.command
    for workload, answer in command.answers.items():
        yield f"{workload}: {answer_text(answer)}"
    if command.noticed_at is not None:
        until = f"; it begins at {clock_text(row.notice_until)} or later" if row.notice_until else ""
        yield f"Told at {clock_text(command.noticed_at)}{until}."


def answer_text(answer: OwnerAnswer) -> str:
    """What an owner was asked and said."""
    if answer.answer is None:
        return f"asked at {clock_text(answer.asked_at)}, has until {clock_text(answer.deadline)} to answer"
    words = f": {answer.said}" if answer.said else ""
    if answer.answer is Answer.NOT_BEFORE and answer.not_before is not None:
        return f"not before {clock_text(answer.not_before)}{words}"
    at = f" at {clock_text(answer.answered_at)}" if answer.answered_at else ""
    return f"{answer.answer}{at}{words}"


def _outcome(outcome: Outcome, columns: int) -> Iterable[str]:
    yield from paragraph(outcome.sentence, columns, indent=2)
    rows = [
        ("time to run again", _seconds(outcome.seconds_forecast), age_text(outcome.seconds_to_settle)),
        ("GPU-h lost (measured)", _hours(outcome.gpu_hours_lost_forecast), f"{outcome.gpu_hours_lost:.1f}"),
        ("GPU-h expected, net", _hours(outcome.gpu_hours_saved_forecast), f"{outcome.gpu_hours_saved:.1f}"),
    ]
    if outcome.seats_planned:
        rows.append(("seats as planned", str(outcome.seats_planned), str(outcome.seats_hit)))
    for what, forecast, came in rows:
        yield f"  {what:<21} forecast {forecast:>8}   as it came {came:>8}"
    yield "  Net: expected over the horizon, after what it really cost."


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else age_text(seconds)


def _hours(hours: float | None) -> str:
    return "-" if hours is None else f"{hours:.1f}"


def _gain_and_cost(row: CommandRow, columns: int) -> Iterable[str]:
    gain, cost = row.command.recommendation.gain, row.command.recommendation.cost
    unlocked = f", {count_text(gain.gpus_unlocked, 'GPU')} unlocked" if gain.gpus_unlocked else ""
    yield from _item(f"gain {gain.gpu_hours:.1f} GPU-h over {gain.horizon_hours:g} h{unlocked}", columns)
    yield from paragraph(gain.formula, columns, indent=4)
    jobs = ", ".join(cost.workloads_disturbed)
    disturbed = f", {cost.pods_disturbed} pods disturbed ({jobs})" if cost.pods_disturbed else ""
    yield from _item(f"cost {cost.gpu_hours:.1f} GPU-h{disturbed}", columns)
    yield from paragraph(cost.formula, columns, indent=4)


def _who_may(row: CommandRow, mode: Mode) -> str:
    if row.is_approvable:
        return f"Whoever has the role operator, here or at the page: trimtab approve {row.name}"
    recommendation = row.command.recommendation
    if row.command.approved_by:
        return f"Approved by {row.command.approved_by}."
    if recommendation.kind.is_advice_only:
        return "Nobody: this kind stays advice; carry it out by hand."
    if mode in (Mode.OBSERVE, Mode.RECOMMEND):
        return f'Nobody in mode {mode}: copy the steps, or set [issue] mode = "approve" in the daemon\'s settings.'
    return f"Nobody: it is {row.command.state}."


def _part(title: str, lines: Iterable[str]) -> list[str]:
    found = list(lines)
    return ["", click.style(title, bold=True), *found] if found else []


def _item(text: str, columns: int, *, mark: str = "- ") -> list[str]:
    lines = paragraph(f"{mark}{text}", columns - 2, indent=2)
    return [line if number == 0 else "  " + line for number, line in enumerate(lines)]
