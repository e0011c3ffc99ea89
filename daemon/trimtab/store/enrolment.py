"""Join tokens and nodes' credentials: one change after the other, each whole and with a version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import from_unix_ms, unix_ms
from trimtab.model.command import AuditLine
from trimtab.model.enrolment import Ended, JoinToken, NodeCredential
from trimtab.store.database import Database
from trimtab.store.facts import Facts
from trimtab.store.standing import write_lines
from trimtab.store.tables_enrolment import enrolment_versions, join_tokens, node_credentials
from trimtab.store.text import clean

_CREDENTIALS = node_credentials.c


class EnrolmentBook:
    """The rows within one change: nobody else changes any of this cluster meanwhile."""

    def __init__(self, database: Database, connection: Connection, cluster: str) -> None:
        """Take the cluster's turn: a second change waits here for the first."""
        self._connection = connection
        self._cluster = cluster
        first = database.insert(enrolment_versions).values(cluster=cluster, version=1)
        raised = first.on_conflict_do_update(
            index_elements=[enrolment_versions.c.cluster], set_={"version": enrolment_versions.c.version + 1}
        )
        self._version = int(connection.execute(raised.returning(enrolment_versions.c.version)).scalar_one())

    def token(self, sha256: str) -> JoinToken | None:
        """The join token whose secret hashes to that."""
        wanted = (join_tokens.c.cluster == self._cluster, join_tokens.c.sha256 == sha256)
        row = self._connection.execute(sa.select(join_tokens).where(*wanted)).one_or_none()
        return None if row is None else _token(row)

    def add_token(self, token: JoinToken) -> JoinToken:
        """Keep a new join token; the answer has its id."""
        row = {
            "cluster": self._cluster,
            "node": clean(token.node),
            "sha256": token.sha256,
            "created_at_ms": unix_ms(token.created_at),
            "created_by": clean(token.created_by),
            "expires_at_ms": unix_ms(token.expires_at),
            "is_again": token.is_again,
            "why": clean(token.why),
            "used_by": "",
            "used_from": "",
            "withdrawn_by": "",
        }
        made = self._connection.execute(sa.insert(join_tokens).returning(join_tokens.c.id), row)
        return replace(token, id=int(made.scalar_one()))

    def use_token(self, token: JoinToken, *, by: str, peer: str, at: datetime) -> None:
        """It is used up, by this credential."""
        self._set(join_tokens, token.id, used_at_ms=unix_ms(at), used_by=by, used_from=clean(peer))

    def withdraw_tokens(self, node: str, *, by: str, at: datetime) -> int:
        """Let no unused join token of a node be used any more; how many there were."""
        columns = join_tokens.c
        wanted = (columns.cluster == self._cluster, columns.node == clean(node))
        unused = (columns.used_at_ms.is_(None), columns.withdrawn_at_ms.is_(None))
        values = {"withdrawn_at_ms": unix_ms(at), "withdrawn_by": clean(by)}
        done = self._connection.execute(sa.update(join_tokens).where(*wanted, *unused).values(values))
        return int(done.rowcount)

    def credential(self, sha256: str) -> NodeCredential | None:
        """The credential whose secret hashes to that, of whichever node, ended or not."""
        wanted = (_CREDENTIALS.cluster == self._cluster, _CREDENTIALS.sha256 == sha256)
        row = self._connection.execute(sa.select(node_credentials).where(*wanted)).one_or_none()
        return None if row is None else _credential(row)

    def credentials(self, node: str) -> tuple[NodeCredential, ...]:
        """All of a node that have not ended, oldest first; some may have run out."""
        wanted = (_CREDENTIALS.cluster == self._cluster, _CREDENTIALS.node == clean(node))
        query = sa.select(node_credentials).where(*wanted, _CREDENTIALS.ended_at_ms.is_(None)).order_by(_CREDENTIALS.id)
        return tuple(_credential(row) for row in self._connection.execute(query))

    def is_known_elsewhere(self, sha256: str) -> bool:
        """Whether another cluster in this database has a credential of that hash."""
        query = sa.select(_CREDENTIALS.id).where(_CREDENTIALS.cluster != self._cluster, _CREDENTIALS.sha256 == sha256)
        return self._connection.execute(query).first() is not None

    def add_credential(self, credential: NodeCredential) -> NodeCredential:
        """Keep a new credential; the answer has its id."""
        row = {
            "cluster": self._cluster,
            "node": clean(credential.node),
            "sha256": credential.sha256,
            "join_id": credential.join_id,
            "enrolled_by": clean(credential.enrolled_by),
            "given_at_ms": unix_ms(credential.given_at),
            "expires_at_ms": unix_ms(credential.expires_at),
            "renewals": credential.renewals,
            "ended_by": "",
            "ended_why": "",
            "certificate_pem": credential.certificate_pem,
            "version": self._version,
        }
        made = self._connection.execute(sa.insert(node_credentials).returning(_CREDENTIALS.id), row)
        return replace(credential, id=int(made.scalar_one()))

    def end(self, credential: NodeCredential, *, how: Ended, by: str, why: str, at: datetime) -> None:
        """It opens nothing from now on."""
        self._set(
            node_credentials,
            credential.id,
            ended_at_ms=unix_ms(at),
            ended_how=how.value,
            ended_by=clean(by),
            ended_why=clean(why),
            version=self._version,
        )

    def ask_rotation(self, credential: NodeCredential, at: datetime) -> None:
        """Its agent is to make a new one."""
        self._set(node_credentials, credential.id, rotate_at_ms=unix_ms(at), version=self._version)

    def first_used(self, credential: NodeCredential, at: datetime) -> None:
        """The daemon has seen it come in for the first time."""
        self._set(
            node_credentials,
            credential.id,
            first_used_at_ms=unix_ms(at),
            last_used_at_ms=unix_ms(at),
            version=self._version,
        )

    def tell(self, line: AuditLine) -> None:
        """An audit line of this change."""
        write_lines(self._connection, self._cluster, [line])

    def _set(self, table: sa.Table, number: int, **values: object) -> None:
        self._connection.execute(sa.update(table).where(table.c.id == number).values(values))


class EnrolmentFacts(Facts):
    """What was ever handed out to nodes of one cluster."""

    @contextmanager
    def changing(self) -> Iterator[EnrolmentBook]:
        """One change, durable when it returns; nothing happened when it raises. Raises StoreError."""
        with self._database.write() as connection:
            yield EnrolmentBook(self._database, connection, self.cluster)

    def version(self) -> int:
        """Raised by every change; 0 before the first."""
        query = sa.select(enrolment_versions.c.version).where(enrolment_versions.c.cluster == self.cluster)
        with self._database.read() as connection:
            return int(connection.execute(query).scalar_one_or_none() or 0)

    def credentials_since(self, version: int) -> tuple[int, tuple[NodeCredential, ...]]:
        """The version now, and the credentials that changed after that one."""
        now = sa.select(enrolment_versions.c.version).where(enrolment_versions.c.cluster == self.cluster)
        changed = sa.select(node_credentials).where(
            _CREDENTIALS.cluster == self.cluster, _CREDENTIALS.version > version
        )
        with self._database.read() as connection:
            # The version first: a change that comes in between is then read twice, never missed.
            latest = int(connection.execute(now).scalar_one_or_none() or 0)
            if latest <= version:
                return latest, ()
            return latest, tuple(_credential(row) for row in connection.execute(changed.order_by(_CREDENTIALS.id)))

    def credentials(self) -> tuple[NodeCredential, ...]:
        """All that are kept, oldest first."""
        query = sa.select(node_credentials).where(_CREDENTIALS.cluster == self.cluster).order_by(_CREDENTIALS.id)
        with self._database.read() as connection:
            return tuple(_credential(row) for row in connection.execute(query))

    def join_tokens(self) -> tuple[JoinToken, ...]:
        """All that are kept, oldest first."""
        query = sa.select(join_tokens).where(join_tokens.c.cluster == self.cluster).order_by(join_tokens.c.id)
        with self._database.read() as connection:
            return tuple(_token(row) for row in connection.execute(query))

    def note_used(self, used: Mapping[int, datetime]) -> None:
        """When credentials were last used, by id."""
        rows: Sequence[dict[str, int]] = [{"number": number, "at": unix_ms(at)} for number, at in used.items()]
        if not rows:
            return
        statement = (
            sa.update(node_credentials)
            .where(_CREDENTIALS.id == sa.bindparam("number"))
            .values(last_used_at_ms=sa.bindparam("at"))
        )
        with self._database.write() as connection:
            connection.execute(statement, rows)

    def prune(self, before: datetime) -> int:
        """Forget what ended, ran out or was used up before that moment; how many rows."""
        old = unix_ms(before)
        tokens = join_tokens.c
        over_tokens = sa.or_(tokens.used_at_ms < old, tokens.withdrawn_at_ms < old, tokens.expires_at_ms < old)
        over = sa.or_(_CREDENTIALS.ended_at_ms < old, _CREDENTIALS.expires_at_ms < old)
        used_up = sa.delete(join_tokens).where(tokens.cluster == self.cluster, over_tokens)
        ended = sa.delete(node_credentials).where(_CREDENTIALS.cluster == self.cluster, over)
        with self._database.write() as connection:
            return int(connection.execute(used_up).rowcount) + int(connection.execute(ended).rowcount)


def _moment(at_ms: int | None) -> datetime | None:
    return None if at_ms is None else from_unix_ms(at_ms)


def _token(row: Any) -> JoinToken:  # noqa: ANN401 - SQLAlchemy's row
    return JoinToken(
        id=row.id,
        node=row.node,
        sha256=row.sha256,
        created_at=from_unix_ms(row.created_at_ms),
        created_by=row.created_by,
        expires_at=from_unix_ms(row.expires_at_ms),
        is_again=row.is_again,
        why=row.why,
        used_at=_moment(row.used_at_ms),
        used_by=row.used_by,
        used_from=row.used_from,
        withdrawn_at=_moment(row.withdrawn_at_ms),
        withdrawn_by=row.withdrawn_by,
    )


def _credential(row: Any) -> NodeCredential:  # noqa: ANN401 - SQLAlchemy's row
    return NodeCredential(
        id=row.id,
        node=row.node,
        sha256=row.sha256,
        join_id=row.join_id,
        enrolled_by=row.enrolled_by,
        given_at=from_unix_ms(row.given_at_ms),
        expires_at=from_unix_ms(row.expires_at_ms),
        renewals=row.renewals,
        first_used_at=_moment(row.first_used_at_ms),
        last_used_at=_moment(row.last_used_at_ms),
        ended_at=_moment(row.ended_at_ms),
        ended_how=None if row.ended_how is None else Ended(row.ended_how),
        ended_by=row.ended_by,
        ended_why=row.ended_why,
        rotate_at=_moment(row.rotate_at_ms),
        certificate_pem=row.certificate_pem,
    )
