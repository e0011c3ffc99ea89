"""How often somebody may be wrong about a secret: by peer and in all, refilled by the minute."""

from __future__ import annotations

import ipaddress
import math
import threading
from collections import OrderedDict
from dataclasses import dataclass

from trimtab.clock import Clock
from trimtab.errors import TrimtabError

PEERS_MAX = 4096
"""Peers whose failures are remembered; of more, the one that was wrong longest ago is forgotten."""


class TooManyAttempts(TrimtabError):
    """Too many wrong secrets; nothing was looked at. `retry_after_seconds` says when it is worth trying again."""

    def __init__(self, sentence: str, *, retry_after_seconds: int) -> None:
        """The sentence, and for how long."""
        super().__init__(sentence)
        self.retry_after_seconds = retry_after_seconds


@dataclass(slots=True)
class _Bucket:
    """How many attempts stand against somebody; they run out evenly."""

    level: float
    at_seconds: float

    def drained(self, now_seconds: float, per_minute: int) -> float:
        gone = (now_seconds - self.at_seconds) * per_minute / 60.0
        return max(self.level - gone, 0.0)


class Attempts:
    """Counts attempts before they are looked at, so that many at once count too, and takes back those that were right.

    Who knows their secret is never held up by their own attempts; past the bound not even a right one is looked at.
    """

    def __init__(self, *, clock: Clock, per_peer_per_minute: int, per_minute: int) -> None:
        """The bounds are bursts too: so many at once, then so many a minute."""
        self._clock = clock
        self._per_peer = per_peer_per_minute
        self._in_all = per_minute
        self._lock = threading.Lock()
        self._peers: OrderedDict[str, _Bucket] = OrderedDict()
        self._all = _Bucket(0.0, clock.monotonic_seconds())

    def begin(self, peer: str) -> None:
        """Count one attempt of this peer. Raises TooManyAttempts."""
        key, now = network_of(peer), self._clock.monotonic_seconds()
        with self._lock:
            bucket = self._peers.get(key) or _Bucket(0.0, now)
            level, level_in_all = bucket.drained(now, self._per_peer), self._all.drained(now, self._in_all)
            self._check(level, self._per_peer, f"from {peer or 'this address'}")
            self._check(level_in_all, self._in_all, "in all")
            self._peers[key] = _Bucket(level + 1.0, now)
            self._peers.move_to_end(key)
            self._all = _Bucket(level_in_all + 1.0, now)
            while len(self._peers) > PEERS_MAX:
                self._peers.popitem(last=False)

    def was_right(self, peer: str) -> None:
        """Take the attempt back."""
        with self._lock:
            bucket = self._peers.get(network_of(peer))
            if bucket is not None:
                bucket.level = max(bucket.level - 1.0, 0.0)
            self._all.level = max(self._all.level - 1.0, 0.0)

    @staticmethod
    def _check(level: float, per_minute: int, whose: str) -> None:
        if level + 1.0 <= per_minute + 1e-9:
            return
        wait_seconds = math.ceil((level + 1.0 - per_minute) * 60.0 / per_minute)
        raise TooManyAttempts(
            f"Too many wrong attempts to sign in {whose}. Try again in {wait_seconds} s.",
            retry_after_seconds=wait_seconds,
        )


def network_of(peer: str) -> str:
    """Who counts as one: an IPv4 address, or an IPv6 /64, which is what one host has for the asking."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return str(address.ipv4_mapped)
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
