"""The one door to systemd: readiness, watchdog, and waiting for the signal to end. Harmless outside systemd."""

from __future__ import annotations

import contextlib
import faulthandler
import fcntl
import os
import queue
import signal
import socket
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from trimtab.clock import SystemClock
from trimtab.errors import SettingsError
from trimtab.secrecy import on_one_line

STARTING_SAID_SECONDS = 1.0
STARTING_STEP_SECONDS_MAX = 600.0
"""One step of a start, such as an index on PostgreSQL, may say nothing for so long."""


class Service:
    """This process as systemd sees it; without NOTIFY_SOCKET it only waits for signals."""

    def __init__(self) -> None:
        """Nothing is told to systemd yet."""
        self._is_notified = "NOTIFY_SOCKET" in os.environ
        self._must_stop = self._must_reload = False
        # No Event: its lock may be held by the very thread that a signal interrupts, which then waits for itself.
        self._woken: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._had_terminal = False
        self._starting_at = ("", 0.0)

    @property
    def watchdog_seconds(self) -> float | None:
        """systemd's WatchdogSec= for this process; None where nobody watches."""
        if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
            return None
        given = os.environ.get("WATCHDOG_USEC", "")
        return int(given) / 1e6 if given.isdecimal() and int(given) else None

    def catch_signals(self) -> None:
        """SIGTERM and SIGINT end `wait`, SIGHUP asks for a reload. Call it on the main thread."""
        if self._is_notified:
            # The watchdog ends a hung process by SIGABRT: where each thread stood goes into the journal.
            faulthandler.enable()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        self._had_terminal = _has_terminal()
        signal.signal(signal.SIGHUP, self._on_hangup)

    def ready(self) -> None:
        """Everything is up: units that come after this one may start."""
        self._notify("READY")

    def alive(self, sentence: str) -> None:
        """A real beat was done: feed the watchdog and show the sentence in `systemctl status`."""
        self._notify("WATCHDOG")
        self.status(sentence)

    def status(self, sentence: str) -> None:
        """What `systemctl status` shows; feeds nobody."""
        self._notify("STATUS", on_one_line(sentence))  # a line more would be a notification of its own

    def starting(self, at: str) -> None:
        """The start (or a take-over) gets on and is at this now: no time-out of systemd's ends what makes progress."""
        now = SystemClock().monotonic_seconds()
        if at == self._starting_at[0] and now - self._starting_at[1] < STARTING_SAID_SECONDS:
            return
        self._starting_at = (at, now)
        self._notify("EXTEND_TIMEOUT_USEC", str(int(STARTING_STEP_SECONDS_MAX * 1e6)))
        self.alive(f"starting: {at}")

    def reload_was_asked(self) -> bool:
        """Whether SIGHUP came since this was asked last."""
        if not self._must_reload:
            return False  # taken back here, one that comes just now would be lost
        self._must_reload = False
        return True

    def reloading(self) -> None:
        """A reload begins; `ready` says that it is over, also where it came to nothing."""
        # systemd tells by the moment which of two reloads it is that ended.
        moment = int(SystemClock().monotonic_seconds() * 1e6)
        self._send(f"RELOADING=1\nMONOTONIC_USEC={moment}")

    def stopping(self) -> None:
        """The end has begun."""
        self._notify("STOPPING")

    def stop(self) -> None:
        """End `wait`."""
        self._must_stop = True
        self._woken.put(None)

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until a reload is asked for or it is time to end; true when it is that."""
        with contextlib.suppress(queue.Empty):
            self._woken.get(timeout=seconds)
        return self._must_stop

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self.stop()

    def _on_hangup(self, _number: int, _frame: FrameType | None) -> None:
        if self._had_terminal and not _has_terminal():
            self.stop()  # the terminal that it ran in was closed
            return
        self._must_reload = True
        self._woken.put(None)

    def _notify(self, name: str, value: str = "1") -> None:
        self._send(f"{name}={value}")

    def _send(self, lines: str) -> None:
        if not self._is_notified:
            return
        from cysystemd._daemon import sd_notify  # noqa: PLC0415 - 6 MB that only systemd's services need

        with contextlib.suppress(OSError, RuntimeError, ValueError):  # one that is gone or closed is no reason to end
            sd_notify(lines, False)  # noqa: FBT003 - its only form


def _has_terminal() -> bool:
    """Whether somebody's terminal controls this process."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


FIRST_INHERITED = 3
"""systemd's sockets begin here (sd_listen_fds(3))."""


def inherited_socket(name: str, *, environment: Mapping[str, str] = os.environ) -> socket.socket | None:
    """The listening socket that a socket unit holds for us under this FileDescriptorName=; None without one."""
    if environment.get("LISTEN_PID") != str(os.getpid()):
        return None
    names = environment.get("LISTEN_FDNAMES", "").split(":")
    if name not in names[: int(environment.get("LISTEN_FDS", "0"))]:
        return None
    return socket.socket(fileno=os.dup(FIRST_INHERITED + names.index(name)))


STOP_IT = "Stop it, and its socket, which would start it again: systemctl stop trimtab-daemon.socket trimtab-daemon"


def lock_state(state: Path) -> int:
    """One daemon a state directory; the lock ends with the process. Raises SettingsError."""
    try:
        state.mkdir(mode=0o750, parents=True, exist_ok=True)
        held = os.open(state / "daemon.lock", os.O_RDWR | os.O_CREAT, 0o640)
    except OSError as error:
        raise SettingsError(f"state_directory = {state}: {error.strerror}. Create it for the daemon's user.") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        raise SettingsError(f"state_directory = {state}: another daemon is running here. {STOP_IT}") from error
    return held
