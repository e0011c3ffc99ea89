"""Processes of the test plane: each in its own session, dead when the test run is, on ports that nobody else has."""

from __future__ import annotations

import fcntl
import os
import random
import signal
import socket
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

PORTS_IN_A_BLOCK = 16
FIRST_PORT = 20000
STOP_SECONDS_MAX = 10.0


class PortBlock:
    """Sixteen free loopback ports below the range of outgoing connections, kept from other planes of this machine."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        starts = list(range(FIRST_PORT, _outgoing_from() - PORTS_IN_A_BLOCK, PORTS_IN_A_BLOCK))
        random.shuffle(starts)
        for start in starts:
            self._file = (folder / f"ports-{start}.lock").open("w")
            if self._take() and all(_is_free(port) for port in range(start, start + PORTS_IN_A_BLOCK)):
                self._left = iter(range(start, start + PORTS_IN_A_BLOCK))
                return
            self._file.close()
        raise RuntimeError(f"no {PORTS_IN_A_BLOCK} free ports in a row from {FIRST_PORT} up: stop other test planes")

    def next(self) -> int:
        """A port that was not given out before."""
        return next(self._left)

    def close(self) -> None:
        """Let other planes have them."""
        self._file.close()

    def _take(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


class Spawner:
    """Starts processes from one thread that lives as long as they may: a child ends with the thread that made it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="cluster-spawner")

    def spawn(self, arguments: list[str], *, folder: Path, log: Path) -> subprocess.Popen[bytes]:
        """Start a program; its output is appended to `log`."""
        return self._thread.submit(self._spawn, arguments, folder, log).result()

    def close(self) -> None:
        """End the thread, and with it what it started."""
        self._thread.shutdown()

    @staticmethod
    def _spawn(arguments: list[str], folder: Path, log: Path) -> subprocess.Popen[bytes]:
        environment = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
        with log.open("ab") as output:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )


class Program:
    """One program of the plane, which may be started, stopped, killed and frozen again and again."""

    def __init__(self, name: str, arguments: list[str], *, folder: Path, spawner: Spawner) -> None:
        self.name, self.arguments, self._folder, self._spawner = name, arguments, folder, spawner
        self.log = folder / f"{name}.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it; nothing when it runs."""
        if not self.is_running:
            self._process = self._spawner.spawn(self.arguments, folder=self._folder, log=self.log)

    @property
    def is_running(self) -> bool:
        """Whether its process is there (frozen counts)."""
        return self._process is not None and self._process.poll() is None

    @property
    def was_started(self) -> bool:
        """Whether it ever ran: a plane without Kueue has a program that never does."""
        return self._process is not None

    @property
    def pid(self) -> int:
        """Process id of the running program."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process.pid

    def stop(self) -> None:
        """SIGTERM, and SIGKILL if it has not gone after 10 s."""
        self._signal(signal.SIGTERM)
        self._signal(signal.SIGCONT)  # a frozen one would never see the first
        if self._process is not None:
            try:
                self._process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()

    def pause(self) -> None:
        """SIGSTOP: connections stay open and nothing answers."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)

    def rss_bytes(self) -> int:
        """Resident memory; 0 when it does not run."""
        if not self.is_running:
            return 0
        pages = int(Path(f"/proc/{self.pid}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def last_words(self) -> str:
        """The end of its log."""
        return self.log.read_text(encoding="utf-8", errors="replace")[-3000:] if self.log.exists() else ""

    def _signal(self, number: int) -> None:
        if self.is_running:
            os.killpg(self.pid, number)


def _outgoing_from() -> int:
    text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text(encoding="ascii")
    return max(int(text.split()[0]), FIRST_PORT + 100 * PORTS_IN_A_BLOCK)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True
