"""A Debian that is not booted: an overlay over the guests' root, a network of its own without a way out, dpkg in it."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

from tests.guest.root import Root

MOUNT = """\
set -e
mount -t tmpfs -o mode=0755,size=3G trimtab-chroot "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay -o "lowerdir=$3$2,upperdir=$1/upper,workdir=$1/work" trimtab-chroot "$1/root"
for one in proc dev; do mkdir -p "$1/root/$one"; mount --rbind "/$one" "$1/root/$one"; done
mount -t tmpfs trimtab-chroot "$1/root/run"
mount -t tmpfs trimtab-chroot "$1/root/tmp"
echo mounted
exec sleep infinity
"""
ENVIRONMENT = ("PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "HOME=/root")
SECONDS_MAX = 180.0


class Chroot:
    """One system without an init; what it writes is gone when it is closed."""

    def __init__(self, root: Root, *, over: Chroot | None = None) -> None:
        """Lay an overlay over `root`, or over what another one wrote, in namespaces that end with a process of ours."""
        self._place = Path(tempfile.mkdtemp(prefix="trimtab-chroot-"))
        line = ["setpriv", "--pdeathsig", "KILL", "--"]
        line += [] if over is None else ["nsenter", f"--target={over._holder.pid}", "--mount", "--"]
        line += ["unshare", "--mount", "--net", "--propagation=private"]
        below = "" if over is None else f"{over._place}/upper:"
        self._holder = subprocess.Popen(
            [*line, "sh", "-c", MOUNT, "sh", str(self._place), str(root.path), below],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._holder.stdout is not None
        assert self._holder.stdout.readline() == "mounted\n", "no overlay can be mounted here"
        self.write("/etc/machine-id", "")

    def close(self) -> None:
        """Gone, with all it wrote."""
        self._holder.kill()
        self._holder.wait(30)
        assert self._holder.stdout is not None
        self._holder.stdout.close()
        shutil.rmtree(self._place, ignore_errors=True)

    def run(self, *line: str | Path, is_checked: bool = True, given: str = "") -> subprocess.CompletedProcess[str]:
        """Run a command as root inside, both of its outputs in `stdout`."""
        enter = ["nsenter", f"--target={self._holder.pid}", "--mount", "--net", "--", "chroot", f"{self._place}/root"]
        done = subprocess.run(
            [*enter, "/usr/bin/env", "-i", *ENVIRONMENT, *map(str, line)],
            input=given,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=SECONDS_MAX,
            check=False,
        )
        if is_checked:
            assert done.returncode == 0, f"{line}: {done.returncode}\n{done.stdout}"
        return done

    def out(self, *line: str | Path) -> str:
        """What a command that succeeds prints."""
        return self.run(*line).stdout

    def python(self, program: str) -> str:
        """What a program prints that the daemon's own Python runs."""
        return self.run("/usr/lib/trimtab-daemon/bin/python3", "-", given=program).stdout

    def path(self, inside: str) -> Path:
        """A path inside, as this process reaches it."""
        return Path(f"/proc/{self._holder.pid}/root{self._place}/root") / inside.lstrip("/")

    def write(self, inside: str, text: str) -> None:
        """Write a file of root's."""
        path = self.path(inside)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def put(self, *outside: Path) -> list[str]:
        """Copy files in; where they are inside."""
        for path in outside:
            shutil.copyfile(path, self.path(f"/tmp/{path.name}"))
        return [f"/tmp/{path.name}" for path in outside]

    def dpkg(self, *words: str | Path, is_checked: bool = True) -> str:
        """What dpkg says."""
        return self.run("dpkg", "--force-confdef", "--force-confold", *words, is_checked=is_checked).stdout

    def files(self) -> set[str]:
        """Everything on the disk but what is mounted or the package manager's own."""
        found = self.out("find", "/", "-xdev").splitlines()
        own = ("/var/lib/dpkg", "/var/cache/apt", "/var/lib/apt", "/var/cache/ldconfig")
        return {one for one in found if not one.startswith(own)}
