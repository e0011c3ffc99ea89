"""`make deb`: trimtab-agent and trimtab-daemon as Debian packages, each with a virtual environment of its own inside.

Needs a network once, for the wheels; installing the packages needs none. The same source and the same wheels give the
same bytes: times are those of the last commit, names are in order, and no path of the building machine is in them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[2]
SYSTEMD = ROOT / "systemd"
RECIPES = Path(__file__).parent
PYTHON = Path("/usr/bin/python3")
"""The system's own: the package depends on it, and the environment inside points at it."""
EPOCH_FALLBACK = "1767225600"
"""2026-01-01, where the source is no git checkout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package: its extra of trimtab, its units, settings and words."""

    name: str
    extra: str
    summary: str
    text: str
    units: tuple[str, ...]
    user: str
    settings: str
    depends: tuple[str, ...] = ()
    others: Mapping[str, str] = field(default_factory=dict)
    """Further relations of the control file."""

    @property
    def home(self) -> str:
        """Where it is installed."""
        return f"usr/lib/{self.name}"


AGENT = Package(
    name="trimtab-agent",
    extra="",
    summary="reads a GPU node for trimtab",
    text="Reads utilisation, memory, NVLink, PCIe, temperature, power, ECC and XID through NVML and the kernel log, "
    "keeps each report on disk until the daemon has acknowledged it, and shows it at /metrics.",
    units=("trimtab-agent.service",),
    user="trimtab-agent",
    settings="agent.toml",
)
DAEMON = Package(
    name="trimtab-daemon",
    extra="daemon",
    summary="observability and rebalancing for GPU clusters",
    text="Takes the agents' reports in, keeps the history, says what is wrong and what it costs, and proposes or "
    "carries out the smallest safe move.",
    units=("trimtab-daemon.service", "trimtab-daemon.socket", "trimtab-backup.service", "trimtab-backup.timer"),
    user="trimtab",
    settings="daemon.toml",
    others={"Suggests": "prometheus, prometheus-alertmanager, grafana, postgresql"},
)
PACKAGES = (AGENT, DAEMON)


def main() -> None:
    """Build what is asked for into a folder and say each file's size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "deb", help="folder for the packages")
    parser.add_argument("--wheels", type=Path, help="folder of wheels to use in place of the network")
    parser.add_argument("--version", help="package version; without it trimtab's own")
    given = parser.parse_args()
    os.environ["SOURCE_DATE_EPOCH"] = _epoch()
    given.into.mkdir(parents=True, exist_ok=True)
    wheels = given.wheels or given.into / "wheels"
    own = _own_wheel(given.into / "own")
    if given.wheels is None:
        _fetch(own, wheels)
    for package in PACKAGES:
        made = build(package, own=own, wheels=wheels, into=given.into, version=given.version or _version())
        print(f"{made.name}  {made.stat().st_size / 1e6:.1f} MB  sha256 {_sha256(made)[:16]}")


def build(package: Package, *, own: Path, wheels: Path, into: Path, version: str) -> Path:
    """One .deb from trimtab's own wheel and a folder of wheels for all it needs; no network."""
    stage = into / "stage" / package.name
    shutil.rmtree(stage, ignore_errors=True)
    _environment(package, stage, own, wheels)
    _files(package, stage)
    _control(package, stage, version)
    made = into / f"{package.name}_{version}_{_architecture()}.deb"
    _run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z12", "--build", stage, made)
    return made


# --- wheels


def _own_wheel(into: Path) -> Path:
    shutil.rmtree(into, ignore_errors=True)
    _run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", into, ROOT)
    return next(into.glob("trimtab-*.whl"))


def _fetch(own: Path, wheels: Path) -> None:
    """Every wheel of the largest package, for the system's Python."""
    wheels.mkdir(parents=True, exist_ok=True)
    tag = _run(PYTHON, "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()
    line = [sys.executable, "-m", "pip", "download", "--quiet", "--only-binary=:all:", "--python-version", tag]
    _run(*line, "--dest", wheels, f"{own}[{DAEMON.extra}]")


# --- the environment inside


def _environment(package: Package, stage: Path, own: Path, wheels: Path) -> None:
    home = stage / package.home
    home.parent.mkdir(parents=True)
    _run(PYTHON, "-m", "venv", "--without-pip", "--symlinks", home)
    what = f"{own}[{package.extra}]" if package.extra else str(own)
    pip = [sys.executable, "-m", "pip", "--python", home / "bin" / "python3", "install", "--quiet", "--no-compile"]
    _run(*pip, "--no-index", "--find-links", wheels, "--disable-pip-version-check", what)
    _relocate(home, f"/{package.home}")


def _relocate(home: Path, to: str) -> None:
    """Nothing in it may say where it was built."""
    for name in ("pip", "Activate.ps1", "activate", "activate.csh", "activate.fish"):
        (home / "bin" / name).unlink(missing_ok=True)
    for script in (home / "bin").iterdir():
        if script.is_symlink():
            continue
        if script.name != "trimtab":
            script.unlink()  # other programs of our wheels are not ours to put on a host
            continue
        script.write_text(re.sub(r"\A#!.*\n", f"#!{to}/bin/python3\n", script.read_text()))
    version = _run(PYTHON, "-c", "import platform; print(platform.python_version())").strip()
    lines = ("home = /usr/bin", "include-system-site-packages = false", f"version = {version}")
    (home / "pyvenv.cfg").write_text("\n".join(lines) + "\n")
    for path in (*home.rglob("direct_url.json"), *home.rglob("RECORD"), *home.rglob("REQUESTED")):
        path.unlink()  # they name the building machine, and nothing of pip's will ever run here
    for cache in home.rglob("__pycache__"):
        shutil.rmtree(cache)
    said = _run("grep", "-rlI", "--", str(home), home, is_checked=False)
    if said:
        raise SystemExit(f"the building machine's path is still in: {said}")


# --- the rest of the package


def _files(package: Package, stage: Path) -> None:
    for unit in package.units:
        _put(SYSTEMD / unit, stage / "usr/lib/systemd/system" / unit)
    users = (SYSTEMD / "trimtab.sysusers").read_text().splitlines()
    mine = [line for line in users if line.startswith("#") or line.split()[1] == package.user]
    _write(stage / f"usr/lib/sysusers.d/{package.name}.conf", "\n".join(mine) + "\n")
    _put(SYSTEMD / "trimtab.tmpfiles", stage / f"usr/lib/tmpfiles.d/{package.name}.conf")
    _put(SYSTEMD / package.settings, stage / "etc/trimtab" / package.settings)
    documents = stage / "usr/share/doc" / package.name
    for name in ("README.md", "CHANGELOG.md", "LICENSE"):
        _put(ROOT / name, documents / ("copyright" if name == "LICENSE" else name))


def _control(package: Package, stage: Path, version: str) -> None:
    debian = stage / "DEBIAN"
    for script in (RECIPES / package.name.removeprefix("trimtab-")).iterdir():
        _put(script, debian / script.name, is_program=script.name != "triggers")
    _write(debian / "conffiles", f"/etc/trimtab/{package.settings}\n")
    files = sorted(path for path in stage.rglob("*") if path.is_file() and debian not in path.parents)
    sums = [f"{_md5(path)}  {path.relative_to(stage)}" for path in files if not path.is_symlink()]
    _write(debian / "md5sums", "\n".join(sums) + "\n")
    size_kib = sum(path.lstat().st_size for path in files) // 1024
    minor = int(_run(PYTHON, "-c", "import sys; print(sys.version_info[1])"))
    depends = (f"python3 (>= 3.{minor})", f"python3 (<< 3.{minor + 1})", "systemd", *package.depends)
    fields = {
        "Package": package.name,
        "Version": version,
        "Architecture": _architecture(),
        "Maintainer": "trimtab <trimtab@localhost>",
        "Installed-Size": str(size_kib),
        "Depends": ", ".join(depends),
        **package.others,
        "Section": "admin",
        "Priority": "optional",
        "Description": f"{package.summary}\n {package.text}",
    }
    _write(debian / "control", "".join(f"{name}: {value}\n" for name, value in fields.items()))


def _put(source: Path, target: Path, *, is_program: bool = False) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(source, target)
    target.chmod(0o755 if is_program else 0o644)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)


# --- small questions


def _run(*line: str | Path, is_checked: bool = True) -> str:
    done = subprocess.run([str(one) for one in line], cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if is_checked and done.returncode:
        raise SystemExit(f"{line[0]} failed ({done.returncode}): {' '.join(str(one) for one in line)}")
    return done.stdout


def _epoch() -> str:
    if os.environ.get("SOURCE_DATE_EPOCH"):
        return os.environ["SOURCE_DATE_EPOCH"]
    said = _run("git", "log", "-1", "--format=%ct", is_checked=False).strip()
    return said or EPOCH_FALLBACK


def _version() -> str:
    found = re.search(r'__version__ = "([^"]+)"', (ROOT / "daemon/trimtab/__init__.py").read_text())
    assert found is not None
    return found[1]


def _architecture() -> str:
    return _run("dpkg", "--print-architecture").strip()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()  # dpkg's own format


if __name__ == "__main__":
    main()
