"""Who one is, signing in and out, tokens and sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice

from trimtab.model.advice import FindingState
from trimtab.model.board import Board
from trimtab.model.people import Role
from trimtab.show.api_routes import ApiError, Call, People, Reply
from trimtab.show.api_types import ID_MAX, Link
from trimtab.show.api_types_people import (
    Ended,
    Me,
    NameRow,
    Names,
    Sessions,
    TokenGiven,
    Tokens,
    session_row,
    token_row,
)
from trimtab.show.auth import Caller

RESERVED = ("operator", "trimtab", "anybody", "root")
"""Names that the audit uses for others than people."""

DAY_SECONDS = 86400.0


def me(people: People, call: Call) -> Me:  # noqa: ARG001 - one shape for all handlers
    """Who is signed in."""
    return _me(call.caller)


def sign_in(people: People, call: Call) -> Reply:
    """A session for a token."""
    found = people.door.sign_in(call.body.token, peer=people.door.peer(call.knock), former=call.knock.session)
    if found is None:
        raise ApiError(401, "This token is not known, was revoked or has run out. `trimtab token list` shows which.")
    caller, secret = found
    return Reply(value=_me(caller), session=secret)


def sign_out(people: People, call: Call) -> Reply:
    """The session is over, on the server too."""
    if call.caller.session is None or call.knock.session is None:
        raise ApiError(409, f"There is no session here to end: {call.caller.who} is signed in by {call.caller.by}.")
    people.door.sign_out(call.knock.session)
    return Reply(value=Ended(sentence=f"{call.caller.session.who} is signed out."), session="")


def tokens(people: People, call: Call) -> Tokens:  # noqa: ARG001 - one shape for all handlers
    """All tokens, without their secrets."""
    passes = people.door.passes
    return Tokens(tokens=tuple(token_row(one, passes.now()) for one in passes.tokens()))


def give_token(people: People, call: Call) -> TokenGiven:
    """A new token."""
    body = call.body
    if body.name.lower() in RESERVED:
        raise ApiError(409, f"{body.name} is a name of the daemon's own in the audit. Choose the person's.")
    lasts_seconds = None if body.days is None else body.days * DAY_SECONDS
    passes = people.door.passes
    token, secret = passes.give_token(name=body.name, role=body.role, lasts_seconds=lasts_seconds, by=call.caller.who)
    return TokenGiven(token=token_row(token, passes.now()), secret=secret)


def revoke_token(people: People, call: Call) -> Ended:
    """A token opens nothing any more, nor do its sessions."""
    passes = people.door.passes
    found = passes.revoke(call.id, by=call.caller.who, why=call.body.reason) if call.id <= ID_MAX else None
    if found is None:
        raise ApiError(404, f"There is no token T{call.id}.")
    return Ended(sentence=f"T{found.id} of {found.name} is revoked, and its sessions are over.")


def sessions(people: People, call: Call) -> Sessions:
    """One's own sessions; an admin's view is of all."""
    mine = call.caller.session
    shown = (one for one in people.door.passes.sessions() if _may_see(call.caller, one.who))
    return Sessions(sessions=tuple(session_row(one, is_this=mine is not None and one.id == mine.id) for one in shown))


def end_session(people: People, call: Call) -> Ended:
    """End one's own session, or as admin anybody's."""
    passes = people.door.passes
    found = next((one for one in passes.sessions() if one.id == call.id), None)
    if found is None or not _may_see(call.caller, found.who):
        raise ApiError(404, f"There is no session S{call.id}.")
    passes.end_session(call.id, by=call.caller.who, what=f"ended a session of {found.who}")
    return Ended(sentence=f"S{call.id} of {found.who} is over.")


def link(people: People, call: Call) -> Link:
    """A page address that works once, for a session with the caller's role, an operator's at most."""
    if not call.caller.has_token:
        raise ApiError(403, "A new link needs a token (trimtab link); the page's session does not do.")
    most = Role.VIEWER if call.caller.role is Role.VIEWER else Role.OPERATOR
    asked = Role(call.body.role) if call.body.role else most
    if not most.covers(asked):
        raise ApiError(403, f"{call.caller.who} has the role {call.caller.role}, and a link cannot have a higher one.")
    base = people.door.public_url or call.base_url
    secret = people.door.new_link(who=call.caller.who, role=asked, token_id=call.caller.token_id)
    return Link(url=f"{base}/open/{secret}")


def names(people: People, call: Call) -> Names:
    """Names that begin so: what a shell's completion and a search box ask for at each key."""
    query, published = call.query, people.box.latest()
    if published is None:
        return Names(names=())
    begins = query.begins.casefold()
    found = (row for row in _NAMES[query.kind](published.board) if row.name.casefold().startswith(begins))
    return Names(names=tuple(islice(found, query.limit)))


_NAMES: Mapping[str, Callable[[Board], Iterable[NameRow]]] = {
    "node": lambda board: (NameRow(name=row.name, about=row.rack or "") for row in board.nodes),
    "job": lambda board: (NameRow(name=row.name, about=row.state) for row in board.jobs),
    "queue": lambda board: (NameRow(name=row.name) for row in board.queues),
    "finding": lambda board: (
        NameRow(name=item.name, about=item.finding.sentence)
        for item in board.findings
        if item.state is FindingState.OPEN
    ),
    "recommendation": lambda board: (
        NameRow(name=row.name, about=row.command.recommendation.sentence) for row in board.commands
    ),
}


def _me(caller: Caller) -> Me:
    session = caller.session
    return Me(
        name=session.who if session is not None else caller.who,
        role=caller.role or Role.VIEWER,
        signed_in_by=caller.by,
        csrf=caller.csrf,
        session_id=None if session is None else session.id,
        expires_at=None if session is None else session.expires_at,
    )


def _may_see(caller: Caller, who: str) -> bool:
    mine = caller.session.who if caller.session is not None else caller.who
    return caller.role is Role.ADMIN or who == mine
