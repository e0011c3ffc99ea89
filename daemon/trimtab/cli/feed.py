"""Boards as the daemon publishes them, read on a thread of its own: the latest is kept, and what is amiss is said."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterable, Iterator

from trimtab.cli.client import Client, DaemonSaysNo, Stream
from trimtab.cli.place import OutOfReach
from trimtab.clock import SystemClock
from trimtab.model.board import Board

RETRY_SECONDS = 2.0
SILENT_SECONDS = 45.0
"""The stream says something every 15 s; without a word for so long the line is dead."""


def boards(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each `board` event of a stream of server-sent events."""
    left = b""
    for chunk in chunks:
        left += chunk
        while (end := left.find(b"\n\n")) >= 0:
            event, left = left[:end], left[end + 2 :]
            lines = event.split(b"\n")
            if b"event: board" in lines:
                yield b"\n".join(line[6:] for line in lines if line.startswith(b"data: "))


class Feed:
    """Reads until it is closed. `fileno` becomes readable when there is news."""

    def __init__(self, client: Client) -> None:
        """Nothing is asked yet."""
        self._client = client
        self._clock = SystemClock()
        self._lock = threading.Lock()
        self._board: Board | None = None
        self._read_at_seconds = 0.0
        self._trouble = ""
        self.refusal: DaemonSaysNo | None = None
        """The daemon's no: reading has ended."""
        self._is_over = threading.Event()
        self._read_end, self._write_end = os.pipe()
        os.set_blocking(self._read_end, False)
        os.set_blocking(self._write_end, False)
        self._thread = threading.Thread(target=self._run, name="feed", daemon=True)

    def start(self) -> None:
        """Begin. The first connection is made here. Raises OutOfReach or DaemonSaysNo where it cannot be."""
        self._answer: Stream | None = self._client.open_stream("/api/v1/events", silent_seconds=SILENT_SECONDS)
        self._thread.start()

    def close(self) -> None:
        """Read no more."""
        self._is_over.set()

    def fileno(self) -> int:
        """What to wait on."""
        return self._read_end

    def wake(self) -> None:
        """Make `fileno` readable."""
        with contextlib.suppress(BlockingIOError):  # it is readable already
            os.write(self._write_end, b"!")

    def seen(self) -> None:
        """The news have been looked at."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read_end, 4096):
                pass

    def latest(self) -> tuple[Board | None, float, str]:
        """The last board, how long ago it came (s), and what is amiss with the line."""
        with self._lock:
            return self._board, self._clock.monotonic_seconds() - self._read_at_seconds, self._trouble

    def _run(self) -> None:
        while not self._is_over.is_set():
            try:
                self._read()
                self._say("The daemon ended the stream; trying again.")
            except DaemonSaysNo as no:
                self.refusal = no
                self._is_over.set()
                self.wake()
            except OutOfReach as error:
                self._say(str(error))
            self._is_over.wait(RETRY_SECONDS)

    def _read(self) -> None:
        answer = self._answer or self._client.open_stream("/api/v1/events", silent_seconds=SILENT_SECONDS)
        self._answer = None
        try:
            for raw in boards(self._client.chunks(answer)):
                board = self._client.decoded(raw, Board)
                with self._lock:
                    self._board, self._read_at_seconds, self._trouble = board, self._clock.monotonic_seconds(), ""
                self.wake()
                if self._is_over.is_set():
                    return
        finally:
            answer.close()

    def _say(self, trouble: str) -> None:
        with self._lock:
            self._trouble = trouble
        self.wake()
