"""How the verbs speak of on-call: incidents, messages, targets, a drill's legs. Pure: values in, lines out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

from trimtab.cli.text import Row, block, clock_text
from trimtab.clock import age_text
from trimtab.model.oncall import Incident, Pager
from trimtab.model.outbox import LetterState, OutboxRow
from trimtab.show.api_types_oncall import OnCall, OutboxLetters, TargetRow

_PAGES = {
    Pager.OUTBOX: "The outbox pages.",
    Pager.ALERTMANAGER: "Alertmanager pages; the outbox closes what it had opened.",
    Pager.NONE: "Nobody pages.",
}


def incident_lines(incidents: Sequence[Incident], at: datetime, columns: int) -> list[str]:
    """A list of incidents, newest first."""
    rows = [Row(one.name, _first(one), standing(one, at)) for one in incidents]
    return block("told", rows, columns)


def _first(incident: Incident) -> str:
    mark = "[drill] " if incident.is_drill else ""
    finding = f"F{incident.finding}  " if incident.finding is not None else ""
    return f"{finding}{mark}{incident.first_line}"


def standing(incident: Incident, at: datetime) -> str:
    """Where an incident stands, in a few words."""
    if incident.closed_at is not None:
        lasted = age_text((incident.closed_at - incident.opened_at).total_seconds())
        return f"over after {lasted}: {incident.close_reason}"
    age = age_text((at - incident.opened_at).total_seconds())
    if incident.acknowledged_by:
        return f"{age}, {incident.acknowledged_by} has it"
    if incident.quiet:
        return f"{age}, pages nobody: {incident.quiet}"
    if incident.summed_in is not None and incident.paged_at is None:
        return f"{age}, told in sum with I{incident.summed_in}"
    if incident.pager is not Pager.OUTBOX:
        return f"{age}, {incident.pager.value} pages"
    return f"{age}, nobody has it" if incident.paged_at is not None else f"{age}, on no route"


def outbox_lines(found: OutboxLetters, columns: int) -> list[str]:
    """Messages with what became of them, and a line of counts."""
    rows = [
        Row(str(one.id), f"{one.target}  I{one.incident}  {one.first_line}", letter_text(one)) for one in found.letters
    ]
    counts = [
        f"{target}: " + ", ".join(f"{count} {state.value}" for state, count in sorted(states.items()))
        for target, states in sorted(found.counts.items())
    ]
    return [*block("message", rows, columns), *(counts or ["Nothing was ever sent."])]


def letter_text(letter: OutboxRow) -> str:
    """What became of one message."""
    if letter.state is LetterState.DONE:
        remark = f", {letter.remark}" if letter.remark else ""
        return f"{letter.verb.value} delivered{remark}"
    if letter.state is LetterState.DROPPED:
        return f"{letter.verb.value} not needed: {letter.error}"
    tries = "try" if letter.attempts == 1 else "tries"
    said = f": {letter.error}" if letter.error else ""
    return f"{letter.verb.value} {letter.state.value} after {letter.attempts} {tries}{said}"


def oncall_lines(oncall: OnCall, columns: int) -> list[str]:
    """Who pages, and how each target does."""
    differs = "" if oncall.pager is oncall.setting else f" (switched; the settings say {oncall.setting.value})"
    rows = [Row("", f"{one.name}  {one.kind}, {one.locale}", _target(one)) for one in oncall.targets]
    none = [] if oncall.targets else ["No target is set up: nobody is told. Add [oncall.targets.NAME] to the settings."]
    return [_PAGES[oncall.pager].rstrip(".") + differs + ".", *block("target", rows, columns), *none]


def _target(row: TargetRow) -> str:
    said = [f"{row.waiting} waiting, {row.dead} dead"]
    if row.delivered_at is not None:
        said.append(f"last delivered {clock_text(row.delivered_at)}")
    if row.trouble:
        said.append(f"trouble: {row.trouble}")
    return "; ".join(said)


def leg_lines(letters: Iterable[OutboxRow], shown: set[int]) -> list[str]:
    """Messages of a drill that have come to an end and were not shown yet; `shown` grows."""
    lines = []
    for one in letters:
        if one.id in shown or one.state.is_waiting:
            continue
        shown.add(one.id)
        lines.append(f"  {one.target}: {letter_text(one)}")
    return lines
