"""What a join token looks like: a prefix that scanners know, 256 random bits, and whom to trust at first."""

from __future__ import annotations

import hashlib
import re

JOIN_PREFIX = "trimtab_join_"
"""So that a scanner for leaked secrets can know one."""
_SHAPE = re.compile(r"trimtab_join_[A-Za-z0-9_-]{43}(?:\.[0-9a-f]{64})?")


def is_join_token(text: str) -> bool:
    """Whether this can be one at all: a file with something else in it is told at once."""
    return _SHAPE.fullmatch(text) is not None


def with_fingerprint(secret: str, fingerprint: str) -> str:
    """A token as it is handed out: the secret and, where the daemon has its own CA, SHA-256 of its certificate."""
    return f"{secret}.{fingerprint}" if fingerprint else secret


def secret_of(token: str) -> str:
    """The part of a token that the daemon is shown."""
    return token.partition(".")[0]


def fingerprint_in(token: str) -> str:
    """The CA that the token says to trust; empty where it names none."""
    return token.partition(".")[2]


def digest_of(secret: str) -> str:
    """What is kept in place of a secret: of 256 random bits plain SHA-256 is enough."""
    return hashlib.sha256(secret.encode(errors="replace")).hexdigest()
