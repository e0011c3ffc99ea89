"""How senders speak HTTP: one request, and every way in which it can fail told apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC
from email.utils import parsedate_to_datetime
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from trimtab.clock import Clock
from trimtab.errors import SettingsError
from trimtab.handshakes import Keys, sentence_of
from trimtab.outbound import Answer, OutboundError, exchange, is_loopback, never_left
from trimtab.settings.oncall_targets import TargetSection
from trimtab.show.oncall.secret import Secret, scrubbed
from trimtab.show.oncall.sender import Dead, TryAgain

Document = Mapping[str, object]

SAID_CHARACTERS_MAX = 200
RETRY_AFTER_SECONDS_MAX = 3600.0
_AGAIN = (408, 425, 429)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What all senders share: the time, and the folder that relative files are relative to."""

    clock: Clock
    directory: Path

    def secret(self, name: str, path: str) -> Secret | None:
        """The secret in a file that may be left unset. Raises SettingsError."""
        return self.needed(name, path) if path else None

    def address(self, name: str, path: str, settings: TargetSection) -> Secret:
        """A secret that is a web address. Raises SettingsError."""
        found = self.needed(name, path)
        checked_address(name, found.value, settings)
        return found

    def needed(self, name: str, path: str) -> Secret:
        """The secret in a file. Raises SettingsError."""
        return Secret(self.directory / path, of=f"oncall.targets.{name}")


def checked_address(name: str, url: str, settings: TargetSection) -> None:
    """Raise SettingsError for what is no web address, or would carry secrets in the clear; the address is not shown."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise SettingsError(f"oncall.targets.{name}: its address is none of http or https. Copy the whole of it.")
    if parts.scheme == "http" and not is_loopback(parts.hostname) and not settings.allow_plaintext:
        raise SettingsError(
            f"oncall.targets.{name}: its address has no TLS. Use https, or set allow_plaintext where nobody listens."
        )


class Post:
    """Speaks to one target. Nothing that it says or raises holds a secret."""

    def __init__(self, name: str, settings: TargetSection, site: Site, *secrets: Secret) -> None:
        """`name` is the target's. Raises SettingsError for a proxy file that is not there."""
        self._settings = settings
        self._keys = Keys(address=f"oncall.targets.{name}", ca=f"oncall.targets.{name}.ca_file")
        self._site = site
        self._ca_file = str(site.directory / settings.ca_file) if settings.ca_file else None
        self._proxy = site.secret(name, settings.proxy_url_file)
        url = getattr(settings, "url", None)
        if url:
            checked_address(name, url, settings)
        self._secrets = tuple(secret for secret in (*secrets, self._proxy) if secret)

    def json(
        self, url: str, document: Document | bytes, *, headers: Mapping[str, str] | None = None, method: str = "POST"
    ) -> Answer:
        """Send JSON and get an answer of 2xx. Raises TryAgain or Dead."""
        return self.checked(self.exchange(url, document, headers=headers, method=method))

    def exchange(
        self,
        url: str,
        document: Document | bytes | None,
        *,
        headers: Mapping[str, str] | None = None,
        method: str = "POST",
    ) -> Answer:
        """Send JSON and get whatever answer there is. Raises TryAgain when there is none."""
        body = document if isinstance(document, bytes) or document is None else encoded(document)
        kind = {} if body is None else {"Content-Type": "application/json; charset=utf-8"}
        try:
            return exchange(
                method,
                url,
                body=body,
                headers={**kind, **(headers or {})},
                timeout_seconds=self._settings.timeout_seconds,
                ca_file=self._ca_file,
                proxy_url=self._proxy.value if self._proxy else self._settings.proxy_url,
            )
        except (OutboundError, OSError) as error:
            # Neither the error's own text nor its cause is shown: both hold the address, which may be the secret.
            # An OSError here is a ca_file that cannot be read.
            host = urlsplit(url).hostname or "no host"
            said = sentence_of(error, url=url, keys=self._keys) or f"no answer from {host}: {_kind_of(error)}"
            raise TryAgain(said, may_have_arrived=not never_left(error)) from None

    def checked(self, answer: Answer) -> Answer:
        """The answer, if it is 2xx. Raises TryAgain or Dead."""
        status = answer.status
        if 200 <= status < 300:
            return answer
        said = self.said(answer)
        if status in _AGAIN or status >= 500:
            # 503 is said by those who did not take it; behind the other 5xx it may have been taken.
            may_have_arrived = status >= 500 and status != 503
            raise TryAgain(said, after_seconds=self.retry_after_seconds(answer), may_have_arrived=may_have_arrived)
        if 300 <= status < 400:
            raise Dead(f"{said}: redirects are not followed; set the address that it points to")
        raise Dead(said)

    def read(self, answer: Answer) -> dict[str, object]:
        """The answer's JSON object. Raises TryAgain for anything else: then something in between has answered."""
        try:
            return msgspec.json.decode(answer.body, type=dict[str, object])
        except (msgspec.DecodeError, UnicodeDecodeError):
            said = self.said(answer)
            raise TryAgain(f"{said}: not the target's own answer; is a proxy in between?") from None

    def said(self, answer: Answer) -> str:
        """The answer in a line, without secrets."""
        text = " ".join(answer.body.decode(errors="replace").split())
        hidden = self.scrubbed(text)[:SAID_CHARACTERS_MAX]
        return f"answered {answer.status}" + (f" {hidden}" if hidden else "")

    def scrubbed(self, text: str) -> str:
        """The text without secrets."""
        return scrubbed(text, (line for secret in self._secrets for line in secret.lines))

    def retry_after_seconds(self, answer: Answer) -> float | None:
        """How long the target asks us to wait, within reason."""
        value = answer.headers.get("retry-after", "").strip()
        if not value:
            return None
        try:
            seconds = float(value)
        except ValueError:
            try:
                moment = parsedate_to_datetime(value)
            except ValueError:
                return None
            aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
            seconds = (aware - self._site.clock.now()).total_seconds()
        return min(max(seconds, 0.0), RETRY_AFTER_SECONDS_MAX) if seconds == seconds else None  # noqa: PLR0124 - NaN


def encoded(document: object) -> bytes:
    """Compact UTF-8 JSON."""
    return msgspec.json.encode(document)


def _kind_of(error: Exception) -> str:
    """What went wrong, by name: the innermost kind that is known, but that the proxy is to blame comes first."""
    cause = error.args[0] if error.args else None
    reason = getattr(cause, "reason", None)
    is_proxys = type(error).__name__ == "ProxyError"
    return type(reason if isinstance(reason, Exception) and not is_proxys else error).__name__
