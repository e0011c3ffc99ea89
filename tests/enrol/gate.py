"""The ingest listener of a real HTTP (or TLS) port with enrolment behind it, and reports that are taken at once."""

from __future__ import annotations

import threading
from pathlib import Path

import structlog
from tests.enrol.desk import Office

from trimtab.clock import SystemClock
from trimtab.enrolment import Registrar
from trimtab.listener import Listener
from trimtab.pki import Authority
from trimtab.settings import EnrolmentSettings, IngestSettings
from trimtab.ship.client_certificates import ClientRule
from trimtab.ship.enrolled import Enrolled
from trimtab.ship.enrolling import EnrolDesk
from trimtab.ship.inbox import Inbox
from trimtab.ship.receiver import ingest_app
from trimtab.show.attempts import Attempts

log = structlog.get_logger()


class Gate:
    """One daemon as its nodes see it; `refusals` is what the audit would be told."""

    def __init__(
        self,
        office: Office,
        *,
        authority: Authority | None = None,
        server: tuple[Path, Path] | None = None,
        failures_per_peer: int = 1000,
        days: float = 90.0,
        client_ca_file: str = "",
    ) -> None:
        """Serve at once."""
        clock = SystemClock()
        self.office, self.refusals = office, list[tuple[str, str]]()
        self.registrar = Registrar(
            office.facts, EnrolmentSettings(credential_days=days), clock=clock, authority=authority
        )
        self.enrolled = Enrolled(office.facts, clock=clock, first_used=self.registrar.first_used)
        self.desk = EnrolDesk(
            office=self.registrar,
            bounds=Attempts(clock=clock, per_peer_per_minute=failures_per_peer, per_minute=10_000),
            cluster=office.facts.cluster,
            known=self.enrolled,
            tell=lambda peer, what, why: self.refusals.append((what, why)),
            client_rule=ClientRule("required" if client_ca_file else "off", clock=clock, revoked=self.enrolled),
        )
        self._inbox = Inbox(1000)
        app = ingest_app(
            inbox=self._inbox,
            tokens=self.enrolled,
            settings=IngestSettings(),
            clock=clock,
            cluster=office.facts.cluster,
            enrolment=self.desk,
        )
        certificate, key = (str(server[0]), str(server[1])) if server else ("", "")
        self._listener = Listener(app, name="ingest", listen="127.0.0.1:0", certificate_file=certificate, key_file=key,
                                  client_ca_file=client_ca_file)  # fmt: skip
        self._ended = threading.Event()
        self._committing = threading.Thread(target=self._commit, daemon=True)
        self._listener.start()
        self._committing.start()

    @property
    def url(self) -> str:
        return f"{self._listener.scheme}://127.0.0.1:{self._listener.port}"

    def sync(self) -> None:
        """What the daemon does twice a second."""
        self.enrolled.sync()

    def close(self) -> None:
        self._listener.stop()
        self._ended.set()
        self._committing.join()

    def _commit(self) -> None:
        while not self._ended.wait(0.01):
            self._inbox.acknowledge(self._inbox.drain())
