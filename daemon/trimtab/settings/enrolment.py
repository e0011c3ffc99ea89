"""How nodes are enrolled: what join tokens and the credentials that come of them last."""

from __future__ import annotations

from trimtab.settings.shape import Count, Positive, Section


class EnrolmentSettings(Section, frozen=True, kw_only=True):
    """Join tokens and nodes' own credentials."""

    join_seconds: Positive = 3600.0
    """How long a join token is good unless `trimtab enroll --for` says otherwise: enough for a rollout."""
    credential_days: Positive = 90.0
    """How long a node's credential is good. Agents renew from six tenths of it on; a node that is off for longer than
    the rest is enrolled again."""
    agent_urls: tuple[str, ...] = ()
    """Where nodes reach the daemon, as `trimtab enroll` prints it; empty = this host's name, ingest.listen's port."""
    failures_per_peer_per_minute: Count = 20
    """Refused joins and renewals from one address (IPv6: one /64); past it 429 with Retry-After."""
    failures_per_minute: Count = 600
    """The same from all addresses together."""
    keep_days: Positive = 180.0
    """What is over is kept this long: for `trimtab enroll list`, and to say why somebody is refused."""
