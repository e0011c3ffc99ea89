"""Whose token it is, by the cluster's own word: a DaemonSet's agents sign in with tokens bound to their node."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from trimtab.clock import Clock
from trimtab.errors import SchedulerBusy
from trimtab.schedulers.kubernetes import Api

log = structlog.get_logger()

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
NODE_CLAIM = "authentication.kubernetes.io/node-name"
KNOWN_SECONDS = 300.0
"""A token that was found good is asked about again after so long: that is how soon a deleted pod's token is refused."""
UNKNOWN_SECONDS = 30.0
"""One that was found bad is not asked about sooner."""
GOOD_MAX, BAD_MAX = 50_000, 10_000
"""Answers that are kept. Each sort has its own room, so that no flood of bad tokens drives out a good one."""
STRANGERS_PER_SECOND = 50.0
STRANGERS_AT_ONCE = 8
"""Reviews of tokens that were never found good: ever new bad ones must not become a flood of reviews."""

_Known = tuple[str | None, float]


@dataclass(slots=True, kw_only=True)
class TokenReviews:
    """Asks the cluster about tokens of one service account, and remembers the answers for a while. Thread-safe.

    Tokens that were never found good share a bounded number of reviews; those of agents that were let in before are
    outside of it, and once found bad they are strangers too.
    """

    api: Api
    """Nobody else's: these reviews wait behind no reader and no writer, and none of those behind them."""
    clock: Clock
    service_account: str
    """`namespace/name`."""
    audience: str
    _good: dict[bytes, _Known] = field(default_factory=dict)
    _bad: dict[bytes, _Known] = field(default_factory=dict)
    """Both by age, the oldest answer first."""
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _counts: Counter[str] = field(default_factory=Counter)
    _strangers_now: int = 0
    _allowance: float = STRANGERS_PER_SECOND
    _counted_at: float = 0.0

    def node_of(self, token: str) -> str | None:
        """The node of a token that was asked about not long ago, or None."""
        with self._lock:
            node, until_seconds = self._good.get(_key(token), (None, 0.0))
            return node if until_seconds > self.clock.monotonic_seconds() else None

    def can_ask(self, token: str) -> bool:
        """Whether it looks like a service account's token and nothing is known of it now."""
        if token.count(".") != 2:  # a JSON Web Token has three parts
            return False
        key, now = _key(token), self.clock.monotonic_seconds()
        with self._lock:
            return all(known.get(key, (None, 0.0))[1] <= now for known in (self._good, self._bad))

    def ask(self, token: str) -> str | None:
        """The node that the token is bound to, or None where it is not one of the agents'.

        Raises SchedulerError; SchedulerBusy where too many that nobody knows are being asked about.
        """
        with self._place(_key(token)):
            answer = self.api.post(PATH, {"spec": {"token": token, "audiences": [self.audience]}})
        status = answer.get("status") or {}
        node = self._node(status)
        if node is None:
            log.warning("a token was refused", who=(status.get("user") or {}).get("username"), why=_why(status))
        self._remember(token, node)
        return node

    def counts(self) -> dict[str, int]:
        """Answers so far: `good`, `refused`, and `put_off` where none was asked for."""
        with self._lock:
            return dict(self._counts)

    @contextmanager
    def _place(self, key: bytes) -> Iterator[None]:
        """One of the reviews that may be under way. Raises SchedulerBusy."""
        with self._lock:
            is_stranger = key not in self._good
            if is_stranger:
                self._take()
        try:
            yield
        finally:
            if is_stranger:
                with self._lock:
                    self._strangers_now -= 1

    def _take(self) -> None:
        now = self.clock.monotonic_seconds()
        gained = (now - self._counted_at) * STRANGERS_PER_SECOND
        self._allowance = min(self._allowance + gained, STRANGERS_PER_SECOND)
        self._counted_at = now
        if self._allowance < 1.0 or self._strangers_now >= STRANGERS_AT_ONCE:
            self._counts["put_off"] += 1
            raise SchedulerBusy("Too many unknown tokens are being asked about; send it again in a moment.")
        self._allowance -= 1.0
        self._strangers_now += 1

    def _node(self, status: dict[str, object]) -> str | None:
        user = status.get("user")
        audiences = status.get("audiences") or []
        if not status.get("authenticated") or not isinstance(user, dict) or not isinstance(audiences, list):
            return None
        name = f"system:serviceaccount:{self.service_account.replace('/', ':')}"
        nodes = (user.get("extra") or {}).get(NODE_CLAIM) or []
        if user.get("username") != name or self.audience not in audiences or len(nodes) != 1:
            return None
        return str(nodes[0])

    def _remember(self, token: str, node: str | None) -> None:
        now, key = self.clock.monotonic_seconds(), _key(token)
        with self._lock:
            self._counts["good" if node else "refused"] += 1
            for known in (self._good, self._bad):
                known.pop(key, None)
            kept, most = (self._good, GOOD_MAX) if node else (self._bad, BAD_MAX)
            if len(kept) >= most:
                del kept[next(iter(kept))]
            kept[key] = (node, now + (KNOWN_SECONDS if node else UNKNOWN_SECONDS))


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _why(status: dict[str, object]) -> str:
    if not status.get("authenticated"):
        return str(status.get("error") or "not authenticated")
    return "not the agents' account, not for our audience, or not bound to a node"
