"""A verb in a real terminal: a pty of a size that can change, what it shows as a person sees it, and keys to press."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from pathlib import Path

import pyte

ROOT = Path(__file__).parent.parent.parent
# The terminal becomes the process's own first, so that its keys can interrupt and stop it.
MAIN = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.argv = ["trimtab", *sys.argv[1:]]
from trimtab.cli import main
main()
"""
PATIENCE_SECONDS = 30.0


class Terminal:
    """One run of `trimtab …`; `screen` is what stands in the terminal now."""

    def __init__(self, *words: str, columns: int, rows: int, env: dict[str, str]) -> None:
        self._screen = pyte.Screen(columns, rows)
        self._stream = pyte.ByteStream(self._screen)
        self.raw = b""
        self._master, self._slave = pty.openpty()
        self._set_size(columns, rows)
        self.modes_before = termios.tcgetattr(self._slave)
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        self.process = subprocess.Popen(
            [sys.executable, "-c", MAIN, *words],
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            env={**kept, "TERM": "xterm-256color", "PYTHONPATH": str(ROOT / "daemon"), **env},
            start_new_session=True,
        )

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(10)
        os.close(self._master)
        os.close(self._slave)

    def press(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    def resize(self, columns: int, rows: int) -> None:
        self._screen.resize(rows, columns)
        self._set_size(columns, rows)
        os.killpg(self.process.pid, signal.SIGWINCH)

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._screen.display]

    def text(self) -> str:
        return "\n".join(self.lines())

    def until(self, is_so: Callable[[str], object], what: str) -> str:
        """Read what comes until the picture is so; at most PATIENCE_SECONDS."""
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < ends_at:
            if is_so(self.text()):
                return self.text()
            self._read(0.1)
        raise AssertionError(f"not within {PATIENCE_SECONDS:.0f} s: {what}\n{self.text()}")

    def shows(self, part: str) -> str:
        return self.until(lambda text: part in text, f"{part!r} is shown")

    def ends(self) -> int:
        """The exit code, once it has ended by itself."""
        ends_at = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None and time.monotonic() < ends_at:
            self._read(0.1)
        self._read(0.1)
        code = self.process.poll()
        assert code is not None, f"it goes on\n{self.text()}"
        return code

    def modes(self) -> list[object]:
        """The terminal's own settings, as they are now."""
        found: list[object] = termios.tcgetattr(self._slave)
        return found

    def _read(self, seconds: float) -> None:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if ready:
            chunk = os.read(self._master, 65536)
            self.raw += chunk
            self._stream.feed(chunk)

    def _set_size(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
