"""The dead man's handle: a sign of life each minute, to whatever pages when it stays away."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from trimtab.errors import TrimtabError
from trimtab.handshakes import Keys, sentence_of
from trimtab.outbound import OutboundError, exchange

KEYS = Keys(address="oncall.heartbeat_url")
TIMEOUT_SECONDS = 10.0


class NoHeartbeat(TrimtabError):
    """The sign of life was not given, or not taken; the text says why."""


class Heartbeat:
    """Asks one address. While the daemon is not well it stays silent, which is what makes the other end page."""

    def __init__(self, url: Callable[[], str], *, why_not_well: Callable[[], str]) -> None:
        """`url` is asked each time: a secret address may change in its file."""
        self._url = url
        self._why_not_well = why_not_well

    def tick(self) -> str:
        """One sign of life. Raises NoHeartbeat."""
        why = self._why_not_well()
        if why:
            raise NoHeartbeat(f"No heartbeat is sent, so that somebody is paged: {why} is not well.")
        url = self._url()
        host = "the address"
        try:
            host = urlsplit(url).hostname or "no host"
            answer = exchange("GET", url, body=None, headers={}, timeout_seconds=TIMEOUT_SECONDS)
        except (OutboundError, OSError, ValueError) as error:
            # The error's own text holds the address, and that is the secret.
            said = sentence_of(error, url=url, keys=KEYS) or f"{type(error).__name__}."
            raise NoHeartbeat(f"{host} did not take the heartbeat: {said}") from None
        if not 200 <= answer.status < 300:
            raise NoHeartbeat(f"{host} did not take the heartbeat: it answered {answer.status}.")
        return f"{host} has heard that all is well"
