"""Enrolment: join tokens, the credentials that nodes get for them, and why one of either is refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

NODE_CHARS_MAX = 253


class NoEntry(StrEnum):
    """Why a node does not come in; each has its sentence."""

    UNKNOWN = "unknown"
    USED = "used"
    EXPIRED = "expired"
    WITHDRAWN = "withdrawn"
    OTHER_NODE = "other_node"
    OTHER_CLUSTER = "other_cluster"
    ALREADY_ENROLLED = "already_enrolled"
    REVOKED = "revoked"
    REPLACED = "replaced"
    TOO_SOON = "too_soon"


STATUS_OF = {
    NoEntry.UNKNOWN: 401,
    NoEntry.REVOKED: 401,
    NoEntry.REPLACED: 401,
    NoEntry.USED: 409,
    NoEntry.ALREADY_ENROLLED: 409,
    NoEntry.TOO_SOON: 429,
}
"""What an answer says by its number; 403 for the others."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A no, with its reason and its sentence."""

    reason: NoEntry
    sentence: str

    @property
    def status(self) -> int:
        """The HTTP status that goes with it."""
        return STATUS_OF.get(self.reason, 403)


class Ended(StrEnum):
    """How a credential ended before its time."""

    REVOKED = "revoked"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinToken:
    """A token that enrols one node once; of its secret only `sha256` is kept."""

    id: int
    node: str
    sha256: str
    created_at: datetime
    created_by: str
    expires_at: datetime
    is_again: bool = False
    """An operator said that the name may be enrolled although it is."""
    why: str = ""
    used_at: datetime | None = None
    used_by: str = ""
    """SHA-256 of the credential that it became."""
    used_from: str = ""
    """The address that it was used from."""
    withdrawn_at: datetime | None = None
    withdrawn_by: str = ""

    def is_good(self, at: datetime) -> bool:
        """Whether a node can still join with it."""
        return self.used_at is None and self.withdrawn_at is None and at < self.expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCredential:
    """What one node reports with; the node made the secret, `sha256` is all that the daemon ever had of it."""

    id: int
    node: str
    sha256: str
    join_id: int
    enrolled_by: str
    given_at: datetime
    expires_at: datetime
    renewals: int = 0
    first_used_at: datetime | None = None
    last_used_at: datetime | None = None
    ended_at: datetime | None = None
    ended_how: Ended | None = None
    ended_by: str = ""
    ended_why: str = ""
    rotate_at: datetime | None = None
    """When an operator asked for a new one; the agent makes it at its next report."""
    certificate_pem: str = ""

    def is_good(self, at: datetime) -> bool:
        """Whether it opens anything at that moment."""
        return self.ended_at is None and at < self.expires_at


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinAsked:
    """What a node says when it joins: its name, what its secret hashes to, and where it asks from."""

    token_sha256: str
    node: str
    cluster: str
    sha256: str
    csr_pem: str = ""
    peer: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What a node is told when it has joined or renewed; asked again with the same key, the same."""

    node: str
    cluster: str
    expires_at: datetime
    lasts_seconds: float
    certificate_pem: str = ""
    ca_pem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    """A join token as it is handed out: the secret is told this once."""

    node: str
    token: str
    expires_at: datetime
    is_again: bool = False


def why_no_name(node: str) -> str | None:
    """Why this is no node's name; None when it is."""
    if not node or len(node) > NODE_CHARS_MAX or not node.isprintable() or " " in node:
        return f"{node[:300]!r} is no node name: 1 to {NODE_CHARS_MAX} characters, no blanks."
    return None


def is_older(one: NodeCredential, used: NodeCredential) -> bool:
    """Whether `one` ends when `used` comes in: it came before it by renewal, or by an earlier join token.

    What came of a later join token stays: an operator let the node in again meanwhile.
    """
    if one.join_id == used.join_id:
        return one.id < used.id
    return one.join_id < used.join_id


def why_not_join(
    token: JoinToken | None, asked: JoinAsked, held: Iterable[NodeCredential], at: datetime
) -> Refused | None:
    """Why a node cannot join with this token; None when it can. A token that this very key used is no matter of this.

    `held`: the credentials of the token's node.
    """
    if token is None:
        return Refused(
            NoEntry.UNKNOWN,
            "The daemon knows no such join token. Ask its operator for another: `trimtab enroll NODE`.",
        )
    again = f"`trimtab enroll {token.node}`"
    if token.node != asked.node:
        return Refused(
            NoEntry.OTHER_NODE,
            f"This join token is for node {token.node}, and the one that asks is {asked.node}. "
            f"Ask for one of its own: `trimtab enroll {asked.node}`.",
        )
    if token.used_at is not None:
        return Refused(
            NoEntry.USED,
            f"This join token of {token.node} was used at {_moment(token.used_at)} from "
            f"{token.used_from or 'an unknown address'}, by another key; each is good once. If that was not this node, "
            f"revoke it (`trimtab enroll revoke {token.node}`); then {again} makes another.",
        )
    if token.withdrawn_at is not None:
        return Refused(
            NoEntry.WITHDRAWN,
            f"This join token of {token.node} was withdrawn at {_moment(token.withdrawn_at)} by {token.withdrawn_by}. "
            f"Use the newest, or make another: {again}.",
        )
    if at >= token.expires_at:
        return Refused(
            NoEntry.EXPIRED,
            f"This join token of {token.node} ran out at {_moment(token.expires_at)}. Make another: {again}.",
        )
    holder = next((one for one in held if one.is_good(at)), None)
    if holder is not None and not token.is_again:
        return Refused(
            NoEntry.ALREADY_ENROLLED,
            f"{token.node} is enrolled already, {_since(holder)}. If it was set up anew, an operator says so: "
            f"`trimtab enroll {token.node} --again`.",
        )
    return None


def why_not_good(credential: NodeCredential, at: datetime) -> Refused | None:
    """Why a credential opens nothing; None while it does."""
    node = credential.node
    if credential.ended_at is not None and credential.ended_how is Ended.REPLACED:
        return Refused(
            NoEntry.REPLACED,
            f"This credential of {node} was replaced by a newer one at {_moment(credential.ended_at)}. Where the newer "
            f"one is lost, or is not this node's: `trimtab enroll {node} --again`.",
        )
    if credential.ended_at is not None:
        why = f" ({credential.ended_why})" if credential.ended_why else ""
        return Refused(
            NoEntry.REVOKED,
            f"The credential of {node} was revoked at {_moment(credential.ended_at)} by {credential.ended_by}{why}. "
            f"To let it in again: `trimtab enroll {node}`.",
        )
    if at >= credential.expires_at:
        return Refused(
            NoEntry.EXPIRED,
            f"The credential of {node} ran out at {_moment(credential.expires_at)}, unrenewed. "
            f"Enrol it again: `trimtab enroll {node}`.",
        )
    return None


def _since(holder: NodeCredential) -> str:
    used = f", last used {_moment(holder.last_used_at)}" if holder.last_used_at else ""
    return f"since {_moment(holder.given_at)} by {holder.enrolled_by}{used}"


def _moment(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"
