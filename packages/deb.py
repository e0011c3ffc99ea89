"""`make deb`: trimtab-agent and trimtab-daemon as Debian packages, each with an environment of its own inside.

Needs a network once, for the wheels of packages/wheels.lock; installing the packages needs none. One commit gives the
same bytes wherever and whenever it is built: times are those of the commit, modes and order are fixed, byte code is
made at installation, and no path of the building machine is inside.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from packages import debian_papers as papers
from packages.ground import ROOT, epoch, put, run, settle, sha256, version, write
from packages.wheels import Target, gathered, install, own_wheel

SYSTEMD = ROOT / "systemd"
RECIPES = Path(__file__).with_name("debian")
REVISION = "1"
MIGRATIONS = ROOT / "daemon/trimtab/store/migrations/versions"
SPARED = (
    "numpy/**/tests",  # 8 MB of tests of the library itself
    "babel/locale-data/[!ezr]*.dat",  # 30 MB; people are spoken to in English and Chinese
    "babel/locale-data/e[!n]*.dat",
    "babel/locale-data/z[!h]*.dat",
    "babel/locale-data/r[!o]*.dat",  # root.dat is what all others stand on
    "**/*.pyi",  # types are for who writes against a library
)
"""What no program of ours opens, left out of the packages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Package:
    """One package: its extra of trimtab, its units, settings and words."""

    name: str
    extra: str
    summary: str
    text: str
    units: tuple[str, ...]
    """Patterns of unit files; what has an [Install] section is enabled."""
    user: str
    settings: str
    weight: int
    """Which of the two gives the program's name, where both are installed: the higher."""
    others: Mapping[str, str] = field(default_factory=dict)
    """Further relations of the control file."""

    @property
    def home(self) -> str:
        """Where it is installed."""
        return f"usr/lib/{self.name}"

    @property
    def recipes(self) -> Path:
        """Where its maintainer scripts are."""
        return RECIPES / self.name.removeprefix("trimtab-")

    def unit_files(self) -> Sequence[Path]:
        """Its units, by name."""
        return sorted(path for pattern in self.units for path in SYSTEMD.glob(pattern) if path.is_file())


AGENT = Package(
    name="trimtab-agent",
    extra="",
    summary="reads a GPU node for trimtab",
    text="Reads utilisation, memory, NVLink, PCIe, temperature, power, ECC and XID through NVML and the kernel log, "
    "keeps each report on disk until the daemon has acknowledged it, and shows it at /metrics.",
    units=("trimtab-agent*.*",),
    user="trimtab-agent",
    settings="agent.toml",
    weight=10,
)
DAEMON = Package(
    name="trimtab-daemon",
    extra="daemon",
    summary="observability and rebalancing for GPU clusters",
    text="Takes the agents' reports in, keeps the history, says what is wrong and what it costs, and proposes or "
    "carries out the smallest safe move.",
    units=("trimtab-[!a]*.service", "trimtab-[!a]*.socket", "trimtab-[!a]*.timer", "trimtab-[!a]*.target"),
    user="trimtab",
    settings="daemon.toml",
    weight=20,
    others={"Recommends": "tzdata", "Suggests": "prometheus, prometheus-alertmanager, grafana, postgresql"},
)
PACKAGES = (AGENT, DAEMON)


def main() -> None:
    """Build what is asked for into a folder and say each file's size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "deb", help="folder for the packages")
    parser.add_argument("--wheels", type=Path, help="folder with the locked wheels, in place of cache and network")
    parser.add_argument("--version", help="package version; without it trimtab's own")
    parser.add_argument(
        "--python", default=system_python(), help="for a system whose python3 is this: 3.11, 3.12, 3.13"
    )
    parser.add_argument("--only", choices=[one.name for one in PACKAGES], help="one of the two packages")
    given = parser.parse_args()
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch())
    wanted = [one for one in PACKAGES if given.only in (None, one.name)]
    for made in build(wanted, into=given.into, python=given.python, wheels=given.wheels, named=given.version):
        unpacked_bytes = int(run("dpkg-deb", "--field", made, "Installed-Size")) * 1024
        sizes = f"{made.stat().st_size / 1e6:.1f} MB, unpacked {unpacked_bytes / 1e6:.0f} MB"
        print(f"{made}  {sizes}  sha256 {sha256(made)}")


def build(
    packages: Sequence[Package], *, into: Path, python: str, wheels: Path | None = None, named: str | None = None
) -> Sequence[Path]:
    """One .deb each, from the source and the locked wheels."""
    target = Target(python=python, machine=run("uname", "-m").strip())
    into = into.resolve()
    into.mkdir(parents=True, exist_ok=True)
    links = into / "stage" / "wheels"
    gathered(target, links, kept=wheels)
    own = own_wheel(into / "stage" / "own")
    called = named or f"{version()}-{REVISION}+py{python}"
    return [_deb(one, own=own, wheels=links, into=into, target=target, called=called) for one in packages]


def system_python() -> str:
    """The Python of this system's packages, which is where the result can be installed."""
    return run("/usr/bin/python3", "-c", "import sys; print('%d.%d' % sys.version_info[:2])").strip()


def _deb(package: Package, *, own: Path, wheels: Path, into: Path, target: Target, called: str) -> Path:
    stage = into / "stage" / package.name
    shutil.rmtree(stage, ignore_errors=True)
    environment(package, stage, own=own, wheels=wheels, target=target)
    _files(package, stage, called)
    _control(package, stage, called, target)
    settle(stage)
    made = into / f"{package.name}_{called}_{_architecture()}.deb"
    # Threads of zstd change how a frame is cut, not what it says; the level and one thread settle the bytes.
    run("dpkg-deb", "--root-owner-group", "-Zzstd", "-z12", "--threads-max=1", "--build", stage, made)
    return made


# --- the environment inside


def environment(package: Package, stage: Path, *, own: Path, wheels: Path, target: Target) -> None:
    """An environment that runs from /usr/lib by the system's Python, with nothing of pip's in it."""
    home = stage / package.home
    modules = home / "lib" / f"python{target.python}" / "site-packages"
    modules.mkdir(parents=True)
    install(own, package.extra, target, modules, wheels)
    shutil.rmtree(modules / "bin", ignore_errors=True)  # other programs of our wheels are not ours to put on a host
    for pattern in SPARED:
        for path in sorted(modules.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in modules.rglob("*"):
        if path.is_file():
            path.chmod(0o644)  # modules and libraries are read, not run, whatever their wheels say
    for name in ("direct_url.json", "RECORD", "REQUESTED", "INSTALLER"):
        for path in sorted(modules.glob(f"*.dist-info/{name}")):
            path.unlink()  # they name the building machine, and nothing of pip's will ever run here
    binaries = home / "bin"
    binaries.mkdir()
    (binaries / "python3").symlink_to("../../../bin/python3")
    write(home / "pyvenv.cfg", f"home = /usr/bin\ninclude-system-site-packages = false\nversion = {target.python}\n")
    # -I: neither the caller's folder nor PYTHONPATH decides what root runs.
    started = "import sys\n\nfrom trimtab.cli import main\n\nsys.exit(main())\n"
    write(binaries / "trimtab", f"#!/{package.home}/bin/python3 -I\n{started}", is_program=True)
    said = run("grep", "-rlI", "--", str(stage), home, is_checked=False)
    if said:
        raise SystemExit(f"the building machine's path is still in: {said}")


# --- the rest of the package


def _files(package: Package, stage: Path, called: str) -> None:
    for unit in package.unit_files():
        put(unit, stage / "usr/lib/systemd/system" / unit.name)
    users = (SYSTEMD / "trimtab.sysusers").read_text().splitlines()
    mine = [line for line in users if line.startswith("#") or line.split()[1] == package.user]
    write(stage / f"usr/lib/sysusers.d/{package.name}.conf", "\n".join(mine) + "\n")
    put(SYSTEMD / "trimtab.tmpfiles", stage / f"usr/lib/tmpfiles.d/{package.name}.conf")
    put(SYSTEMD / package.settings, stage / "etc/trimtab" / package.settings)
    papers.write_papers(package.name, stage, home=package.home, called=called)


def _control(package: Package, stage: Path, called: str, target: Target) -> None:
    debian = stage / "DEBIAN"
    words = {
        "@UNITS@": " ".join(one.name for one in package.unit_files() if "\n[Install]" in one.read_text()),
        "@ALL_UNITS@": " ".join(one.name for one in package.unit_files()),
        "@WEIGHT@": str(package.weight),
        "@SCHEMAS@": " ".join(_schemas()),
        "@VERSION@": called,
    }
    for script in sorted(package.recipes.iterdir()):
        text = re.sub("@[A-Z_]+@", lambda found: words[found[0]], script.read_text())
        write(debian / script.name, text, is_program=script.name != "triggers")
    write(debian / "conffiles", f"/etc/trimtab/{package.settings}\n")
    found = (path for path in stage.rglob("*") if path.is_file() and not path.is_symlink())
    files = sorted(path for path in found if debian not in path.parents)
    sums = [f"{_md5(path)}  {path.relative_to(stage)}" for path in files]
    write(debian / "md5sums", "\n".join(sums) + "\n")
    fields = {
        "Package": package.name,
        "Version": called,
        "Architecture": _architecture(),
        "Maintainer": "trimtab <trimtab@localhost>",
        "Installed-Size": str(sum(-(-path.stat().st_size // 1024) for path in files)),
        "Depends": ", ".join(_depends(stage / package.home, target)),
        **package.others,
        "Section": "admin",
        "Priority": "optional",
        "Description": f"{package.summary}\n"
        + textwrap.fill(package.text, 78, initial_indent=" ", subsequent_indent=" "),
    }
    write(debian / "control", "".join(f"{name}: {value}\n" for name, value in fields.items()))


def _depends(home: Path, target: Target) -> Sequence[str]:
    """The Python that the modules are made for, the C library that their binaries ask for, and who makes users."""
    minor = int(target.python.split(".")[1])
    tags = [found for path in home.rglob("*.dist-info/WHEEL") for found in _GLIBC.findall(path.read_text())]
    glibc = max((int(one) for one in tags), default=17)
    return (f"python3 (>= 3.{minor})", f"python3 (<< 3.{minor + 1})", f"libc6 (>= 2.{glibc})", "systemd", "passwd")


_GLIBC = re.compile(r"^Tag: \S+-manylinux_2_(\d+)_\w+$", re.MULTILINE)


def _schemas() -> Sequence[str]:
    """Every schema of the database that this version knows: an older package says no to any other."""
    found = (
        re.search(r'^revision\b[^=]*= "([^"]+)"', path.read_text(), re.MULTILINE) for path in MIGRATIONS.glob("*.py")
    )
    return sorted(one[1] for one in found if one is not None)


def _architecture() -> str:
    return run("dpkg", "--print-architecture").strip()


def _md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()  # dpkg's own format


if __name__ == "__main__":
    main()
