"""What a daemon answers, without what would steer a terminal: names, kernel lines and alerts come from anybody."""

from __future__ import annotations

import re

_STEERS = re.compile(
    rb"(?P<backslash>\\\\)"
    rb"|\\u00(?P<code>0[0-8bBcCeEfF]|1[0-9a-fA-F]|7[fF])"
    rb"|\\(?P<letter>[bfr])"
    rb"|(?P<raw>\x7f|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9])"
)
_LETTERS = {b"b": b"08", b"f": b"0c", b"r": b"0d"}


def tame(raw: bytes) -> bytes:
    """JSON whose texts show control characters (colour, cursor, title) and marks that turn a line round, by name."""
    return _STEERS.sub(_shown, raw)


def _shown(found: re.Match[bytes]) -> bytes:
    if found["backslash"]:
        return found[0]
    if found["raw"]:
        return b"\\\\u%04x" % ord(found["raw"].decode())
    return b"\\\\x" + (found["code"] or _LETTERS[found["letter"]]).lower()
