"""Alert rules: complete, worded for somebody woken, made of metrics that we export, firing and quiet as they should."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC, datetime

import pytest
import yaml
from tests.alerts.faults import BY_ALERT
from tests.alerts.promtool_tests import ALERTS, TEST_FILE, alert_rules, document

from trimtab.cli import VERBS
from trimtab.detect.detector import catalogue
from trimtab.detect.xid_table import Tier, load_table
from trimtab.inspect.reader import inspect_text
from trimtab.model.advice import Action
from trimtab.model.runbook import ALERT_OF_RULE, PROGRAM_FAULT, runbook_of
from trimtab.settings import DetectSettings

ROOT = ALERTS.parent
RUNBOOKS = ROOT / "docs" / "runbooks"
FILES = sorted(ALERTS.glob("*.rules.yml"))
RULES = alert_rules()
RECORDED = {
    rule["record"]
    for path in FILES
    for group in yaml.safe_load(path.read_text())["groups"]
    for rule in group["rules"]
    if "record" in rule
}
EXPORTED = {
    line.split()[2]
    for page in ("metrics-daemon.txt", "metrics-agent.txt")
    for line in (ROOT / "tests" / "golden" / page).read_text().splitlines()
    if line.startswith("# TYPE ")
}
COUNTERS = {
    line.split()[2]
    for page in ("metrics-daemon.txt", "metrics-agent.txt")
    for line in (ROOT / "tests" / "golden" / page).read_text().splitlines()
    if line.startswith("# TYPE ") and line.endswith(" counter")
}
THEMES = {"finding", "hardware", "agent", "daemon"}


def by_name(rule: dict[str, object]) -> str:
    return str(rule["alert"])


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_a_rule_says_all_that_somebody_woken_needs(rule):
    assert "for" in rule
    assert rule["labels"]["severity"] in ("none", "info", "warning", "critical", "{{ $labels.severity }}")
    assert rule["labels"]["incident"]
    assert rule["labels"]["theme"] in THEMES
    for name in ("summary", "impact", "action", "runbook"):
        assert rule["annotations"][name].strip(), name
    assert rule["annotations"]["runbook"] == f"docs/runbooks/{rule['alert']}.md"
    is_finding = "finding)" in rule["expr"] or "finding," in rule["expr"]
    assert ("link" in rule["annotations"]) == is_finding


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_a_rule_names_only_metrics_that_are_exported(rule):
    expression = re.sub(r'"[^"]*"', '""', rule["expr"])
    assert set(re.findall(r"\btrimtab_\w+", expression)) <= EXPORTED
    assert set(re.findall(r"\btrimtab:[\w:]+", expression)) <= RECORDED


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_functions_of_counters_see_counters_only(rule):
    """Above all no gauge that holds the last XID code: a jump from 0 to 79 is no 79 errors."""
    for function, name in re.findall(r"\b(increase|rate|irate|resets|changes|delta|idelta)\(\s*([\w:]+)", rule["expr"]):
        assert name in COUNTERS, f"{function}({name}): not a counter"
    assert not re.search(r"xid_last_code|DCGM_FI_DEV_XID_ERRORS?", rule["expr"])
    assert not re.search(r"absent(_over_time)?\([^)]*xid", rule["expr"]), "that no XID was logged is no absence"


def test_alerts_have_names_of_their_own():
    names = [rule["alert"] for rule in RULES]
    assert sorted(names) == sorted(set(names))


def test_every_finding_kind_has_its_alert():
    kinds = {detector.name for detector in catalogue(DetectSettings())}
    assert set(ALERT_OF_RULE) == kinds
    by_alert = {rule["alert"]: rule["expr"] for rule in RULES}
    for kind, alert in ALERT_OF_RULE.items():
        assert f'rule="{kind}"' in by_alert[alert]
    assert 'action="alert_owner"' in by_alert[PROGRAM_FAULT]


@pytest.mark.parametrize("kind", ALERT_OF_RULE)
@pytest.mark.parametrize("action", Action)
def test_every_finding_points_at_a_runbook_that_is_there(kind, action):
    assert (ROOT / runbook_of(kind, action)).is_file()
    name = (ROOT / runbook_of(kind, action)).name
    assert runbook_of(kind, action, base="https://wiki.example/gpu/") == f"https://wiki.example/gpu/{name}"


def test_a_finding_of_nobodys_rule_points_nowhere():
    assert runbook_of("of_another_version") == ""


def test_xid_rules_follow_the_table():
    table = load_table().by_code
    codes = {
        name: {int(code) for code in re.findall(r"\d+", re.search(r'code=~"([^"]*)"', rule["expr"])[1])}
        for name, rule in ((rule["alert"], rule) for rule in RULES)
        if name.startswith("TrimtabXid")
    }
    assert codes["TrimtabXidCritical"] == {code for code, row in table.items() if row.tier is Tier.PAGE}
    is_warning = lambda row: row.tier is Tier.CORDON or (row.tier is Tier.TICKET and row.action is not Action.WATCH)  # noqa: E731
    assert codes["TrimtabXidWarning"] == {code for code, row in table.items() if is_warning(row)}


def test_sxid_rule_follows_the_table():
    rule = next(rule for rule in RULES if rule["alert"] == "TrimtabSxidFatal")
    codes = {int(code) for code in re.search(r'code=~"([^"]*)"', rule["expr"])[1].split("|")}
    assert codes == load_table().sxids.always_fatal


def test_every_alert_has_a_fault_that_it_is_tried_with():
    assert set(BY_ALERT) | {"TrimtabAlwaysFiring"} == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_our_own_inspect_finds_nothing_wrong_with_the_rules(path):
    found = inspect_text(path.read_text(), now=datetime(2026, 11, 2, tzinfo=UTC))
    assert found.reading["bad"] == []
    assert found.findings == ()


# --- runbooks

SECTIONS = ("## What it means", "## Check", "## Do", "## When not to")
PAGES = sorted(RUNBOOKS.glob("*.md"))


@pytest.mark.parametrize("rule", RULES, ids=by_name)
def test_every_alert_has_a_runbook_with_its_four_parts(rule):
    text = (RUNBOOKS / f"{rule['alert']}.md").read_text(encoding="utf-8")
    assert text.startswith(f"# {rule['alert']}\n")
    parts = [text.index(section) for section in SECTIONS]
    assert parts == sorted(parts)
    for section, begin, end in zip(SECTIONS, parts, [*parts[1:], len(text)], strict=True):
        assert len(text[begin + len(section) : end].split()) >= 5, section
    assert "`" in text[parts[1] : parts[2]], "a check is a command"


def test_there_is_no_runbook_of_an_alert_that_is_gone():
    assert {path.stem for path in PAGES} - {"README"} == {rule["alert"] for rule in RULES}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_links_of_runbooks_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
        assert (path.parent / target).exists(), target


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_runbooks_name_verbs_that_there_are(path):
    named = set(re.findall(r"`trimtab ([a-z]+)", path.read_text(encoding="utf-8")))
    assert named <= set(VERBS), named - set(VERBS)


def test_the_index_of_runbooks_has_them_all():
    listed = re.findall(r"\]\((\w+)\.md\)", (RUNBOOKS / "README.md").read_text(encoding="utf-8"))
    assert sorted(listed) == sorted(rule["alert"] for rule in RULES)


# --- promtool


def promtool(*arguments):
    if shutil.which("promtool") is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    return subprocess.run(["promtool", *arguments], cwd=ALERTS, capture_output=True, text=True, check=False)


def test_promtool_finds_nothing_wrong_with_the_rules():
    done = promtool("check", "rules", *(path.name for path in FILES))
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtools_tests_are_what_the_faults_say():
    assert TEST_FILE.read_text() == document(), "run: python -m tests.alerts.promtool_tests"


def test_rules_fire_and_stay_quiet_as_they_should():
    done = promtool("test", "rules", TEST_FILE.name)
    assert done.returncode == 0, done.stdout + done.stderr
