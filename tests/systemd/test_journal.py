"""A real journald: `journalctl XID=79` finds the finding and each write; nothing is forged, no secret is written."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.systemd.journal_child import SECRET

ROOT = Path(__file__).parent.parent.parent
JOURNALD = Path("/lib/systemd/systemd-journald")


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[dict[str, Any]]]:
    """What journalctl finds, by match."""
    if not JOURNALD.exists() or shutil.which("systemd-cat") is None:
        pytest.skip("systemd-journald is missing: apt-get install systemd")
    if os.geteuid() != 0:
        pytest.skip("a mount namespace of its own needs root: run the tests as root")
    folder = tmp_path_factory.mktemp("journal")
    done = subprocess.run(
        ["unshare", "--mount", "--propagation", "private", "sh", ROOT / "tests/systemd/journal.sh", folder,
         sys.executable],
        cwd=ROOT, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'daemon'}:{ROOT}"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return {path.stem: [json.loads(line) for line in path.read_text().splitlines()] for path in folder.glob("*=*.json")}


def test_an_xid_finds_the_finding_and_each_write_that_rests_on_it(journal: dict[str, list[dict[str, Any]]]):
    found = journal["XID=79"]
    assert [entry["MESSAGE"].partition(":")[0] for entry in found] == ["finding opened", "audit"]
    first, write = found
    assert (first["PRIORITY"], first["FINDING"], first["NODE"], first["RULE"], first["CLUSTER"]) == (
        "4", "F31", "gpu-07", "device_fault", "hall-a",
    )  # fmt: skip
    assert (write["COMMAND"], write["FINDING"], write["TRIMTAB_WHAT"]) == ("R11", "F31", "cordon gpu-07")
    assert [entry["MESSAGE"] for entry in journal["COMMAND=R11"]] == [write["MESSAGE"]]
    assert len(journal["FINDING=F31"]) == 2


def test_what_a_kernel_line_says_makes_no_field_and_no_second_line(journal: dict[str, list[dict[str, Any]]]):
    assert journal["XID=13"] == []
    said = journal["XID=79"][0]["MESSAGE"]
    assert r"fell off\nPRIORITY=0\nXID=13\n\x1b[2J\u202eevil" in said
    assert all(isinstance(entry["MESSAGE"], str) for entry in journal["SYSLOG_IDENTIFIER=trimtab-daemon"])
    for entry in journal["SYSLOG_IDENTIFIER=trimtab-daemon"]:
        assert not any(ord(character) < 32 for value in entry.values() for character in str(value))


def test_no_secret_is_written_not_even_by_what_ends_the_process(journal: dict[str, list[dict[str, Any]]]):
    entries = journal["SYSLOG_IDENTIFIER=trimtab-daemon"]
    assert SECRET not in json.dumps(entries)
    assert "Bearer *** at postgresql://u:***@db/x" in next(
        entry["MESSAGE"] for entry in entries if entry["PRIORITY"] == "3"
    )
    last = entries[-1]
    assert (last["PRIORITY"], last["MESSAGE"]) == ("2", "ended by an error: RuntimeError: nobody knows this: ***")
    assert r"Traceback (most recent call last):\n" in last["TRIMTAB_TRACE"]


def test_what_was_rolled_back_is_not_told(journal: dict[str, list[dict[str, Any]]]):
    assert "never happened" not in json.dumps(journal)
