"""The daemon's certificates: its own small CA, the server certificates that it makes by it, and when each ends."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import structlog
from msgspec.structs import replace

from trimtab import pki
from trimtab.chores import Chore
from trimtab.clock import Clock, SystemClock, iso
from trimtab.errors import SettingsError
from trimtab.listener import Listener, split_listen
from trimtab.settings import DaemonSettings, IngestSettings, PeopleSettings
from trimtab.ship.client_certificates import ClientRule, RevokedSerials
from trimtab.tls import CertificateFacts, ServerTls, facts_of

log = structlog.get_logger()

SERVER_FILE, SERVER_KEY_FILE = "server.pem", "server.key"
RENEW_LEFT_RATIO = 1 / 3
"""Made anew when so much of its life is left: 30 of 90 days to mend what keeps it from being renewed."""
RENEW_MINUTES = 60.0
_ANY = ("", "0.0.0.0", "::")
_LOCAL = ("localhost", "127.0.0.1", "::1")


def ca_directory(settings: DaemonSettings) -> Path:
    """Where the daemon's own CA is."""
    return Path(settings.state_directory) / settings.tls.ca_directory


def authority_of(settings: DaemonSettings, *, clock: Clock | None = None) -> pki.Authority | None:
    """The daemon's own CA: the one on disk, or a new one where a setting needs it. Raises SettingsError."""
    directory, clock = ca_directory(settings), clock or SystemClock()
    try:
        if (directory / pki.CA_FILE).exists():
            return pki.Authority.load(directory, clock=clock)
        if not _needs_authority(settings):
            return None
        made = pki.Authority.create(directory, cluster=settings.cluster, clock=clock)
    except pki.CertificateError as error:
        raise SettingsError(
            f"tls.ca_directory: {error}. `trimtab ca create` makes a CA; ca.pem and ca.key of another daemon can be "
            "copied there."
        ) from error
    log.warning("made a CA of the daemon's own: give agents its ca.pem", file=str(directory / pki.CA_FILE),
                sha256=made.fingerprint)  # fmt: skip
    return made


class Certificates:
    """What the daemon serves by, kept in force."""

    def __init__(self, settings: DaemonSettings, *, clock: Clock | None = None) -> None:
        """Make or renew what is needed now. `clock` must be a real one. Raises SettingsError."""
        self._clock = clock or SystemClock()
        self._given = settings
        self._listeners: list[ServerTls] = []
        self._trouble = ""
        for name, section in (("ingest", settings.ingest), ("people", settings.people)):
            _check_one_way(name, section)
        self.authority = authority_of(settings, clock=self._clock)
        self._names = server_names(settings) if self._has_own else ()
        self.renew()
        self._renewed_at_seconds = self._clock.monotonic_seconds()

    def section(self, name: Literal["ingest", "people"]) -> IngestSettings | PeopleSettings:
        """A listener's section with the files that own_certificate and client_certificates stand for in place."""
        return self._ingest() if name == "ingest" else self._people()

    def way_in(self, listener: Listener, url: str) -> dict[str, str]:
        """Address and CA by which the verbs on this host reach the people's listener; `url` where it is not ours."""
        if not self._given.people.own_certificate:
            return {"url": url}
        host, _ = split_listen(self._given.people.listen, key="people.listen")
        near = "127.0.0.1" if host in _ANY else host
        named = f"[{near}]" if ":" in near else near
        return {"url": f"https://{named}:{listener.port}", "ca_file": str(ca_directory(self._given) / pki.CA_FILE)}

    def keep(self, listener: Listener) -> Listener:
        """Take up a listener's new certificates at `reload`, and show what it has; returns it."""
        if listener.tls is not None:
            self._listeners.append(listener.tls)
        return listener

    def client_rule(self, *, revoked: RevokedSerials | None = None) -> ClientRule:
        """What the ingest listener asks of client certificates."""
        return ClientRule(self._given.ingest.client_certificates, clock=self._clock, revoked=revoked)

    def reload(self) -> str:
        """Renew what is ours and read all certificate files anew now; says what came of it."""
        try:
            said = [self.renew()] if self._has_own else []
        except SettingsError as error:
            said = [str(error)]
        return "; ".join(one for one in (*said, *(tls.look(is_asked=True) for tls in self._listeners)) if one)

    def renew(self) -> str:
        """Make the daemon's own certificate anew where it is time; listeners take it up by themselves."""
        if self.authority is None or not self._has_own:
            return "the daemon has no certificate of its own to renew"
        directory = ca_directory(self._given)
        try:
            why = _why_anew(self.authority, directory, self._names, self._clock)
            if not why:
                return "the daemon's own certificate is good"
            issue_server(self.authority, directory, self._names, days=self._given.tls.server_days)
        except pki.CertificateError as error:
            self._trouble = f"The daemon's own certificate cannot be renewed: {error}."
            raise SettingsError(self._trouble) from error
        self._trouble = ""
        log.info("made the daemon's own certificate", why=why, names=", ".join(self._names))
        return f"made the daemon's own certificate anew: {why}"

    def keep_good(self) -> None:
        """Renew, once an hour, where no slow work is done: while a daemon stands by."""
        now = self._clock.monotonic_seconds()
        if now - self._renewed_at_seconds < RENEW_MINUTES * 60:
            return
        self._renewed_at_seconds = now
        try:
            self.renew()
        except SettingsError as error:
            log.warning("the daemon's own certificate cannot be renewed; it is tried again", why=str(error))

    def chore(self) -> Chore:
        """Renewal, as the daemon's slow work."""
        return Chore(name="certificates", minutes=RENEW_MINUTES, run=self.renew)

    def facts(self) -> tuple[CertificateFacts, ...]:
        """Every certificate that the daemon uses, and when it ends."""
        return tuple(self._facts())

    def _facts(self) -> Iterator[CertificateFacts]:
        for tls in self._listeners:
            yield from tls.facts
        if self.authority is not None:
            file = str(ca_directory(self._given) / pki.CA_FILE)
            yield facts_of("ca", self.authority.ends_at, now=self._clock.now(), file=file, trouble=self._trouble)
        client_ca = self._given.ingest.client_ca_file
        if client_ca:
            with suppress(pki.CertificateError):  # the listener says so
                ends_at = min(pki.ends_at(one) for one in pki.read_certificates(Path(client_ca)))
                yield facts_of("client_ca", ends_at, now=self._clock.now(), file=client_ca)

    @property
    def _has_own(self) -> bool:
        return self._given.ingest.own_certificate or self._given.people.own_certificate

    def _ingest(self) -> IngestSettings:
        section = replace(self._given.ingest, client_ca_file=self._client_ca())
        return replace(section, **self._own_files()) if section.own_certificate else section

    def _people(self) -> PeopleSettings:
        section = self._given.people
        return replace(section, **self._own_files()) if section.own_certificate else section

    def _own_files(self) -> dict[str, str]:
        directory = ca_directory(self._given)
        return {"certificate_file": str(directory / SERVER_FILE), "key_file": str(directory / SERVER_KEY_FILE)}

    def _client_ca(self) -> str:
        ingest = self._given.ingest
        if ingest.client_certificates == "off":
            return ""
        return ingest.client_ca_file or str(ca_directory(self._given) / pki.CA_FILE)


def server_names(settings: DaemonSettings) -> tuple[str, ...]:
    """For which names and addresses the daemon's own certificate is made: always also those of this host."""
    given = settings.tls.names or tuple(_found_names(settings))
    return tuple(dict.fromkeys(name for name in (*given, *_LOCAL, *_listened_on(settings)) if name))


def issue_server(authority: pki.Authority, directory: Path, names: tuple[str, ...], *, days: float) -> pki.Pair:
    """A new server certificate, with the CA's behind it, and its key, on disk. Raises CertificateError."""
    pair = authority.issue_server(names, days=days)
    pki.write_file(directory / SERVER_KEY_FILE, pair.key_pem, mode=0o600)
    pki.write_file(directory / SERVER_FILE, pair.certificate_pem + authority.certificate_pem, mode=0o644)
    return pair


def _why_anew(authority: pki.Authority, directory: Path, names: tuple[str, ...], clock: Clock) -> str:
    if not (directory / SERVER_FILE).exists() or not (directory / SERVER_KEY_FILE).exists():
        return "there was none"
    held = pki.read_certificates(directory / SERVER_FILE)[0]
    if not authority.has_signed(held):
        return "the one there was of another CA"
    if not pki.belong_together(held, directory / SERVER_KEY_FILE):
        return "its key was another's"
    if set(pki.names_of(held)) != {pki.plain_name(name) for name in names}:
        return "its names have changed"
    begins, ends = pki.starts_at(held), pki.ends_at(held)
    if (ends - clock.now()) < (ends - begins) * RENEW_LEFT_RATIO and ends < authority.ends_at:
        return f"the one there was ends at {iso(ends)}"
    return ""


def _needs_authority(settings: DaemonSettings) -> bool:
    ingest = settings.ingest
    has_client = ingest.client_certificates != "off" and not ingest.client_ca_file
    return ingest.own_certificate or settings.people.own_certificate or has_client


def _check_one_way(name: str, section: IngestSettings | PeopleSettings) -> None:
    if section.own_certificate and section.certificate_file:
        raise SettingsError(
            f"{name}.own_certificate and {name}.certificate_file are two answers to one question. Set one of them."
        )


def _found_names(settings: DaemonSettings) -> Iterator[str]:
    yield socket.getfqdn()
    yield socket.gethostname()
    yield from _own_addresses()
    for url in (settings.people.public_url, *settings.enrolment.agent_urls):
        yield urlsplit(url).hostname or ""


def _listened_on(settings: DaemonSettings) -> Iterator[str]:
    for key, listen in (("ingest.listen", settings.ingest.listen), ("people.listen", settings.people.listen)):
        host, _ = split_listen(listen, key=key)
        if host not in _ANY:
            yield host


def _own_addresses() -> Iterator[str]:
    """The addresses by which this host reaches others; nothing is sent to learn them."""
    for family, elsewhere in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        with suppress(OSError), closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
            probe.connect((elsewhere, 9))
            yield str(probe.getsockname()[0])
