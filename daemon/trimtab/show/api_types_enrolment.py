"""What the API says of enrolment: join tokens as they are handed out, and which node has which credential."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from msgspec import Meta, Struct

from trimtab.model.enrolment import Invitation, JoinToken, NodeCredential, why_not_good
from trimtab.show.api_types import _Body

LASTS_SECONDS_MAX = 30 * 86400.0
"""A join token that is good for months is a password that nobody watches."""
NodeName = Annotated[str, Meta(min_length=1, max_length=253)]


class AskJoin(_Body, frozen=True, kw_only=True):
    """Join tokens for these nodes, all or none; `again` also for those that are enrolled."""

    nodes: Annotated[tuple[NodeName, ...], Meta(min_length=1, max_length=20_000)]
    lasts_seconds: Annotated[float, Meta(gt=0, le=LASTS_SECONDS_MAX)] | None = None
    again: bool = False
    reason: Annotated[str, Meta(max_length=500)] = ""


class AboutNode(_Body, frozen=True, kw_only=True):
    """Which node, and why; kept in the audit."""

    node: NodeName
    reason: Annotated[str, Meta(max_length=500)] = ""


class JoinRow(Struct, frozen=True, kw_only=True):
    """One join token; `token` is told this once and kept nowhere."""

    node: str
    token: str
    expires_at: datetime
    again: bool = False


class Joins(Struct, frozen=True, kw_only=True):
    """New join tokens, in the order in which they were asked for, and where the nodes take them."""

    tokens: tuple[JoinRow, ...]
    agent_urls: tuple[str, ...] = ()


class EnrolledRow(Struct, frozen=True, kw_only=True):
    """One node: what it has, or had last, and whether a join token waits for it."""

    node: str
    state: str
    """enrolled, renewing (a new credential waits for its first use), invited, expired, revoked, withdrawn, replaced."""
    enrolled_by: str = ""
    since: datetime | None = None
    expires_at: datetime | None = None
    first_used_at: datetime | None = None
    last_used_at: datetime | None = None
    renewals: int = 0
    is_rotation_asked: bool = False
    has_certificate: bool = False
    said: str = ""
    """Why it is not let in; empty while it is."""
    join_expires_at: datetime | None = None
    """Until when a join token waits for it."""
    joined_from: str = ""


class EnrolledNodes(Struct, frozen=True, kw_only=True):
    """Nodes that were ever enrolled or have a join token, by name."""

    nodes: tuple[EnrolledRow, ...]


class EnrolmentDone(Struct, frozen=True, kw_only=True):
    """What came of it."""

    sentence: str


def join_row(invitation: Invitation) -> JoinRow:
    """A join token as it is handed out."""
    return JoinRow(
        node=invitation.node,
        token=invitation.token,
        expires_at=invitation.expires_at,
        again=invitation.is_again,
    )


def enrolled_rows(
    credentials: tuple[NodeCredential, ...], tokens: tuple[JoinToken, ...], at: datetime
) -> tuple[EnrolledRow, ...]:
    """One row a node, of everything that is kept."""
    by_node: dict[str, tuple[list[NodeCredential], list[JoinToken]]] = {}
    for credential in credentials:
        by_node.setdefault(credential.node, ([], []))[0].append(credential)
    for token in tokens:
        by_node.setdefault(token.node, ([], []))[1].append(token)
    return tuple(_row(node, *by_node[node], at) for node in sorted(by_node))


def _row(node: str, credentials: list[NodeCredential], tokens: list[JoinToken], at: datetime) -> EnrolledRow:
    waiting = next((token for token in reversed(tokens) if token.is_good(at)), None)
    join_expires_at = waiting.expires_at if waiting is not None else None
    held = _held(credentials, at)
    if held is None:
        return _unused_row(node, tokens, at) if waiting is None else _invited(node, waiting)
    no = why_not_good(held, at)
    state = no.reason.value if no is not None else "enrolled"
    if no is None and any(one.id > held.id and one.is_good(at) for one in credentials):
        state = "renewing"
    return EnrolledRow(
        node=node,
        state=state,
        enrolled_by=held.enrolled_by,
        since=held.given_at,
        expires_at=held.expires_at,
        first_used_at=held.first_used_at,
        last_used_at=held.last_used_at,
        renewals=held.renewals,
        is_rotation_asked=held.rotate_at is not None and no is None,
        has_certificate=bool(held.certificate_pem),
        said=no.sentence if no is not None else "",
        join_expires_at=join_expires_at,
        joined_from=next((token.used_from for token in tokens if token.id == held.join_id), ""),
    )


def _held(credentials: list[NodeCredential], at: datetime) -> NodeCredential | None:
    """The one that the node comes in with: the newest good one that was used, else the newest good, else the newest."""
    good = [one for one in credentials if one.is_good(at)]
    used = [one for one in good if one.first_used_at is not None]
    return next((found[-1] for found in (used, good, credentials) if found), None)


def _invited(node: str, token: JoinToken) -> EnrolledRow:
    return EnrolledRow(node=node, state="invited", enrolled_by=token.created_by, join_expires_at=token.expires_at)


def _unused_row(node: str, tokens: list[JoinToken], at: datetime) -> EnrolledRow:
    last = tokens[-1]
    is_expired = last.withdrawn_at is None and at >= last.expires_at
    said = "Its join token ran out unused." if is_expired else "Its join token was withdrawn."
    return EnrolledRow(
        node=node, state="expired" if is_expired else "withdrawn", enrolled_by=last.created_by, said=said
    )
