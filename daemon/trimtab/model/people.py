"""People and what they may do: roles, their tokens, their sessions at the page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class Role(StrEnum):
    """What somebody may do."""

    VIEWER = "viewer"
    """Reads everything, changes nothing."""
    OPERATOR = "operator"
    """Also decides: approves, rejects, snoozes, undoes, pauses, acknowledges, silences."""
    ADMIN = "admin"
    """Also gives and takes away tokens and sessions, and releases everything."""
    WEBHOOK = "webhook"
    """A program that delivers to the webhooks, and nothing else."""

    def covers(self, needed: Role) -> bool:
        """Whether who has this role may do what `needed` is asked for; a webhook's role is apart from people's."""
        if Role.WEBHOOK in (self, needed):
            return self is needed
        return _PEOPLE.index(self) >= _PEOPLE.index(needed)


_PEOPLE = (Role.VIEWER, Role.OPERATOR, Role.ADMIN)


class SignedInBy(StrEnum):
    """How it is known who somebody is."""

    TOKEN = "token"
    LINK = "link"
    PROXY = "proxy"


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonToken:
    """A token that was given to a person or a program; the secret itself is nowhere, `sha256` is all that is kept."""

    id: int
    name: str
    role: Role
    sha256: str
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None

    def is_good(self, at: datetime) -> bool:
        """Whether it opens anything at that moment."""
        return self.revoked_at is None and (self.expires_at is None or at < self.expires_at)


@dataclass(frozen=True, slots=True, kw_only=True)
class PersonSession:
    """A browser that somebody signed in with; of its secret only `sha256` is kept."""

    id: int
    who: str
    role: Role
    sha256: str
    by: SignedInBy
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime
    token_id: int | None = None
    """The token that opened it: revoked or run out, the session is over too."""
    peer: str = ""
    """The address that it was opened from."""
