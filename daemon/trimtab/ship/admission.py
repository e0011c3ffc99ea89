"""How an agent asks a daemon to be let in: join, renewal, and the daemon's CA at the first contact."""

from __future__ import annotations

import hashlib
import http.client
import ssl
from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from trimtab.errors import TrimtabError
from trimtab.model.enrolment import Admission
from trimtab.outbound import OutboundError, exchange
from trimtab.ship.unreached import unreached
from trimtab.trust import Trust, TrustFiles

TIMEOUT_SECONDS = 10.0
CA_BYTES_MAX = 64 * 1024
_SENTENCE_CHARS_MAX = 600


class NotAdmitted(TrimtabError):
    """The daemon said no, or could not be asked. `is_final`: asking again with the same will not help."""

    def __init__(
        self,
        sentence: str,
        *,
        status: int = 0,
        reason: str = "",
        is_final: bool = False,
        retry_after_seconds: float = 0.0,
    ) -> None:
        """What is shown to people, and what decides when to ask again."""
        super().__init__(sentence)
        self.status = status
        self.reason = reason
        self.is_final = is_final
        self.retry_after_seconds = retry_after_seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One request to be let in."""

    node: str
    cluster: str
    sha256: str
    csr_pem: str = ""


class _No(msgspec.Struct):
    error: str = ""
    reason: str = ""


def ask(
    base_url: str, path: str, entry: Entry, *, token: str, ca_file: str, shown: TrustFiles | None = None
) -> Admission:
    """POST to /v1/enroll or /v1/renew. Raises NotAdmitted, and SettingsError for files that cannot be read.

    `shown` takes the place of `ca_file` where a client certificate is shown.
    """
    url = base_url.rstrip("/") + path
    body = {"node": entry.node, "cluster": entry.cluster, "sha256": entry.sha256, "csr": entry.csr_pem}
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {token}"}
    try:
        answer = exchange(
            "POST",
            url,
            body=msgspec.json.encode(body),
            headers=headers,
            timeout_seconds=TIMEOUT_SECONDS,
            ca_file=ca_file or None,
            trust=Trust(shown) if shown is not None else None,
        )
    except OutboundError as error:
        raise NotAdmitted(unreached(error, url=base_url, ca_file=ca_file)) from error
    if answer.status == 200:
        try:
            return msgspec.json.decode(answer.body, type=Admission)
        except msgspec.MsgspecError as error:
            raise NotAdmitted(f"{url} answered 200 and no admission: is it a trimtab daemon?") from error
    raise _no(url, answer.status, answer.body, answer.headers.get("retry-after", ""))


def daemon_ca(base_url: str, fingerprint: str) -> str:
    """The CA (PEM) with this SHA-256, from the daemon itself: nothing else is taken. Raises NotAdmitted."""
    parts = urlsplit(base_url)
    context = ssl.create_default_context()
    # Nothing is believed here but the bytes whose hash the operator's token carries.
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(
        parts.hostname or "", parts.port or 443, timeout=TIMEOUT_SECONDS, context=context
    )
    try:
        connection.request("GET", f"{parts.path.rstrip('/')}/v1/ca")
        answer = connection.getresponse()
        status, pem = answer.status, answer.read(CA_BYTES_MAX)
    except (OSError, http.client.HTTPException) as error:
        raise NotAdmitted(unreached(error, url=base_url)) from error
    finally:
        connection.close()
    if status != 200:
        raise _no(f"{base_url}/v1/ca", status, pem, "")
    try:
        der = ssl.PEM_cert_to_DER_cert(pem.decode("ascii").strip())
    except ValueError as error:
        raise NotAdmitted(f"{base_url}/v1/ca is no certificate: is it a trimtab daemon?") from error
    found = hashlib.sha256(der).hexdigest()
    if found != fingerprint:
        raise NotAdmitted(
            f"{base_url} has another CA than the join token says (its SHA-256 begins with {found[:12]}, the token's "
            f"with {fingerprint[:12]}). Either it is not the daemon that made the token, or its CA was made anew: ask "
            "for another token.",
            reason="other_ca",
            is_final=True,
        )
    # Made of what was hashed, never the text that came: a second certificate in that would be trusted unseen.
    return ssl.DER_cert_to_PEM_cert(der)


def _no(url: str, status: int, body: bytes, retry_after: str) -> NotAdmitted:
    try:
        said = msgspec.json.decode(body, type=_No)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        said = _No()
    sentence = said.error[:_SENTENCE_CHARS_MAX] or f"{url} answered {status}: is it a trimtab daemon?"
    seconds = min(float(retry_after), 600.0) if retry_after.isdecimal() else 0.0
    is_final = status in (401, 403, 409, 413, 422) and bool(said.reason)
    return NotAdmitted(sentence, status=status, reason=said.reason, is_final=is_final, retry_after_seconds=seconds)
