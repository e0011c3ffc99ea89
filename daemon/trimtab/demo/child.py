"""Processes beside the demo's own: they end when it does, whatever ends it; and the daemon, which is kept up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from trimtab.demo.ground import Ground
from trimtab.errors import TrimtabError

# The child dies with this process however that ends: the kernel sends the signal (prctl 1 = PR_SET_PDEATHSIG). If we
# died before it asked for that, its parent is already another.
_DIE_WITH_PARENT = (
    "import ctypes, os, signal, sys; ctypes.CDLL(None).prctl(1, signal.SIGKILL); "
    "os.getppid() == int(sys.argv.pop(1)) or os._exit(1); "
)
_MAIN = _DIE_WITH_PARENT + "from trimtab.cli import main; main()"
_PROGRAM = _DIE_WITH_PARENT + "os.execv(sys.argv[1], sys.argv[1:])"
_STOP_SECONDS = 10.0
_DEATHS_MAX = 5
"""Deaths in a row, none of them ours, after which the demo gives up."""


def start_python(arguments: Sequence[str], *, log: Path) -> subprocess.Popen[bytes]:
    """A verb of ours in a process of its own."""
    return _start([sys.executable, "-c", _MAIN, str(os.getpid()), *arguments], log)


def start_program(command: Sequence[str], *, log: Path) -> subprocess.Popen[bytes]:
    """Another program, by its full path."""
    return _start([sys.executable, "-I", "-S", "-c", _PROGRAM, str(os.getpid()), *command], log)


def _start(command: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as file:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file, start_new_session=True)


def end(process: subprocess.Popen[bytes]) -> None:
    """See to it that what was asked to end has ended."""
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def last_line(log: Path) -> str:
    """The last thing that a process said."""
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1][:500] if lines else "none"


class DaemonChild:
    """Starts the daemon and keeps it up. Use it from one thread: the child's life hangs on that thread's."""

    def __init__(self, ground: Ground) -> None:
        """Nothing runs yet."""
        self._ground = ground
        self._process: subprocess.Popen[bytes] | None = None
        self._deaths_in_a_row = 0
        self.restarts = 0
        self.kills = 0

    @property
    def pid(self) -> int | None:
        """The running daemon's process id."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def start(self) -> None:
        """Start it; its log goes to the scratch folder."""
        arguments = ("daemon", "--settings", str(self._ground.settings_file))
        self._process = start_python(arguments, log=self._ground.log_file)

    def kill(self) -> None:
        """kill -9, in the middle of whatever it does."""
        if self._process is not None and self._process.poll() is None:
            self.kills += 1
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()

    def keep_up(self) -> str | None:
        """Start it again if it is down; returns a sentence when it did. Raises TrimtabError when it cannot stay up."""
        if self.pid is not None:
            return None
        code = self._process.returncode if self._process is not None else 0
        is_ours = code == -signal.SIGKILL
        self._deaths_in_a_row = 0 if is_ours else self._deaths_in_a_row + 1
        if self._deaths_in_a_row > _DEATHS_MAX:
            raise TrimtabError(
                f"The daemon ended {self._deaths_in_a_row} times in a row. Its last words: {self.last_words()}"
            )
        self.start()
        self.restarts += 1
        return f"The daemon ended ({'kill -9' if is_ours else f'exit code {code}'}) and is started again."

    def is_well(self) -> None:
        """It answered: earlier deaths no longer count."""
        self._deaths_in_a_row = 0

    def last_words(self) -> str:
        """The last line of its log."""
        return last_line(self._ground.log_file)

    def stop(self) -> None:
        """Ask it to end, and see to it."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.terminate()
        end(self._process)
