"""The .debs: the same bytes wherever they are built, everything inside and nothing else, fit for Debian's own rules."""

from __future__ import annotations

import functools
import gzip
import hashlib
import re
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from packages.ground import sha256
from tests.packages import built
from tests.packages.built import Debs

from packages import deb as recipe

AGENT_BYTES_MAX = 15_000_000
DAEMON_BYTES_MAX = 60_000_000


@pytest.fixture(params=["agent", "daemon"])
def package(request: pytest.FixtureRequest, debs: Debs) -> Path:
    return debs.agent if request.param == "agent" else debs.daemon


@functools.cache
def members(deb: Path) -> list[tuple[tarfile.TarInfo, bytes]]:
    data = subprocess.run(["dpkg-deb", "--fsys-tarfile", deb], capture_output=True, check=True).stdout
    with tarfile.open(fileobj=BytesIO(data)) as tar:
        found = []
        for member in tar:
            file = tar.extractfile(member) if member.isreg() else None
            found.append((member, file.read() if file is not None else b""))
        return found


def control(deb: Path, name: str) -> str:
    line = ["dpkg-deb", "--info", deb, name]
    return subprocess.run(line, capture_output=True, text=True, check=True).stdout


def texts(deb: Path) -> dict[str, bytes]:
    return {member.name.removeprefix("./"): data for member, data in members(deb)}


def test_the_same_source_gives_the_same_bytes_elsewhere_later_and_under_another_umask(tmp_path: Path, debs: Debs):
    """Elsewhere, with other modes of the source's files, and no history beside it."""
    first = debs.agent.parent / "source"
    source = built.copy_of_the_source(first, tmp_path / "a folder" / "deeper")
    for path in source.rglob("*"):
        path.chmod(0o700 if path.is_dir() else 0o600)
    said = built.build(source, tmp_path / "made", umask=0o077, TZ="Asia/Tokyo", LC_ALL="C")
    print("\n" + "\n".join(said))
    made = {path.name: sha256(path) for path in (tmp_path / "made").glob("*.deb")}
    assert made == {path.name: sha256(path) for path in (debs.agent, debs.daemon)}


def test_packages_are_small(debs: Debs):
    sizes = {deb.name: deb.stat().st_size for deb in (debs.agent, debs.daemon)}
    for name, size in sizes.items():
        print(f"\n{name}: {size / 1e6:.1f} MB")
    assert sizes[debs.agent.name] <= AGENT_BYTES_MAX
    assert sizes[debs.daemon.name] <= DAEMON_BYTES_MAX


def test_everything_is_roots_of_one_time_and_of_two_modes(package: Path):
    for member, _ in members(package):
        assert (member.uid, member.gid) == (0, 0), member.name
        assert member.mtime == int(built.EPOCH), member.name
        if not member.issym():
            assert member.mode in ((0o755,) if member.isdir() else (0o644, 0o755)), (member.name, oct(member.mode))


def test_only_programs_can_be_run(package: Path):
    runnable = {member.name for member, _ in members(package) if member.isreg() and member.mode & 0o111}
    assert {name.rsplit("/", 1)[0].rsplit("/", 1)[1] for name in runnable} == {"bin"}


def test_nothing_of_the_build_is_inside(package: Path):
    here = str(built.ROOT).encode()
    for member, data in members(package):
        assert here not in data, member.name
        name = member.name.rsplit("/", 1)[-1]
        assert not name.endswith((".pyc", ".pth", ".orig", "~")), member.name
        assert name not in ("RECORD", "direct_url.json", "INSTALLER", "pip"), member.name


def test_each_program_is_run_by_the_systems_python_alone(package: Path):
    programs = {member.name: data for member, data in members(package) if "/bin/" in member.name and not member.isdir()}
    assert sorted(name.rsplit("/", 1)[1] for name in programs) == ["python3", "trimtab"]
    [script] = [data for name, data in programs.items() if name.endswith("/trimtab")]
    assert re.match(rb"#!/usr/lib/trimtab-(agent|daemon)/bin/python3 -I\n", script)


def test_the_agents_package_has_nothing_of_the_daemons(debs: Debs):
    top = {name.split("site-packages/")[1].split("/")[0] for name in texts(debs.agent) if "site-packages/" in name}
    assert top & {"numpy", "sqlalchemy", "starlette", "uvicorn", "psycopg", "lightkube", "babel", "alembic"} == set()
    assert {"trimtab", "msgspec", "requests"} <= top


def test_control_says_what_debian_asks_for(package: Path):
    said = control(package, "control")
    fields = dict(line.split(": ", 1) for line in said.splitlines() if not line.startswith(" "))
    asked = {"Package", "Version", "Architecture", "Maintainer", "Installed-Size", "Depends", "Section", "Priority"}
    assert asked <= fields.keys()
    assert re.fullmatch(r"\d+\.\d+\.\d+-\d+\+py3\.\d+", fields["Version"])
    assert len(fields["Description"]) <= 80
    assert not fields["Description"].startswith(("a ", "the ", "trimtab"))
    assert [line for line in said.splitlines() if len(line) > 80 and line.startswith(" ")] == []
    assert re.search(r"python3 \(>= 3\.\d+\), python3 \(<< 3\.\d+\), libc6 \(>= 2\.\d+\)", fields["Depends"])
    unpacked = sum(-(-member.size // 1024) for member, _ in members(package) if member.isreg())
    assert int(fields["Installed-Size"]) == unpacked


def test_sums_and_conffiles_name_what_is_there(package: Path):
    files = texts(package)
    sums = [line.split("  ") for line in control(package, "md5sums").splitlines()]
    assert {name: hashlib.md5(files[name]).hexdigest() for _, name in sums} == {name: total for total, name in sums}
    [conffile] = control(package, "conffiles").split()
    assert conffile.removeprefix("/") in files


def test_maintainer_scripts_are_sound_shell_with_nothing_left_to_fill_in(package: Path, tmp_path: Path):
    for name in ("preinst", "postinst", "prerm", "postrm"):
        script = tmp_path / name
        script.write_text(control(package, name))
        assert script.read_text().startswith("#!/bin/sh\n# ")
        assert "\nset -e\n" in script.read_text()
        assert re.findall(r"@[A-Z_]+@", script.read_text()) == []
        for shell in ("dash", "bash"):
            done = subprocess.run([shell, "-n", script], capture_output=True, text=True, check=False)
            assert (done.returncode, done.stderr) == (0, "")


def test_every_unit_is_in_one_of_the_packages(debs: Debs):
    shipped = [
        Path(name).name for deb in (debs.agent, debs.daemon) for name in texts(deb) if "systemd/system/trimtab" in name
    ]
    units = [path.name for path in recipe.SYSTEMD.iterdir() if path.suffix in (".service", ".socket", ".timer")]
    assert sorted(shipped) == sorted(units)


def test_copyright_names_each_distribution_inside_with_its_licence(package: Path):
    files = texts(package)
    [copyright_file] = [data.decode() for name, data in files.items() if name.endswith("/copyright")]
    inside = {name.split("site-packages/")[1].split("/")[0] for name in files if ".dist-info/" in name}
    for one in inside:
        if not one.startswith("trimtab-"):
            assert one in copyright_file, one
    for text in re.findall(r"Its text: /(\S+)", copyright_file):
        assert text in files, text
    print(f"\n{package.name}: {len(inside)} distributions inside")


def test_papers_are_there_and_say_what_they_should(package: Path):
    files = texts(package)
    name = package.name.split("_")[0]
    changelog = gzip.decompress(files[f"usr/share/doc/{name}/changelog.Debian.gz"]).decode()
    version = package.name.split("_")[1]
    assert changelog.startswith(f"{name} ({version}) stable; urgency=")
    manual = gzip.decompress(files[f"usr/lib/{name}/share/trimtab.1.gz"]).decode()
    assert manual.startswith('.TH TRIMTAB 1 "2026-01-01"')
    for verb in ("AGENT", "DAEMON", "STATUS", "DB BACKUP", "RELEASE"):
        assert f'.SH "TRIMTAB {verb}"' in manual
    for shell, word in (("bash", b"complete"), ("zsh", b"#compdef trimtab"), ("fish", b"complete")):
        assert word in files[f"usr/lib/{name}/share/trimtab.{shell}"]
