"""The one door to `requests`: sessions with time-outs, bounded retries and the site's own CA."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.util.retry import Retry

from trimtab.trust import Trust, system_bundle

OutboundError = requests.RequestException

# Its debug lines hold whole addresses, and of some targets the address is the secret.
logging.getLogger("urllib3").setLevel(logging.INFO)

UNHEARD_MS = 6000
"""Data that the other host's kernel has not acknowledged for so long went nowhere."""
WAITS_PER_EXCHANGE = 2.5
"""Time-outs that one exchange may take in all: for the connection, the answer, and its body."""


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only be reached from this host."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


class TimeoutAdapter(HTTPAdapter):
    """An adapter that gives every request a time-out, since requests has none by default."""

    def __init__(self, *, timeout_seconds: float, retries: int, trust: Trust | None = None) -> None:
        """`retries` applies to connection failures of idempotent calls only."""
        self._timeout_seconds = timeout_seconds
        self._trust = trust
        super().__init__(max_retries=Retry(total=retries, backoff_factor=0.2, status=0), pool_maxsize=16)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:  # noqa: ANN401 - requests' own signature
        """A peer whose network is cut says nothing, not even no: what it does not acknowledge in time ends the wait."""
        options = [*HTTPConnection.default_socket_options, (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, UNHEARD_MS)]
        super().init_poolmanager(*args, **kwargs, socket_options=options)

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:  # noqa: ANN401 - requests' own signature
        """Send with the default time-out where the caller gave none."""
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = self._timeout_seconds
        if self._trust is not None and self._trust.look():
            self.poolmanager.clear()  # connections that were made with the old files are used no more
        return super().send(*args, **kwargs)

    def use(self, trust: Trust) -> None:
        """Trust and show what this says, from the next connection on."""
        self._trust = trust
        self.poolmanager.clear()

    def cert_verify(self, conn: Any, url: str, verify: Any, cert: Any) -> None:  # noqa: ANN401 - requests' own signature
        """Of a trust of ours the context says it all."""
        if self._trust is None:
            super().cert_verify(conn, url, verify, cert)  # type: ignore[no-untyped-call]
        else:
            conn.cert_reqs = "CERT_REQUIRED"

    def build_connection_pool_key_attributes(
        self,
        request: requests.PreparedRequest,
        verify: Any,  # noqa: ANN401 - requests' own signature
        cert: Any = None,  # noqa: ANN401
    ) -> Any:  # noqa: ANN401
        """Connections of one trust are those that its context made."""
        host, context = super().build_connection_pool_key_attributes(request, verify, cert)
        if self._trust is not None:
            context = {"ssl_context": self._trust.context, "cert_reqs": "CERT_REQUIRED"}
        return host, context


class _Straight(requests.Session):
    """Goes where it was sent and nowhere else: whoever answers could send us, our token and our reports elsewhere."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002 - requests' own signature
        """None: an answer that redirects is an answer, and no good one."""
        return None


def session(
    *,
    timeout_seconds: float,
    retries: int = 0,
    ca_file: str | None = None,
    token: str | None = None,
    trust: Trust | None = None,
) -> requests.Session:
    """A session for one peer. The environment's proxies and CA bundles are not used (`trust_env` off).

    `trust` takes the place of `ca_file` where files are to be read anew, or a certificate is shown.
    """
    made = _Straight()
    made.trust_env = False
    made.verify = ca_file or system_bundle() or True
    if token:
        made.headers["Authorization"] = f"Bearer {token}"
    adapter = TimeoutAdapter(timeout_seconds=timeout_seconds, retries=retries, trust=trust)
    made.mount("http://", adapter)
    made.mount("https://", adapter)
    return made


def retrust(held: requests.Session, trust: Trust) -> None:
    """Let a session that there is trust and show what this says."""
    for adapter in held.adapters.values():
        if isinstance(adapter, TimeoutAdapter):
            adapter.use(trust)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a peer answered; header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes


def exchange(
    method: str,
    url: str,
    *,
    body: bytes | None,
    headers: Mapping[str, str],
    timeout_seconds: float,
    ca_file: str | None = None,
    trust: Trust | None = None,
    proxy_url: str | None = None,
    answer_bytes_max: int = 64 * 1024,
) -> Answer:
    """One request on a connection of its own: no retry, no redirect followed, the answer bounded in size and time.

    Raises OutboundError; `never_left` tells whether the other end may have seen it.
    """
    ended: SimpleQueue[Answer | Exception] = SimpleQueue()

    def work() -> None:
        try:
            with session(timeout_seconds=timeout_seconds, ca_file=ca_file, trust=trust) as own:
                own.headers.update({"User-Agent": "trimtab", "Accept-Encoding": "identity"})
                if proxy_url:
                    own.proxies = {"http": proxy_url, "https": proxy_url}
                asked = own.request(method, url, data=body, headers=dict(headers), allow_redirects=False, stream=True)
                with asked as answer:
                    ended.put(_whole(answer, answer_bytes_max))
        except (OutboundError, OSError, HTTPError, ValueError) as error:
            ended.put(error)

    # A time-out of requests is one of each wait: a name that does not resolve, or an end that sends a byte now and
    # then, would hold us for minutes, and whoever is to be told instead with us.
    Thread(target=work, name=f"exchange {urlsplit(url).hostname}", daemon=True).start()
    try:
        outcome = ended.get(timeout=timeout_seconds * WAITS_PER_EXCHANGE)
    except Empty:
        raise requests.ReadTimeout(f"no whole answer in {timeout_seconds * WAITS_PER_EXCHANGE:g} s") from None
    if isinstance(outcome, Answer):
        return outcome
    if isinstance(outcome, HTTPError):
        raise requests.ConnectionError(outcome) from outcome
    raise outcome


def _whole(answer: requests.Response, bytes_max: int) -> Answer:
    """The answer with as much of its body as we want to know."""
    told = bytearray()
    while len(told) < bytes_max and (piece := answer.raw.read1(4096, decode_content=True)):
        told += piece
    lowered = {name.lower(): value for name, value in answer.headers.items()}
    return Answer(status=answer.status_code, headers=lowered, body=bytes(told[:bytes_max]))


def never_left(error: Exception) -> bool:
    """Whether a failed request surely did not reach the other end: no name, no connection, no trust."""
    if isinstance(error, requests.ReadTimeout):
        return False
    if isinstance(error, requests.ConnectTimeout | requests.exceptions.SSLError | requests.exceptions.ProxyError):
        return True
    if isinstance(error, requests.ConnectionError):
        cause = error.args[0] if error.args else None
        return isinstance(getattr(cause, "reason", None), NewConnectionError)
    return not isinstance(error, requests.exceptions.ChunkedEncodingError | requests.exceptions.ContentDecodingError)
