"""Join tokens and nodes' credentials, for admins."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from trimtab.errors import EnrolmentRefused
from trimtab.model.enrolment import Invitation, JoinToken, NodeCredential
from trimtab.show.api_routes import ApiError, Call, People
from trimtab.show.api_types_enrolment import EnrolledNodes, EnrolmentDone, Joins, enrolled_rows, join_row


class Kept(Protocol):
    """What was ever handed out. Its methods raise StoreError."""

    def credentials(self) -> tuple[NodeCredential, ...]:
        """All that are kept, oldest first."""
        ...

    def join_tokens(self) -> tuple[JoinToken, ...]:
        """All that are kept, oldest first."""
        ...


class Office(Protocol):
    """Whoever hands out. Its methods raise EnrolmentRefused and StoreError."""

    def invite(
        self, nodes: Sequence[str], *, by: str, lasts_seconds: float | None, is_again: bool, why: str
    ) -> tuple[Invitation, ...]:
        """One join token a node, told this once; all or none."""
        ...

    def revoke(self, node: str, *, by: str, why: str) -> str:
        """Let a node in no more; says what ended."""
        ...

    def rotate(self, node: str, *, by: str, why: str) -> str:
        """Let the agent of a node make a new credential."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Enrolment:
    """What these routes work on."""

    office: Office
    kept: Kept
    agent_urls: tuple[str, ...]
    now: Callable[[], datetime]
    """By which credentials are good or over."""
    changed: Callable[[], object]
    """Called after each change, so that it acts here at once."""


def invite(people: People, call: Call) -> Joins:
    """New join tokens."""
    enrolment, body = _of(people), call.body
    try:
        made = enrolment.office.invite(
            body.nodes, by=call.caller.who, lasts_seconds=body.lasts_seconds, is_again=body.again, why=body.reason
        )
    except EnrolmentRefused as no:
        raise ApiError(no.status, str(no)) from no
    return Joins(tokens=tuple(join_row(one) for one in made), agent_urls=enrolment.agent_urls)


def nodes(people: People, call: Call) -> EnrolledNodes:  # noqa: ARG001 - one shape for all handlers
    """Which node has what."""
    enrolment = _of(people)
    rows = enrolled_rows(enrolment.kept.credentials(), enrolment.kept.join_tokens(), enrolment.now())
    return EnrolledNodes(nodes=rows)


def revoke(people: People, call: Call) -> EnrolmentDone:
    """A node comes in no more."""
    return _done(people, call, _of(people).office.revoke)


def rotate(people: People, call: Call) -> EnrolmentDone:
    """A node makes a new credential."""
    return _done(people, call, _of(people).office.rotate)


class _Change(Protocol):
    def __call__(self, node: str, *, by: str, why: str) -> str: ...


def _done(people: People, call: Call, change: _Change) -> EnrolmentDone:
    try:
        sentence = change(call.body.node, by=call.caller.who, why=call.body.reason)
    except EnrolmentRefused as no:
        raise ApiError(no.status, str(no)) from no
    _of(people).changed()
    return EnrolmentDone(sentence=sentence)


def _of(people: People) -> Enrolment:
    if people.enrolment is None:
        raise ApiError(409, "This daemon enrols no nodes.")
    return people.enrolment
