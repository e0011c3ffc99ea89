"""What opens the door: people's tokens, their sessions, one-time links. Of secrets only SHA-256 is kept.

Tokens and sessions are in the store, so that a restart of the daemon signs nobody out; links live ten minutes, in
memory. What was read is believed for some seconds, and for longer only while the store is out of reach.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Protocol

from trimtab.clock import Clock
from trimtab.errors import StoreError
from trimtab.model.command import AuditLine
from trimtab.model.people import PersonSession, PersonToken, Role, SignedInBy

LINK_SECONDS = 600.0
"""A one-time link that nobody opened is dead after this long."""
LINKS_MAX = 64
SESSIONS_MAX = 512
"""More of either: the oldest goes."""
FRESH_SECONDS = 10.0
"""So long what was read is believed: what another daemon on the same database takes away is gone after it."""
NOTED_SECONDS = 60.0
"""When a token or session was last used is written this often at most."""
KNOWN_MAX = 2048
TOKEN_PREFIX = "trimtab_"
"""Lets scanners for leaked secrets find ours."""

_SECRET_BYTES = 32


class Register(Protocol):
    """Where tokens and sessions are kept; the history satisfies it by shape. Its methods raise StoreError."""

    def add_person_token(self, token: PersonToken, line: AuditLine) -> PersonToken:
        """Keep a new token; the answer has its id."""
        ...

    def person_token(self, sha256: str) -> PersonToken | None:
        """The token whose secret hashes to that, good or not."""
        ...

    def person_tokens(self) -> tuple[PersonToken, ...]:
        """All that were ever given, oldest first."""
        ...

    def revoke_person_token(self, token_id: int, at: datetime, line: AuditLine) -> PersonToken | None:
        """Let it open nothing any more, and end its sessions; None (and no line) where there is none of this id."""
        ...

    def person_token_used(self, token_id: int, at: datetime) -> None:
        """Note when it was last used."""
        ...

    def add_person_session(self, session: PersonSession, line: AuditLine, *, most: int) -> PersonSession:
        """Keep a new session, forget those that are over, and of more than `most` the oldest."""
        ...

    def person_session(self, sha256: str) -> tuple[PersonSession, PersonToken | None] | None:
        """The session whose secret hashes to that, with the token that opened it."""
        ...

    def person_sessions(self, at: datetime) -> tuple[PersonSession, ...]:
        """Those that are not over at that moment, oldest first."""
        ...

    def person_session_used(self, session_id: int, at: datetime) -> None:
        """Note when it was last used."""
        ...

    def end_person_session(self, session_id: int, line: AuditLine) -> bool:
        """Forget it; False (and no line) where there is none of this id."""
        ...


@dataclass(slots=True)
class _Known:
    """What was read of the store, when, and when its use was last noted (monotonic)."""

    token: PersonToken | None
    session: PersonSession | None
    read_at_seconds: float
    noted_at_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """What a one-time link stands for, until when (monotonic), and the token that asked for it."""

    who: str
    role: Role
    until_seconds: float
    token_id: int | None = None


class Passes:
    """Gives and knows tokens, sessions and links. Safe to call from several threads."""

    def __init__(
        self, *, register: Register, clock: Clock, audit_clock: Clock | None = None, session_seconds: float
    ) -> None:
        """`clock` must be a real one, as people's days are; audit lines are stamped by `audit_clock`."""
        self.session_seconds = session_seconds
        self._register = register
        self._clock = clock
        self._audit_clock = audit_clock or clock
        self._lock = threading.Lock()
        self._links: OrderedDict[str, Link] = OrderedDict()
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._changes = 0

    def now(self) -> datetime:
        """The moment by which tokens and sessions are good or over."""
        return self._clock.now()

    # --- tokens

    def give_token(self, *, name: str, role: Role, lasts_seconds: float | None, by: str) -> tuple[PersonToken, str]:
        """A new token and its secret, which is told this once."""
        secret, now = TOKEN_PREFIX + secrets.token_urlsafe(_SECRET_BYTES), self._clock.now()
        token = PersonToken(
            id=0,
            name=name,
            role=role,
            sha256=digest(secret),
            created_at=now,
            created_by=by,
            expires_at=None if lasts_seconds is None else now + timedelta(seconds=lasts_seconds),
        )
        until = "until it is revoked" if token.expires_at is None else f"until {token.expires_at:%Y-%m-%d %H:%M} UTC"
        line = self._line(by, "gave a token", f"{name}, role {role}, {until}")
        return self._register.add_person_token(token, line), secret

    def is_known_token(self, secret: str) -> bool:
        """Whether this token was read not long ago; asks nobody."""
        with self._lock:
            known = self._known.get(digest(secret))
        return known is not None and known.session is None

    def token(self, secret: str) -> PersonToken | None:
        """The token of this secret if it is good now; its use is noted."""
        sha256 = digest(secret)
        known = self._look(sha256, self._read_token)
        if known is None or known.token is None or not known.token.is_good(self._clock.now()):
            return None
        self._note(known, lambda at: self._register.person_token_used(known.token.id, at))  # type: ignore[union-attr]
        return known.token

    def tokens(self) -> tuple[PersonToken, ...]:
        """All that were ever given, oldest first."""
        return self._register.person_tokens()

    def revoke(self, token_id: int, *, by: str, why: str = "") -> PersonToken | None:
        """Let a token open nothing any more, and end its sessions and links at once; None where there is none such."""
        line = self._line(by, "revoked a token", f"T{token_id}" + (f": {why}" if why else ""))
        revoked = self._register.revoke_person_token(token_id, self._clock.now(), line)
        self._forget(lambda known: known.token is not None and known.token.id == token_id)
        with self._lock:
            for key in [key for key, link in self._links.items() if link.token_id == token_id]:
                del self._links[key]
        return revoked

    # --- sessions

    def open_session(
        self, *, who: str, role: Role, by: SignedInBy, token_id: int | None = None, peer: str = ""
    ) -> tuple[PersonSession, str]:
        """A new session and its secret: never one that the browser brought along."""
        secret, now = secrets.token_urlsafe(_SECRET_BYTES), self._clock.now()
        session = PersonSession(
            id=0,
            who=who,
            role=role,
            sha256=digest(secret),
            by=by,
            created_at=now,
            expires_at=now + timedelta(seconds=self.session_seconds),
            last_used_at=now,
            token_id=token_id,
            peer=peer,
        )
        line = self._line(who, "signed in", f"by {by}, role {role}" + (f", from {peer}" if peer else ""))
        return self._register.add_person_session(session, line, most=SESSIONS_MAX), secret

    def session(self, secret: str) -> PersonSession | None:
        """The session of this secret if it is good now; its use is noted."""
        known = self._look(digest(secret), self._read_session)
        if known is None or known.session is None:
            return None
        session, now = known.session, self._clock.now()
        if session.expires_at <= now or (session.token_id is not None and not _is_good(known.token, now)):
            return None
        self._note(known, lambda at: self._register.person_session_used(session.id, at))
        return session

    def sessions(self) -> tuple[PersonSession, ...]:
        """Those that are not over, oldest first."""
        return self._register.person_sessions(self._clock.now())

    def end_session(self, session_id: int, *, by: str, what: str) -> bool:
        """End a session at once; False where there is none of this id."""
        was_there = self._register.end_person_session(session_id, self._line(by, what, f"S{session_id}"))
        self._forget(lambda known: known.session is not None and known.session.id == session_id)
        return was_there

    # --- links

    def new_link(self, *, who: str, role: Role, token_id: int | None = None) -> str:
        """A secret that opens a session once, within ten minutes."""
        secret, now = secrets.token_urlsafe(_SECRET_BYTES), self._clock.monotonic_seconds()
        with self._lock:
            for key in [key for key, link in self._links.items() if link.until_seconds <= now]:
                del self._links[key]
            while len(self._links) >= LINKS_MAX:
                self._links.popitem(last=False)
            self._links[digest(secret)] = Link(who, role, now + LINK_SECONDS, token_id)
        return secret

    def use_link(self, secret: str) -> Link | None:
        """What the link stands for, which is used up by it; None when it is unknown, used or too old."""
        with self._lock:
            link = self._links.pop(digest(secret), None)
        return link if link is not None and link.until_seconds > self._clock.monotonic_seconds() else None

    # --- what was read, and how long it is believed

    def _look(self, sha256: str, read: Callable[[str], _Known | None]) -> _Known | None:
        now = self._clock.monotonic_seconds()
        with self._lock:
            known, changes = self._known.get(sha256), self._changes
        if known is not None and now - known.read_at_seconds < FRESH_SECONDS:
            return known
        try:
            found = read(sha256)
        except StoreError:
            if known is None:
                raise
            found = replace(known, read_at_seconds=now)  # the page stays up while the database is away
        if found is not None and known is not None:
            found.noted_at_seconds = known.noted_at_seconds
        self._keep(sha256, found, changes)
        return found

    def _keep(self, sha256: str, found: _Known | None, changes: int) -> None:
        with self._lock:
            # Read before something was taken away, it may be what was taken away: not to be believed any longer.
            if found is None or changes != self._changes:
                self._known.pop(sha256, None)
                return
            self._known[sha256] = found
            self._known.move_to_end(sha256)
            while len(self._known) > KNOWN_MAX:
                self._known.popitem(last=False)

    def _read_token(self, sha256: str) -> _Known | None:
        token = self._register.person_token(sha256)
        if token is None or not hmac.compare_digest(token.sha256, sha256):
            return None
        return _Known(token, None, self._clock.monotonic_seconds())

    def _read_session(self, sha256: str) -> _Known | None:
        found = self._register.person_session(sha256)
        if found is None or not hmac.compare_digest(found[0].sha256, sha256):
            return None
        return _Known(found[1], found[0], self._clock.monotonic_seconds())

    def _note(self, known: _Known, note: Callable[[datetime], None]) -> None:
        now = self._clock.monotonic_seconds()
        if known.noted_at_seconds is not None and now - known.noted_at_seconds < NOTED_SECONDS:
            return
        known.noted_at_seconds = now
        with suppress(StoreError):  # when somebody was last here is worth less than their being let in
            note(self._clock.now())

    def _forget(self, is_gone: Callable[[_Known], bool]) -> None:
        with self._lock:
            self._changes += 1
            for key in [key for key, known in self._known.items() if is_gone(known)]:
                del self._known[key]

    def _line(self, who: str, what: str, why: str) -> AuditLine:
        return AuditLine(at=self._audit_clock.now(), who=who, what=what, why=why)


def digest(secret: str) -> str:
    """SHA-256 of a secret, as it is kept: the secrets are 256 random bits, so no slow hash is needed."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()


def _is_good(token: PersonToken | None, at: datetime) -> bool:
    return token is not None and token.is_good(at)
