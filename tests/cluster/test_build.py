"""Building: once for all, whole or not at all; a missing plane is named, and a failure where it is required."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cluster import build
from tests.cluster.client import wait_for

ROOT = Path(build.__file__).parents[2]
FAKE_GO = """#!/bin/sh
case "$1 $2" in
  "env GOVERSION") echo {version} ;;
  "version ") echo "go version {version} linux/amd64" ;;
  "list -deps") echo a b c ;;
  "list -m") echo {module} ;;
  build*)
    echo build >> {log}
    {outcome}
    while [ "$1" != -o ]; do shift; done
    echo program > "$2/etcd" ;;
esac
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A PATH without Go, and an empty cache."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("sh", "git", "sleep"):
        (folder / name).symlink_to(f"/usr/bin/{name}")
    return folder


def put_go(path: Path, *, version: str = "go1.26.8", outcome: str = ":") -> None:
    module = path.parent / "kueue"
    for name in ("crd/bases", "webhook"):
        (module / "config" / "components" / name).mkdir(parents=True)
    (module / "config" / "components" / "crd" / "bases" / "a.yaml").write_text("kind: A\n", encoding="utf-8")
    (module / "config" / "components" / "webhook" / "manifests.yaml").write_text("kind: B\n", encoding="utf-8")
    program = path / "go"
    log = path.parent / "log"
    program.write_text(FAKE_GO.format(version=version, module=module, log=log, outcome=outcome), encoding="utf-8")
    program.chmod(0o755)


def environment(path: Path, **changes: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("TRIMTAB_")}
    return inherited | {"PATH": str(path), "XDG_CACHE_HOME": str(path.parent / "cache")} | changes


def start(path: Path, *arguments: str, **changes: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        cwd=ROOT,
        env=environment(path, **changes),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def run(path: Path, *arguments: str, **changes: str) -> tuple[int, str]:
    with start(path, *arguments, **changes) as process:
        said = process.communicate()[0]
    return process.returncode, said


BUILD = "tests.cluster.build"
A_TEST = f"{Path(__file__).parent}/test_plane.py::test_the_plane_boots_and_serves_what_it_promises"
PYTEST = ("pytest", "-q", "-p", "no:cacheprovider", A_TEST)

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="not root: run the tests as root")


@needs_root
@pytest.mark.parametrize(
    ("version", "reason"), [(None, "no Go toolchain"), ("go1.19.8", "go1.19.8 is too old"), ("go1.26.1", None)]
)
def test_a_missing_or_old_go_is_named_with_what_to_do(path: Path, version: str | None, reason: str | None) -> None:
    if version:
        put_go(path, version=version)
    code, said = run(path, BUILD)
    assert code == 0
    assert (f"{reason}" in said and "https://go.dev/dl" in said) if reason else "ready in" in said
    code, said = run(path, BUILD, TRIMTAB_CLUSTER="require")
    assert code == (1 if reason else 0), said


@needs_root
def test_without_the_plane_its_tests_skip_and_where_it_is_required_they_fail(path: Path) -> None:
    code, said = run(path, *PYTEST)
    assert code == 0, said
    assert re.search(r"SKIPPED .* no Go toolchain: real control plane not built; install Go", said)
    code, said = run(path, *PYTEST, TRIMTAB_CLUSTER="require")
    assert code == 1
    assert "no Go toolchain" in said
    put_go(path)
    code, said = run(path, *PYTEST)
    assert "the real control plane is not built: run `python -m tests.cluster.build`" in said


@needs_root
def test_two_at_once_build_once(path: Path) -> None:
    log, go_on = path.parent / "log", path.parent / "go-on"
    put_go(path, outcome=f"while [ ! -e {go_on} ]; do sleep 0.1; done")
    with start(path, BUILD) as first:
        wait_for(log.exists, "the first at work")
        with start(path, BUILD) as second:
            assert second.stdout is not None
            assert "another build is running" in second.stdout.readline()
            go_on.touch()
            said = first.communicate()[0] + second.communicate()[0]
    assert (first.returncode, second.returncode) == (0, 0), said
    assert log.read_text(encoding="utf-8") == "build\n"
    code, said = run(path, BUILD)
    assert (code, "about 15 minutes" in said) == (0, False)


@needs_root
def test_a_failed_build_says_how_and_leaves_nothing(path: Path) -> None:
    put_go(path, outcome="echo the disk is full >&2; exit 1")
    code, said = run(path, BUILD)
    assert code == 1
    assert "go build ended with 1:\nthe disk is full" in said
    assert [found.name for found in (path.parent / "cache" / "trimtab-cluster").iterdir()] == ["build.lock"]


def test_a_word_that_means_nothing_is_refused(path: Path) -> None:
    code, said = run(path, BUILD, TRIMTAB_CLUSTER="maybe")
    assert code == 1
    assert "TRIMTAB_CLUSTER=maybe means nothing: use require, off, or leave it unset" in said
