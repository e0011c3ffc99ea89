"""What each route of the API does: takes the board or the history, or hands a person's decision on."""

from __future__ import annotations

from datetime import timedelta

from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.board import Board, CommandRow, GpuHistory
from trimtab.model.command import Command
from trimtab.show.api_routes import ApiError, Call, People
from trimtab.show.api_types import (
    ID_MAX,
    Allowed,
    Audit,
    Doctor,
    Findings,
    Health,
    Paused,
    Recommendations,
    ReleaseAsked,
)
from trimtab.show.rows import RowInput, command_rows, urgent_first

METRICS_MAX = 20
"""Series of one history request."""


def health(people: People, call: Call) -> Health:
    """Alive; does not say that all is well (doctor does)."""
    published = people.box.latest()
    if published is None:
        return Health(status="starting", board_age_seconds=None)
    return Health(status="ok", board_age_seconds=max((call.now - published.board.at).total_seconds(), 0.0))


def ready(people: People, call: Call) -> Health:
    """This is the active daemon; one that stands by has an application of its own (standby.py)."""
    return health(people, call)


def board(people: People, call: Call) -> Board:  # noqa: ARG001 - one shape for all handlers
    """The board of the last beat."""
    published = people.box.latest()
    if published is None:
        raise ApiError(503, "The daemon has just started and has not judged yet. Try again in a few seconds.")
    return published.board


def findings(people: People, call: Call) -> Findings:
    """Open findings from the board; closed ones from the history."""
    query = call.query
    if query.state == "open":
        shown = board(people, call).findings
        return Findings(findings=tuple(item for item in shown if item.state is FindingState.OPEN)[: query.limit])
    state = FindingState.CLOSED if query.state == "closed" else None
    since = call.now - timedelta(seconds=query.since_seconds)
    return Findings(findings=people.memory.findings(state=state, since=since, limit=query.limit))


def finding(people: People, call: Call) -> OpenFinding:
    """One finding, open or closed; an open one with what others say, as the board has it."""
    found = people.memory.finding(call.id) if call.id <= ID_MAX else None
    if found is None:
        raise ApiError(404, f"There is no finding F{call.id}.")
    latest = people.box.latest()
    shown = latest.board.findings if latest is not None else ()
    same = (one for one in shown if (one.id, one.state, one.changed_at) == (found.id, found.state, found.changed_at))
    return next(same, found)


def recommendations(people: People, call: Call) -> Recommendations:
    """Live ones from the board, the most urgent first; with state=all, those over as well."""
    shown = board(people, call)
    live = tuple(row for row in shown.commands if row.command.is_live)
    if call.query.state == "live":
        return Recommendations(recommendations=live)
    since = call.now - timedelta(seconds=call.query.since_seconds)
    commands = people.memory.commands(live_only=False, since=since)
    return Recommendations(recommendations=_rows(people, call, urgent_first(commands, shown.findings)))


def recommendation(people: People, call: Call) -> CommandRow:
    """One recommendation as it stands in the ledger now."""
    return _rows(people, call, (_command(people, call),))[0]


def approve(people: People, call: Call) -> CommandRow:
    """A yes to the exact writes; the next beat acts on it."""
    _command(people, call)
    people.decisions.approve(call.id, fingerprint=call.body.fingerprint, who=call.caller.who)
    return recommendation(people, call)


def reject(people: People, call: Call) -> CommandRow:
    """A no, with its reason."""
    _command(people, call)
    people.decisions.reject(call.id, reason=call.body.reason, who=call.caller.who)
    return recommendation(people, call)


def snooze(people: People, call: Call) -> CommandRow:
    """Later."""
    _command(people, call)
    people.decisions.snooze(call.id, seconds=call.body.seconds, who=call.caller.who)
    return recommendation(people, call)


def undo(people: People, call: Call) -> CommandRow:
    """Take back."""
    _command(people, call)
    people.decisions.undo(call.id, reason=call.body.reason, who=call.caller.who)
    return recommendation(people, call)


def pause(people: People, call: Call) -> Paused:
    """Start nothing new."""
    people.decisions.pause(reason=call.body.reason, who=call.caller.who)
    return Paused(is_paused=True)


def resume(people: People, call: Call) -> Paused:
    """Go on, as a whole or with one rule; what still stops new commands is said."""
    rule = call.body.rule
    if rule is not None:
        people.decisions.resume_rule(rule, who=call.caller.who)
        published = people.box.latest()
        return Paused(is_paused=published is not None and published.board.is_paused, sentence=f"{rule} goes on.")
    still = people.decisions.resume(who=call.caller.who)
    return Paused(is_paused=bool(still), sentence=still)


def allow(people: People, call: Call) -> Allowed:
    """Lift a veto."""
    people.decisions.allow(call.body.node, who=call.caller.who)
    return Allowed(node=call.body.node)


def release_all(people: People, call: Call) -> ReleaseAsked:
    """Give everything back; the next beats do it."""
    body = call.body
    asked_at = people.decisions.release_all(reason=body.reason, marks=body.marks, who=call.caller.who)
    return ReleaseAsked(asked_at=asked_at)


def history(people: People, call: Call) -> GpuHistory:
    """One GPU's series."""
    query = call.query
    metrics = tuple(name for name in query.metric.split(",") if name)
    if not 0 < len(metrics) <= METRICS_MAX:
        raise ApiError(422, f"Give 1 to {METRICS_MAX} metrics, with commas between them; {len(metrics)} were given.")
    return people.memory.gpu_history(
        people.cluster,
        query.node,
        query.gpu,
        since=call.now - timedelta(seconds=query.since_seconds),
        until=call.now,
        metrics=metrics,
    )


def audit(people: People, call: Call) -> Audit:
    """Who did what."""
    return Audit(lines=people.memory.audit_lines(call.now - timedelta(seconds=call.query.since_seconds)))


def doctor(people: People, call: Call) -> Doctor:  # noqa: ARG001 - one shape for all handlers
    """Whether the daemon itself is well."""
    return Doctor(checks=people.checks())


def _command(people: People, call: Call) -> Command:
    found = people.memory.command(call.id) if call.id <= ID_MAX else None
    if found is None:
        raise ApiError(404, f"There is no recommendation R{call.id}.")
    return found


def _rows(people: People, call: Call, commands: tuple[Command, ...]) -> tuple[CommandRow, ...]:
    """Rows made now from the ledger, with what only the last board knows: mode, pause, records, refusals."""
    shown = board(people, call)
    measured = (people.memory.outcome(command.id) for command in commands if command.state.is_over)
    outcomes = {outcome.command_id: outcome for outcome in measured if outcome is not None}
    return command_rows(
        RowInput(
            at=call.now,
            snapshot=None,
            commands=commands,
            outcomes=outcomes,
            records={record.rule: record.text for record in shown.records},
            refusals=shown.refusals,
            mode=shown.mode,
            rule_modes=people.rule_modes,
            notice_seconds=people.notice_seconds,
            breakers=shown.breakers,
        )
    )
