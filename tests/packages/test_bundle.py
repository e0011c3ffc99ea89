"""The bundle: the same bytes twice, and installed without a network by every supported Python at hand."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from packages.ground import sha256, version
from packages.wheels import PYTHONS, Target
from packages.wheels import locked as locked_wheels
from tests.packages.built import EPOCH, ROOT, locked

from packages import bundle

NO_NETWORK = ("unshare", "--net", "--map-root-user") if os.geteuid() else ("unshare", "--net")


def pythons_at_hand() -> list[str]:
    """Supported Pythons of this machine; where pyenv's stand-ins are on the PATH, the real programs behind them."""
    found = {}
    for number in PYTHONS:
        for place in (
            f"/usr/bin/python{number}",
            *map(str, sorted((Path.home() / ".pyenv/versions").glob(f"{number}*/bin/python3"))),
        ):
            if number not in found and Path(place).exists():
                found[number] = place
    return list(found.values())


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with locked("bundle"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", EPOCH)
        made = bundle.build(tmp_path_factory.mktemp("bundle"), machine=os.uname().machine, pythons=PYTHONS)
    print(f"\n{made.name}: {made.stat().st_size / 1e6:.1f} MB")
    return made


@pytest.fixture(scope="module")
def unpacked(archive: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(archive.parent / "unpacked", filter="data")
    [folder] = (archive.parent / "unpacked").iterdir()
    return folder


def installer(folder: Path, *words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """The installer in a network of its own, which has no way out, and with no word of pip's from outside."""
    quick = {"PIP_NO_COMPILE": "1"}
    env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "LC_ALL": "C.UTF-8", **quick, **environment}
    line = [*NO_NETWORK, "sh", folder / "install.sh", *words]
    return subprocess.run(
        line, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=folder.parent
    )


def out(*line: str | Path) -> str:
    done = subprocess.run(
        [*NO_NETWORK, *line], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert "Traceback" not in done.stdout, done.stdout
    return done.stdout


def test_the_same_source_gives_the_same_bundle(archive: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", EPOCH)
    was = os.umask(0o077)
    try:
        again = bundle.build(tmp_path / "elsewhere", machine=os.uname().machine, pythons=PYTHONS)
    finally:
        os.umask(was)
    assert sha256(again) == sha256(archive)


def test_every_supported_python_is_served(unpacked: Path):
    names = [path.name for path in (unpacked / "wheels").iterdir()]
    for number in PYTHONS:
        target = Target(python=number, machine=os.uname().machine)
        wanted = {name for name in locked_wheels() if target.takes(name)}
        assert wanted <= set(names)
        assert len({name.split("-")[0] for name in wanted}) == len(wanted)  # one version of each
    assert f"trimtab-{version()}-py3-none-any.whl" in names


@pytest.mark.parametrize("python", pythons_at_hand(), ids=lambda path: path.strip("/").replace("/", "-"))
def test_it_is_installed_without_a_network_and_runs(unpacked: Path, tmp_path: Path, python: str):
    into = tmp_path / "trimtab"
    done = installer(unpacked, "--into", into, "--python", python)
    assert done.returncode == 0, done.stdout
    program = into / "bin" / "trimtab"
    assert out(program, "--version") == f"trimtab, version {version()}\n"
    assert "Usage: trimtab agent" in out(program, "agent", "--help")
    assert "Usage: trimtab daemon" in out(program, "daemon", "--help")
    assert "daemon" in out(program, "doctor")
    checked = out(
        into / "bin" / "python", "-c", "import sqlalchemy, numpy, uvloop, psycopg, cryptography; print('all there')"
    )
    assert checked == "all there\n"


def test_what_is_wrong_is_said_with_its_fix(unpacked: Path, tmp_path: Path):
    assert "sudo sh install.sh --service agent" in installer(unpacked, "--help").stdout
    for words, said in (
        (["--python", "/usr/bin/nothing"], "there is no /usr/bin/nothing here"),
        (["--service", "page"], "--service page: it is agent or daemon"),
        (["--prefix", "x"], "--prefix is not known"),
        (["--into"], "--into needs a value"),
    ):
        done = installer(unpacked, *words)
        assert (done.returncode, said in done.stdout) == (1, True), done.stdout
    assert not (unpacked.parent / "trimtab").exists()


def test_a_python_that_it_has_no_wheels_for_is_refused(unpacked: Path, tmp_path: Path):
    old = tmp_path / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.9" && exit 0\nexit 1\n')
    old.chmod(0o755)
    done = installer(unpacked, "--python", old, "--into", tmp_path / "x")
    assert done.returncode == 1
    assert "is Python 3.9.9; this bundle has wheels for Python 3.11 3.12 3.13" in done.stdout


def test_a_damaged_bundle_is_refused(unpacked: Path, tmp_path: Path):
    damaged = tmp_path / "damaged"
    shutil.copytree(unpacked, damaged, copy_function=os.link)
    wheel = next((damaged / "wheels").glob("click-*.whl"))
    wheel.unlink()
    wheel.write_bytes(b"half of it")
    done = installer(damaged, "--into", tmp_path / "x", "--python", pythons_at_hand()[0])
    assert (done.returncode, "the bundle is damaged" in done.stdout) == (1, True), done.stdout
    assert "click-" in done.stdout


def test_the_lock_answers_all_that_the_project_asks_for():
    """An edit of pyproject.toml without a new lock is said before a package is built of it."""
    import tomllib

    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name, parse_wheel_filename

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = [Requirement(one) for one in (*project["dependencies"], *project["optional-dependencies"]["daemon"])]
    there: dict[str, set[str]] = {}
    for name in locked_wheels():
        found, number, _, _ = parse_wheel_filename(name)
        there.setdefault(canonicalize_name(found), set()).add(str(number))
    for one in asked:
        versions = there.get(canonicalize_name(one.name), set())
        assert len(versions) == 1, f"{one.name}: {versions or 'not locked'}: make wheels-lock"
        assert versions <= set(one.specifier.filter(versions)), f"{one}: locked is {versions}: make wheels-lock"
