"""The how-to page: its settings load, its Alertmanager configuration is one, its verbs are there."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tests.alertmanager.scenes import a_frame, an_incident
from tests.fakes.clock import START

from trimtab.cli import _root
from trimtab.model.advice import Action, Severity
from trimtab.settings import DaemonSettings, from_table
from trimtab.show.alertmanager.alerts import alert_for
from trimtab.show.alertmanager.desk import check_settings

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "how-to" / "alertmanager.md").read_text(encoding="utf-8")


def fences(kind: str) -> list[str]:
    """The blocks of a kind, in order."""
    blocks = re.findall(r"^```(\w*)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    return [text for name, text in blocks if name == kind]


def test_its_settings_are_settings() -> None:
    (text,) = fences("toml")
    check_settings(from_table(tomllib.loads(text), DaemonSettings, where="the page").alertmanager)


def test_its_receiver_is_taken_by_alertmanager(tmp_path: Path) -> None:
    if shutil.which("amtool") is None:
        pytest.skip("amtool is missing: apt-get install prometheus-alertmanager")
    (text,) = fences("yaml")
    config = yaml.safe_load(text)
    config["route"]["receiver"] = "trimtab"
    path = tmp_path / "alertmanager.yml"
    path.write_text(yaml.safe_dump(config))
    done = subprocess.run(["amtool", "check-config", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("changes", "receiver"),
    [
        ({}, "on-call"),
        ({"severity": Severity.WARNING}, "day-shift"),
        ({"severity": Severity.INFO}, "notices"),
        ({"action": Action.ALERT_OWNER}, "owners"),
    ],
)
def test_what_is_pushed_is_routed_by_the_sample_configuration(changes: dict, receiver: str) -> None:
    if shutil.which("amtool") is None:
        pytest.skip("amtool is missing: apt-get install prometheus-alertmanager")
    alert = alert_for(an_incident(**changes), None, a_frame(severity_label="severity"), START)
    labels = [f"{name}={value}" for name, value in alert.labels.items()]
    command = ["amtool", "config", "routes", "test", f"--config.file={ROOT / 'alerts' / 'alertmanager.yml'}", *labels]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, receiver), done.stderr


def test_its_verbs_are_there() -> None:
    lines = [line for text in fences("") for line in text.splitlines() if line.startswith("trimtab ")]
    assert len(lines) >= 7
    for line in lines:
        words = []
        for word in line.split()[1:]:
            if word.startswith("-") or not word.isalpha() or len(words) == 2:
                break
            words.append(word)
        assert CliRunner().invoke(_root, [*words, "--help"]).exit_code == 0, line
