"""Whom a session trusts over TLS, and what it shows of itself; both read anew when their files change."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from trimtab.clock import Clock, SystemClock, iso
from trimtab.errors import SettingsError, TrimtabError
from trimtab.tls import CertificateFacts, facts_of, log_of, no_password, stamp_of

LOOK_SECONDS = 2.0
"""The files are looked at this often at most: three stats."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustFiles:
    """PEM files of a client; empty = the system's CAs, no certificate."""

    ca_file: str = ""
    certificate_file: str = ""
    """Of its own; one that is not there (yet) is not shown."""
    key_file: str = ""


class Trust:
    """One client's side of TLS. Safe to share by the sessions of one thread."""

    def __init__(self, files: TrustFiles, *, clock: Clock | None = None) -> None:
        """Read the files. Raises SettingsError for a CA file that cannot be read."""
        self.files = files
        self.trouble = ""
        """Why the files on disk are not in force (the last good ones are); empty while they are."""
        self._clock = clock or SystemClock()
        self._looked_at_seconds = self._clock.monotonic_seconds()
        self._in_force = self._seen = self._stamps()
        self._refused: tuple[object, ...] | None = None
        self._ends_at: datetime | None = None
        self._ca_ends_at: datetime | None = None
        self.is_shown = False
        """Whether a client certificate is shown."""
        try:
            self.context = self._made()
        except (OSError, ssl.SSLError, TrimtabError) as error:
            raise SettingsError(self._sentence(error)) from error

    def look(self) -> bool:
        """Read the files anew where they have changed; true when new connections use new ones.

        A change is taken up once it has stood still from one look to the next, so that of two files both are new.
        """
        now = self._clock.monotonic_seconds()
        if now - self._looked_at_seconds < LOOK_SECONDS:
            return False
        self._looked_at_seconds = now
        stamps = self._stamps()
        was_seen, self._seen = self._seen, stamps
        if stamps == self._in_force:
            self.trouble = ""
            return self._has_ended()
        if stamps != was_seen or stamps == self._refused:
            return False
        return self._take(stamps)

    @property
    def facts(self) -> tuple[CertificateFacts, ...]:
        """What is in force, and when it ends."""
        files, now = self.files, self._clock.now()
        held = (("client", self._ends_at, files.certificate_file), ("ca", self._ca_ends_at, files.ca_file))
        return tuple(
            facts_of(use, ends_at, now=now, file=file, trouble=self.trouble)
            for use, ends_at, file in held
            if ends_at is not None
        )

    def _take(self, stamps: tuple[object, ...]) -> bool:
        try:
            self.context = self._made()
        except (OSError, ssl.SSLError, TrimtabError) as error:
            self._refused = stamps
            self.trouble = f"{self._sentence(error)} The last good ones stay in force."
            log_of().warning("new certificate files cannot be used", why=self.trouble)
            return False
        self._in_force, self._refused, self.trouble = stamps, None, ""
        log_of().info("certificate files read again", ca_file=self.files.ca_file, client=self.files.certificate_file)
        return True

    def _has_ended(self) -> bool:
        """A certificate that has ended is shown no more: the token still says who this is, and can renew it."""
        if not self.is_shown or self._ends_at is None or self._ends_at > self._clock.now():
            return False
        self.context = self._made()
        return True

    def _made(self) -> ssl.SSLContext:
        context, files = _trusting(self.files.ca_file), self.files
        if files.ca_file:
            self._ca_ends_at = min((_moment(str(one["notAfter"])) for one in context.get_ca_certs()), default=None)
        self._ends_at, self.is_shown = None, False
        if files.certificate_file and Path(files.certificate_file).exists():
            self._ends_at = _ends_at(files.certificate_file)
            self.is_shown = self._ends_at > self._clock.now()
        if self.is_shown:
            context.load_cert_chain(files.certificate_file, files.key_file or None, password=no_password)
        elif self._ends_at is not None:
            log_of().error("the client certificate has ended and is not shown", file=files.certificate_file,
                      ended_at=iso(self._ends_at))  # fmt: skip
        return context

    def _stamps(self) -> tuple[object, ...]:
        files = self.files
        return tuple(stamp_of(one) for one in (files.ca_file, files.certificate_file, files.key_file) if one)

    def _sentence(self, error: Exception) -> str:
        files = self.files
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        named = [f"ca_file = {files.ca_file}"] if files.ca_file else []
        if files.certificate_file:
            named += [f"client_certificate_file = {files.certificate_file}", f"client_key_file = {files.key_file}"]
        return f"{', '.join(named)}: {why}. They must be PEM files that this process's user can read."


def system_bundle() -> str | None:
    """The system's CAs, a file or a directory; None where it has none, and the bundle of `requests` must do."""
    paths = ssl.get_default_verify_paths()
    if Path(paths.openssl_cafile).is_file():
        return paths.openssl_cafile
    directory = Path(paths.openssl_capath)
    return str(directory) if directory.is_dir() and any(directory.iterdir()) else None


def _trusting(ca_file: str) -> ssl.SSLContext:
    import certifi  # noqa: PLC0415 - of `requests`, for a system without a bundle of its own

    bundle = ca_file or system_bundle() or certifi.where()
    is_directory = Path(bundle).is_dir()
    context = ssl.create_default_context(
        cafile=None if is_directory else bundle, capath=bundle if is_directory else None
    )
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _ends_at(path: str) -> datetime:
    from trimtab import pki  # noqa: PLC0415 - 16 MB that an agent without a certificate of its own does not need

    return min(pki.ends_at(one) for one in pki.read_certificates(Path(path)))


def _moment(text: str) -> datetime:
    return datetime.fromtimestamp(ssl.cert_time_to_seconds(text), UTC)
