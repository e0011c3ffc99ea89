"""Whether an agent's client certificate goes with its token: the right node, in date, not revoked."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal, Protocol

from trimtab.clock import Clock, iso
from trimtab.pki import CertificateError, certificate_of_der, ends_at, node_of, serial_of, starts_at

CERTIFICATES_KEPT = 32_768
"""Read once and not at each report."""


class RevokedSerials(Protocol):
    """Who knows which client certificates are good no more."""

    def is_revoked(self, serial: str) -> bool:
        """Whether the certificate with this serial number (lower-case hex) was revoked."""
        ...


class NothingRevoked:
    """Where certificates come from an operator's CA and nobody keeps a list here."""

    def is_revoked(self, serial: str) -> bool:  # noqa: ARG002 - the shape of RevokedSerials
        """None is."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """Why a certificate does not let its bearer in: HTTP status and sentence."""

    status: int
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    node: str | None
    serial: str
    starts_at: datetime
    ends_at: datetime


class ClientRule:
    """What is asked of client certificates. The handshake has checked who signed them, and no more."""

    def __init__(
        self,
        mode: Literal["off", "wanted", "required"],
        *,
        clock: Clock,
        revoked: RevokedSerials | None = None,
    ) -> None:
        """`clock` must be a real one, as certificates' dates are."""
        self.mode = mode
        self._clock = clock
        self._revoked = revoked or NothingRevoked()

    def why_not(self, der: bytes | None, node: str) -> Objection | None:
        """Why a bearer of this node's token may not report over a connection with this certificate; None = it may."""
        if self.mode == "off":
            return None
        if der is None:
            return self._nothing_shown() if self.mode == "required" else None
        try:
            shown = _read(der)
        except CertificateError as error:
            return Objection(status=401, sentence=f"The client certificate cannot be read: {error}.")
        return self._judged(shown, node)

    def _judged(self, shown: _Read, node: str) -> Objection | None:
        now, named = self._clock.now(), f"The client certificate of node {shown.node or '(none)'}"
        if shown.node != node:
            return Objection(
                status=403,
                sentence=f"{named} was shown with the token of node {node}. Give each node its own "
                "(client_certificate_file, client_key_file and token_file on the agent).",
            )
        if now < shown.starts_at:
            return Objection(
                status=401,
                sentence=f"{named} is not valid before {iso(shown.starts_at)}, and here it is {iso(now)}: "
                "one of the two clocks is wrong. Set it by NTP.",
            )
        if now >= shown.ends_at:
            return Objection(
                status=401,
                sentence=f"{named} ended at {iso(shown.ends_at)}. Give the node a new one: `trimtab enroll {node} "
                "--again`, or your CA's.",
            )
        if self._revoked.is_revoked(shown.serial):
            return Objection(
                status=401,
                sentence=f"{named} (serial {shown.serial}) was revoked. If the node is to report again: "
                f"`trimtab enroll {node}`.",
            )
        return None

    def _nothing_shown(self) -> Objection:
        return Objection(
            status=401,
            sentence="Show this node's client certificate: this daemon takes no report without one "
            "(ingest.client_certificates = required). Enrol the node, or set client_certificate_file and "
            "client_key_file in the agent's settings.",
        )


@lru_cache(maxsize=CERTIFICATES_KEPT)
def _read(der: bytes) -> _Read:
    certificate = certificate_of_der(der)
    return _Read(
        node=node_of(certificate),
        serial=serial_of(certificate),
        starts_at=starts_at(certificate),
        ends_at=ends_at(certificate),
    )
