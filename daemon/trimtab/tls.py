"""TLS of our own listeners: certificates that are read anew when their files change, and who the other end is."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from trimtab.clock import Clock, SystemClock, iso
from trimtab.errors import SettingsError, TrimtabError

ClientCertificates = Literal["off", "wanted", "required"]
PEER = "peer_certificate"
"""Under this name a request's `state` holds the other end's certificate (DER), or None."""
_NO_CHECK_TIME = 0x200000
"""X509_V_FLAG_NO_CHECK_TIME, which `ssl` does not name."""

_Stamp = tuple[tuple[int, int, int] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateFacts:
    """One certificate that this process uses, for /metrics and doctor."""

    use: str
    """ingest, people, ca, client_ca, client, metrics."""
    ends_at: datetime
    remaining_seconds: float
    """Until then, by a real clock; below 0 once it has ended."""
    file: str = ""
    trouble: str = ""
    """Why the files on disk are not in force (the last good ones are); empty while they are."""


def facts_of(use: str, ends_at: datetime, *, now: datetime, file: str, trouble: str = "") -> CertificateFacts:
    """The facts of one certificate at this moment of a real clock."""
    left = (ends_at - now).total_seconds()
    return CertificateFacts(use=use, ends_at=ends_at, remaining_seconds=left, file=file, trouble=trouble)


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsFiles:
    """The PEM files of one listener."""

    certificate_file: str
    key_file: str
    client_ca_file: str = ""
    """Whose client certificates are asked for; empty = none are."""

    def __iter__(self) -> Iterator[str]:
        """Each that is set."""
        return iter(one for one in (self.certificate_file, self.key_file, self.client_ca_file) if one)


class ServerTls:
    """One listener's TLS. Handshakes that are under way, and open connections, keep what they began with."""

    def __init__(self, name: str, files: TlsFiles, *, clock: Clock | None = None) -> None:
        """Read the files. Raises SettingsError that names keys and files."""
        self.name = name
        self.files = files
        self._clock = clock or SystemClock()
        self.trouble = ""
        """Why the files on disk are not in force (the last good ones are); empty while they are."""
        self.reloads_total = 0
        self._in_force = self._seen = self._stamps()
        self._refused: _Stamp | None = None
        try:
            self.context = self._current = self._made()
        except (OSError, ssl.SSLError, TrimtabError) as error:
            raise SettingsError(self._sentence(error)) from error
        # A context of its own for each state of the files, chosen at each handshake: loading into the one that is in
        # use would leave a moment in which certificate and key do not belong together.
        self.context.sni_callback = self._choose
        self._ends_at = self._ends()
        self.trouble = self._why_ended()
        if self.trouble:
            log_of().error("a listener's certificate has ended", listener=name, why=self.trouble)

    def look(self, *, is_asked: bool = False) -> str:
        """Read the files anew where they have changed, and say what came of it; "" = nothing has changed.

        Unasked, a change is taken up once it has stood still from one look to the next: whoever writes two files has
        not written the second yet.
        """
        stamps = self._stamps()
        was_seen, self._seen = self._seen, stamps
        if stamps == self._in_force:
            self._refused = None
            self.trouble = self._why_ended()
            return ""
        if not is_asked and (stamps != was_seen or stamps == self._refused):
            return ""
        try:
            made = self._made()
            self._check_new()
        except (OSError, ssl.SSLError, TrimtabError) as error:
            self._refused = stamps
            self.trouble = f"{self._sentence(error)} The last good ones stay in force."
            log_of().warning("new certificate files cannot be used", listener=self.name, why=self.trouble)
            return self.trouble
        self._current, self._in_force, self._refused, self.trouble = made, stamps, None, ""
        self._ends_at = self._ends()
        self.reloads_total += 1
        log_of().info(
            "certificate files read again", listener=self.name, ends_at=iso(self._ends_at or self._clock.now())
        )
        return f"{self.name}: certificate read again"

    @property
    def facts(self) -> tuple[CertificateFacts, ...]:
        """What is in force now."""
        if self._ends_at is None:
            return ()
        file = self.files.certificate_file
        return (facts_of(self.name, self._ends_at, now=self._clock.now(), file=file, trouble=self.trouble),)

    def _made(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(self.files.certificate_file, self.files.key_file, password=no_password)
        if self.files.client_ca_file:
            context.load_verify_locations(self.files.client_ca_file)
            # Never required here: who has none must be able to enrol, and hears the reason as a sentence and not as
            # an alert. Dates are judged where the sentence is made, too (ship/client_certificates.py).
            context.verify_mode = ssl.CERT_OPTIONAL
            context.verify_flags |= _NO_CHECK_TIME
            context.num_tickets = 0  # a resumed session would bring a certificate that nobody has looked at again
            context.options |= ssl.OP_NO_TICKET
        return context

    def _choose(self, handshake: Any, _name: str | None, _context: ssl.SSLContext) -> None:  # noqa: ANN401 - ssl's own
        if handshake.context is not self._current:
            handshake.context = self._current

    def _why_ended(self) -> str:
        if self._ends_at is None or self._ends_at > self._clock.now():
            return ""
        return f"{self.files.certificate_file} ended at {iso(self._ends_at)}: nobody will trust this listener"

    def _check_new(self) -> None:
        ends_at = self._ends()
        if ends_at is not None and ends_at <= self._clock.now():
            raise TrimtabError(f"it ended at {iso(ends_at)}")

    def _ends(self) -> datetime | None:
        from trimtab import pki  # noqa: PLC0415 - 16 MB that an agent without certificates of its own does not need

        return min(pki.ends_at(one) for one in pki.read_certificates(Path(self.files.certificate_file)))

    def _stamps(self) -> _Stamp:
        return tuple(stamp_of(one) for one in self.files)

    def _sentence(self, error: Exception) -> str:
        files, name = self.files, self.name
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if self.files.client_ca_file and not _holds_certificate(self.files.client_ca_file):
            return f"{name}.client_ca_file = {files.client_ca_file}: no PEM file with a certificate that can be read."
        return (
            f"{name}.certificate_file = {files.certificate_file}, {name}.key_file = {files.key_file}: {why}. "
            "Both must be PEM files that this process's user can read, and belong together."
        )


class PeerCertificate:
    """Put before uvicorn's protocol, it gives each request the certificate of its connection, at `state`."""

    app_state: dict[str, Any]

    def connection_made(self, transport: Any) -> None:  # noqa: ANN401 - asyncio's own
        """The handshake is over."""
        super().connection_made(transport)  # type: ignore[misc] # the protocol's
        handshake = transport.get_extra_info("ssl_object")
        der = handshake.getpeercert(binary_form=True) if handshake is not None else None
        self.app_state = {**self.app_state, PEER: der}


def no_password() -> str:
    """In place of a locked key's password: OpenSSL would ask on the terminal, and a daemon wait there for ever."""
    raise TrimtabError("the key is locked by a password; write it without one, readable by this process's user alone")


def log_of() -> Any:  # noqa: ANN401 - structlog's own
    """structlog, once there is something to say: with it comes rich, which a reader of /metrics does not need."""
    import structlog  # noqa: PLC0415

    return structlog.get_logger()


def _holds_certificate(path: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(path)
    except (OSError, ssl.SSLError):
        return False
    return True


def stamp_of(path: str) -> tuple[int, int, int] | None:
    """What changes when a file does; None while it is not there."""
    try:
        found = Path(path).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
