"""Writes what becomes of incidents, and the letters about it, within the transaction of whatever made them.

What opens is written in three statements however much opens at once; what goes on or ends, one incident at a time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import unix_ms
from trimtab.model.command import AuditLine
from trimtab.model.oncall import Incident, Message, Verb
from trimtab.model.outbox import Letter, LetterState, Posting
from trimtab.store.database import Database
from trimtab.store.standing import write_lines
from trimtab.store.tables import meta
from trimtab.store.tables_outbox import incidents, outbox
from trimtab.store.text import clean, to_json

NUMBERS_PER_QUERY = 5000
"""Both engines bound how many values one statement may carry."""
TELLING = (Verb.OPEN.value, Verb.UPDATE.value)
_Rows = list[dict[str, Any]]

# Made once: building a statement costs more than running it.
_MINE = (outbox.c.cluster == sa.bindparam("in_cluster"), outbox.c.incident == sa.bindparam("about"))
_TOLD = (
    sa.select(outbox.c.target)
    .where(*_MINE, outbox.c.verb.in_(TELLING), outbox.c.state != LetterState.DROPPED.value)
    .distinct()
)
# Only what surely has not arrived may be dropped: never tried, or each time refused.
_UNSENT = (
    *_MINE,
    outbox.c.target == sa.bindparam("at_target"),
    outbox.c.state == LetterState.READY.value,
    outbox.c.is_unsure.is_(False),
)
_DROP = (
    sa.update(outbox)
    .where(*_UNSENT, outbox.c.verb.in_(sa.bindparam("verbs", expanding=True)))
    .values(state=LetterState.DROPPED.value, error="newer news came first", done_at_ms=sa.bindparam("now_ms"))
    .returning(outbox.c.verb, outbox.c.rank)
)
_CHANGE = (
    sa.update(incidents)
    .where(
        incidents.c.cluster == sa.bindparam("in_cluster"),
        incidents.c.number == sa.bindparam("about"),
        incidents.c.version == sa.bindparam("as_read"),
    )
    .values(
        {
            column.name: sa.bindparam(f"new_{column.name}")
            for column in incidents.columns
            if column.name not in ("cluster", "number")
        }
    )
)


def write_postings(database: Database, connection: Connection, cluster: str, postings: Sequence[Posting]) -> int:
    """How many were written; those that were overtaken are left out whole."""
    opened, postings = _opened(database, connection, cluster, postings)
    written = [
        one
        for one in postings
        if (one.incident.number in opened if one.was is None else _change(connection, cluster, one))
    ]
    rows = [row for one in written for row in _letters(connection, cluster, one)]
    if rows:
        connection.execute(database.insert(outbox).on_conflict_do_nothing(), rows)
    write_lines(connection, cluster, [line for one in written for line in _audit(one)])
    return len(written)


def _opened(
    database: Database, connection: Connection, cluster: str, postings: Sequence[Posting]
) -> tuple[frozenset[int], Sequence[Posting]]:
    """Open what is new. The numbers that it has, and the postings that may be written.

    A summary comes before its members: where its number was taken meanwhile (a drill), they are left to the next beat
    with it, else they would be told in sum by whatever has that number.
    """
    new = [one for one in postings if one.was is None]
    summed = {one.incident.summed_in for one in postings}
    summaries = [one for one in new if one.incident.number in summed]
    opened = _open(database, connection, cluster, summaries)
    lost = {one.incident.number for one in summaries} - opened
    kept = [one for one in postings if one.incident.summed_in not in lost]
    rest = [one for one in kept if one.was is None and one.incident.number not in summed]
    opened |= _open(database, connection, cluster, rest)
    if opened:
        highest = database.insert(meta).values(key=numbers_key(cluster), value=str(max(opened)))
        update = {"value": highest.excluded.value}
        connection.execute(highest.on_conflict_do_update(index_elements=[meta.c.key], set_=update))
    return opened, kept


def _open(database: Database, connection: Connection, cluster: str, postings: Sequence[Posting]) -> frozenset[int]:
    """Numbers of the incidents that are new indeed: nobody has opened one of the same name or number meanwhile."""
    if not postings:
        return frozenset()
    rows = [_incident_row(cluster, _counted(one)) for one in postings]
    insert = database.insert(incidents).on_conflict_do_nothing().returning(incidents.c.number)
    return frozenset(connection.execute(insert, rows).scalars())


def _change(connection: Connection, cluster: str, posting: Posting) -> bool:
    """Whether it was as it had been read, and is now as it is to be."""
    was = posting.was
    if was is None:
        return False
    row = _incident_row(cluster, _counted(posting))
    values = {f"new_{name}": value for name, value in row.items() if name not in ("cluster", "number")}
    where = {"in_cluster": cluster, "about": was.number, "as_read": was.version}
    return connection.execute(_CHANGE, {**values, **where}).rowcount == 1


def _counted(posting: Posting) -> Incident:
    """With one more letter, if there is one, and one more change."""
    is_told = bool(posting.letters) or posting.for_others is not None
    before = posting.was.sequence if posting.was is not None else 0
    return replace(posting.incident, sequence=before + is_told, version=posting.incident.version + 1)


def _letters(connection: Connection, cluster: str, posting: Posting) -> _Rows:
    """The letters of a posting as rows; what they overtake is dropped."""
    incident = posting.incident
    letters = {letter.target: letter for letter in posting.letters}
    if posting.for_others is not None:
        told = connection.execute(_TOLD, {"in_cluster": cluster, "about": incident.number}).scalars()
        for target in told:
            letters.setdefault(target, Letter(target=target, message=posting.for_others))
    sequence = (posting.was.sequence if posting.was is not None else 0) + 1
    at = incident.changed_at or incident.opened_at
    rows: _Rows = []
    for letter in letters.values():
        is_overtaken, is_loud = False, letter.message.is_loud
        if posting.was is not None:
            is_overtaken, is_loud = _collapse(connection, cluster, incident.number, letter, at)
        row = letter_row(cluster, incident, letter, sequence=sequence, at=at, is_loud=is_loud)
        if is_overtaken:
            row |= {"state": LetterState.DROPPED.value, "error": "opened and closed before it could be sent"}
        rows.append(row)
    return rows


def _collapse(connection: Connection, cluster: str, number: int, letter: Letter, at: datetime) -> tuple[bool, bool]:
    """Drop what this letter overtakes. Whether the letter itself has become pointless, and whether it must be loud."""
    verb, is_loud = letter.message.verb, letter.message.is_loud
    overtaken = {Verb.UPDATE.value} if verb is Verb.UPDATE else set[str]()
    if verb is Verb.RESOLVE:
        overtaken = {Verb.UPDATE.value, Verb.ACKNOWLEDGE.value}
        if letter.may_drop:
            overtaken.add(Verb.OPEN.value)
    if not overtaken:
        return False, is_loud
    where = {"in_cluster": cluster, "about": number, "at_target": letter.target, "now_ms": unix_ms(at)}
    # What a worker has taken at this very moment is not among them: only what is returned was dropped.
    gone = connection.execute(_DROP, {**where, "verbs": sorted(overtaken)}).all()
    is_pointless = any(row.verb == Verb.OPEN.value for row in gone)
    return is_pointless, is_loud or (verb is Verb.UPDATE and any(row.rank == 0 for row in gone))


def _audit(posting: Posting) -> Iterable[AuditLine]:
    at = posting.incident.changed_at or posting.incident.opened_at
    for who, what, why in posting.audited:
        yield AuditLine(at=at, who=who, what=what, why=why, finding_id=posting.incident.finding)


def letter_row(
    cluster: str, incident: Incident, letter: Letter, *, sequence: int, at: datetime, is_loud: bool
) -> dict[str, Any]:
    """A letter as a row of the outbox, with its place and id."""
    message: Message = replace(
        letter.message, sequence=sequence, id=f"{incident.id}-{sequence}", is_loud=is_loud, key=incident.key
    )
    return {
        "cluster": cluster,
        "target": letter.target,
        "incident": incident.number,
        "sequence": sequence,
        "idem": f"{letter.target}/{message.id}",
        "verb": message.verb.value,
        "rank": 0 if is_loud else letter.rank,
        "state": LetterState.READY.value,
        "attempts": 0,
        "is_unsure": False,
        "created_at_ms": unix_ms(at),
        "not_before_ms": unix_ms(letter.not_before or at),
        "error": "",
        "remark": "",
        "remote_id": "",
        "body": to_json(message),
    }


def _incident_row(cluster: str, incident: Incident) -> dict[str, Any]:
    def ms(moment: datetime | None) -> int | None:
        return None if moment is None else unix_ms(moment)

    return {
        "cluster": cluster,
        "number": incident.number,
        "incident": clean(incident.incident),
        "finding_id": incident.finding,
        "is_open": incident.is_open,
        "is_drill": incident.is_drill,
        "pager": incident.pager.value,
        "rule": incident.rule,
        "severity": incident.severity.value,
        "node": clean(incident.subject.node),
        "workload": clean(incident.subject.workload),
        "queue": clean(incident.queue) or None,
        "first_line": clean(incident.first_line),
        "quiet": clean(incident.quiet),
        "sequence": incident.sequence,
        "version": incident.version,
        "opened_at_ms": unix_ms(incident.opened_at),
        "paged_at_ms": ms(incident.paged_at),
        "acknowledged_at_ms": ms(incident.acknowledged_at),
        "acknowledged_by": clean(incident.acknowledged_by) or None,
        "closed_at_ms": ms(incident.closed_at),
        "body": to_json(incident),
    }


def numbers_key(cluster: str) -> str:
    """Where the highest number is kept."""
    # Kept apart from the rows: a drill leaves none, and its number must not come back at the pager.
    return f"incident:{cluster}"
