"""`make bundle`: one archive with every wheel for every supported Python, an installer and its sums; no network needed.

The same commit gives the same bytes. What is inside is what packages/wheels.lock names for one kind of machine.
"""

from __future__ import annotations

import argparse
import gzip
import os
import shutil
import tarfile
from collections.abc import Sequence
from pathlib import Path

from packages.ground import ROOT, epoch, put, run, settle, sha256, version, write
from packages.wheels import MACHINES, PYTHONS, Target, gathered, own_wheel

INSTALLER = Path(__file__).with_name("install.sh")
SYSTEMD = ROOT / "systemd"


def main() -> None:
    """Build the archive of one machine and say its size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "bundle", help="folder for the archive")
    parser.add_argument("--machine", choices=MACHINES, default=run("uname", "-m").strip(), help="for these machines")
    parser.add_argument("--python", choices=PYTHONS, action="append", help="for this Python alone; again for more")
    parser.add_argument("--wheels", type=Path, help="folder with the locked wheels, in place of cache and network")
    given = parser.parse_args()
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch())
    made = build(given.into, machine=given.machine, pythons=given.python or PYTHONS, kept=given.wheels)
    print(f"{made}  {made.stat().st_size / 1e6:.1f} MB  sha256 {sha256(made)}")


def build(into: Path, *, machine: str, pythons: Sequence[str], kept: Path | None = None) -> Path:
    """The archive, `trimtab-0.1.0-linux-x86_64.tar.gz`."""
    into = into.resolve()
    name = f"trimtab-{version()}-linux-{machine}"
    stage = into / "stage" / name
    shutil.rmtree(stage, ignore_errors=True)
    for python in pythons:
        for wheel in gathered(Target(python=python, machine=machine), into / "stage" / "links", kept=kept):
            put(wheel.resolve(), stage / "wheels" / wheel.name)
    own = own_wheel(into / "stage" / "own")
    put(own, stage / "wheels" / own.name)
    words = {"@VERSION@": version(), "@MACHINE@": machine, "@PYTHONS@": " ".join(pythons)}
    text = INSTALLER.read_text()
    for word, meant in words.items():
        text = text.replace(word, meant)
    write(stage / "install.sh", text, is_program=True)
    for path in sorted(SYSTEMD.iterdir()):
        if path.is_file():
            put(path, stage / "systemd" / path.name)
    for paper in ("LICENSE", "CHANGELOG.md", "README.md"):
        put(ROOT / paper, stage / paper)
    files = sorted(path.relative_to(stage) for path in stage.rglob("*") if path.is_file())
    write(stage / "SHA256SUMS", "".join(f"{sha256(stage / path)}  {path}\n" for path in files))
    settle(stage)
    made = into / f"{name}.tar.gz"
    pack(stage, made)
    return made


def pack(folder: Path, to: Path) -> None:
    """A folder as .tar.gz: names in order, root's, at one time. Wheels are pressed already, so the quickest level."""

    def plain(info: tarfile.TarInfo) -> tarfile.TarInfo:
        info.uid = info.gid = 0
        info.uname = info.gname = "root"
        info.mtime = epoch()
        return info

    with (
        to.open("wb") as raw,
        gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=1, mtime=0) as pressing,
        tarfile.open(fileobj=pressing, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for path in (folder, *sorted(folder.rglob("*"))):
            tar.add(path, arcname=str(path.relative_to(folder.parent)), recursive=False, filter=plain)


if __name__ == "__main__":
    main()
