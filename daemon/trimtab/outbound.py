"""The one door to `requests`: sessions with time-outs, bounded retries and the site's own CA."""

from __future__ import annotations

import ipaddress
from typing import Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.util.retry import Retry

OutboundError = requests.RequestException


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


def session(
    *, timeout_seconds: float, retries: int = 0, ca_file: str | None = None, token: str | None = None
) -> requests.Session:
    """A session for one peer. The environment's proxies and CA bundles are not used (`trust_env` off)."""
    made = requests.Session()
    made.trust_env = False
    made.verify = ca_file if ca_file else True
    if token:
        made.headers["Authorization"] = f"Bearer {token}"
    adapter = TimeoutAdapter(timeout_seconds=timeout_seconds, retries=retries)
    made.mount("http://", adapter)
    made.mount("https://", adapter)
    return made
