"""The one door to `requests`: sessions with time-outs, bounded retries and the site's own CA."""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Mapping
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.exceptions import HTTPError, NewConnectionError
from urllib3.util.retry import Retry

OutboundError = requests.RequestException

# Its debug lines hold whole addresses, and of some targets the address is the secret.
logging.getLogger("urllib3").setLevel(logging.INFO)

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

    def __init__(self, *, timeout_seconds: float, retries: int) -> None:
        """`retries` applies to connection failures of idempotent calls only."""
        self._timeout_seconds = timeout_seconds
        super().__init__(max_retries=Retry(total=retries, backoff_factor=0.2, status=0), pool_maxsize=16)

    def send(self, *args: Any, **kwargs: Any) -> requests.Response:  # noqa: ANN401 - requests' own signature
        """Send with the default time-out where the caller gave none."""
        if kwargs.get("timeout") is None:
            kwargs["timeout"] = self._timeout_seconds
        return super().send(*args, **kwargs)


class _Straight(requests.Session):
    """Goes where it was sent and nowhere else: whoever answers could send us, our token and our reports elsewhere."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:  # noqa: ARG002 - requests' own signature
        """None: an answer that redirects is an answer, and no good one."""
        return None


def session(
    *, timeout_seconds: float, retries: int = 0, ca_file: str | None = None, token: str | None = None
) -> requests.Session:
    """A session for one peer. The environment's proxies and CA bundles are not used (`trust_env` off)."""
    made = _Straight()
    made.trust_env = False
    made.verify = ca_file if ca_file else True
    if token:
        made.headers["Authorization"] = f"Bearer {token}"
    adapter = TimeoutAdapter(timeout_seconds=timeout_seconds, retries=retries)
    made.mount("http://", adapter)
    made.mount("https://", adapter)
    return made


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
    proxy_url: str | None = None,
    answer_bytes_max: int = 64 * 1024,
) -> Answer:
    """One request on a connection of its own: no retry, no redirect followed, the answer bounded in size and time.

    Raises OutboundError; `never_left` tells whether the other end may have seen it.
    """
    ended: SimpleQueue[Answer | Exception] = SimpleQueue()

    def work() -> None:
        try:
            with session(timeout_seconds=timeout_seconds, ca_file=ca_file) as own:
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
