"""Secrets of targets: read from files, again when those change, and never shown."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote

from trimtab.errors import SettingsError

HIDDEN = "***"
_PIECES = re.compile(r"[^/?&=#:@\s]+")
_TELLING_CHARACTERS = 12
"""A piece of a secret address that is shorter names a product or a path, not a key."""


class Secret:
    """What a file holds; a changed file counts at once, one that cannot be read any more leaves the last good value."""

    def __init__(self, path: Path, *, of: str) -> None:
        """`of` says whose it is, for errors. Raises SettingsError when there is nothing to read."""
        self._path = path
        self._of = of
        self._stamp: tuple[int, int, int] = (0, 0, 0)
        self._lines: tuple[str, ...] = ()
        try:
            self._read()
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{of}: cannot read {path}: {error}. Create it, readable for trimtab alone.") from error
        if not self._lines:
            raise SettingsError(f"{of}: {path} is empty. Put the secret in it, on a line of its own.")

    @property
    def value(self) -> str:
        """The first line."""
        return self.lines[0]

    @property
    def lines(self) -> tuple[str, ...]:
        """Every line that is neither empty nor a comment: several keys while they are changed over."""
        with suppress(OSError, UnicodeDecodeError):  # a file that is being replaced must not cost a page
            self._read()
        return self._lines

    def _read(self) -> None:
        status = self._path.stat()
        stamp = (status.st_mtime_ns, status.st_size, status.st_ino)
        if stamp == self._stamp:
            return
        text = self._path.read_text(encoding="utf-8")
        stripped = (line.strip() for line in text.splitlines())
        lines = tuple(line for line in stripped if line and not line.startswith("#"))
        if lines or not self._lines:
            self._lines, self._stamp = lines, stamp

    def __repr__(self) -> str:
        return f"Secret({self._path})"


def scrubbed(text: str, secrets: Iterable[str]) -> str:
    """The text without the secrets, whole, percent-encoded, or by the long pieces of a secret address."""
    for secret in secrets:
        for form in _forms(secret):
            text = text.replace(form, HIDDEN)
    return text


def _forms(secret: str) -> list[str]:
    """What gives a secret away, longest first."""
    forms = {secret, quote(secret, safe=""), unquote(secret)}
    if "://" in secret:
        forms |= {piece for piece in _PIECES.findall(secret) if len(piece) >= _TELLING_CHARACTERS and "." not in piece}
    return sorted((form for form in forms if form), key=len, reverse=True)
