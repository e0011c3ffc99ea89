"""Facts with a span: what a board of the past needs besides the GPUs, written down when it changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.store.database import Database
from trimtab.store.tables_rollup import rollup_facts
from trimtab.store.text import clean

NODE, JOB, PLACEMENT, QUEUE, BOARD, LOSS = "node", "job", "placement", "queue", "board", "loss"
"""A node's rack and state, a job's state, its ranks' GPUs, a queue's quota, the daemon's mode, GPUs lost to a cause."""

Key = tuple[str, str]
"""Kind and name."""


class FactBook:
    """Facts that stand, and since when."""

    def __init__(self, database: Database, *, cluster: str) -> None:
        """Take up those that stand in the database. Raises StoreError."""
        self._database = database
        self._cluster = cluster
        columns = (rollup_facts.c.kind, rollup_facts.c.name, rollup_facts.c.since_ms, rollup_facts.c.body)
        wanted = (rollup_facts.c.cluster == cluster, rollup_facts.c.until_ms.is_(None))
        with database.read() as connection:
            rows = connection.execute(sa.select(*columns).where(*wanted).order_by(rollup_facts.c.since_ms)).all()
        self._standing: dict[Key, tuple[int, str]] = {(row.kind, row.name): (row.since_ms, row.body) for row in rows}

    def standing(self, kind: str, name: str) -> str | None:
        """The body of a fact that stands."""
        found = self._standing.get((kind, name))
        return None if found is None else found[1]

    def adopt(self, connection: Connection, facts: Mapping[Key, str], *, at_ms: int, ended_ms: int) -> int:
        """Make these the facts that stand from `at_ms` on; others ended at `ended_ms`. How many changed."""
        facts = {(kind, _name(name)): clean(body) for (kind, name), body in facts.items()}
        over = [key for key, (_, body) in self._standing.items() if facts.get(key) != body]
        began = [key for key, body in facts.items() if key not in self._standing or self._standing[key][1] != body]
        self._end(connection, over, ended_ms)
        self._begin(connection, {key: facts[key] for key in began}, at_ms)
        for key in over:
            del self._standing[key]
        for key in began:
            self._standing[key] = (at_ms, facts[key])
        return len(over) + len(began)

    def _end(self, connection: Connection, keys: Iterable[Key], at_ms: int) -> None:
        rows = [
            {"of_kind": kind, "of_name": name, "of_since": since, "ended": max(at_ms, since)}
            for kind, name in keys
            for since in (self._standing[kind, name][0],)
        ]
        if rows:
            table = rollup_facts.c
            which = (
                table.cluster == self._cluster,
                table.kind == sa.bindparam("of_kind"),
                table.name == sa.bindparam("of_name"),
                table.since_ms == sa.bindparam("of_since"),
            )
            connection.execute(sa.update(rollup_facts).where(*which).values(until_ms=sa.bindparam("ended")), rows)

    def _begin(self, connection: Connection, facts: Mapping[Key, str], at_ms: int) -> None:
        rows: list[dict[str, Any]] = [
            {"cluster": self._cluster, "kind": kind, "name": name, "since_ms": at_ms, "until_ms": None, "body": body}
            for (kind, name), body in facts.items()
        ]
        if rows:
            insert = self._database.insert(rollup_facts)
            replaced = {"until_ms": None, "body": insert.excluded.body}
            key = [rollup_facts.c.cluster, rollup_facts.c.kind, rollup_facts.c.name, rollup_facts.c.since_ms]
            connection.execute(insert.on_conflict_do_update(index_elements=key, set_=replaced), rows)


def _name(name: str) -> str:
    return clean(name)[:500]
