"""Whose token it is, by the cluster's own word: a DaemonSet's agents sign in with tokens bound to their node."""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field

import structlog

from trimtab.clock import Clock
from trimtab.schedulers.kubernetes import Api

log = structlog.get_logger()

PATH = "/apis/authentication.k8s.io/v1/tokenreviews"
NODE_CLAIM = "authentication.kubernetes.io/node-name"
KNOWN_SECONDS = 300.0
"""A token that was found good is asked about again after so long: that is how soon a deleted pod's token is refused."""
UNKNOWN_SECONDS = 30.0
"""One that was found bad is not asked about sooner: a flood of bad tokens must not become a flood of reviews."""
TOKENS_MAX = 50_000


@dataclass(slots=True, kw_only=True)
class TokenReviews:
    """Asks the cluster about tokens of one service account, and remembers the answers for a while. Thread-safe."""

    api: Api
    clock: Clock
    service_account: str
    """`namespace/name`."""
    audience: str
    refused_total: int = 0
    _answers: dict[bytes, tuple[str | None, float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def node_of(self, token: str) -> str | None:
        """The node of a token that was asked about not long ago, or None."""
        with self._lock:
            node, until_seconds = self._answers.get(_key(token), (None, 0.0))
            return node if until_seconds > self.clock.monotonic_seconds() else None

    def can_ask(self, token: str) -> bool:
        """Whether it looks like a service account's token and is not known to be bad."""
        if token.count(".") != 2:  # a JSON Web Token has three parts
            return False
        with self._lock:
            return self._answers.get(_key(token), (None, 0.0))[1] <= self.clock.monotonic_seconds()

    def ask(self, token: str) -> str | None:
        """The node that the token is bound to, or None where it is not one of the agents'. Raises SchedulerError."""
        answer = self.api.post(PATH, {"spec": {"token": token, "audiences": [self.audience]}})
        status = answer.get("status") or {}
        node = self._node(status)
        if node is None:
            self.refused_total += 1
            log.warning("a token was refused", who=(status.get("user") or {}).get("username"), why=_why(status))
        self._remember(token, node)
        return node

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
        now = self.clock.monotonic_seconds()
        with self._lock:
            if len(self._answers) >= TOKENS_MAX:
                self._answers = {key: one for key, one in self._answers.items() if one[1] > now}
                if len(self._answers) >= TOKENS_MAX:
                    self._answers.clear()
            self._answers[_key(token)] = (node, now + (KNOWN_SECONDS if node else UNKNOWN_SECONDS))


def _key(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _why(status: dict[str, object]) -> str:
    if not status.get("authenticated"):
        return str(status.get("error") or "not authenticated")
    return "not the agents' account, not for our audience, or not bound to a node"
