"""Puts enrolment together for the daemon: who admits nodes, what their reports are let in by, and what keeps it up."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

from trimtab.chores import Chore
from trimtab.clock import Clock, SystemClock
from trimtab.enrolment import Registrar
from trimtab.listener import split_listen
from trimtab.loop import Beat
from trimtab.pki import Authority
from trimtab.settings import DaemonSettings
from trimtab.ship.client_certificates import ClientRule
from trimtab.ship.enrolled import SYNC_SECONDS, Enrolled
from trimtab.ship.enrolling import EnrolDesk
from trimtab.ship.tokens import Credentials, NodeTokens, Several, tokens_path
from trimtab.show.api_enrolment import Enrolment
from trimtab.show.attempts import Attempts
from trimtab.show.auth import Door
from trimtab.show.refusals import Answer
from trimtab.store.database import Database
from trimtab.store.enrolment import EnrolmentFacts

PRUNE_MINUTES = 720


@dataclass(frozen=True, slots=True, kw_only=True)
class Admissions:
    """Everything of enrolment in one daemon."""

    registrar: Registrar
    enrolled: Enrolled
    desk: EnrolDesk
    credentials: Credentials
    """What lets reports in: enrolled nodes first, without a look at a file; then the tokens file, then a cluster."""
    beat: Beat
    chore: Chore
    api: Enrolment


def admissions_of(
    settings: DaemonSettings,
    *,
    database: Database,
    clock: Clock,
    authority: Authority | None,
    reviews: Credentials | None,
    door: Callable[[], Door],
) -> Admissions:
    """Read what was handed out; nothing is served yet. Raises StoreError and SettingsError.

    `reviews`: who says whose a DaemonSet's token is. The door writes down who was refused.
    """

    def tell(peer: str, what: str, why: str) -> None:
        door().refusals.tell(Answer.STRANGER, who=f"peer {peer}", what=what, why=why)

    wall, wanted = SystemClock(), settings.enrolment
    facts = EnrolmentFacts(database, cluster=settings.cluster)
    registrar = Registrar(facts, wanted, clock=wall, audit_clock=clock, authority=authority)
    enrolled = Enrolled(facts, clock=wall, first_used=registrar.first_used)
    kinds = (enrolled, NodeTokens(tokens_path(settings)))
    bounds = Attempts(
        clock=wall,
        per_peer_per_minute=wanted.failures_per_peer_per_minute,
        per_minute=wanted.failures_per_minute,
    )
    desk = EnrolDesk(
        office=registrar,
        bounds=bounds,
        cluster=settings.cluster,
        known=enrolled,
        tell=tell,
        client_rule=ClientRule(settings.ingest.client_certificates, clock=wall, revoked=enrolled),
    )
    return Admissions(
        registrar=registrar,
        enrolled=enrolled,
        desk=desk,
        credentials=Several(*kinds, reviews) if reviews is not None else Several(*kinds),
        beat=Beat("enrolment", enrolled.sync, interval_seconds=SYNC_SECONDS, clock=wall),
        chore=Chore(name="prune_enrolment", minutes=PRUNE_MINUTES, run=registrar.prune),
        api=Enrolment(
            office=registrar,
            kept=facts,
            agent_urls=agent_urls(settings),
            now=wall.now,
            changed=enrolled.refresh,
        ),
    )


def agent_urls(settings: DaemonSettings) -> tuple[str, ...]:
    """Where nodes reach the daemon, as far as it can say."""
    if settings.enrolment.agent_urls:
        return settings.enrolment.agent_urls
    host, port = split_listen(settings.ingest.listen, key="ingest.listen")
    if host in ("", "0.0.0.0", "::"):
        host = socket.getfqdn()
    is_tls = settings.ingest.certificate_file or settings.ingest.own_certificate
    scheme = "https" if is_tls else "http"
    return (f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}",)
