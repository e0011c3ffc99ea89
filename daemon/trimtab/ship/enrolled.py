"""The daemon's view of nodes' credentials: in memory for each report, kept up with the database twice a second."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Protocol

import structlog

from trimtab.clock import Clock
from trimtab.errors import StoreError
from trimtab.model.enrolment import Ended, NodeCredential, is_older, why_not_good
from trimtab.pki import CertificateError, certificate_of, serial_of
from trimtab.ship.join_token import digest_of
from trimtab.ship.tokens import TOKEN_PREFIX

log = structlog.get_logger()

SYNC_SECONDS = 0.5
"""The database is asked so often whether anything changed: a revocation acts within a second, at each daemon."""
ASK_SECONDS_MIN = 0.2
"""Tokens that nobody knows make it ask in between, so often at most."""
NOTE_SECONDS = 300.0
"""When credentials were last used is written this often."""
_SHELF_CHARS = 8
_SECOND = timedelta(seconds=1)


class Register(Protocol):
    """Where credentials are kept. Its methods raise StoreError."""

    def credentials_since(self, version: int) -> tuple[int, tuple[NodeCredential, ...]]:
        """The version now, and the credentials that changed after that one."""
        ...

    def note_used(self, used: Mapping[int, datetime]) -> None:
        """When credentials were last used, by id."""
        ...


class Enrolled:
    """Token in, node out, for nodes that were enrolled. Safe to call from several threads."""

    def __init__(self, register: Register, *, clock: Clock, first_used: Callable[[Sequence[str]], None]) -> None:
        """Read all. `clock` must be a real one; `first_used` writes down which came in first. Raises StoreError."""
        self._register = register
        self._clock = clock
        self._first_used = first_used
        self._lock = threading.Lock()
        self._turn = threading.Lock()
        self._version = 0
        self._shelves: dict[str, tuple[NodeCredential, ...]] = {}
        self._by_node: dict[str, dict[int, NodeCredential]] = {}
        self._rotating: set[str] = set()
        self._revoked_serials: set[str] = set()
        self._new: dict[str, NodeCredential] = {}
        """Credentials that came in for the first time and are not written down yet, by hash."""
        self._used: dict[int, float] = {}
        """When each was last used (monotonic), since it was last written down."""
        self._synced_at_seconds = clock.monotonic_seconds()
        self._noted_at_seconds = clock.monotonic_seconds()
        self._take(*register.credentials_since(0))

    # --- at each report

    def node_of(self, token: str) -> str | None:
        """The node of a credential that is good now, or None."""
        if not token.startswith(TOKEN_PREFIX):
            return None
        held = self._find(token)
        if held is None or held.ended_at is not None or self._clock.now() >= held.expires_at:
            return None
        self._used[held.id] = self._clock.monotonic_seconds()
        if held.first_used_at is None:
            self._came_in(held)
        return held.node

    def can_ask(self, token: str) -> bool:
        """Whether the database may know it although memory does not: it was given this very moment."""
        if not token.startswith(TOKEN_PREFIX) or self._find(token) is not None:
            return False
        return self._clock.monotonic_seconds() - self._synced_at_seconds > ASK_SECONDS_MIN

    def ask(self, token: str) -> str | None:
        """The same as `node_of`, after a look into the database."""
        try:
            self.refresh()
        except StoreError as error:
            log.debug("credentials cannot be read; those that are known go on", why=str(error))
        return self.node_of(token)

    def why_not(self, token: str) -> str:
        """Why a token that is known opens nothing, as a sentence; empty where it is not known."""
        held = self._find(token)
        no = why_not_good(held, self._clock.now()) if held is not None else None
        return no.sentence if no is not None else ""

    def wants_renewal(self, node: str) -> bool:
        """Whether an operator asked for a new credential of this node."""
        return node in self._rotating

    def is_revoked(self, serial: str) -> bool:
        """Whether the client certificate with this serial number went with a credential that was revoked."""
        return serial in self._revoked_serials

    @property
    def nodes(self) -> int:
        """How many nodes have a credential that has not ended."""
        with self._lock:
            return sum(any(one.ended_at is None for one in held.values()) for held in self._by_node.values())

    # --- twice a second

    def sync(self) -> str:
        """Take over what changed, and write down what was used; says what was new. Raises StoreError."""
        self._write_first_used()
        changed = self.refresh()
        if self._clock.monotonic_seconds() - self._noted_at_seconds >= NOTE_SECONDS:
            self.note()
        return f"{changed} credentials of nodes changed" if changed else ""

    def refresh(self) -> int:
        """Take over what changed in the database; how many credentials. Raises StoreError."""
        with self._turn:
            version, changed = self._register.credentials_since(self._version)
            if version < self._version:  # another database stands there now: an older backup
                version, changed = self._register.credentials_since(0)
                self._forget()
            self._synced_at_seconds = self._clock.monotonic_seconds()
            self._take(version, changed)
        return len(changed)

    def note(self) -> None:
        """Write down when each credential was last used. Raises StoreError."""
        self._noted_at_seconds = now_seconds = self._clock.monotonic_seconds()
        used, self._used = self._used, {}
        now = self._clock.now()
        moments = {number: now - (now_seconds - at) * _SECOND for number, at in list(used.items())}
        try:
            self._register.note_used(moments)
        except StoreError:
            self._used = {**used, **self._used}
            raise

    # --- parts

    def _find(self, token: str) -> NodeCredential | None:
        presented = digest_of(token)
        for held in self._shelves.get(presented[:_SHELF_CHARS], ()):
            if hmac.compare_digest(held.sha256, presented):
                return held
        return None

    def _came_in(self, held: NodeCredential) -> None:
        """What the node had before ends here at once; the database is told by the next `sync`."""
        now = self._clock.now()
        with self._lock:
            self._new[held.sha256] = held
            self._put(replace(held, first_used_at=now, last_used_at=now))
            for other in tuple(self._by_node[held.node].values()):
                if other.ended_at is None and is_older(other, held):
                    ended = replace(other, ended_at=now, ended_how=Ended.REPLACED, ended_by=f"node {held.node}")
                    self._put(ended)

    def _write_first_used(self) -> None:
        with self._lock:
            new = tuple(self._new)
        if new:
            self._first_used(new)
            with self._lock:
                for sha256 in new:
                    self._new.pop(sha256, None)

    def _take(self, version: int, changed: Sequence[NodeCredential]) -> None:
        with self._lock:
            self._version = version
            for one in changed:
                # Read before its first use was written down, it is older than what is known here.
                first_used_at = self._clock.now() if self._is_newer_here(one) else one.first_used_at
                self._put(replace(one, first_used_at=first_used_at, certificate_pem=""))
                if one.ended_how is Ended.REVOKED and one.certificate_pem:
                    with suppress(CertificateError):
                        self._revoked_serials.add(serial_of(certificate_of(one.certificate_pem.encode())))

    def _forget(self) -> None:
        with self._lock:
            self._shelves, self._by_node, self._rotating = {}, {}, set()

    def _is_newer_here(self, one: NodeCredential) -> bool:
        return one.sha256 in self._new and one.first_used_at is None

    def _put(self, one: NodeCredential) -> None:
        key = one.sha256[:_SHELF_CHARS]
        others = tuple(other for other in self._shelves.get(key, ()) if other.sha256 != one.sha256)
        self._shelves[key] = (*others, one)
        held = self._by_node.setdefault(one.node, {})
        held[one.id] = one
        if any(other.rotate_at is not None and other.ended_at is None for other in held.values()):
            self._rotating.add(one.node)
        else:
            self._rotating.discard(one.node)
