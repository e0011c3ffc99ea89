"""People's tokens and sessions in memory, held to the promises of `show.passes.Register` as the history is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from trimtab.errors import StoreError
from trimtab.model.command import AuditLine
from trimtab.model.people import PersonSession, PersonToken


class FakeRegister:
    """`is_away`: the database is out of reach. `at_read` runs after a read and before its answer: a race."""

    def __init__(self) -> None:
        self.token_rows: dict[int, PersonToken] = {}
        self.session_rows: dict[int, PersonSession] = {}
        self.lines: list[AuditLine] = []
        self.is_away = False
        self.reads = 0
        self.at_read: Callable[[], None] = lambda: None

    def add_person_token(self, token: PersonToken, line: AuditLine) -> PersonToken:
        self._reach()
        made = replace(token, id=max(self.token_rows, default=0) + 1)
        self.token_rows[made.id] = made
        self.lines.append(line)
        return made

    def person_token(self, sha256: str) -> PersonToken | None:
        self._reach()
        self.reads += 1
        found = next((one for one in self.token_rows.values() if one.sha256 == sha256), None)
        self.at_read()
        return found

    def person_tokens(self) -> tuple[PersonToken, ...]:
        self._reach()
        return tuple(self.token_rows[number] for number in sorted(self.token_rows))

    def revoke_person_token(self, token_id: int, at: datetime, line: AuditLine) -> PersonToken | None:
        self._reach()
        found = self.token_rows.get(token_id)
        if found is None:
            return None
        if found.revoked_at is None:
            found = self.token_rows[token_id] = replace(found, revoked_at=at)
            self.lines.append(line)
        for session in [one for one in self.session_rows.values() if one.token_id == token_id]:
            del self.session_rows[session.id]
        return found

    def person_token_used(self, token_id: int, at: datetime) -> None:
        self._reach()
        self.token_rows[token_id] = replace(self.token_rows[token_id], last_used_at=at)

    def add_person_session(self, session: PersonSession, line: AuditLine, *, most: int) -> PersonSession:
        self._reach()
        for over in [one for one in self.session_rows.values() if one.expires_at <= session.created_at]:
            del self.session_rows[over.id]
        made = replace(session, id=max(self.session_rows, default=0) + 1)
        self.session_rows[made.id] = made
        for number in sorted(self.session_rows)[:-most]:
            del self.session_rows[number]
        self.lines.append(line)
        return made

    def person_session(self, sha256: str) -> tuple[PersonSession, PersonToken | None] | None:
        self._reach()
        self.reads += 1
        found = next((one for one in self.session_rows.values() if one.sha256 == sha256), None)
        token = self.token_rows.get(found.token_id) if found is not None and found.token_id is not None else None
        self.at_read()
        return None if found is None else (found, token)

    def person_sessions(self, at: datetime) -> tuple[PersonSession, ...]:
        self._reach()
        return tuple(
            self.session_rows[key] for key in sorted(self.session_rows) if self.session_rows[key].expires_at > at
        )

    def person_session_used(self, session_id: int, at: datetime) -> None:
        self._reach()
        if session_id in self.session_rows:
            self.session_rows[session_id] = replace(self.session_rows[session_id], last_used_at=at)

    def end_person_session(self, session_id: int, line: AuditLine) -> bool:
        self._reach()
        if self.session_rows.pop(session_id, None) is None:
            return False
        self.lines.append(line)
        return True

    def _reach(self) -> None:
        if self.is_away:
            raise StoreError("the database is out of reach.")
