"""Findings and commands as they were at a moment, from what was written down when they changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import from_unix_ms, iso, unix_ms
from trimtab.model.advice import Action, FindingState, OpenFinding, Severity
from trimtab.model.command import Command, CommandState, Outcome
from trimtab.model.past import SAME_STEPS, MarkKind, TrendMark
from trimtab.store.tables import audit, commands, finding_changes, findings, outcomes
from trimtab.store.text import from_json

SHOWN_AFTER_END = timedelta(hours=1)
"""What had ended is on a board for so long, as on that of now."""
FINDINGS_MAX = 2000
LATER = "told_later_at"
"""Fact of a finding of the past: from when the parts are of which only the last word is kept."""
_STATES = {state.value: state for state in CommandState}


def findings_at(connection: Connection, cluster: str, at: datetime) -> tuple[OpenFinding, ...]:
    """Findings that stood at a moment or had ended within the hour, in their words of then."""
    at_ms = unix_ms(at)
    wanted = (
        findings.c.cluster == cluster,
        findings.c.opened_at_ms <= at_ms,
        sa.or_(findings.c.closed_at_ms.is_(None), findings.c.closed_at_ms > unix_ms(at - SHOWN_AFTER_END)),
    )
    statement = sa.select(findings.c.body).where(*wanted).order_by(findings.c.id.desc()).limit(FINDINGS_MAX)
    found = [from_json(body, OpenFinding) for body in connection.execute(statement).scalars()]
    words = _words(connection, cluster, [one.id for one in found if one.changed_at > at], at_ms)
    return tuple(_finding_then(one, at, words.get(one.id)) for one in found)


def _words(connection: Connection, cluster: str, ids: Sequence[int], at_ms: int) -> Mapping[int, Any]:
    """Finding -> what its last change before the moment said."""
    if not ids:
        return {}
    changes = finding_changes.c
    wanted = (changes.cluster == cluster, changes.finding_id.in_(ids), changes.at_ms <= at_ms)
    rows = connection.execute(sa.select(finding_changes).where(*wanted).order_by(changes.at_ms, changes.id))
    return {row.finding_id: row for row in rows}


def _finding_then(one: OpenFinding, at: datetime, said: Any) -> OpenFinding:  # noqa: ANN401 - a row
    finding = one.finding
    changed_at = one.changed_at
    if said is not None:
        changed_at = from_unix_ms(said.at_ms)
        finding = replace(
            finding,
            sentence=said.sentence,
            action=Action(said.action),
            severity=Severity(said.severity),
            # Of changes the words are kept; whom it hits and what it rests on is of its last word, and says so.
            evidence=tuple(each for each in finding.evidence if each.at is None or each.at <= at),
            facts={**finding.facts, LATER: iso(one.changed_at)},
        )
    if one.closed_at is not None and one.closed_at <= at:
        return replace(one, finding=finding)
    return replace(
        one,
        finding=finding,
        state=FindingState.OPEN,
        changed_at=min(changed_at, at),
        last_seen_at=min(one.last_seen_at, at),
        closed_at=None,
        close_reason=None,
        clear_since=one.clear_since if one.clear_since is not None and one.clear_since <= at else None,
    )


def commands_at(connection: Connection, cluster: str, at: datetime) -> tuple[Command, ...]:
    """Commands that were live at a moment or over within the hour, in the state that they had then."""
    at_ms = unix_ms(at)
    wanted = (
        commands.c.cluster == cluster,
        commands.c.created_at_ms <= at_ms,
        sa.or_(commands.c.is_live, commands.c.changed_at_ms > unix_ms(at - SHOWN_AFTER_END)),
    )
    statement = sa.select(commands.c.body).where(*wanted).order_by(commands.c.id)
    found = [from_json(body, Command) for body in connection.execute(statement).scalars()]
    if not found:
        return ()
    since = min(unix_ms(one.recommendation.created_at) for one in found)
    lines = _last_lines(connection, cluster, since - 1000, at_ms)
    then = (_command_then(one, at, lines.get(one.id)) for one in found)
    oldest = at - SHOWN_AFTER_END
    return tuple(one for one in then if one is not None and (one.is_live or one.changed_at > oldest))


def outcomes_at(connection: Connection, cluster: str, ids: Iterable[int], at: datetime) -> Mapping[int, Outcome]:
    """What was known by then of what came of commands."""
    table = outcomes.c
    wanted = (table.cluster == cluster, table.command_id.in_(list(ids)), table.measured_at_ms <= unix_ms(at))
    rows = connection.execute(sa.select(table.command_id, table.body).where(*wanted))
    return {row.command_id: from_json(row.body, Outcome) for row in rows}


def _last_lines(
    connection: Connection, cluster: str, since_ms: int, until_ms: int
) -> Mapping[int, tuple[CommandState, datetime, str]]:
    """Command -> the state that it came into last, when and why."""
    return {command: (state, at, why) for command, state, at, why in _moves(connection, cluster, since_ms, until_ms)}


def _moves(
    connection: Connection, cluster: str, since_ms: int, until_ms: int
) -> Iterable[tuple[int, CommandState, datetime, str]]:
    table = audit.c
    wanted = (table.cluster == cluster, table.at_ms.between(since_ms, until_ms), table.command_id.is_not(None))
    columns = sa.select(table.command_id, table.what, table.why, table.at_ms).where(*wanted)
    for row in connection.execute(columns.order_by(table.at_ms, table.id)):
        # `R11 proposed → approved`: the ledger's own line of a change of state.
        state = _STATES.get(row.what.rpartition(" ")[2])
        if state is not None and row.what.startswith(f"R{row.command_id} "):
            yield row.command_id, state, from_unix_ms(row.at_ms), row.why


def _command_then(command: Command, at: datetime, line: tuple[CommandState, datetime, str] | None) -> Command | None:
    if line is None:
        return None

    def known(moment: datetime | None) -> datetime | None:
        return moment if moment is not None and moment <= at else None

    state, changed_at, why = line
    is_approved = known(command.approved_at) is not None
    return replace(
        command,
        state=state,
        changed_at=changed_at,
        reason=command.reason if command.changed_at <= at else why,
        approved_at=known(command.approved_at),
        approved_by=command.approved_by if is_approved else None,
        approved_fingerprint=command.approved_fingerprint if is_approved else None,
        submitted_at=known(command.submitted_at),
        settled_at=known(command.settled_at),
        noticed_at=known(command.noticed_at),
        questioned_at=known(command.questioned_at),
        given_back_at=known(command.given_back_at),
        undo_requested_by=command.undo_requested_by if command.changed_at <= at else None,
        snoozed_until=command.snoozed_until if command.changed_at <= at else None,
    )


def marks_between(
    connection: Connection, cluster: str, since_ms: int, until_ms: int, *, limit: int
) -> tuple[tuple[TrendMark, ...], int]:
    """What happened between two moments, oldest first: the latest `limit`, and how many were left out."""
    found = [
        *_finding_marks(connection, cluster, since_ms, until_ms),
        *_command_marks(connection, cluster, since_ms, until_ms),
    ]
    found.sort(key=lambda mark: mark.at_seconds)
    left_out = max(len(found) - limit, 0)
    return tuple(found[left_out:]), left_out


def _finding_marks(connection: Connection, cluster: str, since_ms: int, until_ms: int) -> Iterable[TrendMark]:
    changes = finding_changes.c
    is_its = sa.and_(findings.c.cluster == changes.cluster, findings.c.id == changes.finding_id)
    columns = (changes.finding_id, changes.at_ms, changes.change, changes.severity, changes.sentence)
    about = (findings.c.rule, findings.c.node, findings.c.gpu, findings.c.workload)
    statement = (
        sa.select(*columns, *about)
        .join_from(finding_changes, findings, is_its)
        .where(
            changes.cluster == cluster,
            changes.at_ms.between(since_ms, until_ms),
            changes.change.in_(("opened", "closed")),
            findings.c.is_history_only.is_(False),
        )
    )
    for row in connection.execute(statement):
        yield TrendMark(
            at_seconds=row.at_ms / 1000,
            kind=MarkKind.FINDING_OPENED if row.change == "opened" else MarkKind.FINDING_CLOSED,
            id=row.finding_id,
            name=f"F{row.finding_id}",
            text=row.sentence,
            severity=row.severity,
            rule=row.rule,
            node=row.node,
            gpu=row.gpu,
            workload=row.workload,
        )


def _command_marks(connection: Connection, cluster: str, since_ms: int, until_ms: int) -> Iterable[TrendMark]:
    moves = [move for move in _moves(connection, cluster, since_ms, until_ms) if move[3] != SAME_STEPS]
    ids = sorted({command for command, *_ in moves})
    table = commands.c
    columns = sa.select(table.id, table.rule, table.node, table.workload, table.sentence)
    about = {row.id: row for row in connection.execute(columns.where(table.cluster == cluster, table.id.in_(ids)))}
    for command, state, at, _ in moves:
        row = about.get(command)
        if row is not None:
            yield TrendMark(
                at_seconds=unix_ms(at) / 1000,
                kind=MarkKind.COMMAND,
                id=command,
                name=f"R{command}",
                text=row.sentence,
                state=state.value,
                rule=row.rule,
                node=row.node,
                workload=row.workload,
            )
