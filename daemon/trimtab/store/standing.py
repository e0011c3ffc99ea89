"""The ledger's id, what stands until it is lifted, and the audit."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import Any

import sqlalchemy as sa
import structlog
from sqlalchemy.engine import Connection

from trimtab.clock import from_unix_ms, unix_ms
from trimtab.model.command import AuditLine
from trimtab.model.standing import Standing, StandingKind
from trimtab.store.database import TERM, TOLD
from trimtab.store.facts import Facts
from trimtab.store.tables import audit, meta, standing
from trimtab.store.text import clean, from_json, to_json

log = structlog.get_logger()


class StandingFacts(Facts):
    """What belongs to no single command; one transaction a method, committed on return."""

    @cached_property
    def ledger(self) -> str:
        """Eight hex digits, made once a database and cluster: whose marks are ours, whatever else writes there."""
        key = f"ledger:{self.cluster}"
        insert = self._database.insert(meta).values(key=key, value=secrets.token_hex(4))
        with self._database.write() as connection:
            connection.execute(insert.on_conflict_do_nothing(index_elements=[meta.c.key]))
            return str(connection.execute(sa.select(meta.c.value).where(meta.c.key == key)).scalar_one())

    def standing(self, kind: StandingKind) -> tuple[Standing, ...]:
        """Everything of a kind that has not been lifted, by name; what is over by time is there too."""
        wanted = (standing.c.cluster == self.cluster, standing.c.kind == kind.value)
        statement = sa.select(standing.c.body).where(*wanted).order_by(standing.c.name)
        with self._database.read() as connection:
            bodies = connection.execute(statement).scalars().all()
        return tuple(from_json(body, Standing) for body in bodies)

    def stand(self, fact: Standing, *, what: str, at: datetime) -> None:
        """Let a fact stand, in the place of an older one of its name, with its audit line (`what`)."""
        row = {
            "cluster": self.cluster,
            "kind": fact.kind.value,
            "name": clean(fact.name),
            "since_ms": unix_ms(fact.since),
            "until_ms": None if fact.until is None else unix_ms(fact.until),
            "command_id": fact.command_id,
            "who": clean(fact.who),
            "why": clean(fact.why),
            "body": to_json(fact),
        }
        upsert = self._database.insert(standing)
        key = [standing.c.cluster, standing.c.kind, standing.c.name]
        replaced = {name: upsert.excluded[name] for name in row if name not in ("cluster", "kind", "name")}
        with self._database.write() as connection:
            connection.execute(upsert.on_conflict_do_update(index_elements=key, set_=replaced), row)
            line = AuditLine(at=at, who=fact.who, what=what, why=fact.why, command_id=fact.command_id)
            write_lines(connection, self.cluster, [line])

    def lift(self, kind: StandingKind, name: str, *, who: str, what: str, why: str, at: datetime) -> bool:
        """Let it stand no more, with its audit line; False (and no line) where it does not stand."""
        wanted = (standing.c.cluster == self.cluster, standing.c.kind == kind.value, standing.c.name == clean(name))
        with self._database.write() as connection:
            if connection.execute(sa.delete(standing).where(*wanted)).rowcount == 0:
                return False
            write_lines(connection, self.cluster, [AuditLine(at=at, who=who, what=what, why=why)])
        return True

    def audit(self, lines: Sequence[AuditLine]) -> None:
        """Append audit lines that belong to no change of a command."""
        with self._database.write() as connection:
            write_lines(connection, self.cluster, lines)

    def audit_lines(self, since: datetime) -> tuple[AuditLine, ...]:
        """Audit lines at or after `since`, oldest first."""
        wanted = (audit.c.cluster == self.cluster, audit.c.at_ms >= unix_ms(since))
        with self._database.read() as connection:
            rows = connection.execute(sa.select(audit).where(*wanted).order_by(audit.c.at_ms, audit.c.id)).all()
        return tuple(
            AuditLine(
                at=from_unix_ms(row.at_ms),
                who=row.who,
                what=row.what,
                why=row.why,
                command_id=row.command_id,
                finding_id=row.finding_id,
            )
            for row in rows
        )


def write_lines(connection: Connection, cluster: str, lines: Iterable[AuditLine], *, term: int | None = None) -> None:
    """Append audit lines within a transaction, each with the term that it was written in."""
    written_in = connection.get_execution_options().get(TERM) if term is None else term
    rows = [
        {
            "cluster": cluster,
            "at_ms": unix_ms(line.at),
            "who": clean(line.who),
            "what": clean(line.what),
            "why": clean(line.why),
            "command_id": line.command_id,
            "finding_id": line.finding_id,
            "term": written_in,
        }
        for line in lines
    ]
    if rows:
        connection.execute(sa.insert(audit), rows)
        connection.info.get(TOLD, []).append(lambda: _tell(cluster, rows))


def _tell(cluster: str, rows: Iterable[Mapping[str, Any]]) -> None:
    """Each audit line as a line of the log, which leaves the host where the journal does."""
    for row in rows:
        finding = {"finding": f"F{row['finding_id']}"} if row["finding_id"] else {}
        command = {"command": f"R{row['command_id']}"} if row["command_id"] else {}
        said = f"{row['who']}: {row['what']}" + (f" ({row['why']})" if row["why"] else "")
        log.info("audit", said=said, who=row["who"], what=row["what"], cluster=cluster, **command, **finding)
