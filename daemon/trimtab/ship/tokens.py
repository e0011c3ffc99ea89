"""Which token belongs to which node: a TOML table of hashes, re-read when it changes; and how it is written."""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import json
import os
import secrets
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import structlog

from trimtab.clock import Clock, SystemClock
from trimtab.durable import write_whole
from trimtab.errors import SettingsError
from trimtab.settings import DaemonSettings

log = structlog.get_logger()

TOKEN_PREFIX = "trimtab_node_"
"""So that a scanner for leaked secrets can know one."""
LOOK_SECONDS = 1.0
"""The file is looked at this often, not at every report: a stat costs as much as a quarter of decoding one."""
_DIGEST_CHARS = 64
_SHELF_CHARS = 8
"""Hashes are found by their first characters, then compared whole in constant time."""
_NAME_CHARS_MAX = 253
_Shelves = dict[str, list[tuple[str, str]]]
_HEADER = (
    "# Which token belongs to which node: SHA-256 of the token, so that this file alone lets nobody in.\n"
    "# Written by `trimtab token node NAME`; the daemon reads it again when it changes.\n"
)


def new_token() -> str:
    """A token of 256 random bits."""
    return TOKEN_PREFIX + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """What the file holds in place of a token. Plain SHA-256 is enough for 256 random bits."""
    return hashlib.sha256(token.encode()).hexdigest()


class Credentials(Protocol):
    """Whose token it is: what is known is said at once, what has to be asked elsewhere only when it is asked."""

    def node_of(self, token: str) -> str | None:
        """The node that a token belongs to, as far as it is known here, or None."""
        ...

    def can_ask(self, token: str) -> bool:
        """Whether somebody else may know it."""
        ...

    def ask(self, token: str) -> str | None:
        """The node by whoever else knows it, or None; may take as long as a request. Raises SchedulerError."""
        ...


class NodeTokens:
    """The daemon's view of the file: token in, node out."""

    def __init__(self, path: Path, *, clock: Clock | None = None) -> None:
        """Read the file; a missing one means that no node is known yet. Raises SettingsError when it is broken."""
        self._clock = clock or SystemClock()
        self.trouble = ""
        """Why the file on disk is not in force (the last good one is); empty while it is."""
        self._path = path
        self._looked_at_seconds = self._clock.monotonic_seconds()
        self._stamp = _stamp(path)
        self._nodes = _shelves(path, read_nodes(path))

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes that have a token."""
        self._refresh()
        return frozenset(node for shelf in self._nodes.values() for _, node in shelf)

    def node_of(self, token: str) -> str | None:
        """The node that a token belongs to, or None. A new token is known at once, a revoked one within a second."""
        if self._clock.monotonic_seconds() - self._looked_at_seconds > LOOK_SECONDS:
            self._refresh()
        presented = digest_of(token)
        node = self._find(presented)
        if node is None:
            self._refresh()
            node = self._find(presented)
        return node

    def can_ask(self, token: str) -> bool:  # noqa: ARG002 - one shape for all credentials
        """The file is all that there is."""
        return False

    def ask(self, token: str) -> str | None:
        """The same as `node_of`."""
        return self.node_of(token)

    def _find(self, presented: str) -> str | None:
        for digest, node in self._nodes.get(presented[:_SHELF_CHARS], ()):
            if hmac.compare_digest(digest, presented):
                return node
        return None

    def _refresh(self) -> None:
        self._looked_at_seconds = self._clock.monotonic_seconds()
        stamp = _stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._nodes = _shelves(self._path, read_nodes(self._path))
        except SettingsError as error:
            # Half an edit must not lock every node out: the last good table stays in force.
            self.trouble = str(error)
            log.warning("the token file cannot be used; the last good one stays in force", why=str(error))
            return
        self.trouble = ""
        log.info("node tokens read again", nodes=len(self.nodes))


class Several:
    """Several kinds of credentials as one: the first that knows a token says whose it is."""

    def __init__(self, *kinds: Credentials) -> None:
        """In the order in which they are looked at."""
        self._kinds = kinds

    def node_of(self, token: str) -> str | None:
        """What the first that knows it says."""
        return next((node for one in self._kinds if (node := one.node_of(token)) is not None), None)

    def can_ask(self, token: str) -> bool:
        """Whether any of them can."""
        return any(one.can_ask(token) for one in self._kinds)

    def ask(self, token: str) -> str | None:
        """What the first that can ask and knows says. Raises SchedulerError."""
        asked = (one.ask(token) for one in self._kinds if one.can_ask(token))
        return next((node for node in asked if node is not None), None)


def tokens_path(settings: DaemonSettings) -> Path:
    """Where a daemon's token file is."""
    return Path(settings.state_directory) / settings.ingest.tokens_file


def read_nodes(path: Path) -> dict[str, str]:
    """Node -> hash; empty when there is no file. Raises SettingsError that names file, key and fix."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}. The daemon must be able to read it.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: not TOML: {error}") from error
    nodes = table.get("nodes", {})
    if not isinstance(nodes, dict) or set(table) - {"nodes"}:
        raise SettingsError(f"{path}: it must hold one table, [nodes], of node = hash. Use `trimtab token node NAME`.")
    for node, digest in nodes.items():
        if not isinstance(digest, str) or len(digest) != _DIGEST_CHARS or set(digest) - set("0123456789abcdef"):
            raise SettingsError(
                f"{path}: nodes.{node} is no SHA-256 in lower-case hex. Make it anew with `trimtab token node {node}`."
            )
    return nodes


def give_token(path: Path, node: str) -> tuple[str, bool]:
    """Make a token for a node and keep its hash; returns the token and whether it replaces one."""
    if not node or len(node) > _NAME_CHARS_MAX or not node.isprintable() or " " in node:
        raise SettingsError(f"{node!r} is no node name: 1 to {_NAME_CHARS_MAX} characters, no blanks.")
    token = new_token()
    with _editing(path) as nodes:
        replaces = node in nodes
        nodes[node] = digest_of(token)
    return token, replaces


def revoke_token(path: Path, node: str) -> None:
    """Forget a node's token. Raises SettingsError when it has none."""
    with _editing(path) as nodes:
        if nodes.pop(node, None) is None:
            raise SettingsError(f"{path}: node {node} has no token.")


@contextmanager
def _editing(path: Path) -> Iterator[dict[str, str]]:
    """The table, to be changed; written back in one step, by one process at a time."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_name(path.name + ".lock").open("wb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            nodes = read_nodes(path)
            yield nodes
            _write_nodes(path, nodes)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}. Run this as the daemon's user, or as root.") from error


def _write_nodes(path: Path, nodes: Mapping[str, str]) -> None:
    lines = [f"{json.dumps(node, ensure_ascii=False)} = {json.dumps(digest)}\n" for node, digest in nodes.items()]
    directory = path.parent.stat()
    # Made by root for a daemon that is not root: the file belongs to whom the directory belongs.
    owner = (directory.st_uid, directory.st_gid) if os.geteuid() == 0 else None
    write_whole(path, (_HEADER + "\n[nodes]\n" + "".join(lines)).encode(), owner=owner)


def _shelves(path: Path, nodes: Mapping[str, str]) -> _Shelves:
    shelves: _Shelves = {}
    for node, digest in nodes.items():
        shelf = shelves.setdefault(digest[:_SHELF_CHARS], [])
        twin = next((other for held, other in shelf if held == digest), None)
        if twin is not None:
            raise SettingsError(f"{path}: {node} and {twin} have the same token. Give each node its own.")
        shelf.append((digest, node))
    return shelves


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
