"""The image: the same bytes over the same Debian, and its command run from what umoci unpacks, as a container would be.

In every run it is built over the guests' Debian; with `long`, over its own by mmdebstrap, twice.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import requests
from packages.ground import version
from tests.guest.root import guest_root
from tests.packages.built import EPOCH, ROOT, Debs
from tests.system.processes import free_port

from packages import image

LEFT_OUT = ("usr/share/doc", "usr/share/locale", "usr/lib/x86_64-linux-gnu/systemd", "usr/lib/systemd", "usr/lib/udev")
"""Of the guests' Debian: no image has it."""


@dataclass(frozen=True, slots=True)
class Unpacked:
    """What a container engine has of the image: a root file system, and what to run in it as whom."""

    root: Path
    process: dict[str, Any]
    layout: Path


def build(into: Path, debs: Debs, *words: str | Path) -> Path:
    line = [sys.executable, "-m", "packages.image", "--into", into, "--deb", debs.daemon, *words]
    env = {**os.environ, "SOURCE_DATE_EPOCH": EPOCH}
    done = subprocess.run(line, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    print("\n" + done.stdout)
    shutil.rmtree(into / "stage")
    return into / "oci"


def manifest(layout: Path) -> str:
    index = json.loads((layout / "index.json").read_text())
    found: str = index["manifests"][0]["digest"]
    return found


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory, has_guests: None) -> Path:
    """The guests' Debian as one .tar, without what no image has."""
    root = guest_root()
    assert root.kind == "debian", "the image stands on a Debian: its mirror does not answer, or mmdebstrap is missing"
    made = tmp_path_factory.mktemp("base") / "base.tar"
    left_out = [f"--exclude=./{one}" for one in (*LEFT_OUT, "proc/*", "sys/*", "dev/*", "var/lib/apt", "var/cache")]
    line = [
        "tar",
        "--create",
        "--sort=name",
        "--numeric-owner",
        "--file",
        made,
        "--directory",
        root.path,
        *left_out,
        ".",
    ]
    subprocess.run(line, check=True)
    return made


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory, base: Path, debs: Debs) -> Iterator[Unpacked]:
    if shutil.which("umoci") is None:
        pytest.skip("umoci is missing: apt-get install umoci")
    place = tmp_path_factory.mktemp("image")
    layout = build(place, debs, "--base", base)
    bundle = place / "bundle"
    line = ["umoci", "unpack", "--image", f"{layout}:latest", bundle]
    subprocess.run(line, check=True, capture_output=True)
    config = json.loads((bundle / "config.json").read_text())
    yield Unpacked(root=bundle / "rootfs", process=config["process"], layout=layout)
    shutil.rmtree(bundle)


def command(image_: Unpacked, *args: str, binds: tuple[str, ...] = ()) -> list[str]:
    """As the manifests ask: a root that nobody can write, no privileges, the image's own user, entrypoint and words."""
    process = image_.process
    line = ["systemd-nspawn", "--quiet", "--register=no", "--keep-unit", f"--directory={image_.root}", "--read-only"]
    line += ["--user=trimtab", "--no-new-privileges=yes", "--drop-capability=all", "--tmpfs=/tmp"]
    line += ["--console=pipe", "--resolv-conf=off"]
    line += [f"--setenv={one}" for one in process["env"]] + list(binds)
    return ["setpriv", "--pdeathsig", "KILL", "--", *line, "--", *process["args"][:1], *args]


def out(image_: Unpacked, *args: str, binds: tuple[str, ...] = ()) -> str:
    line = command(image_, *args, binds=binds)
    done = subprocess.run(
        line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_it_runs_as_the_user_that_the_manifests_name_by_its_own_command(unpacked: Unpacked):
    assert (unpacked.process["user"]["uid"], unpacked.process["user"]["gid"]) == (image.UID, image.UID)
    assert unpacked.process["args"] == ["trimtab", "--help"]
    passwd = (unpacked.root / "etc/passwd").read_text()
    assert f"trimtab:x:{image.UID}:{image.UID}:" in passwd
    for volume in image.VOLUMES:
        assert (unpacked.root / volume.lstrip("/")).stat().st_uid == image.UID
    assert out(unpacked, *unpacked.process["args"][1:]).startswith("Usage: trimtab")
    assert out(unpacked, "--version").startswith("trimtab, version")


def test_an_agent_of_it_reads_its_node_over_a_root_that_cannot_be_written(unpacked: Unpacked):
    assert "gpu" in out(unpacked, "agent", "--once", "--print").lower()
    compiled = list((unpacked.root / "usr/lib/trimtab-daemon").rglob("trimtab/__pycache__/agent.*.pyc"))
    assert len(compiled) == 1  # nothing could be compiled there later


def test_a_daemon_of_it_answers_and_ends_when_it_is_told_to(unpacked: Unpacked, tmp_path: Path):
    state, settings = tmp_path / "state", tmp_path / "settings"
    for folder in (state, settings):
        folder.mkdir()
    os.chown(state, image.UID, image.UID)  # fsGroup does that
    people, ingest = free_port(), free_port()
    listens = f'[people]\nlisten = "127.0.0.1:{people}"\n[ingest]\nlisten = "127.0.0.1:{ingest}"\n'
    (settings / "daemon.toml").write_text(f'cluster = "hall-a"\n{listens}')
    binds = (f"--bind={state}:/var/lib/trimtab", f"--bind-ro={settings}:/etc/trimtab")
    with (tmp_path / "said").open("wb") as said:
        line = command(unpacked, "daemon", "--settings", "/etc/trimtab/daemon.toml", binds=(*binds, "--as-pid2"))
        running = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        assert _eventually(lambda: _is_healthy(people) or running.poll() is not None)
        assert running.poll() is None, (tmp_path / "said").read_text()
        assert (state / "trimtab.db").stat().st_uid == image.UID
        assert "Usage" not in out(unpacked, "db", "check", binds=binds)
    finally:
        running.send_signal(signal.SIGTERM)
        running.wait(60)


def _is_healthy(port: int) -> bool:
    try:
        return requests.get(f"http://127.0.0.1:{port}/healthz", timeout=2).status_code == 200
    except requests.ConnectionError:
        return False


def _eventually(look: Any, seconds: float = 120.0) -> bool:
    pause, ends_at = threading.Event(), time.monotonic() + seconds
    while time.monotonic() < ends_at:
        if look():
            return True
        pause.wait(0.2)
    return False


def test_the_layout_is_of_two_layers_and_bears_both_tags(unpacked: Unpacked):
    index = json.loads((unpacked.layout / "index.json").read_text())
    tags = {one["annotations"]["org.opencontainers.image.ref.name"]: one["digest"] for one in index["manifests"]}
    assert set(tags) == {"latest", version()}
    assert len(set(tags.values())) == 1
    sizes = dict(image.layers(unpacked.layout))
    assert len(sizes) == 2
    print(f"\nlayers: {', '.join(f'{size / 1e6:.1f} MB' for size in sizes.values())}")


@pytest.mark.long
def test_the_image_over_its_own_debian_is_the_same_twice_and_runs(tmp_path: Path, debs: Debs):
    first, second = build(tmp_path / "one", debs), build(tmp_path / "two", debs)
    assert manifest(first) == manifest(second)
    bundle = tmp_path / "bundle"
    subprocess.run(["umoci", "unpack", "--image", f"{first}:latest", bundle], check=True, capture_output=True)
    config = json.loads((bundle / "config.json").read_text())
    made = Unpacked(root=bundle / "rootfs", process=config["process"], layout=first)
    assert out(made, "--version").startswith("trimtab, version")
    assert out(made, "db", "check", "--help").startswith("Usage: trimtab db check")
