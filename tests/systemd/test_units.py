"""The units: systemd takes each word of them, they are as closed as we say, and every directive has its reason."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

SYSTEMD = Path(__file__).parents[2] / "systemd"
UNITS = sorted([*SYSTEMD.glob("*.service"), *SYSTEMD.glob("*.socket"), *SYSTEMD.glob("*.timer")])
EXPOSURE_MAX = {
    "trimtab-daemon.service": 2.0,
    "trimtab-agent.service": 4.0,
    "trimtab-backup.service": 2.0,
    "trimtab-digest.service": 2.0,
}
ANALYZE = "systemd-analyze"
PROGRAM = re.compile(r"/usr/lib/trimtab-(?:agent|daemon)/bin/trimtab")


@pytest.fixture
def units(tmp_path: Path) -> list[Path]:
    """The units beside each other, with a program in place of ours, which is not installed here."""
    if shutil.which(ANALYZE) is None:
        pytest.skip(f"{ANALYZE} is missing: apt-get install systemd")
    for unit in UNITS:
        (tmp_path / unit.name).write_text(PROGRAM.sub("/bin/true", unit.read_text()))
    return [tmp_path / unit.name for unit in UNITS]


def test_systemd_has_nothing_to_say_about_any_unit(units: list[Path]):
    # It exits 0 on unknown keys: what counts is that it is silent.
    done = subprocess.run([ANALYZE, "verify", "--man=no", *units], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("name", EXPOSURE_MAX)
def test_a_unit_is_as_closed_as_we_say(name: str, units: list[Path]):
    unit = next(one for one in units if one.name == name)
    threshold = int(EXPOSURE_MAX[name] * 10)
    line = [ANALYZE, "security", "--offline=true", f"--threshold={threshold}", "--no-pager", unit]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-300:]
    print(f"\n{name}: {done.stdout.strip().splitlines()[-1]}")


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_unit_begins_with_what_it_is_for(unit: Path):
    assert unit.read_text().startswith("# ")


@pytest.mark.parametrize("name", ["trimtab-daemon.service", "trimtab-agent.service"])
def test_a_service_is_fed_by_its_beats_and_keeps_its_state(name: str):
    text = (SYSTEMD / name).read_text()
    wanted = ("Type=notify", "WatchdogSec=", "StateDirectory=", "LoadCredential=", "ExecStartPre=", "MemoryMax=")
    assert [one for one in wanted if one not in text] == []


def test_the_agent_sees_the_gpus_and_the_kernel_log_and_the_daemon_does_not():
    agent = (SYSTEMD / "trimtab-agent.service").read_text()
    daemon = (SYSTEMD / "trimtab-daemon.service").read_text()
    assert "PrivateDevices=yes" in daemon
    assert "PrivateDevices=yes" not in agent
    assert "ProtectKernelLogs=yes" not in agent
    assert "DeviceAllow=/dev/kmsg r" in agent
    assert "DeviceAllow=char-nvidia rw" in agent


def test_every_user_of_a_unit_is_made():
    made = set(re.findall(r"^u +(\S+)", (SYSTEMD / "trimtab.sysusers").read_text(), re.MULTILINE))
    used = {user for unit in UNITS for user in re.findall(r"^User=(\S+)", unit.read_text(), re.MULTILINE)}
    assert used == made


@pytest.mark.parametrize("unit", [one for one in UNITS if one.suffix == ".service"], ids=lambda unit: unit.name)
def test_a_unit_runs_nothing_that_a_small_system_lacks(unit: Path):
    # procps, with /bin/kill, is not among what a minimal Debian has: the guest found it out.
    programs = {line.split("=", 1)[1].split()[0] for line in unit.read_text().splitlines() if line.startswith("Exec")}
    assert {one for one in programs if not PROGRAM.fullmatch(one)} <= {"/bin/sh"}
