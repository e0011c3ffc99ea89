"""What is really in a daemon's database, read beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa
from tests.system.processes import Daemon

from trimtab.model.reading import Report
from trimtab.store.database import Database, open_database
from trimtab.store.journal import Journal
from trimtab.store.tables import journal


@dataclass(frozen=True, slots=True)
class Row:
    """One report of the journal; `id` is the order of arrival."""

    id: int
    spool_id: str
    sequence: int


class Records:
    """The journal of one daemon."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._journal = Journal(database)

    def rows(self, node: str, *, after: int = 0) -> list[Row]:
        """A node's reports in order of arrival, those that came after row `after`."""
        columns = (journal.c.id, journal.c.spool_id, journal.c.sequence)
        statement = sa.select(*columns).where(journal.c.node == node, journal.c.id > after).order_by(journal.c.id)
        with self._database.read() as connection:
            return [Row(*found) for found in connection.execute(statement)]

    def hang_up(self) -> None:
        """Forget connections that the server has cut; the next look makes new ones."""
        self._database.close()

    def last_id(self) -> int:
        with self._database.read() as connection:
            return int(connection.execute(sa.select(sa.func.coalesce(sa.func.max(journal.c.id), 0))).scalar_one())

    def reports(self, node: str, *, since: datetime) -> list[Report]:
        """A node's reports, whole."""
        return [one.report for one in self._journal.tail(since) if one.report.node == node]


@contextmanager
def records_of(daemon: Daemon) -> Iterator[Records]:
    """The journal of a daemon that has made its tables."""
    database = open_database(daemon.database_url, state_directory=daemon.state_directory)
    try:
        yield Records(database)
    finally:
        database.close()


def is_whole(rows: list[Row]) -> bool:
    """Whether one spool's sequences run from 1 without a gap, each once."""
    return len({row.spool_id for row in rows}) == 1 and sorted(row.sequence for row in rows) == list(
        range(1, len(rows) + 1)
    )
