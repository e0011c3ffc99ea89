"""`trimtab setup` from an installed package, and where the history's address comes from."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.setup.conftest import ROOT, Host

from trimtab.errors import SettingsError
from trimtab.setup.history import postgres_of
from trimtab.setup.shipped import shipped

FLEET = "etc/grafana/provisioning/dashboards/trimtab/trimtab-fleet.json"


@pytest.mark.parametrize(
    ("url", "address", "ssl_mode"),
    [
        ("postgresql://u@/name?host=/var/run/postgresql", "/var/run/postgresql", "disable"),
        ("postgresql+psycopg://u:p@localhost/name", "localhost:5432", "disable"),
        ("postgresql://u@[2001:db8::1]:5433/name", "[2001:db8::1]:5433", "require"),
        ("postgresql://u@db/name?sslmode=verify-full", "db:5432", "verify-full"),
    ],
)
def test_the_address_of_the_history_is_read_from_the_daemons_settings(url: str, address: str, ssl_mode: str) -> None:
    found = postgres_of(url)
    assert found is not None
    assert (found.address, found.database, found.ssl_mode) == (address, "name", ssl_mode)


def test_a_history_in_sqlite_is_none_that_grafana_could_read() -> None:
    assert postgres_of("sqlite:///trimtab.db") is None


@pytest.mark.parametrize("url", ["postgresql://u@db", "postgresql://u@db:port/x"])
def test_an_address_that_is_none_is_refused_with_the_right_form(url: str) -> None:
    with pytest.raises(SettingsError, match="postgresql://USER@HOST:PORT/NAME"):
        postgres_of(url)


# --- what is shipped


def test_the_wheel_brings_every_dashboard_and_rule_and_works_from_there(host: Host, tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path / "wheel")]
    made = subprocess.run(build, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert made.returncode == 0, made.stderr
    (wheel,) = (tmp_path / "wheel").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "installed")
    files = tmp_path / "installed" / "trimtab" / "setup" / "files"
    for folder, pattern in (("dashboards", "*.json"), ("alerts", "*.yml")):
        here = {path.name: path.read_text() for path in (ROOT / folder).glob(pattern)}
        assert {path.name: path.read_text() for path in (files / folder).iterdir()} == here, folder
    host.with_grafana().with_prometheus()
    command = [
        sys.executable,
        "-c",
        "import trimtab.cli as c; print(c.__file__); c.main()",
        "setup",
        "--root",
        str(host.root),
    ]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "installed")}
    ran = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(str(tmp_path / "installed"))
    assert (host.root / FLEET).read_text() == (ROOT / "dashboards" / "trimtab-fleet.json").read_text()


def test_an_installation_without_its_files_says_so(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="without its dashboards"):
        shipped(tmp_path)
