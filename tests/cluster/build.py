"""Builds the test control plane's five programs, once per version: `python -m tests.cluster.build`, or `make test`."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import yaml

HERE = Path(__file__).parent
PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kueue")
GO_AT_LEAST = (1, 26)
PROGRESS_EVERY_SECONDS = 30.0
UNUSED_SECONDS_MAX = 30 * 24 * 3600
"""Programs of a version that nobody booted for this long go when another version is built (0.4 GB each)."""

_DRAFT = "building-"
INSTALL_GO = "install Go 1.26 or newer from https://go.dev/dl (Debian 12's own golang is too old) and put it on PATH"
BUILD = "run `python -m tests.cluster.build` (about 15 minutes cold, seconds warm)"


class BuildError(Exception):
    """The programs could not be built."""


@dataclass(frozen=True, kw_only=True)
class Binaries:
    """A folder with the five programs and Kueue's own manifests."""

    folder: Path

    def program(self, name: str) -> str:
        """Path of a program."""
        return str(self.folder / name)

    def manifests(self, name: str) -> list[dict]:
        """Kueue's `crds` or `webhooks`, as its module ships them."""
        return json.loads((self.folder / f"kueue-{name}.json").read_text(encoding="utf-8"))


def mode() -> str:
    """TRIMTAB_CLUSTER: `require` (a missing plane is a failure), `off` (do without), else `auto`."""
    given = os.environ.get("TRIMTAB_CLUSTER", "auto")
    if given not in ("auto", "off", "require"):
        raise BuildError(f"TRIMTAB_CLUSTER={given} means nothing: use require, off, or leave it unset")
    return given


def cache() -> Path:
    """Where programs are kept from one checkout to the next."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "trimtab-cluster"


def why_not() -> str | None:
    """Why the control plane can be neither built nor run here, with the one thing to do; None when it can."""
    if mode() == "off":
        return "TRIMTAB_CLUSTER=off: real control plane not wanted; unset it to have it"
    if os.geteuid() != 0:
        return "not root: Kueue reads certificates under /etc/kueue and /visibility; run the tests as root"
    version = _go_version()
    if version is None:
        return f"no Go toolchain: real control plane not built; {INSTALL_GO}"
    found = re.match(r"go(\d+)\.(\d+)", version)
    if found is None or (int(found[1]), int(found[2])) < GO_AT_LEAST:
        return f"{version} is too old for the real control plane; {INSTALL_GO}"
    return None


def find() -> Binaries | None:
    """The programs of this checkout's versions if they are built."""
    folder = cache() / key()
    if not (folder / "kueue-webhooks.json").exists():
        return None
    os.utime(folder)
    return Binaries(folder=folder)


def key() -> str:
    """What the programs depend on, as one name."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "etcd/main.go"):
        digest.update((HERE / name).read_bytes())
    digest.update(_go("version").encode())
    return digest.hexdigest()[:24]


def build(*, say=print) -> Binaries:
    """The programs, built if they are not there yet; `say` gets the lines of progress."""
    if found := find():
        return found
    cache().mkdir(parents=True, exist_ok=True)
    with _lock(cache() / "build.lock", say):
        if found := find():  # whoever held the lock has built them
            return found
        say("== control plane: building etcd, Kubernetes and Kueue (about 15 minutes cold on two cores, seconds warm)")
        started = time.monotonic()
        for left in cache().glob(f"{_DRAFT}*"):  # of a build that was killed: we hold the lock
            shutil.rmtree(left, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=cache(), prefix=_DRAFT) as folder:
            _compile(Path(folder), say)
            _keep_manifests(Path(folder))
            Path(folder).chmod(0o755)
            Path(folder).rename(cache() / key())
            Path(folder).mkdir()  # TemporaryDirectory removes a folder, and this one moved
        _prune()
        say(f"   built in {time.monotonic() - started:.0f} s")
    return Binaries(folder=cache() / key())


def kubernetes_version() -> str:
    """The pinned Kubernetes, as go.mod has it: v1.35.4."""
    found = re.search(r"^\s*k8s\.io/kubernetes (v\S+)", (HERE / "go.mod").read_text(encoding="utf-8"), re.MULTILINE)
    assert found is not None, "go.mod names no k8s.io/kubernetes"
    return found[1]


def _compile(folder: Path, say) -> None:
    version = kubernetes_version()
    major, minor = version.removeprefix("v").split(".")[:2]
    stamp = "k8s.io/component-base/version"  # without it clients see v0.0.0
    flags = f"-s -w -X {stamp}.gitVersion={version} -X {stamp}.gitMajor={major} -X {stamp}.gitMinor={minor}"
    command = ["go", "build", "-buildvcs=false", "-v", "-o", str(folder), "-ldflags", flags, "tool"]
    packages = len(_go("list", "-deps", "tool").split())
    process = subprocess.Popen(command, cwd=HERE, env=_environment(), stderr=subprocess.PIPE, text=True)
    lines: list[str] = []
    reader = threading.Thread(target=lambda: lines.extend(process.stderr or ()), daemon=True)
    reader.start()
    started = time.monotonic()
    while process.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(PROGRESS_EVERY_SECONDS)
            break
        minutes = (time.monotonic() - started) / 60
        say(f"   {minutes:4.1f} min: {len(lines)} packages compiled, at most {packages} in all; last: {_last(lines)}")
    reader.join()
    if process.stderr:
        process.stderr.close()
    if process.returncode:
        raise BuildError(f"go build ended with {process.returncode}:\n" + "".join(lines[-20:]))


def _last(lines: list[str]) -> str:
    return lines[-1].strip() if lines else "none"


def _keep_manifests(folder: Path) -> None:
    """Kueue's manifests as JSON beside its program: a boot parses them in no time and needs no module cache."""
    kueue = Path(_go("list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/kueue").strip()) / "config" / "components"
    crds = [document for path in sorted((kueue / "crd" / "bases").glob("*.yaml")) for document in _read(path)]
    (folder / "kueue-crds.json").write_text(json.dumps(crds), encoding="utf-8")
    webhooks = _read(kueue / "webhook" / "manifests.yaml")
    (folder / "kueue-webhooks.json").write_text(json.dumps(webhooks), encoding="utf-8")


def _read(path: Path) -> list[dict]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with path.open(encoding="utf-8") as file:
        return [document for document in yaml.load_all(file, loader) if document]


def _prune() -> None:
    for folder in cache().iterdir():
        is_programs = (folder / "kueue-webhooks.json").exists()
        if is_programs and folder.name != key() and time.time() - folder.stat().st_mtime > UNUSED_SECONDS_MAX:
            shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _lock(path: Path, say) -> Iterator[None]:
    with path.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("== control plane: another build is running, waiting for it")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _go_version() -> str | None:
    try:
        return _go("env", "GOVERSION").strip()
    except (OSError, BuildError):
        return None


def _go(*arguments: str) -> str:
    done = subprocess.run(["go", *arguments], cwd=HERE, env=_environment(), capture_output=True, text=True, check=False)
    if done.returncode:
        raise BuildError(f"go {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()[-2000:]}")
    return done.stdout


def _environment() -> dict[str, str]:
    # The pinned toolchain is the one that is here; without cgo no C compiler is needed and the programs are static.
    return {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOFLAGS": ""}


def main() -> int:
    """Build, or say why not; that is an error only where the plane is required."""
    try:
        if reason := why_not():
            print(f"== control plane: {reason}", flush=True)
            return 1 if mode() == "require" else 0
        binaries = build(say=lambda line: print(line, flush=True))
        print(f"== control plane: ready in {binaries.folder}", flush=True)
    except BuildError as error:
        print(f"== control plane: {error}", file=sys.stderr, flush=True)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
