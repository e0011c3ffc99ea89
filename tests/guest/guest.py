"""A booted guest: systemd-nspawn over an overlay, commands run inside, reboots, and its journal read from outside.

Its mounts and processes live in namespaces whose first process dies with the run (PR_SET_PDEATHSIG), and they with it:
kill -9 of pytest leaves neither on the host.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from tests.guest.root import Root

T = TypeVar("T")

BOOT_SECONDS_MAX = 120.0
RUN_SECONDS_MAX = 240.0
REBOOT = 133
"""What nspawn ends with, under --keep-unit, when the guest wants to come up again."""
DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")
GROUPS = "trimtab-guest-"
MOUNT = """\
set -e
mount -t tmpfs -o mode=0755,size=3G trimtab-guest "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=$2,upperdir=$1/upper,workdir=$1/work" trimtab-guest "$1/root"
echo mounted
exec sleep infinity
"""
_numbers = itertools.count()


class Guest:
    """One machine. It is made powered off; what it writes stays over reboots and is gone when it is closed."""

    def __init__(self, root: Root, *, binds: Mapping[str, str] | None = None) -> None:
        """Lay an overlay over `root`; `binds` are host paths -> guest paths, read and write."""
        sweep()
        self.root = root
        self._name = f"{GROUPS}{os.getpid()}-{next(_numbers)}"
        self._binds = dict(binds or {})
        self._place = Path(tempfile.mkdtemp(prefix="trimtab-guest-"))
        self.console = self._place.with_suffix(".console")
        """What nspawn and the guest's systemd print."""
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._leader = 0
        self._holder = self._mounted()
        self._prepare()

    # --- life

    def boot(self) -> Guest:
        """Power on; returns when systemd says that it is up."""
        line = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "--console=pipe"]
        line += ["--capability=CAP_SYSLOG", "--machine=guest", "--hostname=guest", f"--directory={self._place}/root"]
        line += [f"--bind={outside}:{inside}" for outside, inside in self._binds.items()]
        line += ["--boot", "--", "--unit=multi-user.target"]
        (first,) = _children(self._holder.pid)
        enter = ["nsenter", "--mount", "--pid", f"--target={first}", "--"]
        joined = 'for one; do shift; [ "$one" = -- ] && break; echo $$ >"$one/cgroup.procs"; done; exec "$@"'
        groups = [str(one) for one in _own_groups(self._name)]
        with self.console.open("ab") as console:
            self._nspawn = subprocess.Popen(
                [*DIE_WITH_US, "sh", "-c", joined, "sh", *groups, "--", *enter, *line],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=console,
            )
        self._leader = self.eventually(self._find_leader, seconds=BOOT_SECONDS_MAX)
        self.eventually(self._is_up, seconds=BOOT_SECONDS_MAX)
        return self

    def reboot(self) -> None:
        """`systemctl reboot` inside, a real end of every process, and up again over the same disk."""
        self.run("systemctl", "reboot", is_checked=False)
        assert self._ended() == REBOOT, self.said()
        self.boot()

    def power_off(self) -> None:
        """`systemctl poweroff` inside."""
        self.run("systemctl", "poweroff", is_checked=False)
        assert self._ended() == 0, self.said()

    def close(self) -> None:
        """Gone, with all it wrote, whatever state it is in."""
        for process in (self._holder, self._nspawn):
            if process is not None:
                process.kill()
                process.wait(30)
        if self._leader:
            self.eventually(lambda: not Path(f"/proc/{self._leader}").exists(), seconds=30)
            self._leader = 0
        assert self._holder.stdout is not None
        self._holder.stdout.close()
        shutil.rmtree(self._place, ignore_errors=True)
        self.console.unlink(missing_ok=True)
        sweep(self._name)

    # --- inside

    def run(
        self,
        *line: str,
        is_checked: bool = True,
        given: str | None = None,
        seconds: float = RUN_SECONDS_MAX,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as root in the guest to its end."""
        done = subprocess.run(
            [*self._enter(), "/usr/bin/env", "-i", *_variables(environment), *line],
            input=given,
            stdin=subprocess.DEVNULL if given is None else None,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
            check=False,
        )
        if is_checked:
            assert done.returncode == 0, f"{' '.join(line)}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    def out(self, *line: str, **more: str) -> str:
        """What a command that succeeds prints."""
        return self.run(*line, environment=more or None).stdout

    @property
    def leader(self) -> int:
        """The guest's PID 1, as numbered on the host."""
        assert self._leader, "it is powered off"
        return self._leader

    def start(self, *line: str, given: bool = False) -> subprocess.Popen[str]:
        """A command in the guest that goes on beside the test; with `given` it reads what the test writes."""
        command = [*DIE_WITH_US, *self._enter(), "/usr/bin/env", "-i", *_variables(None), *line]
        stdin = subprocess.PIPE if given else subprocess.DEVNULL
        return subprocess.Popen(command, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def path(self, inside: str) -> Path:
        """A path of the guest as this process reaches it; links in it are followed as the host sees them."""
        return Path(f"/proc/{self._holder.pid}/root{self._place}/root") / inside.lstrip("/")

    def write(self, inside: str, text: str, *, mode: int = 0o644) -> None:
        """Write a file of root's in the guest."""
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)

    def put(self, outside: Path, inside: str) -> str:
        """Copy a file into the guest; returns where it is there."""
        target = self.path(inside)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(outside, target)
        return inside

    # --- systemd

    def property(self, unit: str, name: str) -> str:
        """One property of a unit (`systemctl show`)."""
        return self.out("systemctl", "show", "--property", name, "--value", unit).strip()

    def status(self, unit: str) -> str:
        """What `systemctl status` shows a person."""
        return self.run("systemctl", "status", "--no-pager", "--lines=0", "--full", unit, is_checked=False).stdout

    def drop_in(self, unit: str, text: str) -> None:
        """An operator's override of a unit, read at once; "" takes it away."""
        path = f"/etc/systemd/system/{unit}.d/50-test.conf"
        if text:
            self.write(path, text)
        else:
            self.path(path).unlink()
        self.run("systemctl", "daemon-reload")

    def journal(self, *matches: str) -> str:
        """The guest's journal, read from outside as a machine that has died is read."""
        directory = self.path("/var/log/journal")
        line = ["journalctl", "--directory", str(directory), "--no-pager", "--output=cat", *matches]
        return subprocess.run(line, capture_output=True, text=True, errors="replace", check=False).stdout

    # --- waiting

    def eventually(self, look: Callable[[], T | None], *, seconds: float = 120.0) -> T:
        """The first true value of `look`, within a deadline; what the guest said is told where there is none."""
        pause, ends_at = threading.Event(), time.monotonic() + seconds
        while time.monotonic() < ends_at:
            found = look()
            if found:
                return found
            pause.wait(0.1)
        raise AssertionError(f"it did not come true within {seconds:g} s\n{self.said()}")

    def said(self) -> str:
        """The end of the console and of the journal: for a test that fails."""
        console = self.console.read_text(errors="replace") if self.console.exists() else ""
        return f"--- console\n{console[-3000:]}\n--- journal\n{self.journal('--lines=60')}"

    # --- how it is done

    def _mounted(self) -> subprocess.Popen[str]:
        """A process that holds the namespaces, and with them the guest's disk and processes, until it dies."""
        spaces = ["--mount", "--propagation=private", "--pid", "--fork", "--kill-child", "--mount-proc"]
        line = [*DIE_WITH_US, "unshare", *spaces, "sh", "-c", MOUNT, "sh"]
        holder = subprocess.Popen(
            [*line, str(self._place), str(self.root.path)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mounted\n", "no overlay can be mounted here"
        return holder

    def _prepare(self) -> None:
        self.path("/var/log/journal").mkdir(exist_ok=True)
        if self.root.kind == "host":
            # Over the host's own root, its services are not ours to start.
            for enabled in ("systemd/system/*.wants/*", "rc?.d/S*", "systemd/system-generators/*"):
                for link in self.path("/etc").glob(enabled):
                    link.unlink()
        self.write("/etc/machine-id", f"{os.urandom(16).hex()}\n")
        self.write("/etc/hostname", "guest\n")
        for unit in ("systemd-resolved", "systemd-networkd", "systemd-timesyncd", "console-getty", "apt-daily.timer"):
            name = unit if "." in unit else f"{unit}.service"
            link = self.path(f"/etc/systemd/system/{name}")
            link.unlink(missing_ok=True)
            link.symlink_to("/dev/null")

    def _enter(self) -> list[str]:
        spaces = ("--mount", "--uts", "--ipc", "--net", "--pid")
        return ["nsenter", f"--target={self.leader}", *spaces, "--root", "--wd", "--"]

    def _find_leader(self) -> int | None:
        """The guest's PID 1, as numbered here."""
        assert self._nspawn is not None
        assert self._nspawn.poll() is None, f"nspawn ended with {self._nspawn.returncode}\n{self.said()}"
        return next((pid for pid in _descendants(self._nspawn.pid) if _is_first(pid)), None)

    def _is_up(self) -> bool:
        self._find_leader()
        done = self.run("systemctl", "is-system-running", is_checked=False)
        return done.stdout.strip() in ("running", "degraded")

    def _ended(self) -> int:
        assert self._nspawn is not None
        self._leader = 0
        try:
            code = self._nspawn.wait(BOOT_SECONDS_MAX)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"the guest does not go down\n{self.said()}") from error
        self._nspawn = None
        return code


def sweep(name: str = "") -> None:
    """Remove the empty control groups of a guest, or of all guests whose run has died."""
    for parent in _hierarchies():
        for group in parent.glob(f"{name or GROUPS + '*'}"):
            owner = group.name.removeprefix(GROUPS).partition("-")[0]
            if name or not Path(f"/proc/{owner}").exists():
                for one in sorted(group.rglob("*/"), reverse=True):
                    with contextlib.suppress(OSError):
                        one.rmdir()
                with contextlib.suppress(OSError):
                    group.rmdir()


def _hierarchies() -> list[Path]:
    """Where systemd keeps its control groups: the unified tree, or version 1's own (and both, mixed)."""
    top = Path("/sys/fs/cgroup")
    places = [top] if (top / "cgroup.controllers").exists() else [top / "systemd", top / "unified"]
    return [place for place in places if (place / "cgroup.procs").exists()]


def _own_groups(name: str) -> list[Path]:
    """A control group of the guest's own in each: two guests in one would end each other's processes."""
    groups = [parent / name for parent in _hierarchies()]
    for group in groups:
        group.mkdir(exist_ok=True)
    return groups


def _variables(more: Mapping[str, str] | None) -> list[str]:
    """No variable of the test's own reaches the guest."""
    fixed = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
    return [f"{name}={value}" for name, value in {**fixed, **(more or {})}.items()]


def _children(pid: int) -> list[int]:
    found: list[int] = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(child) for child in children.read_text().split()]
    return found


def _descendants(pid: int) -> list[int]:
    return [one for child in _children(pid) for one in (child, *_descendants(child))]


def _is_first(pid: int) -> bool:
    """Whether it is number 1 of a PID namespace below ours, and systemd already."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        numbers = next((line.split()[1:] for line in lines if line.startswith("NSpid:")), [])
        return len(numbers) > 1 and numbers[-1] == "1" and Path(f"/proc/{pid}/comm").read_text().strip() == "systemd"
    return False
