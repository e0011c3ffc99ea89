"""What a failed handshake says, in plain words: which host, which setting, which fix. One place for everybody.

Agent, verbs and daemon ask here, each with the names of its own settings. Pure: an error in, a sentence out.
"""

from __future__ import annotations

import http.client
import re
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from urllib.parse import urlsplit

from trimtab.clock import iso


class Trouble(Enum):
    """What went wrong between two that would speak TLS."""

    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    WRONG_NAME = "wrong_name"
    UNKNOWN_CA = "unknown_ca"
    NOT_TLS = "not_tls"
    NEEDS_TLS = "needs_tls"
    VERSION = "version"
    CLIENT_MISSING = "client_missing"
    CLIENT_EXPIRED = "client_expired"
    CLIENT_UNKNOWN_CA = "client_unknown_ca"
    CLIENT_REFUSED = "client_refused"
    FILE = "file"
    CUT = "cut"
    RESET = "reset"


OF_OUR_CERTIFICATE = frozenset({
    Trouble.CLIENT_EXPIRED, Trouble.CLIENT_UNKNOWN_CA, Trouble.CLIENT_REFUSED, Trouble.CUT, Trouble.RESET,
})  # fmt: skip
"""What may come of a client certificate that was shown: without it the other end may still talk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Keys:
    """How whoever asks calls the settings that matter; empty where there is none."""

    address: str
    """Where the address stands: `daemon_urls`, `--url`."""
    ca: str = ""
    certificate: str = ""
    """Of a client certificate."""
    plaintext: str = ""
    """That allows http off loopback."""
    is_daemon: bool = False
    """The other end is a trimtab daemon: its own fixes can be named."""


_BY_VERIFY_CODE = {
    9: Trouble.NOT_YET_VALID,
    10: Trouble.EXPIRED,
    62: Trouble.WRONG_NAME,
    64: Trouble.WRONG_NAME,
}
"""OpenSSL's X509_V_ERR codes; every other one is a chain that does not end at a CA that is trusted."""

_BY_REASON: tuple[tuple[str, Trouble], ...] = (
    ("CERTIFICATE_REQUIRED", Trouble.CLIENT_MISSING),
    ("ALERT_CERTIFICATE_EXPIRED", Trouble.CLIENT_EXPIRED),
    ("ALERT_UNKNOWN_CA", Trouble.CLIENT_UNKNOWN_CA),
    ("ALERT_BAD_CERTIFICATE", Trouble.CLIENT_REFUSED),
    ("ALERT_CERTIFICATE_REVOKED", Trouble.CLIENT_REFUSED),
    ("ALERT_CERTIFICATE_UNKNOWN", Trouble.CLIENT_REFUSED),
    ("ALERT_UNSUPPORTED_CERTIFICATE", Trouble.CLIENT_REFUSED),
    ("ALERT_ACCESS_DENIED", Trouble.CLIENT_REFUSED),
    ("PROTOCOL_VERSION", Trouble.VERSION),
    ("UNSUPPORTED_PROTOCOL", Trouble.VERSION),
    ("NO_PROTOCOLS_AVAILABLE", Trouble.VERSION),
    ("NO_SHARED_CIPHER", Trouble.VERSION),
    ("HANDSHAKE_FAILURE", Trouble.VERSION),
    ("WRONG_VERSION_NUMBER", Trouble.NOT_TLS),
    ("RECORD_LAYER_FAILURE", Trouble.NOT_TLS),
    ("HTTP_REQUEST", Trouble.NOT_TLS),
    ("UNKNOWN_PROTOCOL", Trouble.NOT_TLS),
    ("NO_CERTIFICATE_OR_CRL_FOUND", Trouble.FILE),
    ("PEM_LIB", Trouble.FILE),
    ("KEY_VALUES_MISMATCH", Trouble.FILE),
)

_BY_TEXT: tuple[tuple[str, Trouble], ...] = (
    ("does not match host name", Trouble.WRONG_NAME),
    ("certificate has expired", Trouble.EXPIRED),
    ("certificate is not yet valid", Trouble.NOT_YET_VALID),
    ("alert unknown ca", Trouble.CLIENT_UNKNOWN_CA),
    ("certificate required", Trouble.CLIENT_MISSING),
    ("requires a valid client certificate", Trouble.CLIENT_MISSING),
    ("certificate verify failed", Trouble.UNKNOWN_CA),
    ("server does not support SSL", Trouble.NOT_TLS),
    ("root certificate file", Trouble.FILE),
    ("no pg_hba.conf entry", Trouble.NEEDS_TLS),
)
"""What libpq says: it gives its errors as text alone."""


def trouble_of(error: BaseException, *, is_tls: bool) -> Trouble | None:
    """What of TLS went wrong, or None when it was something else. `is_tls`: we spoke TLS, or would have."""
    for one in _chain(error):
        if isinstance(one, ssl.SSLCertVerificationError):
            return _BY_VERIFY_CODE.get(one.verify_code, Trouble.UNKNOWN_CA)
        if isinstance(one, ssl.SSLEOFError):
            return Trouble.CUT
        if isinstance(one, ssl.SSLError):
            found = _of_reason(one)
            if found is not None:
                return found
        if isinstance(one, ConnectionResetError | BrokenPipeError | http.client.RemoteDisconnected):
            return Trouble.RESET if is_tls else Trouble.NEEDS_TLS
    return None


def sentence_of(
    error: BaseException,
    *,
    url: str,
    keys: Keys,
    ca_file: str = "",
    is_shown: bool = False,
    now: datetime | None = None,
) -> str | None:
    """The sentence for people, or None when it was not TLS. Of the address only the host is said, and the port.

    `is_shown`: a client certificate was shown. `now`: what this host's clock says, where a wrong one may be the reason.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return None  # no address at all: whoever was given it says so
    trouble = trouble_of(error, is_tls=parts.scheme == "https")
    if trouble is None or (trouble is Trouble.RESET and not is_shown):
        return None  # any connection may be reset
    if trouble is Trouble.CUT and is_shown:
        trouble = Trouble.RESET  # many servers say no more than this to a certificate that they do not trust
    return told(trouble, host=_place(url), name=parts.hostname or "", keys=keys, ca_file=ca_file, now=now)


def sentence_of_text(text: str, *, host: str, keys: Keys) -> str | None:
    """The same for a library that gives its errors as text: libpq."""
    for sign, trouble in _BY_TEXT:
        if sign in text:
            return told(trouble, host=host, name=host, keys=keys)
    return None


def told(trouble: Trouble, *, host: str, name: str, keys: Keys, ca_file: str = "", now: datetime | None = None) -> str:
    """The sentence of one trouble with one host."""
    teller = _Teller(host=host, name=name, keys=keys, ca_file=ca_file, now=now)
    said: str = getattr(teller, trouble.value)()
    return said


@dataclass(frozen=True, slots=True, kw_only=True)
class _Teller:
    """One sentence a method, by the name of its trouble: what is so, then what to do."""

    host: str
    name: str
    keys: Keys
    ca_file: str
    now: datetime | None

    def expired(self) -> str:
        return f"The certificate of {self.host} has ended{self._clock('ahead')}. {self._renew()}"

    def not_yet_valid(self) -> str:
        return (
            f"The certificate of {self.host} is not valid yet{self._clock('behind')}. Set the clock of this host "
            "(timedatectl shows it), or of the one that made the certificate."
        )

    def wrong_name(self) -> str:
        own = f", or add {self.name} to tls.names there and run `trimtab ca renew`" if self.keys.is_daemon else ""
        return (
            f"The certificate of {self.host} is for another name than {self.name}. Write a name that it is for in "
            f"{self.keys.address}{own}."
        )

    def unknown_ca(self) -> str:
        own = " (of a daemon with its own CA: ca/ca.pem in its state directory)" if self.keys.is_daemon else ""
        if not self.keys.ca:
            return f"The certificate of {self.host} is signed by a CA that is not trusted here. Add it to the system's."
        now = f", which is {self.ca_file} now," if self.ca_file else ""
        return (
            f"The certificate of {self.host} is signed by a CA that is not trusted here. Set {self.keys.ca}{now} "
            f"to the certificate of the CA that signed it{own}."
        )

    def not_tls(self) -> str:
        other = f" with {self.keys.plaintext}" if self.keys.plaintext else ""
        own = " (own_certificate or certificate_file of its listener)" if self.keys.is_daemon else ""
        return (
            f"{self.host} does not speak TLS. Turn it on there{own}, or write http:// in {self.keys.address}{other} "
            "if the network is trusted."
        )

    def needs_tls(self) -> str:
        return (
            f"{self.host} took the connection and hung up without an answer. If it speaks TLS, write https:// in "
            f"{self.keys.address}."
        )

    def version(self) -> str:
        return (
            f"{self.host} and this host have no version of TLS in common; TLS 1.2 is the oldest that is spoken here. "
            "Update the other end, or what stands between."
        )

    def client_missing(self) -> str:
        return f"{self.host} takes only who shows a client certificate, and none was shown. {self._certificate()}"

    def client_expired(self) -> str:
        return f"{self.host} refused our client certificate: it has ended, or the clock there is ahead. {self._anew()}"

    def client_unknown_ca(self) -> str:
        return f"{self.host} refused our client certificate: it does not trust the CA that signed it. {self._anew()}"

    def client_refused(self) -> str:
        return f"{self.host} refused our client certificate as revoked or unfit. {self._anew()}"

    def file(self) -> str:
        which = " or ".join(key for key in (self.keys.ca, self.keys.certificate) if key) or "the system's CA bundle"
        held = f" ({self.ca_file})" if self.ca_file else ""
        return f"{self.host} cannot be asked by TLS: {which}{held} is no PEM file that can be read. Correct the file."

    def cut(self) -> str:
        wish = f"It may ask for a client certificate: {self._certificate()} Or" if self.keys.certificate else "Perhaps"
        return f"{self.host} hung up in the middle of TLS. {wish} it speaks no version of TLS that is spoken here."

    def reset(self) -> str:
        return (
            f"{self.host} hung up after our client certificate was shown. If this goes on, it does not trust the CA "
            f"that signed it. {self._anew()}"
        )

    def _clock(self, how: str) -> str:
        here = f", where it is {iso(self.now)}," if self.now is not None else ""
        return f", or the clock of this host{here} is {how}"

    def _renew(self) -> str:
        own = " (`trimtab ca renew` where the daemon made it)" if self.keys.is_daemon else ""
        return f"Renew it there{own}, or set the clock."

    def _certificate(self) -> str:
        if not self.keys.certificate:
            return "This version cannot show one there."
        own = ", or enrol this node (`trimtab enroll` beside the daemon)" if self.keys.is_daemon else ""
        return f"Set {self.keys.certificate}{own}."

    def _anew(self) -> str:
        own = (
            "Enrol this node anew (`trimtab enroll NODE --again` beside the daemon), or correct"
            if (self.keys.is_daemon)
            else "Correct"
        )
        return f"{own} {self.keys.certificate or 'it'}."


_PEERS: tuple[tuple[str, str], ...] = (
    ("HTTP_REQUEST", "it speaks HTTP here, where TLS is spoken: write https:// there"),
    ("ALERT_UNKNOWN_CA", "it does not trust the CA of our certificate: give it that CA (ca_file on an agent)"),
    ("ALERT_CERTIFICATE_EXPIRED", "it finds our certificate ended: renew it, or set the clock there"),
    ("ALERT_BAD_CERTIFICATE", "it finds our certificate to be for another name, or not valid yet"),
    ("ALERT_CERTIFICATE_UNKNOWN", "it does not like our certificate: wrong name, or a CA that it does not trust"),
    ("CERTIFICATE_VERIFY_FAILED", "its client certificate is not signed by a CA of client_ca_file"),
    ("UNSUPPORTED_PROTOCOL", "it speaks no version of TLS from 1.2 on: update it"),
    ("NO_SHARED_CIPHER", "it has no cipher in common with us: update it"),
    ("WRONG_VERSION_NUMBER", "it does not speak TLS"),
)


def peer_trouble(error: BaseException) -> str:
    """Why a handshake with whoever connected to us failed, in words; empty where they only hung up."""
    for one in _chain(error):
        if isinstance(one, ssl.SSLError):
            reason = (one.reason or str(one)).upper().replace(" ", "_")
            return next((words for sign, words in _PEERS if sign in reason), "")
    return ""


def _of_reason(error: ssl.SSLError) -> Trouble | None:
    reason = (error.reason or str(error)).upper().replace(" ", "_")
    return next((trouble for sign, trouble in _BY_REASON if sign in reason), None)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and all that it was made of: requests and urllib3 wrap by cause, by argument and by `reason`."""
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop(0)
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        inner = (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
        waiting += [each for each in inner if isinstance(each, BaseException)]


_PORT = re.compile(r":\d+$")


def _place(url: str) -> str:
    parts = urlsplit(url)
    host = parts.hostname or "no host"
    named = f"[{host}]" if ":" in host else host
    return named if _PORT.search(parts.netloc) is None else f"{named}:{parts.port}"
