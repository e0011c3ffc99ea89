"""Incidents and the letters about them: written in the transaction of whatever made them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime

import sqlalchemy as sa

from trimtab.clock import unix_ms
from trimtab.model.command import AuditLine
from trimtab.model.oncall import Incident, Pager, Verb
from trimtab.model.outbox import WAITING, LetterState, Posting
from trimtab.store.facts import Facts
from trimtab.store.postings import NUMBERS_PER_QUERY, TELLING, numbers_key, write_postings
from trimtab.store.standing import write_lines
from trimtab.store.tables import meta
from trimtab.store.tables_outbox import inbound_acts, incidents, outbox
from trimtab.store.text import clean, from_json

_WAITING = tuple(state.value for state in WAITING)


class IncidentFacts(Facts):
    """The incidents of one cluster, and who pages for them."""

    def open_incidents(self) -> tuple[Incident, ...]:
        """All that stand, oldest first."""
        return self._incidents(incidents.c.is_open == sa.true())[::-1]

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
        key = numbers_key(self.cluster)
        highest = sa.select(sa.func.max(incidents.c.number)).where(incidents.c.cluster == self.cluster)
        with self._database.read() as connection:
            kept = connection.execute(sa.select(meta.c.value).where(meta.c.key == key)).scalar_one_or_none()
            return max(int(kept or 0), connection.execute(highest).scalar_one_or_none() or 0) + 1

    def told_targets(self, numbers: Iterable[int]) -> dict[int, frozenset[str]]:
        """Incident number -> targets that were told of it, or will be."""
        asked, found = list(numbers), dict[int, set[str]]()
        with self._database.read() as connection:
            for first in range(0, len(asked), NUMBERS_PER_QUERY):
                wanted = (
                    outbox.c.cluster == self.cluster,
                    outbox.c.incident.in_(asked[first : first + NUMBERS_PER_QUERY]),
                    outbox.c.verb.in_(TELLING),
                    outbox.c.state != LetterState.DROPPED.value,
                )
                rows = connection.execute(sa.select(outbox.c.incident, outbox.c.target).where(*wanted).distinct())
                for row in rows:
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
        return self._incidents(incidents.c.is_drill == sa.true())

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

    def forget_act(self, act: str) -> None:
        """What was noted could not be done: the same act is new again."""
        with self._database.write() as connection:
            mine = (inbound_acts.c.cluster == self.cluster, inbound_acts.c.id == clean(act))
            connection.execute(sa.delete(inbound_acts).where(*mine))

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
        if limit is not None:
            statement = statement.order_by(incidents.c.number.desc()).limit(limit)
        with self._database.read() as connection:
            rows = connection.execute(statement).all()
        found = (replace(from_json(row.body, Incident), sequence=row.sequence, version=row.version) for row in rows)
        # Asked for an order, SQLite would read every incident there ever was in place of the few that stand.
        return tuple(sorted(found, key=lambda one: one.number, reverse=True))


def _pager_key(cluster: str) -> str:
    return f"pager:{cluster}"
