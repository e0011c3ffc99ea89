"""The wheels that packages are made of: a lock file names each by its sum, a cache keeps them, pip fetches the rest.

`python -m packages.wheels` writes the lock anew (`make wheels-lock`); whoever builds gets the very same files.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from packages.ground import ROOT, run, sha256

LOCK = Path(__file__).with_name("wheels.lock")
EXTRAS = "daemon"
"""The extra whose wheels are locked: that of the largest package."""
TOOLS = ("pip",)
"""Comes with the bundle, so that it needs no pip of the system's; nothing of it is in a package."""
PYTHONS = ("3.11", "3.12", "3.13")
MACHINES = ("x86_64", "aarch64")
GLIBCS = tuple(f"2_{minor}" for minor in range(34, 16, -1))
"""glibc 2.34 is RHEL 9's, the oldest of the supported systems; cysystemd's wheels need it."""
OLD_GLIBCS = ("manylinux2014", "manylinux2010", "manylinux1")
_HEAD = """# Wheels of trimtab's packages, for every supported Python and machine: sum and name, as sha256sum has it.
# Made by `make wheels-lock`; what is not named here comes into no package.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One Python on one kind of machine."""

    python: str
    machine: str = "x86_64"

    @property
    def platforms(self) -> tuple[str, ...]:
        """Names of this machine's wheels, best first."""
        return tuple(f"{one}_{self.machine}" for one in (*(f"manylinux_{glibc}" for glibc in GLIBCS), *OLD_GLIBCS))

    @property
    def tags(self) -> frozenset[Tag]:
        """What a wheel must bear one of."""
        python = tuple(int(one) for one in self.python.split("."))
        known = cpython_tags(python_version=python, platforms=self.platforms)
        short = "".join(self.python.split("."))
        others = compatible_tags(python_version=python, interpreter=f"cp{short}", platforms=self.platforms)
        return frozenset((*known, *others))

    @property
    def pip_options(self) -> tuple[str, ...]:
        """How pip is told to choose for this target and not for its own interpreter."""
        platforms = [word for one in self.platforms for word in ("--platform", one)]
        return ("--only-binary=:all:", "--implementation=cp", f"--python-version={self.python}", *platforms)

    def takes(self, name: str) -> bool:
        """Whether this wheel can be installed here."""
        return not self.tags.isdisjoint(parse_wheel_filename(name)[3])


ALL_TARGETS = tuple(Target(python=python, machine=machine) for machine in MACHINES for python in PYTHONS)


def locked() -> Mapping[str, str]:
    """Every wheel of the lock: file name -> SHA-256."""
    lines = [line.split() for line in LOCK.read_text().splitlines() if line and not line.startswith("#")]
    return {name: total for total, name in lines}


def cache() -> Path:
    """Where wheels are kept between builds."""
    home = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(home) / "trimtab" / "wheels"


def gathered(target: Target, into: Path, *, kept: Path | None = None) -> Sequence[Path]:
    """The locked wheels of one target, as links in a folder of their own; only what is in no cache is fetched.

    With `kept` nothing is fetched: what that folder lacks ends the build.
    """
    wanted = {name: total for name, total in locked().items() if target.takes(name)}
    store = kept or cache()
    missing = [name for name, total in wanted.items() if not _is_there(store / name, total)]
    if missing and kept is not None:
        raise SystemExit(f"{kept} lacks wheels of packages/wheels.lock: {', '.join(missing)}")
    if missing:
        _fetch(target, {name: wanted[name] for name in missing}, store)
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for name in wanted:
        (into / name).symlink_to((store / name).resolve())
    return [into / name for name in sorted(wanted)]


def own_wheel(into: Path) -> Path:
    """Trimtab itself, built without a network by what the environment has."""
    shutil.rmtree(into, ignore_errors=True)
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", into, ROOT)
    return next(into.glob("trimtab-*.whl"))


def install(what: Path, extra: str, target: Target, into: Path, wheels: Path) -> None:
    """Install trimtab's wheel and what it needs into a folder of modules, from these wheels alone."""
    line: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--no-index",
        "--find-links",
        wheels,
    ]
    named = f"{what}[{extra}]" if extra else str(what)
    said = run(*line, *target.pip_options, "--target", into, named, is_checked=False, more={"PIP_FIND_LINKS": ""})
    if not (into / "trimtab").is_dir():
        raise SystemExit(
            f"{said}\nIf pip found no version of something: pyproject.toml asks for more than packages/wheels.lock "
            "has. Write the lock anew: make wheels-lock"
        )


def _is_there(path: Path, total: str) -> bool:
    return path.is_file() and sha256(path) == total


def _fetch(target: Target, wanted: Mapping[str, str], store: Path) -> None:
    """By name, version and sum; a file with another sum never gets its name in the cache."""
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store, prefix=".fetching-") as folder:
        needs = Path(folder) / "needs.txt"
        needs.write_text("".join(f"{_pinned(name)} --hash=sha256:{total}\n" for name, total in sorted(wanted.items())))
        line = [
            sys.executable,
            "-m",
            "pip",
            "download",
            "--quiet",
            "--no-deps",
            "--require-hashes",
            *target.pip_options,
        ]
        run(*line, "--dest", folder, "--requirement", needs)
        for name, total in wanted.items():
            if not _is_there(Path(folder) / name, total):
                raise SystemExit(f"{name} could not be had with the sum of packages/wheels.lock: make wheels-lock")
            (Path(folder) / name).replace(store / name)


def _pinned(name: str) -> str:
    project, version, _, _ = parse_wheel_filename(name)
    return f"{project}=={version}"


# --- the lock


def lock(targets: Iterable[Target] = ALL_TARGETS) -> None:
    """Choose the newest wheels that pyproject.toml allows, the same versions for every target, and write them down."""
    found: dict[str, str] = {}
    store = cache()
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=store, prefix=".locking-") as folder:
        own = own_wheel(Path(folder) / "own")
        for target in targets:
            fixed = Path(folder) / "fixed.txt"
            fixed.write_text("".join(sorted({f"{_pinned(name)}\n" for name in found})))
            dest = Path(folder) / f"{target.python}-{target.machine}"
            line: list[str | Path] = [sys.executable, "-m", "pip", "download", "--quiet", "--constraint", fixed]
            line += target.pip_options
            run(*line, "--dest", dest, f"{own}[{EXTRAS}]", *TOOLS)
            for wheel in dest.glob("*.whl"):
                if wheel.name != own.name:
                    found[wheel.name] = sha256(wheel)
                    wheel.replace(store / wheel.name)
            print(f"Python {target.python} on {target.machine}: {sum(map(target.takes, found))} wheels")
    LOCK.write_text(_HEAD + "".join(f"{total}  {name}\n" for name, total in sorted(found.items())))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    lock()
