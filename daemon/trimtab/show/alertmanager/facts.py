"""Alertmanager, both ways, as /metrics and doctor see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from trimtab.model.alerts import Quiet
from trimtab.show.api_types import Check

if TYPE_CHECKING:
    # The agent's /metrics know the shape of these facts, and need none of what they are gathered from.
    from trimtab.show.alertmanager.desk import Desk
    from trimtab.show.alertmanager.others import Others


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerState:
    """One Alertmanager as a pushing daemon sees it."""

    name: str
    posts_total: Mapping[str, int]
    trouble: str = ""
    taken_at: datetime | None = None
    failing_since: datetime | None = None
    version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertingFacts:
    """Facts of one moment."""

    peers: tuple[PeerState, ...] = ()
    pushed_open: int = 0
    pushed_left_out: int = 0
    doubled: int = 0
    """Incidents that Prometheus rules fire for too."""
    unheard: int = 0
    """Incidents that Alertmanager is to page and knows nothing of."""
    silences: int | None = None
    """Silences that hold; None = they are not read."""
    silence_reads_total: Mapping[str, int] = field(default_factory=dict)
    silences_read_at: datetime | None = None
    silences_trouble: str = ""
    windows: int = 0
    quiet_incidents: int = 0
    """Open incidents that a silence or window keeps from paging."""
    others_firing: int = 0
    others_total: Mapping[str, int] = field(default_factory=dict)
    others_trouble: str = ""


def alerting_facts(desk: Desk, others: Others, *, quiet: Sequence[Quiet]) -> AlertingFacts:
    """Gathered from the parts."""
    has_silences = desk.settings.silences and bool(desk.settings.urls)
    return AlertingFacts(
        peers=tuple(
            PeerState(
                name=peer.name,
                posts_total=dict(peer.posts_total),
                trouble=peer.trouble,
                taken_at=peer.taken_at,
                failing_since=peer.failing_since,
                version=peer.version,
            )
            for peer in desk.peers
        ),
        pushed_open=len(desk.pusher.open_alerts),
        pushed_left_out=desk.pusher.left_out,
        doubled=desk.doubled,
        unheard=desk.unheard,
        silences=sum(1 for one in quiet if one.kind == "silence") if has_silences else None,
        silence_reads_total=dict(desk.reads_total),
        silences_read_at=desk.silences_read_at,
        silences_trouble=desk.trouble,
        windows=sum(1 for one in quiet if one.kind == "maintenance"),
        quiet_incidents=sum(len(one.findings) for one in quiet),
        others_firing=len(others.last_read),
        others_total=dict(others.alerts_total),
        others_trouble=others.trouble,
    )


def alerting_checks(facts: AlertingFacts) -> Iterable[Check]:
    """Whether Alertmanager takes what it is given and says what it is asked, each failure with its fix."""
    for peer in facts.peers:
        yield _peer_check(peer)
    if facts.pushed_left_out:
        yield Check(
            name="alertmanager room",
            is_ok=False,
            sentence=f"{facts.pushed_left_out} open incidents are not pushed: there are more than "
            "alertmanager.alerts_max.",
            fix="Look at `trimtab findings`: so many at once are one cause. Or set alertmanager.alerts_max higher.",
        )
    if facts.doubled:
        yield Check(
            name="alertmanager twice",
            is_ok=False,
            sentence=f"{facts.doubled} incidents stand with Alertmanager twice: pushed by this daemon and fired by its "
            "Prometheus rules.",
            fix="Set alertmanager.push = false, or take trimtab-findings.rules.yml out of Prometheus.",
        )
    if facts.unheard:
        yield Check(
            name="alertmanager pages",
            is_ok=False,
            sentence=f"{facts.unheard} open incidents are Alertmanager's to page, and it knows nothing of them.",
            fix="Set alertmanager.push = true, or load trimtab-findings.rules.yml into a Prometheus that scrapes this "
            "daemon. Or let the outbox page: trimtab pager outbox",
        )
    if facts.silences is not None:
        yield _silences_check(facts)
    if facts.others_trouble:
        yield Check(
            name="alerts of others",
            is_ok=False,
            sentence=facts.others_trouble,
            fix="Look at the database. Alertmanager delivers again what was answered 503.",
        )


def _peer_check(peer: PeerState) -> Check:
    name = f"alertmanager {peer.name}"
    if peer.trouble:
        since = f" (since {peer.failing_since:%Y-%m-%dT%H:%M:%SZ})" if peer.failing_since else ""
        fix = "See alertmanager.urls, token_file and ca_file, and whether it runs. It is tried again by itself."
        return Check(name=name, is_ok=False, sentence=f"{peer.trouble}{since}", fix=fix)
    said = f"Alertmanager {peer.version}" if peer.version else "Alertmanager"
    taken = "has taken what it was given" if peer.taken_at is not None else "was given nothing yet"
    return Check(name=name, is_ok=True, sentence=f"{said} at {peer.name} {taken}.")


def _silences_check(facts: AlertingFacts) -> Check:
    if facts.silences_trouble:
        return Check(
            name="silences",
            is_ok=False,
            sentence=f"{facts.silences_trouble} Silences read long ago keep nobody asleep.",
            fix="See alertmanager.urls. Where its silences are not to count, set alertmanager.silences = false.",
        )
    read = "have been read" if facts.silences_read_at is not None else "have not been read yet"
    return Check(name="silences", is_ok=True, sentence=f"Silences {read}; {facts.silences} hold.")
