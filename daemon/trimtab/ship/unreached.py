"""Why a daemon was not reached, as agent and `trimtab join` say it: of TLS with host, setting and fix."""

from __future__ import annotations

from datetime import datetime

from trimtab.handshakes import Keys, sentence_of

KEYS = Keys(
    address="daemon_urls",
    ca="ca_file",
    certificate="client_certificate_file",
    plaintext="allow_plaintext = true",
    is_daemon=True,
)


def unreached(
    error: BaseException, *, url: str, ca_file: str = "", is_shown: bool = False, now: datetime | None = None
) -> str:
    """The sentence; `is_shown` and `now` as in `sentence_of`."""
    said = sentence_of(error, url=url, keys=KEYS, ca_file=ca_file, is_shown=is_shown, now=now)
    return said or f"{url} is out of reach: {_why(error)}."


def _why(error: BaseException) -> str:
    """The innermost reason: requests wraps the one sentence that helps three times."""
    reason = error
    while (inner := reason.__cause__ or reason.__context__) is not None:
        reason = inner
    text = reason.strerror if isinstance(reason, OSError) and reason.strerror else str(reason)
    return (text or type(reason).__name__).rstrip(".")
