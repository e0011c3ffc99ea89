"""The .debs of this source, built once for all tests and all of their processes; and the same under another version.

TRIMTAB_DEBS names a folder with packages that are tried in place of new ones.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = (
    "daemon",
    "packages",
    "systemd",
    "dashboards",
    "alerts",
    "pyproject.toml",
    "README.md",
    "CHANGELOG.md",
    "LICENSE",
)
KEPT = ROOT / "build" / "tests"
EPOCH = "1767225600"
BUILDS_KEPT = 2


@dataclass(frozen=True, slots=True)
class Debs:
    """Both packages of one build."""

    agent: Path
    daemon: Path


@functools.cache
def debs() -> Debs:
    """The packages as `make deb` makes them of the source as it is now."""
    if os.environ.get("TRIMTAB_DEBS"):
        return _in(Path(os.environ["TRIMTAB_DEBS"]))
    with locked("debs"):
        half = KEPT / "debs.half"
        shutil.rmtree(half, ignore_errors=True)
        copy_of_the_source(ROOT, half / "source")  # as it is now, whoever goes on writing meanwhile
        place = KEPT / f"debs-{fingerprint(half / 'source')}"
        if not place.exists():
            build(half / "source", half)
            shutil.rmtree(half / "stage")
            half.rename(place)
            _forget_old()
    return _in(place)


def copy_of_the_source(source: Path, to: Path) -> Path:
    """All that packages are made of, without the times of its files."""
    to.mkdir(parents=True)
    for name in SOURCES:
        if (source / name).is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source / name, to / name, copy_function=shutil.copyfile, ignore=ignored)
        else:
            shutil.copyfile(source / name, to / name)
    return to


def debs_called(version: str) -> Debs:
    """The same packages under another version: what an upgrade comes from, or a downgrade goes to."""
    made = debs()
    return Debs(agent=called(made.agent, version), daemon=called(made.daemon, version))


@functools.cache
def called(deb: Path, version: str) -> Path:
    """The same package under another version; not pressed, as it only travels within this machine."""
    place = deb.parent / f"called-{version}" / deb.name.split("_")[0]
    with locked("debs"):
        if not place.exists():
            half = place.with_suffix(".half")
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir(parents=True)
            _rename(deb, version, half)
            half.rename(place)
    [made] = place.glob("*.deb")
    return made


def build(source: Path, into: Path, *words: str, umask: int = 0o022, **environment: str) -> list[str]:
    """Run the build of a source tree; the lines that it printed."""
    line = [sys.executable, "-m", "packages.deb", "--into", str(into), *words]
    env = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH, **environment}
    done = subprocess.run(line, cwd=source, env=env, umask=umask, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def fingerprint(source: Path) -> str:
    """Of every file that a package is made of."""
    total = hashlib.sha256()
    for path in sorted(source.rglob("*")):
        if path.is_file():
            total.update(f"{path.relative_to(source)}\n".encode())
            total.update(path.read_bytes())
    return total.hexdigest()[:16]


@contextlib.contextmanager
def locked(name: str) -> Iterator[None]:
    """One builder at a time on this checkout; the lock ends with the process."""
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{name}.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def _in(place: Path) -> Debs:
    [agent], [daemon] = place.glob("trimtab-agent_*.deb"), place.glob("trimtab-daemon_*.deb")
    return Debs(agent=agent, daemon=daemon)


def _rename(deb: Path, version: str, into: Path) -> None:
    stage = into / "stage"
    subprocess.run(["dpkg-deb", "--raw-extract", deb, stage], check=True)
    control = stage / "DEBIAN" / "control"
    was = next(line for line in control.read_text().splitlines() if line.startswith("Version: "))
    for path in (stage / "DEBIAN").iterdir():
        path.write_text(path.read_text().replace(was.removeprefix("Version: "), version))
    subprocess.run(
        ["dpkg-deb", "--root-owner-group", "-Znone", "--build", stage, into],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    shutil.rmtree(stage)


def _forget_old() -> None:
    found = sorted(KEPT.glob("debs-*"), key=lambda path: path.stat().st_mtime)
    for old in found[:-BUILDS_KEPT]:
        shutil.rmtree(old, ignore_errors=True)
