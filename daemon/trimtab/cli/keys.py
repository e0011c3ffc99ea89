"""Keys of a terminal, one at a time, while a live view is up; the terminal is left as it was found."""

from __future__ import annotations

import contextlib
import os
import termios
import tty
from collections.abc import Iterator

_SEQUENCES = {
    "\x1b[A": "up",
    "\x1b[B": "down",
    "\x1bOA": "up",
    "\x1bOB": "down",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1b[H": "home",
    "\x1b[1~": "home",
    "\x1bOH": "home",
    "\x1b[Z": "backtab",
}


def keys_of(raw: bytes) -> Iterator[str]:
    """Keys in what a terminal sent at once; sequences that nobody knows are one key that means nothing."""
    text = raw.decode(errors="replace")
    while text:
        known = next((sequence for sequence in _SEQUENCES if text.startswith(sequence)), None)
        if known is not None:
            yield _SEQUENCES[known]
            text = text[len(known) :]
        elif text[0] == "\x1b":
            end = next((at for at, char in enumerate(text[2:], 3) if char.isalpha() or char == "~"), len(text))
            yield text[:end]
            text = text[end:]
        else:
            yield text[0]
            text = text[1:]


class Keyboard:
    """A terminal that hands over each key as it is pressed. `fileno` becomes readable then."""

    def __init__(self, descriptor: int) -> None:
        """Nothing is changed yet."""
        self._descriptor = descriptor
        self._before: list[object] | None = None

    def fileno(self) -> int:
        """What to wait on."""
        return self._descriptor

    def open(self) -> None:
        """Keys at once and unseen; Ctrl-C still interrupts, Ctrl-Z still stops."""
        self._before = termios.tcgetattr(self._descriptor)
        tty.setcbreak(self._descriptor, termios.TCSANOW)

    def close(self) -> None:
        """As it was."""
        if self._before is not None:
            with contextlib.suppress(termios.error):  # the terminal is gone
                termios.tcsetattr(self._descriptor, termios.TCSANOW, self._before)  # type: ignore[arg-type]
            self._before = None

    def read(self) -> list[str] | None:
        """The keys that were pressed; None when the terminal is gone."""
        try:
            raw = os.read(self._descriptor, 1024)
        except OSError:
            return None
        return list(keys_of(raw)) if raw else None
