"""`make image`: the OCI image of trimtab, agent and daemon in one, without a container engine: mmdebstrap and umoci.

Two layers: a minimal Debian with Python, and what the trimtab-daemon package installs. The same commit over the same
Debian packages gives the same bytes. Needs root (mmdebstrap makes the owners of files) and a network.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import shutil
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from packages import deb
from packages.ground import ROOT, epoch, run, settle, version

NAME = "trimtab"
"""What the Kubernetes manifests call it; `kustomize edit set image trimtab=REGISTRY/trimtab:VERSION` finds it."""
UID = 64410
"""The user that it runs as, where nobody says otherwise; the manifests name it too."""
SUITE = "bookworm"
PYTHON = "3.11"
"""Of that suite: the modules of the layer above are made for it."""
MIRROR = "http://deb.debian.org/debian"
INCLUDED = ("python3", "tzdata")
"""tzdata: a digest is sent at an hour of somebody's time zone."""
HOME = deb.DAEMON.home
OPTIONS = (
    "--mode=root",
    "--variant=essential",
    f"--include={','.join(INCLUDED)}",
    '--aptopt=APT::Install-Recommends "false"',
    '--aptopt=Acquire::Retries "2"',
    "--dpkgopt=path-exclude=/usr/share/man/*",
    "--dpkgopt=path-exclude=/usr/share/locale/*",
    "--dpkgopt=path-exclude=/usr/share/doc/*",
    "--dpkgopt=path-include=/usr/share/doc/*/copyright",
    # Nothing of the machine that built it, nothing that differs from run to run.
    '--customize-hook=cd "$1" && rm -f etc/resolv.conf etc/hostname etc/machine-id var/cache/ldconfig/aux-cache',
    '--customize-hook=rm -rf "$1"/var/log/* "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*',
)
PORTS = ("9740/tcp", "9741/tcp", "9742/tcp")
"""The page and API, ingest, an agent's /metrics."""
VOLUMES = ("/var/lib/trimtab", "/var/lib/trimtab-agent")
"""State of the daemon and of an agent: all that is written."""


def main() -> None:
    """Build the image into a folder and say what it weighs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path, default=ROOT / "build" / "image", help="folder for the image")
    parser.add_argument("--base", type=Path, help="root file system as .tar, in place of one by mmdebstrap")
    parser.add_argument("--deb", type=Path, help="the trimtab-daemon package, in place of a new one")
    given = parser.parse_args()
    os.environ["SOURCE_DATE_EPOCH"] = str(epoch())
    layout = build(given.into, base=given.base, package=given.deb)
    for layer, size in layers(layout):
        print(f"  layer {layer[:19]}  {size / 1e6:.1f} MB")
    archive = given.into / f"{NAME}-{version()}-oci.tar"
    _pack(layout, archive)
    print(f"{layout}:{version()}  {_digest(layout)}")
    print(f"{archive}  {archive.stat().st_size / 1e6:.1f} MB")


def build(into: Path, *, base: Path | None = None, package: Path | None = None) -> Path:
    """The image as an OCI layout, under the tags `latest` and the version."""
    into = into.resolve()
    stage, layout = into / "stage", into / "oci"
    for folder in (stage, layout):
        shutil.rmtree(folder, ignore_errors=True)
    stage.mkdir(parents=True)
    ground = base or _base(stage / "base.tar")
    if package is None:
        [package] = deb.build([deb.DAEMON], into=stage / "deb", python=PYTHON)
    top = _top(ground, package, stage)
    image = f"{layout}:{version()}"
    created = datetime.fromtimestamp(epoch(), tz=UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    run("umoci", "init", "--layout", layout)
    run("umoci", "new", "--image", image)
    for layer, by in ((ground, f"Debian {SUITE}, minimal, with Python {PYTHON}"), (top, f"trimtab {version()}")):
        run(
            "umoci",
            "raw",
            "add-layer",
            "--image",
            image,
            "--history.created",
            created,
            "--history.created_by",
            by,
            layer,
        )
    run("umoci", "config", "--image", image, "--no-history", "--created", created, *_config(created))
    run("umoci", "gc", "--layout", layout)
    run("umoci", "tag", "--image", image, "latest")
    _still(layout)
    return layout


def layers(layout: Path) -> Iterator[tuple[str, int]]:
    """Digest and pressed size of each layer."""
    index = json.loads((layout / "index.json").read_text())
    manifest = json.loads(_blob(layout, index["manifests"][0]["digest"]).read_text())
    for one in manifest["layers"]:
        yield one["digest"], one["size"]


def _config(created: str) -> list[str]:
    said = {
        "org.opencontainers.image.title": NAME,
        "org.opencontainers.image.description": "Observability and rebalancing for GPU clusters",
        "org.opencontainers.image.version": version(),
        "org.opencontainers.image.licenses": "Apache-2.0",
        "org.opencontainers.image.created": created,
        "org.opencontainers.image.base.name": f"debian:{SUITE}",
    }
    words = [word for name, value in said.items() for word in ("--config.label", f"{name}={value}")]
    words += ["--config.user", f"{UID}:{UID}", "--config.entrypoint", "trimtab", "--config.cmd", "--help"]
    words += ["--config.env", "PATH=/usr/local/bin:/usr/bin:/bin", "--config.env", "PYTHONUNBUFFERED=1"]
    words += ["--config.workingdir", "/", "--config.stopsignal", "SIGTERM"]
    for port in PORTS:
        words += ["--config.exposedports", port]
    return words


# --- layers


def _base(to: Path) -> Path:
    """A minimal Debian with Python, as .tar."""
    run("mmdebstrap", *OPTIONS, "--quiet", "--format=tar", SUITE, to, f"deb {MIRROR} {SUITE} main")
    return to


def _top(ground: Path, package: Path, stage: Path) -> Path:
    """What lies over it: the package's program with its byte code, its user, and where it keeps things."""
    folder = stage / "top"
    folder.mkdir()
    run("dpkg-deb", "--extract", package, stage / "package")
    shutil.copytree(stage / "package" / HOME, folder / HOME, symlinks=True)
    documents = f"usr/share/doc/{deb.DAEMON.name}"
    shutil.copytree(stage / "package" / documents, folder / documents)
    with _mounted(ground, stage) as root:
        # The root is read-only where it runs: byte code is made now, by the very Python that will read it.
        shutil.copytree(folder / HOME, root / HOME, symlinks=True)
        settle(root / HOME)
        compiling = ("-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", f"/{HOME}/lib")
        run("chroot", root, "/usr/bin/env", "-i", "PYTHONHASHSEED=0", "/usr/bin/python3", "-I", *compiling)
        for compiled in sorted((root / HOME).rglob("*.pyc")):
            target = folder / compiled.relative_to(root)
            target.parent.mkdir(exist_ok=True)
            shutil.copyfile(compiled, target)
        people = {name: (root / "etc" / name).read_text() for name in ("passwd", "group")}
    (folder / "usr/bin").mkdir()
    (folder / "usr/bin/trimtab").symlink_to(f"../../{HOME}/bin/trimtab")
    (folder / "etc/trimtab").mkdir(parents=True)
    (folder / "etc/passwd").write_text(
        people["passwd"] + f"{NAME}:x:{UID}:{UID}:trimtab:/var/lib/trimtab:/usr/sbin/nologin\n"
    )
    (folder / "etc/group").write_text(people["group"] + f"{NAME}:x:{UID}:\n")
    for volume in VOLUMES:
        (folder / volume.lstrip("/")).mkdir(parents=True)
    settle(folder)
    made = stage / "top.tar"
    owned = {volume.lstrip("/") for volume in VOLUMES}
    _pack(folder, made, owner=lambda name: UID if name in owned else 0)
    return made


@contextmanager
def _mounted(ground: Path, stage: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=stage) as folder:
        root = Path(folder) / "root"
        root.mkdir()
        run("tar", "--extract", "--file", ground, "--directory", root, "--exclude=./dev/*", "--numeric-owner")
        yield root


def _pack(folder: Path, to: Path, *, owner: Callable[[str], int] = lambda _name: 0) -> None:
    """A folder as .tar: names in order, numbers for owners, one time."""
    with tarfile.open(to, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            info = tar.gettarinfo(path, arcname=name)
            info.uid = info.gid = owner(name)
            info.uname = info.gname = ""
            info.mtime = epoch()
            if info.type == tarfile.LNKTYPE:
                info.type = tarfile.REGTYPE
                info.size = path.stat().st_size
            tar.addfile(info, io.BytesIO(path.read_bytes()) if info.isreg() else None)


def _still(layout: Path) -> None:
    """The index in one order: umoci writes it as it comes."""
    index = layout / "index.json"
    said = json.loads(index.read_text())
    said["manifests"].sort(key=lambda one: str(one["annotations"]))
    index.write_text(json.dumps(said, sort_keys=True) + "\n")


def _digest(layout: Path) -> str:
    found: str = json.loads((layout / "index.json").read_text())["manifests"][0]["digest"]
    return found


def _blob(layout: Path, digest: str) -> Path:
    kind, _, total = digest.partition(":")
    return layout / "blobs" / kind / total


if __name__ == "__main__":
    main()
