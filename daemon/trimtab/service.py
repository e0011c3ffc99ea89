"""The one door to systemd: readiness, watchdog, and waiting for the signal to end. Harmless outside systemd."""

from __future__ import annotations

import faulthandler
import fcntl
import os
import signal
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from types import FrameType

from trimtab.errors import SettingsError


class Service:
    """This process as systemd sees it; without NOTIFY_SOCKET it only waits for signals."""

    def __init__(self) -> None:
        """Nothing is told to systemd yet."""
        self._is_notified = "NOTIFY_SOCKET" in os.environ
        self._stop = threading.Event()

    @property
    def watchdog_seconds(self) -> float | None:
        """systemd's WatchdogSec= for this process; None where nobody watches."""
        if os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
            return None
        given = os.environ.get("WATCHDOG_USEC", "")
        return int(given) / 1e6 if given.isdecimal() and int(given) else None

    def catch_signals(self) -> None:
        """SIGTERM and SIGINT end `wait`. Call it on the main thread."""
        if self._is_notified:
            # The watchdog ends a hung process by SIGABRT: where each thread stood goes into the journal.
            faulthandler.enable()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)

    def ready(self) -> None:
        """Everything is up: units that come after this one may start."""
        self._notify("READY")

    def alive(self, sentence: str) -> None:
        """A real beat was done: feed the watchdog and show the sentence in `systemctl status`."""
        self._notify("WATCHDOG")
        self._notify("STATUS", sentence)

    def stopping(self) -> None:
        """The end has begun."""
        self._notify("STOPPING")

    def stop(self) -> None:
        """End `wait`."""
        self._stop.set()

    def wait(self, seconds: float) -> bool:
        """Wait so long, or until it is time to end; true when it is."""
        return self._stop.wait(seconds)

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._stop.set()

    def _notify(self, name: str, value: str | None = None) -> None:
        if not self._is_notified:
            return
        from cysystemd.daemon import Notification, notify  # noqa: PLC0415 - 6 MB that only systemd's services need

        # cysystemd refuses a value where the notification has a constant one, even the same.
        if value is None:
            notify(Notification[name])
        else:
            notify(Notification[name], value)


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
        raise SettingsError(f"state_directory = {state}: another daemon is running here.") from error
    return held
