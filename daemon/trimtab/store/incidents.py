"""Incidents and the letters about them: written in the transaction of whatever made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import unix_ms
from trimtab.model.command import AuditLine
from trimtab.model.oncall import Incident, Message, Pager, Verb
from trimtab.model.outbox import Letter, LetterState, Posting
from trimtab.store.database import Database
from trimtab.store.facts import Facts
from trimtab.store.standing import write_lines
from trimtab.store.tables import meta
from trimtab.store.tables_outbox import inbound_acts, incidents, outbox
from trimtab.store.text import clean, from_json, to_json

_WAITING = (LetterState.READY.value, LetterState.LEASED.value)
_TELLING = (Verb.OPEN.value, Verb.UPDATE.value)


class IncidentFacts(Facts):
    """The incidents of one cluster, and who pages for them."""

    def open_incidents(self) -> tuple[Incident, ...]:
        """All that stand, oldest first."""
        return self._incidents(incidents.c.is_open.is_(True))[::-1]

    def incidents(
        self, *, is_open: bool | None = None, since: datetime | None = None, limit: int = 1000
    ) -> tuple[Incident, ...]:
        """Incidents (open, closed, or None = both) that stood at `since` or later, newest first."""
        wanted: list[sa.ColumnElement[bool]] = [] if is_open is None else [incidents.c.is_open.is_(is_open)]
        if since is not None:
            wanted.append(sa.or_(incidents.c.is_open.is_(True), incidents.c.closed_at_ms >= unix_ms(since)))
        return self._incidents(*wanted, limit=limit)

    def incident(self, number: int) -> Incident | None:
        """One incident by its number, or None."""
        found = self._incidents(incidents.c.number == number)
        return found[0] if found else None

    def next_incident_number(self) -> int:
        """The first number that no incident of the cluster has had."""
        key = _numbers_key(self.cluster)
        highest = sa.select(sa.func.max(incidents.c.number)).where(incidents.c.cluster == self.cluster)
        with self._database.read() as connection:
            kept = connection.execute(sa.select(meta.c.value).where(meta.c.key == key)).scalar_one_or_none()
            return max(int(kept or 0), connection.execute(highest).scalar_one_or_none() or 0) + 1

    def told_targets(self, numbers: Iterable[int]) -> dict[int, frozenset[str]]:
        """Incident number -> targets that were told of it, or will be."""
        wanted = (
            outbox.c.cluster == self.cluster,
            outbox.c.incident.in_(list(numbers)),
            outbox.c.verb.in_(_TELLING),
            outbox.c.state != LetterState.DROPPED.value,
        )
        found: dict[int, set[str]] = {}
        with self._database.read() as connection:
            for row in connection.execute(sa.select(outbox.c.incident, outbox.c.target).where(*wanted).distinct()):
                found.setdefault(row.incident, set()).add(row.target)
        return {number: frozenset(targets) for number, targets in found.items()}

    def openings_since(self, since: datetime) -> dict[str, int]:
        """Target -> openings that were written for it from then on, drills and summaries aside."""
        real = sa.and_(incidents.c.cluster == outbox.c.cluster, incidents.c.number == outbox.c.incident)
        counted = (
            outbox.c.cluster == self.cluster,
            outbox.c.created_at_ms >= unix_ms(since),
            outbox.c.verb == Verb.OPEN.value,
            incidents.c.is_drill.is_(False),
            incidents.c.rule != "summary",
        )
        columns = sa.select(outbox.c.target, sa.func.count().label("letters"))
        statement = columns.select_from(outbox.join(incidents, real)).where(*counted).group_by(outbox.c.target)
        with self._database.read() as connection:
            return {row.target: row.letters for row in connection.execute(statement)}

    def drills(self) -> tuple[Incident, ...]:
        """Drills that have not been forgotten, newest first."""
        return self._incidents(incidents.c.is_drill.is_(True))

    def post(self, postings: Sequence[Posting]) -> int:
        """Write postings that belong to no finding's change; how many were written (the others were overtaken)."""
        if not postings:
            return 0
        with self._database.write() as connection:
            return write_postings(self._database, connection, self.cluster, postings)

    def forget_drill(self, number: int) -> bool:
        """Remove a drill and its letters as if it had never been; False while one of them is on its way."""
        mine = (outbox.c.cluster == self.cluster, outbox.c.incident == number)
        drill = (incidents.c.cluster == self.cluster, incidents.c.number == number, incidents.c.is_drill.is_(True))
        with self._database.write() as connection:
            waits = sa.select(sa.func.count()).select_from(outbox).where(*mine, outbox.c.state.in_(_WAITING))
            if connection.execute(waits).scalar_one():
                return False
            if connection.execute(sa.delete(incidents).where(*drill, incidents.c.is_open.is_(False))).rowcount == 0:
                return False
            connection.execute(sa.delete(outbox).where(*mine))
        return True

    def is_act_new(self, act: str, *, at: datetime) -> bool:
        """Note what somebody did at a pager; False where it was noted before."""
        row = {"cluster": self.cluster, "id": clean(act), "at_ms": unix_ms(at)}
        insert = self._database.insert(inbound_acts).values(row).on_conflict_do_nothing()
        with self._database.write() as connection:
            return connection.execute(insert.returning(inbound_acts.c.id)).scalar_one_or_none() is not None

    def pager_switch(self) -> Pager | None:
        """Who pages, as it was last switched while running; None = never, the setting says."""
        with self._database.read() as connection:
            wanted = sa.select(meta.c.value).where(meta.c.key == _pager_key(self.cluster))
            value = connection.execute(wanted).scalar_one_or_none()
        return Pager(value) if value in set(Pager) else None

    def switch_pager(self, pager: Pager, *, who: str, why: str, at: datetime) -> None:
        """Let somebody else page from now on; what is open stays with whoever opened it."""
        upsert = self._database.insert(meta).values(key=_pager_key(self.cluster), value=pager.value)
        with self._database.write() as connection:
            connection.execute(upsert.on_conflict_do_update(index_elements=[meta.c.key], set_={"value": pager.value}))
            line = AuditLine(at=at, who=who, what=f"{pager.value} pages", why=why)
            write_lines(connection, self.cluster, [line])

    def _incidents(self, *wanted: sa.ColumnElement[bool], limit: int | None = None) -> tuple[Incident, ...]:
        columns = sa.select(incidents.c.body, incidents.c.sequence, incidents.c.version)
        statement = columns.where(incidents.c.cluster == self.cluster, *wanted)
        with self._database.read() as connection:
            rows = connection.execute(statement.order_by(incidents.c.number.desc()).limit(limit)).all()
        return tuple(replace(from_json(row.body, Incident), sequence=row.sequence, version=row.version) for row in rows)


def write_postings(database: Database, connection: Connection, cluster: str, postings: Iterable[Posting]) -> int:
    """Write what becomes of incidents and the letters about it, within a transaction; those overtaken are left out."""
    written = 0
    for posting in postings:
        if not _write_incident(database, connection, cluster, posting):
            continue
        written += 1
        _write_letters(database, connection, cluster, posting)
        at = posting.incident.changed_at or posting.incident.opened_at
        lines = [AuditLine(at=at, who=who, what=what, why=why, finding_id=posting.incident.finding)
                 for who, what, why in posting.audited]  # fmt: skip
        write_lines(connection, cluster, lines)
    return written


def _write_incident(database: Database, connection: Connection, cluster: str, posting: Posting) -> bool:
    """Whether it was as it had been read, and is now as it is to be."""
    incident, was = posting.incident, posting.was
    sequence = (was.sequence if was is not None else 0) + _steps(posting)
    row = _incident_row(cluster, replace(incident, sequence=sequence, version=incident.version + 1))
    if was is None:
        insert = database.insert(incidents).values(row).on_conflict_do_nothing().returning(incidents.c.number)
        if connection.execute(insert).scalar_one_or_none() is None:
            return False
        numbers = database.insert(meta).values(key=_numbers_key(cluster), value=str(incident.number))
        update = {"value": numbers.excluded.value}
        connection.execute(numbers.on_conflict_do_update(index_elements=[meta.c.key], set_=update))
        return True
    changed = {name: value for name, value in row.items() if name not in ("cluster", "number")}
    unchanged = (
        incidents.c.cluster == cluster,
        incidents.c.number == was.number,
        incidents.c.version == was.version,
    )
    return connection.execute(sa.update(incidents).where(*unchanged).values(changed)).rowcount == 1


def _steps(posting: Posting) -> int:
    return 1 if posting.letters or posting.for_others is not None else 0


def _write_letters(database: Database, connection: Connection, cluster: str, posting: Posting) -> None:
    incident = posting.incident
    sequence = (posting.was.sequence if posting.was is not None else 0) + 1
    letters = {letter.target: letter for letter in posting.letters}
    if posting.for_others is not None:
        for target in _told(connection, cluster, incident.number):
            letters.setdefault(target, Letter(target=target, message=posting.for_others))
    at = incident.changed_at or incident.opened_at
    for letter in letters.values():
        is_overtaken, is_loud = _collapse(connection, cluster, incident.number, letter, at)
        row = letter_row(cluster, incident, letter, sequence=sequence, at=at, is_loud=is_loud)
        if is_overtaken:
            row |= {"state": LetterState.DROPPED.value, "error": "opened and closed before it could be sent"}
        connection.execute(database.insert(outbox).on_conflict_do_nothing(), row)


def _told(connection: Connection, cluster: str, number: int) -> Sequence[str]:
    wanted = (
        outbox.c.cluster == cluster,
        outbox.c.incident == number,
        outbox.c.verb.in_(_TELLING),
        outbox.c.state != LetterState.DROPPED.value,
    )
    return connection.execute(sa.select(outbox.c.target).where(*wanted).distinct()).scalars().all()


def _collapse(connection: Connection, cluster: str, number: int, letter: Letter, at: datetime) -> tuple[bool, bool]:
    """Drop what this letter overtakes. Whether the letter itself has become pointless, and whether it must be loud.

    Only what surely has not arrived may be dropped: never tried, or each time refused.
    """
    unsent = sa.and_(
        outbox.c.cluster == cluster,
        outbox.c.target == letter.target,
        outbox.c.incident == number,
        outbox.c.state == LetterState.READY.value,
        outbox.c.is_unsure.is_(False),
    )
    verb, is_loud = letter.message.verb, letter.message.is_loud
    gone = {"state": LetterState.DROPPED.value, "error": "newer news came first", "done_at_ms": unix_ms(at)}
    if verb in (Verb.UPDATE, Verb.RESOLVE):
        updates = sa.and_(unsent, outbox.c.verb.in_((Verb.UPDATE.value, Verb.ACKNOWLEDGE.value)))
        ranks = connection.execute(sa.select(outbox.c.rank).where(updates)).scalars().all()
        connection.execute(sa.update(outbox).where(updates).values(gone))
        is_loud = is_loud or (verb is Verb.UPDATE and 0 in ranks)
    if verb is not Verb.RESOLVE or not letter.may_drop:
        return False, is_loud
    opening = sa.update(outbox).where(unsent, outbox.c.verb == Verb.OPEN.value).values(gone)
    return connection.execute(opening).rowcount > 0, is_loud


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


def _numbers_key(cluster: str) -> str:
    # Kept apart from the rows: a drill leaves none, and its number must not come back at the pager.
    return f"incident:{cluster}"


def _pager_key(cluster: str) -> str:
    return f"pager:{cluster}"
