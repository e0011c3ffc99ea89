"""The Debian that a guest boots: bookworm by mmdebstrap once a machine (40 s, 200 MB), else an overlay over this host.

The small Debian proves more (that the packages name all that they need), so it is the default wherever its mirror
answers or an earlier run has left it in ~/.cache. TRIMTAB_GUEST=debian or =host settles it.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SUITE = "bookworm"
MIRROR = "http://deb.debian.org/debian"
PACKAGES = ("systemd", "systemd-sysv", "dbus", "python3", "kmod")
"""What a small server has; adduser, pip and venv are not among it, for our packages must not need them."""
CACHE = Path.home() / ".cache" / "trimtab-guest"
BUILD_SECONDS_MAX = 300
OPTIONS = (
    "--mode=root",
    "--variant=minbase",
    f"--include={','.join(PACKAGES)}",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    '--aptopt=APT::Install-Recommends "false"',
    '--aptopt=Acquire::Retries "1"',
    '--aptopt=Acquire::http::Timeout "10"',
)


@dataclass(frozen=True, slots=True)
class Root:
    """A root file system that guests lay their own writes over; it is never written to."""

    path: Path
    kind: str
    """debian or host."""


def why_impossible() -> str | None:
    """Why no guest can be booted here, with the command that helps; None where one can."""
    if os.geteuid() != 0:
        return "a guest is booted by root alone: sudo make test"
    for program, package in (("systemd-nspawn", "systemd-container"), ("unshare", "util-linux"), ("dpkg", "dpkg")):
        if shutil.which(program) is None:
            return f"{program} is missing: apt-get install {package}"
    return None


@functools.cache
def guest_root() -> Root:
    """The root for this run's guests, made when there is none yet."""
    wanted = os.environ.get("TRIMTAB_GUEST", "")
    if wanted not in ("", "debian", "host"):
        raise ValueError(f"TRIMTAB_GUEST={wanted}: it is debian or host")
    if wanted == "host":
        return Root(Path("/"), "host")
    made = _debian()
    if made is not None:
        return Root(made, "debian")
    if wanted == "debian":
        raise RuntimeError(f"no Debian root: mmdebstrap is missing or {MIRROR} does not answer; {_log()} says which")
    return Root(Path("/"), "host")


def _debian() -> Path | None:
    """The cached root, or a new one; None where it cannot be had."""
    recipe = hashlib.sha256(repr((SUITE, OPTIONS)).encode()).hexdigest()[:12]
    root = CACHE / f"{SUITE}-{recipe}"
    CACHE.mkdir(parents=True, exist_ok=True)
    with _locked(CACHE / "lock"):
        if not root.exists() and not _build(root):
            return None
    return root


def _build(root: Path) -> bool:
    """Build beside its place and rename: a run that is killed leaves no half of a root under the good name."""
    if shutil.which("mmdebstrap") is None:
        return False
    half = root.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    with _log().open("wb") as log:
        line = ["mmdebstrap", *OPTIONS, SUITE, str(half), f"deb {MIRROR} {SUITE} main"]
        try:
            done = subprocess.run(
                line, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=BUILD_SECONDS_MAX, check=False
            )
        except subprocess.TimeoutExpired:
            done = None
    if done is None or done.returncode:
        shutil.rmtree(half, ignore_errors=True)
        return False
    (half / "var/log/journal").mkdir(exist_ok=True)  # the journal outlives a reboot
    half.rename(root)
    return True


def _log() -> Path:
    return CACHE / "mmdebstrap.log"


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One build at a time on this machine; the lock ends with the process."""
    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield
