"""People's tokens and sessions, found by the hash of their secret; the door of `show` asks for them."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any

import sqlalchemy as sa

from trimtab.clock import from_unix_ms, unix_ms
from trimtab.model.command import AuditLine
from trimtab.model.people import PersonSession, PersonToken, Role, SignedInBy
from trimtab.store.facts import Facts
from trimtab.store.standing import write_lines
from trimtab.store.tables_people import people_sessions, people_tokens
from trimtab.store.text import clean


class PeopleFacts(Facts):
    """The people of one cluster, as far as they were given tokens or have signed in."""

    def add_person_token(self, token: PersonToken, line: AuditLine) -> PersonToken:
        """Keep a new token; the answer has its id."""
        with self._database.write() as connection:
            made = connection.execute(sa.insert(people_tokens).returning(people_tokens.c.id), _token_row(self, token))
            number = int(made.scalar_one())
            write_lines(connection, self.cluster, [line])
        return replace(token, id=number)

    def person_token(self, sha256: str) -> PersonToken | None:
        """The token whose secret hashes to that, good or not."""
        wanted = (people_tokens.c.cluster == self.cluster, people_tokens.c.sha256 == sha256)
        with self._database.read() as connection:
            row = connection.execute(sa.select(people_tokens).where(*wanted)).one_or_none()
        return None if row is None else _token(row)

    def person_tokens(self) -> tuple[PersonToken, ...]:
        """All that were ever given, oldest first."""
        wanted = sa.select(people_tokens).where(people_tokens.c.cluster == self.cluster)
        with self._database.read() as connection:
            rows = connection.execute(wanted.order_by(people_tokens.c.id)).all()
        return tuple(_token(row) for row in rows)

    def revoke_person_token(self, token_id: int, at: datetime, line: AuditLine) -> PersonToken | None:
        """Let it open nothing any more, and end its sessions; None (and no line) where there is none of this id."""
        wanted = (people_tokens.c.cluster == self.cluster, people_tokens.c.id == token_id)
        its_sessions = (people_sessions.c.cluster == self.cluster, people_sessions.c.token_id == token_id)
        with self._database.write() as connection:
            found = connection.execute(sa.select(people_tokens).where(*wanted)).one_or_none()
            if found is None:
                return None
            if found.revoked_at_ms is None:
                connection.execute(sa.update(people_tokens).where(*wanted).values(revoked_at_ms=unix_ms(at)))
                write_lines(connection, self.cluster, [line])
            connection.execute(sa.delete(people_sessions).where(*its_sessions))
            return _token(connection.execute(sa.select(people_tokens).where(*wanted)).one())

    def person_token_used(self, token_id: int, at: datetime) -> None:
        """Note when it was last used."""
        wanted = (people_tokens.c.cluster == self.cluster, people_tokens.c.id == token_id)
        with self._database.write() as connection:
            connection.execute(sa.update(people_tokens).where(*wanted).values(last_used_at_ms=unix_ms(at)))

    def add_person_session(self, session: PersonSession, line: AuditLine, *, most: int) -> PersonSession:
        """Keep a new session, forget those that are over, and of more than `most` the oldest."""
        of_us = people_sessions.c.cluster == self.cluster
        with self._database.write() as connection:
            over = people_sessions.c.expires_at_ms <= unix_ms(session.created_at)
            connection.execute(sa.delete(people_sessions).where(of_us, over))
            row = _session_row(self, session)
            made = connection.execute(sa.insert(people_sessions).returning(people_sessions.c.id), row)
            number = int(made.scalar_one())
            newest = sa.select(people_sessions.c.id).where(of_us).order_by(people_sessions.c.id.desc()).limit(most)
            oldest = min(connection.execute(newest).scalars().all())
            connection.execute(sa.delete(people_sessions).where(of_us, people_sessions.c.id < oldest))
            write_lines(connection, self.cluster, [line])
        return replace(session, id=number)

    def person_session(self, sha256: str) -> tuple[PersonSession, PersonToken | None] | None:
        """The session whose secret hashes to that, with the token that opened it."""
        wanted = (people_sessions.c.cluster == self.cluster, people_sessions.c.sha256 == sha256)
        with self._database.read() as connection:
            row = connection.execute(sa.select(people_sessions).where(*wanted)).one_or_none()
            if row is None:
                return None
            opener = sa.select(people_tokens).where(people_tokens.c.id == row.token_id)
            token = connection.execute(opener).one_or_none() if row.token_id is not None else None
        return _session(row), None if token is None else _token(token)

    def person_sessions(self, at: datetime) -> tuple[PersonSession, ...]:
        """Those that are not over at that moment, oldest first."""
        wanted = (people_sessions.c.cluster == self.cluster, people_sessions.c.expires_at_ms > unix_ms(at))
        with self._database.read() as connection:
            rows = connection.execute(sa.select(people_sessions).where(*wanted).order_by(people_sessions.c.id)).all()
        return tuple(_session(row) for row in rows)

    def person_session_used(self, session_id: int, at: datetime) -> None:
        """Note when it was last used."""
        wanted = (people_sessions.c.cluster == self.cluster, people_sessions.c.id == session_id)
        with self._database.write() as connection:
            connection.execute(sa.update(people_sessions).where(*wanted).values(last_used_at_ms=unix_ms(at)))

    def end_person_session(self, session_id: int, line: AuditLine) -> bool:
        """Forget it; False (and no line) where there is none of this id."""
        wanted = (people_sessions.c.cluster == self.cluster, people_sessions.c.id == session_id)
        with self._database.write() as connection:
            if connection.execute(sa.delete(people_sessions).where(*wanted)).rowcount == 0:
                return False
            write_lines(connection, self.cluster, [line])
        return True


def _token_row(facts: Facts, token: PersonToken) -> dict[str, object]:
    return {
        "cluster": facts.cluster,
        "name": clean(token.name),
        "role": token.role.value,
        "sha256": token.sha256,
        "created_at_ms": unix_ms(token.created_at),
        "created_by": clean(token.created_by),
        "expires_at_ms": None if token.expires_at is None else unix_ms(token.expires_at),
    }


def _token(row: Any) -> PersonToken:  # noqa: ANN401 - SQLAlchemy's row
    return PersonToken(
        id=row.id,
        name=row.name,
        role=Role(row.role),
        sha256=row.sha256,
        created_at=from_unix_ms(row.created_at_ms),
        created_by=row.created_by,
        expires_at=None if row.expires_at_ms is None else from_unix_ms(row.expires_at_ms),
        revoked_at=None if row.revoked_at_ms is None else from_unix_ms(row.revoked_at_ms),
        last_used_at=None if row.last_used_at_ms is None else from_unix_ms(row.last_used_at_ms),
    )


def _session_row(facts: Facts, session: PersonSession) -> dict[str, object]:
    return {
        "cluster": facts.cluster,
        "who": clean(session.who),
        "role": session.role.value,
        "sha256": session.sha256,
        "signed_in_by": session.by.value,
        "token_id": session.token_id,
        "peer": clean(session.peer),
        "created_at_ms": unix_ms(session.created_at),
        "expires_at_ms": unix_ms(session.expires_at),
        "last_used_at_ms": unix_ms(session.last_used_at),
    }


def _session(row: Any) -> PersonSession:  # noqa: ANN401 - SQLAlchemy's row
    return PersonSession(
        id=row.id,
        who=row.who,
        role=Role(row.role),
        sha256=row.sha256,
        by=SignedInBy(row.signed_in_by),
        created_at=from_unix_ms(row.created_at_ms),
        expires_at=from_unix_ms(row.expires_at_ms),
        last_used_at=from_unix_ms(row.last_used_at_ms),
        token_id=row.token_id,
        peer=row.peer,
    )
