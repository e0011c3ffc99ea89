"""What the API says of people: who one is, tokens, sessions."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Struct

from trimtab.model.people import PersonSession, PersonToken, Role, SignedInBy
from trimtab.show.api_types import _Body

PersonName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.@+-]{0,63}$(?!\n)")]
"""`$` alone would let a line break at the end pass."""
DAYS_MAX = 3660


class SignIn(_Body, frozen=True, kw_only=True):
    """A person's token; the answer sets the session's cookie."""

    token: Annotated[str, Meta(min_length=1, max_length=500)]


class GiveToken(_Body, frozen=True, kw_only=True):
    """A token for a person or a program; without `days` it is good until it is revoked."""

    name: PersonName
    role: Role
    days: Annotated[float, Meta(gt=0, le=DAYS_MAX)] | None = None


class Revoke(_Body, frozen=True, kw_only=True):
    """Why; kept in the audit."""

    reason: Annotated[str, Meta(max_length=500)] = ""


class AskLink(_Body, frozen=True, kw_only=True):
    """A page address that works once; its session has this role, an operator's and one's own at most."""

    role: Literal["viewer", "operator"] | None = None


class Me(Struct, frozen=True, kw_only=True):
    """Who is signed in, what they may do, and what their page sends along with each act (X-Trimtab-CSRF)."""

    name: str
    role: Role
    signed_in_by: SignedInBy
    csrf: str = ""
    session_id: int | None = None
    expires_at: datetime | None = None


class TokenRow(Struct, frozen=True, kw_only=True):
    """One token, without its secret."""

    id: int
    name: str
    role: Role
    is_good: bool
    created_at: datetime
    created_by: str
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    last_used_at: datetime | None = None


class Tokens(Struct, frozen=True, kw_only=True):
    """All tokens that were ever given, oldest first."""

    tokens: tuple[TokenRow, ...]


class TokenGiven(Struct, frozen=True, kw_only=True):
    """A new token; `secret` is told this once and kept nowhere."""

    token: TokenRow
    secret: str


class SessionRow(Struct, frozen=True, kw_only=True):
    """One browser that somebody is signed in with."""

    id: int
    who: str
    role: Role
    signed_in_by: SignedInBy
    created_at: datetime
    expires_at: datetime
    last_used_at: datetime
    peer: str = ""
    is_this: bool = False


class Sessions(Struct, frozen=True, kw_only=True):
    """Sessions that are not over: an admin sees all, others their own."""

    sessions: tuple[SessionRow, ...]


class NamesQuery(Struct, frozen=True, kw_only=True):
    """Which names, for somebody who has begun to type one."""

    kind: Literal["node", "job", "queue", "finding", "recommendation"]
    begins: Annotated[str, Meta(max_length=253)] = ""
    limit: Annotated[int, Meta(ge=1, le=200)] = 100


class NameRow(Struct, frozen=True, kw_only=True):
    """A name, and a few words on what it is."""

    name: str
    about: str = ""


class Names(Struct, frozen=True, kw_only=True):
    """Names that stand now, in order."""

    names: tuple[NameRow, ...]


class Ended(Struct, frozen=True, kw_only=True):
    """What is over now."""

    sentence: str


def token_row(token: PersonToken, at: datetime) -> TokenRow:
    """A token as people see it."""
    return TokenRow(
        id=token.id,
        name=token.name,
        role=token.role,
        is_good=token.is_good(at),
        created_at=token.created_at,
        created_by=token.created_by,
        expires_at=token.expires_at,
        revoked_at=token.revoked_at,
        last_used_at=token.last_used_at,
    )


def session_row(session: PersonSession, *, is_this: bool) -> SessionRow:
    """A session as people see it."""
    return SessionRow(
        id=session.id,
        who=session.who,
        role=session.role,
        signed_in_by=session.by,
        created_at=session.created_at,
        expires_at=session.expires_at,
        last_used_at=session.last_used_at,
        peer=session.peer,
        is_this=is_this,
    )
