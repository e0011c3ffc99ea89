"""Messages that belong to no incident (a digest): in the same outbox, once a rule, moment and target."""

from __future__ import annotations

from datetime import datetime

import sqlalchemy as sa

from trimtab.clock import unix_ms
from trimtab.model.oncall import Incident
from trimtab.model.outbox import Letter
from trimtab.store.facts import Facts
from trimtab.store.postings import letter_row
from trimtab.store.tables_outbox import outbox

NO_INCIDENT = 0
"""Incidents are numbered from 1."""
_MINUTE_MS = 60_000


class NoteFacts(Facts):
    """Notes of one cluster."""

    def is_noted(self, target: str, rule: str, due: datetime) -> bool:
        """Whether the note of this rule that was due then is in the outbox, or was."""
        wanted = (outbox.c.cluster == self.cluster, outbox.c.idem == f"{target}/{rule}-{_minutes(due)}")
        with self._database.read() as connection:
            return connection.execute(sa.select(outbox.c.id).where(*wanted)).first() is not None

    def note(self, letter: Letter, *, due: datetime, at: datetime) -> bool:
        """Put a note into the outbox; false where it is in it already, whoever put it there."""
        message = letter.message
        bearer = Incident(
            id=message.rule,
            cluster=self.cluster,
            rule=message.rule,
            severity=message.severity,
            subject=message.subject,
            title=message.title,
            opened_at=due,
            number=NO_INCIDENT,
        )
        row = letter_row(self.cluster, bearer, letter, sequence=_minutes(due), at=at, is_loud=False)
        with self._database.write() as connection:
            done = connection.execute(self._database.insert(outbox).values(row).on_conflict_do_nothing())
            return bool(done.rowcount)


def _minutes(moment: datetime) -> int:
    return unix_ms(moment) // _MINUTE_MS
