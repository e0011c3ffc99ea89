"""What a text must not show or do: secrets that this process knows, control characters that the outside wrote."""

from __future__ import annotations

import re
import threading

HIDDEN = "***"
SECRET_CHARS_MIN = 8
"""What is shorter is no secret worth the name, and hiding it would blot out ordinary words."""
_URL_PASSWORD = re.compile("(://[^:/@\\s]*):[^/\\s\"',]+@|([?&](?:ssl)?password=)[^&\\s\"']+")
"""Up to the last @ before the path, for one that should have been written %40; and as PostgreSQL's parameter."""
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")

_hidden: tuple[str, ...] = ()
_hiding = threading.Lock()


def never_show(*secrets: str | None) -> None:
    """From now on these values stand as *** wherever a log line would show them."""
    global _hidden  # noqa: PLW0603 - one process, one list of what it must not say
    new = {one for one in secrets if one and len(one) >= SECRET_CHARS_MIN}
    with _hiding:
        if not new <= set(_hidden):
            _hidden = tuple(sorted({*_hidden, *new}, key=len, reverse=True))


def scrubbed(text: str) -> str:
    """The text without any secret that this process was told of, and without passwords in addresses."""
    for secret in _hidden:
        text = text.replace(secret, HIDDEN)
    return without_passwords(text, HIDDEN)


def without_passwords(text: str, instead: str) -> str:
    """The text with passwords in its addresses replaced."""
    return _URL_PASSWORD.sub(lambda found: f"{found[2]}{instead}" if found[2] else f"{found[1]}:{instead}@", text)


def on_one_line(text: str) -> str:
    """The text with its control characters written out: nothing in it ends a line, a field or a colour."""
    return _CONTROL.sub(_written_out, text)


def _written_out(found: re.Match[str]) -> str:
    code = ord(found[0])
    return {9: "\\t", 10: "\\n", 13: "\\r"}.get(code) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")
