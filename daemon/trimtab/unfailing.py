"""Where log lines go: a disk that is full or gone costs lines, never the process that wrote them."""

from __future__ import annotations

import threading
from typing import TextIO


class Unfailing:
    """A text stream whose `write` and `flush` never raise; once it works again it says how many writes failed."""

    def __init__(self, stream: TextIO) -> None:
        """Write to `stream`."""
        self.failures_total = 0
        self._stream = stream
        self._lock = threading.Lock()
        self._unsaid = 0
        self._why = ""

    def write(self, text: str) -> int:
        """As of a text stream."""
        try:
            self._say_what_failed()
            self._stream.write(text)
        except (OSError, ValueError) as error:  # ValueError: it was closed
            self._failed(error)
        return len(text)

    def flush(self) -> None:
        """As of a text stream."""
        try:
            self._stream.flush()
        except (OSError, ValueError) as error:
            self._failed(error)

    def isatty(self) -> bool:
        """As of a text stream."""
        return self._stream.isatty()

    def _failed(self, error: Exception) -> None:
        with self._lock:
            self.failures_total += 1
            self._unsaid += 1
            self._why = str(error)

    def _say_what_failed(self) -> None:
        if not self._unsaid:
            return
        failed = self._unsaid
        self._stream.flush()  # what is left of before; raises while it still fails
        self._stream.write(f"the log could not be written {failed} times, lines are missing here: {self._why}\n")
        with self._lock:
            self._unsaid -= failed
