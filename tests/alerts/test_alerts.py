"""Alert rules: each names only metrics that we export, says what to do, has a runbook, and passes promtool's tests."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent.parent
RULES_FILE = ROOT / "alerts" / "trimtab.rules.yml"
RULES = [rule for group in yaml.safe_load(RULES_FILE.read_text())["groups"] for rule in group["rules"]]
EXPORTED = {
    line.split()[2]
    for page in ("metrics-daemon.txt", "metrics-agent.txt")
    for line in (ROOT / "tests" / "golden" / page).read_text().splitlines()
    if line.startswith("# TYPE ")
}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_says_all_that_somebody_woken_needs(rule):
    assert "for" in rule
    assert rule["labels"]["severity"] in ("none", "warning", "critical")
    assert {"summary", "impact", "action", "runbook"} <= rule["annotations"].keys()
    assert (ROOT / rule["annotations"]["runbook"]).read_text().startswith(f"# {rule['alert']}")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_a_rule_names_only_metrics_that_are_exported(rule):
    assert set(re.findall(r"\btrimtab_\w+", rule["expr"])) <= EXPORTED


def promtool(*arguments):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    return subprocess.run(["promtool", *arguments], cwd=ROOT / "alerts", capture_output=True, text=True, check=False)


def test_promtool_finds_nothing_wrong_with_the_rules():
    done = promtool("check", "rules", RULES_FILE.name)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_fire_and_stay_quiet_as_they_should():
    done = promtool("test", "rules", "trimtab.test.yml")
    assert done.returncode == 0, done.stdout + done.stderr
